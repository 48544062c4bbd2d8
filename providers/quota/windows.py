"""The windows of a quota payload, provider type by provider type (``circuit-breaker`` 11.4). Pure.

Payloads are foreign: whatever can not be read is left out, and a number that is missing is never taken for 0.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

#: Epoch numbers below this are seconds, else milliseconds.
_MILLISECONDS_FROM = 1e11
#: ``unit`` of a Z.ai limit: hours (the 5-hour window) and weeks.
_ZAI_HOURS, _ZAI_WEEKS = 3, 6
#: ``status`` of a MiniMax window that is part of the plan.
_MINIMAX_IN_PLAN = 1


@dataclass(frozen=True, slots=True)
class Window:
    """One allowance. *used*: the consumed percentage, None where the payload does not say; *resets* None = undated;
    *longest*: the one that a reserve is kept of.
    """

    name: str
    spent: bool
    resets: datetime | None = None
    used: float | None = None
    longest: bool = False


def of(provider_type: str, payload: Any) -> list[Window] | None:
    """The windows that are judged; None when the type has none or the payload is not understood."""
    read = _READERS.get(provider_type)
    if read is None or not isinstance(payload, Mapping):
        return None
    return list(read(payload)) or None


def keeps_reserve(provider_type: str) -> bool:
    """Whether a quota reserve means something for this type."""
    return provider_type in RESERVED


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


def _object(value: Any, member: str) -> Mapping[str, Any]:
    found = value.get(member) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _objects(value: Any, member: str) -> list[Mapping[str, Any]]:
    found = value.get(member) if isinstance(value, Mapping) else None
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def _percentage(value: Any) -> float | None:
    found = number(value)
    return found if found is not None and 0 <= found <= 100 else None


def _share(used: float | None, total: float | None) -> float | None:
    return 100.0 * used / total if used is not None and total is not None and total > 0 else None


def _zai(payload: Mapping[str, Any]) -> Iterator[Window]:
    for limit in _objects(_object(payload, "data") or {}, "limits"):
        unit = number(limit.get("unit"))
        if limit.get("type") != "TOKENS_LIMIT" or unit not in (_ZAI_HOURS, _ZAI_WEEKS):
            continue
        used, left = _percentage(limit.get("percentage")), number(limit.get("remaining"))
        if used is None and left is None:
            continue
        # Beside a sane percentage an explicit "remaining": 0 means nothing.
        spent = used >= 100 if used is not None else left is not None and left <= 0
        weekly = unit == _ZAI_WEEKS
        yield Window("weekly" if weekly else "5h", spent, instant(limit.get("nextResetTime")), used, weekly)


def _kimi_window(name: str, detail: Mapping[str, Any], longest: bool) -> Window | None:
    # Zero members are omitted: a spent window has no "remaining" but a "used" as large as its "limit".
    left, used, limit = (number(detail.get(member)) for member in ("remaining", "used", "limit"))
    if left is not None:
        spent = left <= 0
        share = 100.0 if spent else _share(None if limit is None else limit - left, limit)
    elif used is not None and limit is not None:
        spent, share = used >= limit, _share(used, limit)
    else:
        return None
    return Window(name, spent, instant(detail.get("resetTime")), share, longest)


def _kimi(payload: Mapping[str, Any]) -> Iterator[Window]:
    found = [_kimi_window("weekly", _object(payload, "usage"), True)]
    found += [
        _kimi_window(f"limit {n}", _object(entry, "detail"), False)
        for n, entry in enumerate(_objects(payload, "limits"), 1)
    ]
    yield from (window for window in found if window is not None)


def _minimax_window(entry: Mapping[str, Any], prefix: str, end: str, longest: bool) -> Window | None:
    if number(entry.get(f"{prefix}_status")) != _MINIMAX_IN_PLAN:
        return None
    total, used = number(entry.get(f"{prefix}_total_count")), number(entry.get(f"{prefix}_usage_count"))
    left = _percentage(entry.get(f"{prefix}_remaining_percent"))
    if total is not None and total > 0 and used is not None:
        spent, share = used >= total, _share(used, total)
    elif left is not None:
        spent, share = left <= 0, 100.0 - left
    else:
        return None
    name = f"{entry.get('model_name') or 'all'} {'weekly' if longest else 'interval'}"
    return Window(name, spent, instant(entry.get(end)), share, longest)


def _minimax(payload: Mapping[str, Any]) -> Iterator[Window]:
    if number(_object(payload, "base_resp").get("status_code")) != 0:
        return
    for entry in _objects(payload, "model_remains"):
        for window in (
            _minimax_window(entry, "current_interval", "end_time", False),
            _minimax_window(entry, "current_weekly", "weekly_end_time", True),
        ):
            if window is not None:
                yield window


def _neuralwatt(payload: Mapping[str, Any]) -> Iterator[Window]:
    # The plan's energy is spent first, credits go on after it: only both together are the end.
    subscription = _object(payload, "subscription")
    energy = number(subscription.get("kwh_remaining"))
    credits = number(_object(payload, "balance").get("credits_remaining_usd"))
    if energy is not None and credits is not None:
        yield Window("period", energy <= 0 and credits <= 0, instant(subscription.get("current_period_end")))


def _nanogpt(payload: Mapping[str, Any]) -> Iterator[Window]:
    overage = payload.get("allowOverage") is True
    for name in ("daily", "weekly"):
        counter = _object(payload, f"{name}InputTokens")
        left, used = number(counter.get("remaining")), number(counter.get("used"))
        if left is None:
            continue
        share = 100.0 if left <= 0 else _share(used, None if used is None else used + left)
        resets = instant(counter.get("resetAt"))
        yield Window(name, left <= 0 and not overage, resets, share, longest=name == "weekly")


def _opencode(payload: Mapping[str, Any]) -> Iterator[Window]:
    windows = _object(payload, "usage")
    for name in ("rolling", "weekly", "monthly"):
        window = _object(windows, name)
        used, status = number(window.get("percent")), window.get("status")
        if used is None and not isinstance(status, str):
            continue
        refused = isinstance(status, str) and status.strip().lower() != "ok"
        spent = refused or (used is not None and used >= 100)
        yield Window(name, spent, instant(window.get("resetsAt")), used, longest=name == "monthly")


_READERS: dict[str, Callable[[Mapping[str, Any]], Iterator[Window]]] = {
    "zai-coding": _zai,
    "kimi-code": _kimi,
    "minimax": _minimax,
    "neuralwatt": _neuralwatt,
    "nanogpt": _nanogpt,
    "opencode-go": _opencode,
}
#: The types that a reserve is kept of, with the name of the window it is a share of: the longest one.
RESERVED = {
    "zai-coding": "weekly",
    "kimi-code": "weekly",
    "minimax": "weekly",
    "nanogpt": "weekly",
    "opencode-go": "monthly",
}
