"""Ids of tool calls on their way to a provider that takes less in them than another one gave. Pure.

A conversation moves between vendors, and an id the next one refuses would end it with a 400 that nobody else is asked
after. An id is opaque to who gets it, so that any other one does that is the same wherever the first one stood.
"""

import re
from collections.abc import Callable
from hashlib import sha256

import msgspec

from providers.kinds.base import CALL_ID_LIMIT
from proxy.dialects.base import Members

Raw = msgspec.Raw

RESPONSES_LIMIT = 64
"""Characters of an id that OpenAI takes in Responses."""

_HASHED = 16
_OURS = re.compile(r"(?:call_chatcmpl-|toolu_msg_)[0-9a-f]{32}_[0-9]+")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]")
_ERRORS = (ValueError, RecursionError)
_EXTRA = "extra_content"

_members = msgspec.json.Decoder(Members).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode


def plain(call_id: str) -> str:
    """*call_id* as Anthropic takes it: letters, digits, ``_`` and ``-``."""
    return _NOT_PLAIN.sub("_", call_id)


def shortened(call_id: str, limit: int) -> str:
    """*call_id* in at most *limit* characters: itself, or how it begins and a hash of it."""
    if len(call_id) <= limit:
        return call_id
    return f"{call_id[: limit - _HASHED - 1]}_{sha256(call_id.encode()).hexdigest()[:_HASHED]}"


def longer(limit: int) -> re.Pattern[bytes]:
    """What follows a member's name where its text may have more than *limit* characters; for :func:`anywhere`."""
    return re.compile(rb'\s*:\s*"[^"]{%d}' % (limit + 1))


def anywhere(data: bytes, mark: bytes, then: re.Pattern[bytes]) -> bool:
    """Whether *then* follows a *mark* somewhere: a look that costs a large body next to nothing."""
    at = data.find(mark)
    while at >= 0:
        at += len(mark)
        if then.match(data, at):
            return True
        at = data.find(mark, at)
    return False


def each(raw: Raw, change: Callable[[Raw], Raw | None]) -> Raw:
    """The list *raw* with every element changed, or left out for None; *raw* itself where all stay, or it is none."""
    try:
        items = _items(raw)
    except _ERRORS:
        return raw
    made = [change(item) for item in items]
    if all(new is old for new, old in zip(made, items, strict=True)):
        return raw
    return Raw(_encode([item for item in made if item is not None]))


def rename(members: Members, name: str, change: Callable[[str], str]) -> bool:
    """Change the id under *name*, in place; False where it stays, or there is none."""
    raw = members.get(name)
    if raw is None or bytes(memoryview(raw)[:1]) != b'"':
        return False
    try:
        old = _text(raw)
    except _ERRORS:
        return False
    new = change(old)
    if new != old:
        members[name] = Raw(_encode(new))
    return new != old


# -- chat

_LONG = longer(CALL_ID_LIMIT)


def for_chat(body: Members, raw: bytes | None, *, limit: int | None, signatures: bool) -> Members:
    """The chat request *body* for a provider that takes *limit* characters in an id; *body* itself where nothing is to
    be changed. *raw* is what the client sent, None where it spoke another dialect.

    Ids that we made are shortened for everybody: whoever is behind a relay may have OpenAI's limit. Others only where
    there is a *limit*, for a provider may keep something in its own. *signatures*: Gemini's signatures are understood;
    elsewhere those are left out that we restored, which is all there are where a client spoke another dialect.
    """
    messages = body.get("messages")
    if messages is None:
        return body
    data = bytes(messages) if raw is None else raw
    drop = raw is None and not signatures and b'"extra_content"' in data
    if not drop and not anywhere(data, b'"tool_call_id"', _LONG):
        return body

    def fit(call_id: str) -> str:
        if len(call_id) <= CALL_ID_LIMIT or (limit is None and not _OURS.fullmatch(call_id)):
            return call_id
        return shortened(call_id, limit or CALL_ID_LIMIT)

    def call(item: Raw) -> Raw:
        members = _object(item)
        changed = rename(members, "id", fit)
        if drop and _EXTRA in members:
            del members[_EXTRA]
            changed = True
        return Raw(_encode(members)) if changed else item

    def message(item: Raw) -> Raw:
        if b'"tool_call' not in bytes(item):
            return item
        members = _object(item)
        changed = rename(members, "tool_call_id", fit)
        calls = members.get("tool_calls")
        if calls is not None and (made := each(calls, call)) is not calls:
            members["tool_calls"] = made
            changed = True
        return Raw(_encode(members)) if changed else item

    return {**body, "messages": each(messages, message)}


def _object(raw: Raw) -> Members:
    """Its members; none of anything else."""
    try:
        return _members(raw)
    except _ERRORS:
        return {}
