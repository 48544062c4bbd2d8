"""What keys and accounts spent, from the request log."""

import time
from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from proxy.limits.money import DOLLAR, Subject
from proxy.limits.period import running
from requestlogs import totals


class Budgeted(Protocol):
    """A virtual key, as far as its budget goes."""

    pk: UUID
    budget_usd: float | None
    budget_period: str | None


def since(subject: Subject, subject_id: str, start: int) -> int:
    """What the rows of one key or account cost since *start* (POSIX seconds, a whole minute), in 10^-10 dollars.

    Raises what the database raises.
    """
    return totals.cost_since("key" if subject == "key" else "owner", start, subject_id).get(subject_id, 0)


def of_keys(keys: Iterable[Budgeted]) -> dict[str, float]:
    """Dollars of the running period by key id, of those that have a budget. Raises what the database raises."""
    budgeted = [key for key in keys if key.budget_usd is not None]
    found: dict[str, float] = {}
    for period in {str(key.budget_period) for key in budgeted}:
        ids = [str(key.pk) for key in budgeted if key.budget_period == period]
        spent = totals.cost_since("key", running(period, time.time()).start, ids[0] if len(ids) == 1 else None)
        found.update((key_id, spent.get(key_id, 0) / DOLLAR) for key_id in ids)
    return found
