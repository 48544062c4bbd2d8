"""``/api/logs/app``: the product's own log."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest
from ninja import Router

from modelhotel.core.clock import rfc3339
from modelhotel.core.faults import Refusal
from modelhotel.core.webapi import Body
from requestlogs import applog_queries as queries
from requestlogs import cursors, sweep
from requestlogs.applog import APP_LOG, KEEP
from requestlogs.models import AppLog
from requestlogs.queries import clamp, moment

#: Seconds that a reader, and one who deletes, wait for lines on their way into the table.
READ_WAIT, PURGE_WAIT = 2.0, 5.0
_POSITION = cursors.By("timestamp")

router = Router(tags=["logs"])


class Purge(Body):
    older_than: str = "all"


def _recent(query: Mapping[str, str]) -> list[dict[str, object]]:
    limit, after = clamp(query.get("limit"), KEEP, 1, 1000), moment(query.get("after"))
    found: list[dict[str, object]] = []
    for line in reversed(APP_LOG.recent()):
        at = datetime.fromtimestamp(line.at, UTC)
        if len(found) >= limit or (after is not None and at <= after):
            break
        found.append(
            {
                "id": line.id,
                "timestamp": rfc3339(at, milliseconds=True),
                "level": line.level,
                "source": line.source,
                "message": line.message,
                "node": APP_LOG.node,
            }
        )
    return found


def _history(query: Mapping[str, str]) -> dict[str, object]:
    APP_LOG.flush(READ_WAIT)
    page = clamp(query.get("page"), 1, 1, 10_000_000)
    per_page = clamp(query.get("per_page"), 20, 1, 100)
    rows = queries.filtered(AppLog.objects.all(), query)
    in_order = queries.ordered(rows, query.get("sort_by", "time"), query.get("sort_dir", "desc"))
    levels, sources = queries.counts()
    start = (page - 1) * per_page
    return {
        "entries": queries.entries(list(in_order[start : start + per_page])),
        "total": rows.count(),
        "page": page,
        "per_page": per_page,
        "level_counts": levels,
        "source_counts": sources,
    }


@router.get("", summary="App log, newest first", response=Any)
def list_lines(request: HttpRequest) -> object:
    """From memory: limit, after. With ``history=true`` from the table, by page: level, source, search, from, to;
    sort_by (time, level, source, message), sort_dir; page, per_page."""
    query = request.GET.dict()
    return _history(query) if query.get("history") == "true" else _recent(query)


@router.get("/cursor", summary="App log, by cursor")
def cursor_lines(request: HttpRequest) -> dict[str, object]:
    """Newest first; ``direction`` ``after`` = older than the cursor, ``before`` = newer."""
    APP_LOG.flush(READ_WAIT)
    query = request.GET.dict()
    rows = queries.filtered(AppLog.objects.all(), query)
    limit = clamp(query.get("limit"), 50, 1, 200)
    try:
        page = _POSITION.page(rows, query.get("cursor"), query.get("direction", "after"), limit)
    except cursors.BadCursor:
        raise Refusal(400, "invalid cursor") from None
    return page.answer(queries.entries(page.rows), rows.count())


@router.delete("", summary="Delete log lines by age")
def purge_lines(request: HttpRequest, body: Purge | None = None) -> dict[str, int]:
    """``older_than`` in the body or in the address: 1h, 1d, 1w, 1m, all (the default)."""
    return {"deleted": purge(body.older_than if body else request.GET.get("older_than", "all"))}


def purge(older_than: str) -> int:
    """Raises Refusal."""
    limit = sweep.limit(older_than)
    if not APP_LOG.flush(PURGE_WAIT):
        raise Refusal(503, "log lines are still on their way to the database, try again")
    deleted = sweep.delete_lines_before(limit)
    queries.forget_counts()
    return deleted
