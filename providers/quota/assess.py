"""What a quota payload means for routing: spent until when, not spent, or nothing that can be relied on. Pure.

Only affirmative readings count (``circuit-breaker`` 10.6, 11.4, 11.5): a window that is spent without a date says
neither that the provider is out nor that it is back.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from providers.quota import windows
from providers.quota.windows import Window


@dataclass(frozen=True, slots=True)
class Assessment:
    """*deadline*: when a spent (``advisor``) or reserved (``reserve``) quota is back; None = *understood* says whether
    it is affirmatively not spent."""

    understood: bool
    deadline: datetime | None = None
    source: Literal["advisor", "reserve", ""] = ""


UNKNOWN = Assessment(False)
HEALTHY = Assessment(True)


def assess(provider_type: str, payload: Any, reserve: int, now: datetime) -> Assessment:
    """Judge *payload* at *now*. *reserve*: the percentage of the longest window that is kept for others."""
    found = windows.of(provider_type, payload)
    if found is None:
        return UNKNOWN
    # A reset that has passed: the window is fresh again, whatever the reading says.
    spent = [window for window in found if window.spent and (window.resets is None or window.resets > now)]
    out = [window.resets for window in spent if window.resets is not None]
    kept = _past_reserve(provider_type, found, reserve, now)
    if spent and (out or kept):
        return Assessment(True, max(min(instants) for instants in (out, kept) if instants), "advisor")
    if spent:
        return UNKNOWN
    return Assessment(True, min(kept), "reserve") if kept else HEALTHY


def _past_reserve(provider_type: str, found: list[Window], reserve: int, now: datetime) -> list[datetime]:
    """The resets of the longest windows of which only the reserve is left."""
    if reserve <= 0 or not windows.keeps_reserve(provider_type):
        return []
    return [
        window.resets
        for window in found
        if window.longest
        and window.resets is not None
        and window.resets > now
        and window.used is not None
        and window.used >= 100 - reserve
    ]
