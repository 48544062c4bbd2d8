"""uvicorn's HTTP/1.1 protocol with a limit on heads, trailers kept apart, and offers to switch protocols passed over.

uvicorn lets a head grow without end, before anyone was asked for a key; it appends the trailers of a chunked body to
the headers of the request, where a late ``Authorization`` or ``X-Forwarded-For`` would pass for a header; and it loses
the body of a request that offers an upgrade, as Java's HTTP client does by default (``Upgrade: h2c``).
"""

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_LIMIT = 64 * 1024
"""Bytes of a request line with its headers, and of anything else between two pieces of body."""
_INVALID = "Invalid HTTP request received."
_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 25\r\nconnection: close\r\n\r\nrequest headers too large"
)


class Connection(HttpToolsProtocol):
    """One client connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._quiet = 0  # bytes since the last piece of body, or since the last request was whole
        self._offered = False  # the parser takes the request in hand for the last one in HTTP/1.1

    def data_received(self, data: bytes) -> None:
        self._quiet += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            if self._quiet > HEAD_LIMIT:
                self._refuse()
            else:
                self.logger.warning(_INVALID)
                self.send_400_response(_INVALID)
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

    def on_headers_complete(self) -> None:
        if self._quiet > HEAD_LIMIT and sum(len(name) + len(value) for name, value in self.headers) > HEAD_LIMIT:
            raise ValueError("head over the limit")
        if self.parser.get_method() == b"CONNECT":
            raise ValueError("no proxy")
        if self.parser.should_upgrade():
            self._offered = True
            return
        super().on_headers_complete()
        self.headers = []  # the scope keeps the list that is complete

    def on_body(self, body: bytes) -> None:
        self._quiet = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._offered:
            self._quiet = 0
            super().on_message_complete()

    def _refuse(self) -> None:
        # An answer that is still running is cut: nothing else may be written into it.
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LONG)
        self.transport.close()
