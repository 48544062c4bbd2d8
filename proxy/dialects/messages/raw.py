"""JSON members as the bytes that came, and the few questions that the translations ask of them. Pure.

What was decoded to ``Raw`` is valid JSON without lone surrogates, so the insides of two strings joined are the inside
of a string. Its UTF-8 is not checked: that is done once, of the whole body.
"""

from typing import TypeGuard

import msgspec

from modelhotel.core import ids
from proxy.dialects.base import Members

Raw = msgspec.Raw

ABSENT = Raw()
ERRORS = (ValueError, RecursionError)
NULL = b"null"

decode_members = msgspec.json.Decoder(Members).decode
decode_items = msgspec.json.Decoder(list[Raw]).decode
decode_text = msgspec.json.Decoder(str).decode
encode = msgspec.json.Encoder().encode


def hex32() -> str:
    """32 random hex digits."""
    return ids.hex16() + ids.hex16()


def members_of(raw: Raw | None) -> Members:
    """Its members; none of anything but an object."""
    if not is_object(raw):
        return {}
    try:
        return decode_members(raw)
    except ERRORS:
        return {}


def items_of(raw: Raw | None) -> list[Raw]:
    """Its elements; none of anything but a list."""
    if raw is None or bytes(memoryview(raw)[:1]) != b"[":
        return []
    try:
        return decode_items(raw)
    except ERRORS:
        return []


def is_object(raw: Raw | None) -> TypeGuard[Raw]:
    return raw is not None and bytes(memoryview(raw)[:1]) == b"{"


def is_text(raw: Raw | None) -> TypeGuard[Raw]:
    return raw is not None and bytes(memoryview(raw)[:1]) == b'"'


def absent(raw: Raw | None) -> bool:
    """Not there, or null."""
    return raw is None or raw is ABSENT or bytes(memoryview(raw)[:5]) in (b"", NULL)


def text_of(raw: Raw | None) -> str:
    """The text of a string; empty for anything else."""
    if not is_text(raw):
        return ""
    try:
        return decode_text(raw)
    except ERRORS:
        return ""


def inside(raw: Raw | None) -> bytes:
    """A string without its quotes, escapes and all; empty for anything else."""
    return bytes(raw)[1:-1] if is_text(raw) else b""


def joined_text(raw: Raw | None) -> bytes:
    """The inside of the string that *raw* is, or of the joined ``text`` parts of the list that it is."""
    if raw is None or is_text(raw):
        return inside(raw)
    parts = [members_of(item) for item in items_of(raw)]
    return b"".join(inside(part.get("text")) for part in parts if text_of(part.get("type")) == "text")


def unescaped(text: bytes) -> bytes:
    """What the inside of a string says, in UTF-8. Raises ValueError."""
    return decode_text(b'"%b"' % text).encode() if b"\\" in text else text


def compact(raw: Raw) -> bytes:
    """The same JSON without blanks between its tokens; numbers keep their digits. Raises what ERRORS names."""
    return msgspec.json.format(bytes(raw), indent=-1)


def check_utf8(payload: bytes) -> None:
    """Raises ValueError."""
    if not payload.isascii():
        payload.decode()
