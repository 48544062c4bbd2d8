"""What was spent, from the request log. Money in 10^-10 dollars, whole numbers, so that sums are exact."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from proxy.limits.period import running
from requestlogs import totals

if TYPE_CHECKING:
    from proxy.models import VirtualKey

#: Units of a dollar.
DOLLAR = 10_000_000_000
Subject = Literal["key", "user"]


def units(dollars: float) -> int:
    return round(dollars * DOLLAR)


def since(subject: Subject, subject_id: str, start: int) -> int:
    """What the rows of one key or account cost since *start* (POSIX seconds, a whole minute).

    Raises what the database raises.
    """
    column: Literal["key", "owner"] = "key" if subject == "key" else "owner"
    return totals.cost_since(column, start, subject_id).get(subject_id, 0)


def of_keys(keys: "Iterable[VirtualKey]") -> dict[str, float]:
    """Dollars of the running period by key id, of those that have a budget. Raises what the database raises."""
    budgeted = [key for key in keys if key.budget_usd is not None]
    found: dict[str, float] = {}
    for period in {str(key.budget_period) for key in budgeted}:
        ids = [str(key.pk) for key in budgeted if key.budget_period == period]
        spent = totals.cost_since("key", running(period, time.time()).start, ids[0] if len(ids) == 1 else None)
        found.update((key_id, spent.get(key_id, 0) / DOLLAR) for key_id in ids)
    return found
