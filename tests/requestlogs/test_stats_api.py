"""``/api/stats`` over the whole control plane: what it answers, to whom, and what many readers cost."""

import threading
import uuid
from datetime import timedelta

import pytest

from modelhotel.core import clock
from providers.models import Provider
from proxy.models import VirtualKey
from requestlogs import rollup, stats_api
from requestlogs.draft import Draft
from requestlogs.models import RequestLog
from requestlogs.recorder import RECORDER
from requestlogs.shared import Shared
from tests.shell.cast import (  # noqa: F401
    admin,
    admin_user,
    clean_accounts,
    nobody,
    stranger,
    stranger_user,
    token,
    viewer,
    viewer_user,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
PATHS = ("/api/stats", "/api/stats/timeseries", "/api/stats/provider-distribution")
ZERO = (
    "total_requests_last_24h", "total_requests_last_7d", "requests_last_1h", "avg_latency_ms", "error_rate",
    "avg_overhead_ms", "avg_tokens_per_request", "avg_ttft_ms", "total_tokens_prompt", "total_tokens_completion",
    "total_tokens_cache_hit", "rate_limit_hits",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_old_answers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rollup, "READERS", 30.0)  # a busy machine must not cost a minute's rows
    rollup.settle()
    stats_api.forget_cache()
    yield
    stats_api.forget_cache()


def row(state="completed", age=timedelta(), **fields):
    values = {"request_hash": uuid.uuid4().hex[:16], "state": state, "endpoint_type": "chat", "model_id": "P/m"}
    values |= {"status_code": 200} if state == "completed" else {}
    return RequestLog.objects.create(id=uuid.uuid4(), created_at=clock.SYSTEM.now() - age, **{**values, **fields})


def asked(caller, path):
    stats_api.forget_cache()
    answer = caller.get(path)
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("period", ["1h", "24h", "7d", "never"])
def test_an_empty_database_has_zeros_and_empty_lists(admin, period):  # noqa: F811
    """operations 34"""
    figures = asked(admin, f"/api/stats?period={period}&include_latency=true")
    assert {name: figures[name] for name in ZERO} == dict.fromkeys(ZERO, 0)
    assert figures["total_cost_usd"] is None and figures["by_provider_latency"] == []
    assert figures["by_model"] == figures["by_provider"] == figures["by_virtual_key"] == {}
    assert asked(admin, f"/api/stats/timeseries?period={period}") == {"points": []}
    assert asked(admin, f"/api/stats/provider-distribution?period={period}") == {"items": []}


@pytest.mark.parametrize(("period", "count", "step"), [("1h", 288, 300), ("24h", 168, 3600), ("7d", 30, 86400)])
def test_one_request_an_hour_ago_is_one_point_among_zeros(admin, period, count, step):  # noqa: F811
    """operations 35"""
    one = row(age=timedelta(hours=1), tokens_prompt=3, tokens_completion=4)
    points = asked(admin, f"/api/stats/timeseries?period={period}")["points"]
    moments = [clock.datetime.fromisoformat(point["bucket"]).timestamp() for point in points]
    assert moments == list(range(int(moments[0]), int(moments[0]) + count * step, step))
    assert moments[0] % step == 0 and moments[-1] <= clock.SYSTEM.now().timestamp() < moments[-1] + step
    assert [point["tokens"] for point in points if point["count"]] == [7]
    assert moments[[point["count"] for point in points].index(1)] == one.created_at.timestamp() // step * step


def test_three_providers_with_equal_counts_share_a_hundred(admin):  # noqa: F811
    """operations 36"""
    for name in "ABC":
        row(provider_id=Provider.objects.create(name=name, base_url="https://x.test").pk, tokens_prompt=5)
    items = asked(admin, "/api/stats/provider-distribution")["items"]
    assert [(item["name"], item["count"], item["share"]) for item in items] == [
        ("A", 1, 33.4),
        ("B", 1, 33.3),
        ("C", 1, 33.3),
    ]
    assert [item["tokens"] for item in asked(admin, "/api/stats/provider-distribution?metric=tokens")["items"]] == [
        5
    ] * 3


def test_requests_in_flight_are_no_errors_and_in_no_average(admin):  # noqa: F811
    """operations 37"""
    row("pending", duration_ms=9)
    row("streaming", status_code=200, latency_ms=5, ttft_ms=3, streaming=True, proxy_overhead_ms=2, tokens_prompt=8)
    figures = asked(admin, "/api/stats")
    averages = ("error_rate", "avg_latency_ms", "avg_overhead_ms", "avg_tokens_per_request", "avg_ttft_ms")
    assert [figures[name] for name in averages] == [0] * 5
    assert (figures["requests_last_1h"], figures["total_tokens_prompt"]) == (2, 0)


def test_a_stream_that_broke_is_an_error_and_no_latency(admin):  # noqa: F811
    """operations 38"""
    row("failed", status_code=0, latency_ms=9000)
    row(latency_ms=100)
    figures = asked(admin, "/api/stats")
    assert (figures["error_rate"], figures["avg_latency_ms"]) == (0.5, 100.0)


def test_keys_that_are_gone_are_left_out_or_merged(admin):  # noqa: F811
    live = VirtualKey.objects.create(name="today", key_hash="h")
    row(virtual_key_id=live.pk, virtual_key_name="yesterday")
    for name in ("one", "two"):
        row(virtual_key_id=uuid.uuid4(), virtual_key_name=name)
    row(virtual_key_name="internal")
    assert asked(admin, "/api/stats")["by_virtual_key"] == {"internal": 1, "today": 1}
    everything = asked(admin, "/api/stats?exclude_deleted=false")
    assert everything["by_virtual_key"] == {"Deleted": 2, "internal": 1, "today": 1}
    assert everything["total_requests_last_24h"] == 4


def test_who_may_see_figures(admin, viewer, stranger, nobody):  # noqa: F811
    for path in PATHS:
        assert viewer.get(path).status_code == admin.get(path).status_code == 200
        assert stranger.get(path).status_code == 403
        assert nobody.get(path).status_code == 401


def test_an_account_can_be_picked_out(admin):  # noqa: F811
    owner = uuid.uuid4()
    row(owner_user_id=owner)
    row()
    assert asked(admin, f"/api/stats?owner_user_id={owner}")["requests_last_1h"] == 1
    assert asked(admin, "/api/stats?owner_user_id=nobody")["requests_last_1h"] == 2
    assert sum(point["count"] for point in asked(admin, f"/api/stats/timeseries?owner_user_id={owner}")["points"]) == 1


def test_a_request_that_has_just_ended_is_in_the_figures(admin):  # noqa: F811
    draft = Draft("chat", model_id="hotel/x", label="")
    draft.state, draft.status_code = "completed", 200
    RECORDER.finish(draft)
    assert asked(admin, "/api/stats")["by_model"] == {"hotel/x": 1}


def test_all_who_ask_within_seconds_share_one_answer(admin, viewer, monkeypatch):  # noqa: F811
    made = []
    real = stats_api.stats.overview
    monkeypatch.setattr(stats_api.stats, "overview", lambda *given, **named: made.append(1) or real(*given, **named))
    row()
    first = admin.get("/api/stats").json()
    row()
    assert viewer.get("/api/stats?period=24h").json() == first and len(made) == 1
    assert admin.get("/api/stats?exclude_deleted=false").json()["requests_last_1h"] >= 1 and len(made) == 2


def test_ten_readers_at_once_cost_one_answer():
    entered, go, made = threading.Event(), threading.Event(), []
    cache = Shared(60.0)

    def make():
        entered.set()
        assert go.wait(10)
        made.append(1)
        return len(made)

    found = []
    readers = [threading.Thread(target=lambda: found.append(cache.get("k", make))) for _ in range(10)]
    for reader in readers:
        reader.start()
    assert entered.wait(10)
    go.set()
    for reader in readers:
        reader.join(10)
    assert (found, made) == ([1] * 10, [1])


def test_an_answer_that_failed_is_not_kept_and_an_old_one_is_made_anew():
    now = [0.0]
    cache = Shared(3.0, size=2, monotonic=lambda: now[0])
    with pytest.raises(ZeroDivisionError):
        cache.get("k", lambda: 1 // 0)
    assert cache.get("k", lambda: 1) == cache.get("k", lambda: 2) == 1
    now[0] = 3.0
    assert cache.get("k", lambda: 3) == 3
    assert (cache.get("l", lambda: 4), cache.get("m", lambda: 5), cache.get("k", lambda: 6)) == (4, 5, 6)
