"""A whole answer of the Messages dialect as a chat completion (v1-api 14.3). Pure."""

import time
from collections.abc import Callable

from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.messages.counts import Counts
from proxy.dialects.messages.errors import KNOWN
from proxy.dialects.messages.raw import (
    ERRORS,
    Raw,
    absent,
    check_utf8,
    compact,
    decode_members,
    encode,
    hex32,
    inside,
    items_of,
    members_of,
    text_of,
)

_FINISH_REASONS = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
_NO_TEXT = Raw(b'""')
_BOM = b"\xef\xbb\xbf"


def finish_reason(stop_reason: str) -> str:
    """In OpenAI's words."""
    return _FINISH_REASONS.get(stop_reason, "stop")


def opened(payload: bytes) -> Members:
    """The members of a whole answer. Raises Untranslatable where it is none; an error's type is told."""
    try:
        check_utf8(payload)
        top = decode_members(payload.removeprefix(_BOM))
    except ERRORS:
        raise Untranslatable("not a JSON object") from None
    kind = text_of(top.get("type"))
    if kind == "message":
        return top
    named = text_of(members_of(top.get("error")).get("type"))
    if kind == "error" and named in KNOWN:
        raise Untranslatable(f"an error of type {named}")
    raise Untranslatable("an error" if kind == "error" else "not a message")


def to_chat(
    payload: bytes, *, model: str, new_id: Callable[[], str] = hex32, now: Callable[[], float] = time.time
) -> bytes:
    """The completion of *model*. *new_id* makes 32 hex digits, *now* is POSIX time. Raises Untranslatable."""
    top = opened(payload)
    content = [members_of(item) for item in items_of(top.get("content"))]
    message: dict[str, object] = {"role": "assistant", "content": Raw(b'"%b"' % _joined(content, "text"))}
    if thought := _joined(content, "thinking"):
        message["reasoning_content"] = Raw(b'"%b"' % thought)
    calls = [_call(block) for block in content if text_of(block.get("type")) == "tool_use"]
    if calls:
        message["tool_calls"] = calls
        if message["content"] == _NO_TEXT:
            message["content"] = None
    stopped = text_of(top.get("stop_reason"))
    finish = finish_reason(stopped) if stopped or len(message) > 2 or message["content"] != _NO_TEXT else None
    said: dict[str, object] = {
        "id": f"chatcmpl-{new_id()}",
        "object": "chat.completion",
        "created": int(now()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    counts = Counts()
    counts.take(top.get("usage"))
    if usage := counts.chat():
        said["usage"] = usage
    return encode(said)


def _joined(content: list[Members], kind: str) -> bytes:
    return b"".join(inside(block.get(kind)) for block in content if text_of(block.get("type")) == kind)


def _call(block: Members) -> dict[str, object]:
    function = {"name": text_of(block.get("name")), "arguments": arguments(block.get("input"))}
    return {"id": text_of(block.get("id")), "type": "function", "function": function}


def arguments(raw: Raw | None) -> str:
    """The JSON text of a tool's input."""
    return "{}" if raw is None or absent(raw) else compact(raw).decode()
