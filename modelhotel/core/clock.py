"""Time as an argument: whoever needs "now" is handed a Clock, so that tests can move it."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds on a clock that never jumps; for waits, deadlines and ages."""
        ...

    def now(self) -> datetime:
        """Wall time, UTC; for display and storage only."""
        ...


class SystemClock:
    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that stands still until told otherwise (tests)."""

    def __init__(self, start: datetime | None = None, mono: float = 1000.0) -> None:
        self._wall = start or datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
        self._mono = mono

    def monotonic(self) -> float:
        return self._mono

    def now(self) -> datetime:
        return self._wall

    def advance(self, seconds: float) -> None:
        self._mono += seconds
        self._wall += timedelta(seconds=seconds)


SYSTEM: Clock = SystemClock()


def rfc3339(moment: datetime | None, *, milliseconds: bool = False) -> str | None:
    """RFC 3339 in UTC with a ``Z``; whole seconds unless *milliseconds*. None stays None."""
    if moment is None:
        return None
    spec = "milliseconds" if milliseconds else "seconds"
    return moment.astimezone(UTC).isoformat(timespec=spec).replace("+00:00", "Z")
