"""The body of a request: read within its limit, parsed once, checked as far as routing needs it.

The JSON is decoded one level deep; every member stays the bytes that came. Of a member that stands there twice the
last one counts, for routing and for the provider alike.
"""

import asyncio
import time
from collections.abc import Mapping

import msgspec

from proxy.answers import INVALID_BODY, INVALID_VALUE, MISSING_PARAMETER, TOO_LARGE
from proxy.exchange import OVERALL_FACTOR, STREAM_FACTOR, Receive
from proxy.multipart import Form

Members = dict[str, msgspec.Raw]

_TIMED_OUT = "failover_timeout"
#: Characters of a model name (v1-api 6.2), and how many of a longer one the log keeps.
MODEL_LIMIT, MODEL_KEPT = 512, 64

_decode_members = msgspec.json.Decoder(Members).decode
_decode_text = msgspec.json.Decoder(str).decode
_NULL, _TRUE, _FALSE = b"null", b"true", b"false"


class BadBody(Exception):
    """A request that is answered with *status* and *message*; *model* is what the log keeps of an overlong name, *kind*
    its ``error_kind``.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        model: str = "",
        kind: str = "validation",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.model = model
        self.kind = kind


class ClientGone(Exception):
    """The client left while it was sending."""


class Asked(msgspec.Struct, frozen=True):
    """What routing reads of a body. *members* is the request as a chat request, *own* what the client sent where its
    dialect is another one. *form* is what came as a form; its text fields are *members* too, and the names of its
    files. *refusal*: why only a candidate of the client's own dialect can be asked.
    """

    members: Members
    model: str
    stream: bool
    include_usage: bool
    own: Members | None = None
    refusal: BadBody | None = None
    form: Form | None = None


def _invalid(param: str | None = None) -> BadBody:
    return BadBody(400, "invalid request body", INVALID_BODY, param)


def too_large() -> BadBody:
    """What a body over the limit is answered with."""
    return BadBody(413, "request body too large", TOO_LARGE)


def _late() -> BadBody:
    return BadBody(504, "request timed out while its body was being received", _TIMED_OUT, kind=_TIMED_OUT)


def _unreadable() -> BadBody:
    return BadBody(400, "failed to read request body", INVALID_BODY)


def announced(headers: Mapping[bytes, bytes]) -> int | None:
    """The ``Content-Length``; None when there is none."""
    value = headers.get(b"content-length")
    return int(value) if value and value.isdigit() else None


def deadline(arrival: float, request_timeout: float) -> float:
    """When the body of a request that came at *arrival* (monotonic) has to be there: before it is read nobody knows
    that no stream is wanted.
    """
    return arrival + OVERALL_FACTOR * STREAM_FACTOR * request_timeout


async def read(receive: Receive, length: int | None, limit: int, *, until: float) -> bytes:
    """The whole body, at most *limit* bytes and not after *until* (monotonic); *length* is the announced one. Raises
    BadBody, ClientGone.
    """
    if length is not None and length > limit:
        raise too_large()
    try:
        async with asyncio.timeout(until - time.monotonic()):
            return await _read(receive, length, limit)
    except TimeoutError:
        raise _late() from None


async def _read(receive: Receive, length: int | None, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        try:
            message = await receive()
        except OSError:
            raise _unreadable() from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise too_large()
        if not message.get("more_body", False):
            if length is not None and size < length:
                raise _unreadable()
            if not pieces:
                return piece
            pieces.append(piece)
            return b"".join(pieces)
        pieces.append(piece)


def parse(raw: bytes) -> Asked:
    """Check what routing needs. Raises BadBody, whose text never quotes the body."""
    try:
        if not raw.isascii():
            raw.decode()
        members = _decode_members(raw)
    except (ValueError, RecursionError):
        raise _invalid() from None
    model = _model(members)
    stream = _flag(members, "stream")
    return Asked(members, model, stream, stream and _wants_usage(members))


def _model(members: Members) -> str:
    raw = members.get("model")
    if raw is None or bytes(raw) == _NULL:
        raise BadBody(400, "model is required", MISSING_PARAMETER, "model")
    try:
        model = _decode_text(raw)
    except ValueError:
        raise _invalid("model") from None
    return checked(model)


def checked(model: str) -> str:
    """*model* when it can be a model's name. Raises BadBody."""
    if not model:
        raise BadBody(400, "model is required", MISSING_PARAMETER, "model")
    if len(model) > MODEL_LIMIT:
        text = f"model exceeds maximum length of {MODEL_LIMIT} characters"
        raise BadBody(400, text, INVALID_VALUE, "model", model=model[:MODEL_KEPT] + "…")
    return model


def _flag(members: Members, name: str) -> bool:
    raw = members.get(name)
    if raw is None:
        return False
    word = bytes(raw)
    if word == _TRUE:
        return True
    if word in (_FALSE, _NULL):
        return False
    raise _invalid(name)


class _StreamOptions(msgspec.Struct):
    include_usage: bool = False


def _wants_usage(members: Members) -> bool:
    """Whether the client asked for the usage chunk; a malformed request for it is the provider's to judge."""
    raw = members.get("stream_options")
    if raw is None:
        return False
    try:
        return msgspec.json.decode(raw, type=_StreamOptions).include_usage
    except ValueError:
        return False
