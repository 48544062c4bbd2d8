"""What vendors say of a quota, fed with any bytes: read, kept, judged and shown for every type that tells one."""

import asyncio
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from providers.kinds import registry
from providers.kinds.base import Header, ListingError
from providers.quota import assess, shapes, view

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TELLING = [kind for kind in registry.KINDS.values() if kind.quota is not None]
SEEDS = (
    b'{"code":200,"success":true,"data":{"level":"pro","limits":[{"type":"TOKENS_LIMIT","unit":3,"number":5,'
    b'"percentage":100,"nextResetTime":1767276000000,"usageDetails":[{"modelCode":"m","usage":1}]}]}}',
    b'{"user":{"membership":{"level":"L"}},"usage":{"limit":"9","used":"9","resetTime":"2026-01-02T00:00:00Z"},'
    b'"limits":[{"window":{"duration":300,"timeUnit":"TIME_UNIT_MINUTE"},"detail":{"limit":"9","remaining":"0"}}]}',
    b'{"model_remains":[{"model_name":"general","current_interval_status":1,"current_interval_total_count":9,'
    b'"current_interval_usage_count":9,"end_time":1767276000000,"current_weekly_status":1,'
    b'"current_weekly_remaining_percent":0,"weekly_end_time":1767376000000}],"base_resp":{"status_code":0}}',
    b'{"active":true,"allowOverage":false,"limits":{"weeklyInputTokens":9},"weeklyInputTokens":{"used":9,'
    b'"remaining":0,"percentUsed":1,"resetAt":1767276000000}}',
    b'{"usage":{"rolling":{"status":"ok","percent":100,"resetsAt":"2026-01-02T00:00:00Z"},"monthly":{"status":"no"}}}',
    b'{"snapshot_at":"2026-01-01T00:00:00Z","balance":{"credits_remaining_usd":0},"subscription":{"kwh_included":9,'
    b'"kwh_used":9,"kwh_remaining":0,"current_period_end":"2026-01-02T00:00:00Z"}}',
    b'{"data":{"total_credits":9,"total_usage":1.5,"label":"sk-or","limit":null,"usage":3,"is_free_tier":true}}',
    b'{"is_available":true,"balance_infos":[{"currency":"USD","total_balance":"1.50"}],"Plan":"pro","email":"a@b.c"}',
)


class _Vendor:
    """Says the same to every call."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def get(self, url: str, headers: Iterable[Header]) -> Any:
        return self._answer

    async def post(self, url: str, headers: Iterable[Header], body: Any) -> Any:
        return self._answer


def run(data: bytes) -> None:
    """Whatever is kept fits both databases and the API; every deadline is to come; a shape has its limits."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return
    found = shapes.paths(answer)
    assert len(found) <= shapes.PATHS and "\0" not in "".join(found)
    note, _ = shapes.compare(data.decode("utf-8", "replace"), found)
    assert note is None or json.loads(note)
    for kind in TELLING:
        assert kind.quota is not None
        try:
            payload = asyncio.run(kind.quota.read(_Vendor(answer), "https://vendor.test/v1", "key"))
        except ListingError:
            assert not isinstance(answer, dict)
            continue
        stored = msgspec.json.encode(payload)
        assert b"\\u0000" not in stored and json.loads(stored) == payload
        judged = assess.assess(kind.type, payload, 50, NOW)
        assert judged.deadline is None or judged.deadline > NOW
        msgspec.json.encode([view.lines(kind.type, payload), view.plan(kind.type, payload)])
        for name, ratio, at in view.measured(kind.type, payload, NOW):
            assert name and (ratio is None or 0 <= ratio < float("inf")) and (at is None or at >= 0)
