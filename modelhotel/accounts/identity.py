"""Who a request is: the one order of credentials, for ``/api`` and for the event stream.

Session cookie, then (when absent or no longer good) the bearer admin token, then a bearer session token.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase

from modelhotel.accounts import admin_token, grants, sessions
from modelhotel.core.actor import ADMIN, Actor
from modelhotel.core.text import clip
from modelhotel.models import User

NO_CREDENTIALS = "Authorization header required (Bearer token)"
WRONG_TOKEN = "Invalid admin token"
FORBIDDEN = "insufficient permissions"


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller. *user* is None for the bearer admin token; *by_token*: the admin token opened it."""

    actor: Actor
    user: User | None = None
    grants: frozenset[str] = frozenset()
    by_token: bool = False


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


def of_user(user: User, session: SessionBase) -> Identity:
    return Identity(user.actor, user, grants.of(user), bool(session.get(sessions.BY_TOKEN)))


def of_session(token: str) -> Identity | None:
    """Never counts as use of the session."""
    found = sessions.signed_in(token)
    return of_user(*found) if found else None


def of_bearer(token: str) -> Identity | None:
    if admin_token.matches(token):
        return Identity(ADMIN, by_token=True)
    return of_session(token)


def who(credentials: Credentials) -> Identity | None:
    """None when nothing presented is good. Reads the database; never counts as use of a session."""
    if credentials.session and (identity := of_session(credentials.session)):
        return identity
    return of_bearer(credentials.bearer) if credentials.bearer else None


def log_path(path: str) -> str:
    """*path* for a log line, without the query."""
    return clip(path.partition("?")[0], 200)
