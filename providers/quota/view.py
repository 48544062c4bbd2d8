"""Every quota in one form, for the dashboard and the metrics, whatever its provider calls things. Pure."""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from modelhotel.core.clock import rfc3339
from providers.quota import windows
from providers.quota.values import word
from providers.quota.windows import Window

#: A reset further away than this is no date.
_HORIZON = timedelta(days=3653)


def lines(provider_type: str, payload: Any) -> list[dict[str, Any]]:
    """The windows as JSON: ``used_percent`` of each, and ``used``, ``limit``, ``remaining`` in ``unit`` (``""`` where
    the provider counts in percent only or names no unit); null is what the payload does not say."""
    return [
        {
            "name": window.name,
            "used_percent": window.used,
            "used": window.consumed,
            "limit": window.limit,
            "remaining": window.left,
            "unit": window.unit,
            "resets_at": rfc3339(window.resets),
        }
        for window in windows.every(provider_type, payload)
    ]


#: The path to the name of the plan, of the types that give one.
_PLANS = {
    "zai-coding": ("data", "level"),
    "kimi-code": ("user", "membership", "level"),
    "neuralwatt": ("subscription", "plan"),
    "ollama-cloud": ("plan",),
}


def plan(provider_type: str, payload: Any) -> str | None:
    """What the account's plan is called; None when the payload names none."""
    if provider_type == "openrouter":
        return "free" if isinstance(payload, Mapping) and payload.get("is_free_tier") is True else None
    path = _PLANS.get(provider_type, ())
    for name in path:
        payload = payload.get(name) if isinstance(payload, Mapping) else None
    return (word(payload) or None) if path else None


def measured(provider_type: str, payload: Any, now: datetime) -> Iterator[tuple[str, float | None, float | None]]:
    """For the metrics: name of the window, used ratio, reset in epoch seconds; of the types that are judged."""
    if provider_type not in windows.JUDGED:
        return
    for window in windows.every(provider_type, payload):
        yield window.name, _ratio(window), _seconds(window, now)


def _ratio(window: Window) -> float | None:
    ratio = None if window.used is None else window.used / 100
    return ratio if ratio is not None and math.isfinite(ratio) and ratio >= 0 else None


def _seconds(window: Window, now: datetime) -> float | None:
    if window.resets is None or window.resets > now + _HORIZON:
        return None
    at = window.resets.timestamp()
    return at if at >= 0 else None
