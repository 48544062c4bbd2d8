"""Calendar periods of budgets, in UTC (v1-api 4.4). Pure."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple


class Span(NamedTuple):
    """``start <= time < end``, in whole POSIX seconds."""

    start: int
    end: int


def running(period: str, now: float) -> Span:
    """The *period* that *now* (POSIX seconds) is in; weeks begin on Monday."""
    moment = datetime.fromtimestamp(now, UTC)
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "day":
        end = start + timedelta(days=1)
    elif period == "week":
        start -= timedelta(days=start.weekday())
        end = start + timedelta(days=7)
    else:
        start = start.replace(day=1)
        end = (start + timedelta(days=32)).replace(day=1)
    return Span(int(start.timestamp()), int(end.timestamp()))
