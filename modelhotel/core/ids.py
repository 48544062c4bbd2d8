"""Identifiers: unique, never secret. Keys and tokens are made with ``secrets`` where they are made."""

import os
import random
import re
import time
import uuid

_bits = random.Random()
os.register_at_fork(after_in_child=_bits.seed)

_CANONICAL = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VERSION_4 = 0x4000 << 64
_VARIANT = 0x8000 << 48
_FREE = ~(0xF000 << 64) & ~(0xC000 << 48)


def hyphened(text: str) -> str:
    """The canonical text of a UUID that is written with hyphens or as its 32 hex digits alone."""
    return text if len(text) == 36 else f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def uuid4_text() -> str:
    """A random UUID (RFC 9562, version 4) in canonical text form, without the cost of a UUID object."""
    h = f"{_bits.getrandbits(128) & _FREE | _VERSION_4 | _VARIANT:032x}"
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def uuid7_text(at: float | None = None) -> str:
    """A UUID that sorts by time (RFC 9562, version 7, method 3): *at* in POSIX seconds, to about a microsecond.

    Neighbours in time are neighbours in an index. Default: now.
    """
    stamp = int((time.time() if at is None else at) * 4_096_000)  # 48 bits of milliseconds, 12 of their fraction
    head = stamp >> 12 << 16 | 0x7000 | stamp & 0xFFF
    h = f"{head << 64 | 1 << 63 | _bits.getrandbits(62):032x}"
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def hex16() -> str:
    """16 random hex digits: the correlation id of one request."""
    return f"{_bits.getrandbits(64):016x}"


def canonical_uuid(text: object) -> str | None:
    """*text* in lower case where it spells a UUID in canonical form, else None; costs no UUID object."""
    lower = text.lower() if isinstance(text, str) else ""
    return lower if _CANONICAL.fullmatch(lower) else None


def parse_uuid(text: object) -> uuid.UUID | None:
    """The UUID that *text* spells in canonical form (any letter case), else None."""
    canonical = canonical_uuid(text)
    return uuid.UUID(canonical) if canonical else None
