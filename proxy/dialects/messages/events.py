"""What single events of a Messages stream say, before and behind the first token. Pure."""

import msgspec

from proxy import reasons
from proxy.dialects.messages.raw import ERRORS, encode
from proxy.stream.probe import DONE, Meaning, counts, populated

_QUIET = frozenset(("message_start", "ping", "message_delta", "content_block_stop"))
_PARTS = {"content_block_start": "content_block", "content_block_delta": "delta"}

_value = msgspec.json.Decoder().decode


def is_error(payload: bytes) -> bool:
    """An event of the type ``error``, or one that states an error whatever its type."""
    frame = _decoded(payload)
    return frame.get("type") == "error" or populated(frame.get("error"))


def _decoded(payload: bytes) -> dict[str, object]:
    try:
        frame = _value(payload)
    except ERRORS:
        return {}
    return frame if isinstance(frame, dict) else {}


def error_payload(payload: bytes) -> bytes:
    """An error event as the error frame of a chat stream, in the provider's words and with the status it carries."""
    error = _decoded(payload).get("error")
    stated = error if isinstance(error, dict) else {}
    message = error if isinstance(error, str) else stated.get("message")
    kind = stated.get("type")
    said = {
        "message": message if isinstance(message, str) and message else reasons.FAILED,
        "type": kind if isinstance(kind, str) and kind else "server_error",
        "param": None,
        "code": _code(stated.get("code")) or _code(stated.get("status")),
    }
    return encode({"error": said})


def _code(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1000:
        return str(value)
    return value if isinstance(value, str) and value else None


def classify(payload: bytes) -> Meaning:
    """What an event says before the first token (failover-loop 10.2)."""
    text = payload.strip()
    if not text:
        return Meaning.NOTHING
    if text == DONE:
        return Meaning.END
    try:
        frame = _value(text)
    except ERRORS:
        return Meaning.OUTPUT
    if not isinstance(frame, dict):
        return Meaning.OUTPUT
    kind = str(frame.get("type"))
    if kind == "error" or populated(frame.get("error")):
        return Meaning.ERROR
    if kind == "message_stop":
        return Meaning.END
    if kind in _QUIET:
        return Meaning.NOTHING
    part = frame.get(_PARTS.get(kind, ""))
    if not isinstance(part, dict):
        return Meaning.OUTPUT
    # A signature says nothing without the thinking it signs.
    said = any(counts(value) for name, value in part.items() if name not in ("type", "id", "signature"))
    return Meaning.OUTPUT if said else Meaning.NOTHING
