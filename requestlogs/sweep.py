"""Rows left behind: in flight when their process died, or older than they need to be."""

import logging
from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Coalesce

from modelhotel.core import catalogue, clock, events, options
from requestlogs.models import RequestLog
from requestlogs.recorder import INTERRUPTED

STALE = "request interrupted (stale)"
IN_FLIGHT = ("pending", "streaming")
#: Rows deleted in one statement, so that no writer waits long.
CHUNK = 2000
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
    """Delete finished rows older than ``log_retention``; empty or zero keeps for ever."""
    keep = options.current()[catalogue.LOG_RETENTION]
    if keep <= 0:
        return 0
    return delete_before(now.now() - timedelta(seconds=keep))


def delete_before(moment: object | None) -> int:
    """Delete finished rows created before *moment* (None: all), a chunk at a time. Rows in flight stay."""
    rows = RequestLog.objects.exclude(state__in=IN_FLIGHT)
    if moment is not None:
        rows = rows.filter(created_at__lt=moment)
    total = 0
    while ids := list(rows.order_by().values_list("pk", flat=True)[:CHUNK]):
        total += RequestLog.objects.filter(pk__in=ids).delete()[0]
    return total
