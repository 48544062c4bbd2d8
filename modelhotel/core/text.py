"""Text rules shared by names, error texts and logs."""

import re
import unicodedata

ELLIPSIS = "…"
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_INVISIBLE = frozenset("\u200b\u200c\u200d\ufeff\u2060\u2061\u2062\u2063\u2064\u00a0\u2028\u2029\u3000")


def is_name(text: str) -> bool:
    """True when *text* holds only name characters: nothing that controls, nothing invisible, no odd blanks."""
    return not any(ch in _INVISIBLE or unicodedata.category(ch) == "Cc" for ch in text)


def clip(text: str, limit: int) -> str:
    """At most *limit* characters, the last one an ellipsis where something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + ELLIPSIS


def without_uuids(text: str) -> str:
    """UUIDs (account, request and organisation ids) become ``[REDACTED]``."""
    return _UUID.sub("[REDACTED]", text)


def one_line(text: str) -> str:
    """Every run of blanks and control characters becomes one space."""
    return " ".join("".join(" " if unicodedata.category(ch) == "Cc" else ch for ch in text).split())
