"""uvicorn's HTTP/1.1 protocol with a limit on heads, trailers kept apart, and offers to switch protocols passed over.

uvicorn lets a head grow without end, before anyone was asked for a key; it appends the trailers of a chunked body to
the headers of the request, where a late ``Authorization`` or ``X-Forwarded-For`` would pass for a header; and it loses
the body of a request that offers an upgrade, as Java's HTTP client does by default (``Upgrade: h2c``). And it closes
the connection behind a last answer while the request's body still comes, which takes that answer, a 401, out of the
client's hands: what is not read when a socket is closed resets the connection.

A head that comes again on its connection is compared instead of parsed (:mod:`modelhotel.ops.repeat`).

Answers go through :class:`modelhotel.ops.cycle.Cycle`, and one timer per connection ends its rest: it is looked at when
it fires, not made anew for every request.
"""

import asyncio
import urllib.parse
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from modelhotel.ops import repeat
from modelhotel.ops.cycle import DIRECT, Cycle

HEAD_LIMIT = 64 * 1024
"""Bytes of a request line with its headers, and of anything else between two pieces of body."""
BODY_HIGH = 64 * 1024
"""Bytes of a request body that wait for the application before the socket is paused."""
PIPELINE = 32
"""Requests that wait for the answers before them until the socket is paused."""
PATIENCE = 30.0
"""Seconds between two looks at a connection: a head that is not whole within two of them, or a body of which nothing
came between them, ends it. Nobody was asked for a key by then.
"""
LINGER_SECONDS = 5.0
"""How long the body of a request whose answer was the last one is read past, unless the client closes before."""
MISSES = 4
"""Heads learned for nothing in a row, after which a connection is not learned from: it is a proxy, for many."""
PIPELINE_MOST = 1024
"""Requests that may wait at all; what was read before the pause may hold more."""
TARGETS, TARGET_LONGEST = 1024, 256
"""Request targets kept taken apart, and bytes of one."""
Target = tuple[str, bytes, bytes]
"""Path, the same as it came, query."""
_targets: dict[bytes, Target] = {}
_INVALID = "Invalid HTTP request received."
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 25\r\nconnection: close\r\n\r\nrequest headers too large"
)
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 24\r\nconnection: close\r\n\r\nrequest came too slowly\n"
)


