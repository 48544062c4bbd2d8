"""A vendor that is spent and topped up, its real reader, the table, the poller and the circuits, over weeks of a clock.

Kimi's plan stands for every type that is judged: the vendor is asked over HTTP, nothing in between is replaced.
"""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from failover import quotawatch
from failover.advice import Advisor
from failover.quotawatch import QuotaWatch
from modelhotel import config_store
from modelhotel.core import catalogue, options
from modelhotel.core.clock import ManualClock
from modelhotel.core.options import REGISTRY
from modelhotel.core.threads import released
from modelhotel.models import Setting
from modelhotel.ops import leases
from providers import cache, control
from providers.cache import Catalogue
from providers.models import Provider, QuotaSnapshot
from providers.quota import desk
from providers.quota.fetch import Fetcher
from tests.failover.breaker.conftest import DAY, MINUTE, A, Bench, spent
from tests.upstream.server import FakeProvider, Hold, reply
from tests.upstream.server import status as answers_with
from tests.wire.product import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

SEEDED = "(account quota)"
FIVE = 300.0
#: The plan's cycle ends in four days, its five hours in two.
START = datetime(2026, 3, 2, 12, tzinfo=UTC)
RESETS, CYCLE = START + timedelta(hours=2), START + timedelta(days=4)


def left(hours: int, cycle: int = 60, **more: Any) -> dict[str, Any]:
    """Kimi's answer with so many percent left of its five hours and of its cycle."""

    def counter(percent: int, resets: datetime) -> dict[str, str]:
        counts = {"used": str(100 - percent), "remaining": str(percent)}
        # Kimi leaves out what is zero.
        return {"limit": "100", "resetTime": resets.isoformat()} | {n: v for n, v in counts.items() if v != "0"}

    window = {"duration": 300, "timeUnit": "TIME_UNIT_MINUTE"}
    return {"usage": counter(cycle, CYCLE), "limits": [{"window": window, "detail": counter(hours, RESETS)}], **more}


class Round:
    """One Kimi account, polled by a watch whose clock the test moves."""

    def __init__(self, upstream: FakeProvider, patch: pytest.MonkeyPatch) -> None:
        self.upstream, self.patch = upstream, patch
        self.clock = ManualClock(START)
        self.board = Bench(self.clock)
        self.provider = Provider.objects.create(id=A, name="Kimi", base_url=upstream.url, provider_type="kimi-code")
        self.id = str(self.provider.pk)
        row = cache.row_of(self.provider)
        patch.setattr(cache.SNAPSHOT, "current", Catalogue(providers={row.id: row}))
        self.minutes(5)
        self.fetcher = Fetcher(self.clock, self._sleep, lambda: 0.5)
        self.advisor = Advisor(lambda: self.board, self.clock, quotawatch.interval)
        self.watch = QuotaWatch(leases, "me", self.clock, self.fetcher, self.advisor)
        patch.setattr("providers.ports.judge_quotas", self.advisor.refresh)

    async def _sleep(self, seconds: float) -> None:
        return None

    def minutes(self, value: int) -> None:
        values = REGISTRY.values({catalogue.QUOTA_REFRESH_INTERVAL_MIN.key: str(value)}, {})
        self.patch.setattr(options.SNAPSHOT, "current", values)

    def switch(self, minutes: int) -> None:
        """Another interval, and the poller notices."""
        self.minutes(minutes)
        self.watch.turn()

    def says(self, answer: Any) -> None:
        self.upstream.route("GET", "/v1/usages", reply(200, answer) if isinstance(answer, dict) else answer)

    def poll(self, answer: Any = None, after: float = FIVE) -> None:
        """So much later the poller finds the vendor saying this."""
        if answer is not None:
            self.says(answer)
        self.clock.advance(after)
        self.watch.turn()

    def pin(self, model: str = SEEDED) -> str | None:
        return (self.board.circuit(model, self.id) or {}).get("pin_source")

    @property
    def dark(self) -> bool:
        return self.board.gate(self.id, "any model").state == "blocked"

    @property
    def calls(self) -> int:
        return len(self.upstream.requests)


