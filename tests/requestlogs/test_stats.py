"""Statistics: the SQL over kept sums says what a plain walk over all rows says, whatever happened to the rows."""

import random
import time
import uuid
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import OperationalError, transaction

from modelhotel.core.clock import SYSTEM, ManualClock
from providers.models import Provider
from proxy.models import VirtualKey
from requestlogs import provider_port, rollup, stats, sweep, timeline
from requestlogs.models import ModelName, ModelSlice, RequestLog, StatMark, StatStale, TrafficName, TrafficSlice
from requestlogs.recorder import INTERRUPTED
from requestlogs.statements import Scope
from tests.requestlogs.naive import Naive

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database, pytest.mark.timeout(90)]
#: A moment in the middle of a minute, an hour and a day.
NOW = 1_796_005_527.25
DAY = 86400


@pytest.fixture(autouse=True)
def _nothing_left():
    """The rows of the test before were deleted, and that is noted too."""
    rollup.settle()


def at(age):
    return ManualClock().now().fromtimestamp(NOW, tz=SYSTEM.now().tzinfo) - timedelta(seconds=age)


class House:
    """Providers, keys and rows made by chance, always the same for one *seed*."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.providers = [Provider.objects.create(name=f"P {n}", base_url="https://x.test").pk for n in range(7)]
        self.keys = [VirtualKey.objects.create(name=f"k{n}", key_hash=f"{n}").pk for n in range(3)]
        self.gone = [uuid.UUID(int=self.chance.getrandbits(128)) for _ in range(2)]
        self.owners = [uuid.UUID(int=n + 1) for n in range(2)]

    def row(self, age):
        pick, number = self.chance.choice, self.chance.random
        state = pick(("completed",) * 5 + ("failed", "failed", "pending", "streaming"))
        over = state in ("completed", "failed")
        provider = pick([*self.providers, None, self.gone[0]])
        key = pick([*self.keys, self.gone[1], None])
        model = pick(["hotel/One", "hotel/one", "P-1/m", "P-1/org/m", "bare", "made-up"])
        return RequestLog(
            id=uuid.UUID(int=self.chance.getrandbits(128)),
            request_hash="0" * 16,
            created_at=at(age),
            state=state,
            endpoint_type="chat",
            streaming=number() < 0.5,
            model_id=model,
            resolved_model_id=pick(["org/m", "m"]) if model in ("hotel/One", "hotel/one", "bare") else None,
            provider_id=provider,
            virtual_key_id=key,
            virtual_key_name="was named so" if key else pick(["chat", "internal"]),
            owner_user_id=pick([*self.owners, None]),
            status_code=pick([200, 200, 200, 204, 302, 400, 429, 499, 502, 0, None]) if over else pick([None, 200]),
            error_kind=pick([None, "provider_error", "validation"]) if state == "failed" else None,
            duration_ms=number() * 5000,
            latency_ms=number() * 5000,
            proxy_overhead_ms=number() * 10,
            response_header_ms=pick([None, number() * 1000]),
            ttft_ms=pick([None, 0.0, number() * 1000]),
            tokens_prompt=pick([0, self.chance.randrange(10_000)]),
            tokens_completion=pick([0, self.chance.randrange(10_000)]),
            tokens_prompt_cache_hit=self.chance.randrange(100),
            tokens_prompt_cache_miss=self.chance.randrange(100),
            cost_usd=pick([None, Decimal(0), Decimal(self.chance.randrange(10**9)) / 10**10]),
        )

    def age(self):
        """Mostly young; often on an edge of a minute, a bucket or a window."""
        pick, number = self.chance.choice, self.chance.random
        age = pick(
            [number() * 60, number() * 3700, number() * DAY, number() * DAY + 6.5 * DAY, number() * DAY + 29 * DAY]
        )
        if number() < 0.2:
            span = pick([60, 300, 3600, DAY])
            age = NOW - (int(NOW - age) // span * span + pick([0, 0.000001, -0.000001]))
        if number() < 0.1:
            age = pick([3600, DAY, 7 * DAY]) + pick([0.25, 0.249999, 0.250001])
        return max(age, 0)

    def rows(self, count):
        RequestLog.objects.bulk_create([self.row(self.age()) for _ in range(count)])


def rounded(value):
    """*value* with floats as far as they do not hang on the order of adding; maps as lists, for their order counts."""
    if isinstance(value, dict):
        return [(name, rounded(each)) for name, each in value.items()]
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


EVERYTHING = (Scope(), Scope(None, False))


def holds(scopes=EVERYTHING):
    """Everything that is said of the rows is what a walk over them says."""
    for scope in scopes:
        naive = Naive(NOW, owner=scope.owner, exclude_deleted=scope.exclude_deleted)
        for period, metrics in (("1h", ("tokens",)), ("24h", ("requests", "tokens", "cost")), ("7d", ("requests",))):
            for metric in metrics:
                found = stats.overview(scope, period, metric, NOW, latency=True)
                assert rounded(found) == rounded(naive.overview(period, metric)), (scope, period, metric)
                shown = stats.distribution(scope, period, metric, NOW)
                named = [(i["name"], i["count"], i["tokens"], i["cost_usd"]) for i in shown]
                assert named == naive.distribution(period, metric)
                assert not shown or round(sum(item["share"] for item in shown), 6) == 100.0
            assert rounded(timeline.points(scope, period, NOW)) == rounded(naive.points(period)), (scope, period)


def test_figures_are_those_of_a_walk_over_all_rows():
    """operations 37, operations 38. Before and after the longer spans are made, and as rows come, end and go."""
    house = House(0)
    house.rows(120)
    rollup.catch_up()
    holds()
    rollup.settle(ManualClock(at(0)))
    assert set(TrafficSlice.objects.values_list("span", flat=True)) == {60, 300, 3600, DAY}
    holds((Scope(), Scope(None, False), Scope(str(house.owners[0])), Scope(str(house.owners[1]), False)))
    house.rows(30)
    rollup.catch_up()
    holds((Scope(),))
    RequestLog.objects.filter(state="pending").update(state="completed", status_code=200, tokens_prompt=77)
    sweep.at_start("no such node")
    rollup.catch_up()
    holds()
    rollup.settle(ManualClock(at(0)))
    RequestLog.objects.filter(
        pk__in=house.chance.sample(list(RequestLog.objects.values_list("pk", flat=True)), 40)
    ).delete()
    VirtualKey.objects.filter(pk=house.keys[0]).delete()
    VirtualKey.objects.filter(pk=house.keys[1]).update(name="renamed")
    rollup.catch_up()
    holds()


LEFT = (RequestLog, TrafficSlice, TrafficName, ModelSlice, ModelName, StatMark)


def test_what_is_deleted_leaves_no_trace():
    house = House(9)
    house.rows(50)
    rollup.settle(ManualClock(at(0)))
    RequestLog.objects.update(state="completed")
    sweep.delete_before(None)
    rollup.settle(ManualClock(at(0)))
    assert rollup.forget_names() > 0
    assert [model.objects.count() for model in LEFT] == [0] * len(LEFT)
    assert not StatStale.objects.exclude(start__gt=NOW - 2 * DAY).exists()
    assert stats.overview(Scope(), "7d", "requests", NOW)["by_model"] == {}


def test_a_provider_that_is_deleted_leaves_the_figures_but_not_the_totals():
    """operations 12"""
    house = House(3)
    house.rows(40)
    rollup.settle(ManualClock(at(0)))
    Provider.objects.filter(pk=house.providers[0]).delete()
    holds()
    RequestLog.objects.filter(provider_id=house.providers[0]).update(provider_id=None)
    assert not StatMark.objects.exists()
    holds()
    rollup.settle(ManualClock(at(0)))
    holds()


def test_a_change_that_is_not_committed_is_not_lost():
    """The note of a change comes with it: a pass in between takes neither."""
    house = House(5)
    house.rows(5)
    rollup.catch_up()
    with pytest.raises(RuntimeError), transaction.atomic():
        RequestLog.objects.all().delete()
        raise RuntimeError
    rollup.catch_up()
    holds()


def test_a_pass_that_runs_out_of_time_goes_on_where_it_stopped(monkeypatch):
    house = House(6)
    house.rows(30)
    monkeypatch.setattr(rollup, "_HOLD", 0.0)
    assert not rollup.catch_up(0.0)
    done = min(TrafficSlice.objects.values_list("start", flat=True))
    assert done == max(
        int(when.timestamp()) // 60 * 60 for when in RequestLog.objects.values_list("created_at", flat=True)
    )
    while not rollup.catch_up(0.0):
        pass
    holds()


def test_triggers_come_back_after_a_table_was_made_anew():
    from django.db import connection

    with connection.cursor() as cursor:
        for name in ("stat_insert", "stat_update", "stat_delete"):
            cursor.execute(f"DROP TRIGGER {name}" + ("" if connection.vendor == "sqlite" else " ON request_logs"))
    House(1).rows(1)
    assert not StatMark.objects.exists()
    rollup.install()
    rollup.install()
    RequestLog.objects.update(state="failed", error_message=INTERRUPTED)
    assert StatMark.objects.count() == 1


def test_tokens_of_a_provider_are_those_of_the_whole_log():
    house = House(4)
    house.rows(30)
    rollup.settle(ManualClock(at(0)))
    house.rows(5)
    over = RequestLog.objects.filter(state__in=("completed", "failed"), provider_id__isnull=False)
    expected = {}
    for provider, prompt, completion in over.values_list("provider_id", "tokens_prompt", "tokens_completion"):
        expected[str(provider)] = expected.get(str(provider), 0) + prompt + completion
    found = provider_port.provider_tokens()
    assert {name: count for name, count in found.items() if count} == {n: c for n, c in expected.items() if c}


def test_a_reader_does_not_wait_for_the_job():
    with rollup._one_at_a_time:
        began = time.monotonic()
        assert rollup.catch_up(0.05) is False
        assert time.monotonic() - began < 5


def test_figures_are_read_where_sums_can_not_be_written(monkeypatch: pytest.MonkeyPatch):
    House(9).rows(5)

    def full(*_: object) -> None:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(rollup, "_sum_up", full)
    assert rollup.help_readers() is False
    assert provider_port.provider_tokens() == {}
