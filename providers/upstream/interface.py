"""One HTTP exchange with an upstream, whichever client carries it.

Two implementations: ``native`` (asyncio + httptools) and ``httpx_client``. Both dial only addresses the egress guard
checked, never follow redirects, send exactly the headers given, and map every foreign error to :class:`UpstreamError`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

Headers = Sequence[tuple[bytes, bytes]]
Address = tuple[int, Any]
"""Address family and the socket address to dial."""


class Steady(tuple[tuple[bytes, bytes], ...]):
    """Headers that come again with request after request: how they are written is kept with them."""

    block: bytes = b""


IDLE_SECONDS = 120.0  # how long a pooled connection may rest
IDLE_TOTAL = 200  # resting connections of one client
IDLE_PER_HOST = 20
HEADER_LIMIT = 100 * 1024  # bytes of one response head; the same in both clients


Sift = Callable[[bytes], bool]
"""Takes a piece of a body in the turn in which it arrives, without waking the task that waits. Must not raise."""


class FaultKind(StrEnum):
    """Where an exchange broke. Everything but the timeouts is a connection fault of the upstream."""

    DNS = "dns"
    REFUSED = "refused"  # refused, no route: nothing was sent
    TLS = "tls"
    FORBIDDEN = "forbidden"  # the egress guard let no address through
    RESET = "reset"  # reset, broken pipe, EOF: the connection was interrupted
    PROTOCOL = "protocol"  # not HTTP, or headers over the limit
    DIAL_TIMEOUT = "dial_timeout"
    HEADER_TIMEOUT = "header_timeout"
    BODY_TIMEOUT = "body_timeout"  # the deadline of the exchange passed while the body was read
    TOO_LARGE = "too_large"  # read() met more than its limit


class UpstreamError(Exception):
    """*kind* says what broke, *request_written* whether a byte of the request may have reached the wire.

    ``str()`` is for logs: host and port at most, never headers, query or body. *partial* is what ``Response.read``
    had gathered when it failed; *dial_ms* is set on errors of ``send`` (a response has its own).
    """

    def __init__(self, kind: FaultKind, text: str, *, request_written: bool = False, dial_ms: float = 0.0) -> None:
        super().__init__(text)
        self.kind = kind
        self.request_written = request_written
        self.dial_ms = dial_ms
        self.partial = b""

    def __repr__(self) -> str:
        return f"UpstreamError({self.kind}, {str(self)!r}, request_written={self.request_written})"


@dataclass(slots=True)
class Request:
    """*url* is absolute http(s); *headers* go out as they are, after Host, Accept-Encoding and Content-Length."""

    method: str
    url: str
    headers: Headers
    body: bytes = b""


class Response(Protocol):
    """Headers have arrived. The body is pulled; whoever holds it must end it by ``read`` to the end or ``close``."""

    status: int
    headers: list[tuple[bytes, bytes]]  # names lower-cased
    dial_ms: float  # DNS + TCP + TLS of this exchange, 0 on a reused connection

    def header(self, name: bytes) -> bytes | None:
        """First value of the lower-case *name*."""
        ...

    async def chunk(self, sift: Sift | None = None) -> bytes:
        """All bytes that have arrived, at least one; ``b""`` at the end of the body. Raises UpstreamError.

        While it waits, what arrives may be offered to *sift* instead, which takes all of it (True) or nothing.
        Content-Encoding is never decoded: requests ask for identity.
        """
        ...

    def deadline(self, when: float | None) -> None:
        """The loop time at which a pending ``chunk`` fails with BODY_TIMEOUT. May be moved at any time, cheaply."""
        ...

    def at_hand(self, limit: int) -> bytes | None:
        """What :meth:`read` would return without waiting; None where it would wait or raise."""
        ...

    async def read(self, limit: int) -> bytes:
        """The body, or what is left of it after ``chunk``. Raises UpstreamError, TOO_LARGE where that is more than
        *limit* bytes; what was read is ``partial`` on the error.
        """
        ...

    def close(self) -> None:
        """Give the connection back when the body was read to its end, else drop it at once. Idempotent."""
        ...


class Resolver(Protocol):
    async def resolve(self, host: str, port: int) -> list[Address]:
        """The addresses that may be dialled, best first, at least one. Raises UpstreamError DNS or FORBIDDEN."""
        ...


class Client(Protocol):
    async def send(self, request: Request, *, deadline: float, header_timeout: float) -> Response:
        """Dial (or reuse), write, wait for the headers of the final answer (1xx skipped).

        *deadline* is the loop time that ends dialling, writing and waiting (DIAL_TIMEOUT or HEADER_TIMEOUT) and,
        until moved, the body; *header_timeout* counts seconds from the request being written. A stale pooled
        connection that dies before any answer byte raises RESET with ``request_written=True``; the caller retries.
        Cancellation at any await leaves no connection behind. Raises UpstreamError; ValueError for a request that
        can not be written as HTTP (a URL that is not http(s), a line break in a header).
        """
        ...

    async def aclose(self) -> None:
        """Drop every connection, those in use included."""
        ...
