"""``count_tokens`` where no provider counts: an estimate from the text of a request (v1-api 12.7). Pure."""

from proxy import usage as usages
from proxy.dialects.base import Members
from proxy.dialects.messages.raw import ABSENT, Raw, absent, is_text, items_of, members_of, text_of

#: Members of a block that are text, or that a model reads as JSON.
_TEXTS = ("text", "thinking", "name")


def input_tokens(own: Members) -> int:
    """Tokens of the text in ``system``, ``messages`` and ``tools``; pictures and documents in base64 count nothing."""
    size = _size(own.get("system"))
    for item in items_of(own.get("messages")):
        size += _size(members_of(item).get("content"))
    if not absent(own.get("tools")):
        size += len(bytes(own.get("tools", ABSENT)))
    return usages.tokens(size)


def _size(content: Raw | None) -> int:
    """UTF-8 bytes of the text in a string, or in blocks."""
    if is_text(content):
        return len(text_of(content).encode())
    return sum(_of_block(members_of(item)) for item in items_of(content))


def _of_block(block: Members) -> int:
    size = sum(len(text_of(block.get(name)).encode()) for name in _TEXTS)
    if not absent(block.get("input")):
        size += len(bytes(block.get("input", ABSENT)))
    source = members_of(block.get("source"))
    if text_of(source.get("type")) == "text":
        size += len(text_of(source.get("data")).encode())
    return size + _size(block.get("content"))
