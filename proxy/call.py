"""A call of ``/v1`` or ``/p`` before anyone knows what it wants, and the answers that need no exchange."""

import functools
import time
from collections.abc import Callable, Iterable

from modelhotel.core import catalogue, environment, options
from modelhotel.core.client_ip import client_address
from modelhotel.core.environment import Environment
from modelhotel.core.headers import Pairs, cors_headers, security_headers
from modelhotel.core.ids import hex16
from modelhotel.core.options import Options
from proxy import answers, endpoints
from proxy.answers import Answer, Header
from proxy.exchange import Receive, Scope, Send
from proxy.limits.gate import NOTHING_PLACED

_ID_MAX = 128
_PRINTABLE = bytes(range(0x21, 0x7F))

INTERNAL = answers.error(500, "internal error", answers.INTERNAL_ERROR)


@functools.cache
def _environment() -> Environment:
    """What the process was started with; reading it through Django's settings costs more than a key lookup."""
    return environment.current()


@functools.cache
def _security() -> Pairs:
    return security_headers(_environment())


class Call:
    """What every request has, before anyone knows what it wants."""

    __slots__ = (
        "answered",
        "arrival",
        "base",
        "client",
        "dress",
        "env",
        "headers",
        "numbered",
        "opts",
        "placed",
        "receive",
        "request_hash",
        "request_id",
        "scope",
        "send",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.arrival = time.monotonic()
        self.scope, self.receive, self.send = scope, receive, send
        self.env: Environment = _environment()
        self.opts: Options = options.SNAPSHOT.current
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.answered = False
        #: Puts an error of ours into the client's dialect.
        self.dress: Callable[[Answer], Answer] | None = None
        self.numbered, self.placed = -1, NOTHING_PLACED  # of the limiter
        peer = scope.get("client")
        self.client = client_address(peer[0] if peer else "", scope["headers"], self.env.trusted_proxies)
        self.request_hash = hex16()
        sent = self.headers.get(b"x-request-id")
        self.request_id = (sent and _kept_id(sent)) or self.request_hash.encode()
        self.base: list[Header] = [(b"x-request-id", self.request_id), *_security()]
        origin = self.headers.get(b"origin")
        if origin is not None:
            self.base += cors_headers(self.env, origin)

    async def reply(self, status: int, content: bytes, extra: Iterable[Header] = (answers.JSON,)) -> None:
        """An answer where there is no exchange; HEAD gets its headers only."""
        self.answered = True
        headers = [*extra, *self.base]
        if self.opts[catalogue.ANSWER_HEADERS]:
            overhead = (time.monotonic() - self.arrival) * 1000.0
            headers += ((b"x-modelhotel-attempts", b"0"), (b"x-modelhotel-overhead-ms", b"%.3f" % overhead))
        if status != 204:
            headers.append((b"content-length", b"%d" % len(content)))
        if self.scope["method"] == "HEAD":
            content = b""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": content})

    def speak_messages(self) -> None:
        """The client is one of Anthropic's API (v1-api 8.4, 9.2)."""
        self.dress = endpoints.dress_messages
        self.base.append((b"request-id", self.request_id))

    async def say(self, answer: Answer, *extra: Header) -> None:
        if self.dress is not None:
            answer = self.dress(answer)
        await self.reply(answer.status, answer.body, (*answer.headers, *extra))


def _kept_id(sent: bytes) -> bytes | None:
    """The caller's own request id, when it is 1 to 128 printable ASCII characters without blanks."""
    return sent if len(sent) <= _ID_MAX and not sent.translate(None, _PRINTABLE) else None
