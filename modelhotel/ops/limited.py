"""The address limit in front of everything that is not under ``/v1``, which has it among its own gates.

Files of the dashboard are not counted: one page is dozens of them, and they cost next to nothing.
"""

from collections.abc import Callable, Sequence

from modelhotel.core import options
from modelhotel.core.client_ip import client_address
from modelhotel.core.environment import Network
from modelhotel.ops.asgi_types import App, Message, Receive, Scope, Send
from proxy.answers import Answer, Header
from proxy.limits.buckets import Ask
from proxy.limits.gate import LIMITER, NOTHING_PLACED

Headers = Callable[[Scope], Sequence[Header]]


class _Visit:
    """One request as the limiter sees it (``proxy.limits.gate.Asker``)."""

    def __init__(self, scope: Scope, send: Send, trusted: Sequence[Network], headers: Headers) -> None:
        self.scope = scope
        self._headers = headers
        self.opts = options.current()
        self.base: list[Header] = []
        self.numbered = -1
        self.placed: Sequence[Ask] = NOTHING_PLACED
        peer = scope.get("client")
        self.client = client_address(peer[0] if peer else "", scope["headers"], trusted)
        self._send = send

    async def say(self, answer: Answer, *extra: Header) -> None:
        length = (b"content-length", b"%d" % len(answer.body))
        headers = [*answer.headers, *extra, length, *self._headers(self.scope), *self.base]
        body = b"" if self.scope["method"] == "HEAD" else answer.body
        await self._send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def send(self, message: Message) -> None:
        """The application's answer, with the numbers."""
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *self.base]}
        await self._send(message)


class Limited:
    """*headers*: what every answer to a request carries. Paths that begin with *free* are not counted."""

    def __init__(self, app: App, trusted: Sequence[Network], headers: Headers, free: str) -> None:
        self._app = app
        self._trusted = trusted
        self._headers = headers
        self._free = free

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(self._free) or _preflight(scope):
            return await self._app(scope, receive, send)
        visit = _Visit(scope, send, self._trusted, self._headers)
        asked = LIMITER.address(visit)
        if asked is None or await asked:
            await self._app(scope, receive, visit.send if visit.base else send)


def _preflight(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and any(name == b"origin" for name, _ in scope["headers"])
