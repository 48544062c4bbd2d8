"""Rows left behind: in flight when their process died, or older than they need to be."""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, Model, Q, QuerySet
from django.db.models.functions import Coalesce

from modelhotel.core import catalogue, clock, events, options
from modelhotel.core.faults import Refusal
from requestlogs.models import AppLog, RequestLog
from requestlogs.recorder import INTERRUPTED

STALE = "request interrupted (stale)"
IN_FLIGHT = ("pending", "streaming")
#: Rows deleted in one statement, so that no writer waits long.
CHUNK = 2000
#: What ``older_than`` may say, besides ``all``.
AGES = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "1w": timedelta(weeks=1), "1m": timedelta(days=30)}
log = logging.getLogger("requestlog")


def at_start(node: str) -> int:
    """Mark what this node's previous run left in flight. Before the node takes traffic."""
    count = (
        RequestLog.objects.filter(state__in=IN_FLIGHT)
        .filter(Q(node=node) | Q(node__isnull=True))
        .update(state="failed", error_kind="internal", error_message=INTERRUPTED)
    )
    _report("logs.stale_startup", "Interrupted requests of the previous run were closed", count)
    return count


def stale(now: clock.Clock = clock.SYSTEM) -> int:
    """Mark rows in flight that nobody has refreshed for ``stale_request_timeout``; ``0s`` switches the pass off."""
    limit = options.current()[catalogue.STALE_REQUEST_TIMEOUT]
    if limit <= 0:
        return 0
    count = (
        RequestLog.objects.filter(state__in=IN_FLIGHT)
        .annotate(seen=Coalesce(F("heartbeat_at"), F("created_at")))
        .filter(seen__lt=now.now() - timedelta(seconds=limit))
        .update(state="failed", error_kind="internal", error_message=STALE)
    )
    _report("logs.stale_cleanup", "Stale requests were closed", count)
    return count


def _report(kind: str, text: str, count: int) -> None:
    if count:
        log.warning("requestlog: rows left in flight were closed", extra={"attrs": {"count": count}})
        events.publish(kind, "warning", "requestlog", f"{text}: {count}", {"count": count})


def retention(now: clock.Clock = clock.SYSTEM) -> int:
    """Delete finished rows and log lines older than ``log_retention``; empty or zero keeps for ever."""
    keep = options.current()[catalogue.LOG_RETENTION]
    if keep <= 0:
        return 0
    moment = now.now() - timedelta(seconds=keep)
    return delete_before(moment) + delete_lines_before(moment)


def limit(older_than: str, now: clock.Clock = clock.SYSTEM) -> datetime | None:
    """The moment before which ``older_than`` deletes; None: everything. Raises Refusal."""
    if older_than == "all":
        return None
    if older_than not in AGES:
        raise Refusal(400, "invalid older_than value, use: 1h, 1d, 1w, 1m, all")
    return now.now() - AGES[older_than]


def delete_before(moment: datetime | None) -> int:
    """Delete finished rows created before *moment* (None: all). Rows in flight stay."""
    rows = RequestLog.objects.exclude(state__in=IN_FLIGHT)
    return _delete(RequestLog, rows if moment is None else rows.filter(created_at__lt=moment))


def delete_lines_before(moment: datetime | None) -> int:
    """Delete log lines said before *moment* (None: all)."""
    rows = AppLog.objects.all()
    return _delete(AppLog, rows if moment is None else rows.filter(timestamp__lt=moment))


def _delete(model: type[Model], rows: "QuerySet[Any]") -> int:
    """A chunk at a time; returns how many."""
    total = 0
    while ids := list(rows.order_by().values_list("pk", flat=True)[:CHUNK]):
        total += model._default_manager.filter(pk__in=ids).delete()[0]
    return total
