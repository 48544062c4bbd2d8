"""JSON members that stay the bytes that came, and what little is read of them. Pure.

Readers of one value raise nothing: what is not of the asked kind, or is broken, reads as empty.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from modelhotel.core import ids
from proxy.dialects.base import Members
from proxy.dialects.chat import populated

Raw = msgspec.Raw

NULL = Raw(b"null")
TRUE = Raw(b"true")
FALSE = Raw(b"false")
NO_LIST = Raw(b"[]")
NO_OBJECT = Raw(b"{}")
ERRORS = (ValueError, RecursionError)
"""What decoding raises."""

encode = msgspec.json.Encoder().encode

_members = msgspec.json.Decoder(Members).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_text = msgspec.json.Decoder(str).decode
_value = msgspec.json.Decoder().decode


def hex32() -> str:
    """The variable part of an id: 32 random hex digits."""
    return ids.hex16() + ids.hex16()


def utf8(payload: bytes) -> bool:
    """Whether text is what it should be; members that stay bytes are not looked at otherwise."""
    if payload.isascii():
        return True
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def mended(payload: bytes) -> bytes:
    """Text with every byte replaced that is no UTF-8."""
    return payload if utf8(payload) else payload.decode(errors="replace").encode()


def json(value: object) -> Raw:
    """*value*, which may hold Raw, as a member."""
    return Raw(encode(value))


def starts(raw: Raw | None, sign: bytes) -> bool:
    """Whether the value is of the kind that begins with *sign*; a long one is not copied to see it."""
    return raw is not None and memoryview(raw)[:1] == sign


def absent(raw: Raw | None) -> bool:
    """Not there, or null."""
    return raw is None or (len(memoryview(raw)) == 4 and bytes(raw) == b"null")


def filled(raw: Raw | None) -> bool:
    """There, and not null, empty, false or zero."""
    return raw is not None and populated(raw)


def text(raw: Raw | None) -> str:
    """The text of a string."""
    if raw is None or not starts(raw, b'"'):
        return ""
    try:
        return _text(raw)
    except ERRORS:
        return ""


def members(raw: Raw | bytes | None) -> Members | None:
    """The members of an object; None for anything else."""
    try:
        return None if raw is None else _members(raw)
    except ERRORS:
        return None


def items(raw: Raw | bytes | None) -> list[Raw] | None:
    """The elements of a list; None for anything else."""
    try:
        return None if raw is None else _items(raw)
    except ERRORS:
        return None


def value(raw: Raw | bytes | None) -> Any:
    """The decoded value."""
    try:
        return None if raw is None else _value(raw)
    except ERRORS:
        return None


def loose(raw: Raw | bytes, levels: int = 7) -> Any:
    """The decoded value, of which a number that can not be read costs only itself.

    *levels* deep, which is how deep a chat answer is down to the arguments of a call.
    """
    found = value(raw)
    if found is not None or not levels:
        return found
    if (inside := members(raw)) is not None:
        return {name: loose(member, levels - 1) for name, member in inside.items()}
    return [loose(item, levels - 1) for item in items(raw) or ()] or None


def joined(texts: Sequence[Raw], between: bytes = b"\\n") -> Raw:
    """Strings as one string; *between* as JSON writes it. Nothing is decoded, so that no character is lost."""
    if len(texts) == 1:
        return texts[0]
    return Raw(b'"%b"' % between.join([bytes(memoryview(text)[1:-1]) for text in texts]))


def picked(source: Mapping[str, Raw], *names: str) -> Members:
    """The members *names* of *source* that are there and not null, in this order."""
    return {name: source[name] for name in names if not absent(source.get(name))}


def is_json(raw: str) -> bool:
    try:
        _value(raw)
    except ERRORS:
        return False
    return True


def arguments(raw: str) -> str:
    """The arguments of a finished tool call: JSON text, ``{}`` where they are none."""
    return raw if is_json(raw) else "{}"
