"""``/api/auth`` and ``/api/public-config``: signing in with the admin token or a password, signing out, who am I."""

import logging
from typing import Any, cast

from django.contrib.auth import HASH_SESSION_KEY, login, logout, update_session_auth_hash
from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel.accounts import admin_token, csrf, demo, sessions, throttles, users, verbs
from modelhotel.accounts.authentication import SIGNED_IN, address_of, by_cookie
from modelhotel.accounts.identity import Credentials, Identity, bearer_of, of_session
from modelhotel.core import events, webapi
from modelhotel.core.actor import ADMIN
from modelhotel.core.clock import rfc3339
from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from modelhotel.models import Session, User

log = logging.getLogger("auth")
router = Router(tags=["auth"])
public = Router(tags=["auth"])


class AdminExchange(webapi.Body):
    admin_token: str


class Login(webapi.Body):
    username: str
    password: str


class OwnPassword(webapi.Body):
    current_password: str
    new_password: str


def check_token(request: HttpRequest, token: str) -> bool:
    """Whether *token* is the admin token; a wrong one counts against the address. Raises Refusal(429) while locked."""
    address = address_of(request)
    good = throttles.attempt(lambda: admin_token.matches(token) or None, throttles.by_address(address))
    if not good:
        log.warning("auth: admin token refused", extra={"attrs": {"ip": address}})
    return bool(good)


def open_session(request: HttpRequest, user: User, *, by_token: bool = False) -> None:
    """Sign *user* in on this browser under a new session token and a new CSRF token."""
    request.session.flush()  # Django would go on with the session of the same account, its age included
    login(request, user, backend=verbs.BACKEND)
    if by_token:
        request.session[sessions.BY_TOKEN] = True


@router.post("/admin-exchange", auth=None, summary="Sign in with the admin token")
def admin_exchange(request: HttpRequest, body: AdminExchange) -> dict[str, bool]:
    csrf.refuse_foreign(request)
    if not check_token(request, body.admin_token):
        raise Refusal(401, "unauthorized")
    open_session(request, verbs.ensure_admin(actor=ADMIN), by_token=True)
    return {"success": True}


@router.get("/status", auth=None, summary="Whether there are accounts to sign in with")
def status(request: HttpRequest) -> dict[str, bool]:
    return {"enabled": User.objects.filter(is_active=True).exists()}


@router.post("/login", auth=None, summary="Sign in with user name and password")
def sign_in(request: HttpRequest, body: Login) -> dict[str, bool]:
    """Slowed down per address and per name; every reason for a refusal has the same text and costs the same time."""
    csrf.refuse_foreign(request)
    address = address_of(request)
    user = throttles.attempt(
        lambda: verbs.by_password(request, body.username, body.password),
        throttles.by_address(address),
        throttles.by_name(body.username),
    )
    if user is None:
        log.warning("auth: sign-in refused", extra={"attrs": {"ip": address}})
        raise Refusal(401, "invalid username or password")
    open_session(request, user)
    return {"success": True}


@router.post("/password", auth=SIGNED_IN, summary="Change the own password")
def change_password(request: HttpRequest, body: OwnPassword) -> dict[str, bool]:
    """Ends the other sessions of the account; this one goes on."""
    identity = _identity(request)
    user = identity.user
    if user is None or identity.by_token:
        raise Refusal(400, "the admin token has no password: sign in with an account")
    _, current = _own_sessions(request)
    by_cookie = request.user == user  # asked for now: Django would find that the session belongs to the old password
    users.set_own_password(user, body.current_password, body.new_password, current)
    if by_cookie:
        update_session_auth_hash(request, user)
    else:
        here = sessions.SessionStore(bearer_of(request.headers.get("Authorization", "")))
        here[HASH_SESSION_KEY] = user.get_session_auth_hash()
        here.save()
    return {"success": True}


