"""The windows of a quota payload, provider type by provider type (``circuit-breaker`` 11.4, ``providers`` 15). Pure.

Payloads are foreign: whatever can not be read is left out, and a number that is missing is never taken for 0.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from providers.quota.values import entries, instant, member, number, percentage, share, word

#: ``unit`` of a Z.ai limit: hours (the 5-hour window) and weeks.
_ZAI_HOURS, _ZAI_WEEKS = 3, 6
#: ``status`` of a MiniMax window that is part of the plan.
_MINIMAX_IN_PLAN = 1
#: Seconds in each ``timeUnit`` of a Kimi window, and what a span is called in.
_KIMI_UNITS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}
_SPANS = ((86_400, "d"), (3600, "h"), (60, "m"))
Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """One allowance. *used*: the consumed percentage (above 100: overage); *consumed*, *limit* and *left* in *unit*;
    each None where the payload does not say. *spent* None: it says nothing about routing. *resets* None = undated;
    *longest*: the one that a reserve is kept of.
    """

    name: str
    spent: bool | None = None
    resets: datetime | None = None
    used: float | None = None
    longest: bool = False
    consumed: float | None = None
    limit: float | None = None
    left: float | None = None
    unit: str = ""


def every(provider_type: str, payload: Any) -> list[Window]:
    """All that *payload* tells, for the eye; empty when it is not understood."""
    read = _READERS.get(provider_type)
    return list(read(payload)) if read is not None and isinstance(payload, Mapping) else []


def of(provider_type: str, payload: Any) -> list[Window] | None:
    """The windows that are judged; None when the type has none or the payload is not understood."""
    return [window for window in every(provider_type, payload) if window.spent is not None] or None


def keeps_reserve(provider_type: str) -> bool:
    """Whether a quota reserve means something for this type."""
    return provider_type in RESERVED


def _zai(payload: Payload) -> Iterator[Window]:
    for limit in entries(member(payload, "data"), "limits"):
        unit = number(limit.get("unit"))
        if limit.get("type") != "TOKENS_LIMIT" or unit not in (_ZAI_HOURS, _ZAI_WEEKS):
            continue
        used, left = percentage(limit.get("percentage")), number(limit.get("remaining"))
        consumed, total = number(limit.get("currentValue")), number(limit.get("usage"))
        # Beside a sane percentage an explicit "remaining": 0 means nothing.
        spent = used >= 100 if used is not None else None if left is None else left <= 0
        if used is None:
            used = _at_least(share(consumed, total), spent)
        weekly = unit == _ZAI_WEEKS
        name, resets = "weekly" if weekly else "5h", instant(limit.get("nextResetTime"))
        yield Window(name, spent, resets, used, weekly, consumed, total, left, "tokens")


def _at_least(used: float | None, spent: bool | None) -> float | None:
    """What is spent is used up, also where its share is not said."""
    return max(used or 0.0, 100.0) if spent else used


def _consumed(used: float | None, total: float | None, left: float | None) -> float | None:
    if used is not None or total is None or left is None:
        return used
    return total - left


def span(window: Payload) -> str:
    """``5h`` or ``7d`` for the span of a Kimi window, ``""`` when it is not understood."""
    duration, unit = number(window.get("duration")), word(window.get("timeUnit")).upper()
    seconds = (duration or 0.0) * _KIMI_UNITS.get(unit.removeprefix("TIME_UNIT_"), 0)
    return next((f"{seconds / each:g}{name}" for each, name in _SPANS if seconds and seconds % each == 0), "")


def _kimi_window(name: str, detail: Payload, longest: bool) -> Window | None:
    # Zero members are omitted: a spent window has no "remaining" but a "used" as large as its "limit".
    left, used, limit = (number(detail.get(each)) for each in ("remaining", "used", "limit"))
    if left is not None:
        spent = left <= 0
        part = _at_least(share(None if limit is None else limit - left, limit), spent)
    elif used is not None and limit is not None:
        spent, part = used >= limit, share(used, limit)
    else:
        return None
    consumed = _consumed(used, limit, left)
    return Window(name, spent, instant(detail.get("resetTime")), part, longest, consumed, limit, left)


def _kimi(payload: Payload) -> Iterator[Window]:
    found = [_kimi_window("cycle", member(payload, "usage"), True)]
    found += [
        _kimi_window(span(member(entry, "window")) or f"limit {n}", member(entry, "detail"), False)
        for n, entry in enumerate(entries(payload, "limits"), 1)
    ]
    yield from (window for window in found if window is not None)


def _minimax_window(entry: Payload, prefix: str, end: str, longest: bool) -> Window | None:
    if number(entry.get(f"{prefix}_status")) != _MINIMAX_IN_PLAN:
        return None
    total, used = number(entry.get(f"{prefix}_total_count")), number(entry.get(f"{prefix}_usage_count"))
    left = percentage(entry.get(f"{prefix}_remaining_percent"))
    name = f"{word(entry.get('model_name')) or 'all'} {'weekly' if longest else 'interval'}"
    resets = instant(entry.get(end))
    if total is not None and total > 0 and used is not None:
        return Window(name, used >= total, resets, share(used, total), longest, used, total, total - used, "requests")
    if left is not None:
        return Window(name, left <= 0, resets, 100.0 - left, longest)
    return None


def _minimax(payload: Payload) -> Iterator[Window]:
    if number(member(payload, "base_resp").get("status_code")) != 0:
        return
    for entry in entries(payload, "model_remains"):
        for window in (
            _minimax_window(entry, "current_interval", "end_time", False),
            _minimax_window(entry, "current_weekly", "weekly_end_time", True),
        ):
            if window is not None:
                yield window


def _neuralwatt(payload: Payload) -> Iterator[Window]:
    plan, balance = member(payload, "subscription"), member(payload, "balance")
    used, total, energy = (number(plan.get(f"kwh_{name}")) for name in ("used", "included", "remaining"))
    names = ("credits_used_usd", "total_credits_usd", "credits_remaining_usd")
    paid, bought, credits = (number(balance.get(name)) for name in names)
    # The plan's energy is spent first, credits go on after it: only both together are the end.
    spent = energy <= 0 and credits <= 0 if energy is not None and credits is not None else None
    if used is not None or energy is not None:
        resets, part = instant(plan.get("current_period_end")), share(_consumed(used, total, energy), total)
        yield Window("energy", spent, resets, part, False, used, total, energy, "kWh")
    if paid is not None or credits is not None:
        part = share(_consumed(paid, bought, credits), bought)
        yield Window("credits", None, None, part, False, paid, bought, credits, "USD")


def _nanogpt(payload: Payload) -> Iterator[Window]:
    overage, limits = payload.get("allowOverage") is True, member(payload, "limits")
    for name in ("daily", "weekly"):
        counter = member(payload, f"{name}InputTokens")
        left, used = number(counter.get("remaining")), number(counter.get("used"))
        if left is None and used is None:
            continue
        total = number(limits.get(f"{name}InputTokens"))
        if total is None and left is not None and used is not None:
            total = used + left
        spent = None if left is None else left <= 0
        part, resets = _at_least(share(used, total), spent), instant(counter.get("resetAt"))
        stops = None if spent is None else spent and not overage
        yield Window(name, stops, resets, part, name == "weekly", used, total, left, "tokens")


def _opencode(payload: Payload) -> Iterator[Window]:
    windows = member(payload, "usage")
    for name in ("rolling", "weekly", "monthly"):
        window = member(windows, name)
        used, status = number(window.get("percent")), window.get("status")
        if used is None and not isinstance(status, str):
            continue
        refused = isinstance(status, str) and status.strip().lower() != "ok"
        spent = refused or (used is not None and used >= 100)
        part = used if used is not None else _at_least(None, spent)
        yield Window(name, spent, instant(window.get("resetsAt")), part, longest=name == "monthly")


def _openrouter(payload: Payload) -> Iterator[Window]:
    names = ("credits_used", "credits_total", "credits_remaining")
    used, total, left = (number(payload.get(name)) for name in names)
    if total is not None or left is not None:
        yield Window("credits", None, None, share(used, total), False, used, total, left, "USD")
    spent, limit, room = (number(payload.get(name)) for name in ("usage", "limit", "limit_remaining"))
    if limit is not None:
        # The limit may be renewed every day or month, while "usage" counts from the beginning.
        spent = limit - room if room is not None else None
    if spent is not None or limit is not None:
        yield Window("key", None, None, share(spent, limit), False, spent, limit, room, "USD")


def _deepseek(payload: Payload) -> Iterator[Window]:
    for balance in entries(payload, "balance_infos"):
        left, currency = number(balance.get("total_balance")), word(balance.get("currency"))
        if left is not None:
            yield Window(f"balance {currency}".rstrip(), left=left, unit=currency)


_READERS: dict[str, Callable[[Payload], Iterator[Window]]] = {
    "zai-coding": _zai,
    "kimi-code": _kimi,
    "minimax": _minimax,
    "neuralwatt": _neuralwatt,
    "nanogpt": _nanogpt,
    "opencode-go": _opencode,
    "openrouter": _openrouter,
    "deepseek": _deepseek,
}
#: The types whose readings are judged, and measured in metrics.
JUDGED = frozenset(_READERS) - {"openrouter", "deepseek"}
#: The types that a reserve is kept of, with the name of the window it is a share of: the longest one.
RESERVED = {
    "zai-coding": "weekly",
    "kimi-code": "weekly",
    "minimax": "weekly",
    "nanogpt": "weekly",
    "opencode-go": "monthly",
}
