"""Compact durations: ``30s``, ``1m0s``, ``1h30m``, ``250ms``, ``1d12h``.

A run of number+unit without blanks, units in any order and repeatable; a day part may lead. ``m`` is
minutes, never milliseconds. Bare ``0`` is zero, any other bare number is not a duration.
"""

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|us|µs|μs|ns|h|m|s)")
_DAYS = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)d")


def parse(text: str) -> float:
    """Seconds; negative for a leading ``-``. Raises ValueError."""
    rest, sign = (text[1:], -1.0) if text[:1] in "+-" and text else (text, 1.0)
    if text.startswith("+"):
        sign = 1.0
    if rest == "0":
        return 0.0
    total, at = 0.0, 0
    if day := _DAYS.match(rest):
        total, at = float(day[1]) * 86400.0, day.end()
    if not rest or (at == 0 and not _PART.match(rest)):
        raise ValueError(f"not a duration: {text!r}")
    while at < len(rest):
        part = _PART.match(rest, at)
        if part is None:
            raise ValueError(f"not a duration: {text!r}")
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    return sign * total


def _number(value: float) -> str:
    return f"{value:.9f}".rstrip("0").rstrip(".")


def canonical(seconds: float) -> str:
    """The form settings are written in: ``1m0s``, ``24h0m0s``, ``30s``, ``250ms``, ``0s``."""
    if seconds == 0:
        return "0s"
    if 0 < seconds < 1:
        return _number(seconds * 1000) + "ms"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    tail = _number(rest) + "s"
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def short(seconds: float) -> str:
    """For people: ``45s``, ``1m30s``, ``4m``, ``1h``, ``1h30m``; below a second in ms; never ``4m0s``."""
    if seconds < 1:
        return _number(round(seconds * 1000)) + "ms"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "m"), (secs, "s")]
    return "".join(f"{n}{unit}" for n, unit in parts if n)
