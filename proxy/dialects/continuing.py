"""Asking another candidate for the rest of a chat answer: which requests allow it, and how it is asked. Pure."""

import msgspec

from proxy.dialects.base import Members
from proxy.dialects.chat import populated

Raw = msgspec.Raw

_members = msgspec.json.Decoder(Members).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_value = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

_UNSAID = Raw(b"null")


def allowed(body: Members) -> bool:
    """Whether the answer to this request is one plain text, which alone can be finished by somebody else."""
    try:
        return (
            _value(body.get("n", _UNSAID)) in (None, 1)
            and not populated(body.get("logprobs", _UNSAID))
            and not populated(body.get("top_logprobs", _UNSAID))
            and _value(body.get("response_format", _UNSAID)) in (None, {"type": "text"})
        )
    except (msgspec.MsgspecError, RecursionError):
        return False


def continued(body: Members, text: str) -> Members | None:
    """*body* with *text* said by the assistant; it goes on a message that the request itself had begun.

    None where there are no messages it could stand behind.
    """
    try:
        items = _items(body.get("messages", _UNSAID))
        last = _members(items[-1])
    except (msgspec.MsgspecError, RecursionError, IndexError):
        return None
    content = last.get("content", _UNSAID)
    if bytes(last.get("role", _UNSAID)) == b'"assistant"' and bytes(content).startswith(b'"'):
        items[-1] = Raw(_encode({**last, "content": Raw(_encode(_value(content) + text))}))
    else:
        items.append(Raw(_encode({"role": "assistant", "content": text})))
    return {**body, "messages": Raw(_encode(items))}
