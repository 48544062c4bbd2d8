"""What stands in front of every endpoint of ``/api``: who it is, whether they may, and the CSRF check."""

import logging
import re

from django.contrib.auth import get_user
from django.db import close_old_connections
from django.http import HttpRequest

from modelhotel.accounts import csrf, demo, throttles
from modelhotel.accounts.demo import SAFE
from modelhotel.accounts.identity import (
    FORBIDDEN,
    NO_CREDENTIALS,
    WRONG_TOKEN,
    Credentials,
    Identity,
    bearer_of,
    log_path,
    of_bearer,
    of_session,
    of_user,
)
from modelhotel.core.faults import Refusal
from modelhotel.models import User

log = logging.getLogger("auth")


def address_of(request: HttpRequest) -> str:
    """The client's address as the edge resolved it."""
    return str(getattr(request, "client_address", "") or request.META.get("REMOTE_ADDR", ""))


def _refused(address: str, path: str, text: str) -> Refusal:
    log.warning("auth: request refused", extra={"attrs": {"ip": address, "path": log_path(path), "reason": text}})
    return Refusal(401, text)


def by_bearer(token: str, address: str, path: str) -> Identity:
    """Who the bearer *token* is. Raises Refusal: 401, or 429 for an address that guesses."""
    if not token:
        raise _refused(address, path, NO_CREDENTIALS)
    key = throttles.by_address(address)
    # Before the lock: whoever has the right token is never kept out by a stranger behind the same address.
    if identity := of_bearer(token):
        throttles.BEARER.succeeded(key)
        return identity
    if seconds := throttles.BEARER.wait(key):
        raise throttles.locked(seconds)
    throttles.BEARER.failed(key)
    raise _refused(address, path, WRONG_TOKEN)


def by_cookie(request: HttpRequest) -> Identity | None:
    """Who the session cookie signs in. Using it counts as use of the session."""
    if not request.session.session_key:
        return None
    user = get_user(request)
    return of_user(user, request.session) if isinstance(user, User) else None


def by_credentials(credentials: Credentials, address: str, path: str) -> Identity:
    """Who *credentials* are, outside of Django's handler; blocking, in a thread of its own. Raises Refusal."""
    close_old_connections()
    try:
        if credentials.session and (identity := of_session(credentials.session)):
            return identity
        return by_bearer(credentials.bearer, address, path)
    finally:
        close_old_connections()


def authenticate(request: HttpRequest) -> Identity:
    """The caller of *request*. Raises Refusal: 401, 403 for a missing CSRF token, 429 for one who guesses."""
    if identity := by_cookie(request):
        if request.method not in SAFE and not csrf.holds(request):
            csrf.warn(request)
            raise Refusal(403, csrf.FAILED)
        return identity
    token = bearer_of(request.headers.get("Authorization", ""))
    return by_bearer(token, address_of(request), request.path)


class SignedIn:
    """Any signed-in caller, accounts without staff status included."""

    def __call__(self, request: HttpRequest) -> Identity:
        identity = authenticate(request)
        request.actor = identity.actor  # type: ignore[attr-defined]
        request.identity = identity  # type: ignore[attr-defined]
        self.check(request, identity)
        if demo.refuses(request):
            raise Refusal(403, demo.TEXT)
        return identity

    def check(self, request: HttpRequest, identity: Identity) -> None:
        """Raise Refusal when this caller may not."""


class Staff(SignedIn):
    """Administrators; viewers as long as they change nothing."""

    def check(self, request: HttpRequest, identity: Identity) -> None:
        role = identity.actor.role
        if role == "admin" or (role == "viewer" and request.method in SAFE):
            return
        raise Refusal(403, FORBIDDEN)


class Granted(Staff):
    """Staff, and accounts with one of *grants*: what they see is their own.

    *reads*: they change nothing here. *only*: the paths that are open to them, where not all below are.
    """

    def __init__(self, *grants: str, reads: bool = True, only: re.Pattern[str] | None = None) -> None:
        self._grants = frozenset(grants)
        self._reads = reads
        self._only = only

    def check(self, request: HttpRequest, identity: Identity) -> None:
        if identity.actor.role != "user":
            return super().check(request, identity)
        changes = self._reads and request.method not in SAFE
        elsewhere = self._only is not None and not self._only.fullmatch(request.path)
        if changes or elsewhere or not identity.grants & self._grants:
            raise Refusal(403, FORBIDDEN)
        assert identity.user is not None
        request.allowed_providers = identity.user.allowed_providers  # type: ignore[attr-defined]


STAFF = Staff()
SIGNED_IN = SignedIn()
