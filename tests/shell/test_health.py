"""Readiness (operations.md 13) with a database that answers, refuses, or hangs."""

import asyncio
import logging
import threading
from collections.abc import Iterator

import pytest

from modelhotel.core.clock import ManualClock
from modelhotel.ops import health
from modelhotel.ops.health import Health


class Database:
    def __init__(self) -> None:
        self.up = True
        self.asked = 0
        self.hang = threading.Event()
        self.hang.set()

    def ping(self) -> None:
        self.asked += 1
        self.hang.wait(10)
        if not self.up:
            raise OSError("connection refused")


@pytest.fixture
def database() -> Iterator[Database]:
    made = Database()
    yield made
    made.hang.set()


@pytest.fixture
def subject(database: Database, clock: ManualClock) -> Health:
    made = Health(database.ping, clock)
    made.ready = True
    return made


async def test_a_database_that_answers_is_ok_and_is_asked_once_per_two_seconds(
    subject: Health, database: Database, clock: ManualClock
):
    assert [await subject.readiness() for _ in range(5)] == ["OK"] * 5
    clock.advance(1.9)
    await subject.readiness()
    assert database.asked == 1
    clock.advance(0.2)
    await subject.readiness()
    assert database.asked == 2


async def test_many_who_ask_at_once_share_one_ping(subject: Health, database: Database):
    database.hang.clear()
    waiting = [asyncio.create_task(subject.readiness()) for _ in range(20)]
    await asyncio.sleep(0.02)
    database.hang.set()
    assert await asyncio.gather(*waiting) == ["OK"] * 20
    assert database.asked == 1


async def test_it_degrades_and_recovers_with_one_line_each(
    subject: Health, database: Database, clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    """operations 75."""
    caplog.set_level(logging.INFO, "health")
    answers = []
    for up in (True, False, False, False, True, True):
        database.up = up
        answers.append(await subject.readiness())
        clock.advance(2.1)
    assert answers == ["OK", "DEGRADED", "DEGRADED", "DEGRADED", "OK", "OK"]
    assert [r.getMessage() for r in caplog.records] == [
        "health: the database does not answer",
        "health: the database answers again",
    ]


async def test_a_database_that_hangs_is_degraded_after_the_limit_and_costs_one_thread(
    subject: Health, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(health, "PING_SECONDS", 0.05)
    database.hang.clear()
    for _ in range(4):
        assert await subject.readiness() == "DEGRADED"
        clock.advance(2.1)
    assert database.asked == 1
    database.hang.set()
    while await subject.readiness() != "OK":
        clock.advance(2.1)
        await asyncio.sleep(0.01)


async def test_it_is_not_ready_before_the_start_is_through_and_draining_wins(subject: Health):
    subject.ready = False
    assert await subject.readiness() == "DEGRADED"
    subject.draining = True
    assert await subject.readiness() == "DRAINING"
    subject.ready = True
    assert await subject.readiness() == "DRAINING"


@pytest.mark.django_db
@pytest.mark.database
def test_the_pinger_asks_the_real_database_on_a_connection_of_its_own():
    pinger = health.Pinger()
    pinger()
    pinger._connection.close()


async def test_a_verdict_that_the_loop_has_not_been_told_yet_counts(subject: Health, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "PING_SECONDS", 0.05)
    monkeypatch.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", lambda *args: None)
    assert await subject.readiness() == "OK"


@pytest.mark.django_db
def test_every_ping_comes_from_a_thread_of_its_own():
    pinger = health.Pinger()
    problems: list[Exception] = []

    def ping() -> None:
        try:
            pinger()
        except Exception as problem:
            problems.append(problem)

    for _ in range(3):
        thread = threading.Thread(target=ping)
        thread.start()
        thread.join(10)
    pinger.close()
    assert problems == []
