"""One HTTP/1.1 connection of the native client: bytes in, one exchange at a time out.

The parser calls back synchronously from ``data_received``; whoever waits is woken through one future. One timer per
connection serves every deadline: it is moved by writing ``when`` and only re-armed when it fires too early, so a
stream of chunks creates no timers, and a resting connection uses the same timer to expire.
"""

import asyncio
from typing import TYPE_CHECKING

import httptools

from providers.upstream.interface import HEADER_LIMIT, IDLE_SECONDS, FaultKind, Sift, UpstreamError
from providers.upstream.target import first

if TYPE_CHECKING:
    from providers.upstream.pool import Lane, Pool

HIGH_WATER = 256 * 1024  # bytes of body waiting for the reader before the socket is paused
WRITE_HIGH = 64 * 1024  # bytes of request waiting in the transport before writing pauses
SLICE = 256 * 1024  # bytes of a large request body handed over at once
NEVER = float("inf")
_EARLY = 0.002  # seconds a loop's timer may be ahead of its clock
_PARSE_ERRORS = (httptools.HttpParserError, httptools.HttpParserUpgrade)


class Connection(asyncio.Protocol):
    """See the module. ``begin`` starts an exchange, ``release`` ends it, whatever became of it."""

    __slots__ = (
        "bodyless",
        "buffered",
        "busy",
        "dead",
        "dirty",
        "ended",
        "error",
        "full",
        "head_done",
        "headers",
        "interim",
        "keep",
        "lane",
        "limit",
        "loop",
        "parser",
        "paused",
        "pieces",
        "pool",
        "quiet",
        "sift",
        "size",
        "status",
        "timer",
        "timer_at",
        "transport",
        "unsent",
        "waiter",
        "when",
    )

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: "Pool", lane: "Lane") -> None:
        self.loop = loop
        self.pool = pool
        self.lane = lane
        self.dead = self.busy = self.full = self.paused = self.dirty = False
        self.waiter: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.timer_at = self.when = NEVER
        self.parser = httptools.HttpResponseParser(self)
        self.begin("GET")
        self.busy = False

    def begin(self, method: str) -> None:
        """A clean slate for the next exchange."""
        self.busy = True
        self.bodyless = method == "HEAD" or method == "CONNECT"
        self.head_done = self.ended = self.keep = self.interim = self.unsent = False
        self.error: UpstreamError | None = None
        self.status = self.size = self.buffered = self.quiet = 0
        self.limit = -1  # >= 0 while the whole body is gathered: wake only at its end
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.sift: Sift | None = None

    # ------------------------------------------------------------ transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.attach(transport)  # type: ignore[arg-type]  # uvloop's transports are no asyncio.Transport
        self.pool.live.add(self)

    def attach(self, transport: asyncio.Transport) -> None:
        """Use this transport from now on (a tunnel turns to TLS after it was made)."""
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=0)

    def renew(self, transport: asyncio.Transport) -> None:
        """The same socket speaks TLS now; its HTTP begins anew."""
        self.attach(transport)
        self.parser = httptools.HttpResponseParser(self)
        self.dirty = self.busy = False

    def data_received(self, data: bytes) -> None:
        if not self.busy:
            self.transport.abort()  # bytes that nobody asked for
            return
        self.quiet += len(data)
        try:
            self.parser.feed_data(data)
        except _PARSE_ERRORS as problem:
            if self.ended:
                self.dirty = True
            else:
                self.fail(FaultKind.PROTOCOL, _what(problem))
                return
        if self.quiet > HEADER_LIMIT and not self.ended:
            self.fail(FaultKind.PROTOCOL, "head or trailer over the limit")
            return
        limit = self.limit
        if limit < 0:
            if self.sift is not None and self._sifted():
                return
            if self.buffered > HIGH_WATER and not self.paused:
                self.paused = True
                self.transport.pause_reading()
        elif self.size <= limit and not self.ended:
            return
        self.wake()

    def _sifted(self) -> bool:
        """Whether everything that waits was taken without the reader; only while it waits, and never the end."""
        waiter = self.waiter
        if self.ended or self.error is not None or not self.pieces or waiter is None or waiter.done():
            return False
        data = self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)
        if self.sift is None or not self.sift(data):
            return False
        self.pieces.clear()
        self.buffered = 0
        return True

    def eof_received(self) -> None:
        """The transport closes itself; ``connection_lost`` tells what that meant."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.dead = True
        self.full = False
        self._stop_timer()
        self.pool.lost(self)
        if self.busy and not self.ended and self.error is None:
            if exc is None and self.head_done and self._ends_with_eof():
                self.ended = True
            else:
                self.error = self.fault(FaultKind.RESET, "connection closed by the upstream")
        self.wake()

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self.wake()

    # ------------------------------------------------------------ parser

    def on_message_begin(self) -> None:
        if self.ended:
            self.dirty = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.head_done:  # later ones are trailers
            self.headers.append((name.lower(), value.rstrip()))  # the parser leaves trailing blanks

    def on_headers_complete(self) -> None:
        if self.head_done:
            return
        self.status = self.parser.get_status_code()
        if self.status < 200:
            if self.status < 100:
                raise ValueError("status below 100")
            self.interim = True
            return
        if self.quiet > HEADER_LIMIT and sum(len(k) + len(v) for k, v in self.headers) > HEADER_LIMIT:
            raise ValueError("head over the limit")
        self.head_done = True
        if self.bodyless:
            self.ended = True  # never kept: the parser waits for a body that will not come

    def on_body(self, data: bytes) -> None:
        if self.ended:
            self.dirty = True
            return
        size = len(data)
        self.size += size
        self.buffered += size
        self.quiet = 0
        self.pieces.append(data)

    def on_message_complete(self) -> None:
        if self.interim:
            self.interim = False
            self.headers = []
        elif not self.ended:
            self.ended = True
            self.keep = self.parser.should_keep_alive()

    def _ends_with_eof(self) -> bool:
        """True where the body has no length of its own, so that the end of the connection is its end."""
        codings = b",".join(value for name, value in self.headers if name == b"transfer-encoding")
        if codings:
            return codings.rpartition(b",")[2].strip().lower() != b"chunked"
        return first(self.headers, b"content-length") is None

    # ------------------------------------------------------------ waiting

    def waiting(self) -> "asyncio.Future[None]":
        """The future to await; it says only that something happened."""
        if self.timer is None and self.when != NEVER:
            self._start_timer()
        waiter = self.waiter = self.loop.create_future()
        return waiter

    def wake(self) -> None:
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)

    def until(self, when: float) -> None:
        """Move the deadline; *when* is loop time, NEVER for none."""
        self.when = when
        if self.timer is None:
            if when != NEVER:
                self._start_timer()
        elif when < self.timer_at:
            self.timer.cancel()
            self._start_timer()

    def _start_timer(self) -> None:
        self.timer_at = self.when
        self.timer = self.loop.call_at(self.when, self._on_timer)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _on_timer(self) -> None:
        self.timer = None
        if self.when == NEVER:
            return
        if self.loop.time() < self.when - _EARLY:
            self._start_timer()
        elif not self.busy:
            self.transport.abort()  # rested long enough
        elif self.waiter is not None:
            if self.head_done:
                self.fail(FaultKind.BODY_TIMEOUT, "body not in time")
            else:
                self.fail(FaultKind.HEADER_TIMEOUT, "no answer in time")
        # Nobody waits: the reader is slow, not the upstream. The next wait arms the timer again.

    # ------------------------------------------------------------ the exchange

    async def upload(self, body: bytes) -> None:
        """Write a large body at the pace of the upstream; stops when a refusal comes first (RFC 9112, 9.5)."""
        view = memoryview(body)
        self.unsent = True
        for start in range(0, len(body), SLICE):
            self.transport.write(view[start : start + SLICE])
            while self.full:
                if self.error is not None:
                    raise self.error
                if self.head_done:
                    if self.status < 400 and not self.ended:
                        self.transport.write(view[start + SLICE :])  # it answers while it reads on
                    return
                await self.waiting()
        self.unsent = False

    async def head(self) -> None:
        """Wait for the head of the final answer. Raises UpstreamError."""
        while not self.head_done:
            if self.error is not None:
                raise self.error
            await self.waiting()

    def take(self) -> bytes:
        """What is buffered; at least one piece must be."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.buffered = 0
        if self.paused:
            self.resume()
        return data

    def resume(self) -> None:
        self.paused = False
        if not self.dead:
            self.transport.resume_reading()

    def fault(self, kind: FaultKind, text: str) -> UpstreamError:
        return UpstreamError(kind, f"{self.lane.name}: {text}", request_written=True)

    def fail(self, kind: FaultKind, text: str) -> None:
        """End the exchange with an error; what was buffered before it stays readable."""
        if self.error is None:
            self.error = self.fault(kind, text)
        self.transport.abort()
        self.wake()

    def release(self) -> None:
        """The exchange is over for its holder: into the pool when it is whole, else away with it."""
        self.busy = False
        if self.ended and self.keep and not (self.dirty or self.unsent or self.dead or self.error):
            if self.paused:
                self.resume()
            self.pieces = []
            self.headers = []
            if not self.transport.is_closing() and self.pool.put(self):
                self.until(self.loop.time() + IDLE_SECONDS)
                return
        self.drop()

    def drop(self) -> None:
        self.busy = False
        self.waiter = None
        self._stop_timer()
        self.transport.abort()


def _what(problem: Exception) -> str:
    """The parser's complaint, without any byte of the answer."""
    if isinstance(problem, httptools.HttpParserUpgrade):
        return "answer switches protocols"
    if isinstance(problem, httptools.HttpParserCallbackError):
        return str(problem.__context__)  # our own words, raised in a callback
    return f"answer is not HTTP: {type(problem).__name__}"
