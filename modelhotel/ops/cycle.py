"""One request and its answer on uvicorn's connection, with fewer writes.

uvicorn writes head and body with a system call each, and looks at every header with two regular expressions. Here a
head goes out together with the first piece of its body, and header lines that come again are kept in their final form.
"""

import asyncio
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

DIRECT = "modelhotel.direct"
"""The ASGI extension: ``scope["extensions"][DIRECT]`` is the cycle: ``whole``, ``ready``, ``write_now``."""
#: A body this large is not copied to stand behind its head. Bytes.
_LARGE = 16 * 1024
_REMEMBERED = 512
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
    )
)
_lines: dict[tuple[bytes, bytes], bytes] = {}


@lru_cache(maxsize=_REMEMBERED)
def _name(name: bytes) -> bytes:
    """The lower-case name. Raises RuntimeError for what is none."""
    if HEADER_RE.search(name):
        raise RuntimeError("Invalid HTTP header name.")
    return name.lower()


def _line(name: bytes, value: bytes) -> bytes:
    """The header line. Raises RuntimeError for what would break out of it."""
    name = _name(name)
    if HEADER_VALUE_RE.search(value):
        raise RuntimeError("Invalid HTTP header value.")
    line = b"%b: %b\r\n" % (name, value)
    if name in _STEADY:
        if len(_lines) >= _REMEMBERED:
            _lines.clear()
        _lines[name, value] = line
    return line


class Cycle(RequestResponseCycle):
    """See the module."""

    task: asyncio.Task[None] | None = None
    """Kept here, because the event loop itself keeps no task alive."""
    _taken = False
    """The end of the request's body was handed over."""
    _head = b""
    """What is not written yet."""
    _open_ended = False
    """The end of the body is the end of the connection: HTTP/1.0 knows no chunks."""

    async def send(self, message: Any) -> None:
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

    def ready(self) -> bool:
        """Whether a piece of a running stream can be written in this turn."""
        return bool(self.chunked_encoding) and not (
            self._head
            or self.flow.write_paused
            or self.disconnected
            or self.response_complete
            or self.transport.is_closing()
        )

    def whole(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
        """A whole answer in the caller's turn; False: nothing was written, use ``send``."""
        if self.response_started or self.disconnected or self.flow.write_paused or self.transport.is_closing():
            return False
        self._start(status, headers)
        self._continue(body, False)
        return True

    async def receive(self) -> Any:
        if self.more_body or self._taken or self.disconnected or self.response_complete or self.flow.read_paused:
            message = await super().receive()
            self._taken = self._taken or not message.get("more_body", False)
            return message
        # Nearly always the body is there, whole, before anybody asks for it.
        self._taken = True
        self.message_event.clear()
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": False}

    def write_now(self, body: bytes) -> None:
        """The same as ``send`` of a piece with more to come, in the caller's turn; only when :meth:`ready`."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(body), body))

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Put the head together. It is written with the body, or in the next turn of the loop where none came."""
        self.chunked_encoding, self.expected_content_length = None, 0  # an earlier head may have been refused
        lines = [STATUS_LINE[status]]
        for name, value in self.default_headers:
            lines.append(_lines.get((name, value)) or _line(name, value))
        close = False
        for name, value in headers:
            line = _lines.get((name, value))
            if line is None:
                line = _line(name, value)
                name = name.lower()
                if name in _FRAMING:
                    close = self._note(name, value) or close
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
            if len(body) > _LARGE:
                self.transport.writelines((head, body))
            else:
                self.transport.write(head + body)
        elif body:
            self.transport.write(body)
        if not more:
            self._complete()

    def _complete(self) -> None:
        if self.expected_content_length != 0:
            raise RuntimeError("Response content shorter than Content-Length")
        self.response_complete = True
        # It leads back here: a ring that only the collector would take apart, one for every request.
        self.scope.pop("extensions", None)
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
