"""Identifiers: unique, never secret. Keys and tokens are made with ``secrets`` where they are made."""

import os
import random
import re
import time
import uuid

_bits = random.Random()
os.register_at_fork(after_in_child=_bits.seed)

_CANONICAL = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VARIANT = 1 << 63
_LAST_62 = (1 << 62) - 1


def hyphened(text: str) -> str:
    """The canonical text of a UUID that is written with hyphens or as its 32 hex digits alone."""
    return text if len(text) == 36 else f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _text(head: int, tail: int) -> str:
    """The UUID of 64 and 62 bits, between which the variant stands. Cutting the text of all 128 costs twice it."""
    first = head.to_bytes(8, "big").hex("-", 2).replace("-", "", 1)
    return f"{first}-{(_VARIANT | tail).to_bytes(8, 'big').hex('-', 6)}"


def uuid4_text() -> str:
    """A random UUID (RFC 9562, version 4) in canonical text form, without the cost of a UUID object."""
    bits = _bits.getrandbits(122)
    return _text(bits >> 74 << 16 | 0x4000 | bits >> 62 & 0xFFF, bits & _LAST_62)


def uuid7_text(at: float | None = None) -> str:
    """A UUID that sorts by time (RFC 9562, version 7, method 3): *at* in POSIX seconds, to about a microsecond.

    Neighbours in time are neighbours in an index. Default: now.
    """
    stamp = int((time.time() if at is None else at) * 4_096_000)  # 48 bits of milliseconds, 12 of their fraction
    return _text(stamp >> 12 << 16 | 0x7000 | stamp & 0xFFF, _bits.getrandbits(62))


def hex16() -> str:
    """16 random hex digits: the correlation id of one request."""
    return _bits.getrandbits(64).to_bytes(8, "big").hex()


def canonical_uuid(text: object) -> str | None:
    """*text* in lower case where it spells a UUID in canonical form, else None; costs no UUID object."""
    lower = text.lower() if isinstance(text, str) else ""
    return lower if _CANONICAL.fullmatch(lower) else None


def parse_uuid(text: object) -> uuid.UUID | None:
    """The UUID that *text* spells in canonical form (any letter case), else None."""
    canonical = canonical_uuid(text)
    return uuid.UUID(canonical) if canonical else None