@pytest.fixture
def round(provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Round:
    return Round(provider_a, monkeypatch)


def kinds(told: list[Any]) -> list[str]:
    return [event.type for event in told]


def test_a_plan_that_is_spent_is_dark_until_a_poll_finds_it_topped_up(round: Round, told: list[Any]):
    """part of circuit-breaker 49"""
    round.poll(left(40))
    assert not round.dark and round.calls == 1
    round.poll(left(0))
    assert round.dark and round.pin() == "advisor"
    wait = round.board.wait(SEEDED, round.id)
    assert wait == (RESETS - round.clock.now()).total_seconds(), "to the reset that the vendor named"
    round.poll(left(0))
    assert round.dark and kinds(told) == ["circuit_breaker.open"], "seeded once"
    round.poll(left(100))
    assert not round.dark and round.board.row(round.id) is None
    assert kinds(told) == ["circuit_breaker.open", "circuit_breaker.closed"]
    assert round.calls == 4


def test_a_window_that_ends_brings_the_provider_back_without_a_word_of_the_vendor(round: Round):
    round.poll(left(0))
    assert round.dark
    round.poll(answers_with(503), after=(RESETS - round.clock.now()).total_seconds() + MINUTE)
    assert not round.dark and round.board.row(round.id) is None


def test_a_refresh_that_fails_keeps_the_reading_and_recovers_nobody(round: Round):
    """providers 65"""
    round.poll(left(40))
    round.board.record(round.id, "m", spent(DAY, account=True))
    assert round.pin("m") == "account"
    round.poll(answers_with(503))
    [row] = QuotaSnapshot.objects.all()
    assert row.payload == left(40) and row.http_status == 200 and row.last_error.startswith("HTTP 503")
    shown = desk.show(round.provider, "usage", round.fetcher, round.clock)
    assert (shown.status, shown.payload) == (200, left(40))
    assert shown.fetched_at == round.clock.now() - timedelta(seconds=FIVE)
    assert round.pin("m") == "account", "it does not count as recovered"
    round.poll(left(40))
    assert round.pin("m") is None
    assert QuotaSnapshot.objects.get().last_error == ""


def test_a_failed_refresh_can_still_say_that_the_quota_is_spent(round: Round):
    round.poll(left(0))
    round.board.reset()
    assert not round.dark
    round.poll(answers_with(503))
    assert round.pin() == "advisor", "the reading is young enough"
    round.board.reset()
    round.poll(answers_with(503), after=FIVE)
    round.poll(answers_with(503), after=FIVE)
    round.board.reset()
    round.poll(answers_with(503), after=FIVE)
    assert round.pin() is None, "older than three intervals"


def test_without_the_poll_nobody_is_asked_and_no_pin_of_any_source_stays(round: Round):
    """providers 70"""
    for source, answer, reserve in (("advisor", left(0), 0), ("reserve", left(60, cycle=5), 90)):
        Provider.objects.update(quota_reserve_percent=reserve)
        round.poll(answer)
        assert round.pin() == source
        round.switch(0)
        assert round.board.circuit(SEEDED, round.id) is None and not round.dark
        round.switch(5)
    round.switch(0)
    for model, judgement in (("one", spent(DAY)), ("two", spent(DAY, account=True))):
        round.board.record(round.id, model, judgement)
    assert (round.pin("one"), round.pin("two")) == ("response", "account"), "they need no poll"
    before = round.calls
    round.poll(left(0), after=MINUTE * 10)
    round.watch.wanted(round.id)
    round.advisor.refresh()
    assert round.calls == before, "nobody is asked, also not for a circuit that opens"
    assert (round.pin("one"), round.pin("two")) == ("response", "account")
    round.switch(5)
    round.switch(0)
    assert (round.pin("one"), round.pin("two")) == (None, None)


def test_a_reading_older_than_three_intervals_is_no_reading(round: Round):
    """part of providers 70"""
    round.poll(left(40))
    round.board.record(round.id, "m", spent(DAY, account=True))
    QuotaSnapshot.objects.update(fetched_at=round.clock.now() - timedelta(minutes=15, seconds=1))
    round.advisor.refresh()
    assert round.pin("m") == "account"
    QuotaSnapshot.objects.update(fetched_at=round.clock.now() - timedelta(minutes=15))
    round.advisor.refresh()
    assert round.pin("m") is None


def test_a_reserve_is_kept_and_given_back(round: Round):
    """part of providers 69"""
    round.poll(left(90, cycle=15))
    assert not round.dark
    round.provider.quota_reserve_percent = 20
    round.provider.save()
    round.advisor.refresh()
    assert round.pin() == "reserve" and round.dark
    assert round.board.wait(SEEDED, round.id) == DAY, "no longer than a day, however far the reset"
    round.poll(left(3, cycle=25))
    assert not round.dark, "the five hours may be used up to their end"


def test_a_refresh_by_hand_is_judged_at_once(round: Round):
    round.says(left(0))
    results, skipped = desk.refresh(round.fetcher, round.clock)
    assert ([result.error for result in results], skipped) == ([""], 0)
    assert round.pin() == "advisor"
    round.says(left(50))
    desk.refresh(round.fetcher, round.clock)
    assert not round.dark


def test_a_reading_is_stored_while_a_slower_vendor_is_still_asked(round: Round, provider_b: FakeProvider):
    other = Provider.objects.create(name="Slow", base_url=provider_b.url, provider_type="kimi-code")
    rows = {str(one.pk): cache.row_of(one) for one in (other, round.provider)}
    round.patch.setattr(cache.SNAPSHOT, "current", Catalogue(providers=rows))
    held = Hold(reply(200, left(70)))
    provider_b.route("GET", "/v1/usages", held)
    round.says(left(0))

    def stored() -> dict[str, Any]:
        return dict(QuotaSnapshot.objects.values_list("provider__name", "payload"))

    for read in (lambda: round.poll(), lambda: desk.refresh(round.fetcher, round.clock)):
        QuotaSnapshot.objects.all().delete()
        asking = threading.Thread(target=released, args=(read,))
        asking.start()
        try:
            assert eventually(lambda: stored() == {"Kimi": left(0)}), "the slow one keeps nobody waiting"
        finally:
            held.release()
            asking.join(10)
        assert stored() == {"Kimi": left(0), "Slow": left(70)} and round.pin() == "advisor"
        held = Hold(reply(200, left(70)))
        provider_b.route("GET", "/v1/usages", held)


def test_a_dead_key_and_a_missing_plan_say_nothing_of_the_quota(round: Round):
    round.poll(left(0))
    round.poll(answers_with(401))
    assert QuotaSnapshot.objects.get().http_status == 424
    assert round.pin() == "advisor", "neither renewed nor lifted"


# --- the shape of the answer ------------------------------------------------------------------------------------------


def drifts(told: list[Any]) -> list[Any]:
    return [event for event in told if event.type == "quota.schema_drift"]


def test_a_new_key_is_told_when_the_second_fetch_shows_it(round: Round, told: list[Any]):
    """providers 71, circuit-breaker 72"""
    round.poll(left(40))
    round.poll(left(0, cycle=0))
    round.poll(left(100))
    assert not drifts(told), "new values, and counters that Kimi leaves out at zero"
    round.poll(left(50, boosterWallet={"amount": "3"}))
    round.advisor.refresh()
    round.advisor.refresh()
    assert not drifts(told), "one fetch, however often it is read"
    round.poll(left(40, boosterWallet={"amount": "2"}))
    round.poll(left(30, boosterWallet={"amount": "1"}))
    [event] = drifts(told)
    assert (event.severity, event.source) == ("warning", "quota")
    assert event.message == "Provider Kimi changed the shape of its quota response"
    assert event.metadata == {
        "provider_id": round.id,
        "provider": "Kimi",
        "provider_type": "kimi-code",
        "kind": "usage",
        "added": ["boosterWallet", "boosterWallet.amount"],
        "removed": [],
    }
    assert QuotaSnapshot.objects.get().payload == left(30), "what nobody knows is not kept"


def test_one_fetch_that_two_wait_for_is_seen_once(round: Round, told: list[Any]):
    """part of providers 71"""
    round.poll(left(40))
    held = Hold(reply(200, left(40, more=1)))
    round.says(held)
    by_hand = threading.Thread(target=released, args=(lambda: desk.refresh(round.fetcher, round.clock),))
    by_hand.start()
    assert held.reached.wait(10)
    polling = threading.Thread(target=released, args=(lambda: round.poll(),))
    polling.start()
    try:
        assert eventually(lambda: waiters(round) == 2)
    finally:
        held.release()
        by_hand.join(10)
        polling.join(10)
    assert round.calls == 2 and not drifts(told)
    round.poll(left(40, more=2))
    assert [event.metadata["added"] for event in drifts(told)] == [["more"]]


def waiters(round: Round) -> int:
    """How many are given the answer that is on its way."""
    return sum("coro=<Fetcher.one()" in repr(task) for task in asyncio.all_tasks(control.LOOP._loop))


def test_a_key_that_is_missing_once_is_nothing_and_twice_is_told(round: Round, told: list[Any]):
    """circuit-breaker 72"""
    whole, lacking = left(40, subType="TYPE_PURCHASE"), left(40)
    for answer in (whole, lacking, whole, lacking):
        round.poll(answer)
    assert not drifts(told)
    for answer in (answers_with(401), answers_with(503), {}):
        round.poll(answer)
    assert not drifts(told), "what can not be read confirms nothing"
    round.poll(lacking)
    [event] = drifts(told)
    assert (event.metadata["added"], event.metadata["removed"]) == ([], ["subType"])


def test_the_shape_outlives_a_restart_and_is_told_by_whoever_fetches_next(round: Round, told: list[Any]):
    round.poll(left(40))
    round.poll(left(40, more=1))
    other = QuotaWatch(leases, "other", round.clock, Fetcher(round.clock), round.advisor)
    round.says(left(40, more=1))
    round.clock.advance(DAY)
    other.turn()
    assert [event.metadata["added"] for event in drifts(told)] == [["more"]]


def test_a_shape_changes_nothing_for_the_circuits(round: Round, told: list[Any]):
    for _ in range(3):
        round.poll(left(0, other=1))
    round.poll(left(0))
    round.poll(left(0))
    assert round.pin() == "advisor" and len(drifts(told)) == 1
    assert kinds(told) == ["circuit_breaker.open", "quota.schema_drift"]


def test_without_the_poll_no_shape_is_compared(round: Round):
    round.minutes(0)
    round.says(left(40))
    desk.refresh(round.fetcher, round.clock)
    assert QuotaSnapshot.objects.count() == 1
    assert not Setting.objects.filter(key__startswith="_quota_schema_").exists()


def test_a_note_that_can_not_be_read_keeps_nobody_from_the_reading(
    round: Round, told: list[Any], lines: Any, monkeypatch: pytest.MonkeyPatch
):
    round.poll(left(40))

    def broken(key: str) -> str:
        raise OSError("no such file, secret text")

    with monkeypatch.context() as patch:
        patch.setattr(config_store, "load_note", broken)
        round.poll(left(0, more=1))
    text = "quota: shape of the answer not compared"
    assert ("WARNING", text, {"error": "OSError", "provider": "Kimi"}) in lines()
    assert round.pin() == "advisor"
    Setting.objects.update(value="{broken")
    round.poll(left(0, more=1))
    round.poll(left(0, more=1))
    assert not drifts(told), "adopted anew"


def test_the_shape_goes_with_the_provider_and_with_its_type(round: Round):
    round.poll(left(40))
    assert list(Setting.objects.values_list("key", flat=True)) == [f"_quota_schema_{round.id}"]
    from modelhotel.core.actor import SYSTEM
    from providers import verbs

    verbs.update(round.id, {"provider_type": "deepseek", "api_key": "sk-abcdef123"}, SYSTEM)
    assert not Setting.objects.exists() and not QuotaSnapshot.objects.exists()
    config_store.store_note(f"_quota_schema_{round.id}", "{}")
    verbs.delete(round.id, SYSTEM)
    assert not Setting.objects.exists()
