"""Keeping of a foreign JSON document the fields that are known, and nothing else. Pure.

A shape is a dictionary of shapes (an object), a list of one shape (a list of such) or a leaf. What has another type
than its shape is left out, as if it had not been there; null stays null.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from modelhotel.core.text import clip

#: Entries kept of a list, characters of a text.
ENTRIES, CHARACTERS = 100, 300
#: Whole numbers that fit every JSON reader and both databases.
_LARGEST = 2**63
_GONE: Any = object()

Leaf = Callable[[Any], Any]
Shape = Leaf | Mapping[str, "Shape"] | list["Shape"]


def keep(shape: Shape, value: Any) -> Any:
    """The part of *value* that has *shape*. An object for an object's shape, whatever *value* is."""
    kept = _keep(shape, value)
    return ({} if isinstance(shape, Mapping) else None) if kept is _GONE or kept is None else kept


def _keep(shape: Shape, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            return _GONE
        found = {name: _keep(inner, value[name]) for name, inner in shape.items() if name in value}
        return {name: kept for name, kept in found.items() if kept is not _GONE}
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _GONE
        return [kept for entry in value[:ENTRIES] if (kept := _keep(shape[0], entry)) is not _GONE]
    return shape(value)


def flag(value: Any) -> Any:
    return value if isinstance(value, bool) else _GONE


def text(value: Any) -> Any:
    # A NUL is no text for PostgreSQL, a lone surrogate for none.
    if not isinstance(value, str):
        return _GONE
    return clip(value.replace("\0", "").encode("utf-8", "replace").decode("utf-8"), CHARACTERS)


def amount(value: Any) -> Any:
    """A number, spelled as the provider spells it: some write it as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _GONE
    try:
        usable = math.isfinite(float(value)) and (not isinstance(value, int) or abs(value) < _LARGEST)
    except (ValueError, OverflowError):
        return _GONE
    return text(value) if usable and isinstance(value, str) else value if usable else _GONE


def scalar(value: Any) -> Any:
    """A text, a number or a flag."""
    return next((kept for leaf in (flag, amount, text) if (kept := leaf(value)) is not _GONE), _GONE)
