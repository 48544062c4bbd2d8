"""When quotas are read, by whom, and what a circuit that opens sets in motion."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from failover import advice, breaker, quotawatch
from failover.breaker.board import FREE
from failover.quotawatch import LAG, QuotaWatch
from modelhotel.core import catalogue, options
from modelhotel.core.clock import SYSTEM, ManualClock
from modelhotel.core.options import REGISTRY
from modelhotel.ops import leases
from providers import cache
from providers.cache import Catalogue
from providers.kinds.base import Kind
from providers.models import Provider, QuotaSnapshot
from providers.quota import fetch, store
from providers.quota.store import Fetched
from tests.failover.breaker.conftest import status
from tests.failover.rows import provider
from tests.upstream.server import reply
from tests.wire.product import eventually

BAD = status(503)
FIVE = 300.0


class Telling(Kind):
    type = "telling"
    label = "Telling"

    class quota:
        kind = "usage"
        fleeting = frozenset()


A, B, MUTE = provider("A", 1.0, kind=Telling()), provider("B", 2.0, kind=Telling()), provider("C", 3.0)
OFF = provider("D", 4.0, kind=Telling(), enabled=False)


class Fetcher:
    """Answers at once and notes who was asked."""

    def __init__(self, log):
        self.log = log

    def each(self, rows):
        self.log.append(("poll", [row.name for row in rows]))
        for row in rows:
            yield row, Fetched({"of": row.name}, 200)

    def resume(self):
        pass

    def halt(self):
        pass

    async def one(self, row):
        self.log.append(("one", row.name))
        return Fetched({"of": row.name}, 200)


class Advisor:
    def __init__(self, log):
        self.log = log

    def refresh(self):
        self.log.append("pass")

    def go_blind(self):
        self.log.append("blind")


class House:
    """A watch whose every act lands in *log*."""

    def __init__(self, monkeypatch):
        self.clock = ManualClock()
        self.log = []
        self.leads = True
        self.claims, self.moved = [], []
        self.patch = monkeypatch
        monkeypatch.setattr(store, "keep", lambda *args: self.log.append(("kept", args[0], args[1], args[3])))
        monkeypatch.setattr(quotawatch, "_released", lambda work: work())
        self.providers(A, B, MUTE, OFF)
        self.minutes(5)
        self.watch = QuotaWatch(self, "me", self.clock, Fetcher(self.log), Advisor(self.log))

    # The leases of all processes.

    def claim(self, name, holder, now, until):
        self.claims.append((name, holder, (until - now).total_seconds()))
        if isinstance(self.leads, Exception):
            raise self.leads
        return self.leads

    def move(self, name, holder, until):
        self.moved.append((until - self.clock.now()).total_seconds())
        return True

    def providers(self, *rows):
        catalogue = Catalogue(providers={row.id: row for row in rows})
        self.patch.setattr(cache.SNAPSHOT, "current", catalogue)
        for listener in cache.SNAPSHOT.listeners:
            listener(catalogue)

    def minutes(self, value):
        values = REGISTRY.values({catalogue.QUOTA_REFRESH_INTERVAL_MIN.key: str(value)}, {})
        self.patch.setattr(options.SNAPSHOT, "current", values)
        for listener in options.SNAPSHOT.listeners:
            listener(values)

    def after(self, seconds):
        """What the next turn does, and when it wants to be asked again."""
        self.clock.advance(seconds)
        self.log.clear()
        wait = self.watch.turn()
        return list(self.log), wait


@pytest.fixture
def house(monkeypatch):
    return House(monkeypatch)


POLL = [("poll", ["A", "B"]), ("kept", A.id, "usage", "poll"), ("kept", B.id, "usage", "poll"), "pass"]


def test_the_first_poll_comes_a_full_interval_after_the_start_and_then_every_interval(house):
    assert house.after(0) == ([], FIVE)
    assert house.after(FIVE - 1) == ([], 1)
    assert house.after(1) == (POLL, FIVE)
    assert house.after(100) == ([], 200)
    assert house.after(200) == (POLL, FIVE)


def test_only_enabled_providers_with_a_reader_are_asked(house):
    house.providers(MUTE, OFF)
    assert house.after(FIVE) == ([("poll", []), "pass"], FIVE)


def test_another_interval_counts_at_once(house):
    house.after(200)
    house.minutes(10)
    assert house.after(0) == ([], 400)


def test_a_shorter_interval_that_is_over_already_polls_at_once(house):
    house.after(200)
    house.minutes(3)
    assert house.after(0)[0] == POLL


def test_switched_off_everything_is_released_once_and_nothing_is_read(house):
    """circuit-breaker 54"""
    house.minutes(0)
    assert house.after(10) == (["blind"], None)
    assert house.after(1000) == ([], None)
    house.minutes(5)
    assert house.after(0) == ([], FIVE), "a full interval from here"
    assert house.after(FIVE)[0] == POLL
    house.minutes(0)
    assert house.after(0) == (["blind"], None)


def test_a_start_with_the_poll_switched_off_releases_what_there_is(house):
    """circuit-breaker 54"""
    house.minutes(0)
    watch = QuotaWatch(house, "me", house.clock, Fetcher(house.log), Advisor(house.log))
    assert watch.turn() is None
    assert house.log == ["blind"]


def test_one_process_polls_and_the_others_judge_when_it_must_be_done(house):
    house.leads = False
    assert house.after(FIVE) == ([], LAG)
    assert house.after(LAG) == (["pass"], FIVE - LAG)
    assert house.after(FIVE - LAG) == ([], LAG)
    assert set(house.claims) == {("quota-poll", "me", 45)} and house.moved == []


def test_whoever_polled_has_the_next_interval_to_itself(house):
    house.after(FIVE)
    assert house.moved == [FIVE - 5]


def test_a_process_that_died_over_its_poll_is_stood_in_for_within_a_minute(house):
    house.leads = False
    house.after(FIVE)
    house.leads = True
    assert LAG <= 60
    assert house.after(LAG) == (POLL, FIVE - LAG)


def test_a_claim_that_fails_costs_the_readings_and_not_the_pass(house, caplog):
    house.leads = RuntimeError("the database is away")
    assert house.after(FIVE) == (["pass"], FIVE)
    assert [record.attrs for record in caplog.records] == [{"error": "RuntimeError"}]


def test_a_reading_that_can_not_be_stored_keeps_nobody_from_the_pass(house, monkeypatch, caplog):
    def fail(*args):
        raise RuntimeError("the database is away")

    monkeypatch.setattr(store, "keep", fail)
    assert house.after(FIVE) == ([("poll", ["A", "B"]), "pass"], FIVE)
    assert [record.attrs for record in caplog.records] == [{"error": "RuntimeError", "provider": n} for n in "AB"]


# --- changes, and circuits that open ------------------------------------------------------------------------------


@pytest.fixture
def running(house):
    house.watch.start()
    yield house
    house.watch.stop()


def came(house, *entries) -> Callable[[], bool]:
    return lambda: [entry for entry in house.log if entry in entries] == list(entries)


def test_a_saved_reserve_is_judged_at_once(running):
    assert not running.log
    running.providers(replace(A, quota_reserve_percent=20), B, MUTE, OFF)
    assert eventually(came(running, "pass"))
    running.log.clear()
    running.providers(replace(A, quota_reserve_percent=20, name="renamed"), B, MUTE, OFF)
    running.providers(replace(A, quota_reserve_percent=20), replace(B, enabled=False), MUTE, OFF)
    assert eventually(came(running, "pass"))
    assert running.log == ["pass"], "a new name changes nothing"


def test_switching_the_poll_off_is_noticed_at_once(running):
    running.minutes(0)
    assert eventually(came(running, "blind"))


ONE = [("one", "A"), ("kept", A.id, "usage", "poll"), "pass"]


def test_a_circuit_that_opens_has_its_provider_read_out_of_turn(running):
    board = breaker.board()
    for _ in range(5):
        board.record(A.id, "m", BAD)
    assert eventually(came(running, *ONE))
    running.log.clear()
    for _ in range(5):
        board.record(A.id, "m2", BAD)
    for _ in range(5):
        board.record(B.id, "m", BAD)
    assert eventually(came(running, ("one", "B"), "pass"))
    assert ("one", "A") not in running.log, "at most once a minute per provider"


def test_after_a_minute_it_may_be_read_again(running):
    running.watch.wanted(A.id)
    assert eventually(came(running, *ONE))
    running.log.clear()
    running.clock.advance(59.9)
    running.watch.wanted(A.id)
    running.clock.advance(0.1)
    running.watch.wanted(A.id)
    assert eventually(came(running, *ONE))
    assert running.log == ONE


@pytest.mark.parametrize("row", [MUTE, OFF])
def test_who_has_no_quota_or_is_switched_off_is_not_read(house, row):
    house.watch.wanted(row.id)
    house.watch.wanted("unknown")
    house.minutes(0)
    house.watch.wanted(A.id)
    assert house.watch._asked == {}


def test_a_stopped_watch_hears_nothing_any_more(house):
    before = (len(breaker.openings), len(cache.SNAPSHOT.listeners), len(options.SNAPSHOT.listeners))
    house.watch.start()
    assert len(breaker.openings) == before[0] + 1
    house.watch.stop()
    assert (len(breaker.openings), len(cache.SNAPSHOT.listeners), len(options.SNAPSHOT.listeners)) == before
    assert not [thread for thread in threading.enumerate() if thread.name == "quota"]


def test_a_listener_that_fails_changes_no_verdict(monkeypatch, caplog):
    cache.SNAPSHOT.current = Catalogue(providers={A.id: A})

    def fail(provider_id):
        raise RuntimeError("broken")

    monkeypatch.setattr(breaker, "openings", [fail])
    board = breaker.board()
    for _ in range(5):
        board.record(A.id, "m", BAD)
    assert board.gate(A.id, "m").state == "blocked"
    assert "circuit-breaker: opening not told" in [record.getMessage() for record in caplog.records]


# --- the whole way ------------------------------------------------------------------------------------------------


class Zai(Kind):
    """As Z.ai, told by the fake provider."""

    type = "zai-coding"
    label = "Z.ai"

    class quota:
        kind = "usage"
        fleeting = frozenset()

        @staticmethod
        async def read(http, base_url, key):
            return await http.get(base_url + "/quota", [])


def reading(used):
    resets = (datetime.now(UTC) + timedelta(hours=2)).timestamp() * 1000
    return {"data": {"limits": [{"type": "TOKENS_LIMIT", "unit": 3, "percentage": used, "nextResetTime": resets}]}}


@pytest.mark.django_db(transaction=True)
@pytest.mark.database
def test_an_opening_asks_the_provider_and_its_answer_reaches_the_circuit(provider_a, told):
    """part of circuit-breaker 48, part of circuit-breaker 50. From the opening over the wire and the table and back."""
    provider_a.route("GET", "/v1/quota", reply(200, reading(100)))
    row = provider("A", 1.0, kind=Zai(), base_url=provider_a.url, sealed=None)
    Provider.objects.create(id=row.id, name="A", base_url=row.base_url, provider_type="zai-coding")
    cache.SNAPSHOT.current = Catalogue(providers={row.id: row})
    watch, board = QuotaWatch(leases, "me", fetcher=fetch.Fetcher()), breaker.board()
    watch.start()
    try:
        for _ in range(5):
            board.record(row.id, "m", BAD)
        assert eventually(lambda: board.gate(row.id, "m").pinned)
    finally:
        watch.stop()
    [circuit] = board.status({}, True)["providers"][0]["circuits"]
    assert circuit["pin_source"] == "advisor"
    assert 7100 <= circuit["cooldown_ms"] / 1000 <= 7200 * 1.05
    assert board.gate(row.id, "sibling").state == "blocked"
    [stored] = QuotaSnapshot.objects.all()
    assert (stored.http_status, stored.source) == (200, "poll")
    assert stored.payload["data"]["limits"][0]["percentage"] == 100
    store.keep(row.id, "usage", Fetched(reading(40), 200), "poll", datetime.now(UTC))
    advice.Advisor(breaker.board, SYSTEM, quotawatch.interval).refresh()
    assert board.gate(row.id, "m") != board.gate(row.id, "sibling") == FREE
    assert [event.type for event in told if event.metadata["model"] == "m"] == ["circuit_breaker.open"]