class Connection(HttpToolsProtocol):
    """One client connection."""

    cycle: Cycle | None  # type: ignore[assignment]  # the last request that was read
    scope: dict[str, Any]  # type: ignore[assignment]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._quiet = 0  # bytes since the last piece of body, or since the last request was whole
        self._offered = False  # the parser takes the request in hand for the last one in HTTP/1.1
        self._running: Cycle | None = None  # the request that is being answered
        self._resting_since: float | None = None  # loop time of the last answer's end; None while a request is in hand
        self._between = True  # the parser has seen nothing of the next request
        self._heads = 0  # parsed
        self._known: repeat.Repeat | None = None  # the last head, while nothing else came
        self._known_scope: dict[str, Any] = {}  # what does not differ in its scope
        self._misses = 0  # heads in a row that were learned and did not come again
        self._due = 0  # bytes of a body whose head was not parsed
        self._lingering = False  # what comes is read past
        self._in_head = True  # the head of the next request has begun, or nothing ever came
        self._pieces = 0  # of bodies that came behind their heads
        self._seen: tuple[int, int] | None = None  # heads and pieces at the last look, where the client was due
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._look = self.loop.call_later(PATIENCE, self._watch)

    def _watch(self) -> None:
        """Whoever keeps us waiting is not waited for any longer (RFC 9110, 15.5.9)."""
        if self.transport.is_closing():
            return
        self._look = self.loop.call_later(PATIENCE, self._watch)
        running = self._running
        if running is None or running.response_complete:
            seen = (self._heads, int(not self._between)) if self._in_head else None
        else:  # its body, unless it is answered already or others wait behind it
            due = running is self.cycle and running.more_body and not running.response_started
            seen = (self._heads, self._pieces) if due and not self.flow.read_paused else None
        if seen is None or seen != self._seen:
            self._seen = seen
            return
        self._leave()
        if not (self._in_head and self._between):  # something came
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._lingering:
            return
        self._resting_since = None
        if self._due:
            data = self._take_due(data)
            if not data:
                return
        known = self._known
        if known is not None and self._between:
            found = known.read(data) if self.cycle is None or self.cycle.response_complete else None
            if found is not None:
                self._misses = 0
                return self._again(*found)
            self._known = None
            self._misses += 1
        fresh, heads = self._between, self._heads
        self._parse(data)
        # Whoever asks once is not learned from.
        if fresh and heads and self._heads == heads + 1 and self._misses < MISSES:
            self._learn(data)

    def _take_due(self, data: bytes) -> bytes:
        """What is not of the body that is due."""
        rest = data[self._due :]
        body = data[: self._due] if rest else data
        self._due -= len(body)
        self.on_body(body)
        if not self._due:
            self.on_message_complete()
        return rest

    def _again(self, headers: list[tuple[bytes, bytes]], length: int, body: bytes) -> None:
        """A request whose head is the last one again."""
        self.scope = self._known_scope | {"headers": headers, "state": self.app_state.copy()}
        cycle = self._begin(self.scope, keep_alive=True)
        if len(body) == length:
            cycle.body, cycle.more_body = body, False
            cycle.set()
            return
        self._due = length
        if body:
            self._take_due(body)

    def _learn(self, data: bytes) -> None:
        """From *data*, which began with a head that was the only one in it."""
        scope, cycle = self.scope, self.cycle
        if cycle is None or cycle.scope is not scope or not cycle.keep_alive or self.transport.is_closing():
            return  # the next request has begun, or there will be none
        if scope["http_version"] != "1.1":
            return
        self._known = repeat.learn(data, scope["headers"])
        if self._known is not None:
            left_out = ("headers", "state", "extensions")
            self._known_scope = {name: value for name, value in scope.items() if name not in left_out}

    def _parse(self, data: bytes) -> None:
        self._quiet += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            if self._quiet > HEAD_LIMIT:
                self._refuse()
            else:
                self.logger.warning(_INVALID)
                self._refuse(_INVALID)
            return
        if self._quiet > HEAD_LIMIT and not self.transport.is_closing():
            self._refuse()

    def _feed(self, data: bytes) -> None:
        """Raises HttpParserError."""
        while True:
            try:
                return self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = self._without_offer() + data[offer.args[0] :]
                self.parser = httptools.HttpRequestParser(self)

    def _without_offer(self) -> bytes:
        """The head in hand again, as if nothing but HTTP/1.1 had been offered."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        self._offered = False
        return b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(lines))

    def on_message_begin(self) -> None:
        self._between = False
        self._in_head = True
        self._known = None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        parser, scope = self.parser, self.scope
        self._heads += 1
        self._in_head = False
        if self._quiet > HEAD_LIMIT and sum(len(name) + len(value) for name, value in self.headers) > HEAD_LIMIT:
            raise ValueError("head over the limit")
        method = parser.get_method()
        if method == b"CONNECT":
            raise ValueError("no proxy")
        if parser.should_upgrade():
            self._offered = True
            return
        version = parser.get_http_version()
        scope["method"] = method.decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        scope["path"], scope["raw_path"], scope["query_string"] = _targets.get(self.url) or self._target(self.url)
        self.headers = []  # the scope keeps the list that is complete
        self._begin(scope, keep_alive=version != "1.0" and parser.should_keep_alive())

    def _target(self, target: bytes) -> Target:
        """Raises HttpParserInvalidURLError."""
        url = httptools.parse_url(target)
        path = url.path.decode("ascii")
        path = self.root_path + (urllib.parse.unquote(path) if "%" in path else path)
        found = path, self.root_path.encode("ascii") + url.path, url.query or b""
        if len(target) <= TARGET_LONGEST and not self.root_path:
            if len(_targets) >= TARGETS:
                _targets.clear()
            _targets[target] = found
        return found

    def _begin(self, scope: dict[str, Any], *, keep_alive: bool) -> Cycle:
        """The request's task starts now, or when those before it on this connection were answered."""
        before = self.cycle
        cycle = Cycle(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.server_state.default_headers,
            self.on_response_complete,
            continues=self.expect_100_continue,
            keep_alive=keep_alive,
        )
        scope["extensions"] = {DIRECT: cycle}
        self.cycle = cycle
        if before is None or before.response_complete:
            self._running = cycle
            self._start_asgi_task(cycle, self.app)
            return cycle
        self.pipeline.appendleft((cast(Any, cycle), self.app))
        if len(self.pipeline) > PIPELINE_MOST:
            raise ValueError("too many requests ahead of their answers")
        if len(self.pipeline) >= PIPELINE:
            self.flow.pause_reading()
        return cycle

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        # Front keeps its own account of what runs; uvicorn's would cost a callback for every request.
        cycle.task = self.loop.create_task(cycle.run(app))

    def on_body(self, body: bytes) -> None:
        self._quiet = 0
        self._pieces += 1
        cycle = self.cycle
        if cycle is None or self._offered or cycle.response_complete:
            return
        cycle.body += body
        if len(cycle.body) > BODY_HIGH:
            self.flow.pause_reading()
        cycle.set()

    def on_message_complete(self) -> None:
        if self._offered:
            return
        self._between = True
        self._quiet = 0
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.more_body = False
            cycle.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._running is not None and not self._running.keep_alive:
            return self._linger()
        waiting = len(self.pipeline)
        if self.flow.read_paused and waiting <= PIPELINE:
            self.flow.resume_reading()
        if waiting:
            cycle, app = self.pipeline.pop()
            self._running = cast(Cycle, cycle)
            self._start_asgi_task(cycle, app)
            return
        self._resting_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._watch_rest(self.timeout_keep_alive)

    def _linger(self) -> None:
        """The last answer was written, and the body of its request is still coming."""
        self._lingering = True
        self._known = None
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _watch_rest(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._resting_since is None or self.transport.is_closing():
            return  # the next answer's end starts the watch again
        left = self._resting_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._watch_rest(left)
        else:
            self.transport.close()

    def _refuse(self, text: str = "") -> None:
        """400 with *text*, or 431; an answer that is due before, or running, is cut instead: it may not be mixed."""
        running = self._running
        own = running is not None and running is self.cycle and running.more_body and not running.response_started
        self._leave()
        if running is None or running.response_complete or own:
            if text:
                return self.send_400_response(text)
            self.transport.write(_TOO_LONG)
        self.transport.close()

    def _leave(self) -> None:
        """The request being answered learns that nobody waits for it any more."""
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        self._leave()  # uvicorn tells the last request read, which may be one that waits
        super().connection_lost(exc)
