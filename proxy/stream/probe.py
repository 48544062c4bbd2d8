"""The first-token probe: what one payload of a chat stream says, and the status an error frame carries. Pure.

Nothing is shown to a client before a payload means :attr:`Meaning.OUTPUT`. A dialect that is not known is never cut for
being unknown: what can not be modelled counts as output (failover-loop 10.2).
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec


class Meaning(StrEnum):
    NOTHING = "nothing"
    OUTPUT = "output"
    END = "end"
    ERROR = "error"


DONE = b"[DONE]"

#: Members of a chunk without ``choices`` that are bookkeeping.
_PLAIN = frozenset(("id", "object", "created", "model", "system_fingerprint", "service_tier", "usage", "choices"))
#: Members of a choice that are known; any other populated one is output.
_CHOICE = frozenset(
    (
        "index",
        "delta",
        "text",
        "finish_reason",
        "native_finish_reason",
        "stop_reason",
        "matched_stop",
        "logprobs",
        "content_filter_results",
        "content_filter_offsets",
    )
)
#: Members of a delta that say who or what, not what was said.
_OPENERS = frozenset(("role", "name", "type", "index", "id"))
#: Keys inside a delta's member that do not count by themselves.
_KEYS = frozenset(("type", "index", "id"))

_STATUS_OF_TYPE = {"rate_limit_error": 429, "overloaded_error": 529}

_decode = msgspec.json.Decoder().decode


def populated(value: object) -> bool:
    """Not null, empty string, ``{}``, ``[]``, false or 0."""
    return bool(value)


def counts(value: object) -> bool:
    """Whether the value of a delta's member is output: some string in it is not empty. However deep: no recursion."""
    if isinstance(value, str):
        return value != ""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(member for key, member in item.items() if key not in _KEYS)
        elif isinstance(item, str) and item:
            return True
    return False


def classify(payload: bytes) -> Meaning:
    """What one ``data:`` payload of a chat stream means."""
    text = payload.strip()
    if not text:
        return Meaning.NOTHING
    if text == DONE:
        return Meaning.END
    try:
        frame = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return Meaning.OUTPUT
    if not isinstance(frame, dict):
        return Meaning.OUTPUT
    if populated(frame.get("error")):
        return Meaning.ERROR
    return Meaning.OUTPUT if frame_has_output(frame) else Meaning.NOTHING


def frame_has_output(frame: Mapping[str, object]) -> bool:
    """Whether a decoded chunk without an error shows model output."""
    choices = frame.get("choices")
    if choices is None:
        return any(key not in _PLAIN for key in frame)
    if not isinstance(choices, list):
        return True
    return any(_choice_has_output(choice) for choice in choices)


def _choice_has_output(choice: object) -> bool:
    if not isinstance(choice, dict):
        return True
    if any(key not in _CHOICE and populated(value) for key, value in choice.items()):
        return True
    if counts(choice.get("text")):
        return True
    delta = choice.get("delta")
    if delta is None:
        return False
    if not isinstance(delta, dict):
        return True
    return any(counts(value) for key, value in delta.items() if key not in _OPENERS)


def _status(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
        return value
    return None


def carried_status(payload: bytes) -> int | None:
    """The HTTP status that an error frame carries; None, to be read as 502, where it carries none (10.4)."""
    try:
        frame = _decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(frame, dict):
        return None
    error = frame.get("error")
    inner = error if isinstance(error, dict) else {}
    for source, names in ((inner, ("code", "status", "status_code")), (frame, ("status", "code", "status_code"))):
        for name in names:
            if (found := _status(source.get(name))) is not None:
                return found
    kind = inner.get("type")
    return _STATUS_OF_TYPE.get(kind) if isinstance(kind, str) else None
