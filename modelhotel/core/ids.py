"""Identifiers. UUIDv4 from the operating system's random source, without the cost of building UUID objects."""

import os
import uuid


def uuid4_text() -> str:
    """A random UUID (RFC 9562, version 4) in canonical text form."""
    raw = bytearray(os.urandom(16))
    raw[6] = (raw[6] & 0x0F) | 0x40
    raw[8] = (raw[8] & 0x3F) | 0x80
    h = raw.hex()
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def hex16() -> str:
    """16 random hex digits: the correlation id of one request."""
    return os.urandom(8).hex()


def parse_uuid(text: object) -> uuid.UUID | None:
    """The UUID that *text* spells in canonical form (any letter case), else None."""
    if not isinstance(text, str) or len(text) != 36:
        return None
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return value if str(value) == text.lower() else None
