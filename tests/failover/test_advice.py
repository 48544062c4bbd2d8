"""From stored snapshots to the circuits: which readings count, and what a pass over them does."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError

from failover.advice import Advisor, judge
from modelhotel.core.clock import ManualClock, rfc3339
from providers.models import Provider, QuotaSnapshot
from providers.quota import store
from providers.quota.store import Account, Fetched, Snapshot
from tests.failover.breaker.conftest import DAY, HOUR, MINUTE, A, B, Bench, spent, status

pytestmark = pytest.mark.database

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TOMORROW = NOW + timedelta(days=1)
INTERVAL = 300.0
SEEDED = "(account quota)"
BAD = status(503)


def zai(used, resets=TOMORROW, *, weekly=0):
    """A reading of Z.ai: percentages of the 5-hour and of the weekly window."""
    return {
        "data": {
            "limits": [
                {"type": "TOKENS_LIMIT", "unit": unit, "percentage": percentage, "nextResetTime": rfc3339(at)}
                for unit, percentage, at in ((3, used, resets), (6, weekly, TOMORROW))
            ]
        }
    }


def snapshot(payload, *, provider=A, age=0.0, status=200, error=""):
    return Snapshot(provider, payload, status, NOW - timedelta(seconds=age), error)


ZAI = {A: Account("zai-coding", 0)}


def found(*snapshots, accounts=ZAI):
    """(deadlines by provider, recovered)"""
    advice, recovered = judge(accounts, snapshots, INTERVAL, NOW)
    return {pid: (one.deadline, one.source) for pid, one in advice.items()}, set(recovered)


SPENT, FINE = zai(100), zai(40)
OUT = ({A: (TOMORROW, "advisor")}, set())
BACK = ({}, {A})
NOTHING = ({}, set())


@pytest.mark.parametrize(
    ("snapshots", "verdict"),
    [
        ([snapshot(SPENT)], OUT),
        ([snapshot(FINE)], BACK),
        ([snapshot(SPENT, age=900)], OUT),
        ([snapshot(SPENT, age=901)], NOTHING),
        ([snapshot(FINE, age=900)], BACK),
        ([snapshot(FINE, age=901)], NOTHING),
        ([snapshot(SPENT, error="HTTP 500")], OUT),
        ([snapshot(FINE, error="HTTP 500")], NOTHING),
        ([snapshot({})], NOTHING),
        ([snapshot(None)], NOTHING),
        ([snapshot(zai(100, None))], NOTHING),
        ([snapshot(zai(100, NOW - timedelta(seconds=1)))], BACK),
        ([snapshot(SPENT, status=204)], NOTHING),
        ([snapshot(FINE, status=424)], NOTHING),
        ([snapshot(FINE, status=0)], NOTHING),
        ([snapshot(SPENT, provider=B)], NOTHING),
        ([Snapshot(A, FINE, 200, None, "")], NOTHING),
        ([snapshot(FINE), snapshot(SPENT)], OUT),
        ([snapshot(SPENT), snapshot(FINE)], OUT),
        (
            [snapshot(SPENT), snapshot(zai(100, NOW + timedelta(hours=1)))],
            ({A: (NOW + timedelta(hours=1), "advisor")}, set()),
        ),
    ],
)
def test_only_affirmative_fresh_readings_count(snapshots, verdict):
    """part of circuit-breaker 51, part of circuit-breaker 52. Stale, failed, unassessable and missing readings."""
    assert found(*snapshots) == verdict


@pytest.mark.parametrize(
    ("weekly", "hours", "reserve", "verdict"),
    [
        (80, 10, 20, ({A: (TOMORROW, "reserve")}, set())),
        (79, 10, 20, BACK),
        (10, 85, 20, BACK),
        (80, 10, 0, BACK),
    ],
)
def test_the_reserve_is_the_providers(weekly, hours, reserve, verdict):
    """circuit-breaker 58"""
    accounts = {A: Account("zai-coding", reserve)}
    assert found(snapshot(zai(hours, weekly=weekly)), accounts=accounts) == verdict


# --- passes over the table ----------------------------------------------------------------------------------------


class Desk:
    """Two Z.ai accounts in the database, a board, and an advisor that reads the one for the other."""

    def __init__(self, clock):
        self.clock = clock
        self.board = Bench(clock)
        self.every = INTERVAL
        self.advisor = Advisor(lambda: self.board, clock, lambda: self.every)
        for pid, name in ((A, "Aurora"), (B, "Borealis")):
            url = "https://upstream.test/v1"
            Provider.objects.create(id=pid, name=name, base_url=url, provider_type="zai-coding")

    def read(self, payload, provider=A, error=""):
        """The provider was asked now; with *error* to no avail."""
        fetched = Fetched(error=error) if error else Fetched(payload, store.OK)
        store.keep(provider, "usage", fetched, "poll", self.clock.now())

    def pin(self, model=SEEDED, provider=A):
        return (self.board.circuit(model, provider) or {}).get("pin_source")


@pytest.fixture
def desk(db):
    return Desk(ManualClock(NOW))


def test_a_stored_reading_darkens_a_provider_after_a_restart(desk, told):
    """circuit-breaker 49"""
    desk.read(SPENT)
    desk.clock.advance(MINUTE)
    desk.advisor.refresh()
    assert desk.pin() == "advisor"
    assert desk.board.row()["open_models"] == [SEEDED]
    assert desk.board.gate(A, "never asked").state == "blocked"
    assert desk.board.gate(B, "never asked").state == "free"
    desk.read(FINE)
    desk.advisor.refresh()
    assert desk.board.row() is None
    assert [event.type for event in told] == ["circuit_breaker.open", "circuit_breaker.closed"]


def test_a_healthy_payload_whose_refresh_failed_releases_nothing(desk):
    """circuit-breaker 52"""
    desk.board.say(spent(DAY, account=True))
    desk.read(FINE)
    desk.read(None, error="HTTP 500")
    desk.advisor.refresh()
    assert desk.pin("m") == "account"
    desk.read({"data": "something new"})
    desk.advisor.refresh()
    assert desk.pin("m") == "account"
    desk.read(FINE)
    desk.advisor.refresh()
    assert desk.pin("m") is None


@pytest.mark.parametrize("broken", ["accounts", "snapshots"])
def test_a_pass_that_can_not_read_clears_the_advice_and_nothing_else(desk, monkeypatch, lines, broken):
    """circuit-breaker 52"""
    desk.read(SPENT)
    desk.read(SPENT, B)
    desk.advisor.refresh()

    def fail():
        raise DatabaseError("no such table, secret text")

    monkeypatch.setattr(store, broken, fail)
    desk.advisor.refresh()
    assert desk.pin() == desk.pin(provider=B) == "advisor"
    desk.board.reset()
    desk.board.say(*[BAD] * 5)
    assert desk.pin("m") is None, "nobody is advised any more"
    what = "providers" if broken == "accounts" else "snapshots"
    text = f"quota: advice refresh failed to list {what}"
    assert ("WARNING", text, {"error": "DatabaseError"}) in lines()


def test_a_disabled_or_missing_provider_neither_lifts_nor_renews_its_pin(desk, clock):
    """circuit-breaker 51"""
    desk.read(zai(100, NOW + timedelta(hours=2)))
    desk.advisor.refresh()
    Provider.objects.filter(pk=A).update(enabled=False)
    desk.read(FINE)
    desk.advisor.refresh()
    assert desk.pin() == "advisor"
    desk.clock.advance(2 * HOUR)
    desk.advisor.refresh()
    assert desk.board.row() is None


def test_a_reading_reaches_the_circuit_that_is_open_already(desk):
    desk.board.say(*[BAD] * 5)
    desk.clock.advance(30)
    desk.read(SPENT)
    desk.advisor.refresh()
    assert (desk.pin("m"), desk.pin()) == ("advisor", None)
    assert desk.board.wait("m") == DAY, "to the reset, which is a day after the opening"


def test_a_saved_reserve_is_read_by_the_next_pass(desk):
    desk.read(zai(10, weekly=80))
    desk.advisor.refresh()
    assert desk.board.row() is None
    Provider.objects.filter(pk=A).update(quota_reserve_percent=20)
    desk.advisor.refresh()
    assert desk.pin() == "reserve"
    desk.read(zai(10, weekly=79))
    desk.advisor.refresh()
    assert desk.board.row() is None


def test_what_a_pass_found_is_one_line(desk, lines, caplog):
    caplog.set_level("DEBUG", "quota")
    desk.advisor.refresh()
    desk.read(SPENT)
    desk.advisor.refresh()
    text = "quota: advice refreshed"
    assert [line for line in lines() if line[1] == text] == [
        ("DEBUG", text, {"advised_providers": 0}),
        ("INFO", text, {"advised_providers": 1}),
    ]


def test_without_the_poll_no_pass_is_made_and_every_pin_is_gone(desk, lines):
    """circuit-breaker 54"""
    desk.read(SPENT)
    desk.advisor.refresh()
    desk.board.say(spent(DAY), provider=B)
    desk.every = 0
    desk.advisor.go_blind()
    assert desk.board.row() is None and desk.pin("m", B) is None
    desk.advisor.refresh()
    assert desk.board.row() is None
    text = "quota: polling disabled, released pins in force"
    assert [line for line in lines() if line[1] == text] == [("INFO", text, {"released_pins": 2})]
    desk.advisor.go_blind()
    assert len([line for line in lines() if line[1] == text]) == 1, "silent where there is none"


# --- the table ----------------------------------------------------------------------------------------------------


def test_a_success_replaces_the_snapshot_and_a_failure_keeps_it(desk):
    desk.read(SPENT)
    desk.clock.advance(MINUTE)
    desk.read(None, error="HTTP 503")
    [row] = QuotaSnapshot.objects.all()
    assert (row.payload, row.http_status, row.fetched_at, row.source) == (SPENT, 200, NOW, "poll")
    assert (row.last_error, row.last_attempt_at) == ("HTTP 503", NOW + timedelta(minutes=1))
    store.keep(A, "usage", Fetched(FINE, store.OK), "manual", desk.clock.now())
    [row] = QuotaSnapshot.objects.all()
    assert (row.payload, row.last_error, row.source) == (FINE, "", "manual")
    assert row.fetched_at == row.last_attempt_at == NOW + timedelta(minutes=1)


def test_a_first_fetch_that_fails_leaves_a_placeholder(desk):
    desk.read(None, error="HTTP 503")
    [row] = QuotaSnapshot.objects.all()
    assert (row.payload, row.http_status, row.fetched_at, row.last_error) == (None, 0, None, "HTTP 503")


def test_kinds_are_rows_of_their_own_and_go_with_the_provider(desk):
    for kind in ("usage", "balance"):
        store.keep(A, kind, Fetched(FINE, store.OK), "poll", NOW)
    assert QuotaSnapshot.objects.count() == 2
    Provider.objects.filter(pk=A).delete()
    assert QuotaSnapshot.objects.count() == 0
    store.keep(A, "usage", Fetched(FINE, store.OK), "poll", NOW)
    assert QuotaSnapshot.objects.count() == 0, "an answer that comes after the deletion"
