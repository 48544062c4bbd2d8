"""Figures over the request log in buckets of time (operations 5)."""

from datetime import UTC, datetime

from modelhotel.core.clock import rfc3339
from requestlogs import plan
from requestlogs.measures import TRAFFIC
from requestlogs.statements import DAY, Row, Scope, Statement, Window, mean, rows

#: ``period`` -> (seconds of a bucket, number of buckets).
BUCKETS = {"1h": (300, 288), "24h": (3600, 168), "7d": (DAY, 30)}


def points(scope: Scope, period: str, now: float) -> list[Row]:
    """One point per bucket up to the one that runs, oldest first; none at all where no request arrived."""
    span, count = BUCKETS[period]
    last = plan.floor(int(now), span)
    first = last - (count - 1) * span
    found = _sums(scope, Window(first, last + span), span)
    if not found:
        return []
    return [_point(start, found.get(start)) for start in range(first, last + span, span)]


def _sums(scope: Scope, window: Window, span: int) -> dict[int, Row]:
    found = rows(*Statement(TRAFFIC, scope, window, span).buckets(span))
    return {int(row.pop("bucket")): row for row in found}


def _point(start: int, row: Row | None) -> Row:
    """Times are means: ``latency_ms`` of whole requests, ``provider_latency_ms`` without the gateway's part."""
    row = row or dict.fromkeys(TRAFFIC.measures, 0)
    return {
        "bucket": rfc3339(datetime.fromtimestamp(start, UTC)),
        "count": int(row["requests"]),
        "tokens": int(row["tokens_prompt"] + row["tokens_completion"]),
        "tokens_cache_hit": int(row["tokens_cache_hit"]),
        "tokens_cache_miss": int(row["tokens_cache_miss"]),
        "errors": int(row["errors"]),
        "latency_ms": mean(row["duration_good"], row["good"]),
        "overhead_ms": mean(row["overhead"], row["finished"]),
        "provider_latency_ms": mean(row["latency_good"], row["good"]),
        "rate_limit_hits": int(row["rate_limited"]),
        "avg_ttft_ms": mean(row["first_ms"], row["firsts"]),
    }
