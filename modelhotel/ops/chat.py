"""``POST /api/chat/chat``, ``/arena`` and ``/completions``: a chat completion for a signed-in account (v1-api 5.8).

The body and the answer are those of ``/v1/chat/completions``, errors of the data plane included; only who asks is
found out as everywhere under ``/api``, and refused in its words.
"""

import asyncio
import io
from collections.abc import Awaitable, Callable

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse

from modelhotel.accounts import csrf
from modelhotel.accounts.authentication import authenticate
from modelhotel.accounts.identity import FORBIDDEN
from modelhotel.accounts.middleware import resolve_scheme, secure_cookies, slide
from modelhotel.accounts.sessions import SessionStore
from modelhotel.core.faults import Refusal
from modelhotel.models import User
from modelhotel.ops.asgi_types import App, Receive, Scope, Send
from modelhotel.ops.front import worded
from proxy import app, keys
from proxy.call import Call
from proxy.keys import KeyRow, Owner
from proxy.limits.caps import Limits
from proxy.limits.fields import FIELDS

PREFIX = "/api/chat/"
#: Also the names that the rows of these requests carry instead of a key's.
ROUTES = frozenset({"chat", "arena", "completions"})
GRANT = "chat"


def route_of(scope: Scope) -> str:
    """The name of the route, ``""`` where the request is for Django."""
    path: str = scope["path"]
    name = path[len(PREFIX) :].removesuffix("/") if path.startswith(PREFIX) else ""
    return name if name in ROUTES and scope["method"] == "POST" else ""


class Chat:
    """In front of *rest*, which gets everything else."""

    def __init__(self, rest: App) -> None:
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = route_of(scope)
        if not route:
            return await self._rest(scope, receive, send)
        await app.dashboard(scope, receive, send, _signed_in(route))


def _signed_in(route: str) -> Callable[[Call], Awaitable[KeyRow | None]]:
    async def signed_in(call: Call) -> KeyRow | None:
        try:
            return await asyncio.to_thread(_account, call, route)
        except Refusal as problem:
            body, kind = worded(call.scope, problem.text.encode())
            extra = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
            # The body was not read, and nobody will.
            own = [(b"content-type", kind), (b"cache-control", b"no-store"), (b"connection", b"close")]
            await call.reply(problem.status, body, [*own, *extra])
            return None

    return signed_in


def _account(call: Call, route: str) -> KeyRow:
    """Blocking. Raises Refusal."""
    close_old_connections()
    try:
        request = _request(call)
        identity = authenticate(request)
        _used(call, request)
        if identity.actor.role != "admin" and GRANT not in identity.grants:
            raise Refusal(403, FORBIDDEN)
        return keys.of_account(route, identity.actor.user_id, _owner(identity.user))
    finally:
        close_old_connections()


def _owner(user: User | None) -> Owner:
    """The account as the database has it now: the tables in memory may not have heard of a new one yet."""
    if user is None:
        return keys.NOBODY
    limits = Limits(*(getattr(user, name) for name in FIELDS))
    return Owner(user.username, user.is_active, user.allowed_providers, limits)


def _request(call: Call) -> HttpRequest:
    """As Django's middleware hands it to a view; without its body, which is for the walk."""
    request = ASGIRequest(call.scope, io.BytesIO())
    request.client_address = call.client  # type: ignore[attr-defined]
    resolve_scheme(request, str(request.META.get("REMOTE_ADDR") or ""), call.env, call.scope["headers"])
    request.session = SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    csrf.arrive(request)
    return request


def _used(call: Call, request: HttpRequest) -> None:
    """Chatting is use of the session: the answer renews its cookies as any other under ``/api`` does."""
    carrier = HttpResponse()
    slide(request, carrier)
    csrf.carry(request, carrier)
    secure_cookies(request, carrier, call.env)
    call.base += [(b"set-cookie", cookie.OutputString().encode("latin-1")) for cookie in carrier.cookies.values()]
