"""The figures of operations 5 computed row by row, the slow and obvious way: what the SQL is held against."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

from providers.models import Provider
from proxy.models import VirtualKey
from requestlogs.models import RequestLog

PERIODS = {"1h": 3600, "24h": 86400, "7d": 7 * 86400}
BUCKETS = {"1h": (300, 288), "24h": (3600, 168), "7d": (86400, 30)}


def finished(row):
    return row.state in ("completed", "failed")


def broken(row):
    return finished(row) and (not row.status_code or row.status_code >= 400)


def good(row):
    return finished(row) and 1 <= (row.status_code or 0) <= 399


def first(row):
    return row.ttft_ms if row.streaming and row.ttft_ms else row.response_header_ms


def tokens(row):
    return row.tokens_prompt + row.tokens_completion if finished(row) else 0


def cost(row):
    return (row.cost_usd or 0) if finished(row) else 0


VALUES = {"requests": lambda row: 1, "tokens": tokens, "cost": cost}


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


class Naive:
    def __init__(self, now, *, owner=None, exclude_deleted=True):
        self.now = now
        self.providers = dict(Provider.objects.values_list("pk", "name"))
        self.keys = dict(VirtualKey.objects.values_list("pk", "name"))
        self.rows = [
            row
            for row in RequestLog.objects.all()
            if (owner is None or str(row.owner_user_id) == owner)
            and (not exclude_deleted or row.virtual_key_id is None or row.virtual_key_id in self.keys)
        ]

    def within(self, seconds):
        low = datetime.fromtimestamp(int(self.now), UTC) - timedelta(seconds=seconds)
        return [row for row in self.rows if row.created_at >= low]

    def model(self, row):
        if row.error_kind == "validation":
            return ""
        if row.model_id.lower().startswith("hotel/"):
            return row.model_id.lower()
        if row.provider_id not in self.providers:
            return row.model_id
        return f"{self.providers[row.provider_id]}/{row.resolved_model_id or row.model_id.split('/', 1)[-1]}"

    def key(self, row):
        if row.virtual_key_id is None:
            return row.virtual_key_name
        return self.keys.get(row.virtual_key_id, "Deleted")

    def provider(self, row):
        return self.providers.get(row.provider_id, "")

    @staticmethod
    def by(rows, name, metric):
        found = defaultdict(int)
        for row in rows:
            if name(row):
                found[name(row)] += VALUES[metric](row)
        ranked = sorted(((n, v) for n, v in found.items() if v), key=lambda each: (-each[1], each[0]))
        return {name: float(value) if metric == "cost" else value for name, value in ranked}

    def overview(self, period, metric):
        rows = self.within(PERIODS[period])
        over = [row for row in rows if finished(row)]
        costs = [row.cost_usd for row in over if row.cost_usd is not None]
        return {
            "total_requests_last_24h": len(self.within(PERIODS["24h"])),
            "total_requests_last_7d": len(self.within(PERIODS["7d"])),
            "requests_last_1h": len(self.within(PERIODS["1h"])),
            "by_model": dict(list(self.by(rows, self.model, metric).items())[:10]),
            "by_provider": self.by(rows, self.provider, metric),
            "by_virtual_key": self.by(rows, self.key, metric),
            "avg_latency_ms": mean(row.latency_ms for row in rows if good(row)),
            "error_rate": mean(1 if broken(row) else 0 for row in over),
            "avg_overhead_ms": mean(row.proxy_overhead_ms for row in over),
            "avg_tokens_per_request": mean(tokens(row) for row in over),
            "avg_ttft_ms": mean(first(row) for row in over if first(row) is not None),
            "total_tokens_prompt": sum(row.tokens_prompt for row in over),
            "total_tokens_completion": sum(row.tokens_completion for row in over),
            "total_tokens_cache_hit": sum(row.tokens_prompt_cache_hit for row in over),
            "total_cost_usd": float(sum(costs)) if costs else None,
            "rate_limit_hits": sum(1 for row in over if row.status_code == 429),
            "by_provider_latency": self.latency(rows),
        }

    def latency(self, rows):
        by_name = defaultdict(list)
        for row in rows:
            if good(row) and self.provider(row):
                by_name[self.provider(row)].append(row)
        found = [
            {
                "provider_name": name,
                "total_ms": mean(row.latency_ms + row.proxy_overhead_ms for row in each),
                "overhead_ms": mean(row.proxy_overhead_ms for row in each),
                "provider_ms": mean(row.latency_ms for row in each),
                "request_count": len(each),
            }
            for name, each in by_name.items()
            if len(each) >= 3
        ]
        return sorted(found, key=lambda each: (-each["request_count"], each["provider_name"]))[:6]

    def distribution(self, period, metric):
        rows = self.within(PERIODS[period])
        best = list(self.by(rows, self.provider, metric).items())[:5]
        every = [self.by(rows, self.provider, each) for each in VALUES]
        return [(name, *(values.get(name, 0) for values in every)) for name, _ in best]

    def points(self, period):
        span, count = BUCKETS[period]
        last = int(self.now) // span * span
        found = []
        for start in range(last - (count - 1) * span, last + span, span):
            rows = [row for row in self.rows if start <= row.created_at.timestamp() < start + span]
            over = [row for row in rows if finished(row)]
            found.append(
                {
                    "bucket": datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "count": len(rows),
                    "tokens": sum(tokens(row) for row in over),
                    "tokens_cache_hit": sum(row.tokens_prompt_cache_hit for row in over),
                    "tokens_cache_miss": sum(row.tokens_prompt_cache_miss for row in over),
                    "errors": sum(1 for row in over if broken(row)),
                    "latency_ms": mean(row.duration_ms for row in rows if good(row)),
                    "overhead_ms": mean(row.proxy_overhead_ms for row in over),
                    "provider_latency_ms": mean(row.latency_ms for row in rows if good(row)),
                    "rate_limit_hits": sum(1 for row in over if row.status_code == 429),
                    "avg_ttft_ms": mean(first(row) for row in over if first(row) is not None),
                }
            )
        return found if any(point["count"] for point in found) else []
