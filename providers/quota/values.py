"""Reading the values of foreign quota payloads: whatever can not be read is None, never 0. Pure."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

#: Epoch numbers below this are seconds, else milliseconds.
_MILLISECONDS_FROM = 1e11


def number(value: Any) -> float | None:
    """A finite number, also one spelled as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def instant(value: Any) -> datetime | None:
    """An instant from an epoch number, digits, or RFC 3339; None for what is none."""
    epoch = number(value)
    try:
        if epoch is not None:
            return (
                datetime.fromtimestamp(epoch if epoch < _MILLISECONDS_FROM else epoch / 1000, UTC)
                if epoch > 0
                else None
            )
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    return found if found is not None and found.tzinfo is not None else None


def member(value: Any, member: str) -> Mapping[str, Any]:
    found = value.get(member) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def entries(value: Any, member: str) -> list[Mapping[str, Any]]:
    found = value.get(member) if isinstance(value, Mapping) else None
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def percentage(value: Any) -> float | None:
    found = number(value)
    return found if found is not None and 0 <= found <= 100 else None


def share(used: float | None, total: float | None) -> float | None:
    return 100.0 * used / total if used is not None and total is not None and total > 0 else None


def word(value: Any) -> str:
    """A text without white space around it, else ``""``."""
    return value.strip() if isinstance(value, str) else ""
