"""An error that came as a 200, seen before anything else reads the answer (failover-loop 5.3)."""

import logging
from collections.abc import Callable

from providers.cache import ProviderRow
from providers.upstream.interface import FaultKind, Response, Sift, UpstreamError
from proxy.answers import Header

log = logging.getLogger("proxy")

LOOKED_AT = 64 * 1024
"""Bytes of the longest body that is looked at."""
_PASSED = (b"text/event-stream", b"audio/", b"image/", b"video/", b"application/octet-stream")


async def look(response: Response, provider: ProviderRow, keep: Callable[[str], str]) -> Response:
    """*response*, a 200, as it is to be read from now on: one that holds an error has the status of that error.

    Any other is the same byte for byte, a fault in the middle of its body included. *keep* makes of a provider's text
    what may be logged.
    """
    if (response.header(b"content-type") or b"").strip().lower().startswith(_PASSED):
        return response
    pieces: list[bytes] = []
    size, ended = 0, False
    problem: UpstreamError | None = None
    try:
        while not ended and size <= LOOKED_AT:
            piece = await response.chunk()
            pieces.append(piece)
            size += len(piece)
            ended = not piece
    except UpstreamError as broke:
        problem = broke
    payload = b"".join(pieces)
    found = provider.kind.disguised(payload) if ended and size <= LOOKED_AT else None
    if found is None:
        return Replayed(response, payload, problem, response.status)
    attrs = {
        "provider": provider.name,
        "minimax_status": found.code,
        "mapped_status": found.status,
        "msg": keep(found.message),
    }
    log.warning("proxy: minimax business error inside HTTP 200", extra={"attrs": attrs})
    return Replayed(response, payload, problem, found.status)


class Replayed:
    """*response* from its first byte again: *head* was taken out of it, *problem* is what ended that."""

    __slots__ = ("_head", "_problem", "_response", "dial_ms", "headers", "status")

    def __init__(self, response: Response, head: bytes, problem: UpstreamError | None, status: int) -> None:
        self._response = response
        self._head = head
        self._problem = problem
        self.status = status
        self.headers: list[Header] = response.headers
        self.dial_ms = response.dial_ms

    def header(self, name: bytes) -> bytes | None:
        return self._response.header(name)

    def deadline(self, when: float | None) -> None:
        self._response.deadline(when)

    async def chunk(self, sift: Sift | None = None) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        if self._problem is not None:
            raise self._problem
        return await self._response.chunk(sift)

    def at_hand(self, limit: int) -> bytes | None:
        return None

    async def read(self, limit: int) -> bytes:
        head, self._head = self._head, b""
        if len(head) > limit:
            problem = UpstreamError(FaultKind.TOO_LARGE, "the body is larger than its limit", request_written=True)
            problem.partial = head[:limit]
            raise problem
        if self._problem is not None:
            self._problem.partial = head
            raise self._problem
        try:
            return head + await self._response.read(limit - len(head))
        except UpstreamError as problem:
            problem.partial = head + problem.partial
            raise

    def close(self) -> None:
        self._response.close()
