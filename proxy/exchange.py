"""One request as it is lived: what was asked, who asks, and the way back to the client.

The ASGI application makes it, resolution and the walk fill it. Everything that goes to the client goes through
:meth:`Exchange.answer` or through :meth:`start_stream` or :meth:`start_body`, :meth:`write`, :meth:`end`; both put on
the headers that every answer carries. All times are those of ``time.monotonic``.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import msgspec

from modelhotel.core.options import Options
from proxy import answers, policy
from proxy.answers import JSON, Answer, Header
from proxy.keys import KeyRow
from requestlogs.draft import Draft

if TYPE_CHECKING:
    from failover.resolve import Resolution
    from proxy.body import Asked
    from proxy.dialects.base import Writer
    from proxy.endpoints import Endpoint
    from proxy.multipart import Form

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: Streams, pictures and sound get this many times ``request_timeout`` per attempt (failover-loop 4.1).
STREAM_FACTOR = 10
#: The whole request gets this many times the time of one attempt.
OVERALL_FACTOR = 2
#: Answers faster than this never pay for the disconnect watch. Seconds.
WATCH_AFTER = 0.05
#: Slow answers are looked for at most this often. Seconds.
WATCH_STEP = 0.01

_STREAM_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
#: Statuses whose answers go out without a body.
BODILESS = (204, 205)
#: The ASGI extension of our own server (``ops/cycle.py``) for pieces of a body.
DIRECT = "modelhotel.direct"
_KEEP_ALIVE: Header = (b"connection", b"keep-alive")
_PRINTABLE = "".join(chr(c) for c in range(0x20, 0x7F) if chr(c) != "%")


@lru_cache(maxsize=1024)
def header_text(text: str) -> bytes:
    """*text* as a header value: what is not printable ASCII becomes ``%XX`` of its UTF-8 bytes."""
    return quote(text, safe=_PRINTABLE).encode("ascii")


@lru_cache(maxsize=1024)
def _named(provider: str, model: str) -> tuple[Header, Header]:
    return (b"x-modelhotel-provider", header_text(provider)), (b"x-modelhotel-model", header_text(model))


class Direct(Protocol):
    """What :data:`DIRECT` offers: *write_now* only when *ready*; *whole* says whether it wrote the answer; *asked* is
    the body of the request where it is whole and was not read, once. *task* is the one that answers it.
    """

    @property
    def task(self) -> asyncio.Task[None] | None: ...
    def asked(self) -> bytes | None: ...
    def whole(self, status: int, headers: list[Header], body: bytes) -> bool: ...
    def ready(self) -> bool: ...
    def write_now(self, body: bytes) -> None: ...


class Exchange:
    """*endpoint* is what was called. *body* holds the members of the request as the bytes that came, *raw* all of them;
    where the client speaks another dialect than chat, *body* is what its request means as a chat request, *own* what it
    sent, and *writer* puts chat answers into its words.

    *deadline* is the moment after which no further attempt starts, *attempt_seconds* the time of one attempt.
    *committed*: the status line went out. *gone*: the client left before its answer was complete.
    """

    __slots__ = (
        "_about",
        "_ended",
        "_streaming",
        "_task",
        "_watch",
        "_watched",
        "attempt_seconds",
        "body",
        "committed",
        "contacted",
        "deadline",
        "direct",
        "draft",
        "endpoint",
        "form",
        "gone",
        "headers",
        "include_usage",
        "key",
        "loop",
        "model",
        "on_gone",
        "opts",
        "overhead_ms",
        "own",
        "policy",
        "raw",
        "receive",
        "resolution",
        "scope",
        "send",
        "server",
        "stream",
        "writer",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        draft: Draft,
        opts: Options,
        key: KeyRow,
        headers: list[Header],
        endpoint: "Endpoint",
    ) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        extensions = scope.get("extensions")
        #: What our own server offers besides ASGI.
        self.server: Direct | None = extensions.get(DIRECT) if extensions else None
        task = self.server.task if self.server is not None else None
        #: Asking asyncio for it costs a system call.
        self.loop = task.get_loop() if task is not None else asyncio.get_running_loop()
        self.draft = draft
        self.opts = opts
        self.policy = policy.of(opts)
        self.key = key
        self.headers = headers
        self.endpoint = endpoint
        self.body: dict[str, msgspec.Raw] = {}
        self.raw = b""
        self.form: Form | None = None
        self.own: dict[str, msgspec.Raw] | None = None
        self.writer: Writer | None = None
        self.model = ""
        self.stream = False
        self.include_usage = False
        self.resolution: Resolution | None = None
        self.attempt_seconds = 0.0
        self.deadline = 0.0
        #: Candidates contacted so far, in order: (provider name, upstream model id).
        self.contacted: list[tuple[str, str]] = []
        self.overhead_ms: float | None = None
        self.committed = False
        self.gone = False
        #: Called once, in the event loop, when the client left; None = the watched task is cancelled.
        self.on_gone: Callable[[], None] | None = None
        self._about = self.policy.answer_headers
        self._ended = False
        self._streaming = False
        self._watch: _Watch | None = None
        self._task: asyncio.Task[None] | None = None
        self._watched: asyncio.Task[Any] | None = None
        #: The way to the client that needs no turn of the event loop, where the server has one.
        self.direct: Direct | None = None

    def accept(self, raw: bytes, asked: "Asked") -> None:
        """The body was read and is well-formed; sets the clocks that depend on whether a stream is wanted."""
        self.raw, self.body, self.model = raw, asked.members, asked.model
        self.form = asked.form
        self.stream, self.include_usage = asked.stream, asked.include_usage
        if asked.own is not None and self.endpoint.writer is not None:
            self.own = asked.own
            self.writer = self.endpoint.writer(asked.own)
        long = asked.stream or self.endpoint.long_running
        self.attempt_seconds = self.policy.request_timeout * (STREAM_FACTOR if long else 1)
        self.deadline = self.draft.arrival + OVERALL_FACTOR * self.attempt_seconds

    def contact(self, provider: str, model: str) -> None:
        """A candidate is about to be asked; for the answer headers. Asking the same one again counts once."""
        if self.overhead_ms is None:
            self.overhead_ms = (time.monotonic() - self.draft.arrival) * 1000.0
        pair = (provider, model)
        if pair in self.contacted:
            self.contacted.remove(pair)
        self.contacted.append(pair)

    @property
    def content(self) -> dict[str, msgspec.Raw]:
        """The members of the request in the client's own words."""
        return self.body if self.own is None else self.own

    @property
    def streaming(self) -> bool:
        """An event stream was begun and not yet ended."""
        return self._streaming and not self._ended

    # -- to the client

    async def answer(self, status: int, body: bytes, extra: Iterable[Header] = (JSON,)) -> None:
        """A whole answer in one go. *extra* holds its content type and what else it alone carries.

        :data:`BODILESS` ones go out without a body.
        """
        if self.answer_now(status, body, extra):
            return
        headers = self._headed(extra)
        if status in BODILESS:
            headers, body = [header for header in headers if header[0] != b"content-type"], b""
        else:
            headers.append((b"content-length", b"%d" % len(body)))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def answer_now(self, status: int, body: bytes, extra: Iterable[Header] = (JSON,)) -> bool:
        """The same in this turn of the event loop; False: nothing went out, use :meth:`answer`."""
        self.committed = self._ended = True
        server = self.server
        return server is not None and status not in BODILESS and server.whole(status, self._headed(extra), body)

    def _headed(self, extra: Iterable[Header]) -> list[Header]:
        """The headers of a whole answer but for those of its body."""
        headers = [*extra, *self.headers]
        if self._about:
            self._append_about(headers)
        return headers

    def error_frame(self, message: str, kind: str) -> bytes:
        """The last event of a stream that nobody else can end any more, in the client's dialect."""
        return answers.stream_error(message, kind) if self.writer is None else self.writer.error(message, kind)

    def sent(self, name: bytes) -> bytes | None:
        """The first header *name* of the client's request; *name* in lower case."""
        return next((value for header, value in self.scope["headers"] if header == name), None)

    async def say(self, answer: Answer) -> None:
        """An error of ours, in the client's dialect."""
        if self.endpoint.dress is not None:
            answer = self.endpoint.dress(answer)
        await self.answer(answer.status, answer.body, answer.headers)

    async def start_stream(self, extra: Iterable[Header] = (), status: int = 200) -> None:
        """The status line and the headers of an event stream: the commit point."""
        self.committed = self._streaming = True
        self.direct = self.server
        headers = [*_STREAM_HEADERS, *extra, *self.headers]
        if self.scope.get("http_version", "1.1") == "1.1":
            headers.append(_KEEP_ALIVE)
        await self._start(status, headers)

    async def start_body(self, status: int, extra: Iterable[Header]) -> None:
        """The status line and the headers of an answer passed on as it arrives: the commit point.

        One that is not ended is cut off by the server, which is how its client learns that it is not whole.
        """
        self.committed = True
        await self._start(status, [*extra, *self.headers])

    async def _start(self, status: int, headers: list[Header]) -> None:
        if self._about:
            self._append_about(headers)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, data: bytes) -> None:
        """Waits while the client does not read (backpressure). Raises nothing when the client left."""
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        self._ended = True
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    def _append_about(self, headers: list[Header]) -> None:
        if self.contacted:
            headers += _named(*self.contacted[-1])
        overhead = self.overhead_ms
        if overhead is None:
            overhead = (time.monotonic() - self.draft.arrival) * 1000.0
        headers.append((b"x-modelhotel-attempts", b"%d" % len(self.contacted)))
        headers.append((b"x-modelhotel-overhead-ms", b"%.3f" % overhead))

    # -- whether the client is still there

    def watch(self) -> None:
        """From now on learn that the client left: *gone* becomes true and the calling task is cancelled.

        Under uvicorn a send after the client left raises nothing, only ``receive`` tells; so one task waits in it,
        started only when the answer takes longer than :data:`WATCH_AFTER`. Whoever catches the CancelledError and
        finds *gone* true goes on after ``asyncio.current_task().uncancel()``. Idempotent.
        """
        if self._watch is None and not self._ended:
            task = self.server.task if self.server is not None else None
            self._watched = task or asyncio.current_task()
            watch = self._watch = _watch_of(self.loop)
            watch.waiting[self] = time.monotonic()
            if watch.timer is None:
                watch.start()

    def unwatch(self) -> None:
        """Stop learning. Idempotent."""
        if self._watch is not None:
            self._watch.waiting.pop(self, None)
            self._watch = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._watched = None

    def start_watching(self) -> None:
        """The answer takes its time: wait for the client's end from here on."""
        if not self._ended:
            self._task = asyncio.get_running_loop().create_task(self._wait_for_disconnect())

    async def _wait_for_disconnect(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        # Servers report a finished answer in the same words.
        if self._ended or self._watched is None:
            return
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()
        else:
            self._watched.cancel()


class _Watch:
    """The exchanges of one event loop that are not slow yet, oldest first: one timer for all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: dict[Exchange, float] = {}
        self.timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.timer = self.loop.call_later(WATCH_AFTER, self._look)

    def _look(self) -> None:
        self.timer = None
        now = time.monotonic()
        due = [exchange for exchange, since in self.waiting.items() if now - since >= WATCH_AFTER]
        for exchange in due:
            del self.waiting[exchange]
            exchange.start_watching()
        if self.waiting:
            oldest = next(iter(self.waiting.values()))
            self.timer = self.loop.call_later(max(oldest + WATCH_AFTER - now, WATCH_STEP), self._look)


_watch: _Watch | None = None


def _watch_of(loop: asyncio.AbstractEventLoop) -> _Watch:
    global _watch
    if _watch is None or _watch.loop is not loop:
        _watch = _Watch(loop)
    return _watch
