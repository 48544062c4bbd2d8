"""Who a request is: the one order of credentials, for ``/api`` and for the event stream.

Session cookie, then (when absent or no longer good) the bearer admin token, then a bearer session token.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from django.conf import settings

from modelhotel.accounts import admin_token, sessions
from modelhotel.core.actor import ADMIN, Actor
from modelhotel.core.text import clip
from modelhotel.models import User

NO_CREDENTIALS = "Authorization header required (Bearer token)"
WRONG_TOKEN = "Invalid admin token"
FORBIDDEN = "insufficient permissions"
#: The grant of an account without staff status that lets it see its own requests.
LOGS_PERMISSION = "requestlogs.view_requestlog"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller. *user* is None for the bearer admin token."""

    actor: Actor
    user: User | None = None
    grants: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request presented; never logged."""

    session: str = ""
    bearer: str = ""

    @property
    def session_keys(self) -> frozenset[str]:
        """The stored keys under which these credentials may be a session."""
        return frozenset(sessions.key_of(token) for token in (self.session, self.bearer) if token)

    def __repr__(self) -> str:
        return f"Credentials(session={bool(self.session)}, bearer={bool(self.bearer)})"


def bearer_of(authorization: str) -> str:
    """The token of an ``Authorization`` header; empty when it is no bearer."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def presented(headers: Iterable[tuple[bytes, bytes]]) -> Credentials:
    """The credentials among ASGI headers."""
    session = bearer = ""
    for name, value in headers:
        if name == b"cookie":
            session = session or _cookie(value.decode("latin-1"))
        elif name == b"authorization":
            bearer = bearer_of(value.decode("latin-1"))
    return Credentials(session, bearer)


def _cookie(text: str) -> str:
    try:
        jar = SimpleCookie(text)
    except CookieError:
        return ""
    found = jar.get(settings.SESSION_COOKIE_NAME)
    return found.value if found else ""


def of_user(user: User) -> Identity:
    actor = user.actor
    grants = frozenset({"logs"}) if actor.role == "user" and user.has_perm(LOGS_PERMISSION) else frozenset()
    return Identity(actor, user, grants)


def of_bearer(token: str) -> Identity | None:
    if admin_token.matches(token):
        return Identity(ADMIN)
    user = sessions.user_of(token)
    return of_user(user) if user else None


def who(credentials: Credentials) -> Identity | None:
    """None when nothing presented is good. Reads the database; never counts as use of a session."""
    if credentials.session and (user := sessions.user_of(credentials.session)):
        return of_user(user)
    return of_bearer(credentials.bearer) if credentials.bearer else None


def refused_text(credentials: Credentials) -> str:
    """The 401 text for credentials that were no good."""
    return WRONG_TOKEN if credentials.bearer else NO_CREDENTIALS


def log_path(path: str) -> str:
    """*path* for a log line, without the query."""
    return clip(path.partition("?")[0], 200)