@router.post("/logout", auth=None, summary="Sign out")
def sign_out(request: HttpRequest) -> HttpResponse:
    """Always 200. A bare cross-site call carries none of our cookies and changes nothing."""
    bearer = bearer_of(request.headers.get("Authorization", ""))
    had_cookie = bool(request.COOKIES.get("mh_session"))
    response = HttpResponse(b'{"success":true}', content_type="application/json")
    if not (had_cookie or bearer or request.COOKIES.get("mh_csrf")):
        return response
    if identity := by_cookie(request):
        request.actor = identity.actor  # type: ignore[attr-defined]
    logout(request)
    if bearer and (identity := of_session(bearer)):
        request.actor = identity.actor  # type: ignore[attr-defined]
        sessions.SessionStore(bearer).delete()
    for name in ("mh_session", "mh_csrf"):
        response.delete_cookie(name, path="/", samesite="Strict")
    request.META["CSRF_COOKIE_NEEDS_UPDATE"] = False
    return response


@router.get("/me", auth=SIGNED_IN, summary="Who is signed in")
def me(request: HttpRequest) -> dict[str, Any]:
    identity = _identity(request)
    user = identity.user
    answer: dict[str, Any] = {
        "username": identity.actor.name,
        "role": identity.actor.role,
        "grants": sorted(identity.grants),
        "user_account": not identity.by_token,
    }
    if user and user.display_name:
        answer["display_name"] = user.display_name
    if user and user.allowed_providers is not None:
        answer["allowed_providers"] = user.allowed_providers
    return answer


def _identity(request: HttpRequest) -> Identity:
    return cast(Identity, request.identity)  # type: ignore[attr-defined]


def _own_sessions(request: HttpRequest) -> tuple[list[Session], frozenset[str]]:
    """The sessions of whoever asks (the admin token: those of its account), and the keys this request came with."""
    user = _identity(request).user or verbs.admin_account()
    bearer = bearer_of(request.headers.get("Authorization", ""))
    current = Credentials(request.COOKIES.get("mh_session", ""), bearer).session_keys
    return sessions.of_account(user), current


@router.get("/sessions", auth=SIGNED_IN, summary="Where this account is signed in")
def list_sessions(request: HttpRequest) -> dict[str, Any]:
    rows, current = _own_sessions(request)
    return {
        "sessions": [
            {
                "id": str(sessions.public_id(row)),
                "user_agent": row.user_agent,
                "ip": row.ip,
                "created_at": rfc3339(row.created_at),
                "last_seen_at": rfc3339(row.last_seen_at),
                "current": row.session_key in current,
            }
            for row in rows
        ]
    }


@router.post("/sessions/revoke-others", auth=SIGNED_IN, summary="Sign all others of this account out")
def end_other_sessions(request: HttpRequest) -> dict[str, int]:
    rows, current = _own_sessions(request)
    revoked = sessions.revoke([row for row in rows if row.session_key not in current])
    if revoked:
        words = f"{revoked} other sessions of {_identity(request).actor.name} signed out"
        events.publish("auth.sessions_revoked", "info", "auth", words, {"revoked": revoked})
    return {"revoked": revoked}


@router.delete("/sessions/{id}", auth=SIGNED_IN, response={204: None}, summary="Sign one of them out")
def end_session(request: HttpRequest, id: str) -> HttpResponse:
    wanted = parse_uuid(id)
    if wanted is None:
        raise Refusal(400, "invalid session id")
    rows, current = _own_sessions(request)
    row = next((row for row in rows if sessions.public_id(row) == wanted), None)
    if row is None:
        raise Refusal(404, "session not found")
    if row.session_key in current:
        raise Refusal(409, "cannot sign out the current session; use logout instead")
    sessions.revoke([row])
    return HttpResponse(status=204)


@public.get("/public-config", auth=None, summary="What a sign-in page may know")
def public_config(request: HttpRequest) -> dict[str, bool]:
    return {"read_only": demo.on()}


@public.get("/demo-login", auth=None, summary="The admin token of a demo that shows it")
def demo_login(request: HttpRequest) -> dict[str, str]:
    if not (token := demo.shown_token()):
        raise Refusal(404, webapi.NOT_FOUND)
    return {"admin_token": token}
