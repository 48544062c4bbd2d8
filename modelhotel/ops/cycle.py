"""One request and its answer on uvicorn's connection, with fewer writes.

uvicorn writes head and body with a system call each, and looks at every header with two regular expressions. Here a
head goes out together with the first piece of its body, and header lines that come again are kept in their final form.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE

from modelhotel.ops.asgi_types import App, Message

Header = tuple[bytes, bytes]
DIRECT = "modelhotel.direct"
"""The ASGI extension: ``scope["extensions"][DIRECT]`` is the cycle: ``asked``, ``whole``, ``ready``, ``write_now``,
``gone``."""
#: A body this large is not copied to stand behind its head. Bytes.
_LARGE = 16 * 1024
_REMEMBERED = 512
_BREAKS_OUT = HEADER_VALUE_RE.search
_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"connection"))
#: Headers that say the same in answer after answer.
_STEADY = frozenset(
    (
        b"cache-control",
        b"content-security-policy",
        b"content-type",
        b"cross-origin-opener-policy",
        b"date",
        b"referrer-policy",
        b"strict-transport-security",
        b"vary",
        b"x-accel-buffering",
        b"x-content-type-options",
        b"x-frame-options",
        b"x-modelhotel-attempts",
        b"x-modelhotel-model",
        b"x-modelhotel-provider",
        b"x-ratelimit-burst",
        b"x-ratelimit-limit",
        b"x-ratelimit-remaining",
        b"x-ratelimit-scope",
    )
)
_BROKEN = b"Internal Server Error"
_BROKEN_HEADERS = (
    (b"content-type", b"text/plain; charset=utf-8"),
    (b"content-length", b"%d" % len(_BROKEN)),
    (b"connection", b"close"),
)


def _nothing() -> None: ...


@lru_cache(maxsize=_REMEMBERED)
def _name(name: bytes) -> tuple[bytes, bool, bytes]:
    """What its line begins with, whether the line is kept, and the name in lower case where it frames the body, else
    nothing. Raises RuntimeError for what is no name.
    """
    if HEADER_RE.search(name):
        raise RuntimeError("Invalid HTTP header name.")
    name = name.lower()
    return name + b": ", name in _STEADY, name if name in _FRAMING else b""


class _Lines(dict[Header, bytes]):
    """A header -> its line. Those that say the same in answer after answer are kept."""

    def make(self, pair: Header) -> bytes:
        """Raises RuntimeError for what could be read as more than one header."""
        name, value = pair
        start, steady, _ = _name(name)
        if _BREAKS_OUT(value):
            raise RuntimeError("Invalid HTTP header value.")
        line = b"%b%b\r\n" % (start, value)
        if steady:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[pair] = line
        return line

    def __missing__(self, pair: Header) -> bytes:
        if _name(pair[0])[2]:
            raise RuntimeError("A whole answer is framed by the server.")
        return self.make(pair)


_lines = _Lines()
_line_of = _lines.__getitem__


class Cycle:
    """What uvicorn calls a request-response cycle; see the module."""

    __slots__ = (
        "__weakref__",
        "_bell",
        "_head",
        "_news",
        "_open_ended",
        "_taken",
        "body",
        "chunked_encoding",
        "default_headers",
        "disconnected",
        "expected_content_length",
        "flow",
        "keep_alive",
        "logger",
        "more_body",
        "on_response",
        "response_complete",
        "response_started",
        "scope",
        "task",
        "transport",
        "waiting_for_100_continue",
    )

    def __init__(
        self,
        scope: dict[str, Any],
        transport: asyncio.Transport,
        flow: FlowControl,
        logger: logging.Logger,
        default_headers: list[Header],
        on_response: Callable[[], None],
        *,
        continues: bool,
        keep_alive: bool,
    ) -> None:
        """*continues*: the client waits for a 100 before it sends its body."""
        self.scope = scope
        self.transport = transport
        self.flow = flow
        self.logger = logger
        self.default_headers = default_headers
        self.on_response = on_response
        self.waiting_for_100_continue = continues
        self.keep_alive = keep_alive
        #: Kept here, because the event loop itself keeps no task alive.
        self.task: asyncio.Task[None] | None = None
        self.disconnected = self.response_started = self.response_complete = False
        self.body = b""
        self.more_body = True
        self._taken = False  # the end of the request's body was handed over
        self._news = False  # something came that nobody has asked for yet
        self._bell: asyncio.Event | None = None
        self.chunked_encoding: bool | None = None
        self.expected_content_length = 0
        self._head = b""  # what is not written yet
        self._open_ended = False  # the end of the body is the end of the connection: HTTP/1.0 knows no chunks

    async def run(self, app: App) -> None:
        """Have *app* answer. Raises nothing."""
        try:
            await app(self.scope, self.receive, self.send)
            if not (self.response_complete or self.disconnected):
                await self._give_up("ASGI callable returned without completing response.")
        except BaseException as problem:
            await self._give_up("Exception in ASGI application\n", problem)
        finally:
            self.on_response = _nothing  # it leads back to the connection, and from there to here

    async def _give_up(self, why: str, problem: BaseException | None = None) -> None:
        self.logger.error(why, exc_info=problem)
        if self.response_started:
            self.transport.close()
            return
        await self.send({"type": "http.response.start", "status": 500, "headers": _BROKEN_HEADERS})
        await self.send({"type": "http.response.body", "body": _BROKEN})

    # -- the request

    @property
    def message_event(self) -> "Cycle":
        """What uvicorn sets when the connection is lost."""
        return self

    def set(self) -> None:
        """Something came: a piece of the body, its end, the end of the client or of the answer."""
        self._news = True
        if self._bell is not None:
            self._bell.set()

    async def receive(self) -> Message:
        if self.waiting_for_100_continue and not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waiting_for_100_continue = False
        if not (self.disconnected or self.response_complete):
            self.flow.resume_reading()
            while not self._news:
                bell = self._bell = self._bell or asyncio.Event()
                bell.clear()
                await bell.wait()
            self._news = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = self.body, b""
        self._taken = not self.more_body
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def asked(self) -> bytes | None:
        """The request's body where it is there, whole, before anybody asked for it, as nearly always; once."""
        if self.more_body or self._taken or self.disconnected or self.response_complete or self.flow.read_paused:
            return None
        self._taken, self._news = True, False
        body, self.body = self.body, b""
        return body

    # -- the answer

    async def send(self, message: Message) -> None:
        flow = self.flow
        if flow.write_paused and not self.disconnected:
            await flow.drain()
        if self.disconnected or self.transport.is_closing():
            self.disconnected = True  # the connection's own word comes a turn later, and nothing may be written now
            return
        kind = message["type"]
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(f"Expected ASGI message 'http.response.start', but got '{kind}'.")
            self._start(message["status"], message.get("headers", ()))
        elif self.response_complete:
            raise RuntimeError(f"Unexpected ASGI message '{kind}' sent, after response already completed.")
        elif kind != "http.response.body":
            raise RuntimeError(f"Expected ASGI message 'http.response.body', but got '{kind}'.")
        else:
            self._continue(message.get("body", b""), message.get("more_body", False))

    def gone(self) -> bool:
        """Whether the client has left."""
        return bool(self.disconnected) or self.transport.is_closing()

    def ready(self) -> bool:
        """Whether a piece of a running stream can be written in this turn."""
        return bool(self.chunked_encoding) and not (
            self._head
            or self.flow.write_paused
            or self.disconnected
            or self.response_complete
            or self.transport.is_closing()
        )

    def whole(self, status: int, headers: Iterable[Header], body: bytes) -> bool:
        """A whole answer in the caller's turn; False: nothing was written, use ``send``.

        *headers* without those that frame the body, which is empty where *status* has none.
        """
        if self.response_started or self.disconnected or self.flow.write_paused or self.transport.is_closing():
            return False
        if self.scope["method"] == "HEAD" or (status == 204 or status == 304):
            return False
        end = b"content-length: %d\r\n\r\n" if self.keep_alive else b"connection: close\r\ncontent-length: %d\r\n\r\n"
        lines = (*map(_line_of, self.default_headers), *map(_line_of, headers))
        head = b"".join((STATUS_LINE[status], *lines, end % len(body)))
        self.response_started = True
        self.waiting_for_100_continue = False
        self._put(head, body)
        self._complete()
        return True

    def write_now(self, body: bytes) -> None:
        """The same as ``send`` of a piece with more to come, in the caller's turn; only when :meth:`ready`."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))

    def _start(self, status: int, headers: Iterable[Header]) -> None:
        """Put the head together. It is written with the body, or in the next turn of the loop where none came."""
        self.chunked_encoding, self.expected_content_length = None, 0  # an earlier head may have been refused
        lines = [STATUS_LINE[status]]
        close = False
        for pair in (*self.default_headers, *headers):
            line = _lines.get(pair)
            if line is None:
                line = _lines.make(pair)
                if framing := _name(pair[0])[2]:
                    close = self._note(framing, pair[1]) or close
            lines.append(line)
        if not (self.keep_alive or close):
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in (204, 304):
            self._open_ended = self.scope["http_version"] == "1.0"
            if not self._open_ended:
                self.chunked_encoding = True
                lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        self.response_started = True
        self.waiting_for_100_continue = False
        if self.chunked_encoding or self._open_ended:
            asyncio.get_running_loop().call_soon(self._write_head)

    def _note(self, name: bytes, value: bytes) -> bool:
        """Read what says how the body is framed; True for ``connection: close``."""
        if name == b"content-length":
            if self.chunked_encoding is None:
                self.expected_content_length = int(value)
                self.chunked_encoding = False
        elif name == b"transfer-encoding":
            if value.lower() == b"chunked":
                self.expected_content_length = 0
                self.chunked_encoding = True
        elif name == b"connection" and b"close" in [token.lower().strip() for token in value.split(b",")]:
            self.keep_alive = False
            return True
        return False

    def _write_head(self) -> None:
        head, self._head = self._head, b""
        if head and not self.transport.is_closing():
            self.transport.write(head)

    def _continue(self, body: bytes, more: bool) -> None:
        if self.scope["method"] == "HEAD":
            self.expected_content_length = 0
            body = b""
        elif self.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more:
                body += b"0\r\n\r\n"
        elif self._open_ended:
            pass
        elif len(body) > self.expected_content_length:
            raise RuntimeError("Response content longer than Content-Length")
        else:
            self.expected_content_length -= len(body)
        head = self._head
        if head:
            self._head = b""
            self._put(head, body)
        elif body:
            self.transport.write(body)
        if not more:
            self._complete()

    def _put(self, head: bytes, body: bytes) -> None:
        if len(body) > _LARGE:
            self.transport.writelines((head, body))
        else:
            self.transport.write(head + body)

    def _complete(self) -> None:
        if self.expected_content_length != 0:
            raise RuntimeError("Response content shorter than Content-Length")
        self.response_complete = True
        # It leads back here: a ring that only the collector would take apart, one for every request.
        self.scope.pop("extensions", None)
        self.set()
        if not (self.keep_alive or self.more_body):
            self.transport.close()
        self.on_response()  # lingers where there is more
