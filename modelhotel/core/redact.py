"""Masking of credentials in text that a provider wrote.

Two rules. *Known keys*: every provider key the gateway holds, longest first so that no tail survives.
*Key shapes*: tokens that look like a key of a well-known vendor and contain a digit. Text a model wrote is
not error text: only the exact key of the provider in use is replaced there.
"""

import re
from collections.abc import Iterable

MASK = "[redacted]"
#: A shorter key is a placeholder (``x``, ``ollama``): in ordinary text it would be found in every other word.
KEY_MIN = 8
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|gsk|xai|hf|fw|r8)[-_][A-Za-z0-9_-]{16,}"
    r"|AIza[A-Za-z0-9_-]{30,}"
    r"|AKIA[A-Z0-9]{16}"
    r"|eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"
    r"|Bearer [A-Za-z0-9._~+/=-]{16,}"
    r")"
)
_BEGINNINGS = ("sk-", "sk_", "xai-", "xai_", "hf-", "hf_", "fw-", "fw_", "r8-", "r8_", "AIza", "AKIA", "eyJ", "Bearer ")


def _mask_shape(match: re.Match[str]) -> str:
    return MASK if any(ch.isdigit() for ch in match[0]) else match[0]


def known_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys to look for, longest first; empty ones left out."""
    return tuple(sorted({k for k in keys if k}, key=lambda k: (-len(k), k)))


def _may_hold_one(text: str) -> bool:
    """Cheap, and true wherever ``_SHAPES`` finds something: nearly every text holds none of the beginnings."""
    return any(beginning in text for beginning in _BEGINNINGS)


def error_text(text: str, keys: Iterable[str] = ()) -> str:
    """*text* without any of *keys* (longest first) and without anything key-shaped."""
    for key in keys:
        if key in text:
            text = text.replace(key, MASK)
    return _SHAPES.sub(_mask_shape, text) if _may_hold_one(text) else text
