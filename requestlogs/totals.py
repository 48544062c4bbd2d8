"""Totals of tokens and costs over the request log, from the sums of ``rollup.py``: a month of rows takes too long."""

import time
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from django.db.models import Sum

from requestlogs import rollup, stats
from requestlogs.measures import TRAFFIC
from requestlogs.models import RequestLog
from requestlogs.statements import Scope, Statement, Window, rows

#: ``cost_e10`` of one dollar.
DOLLAR = 10_000_000_000


def tokens_by_requested_name(since: datetime) -> dict[str, int]:
    """Prompt and completion tokens since *since*, by the requested name, lowercased.

    Lowercased here and not by the database: the two disagree outside of ASCII. Names without tokens (refused ones that
    clients made up) are left out, so the answer stays as small as the list of names that served.
    """
    rollup.help_readers()
    start, now = int(since.timestamp()), time.time()
    found: dict[str, int] = {}
    for name, total in stats.tokens_by_model(Window.last(int(now) - start, now)).items():
        found[name.lower()] = found.get(name.lower(), 0) + total
    return found


def cost_since(column: Literal["key", "owner"], since: int, only: str | None = None) -> dict[str, int]:
    """What finished requests cost since *since* (POSIX seconds, a whole minute), in 10^-10 dollars by id.

    *column*: by virtual key or by the account that owned it then; *only*: of this one. Keys that are gone count.
    Raises DatabaseError.
    """
    if not rollup.help_readers():
        return _cost_of_rows(column, since, only)
    now = time.time()
    head, params = Statement(TRAFFIC, Scope(None, False), Window.last(int(now) - since, now)).known()
    which = "<> ''" if only is None else "= %s"
    if only is not None:
        params.append(rollup.as_text(only))
    sql = f"{head} SELECT {column} AS id, SUM(cost_e10) AS cost FROM known WHERE {column} {which} GROUP BY {column}"
    return {str(UUID(row["id"])): int(row["cost"] or 0) for row in rows(sql, params)}


def _cost_of_rows(column: Literal["key", "owner"], since: int, only: str | None) -> dict[str, int]:
    """The same from the rows themselves, where sums are behind."""
    name = "virtual_key_id" if column == "key" else "owner_user_id"
    found = RequestLog.objects.filter(
        created_at__gte=datetime.fromtimestamp(since, UTC), state__in=("completed", "failed"), cost_usd__isnull=False
    ).exclude(**{name: None})
    if only is not None:
        found = found.filter(**{name: only})
    summed = found.order_by().values_list(name).annotate(cost=Sum("cost_usd"))
    return {str(key): round(cost * DOLLAR) for key, cost in summed}
