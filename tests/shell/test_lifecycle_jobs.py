"""One runner per job: leases by conditional update, taken over when their holder dies (operations.md 16.2 row 6)."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from modelhotel.core.clock import ManualClock
from modelhotel.core.leader import RUN_LEASE, Job, Leader
from modelhotel.models import Lease
from modelhotel.ops import leases
from modelhotel.ops.jobs import Jobs
from modelhotel.ops.services import JOBS
from tests.wire.product import eventually

pytestmark = [pytest.mark.django_db, pytest.mark.database]


class Node:
    """A process that looks at the jobs; what it begins runs when the test says so."""

    def __init__(self, name: str, clock: ManualClock, every: float = 300.0) -> None:
        self.ran = 0
        self.begun: list[Callable[[], None]] = []
        self.fails = False
        self.job = Job("job:sweep", every, self._run)
        self.leader = Leader(leases, name, clock, self.begun.append)

    def _run(self) -> None:
        self.ran += 1
        if self.fails:
            raise RuntimeError("no disk")

    def look(self) -> None:
        self.leader.turn([self.job])

    def finish(self) -> None:
        while self.begun:
            self.begun.pop()()


@pytest.fixture
def nodes(clock: ManualClock) -> tuple[Node, Node]:
    return Node("a", clock), Node("b", clock)


def test_of_two_nodes_one_runs_what_is_due(nodes: tuple[Node, Node], clock: ManualClock):
    a, b = nodes
    for _ in range(3):
        for node in nodes:
            node.look()
            node.finish()
        clock.advance(60)
    assert (a.ran, b.ran) == (1, 0)


def test_it_is_due_again_after_its_period_for_whoever_looks_first(nodes: tuple[Node, Node], clock: ManualClock):
    a, b = nodes
    a.look()
    a.finish()
    clock.advance(299)
    b.look()
    assert not b.begun
    clock.advance(2)
    b.look()
    a.look()
    b.finish()
    assert (a.ran, b.ran) == (1, 1)


def test_a_long_run_keeps_its_lease_and_is_never_doubled(nodes: tuple[Node, Node], clock: ManualClock):
    a, b = nodes
    a.look()
    for _ in range(12):
        clock.advance(20)
        a.look()
        b.look()
    assert (len(a.begun), len(b.begun)) == (1, 0)


def test_the_job_of_a_dead_node_is_taken_over_within_a_minute(nodes: tuple[Node, Node], clock: ManualClock):
    a, b = nodes
    a.look()  # and dies in the middle of the run
    clock.advance(RUN_LEASE.total_seconds() - 1)
    b.look()
    assert not b.begun
    clock.advance(2)
    b.look()
    b.finish()
    assert b.ran == 1
    assert RUN_LEASE.total_seconds() < 60


def test_a_run_that_fails_is_logged_and_due_again_after_its_period(
    nodes: tuple[Node, Node], clock: ManualClock, caplog: pytest.LogCaptureFixture
):
    a, _ = nodes
    a.fails = True
    a.look()
    a.finish()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == ["jobs: run failed"]
    assert not a.leader.busy
    clock.advance(301)
    a.look()
    a.finish()
    assert a.ran == 2


def test_a_lease_moves_only_for_its_holder(clock: ManualClock):
    now = clock.now()
    assert leases.claim("x", "a", now, now + RUN_LEASE)
    assert not leases.claim("x", "b", now, now + RUN_LEASE)
    assert not leases.move("x", "b", now)
    assert leases.move("x", "a", now)
    assert leases.claim("x", "b", now, now + RUN_LEASE)
    assert Lease.objects.get(name="x").holder == "b"


def test_a_lease_that_a_wrong_clock_wrote_is_nobodys(clock: ManualClock):
    ahead, now = clock.now() + timedelta(days=3), clock.now()
    assert leases.claim("x", "a", ahead, ahead + RUN_LEASE)
    assert not leases.claim("x", "b", ahead - timedelta(days=1), now)
    assert leases.claim("x", "b", now, now + RUN_LEASE)


def test_every_job_of_the_product_has_a_name_that_fits_and_a_period():
    names = [job.name for job in JOBS]
    assert len(set(names)) == len(names)
    assert all(len(job.name) <= 60 and job.every >= 50 for job in JOBS)


@pytest.mark.django_db(transaction=True)
def test_the_clockwork_runs_a_due_job_at_once_and_waits_for_it_at_the_end():
    started, release = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        release.wait(5)

    jobs = Jobs([Job("job:test", 300.0, work)], "me")
    jobs.start()
    assert started.wait(5)
    jobs.stop()
    assert not jobs.join(0.05)
    release.set()
    assert eventually(lambda: not jobs.leader.busy)
    assert jobs.join(1.0)


@pytest.mark.django_db(transaction=True)
def test_a_run_claimed_while_the_stop_begins_is_not_waited_for_in_vain(monkeypatch: pytest.MonkeyPatch):
    """A paused clockwork would never start what was claimed, and the stop would last its whole budget."""
    ran = threading.Event()
    jobs = Jobs([Job("job:test", 300.0, ran.set), Job("job:late", 300.0, lambda: None)], "me")
    claim = leases.claim

    def slow_claim(*args: object) -> bool:
        found = claim(*args)  # type: ignore[arg-type]
        jobs.stop()
        return found

    monkeypatch.setattr(leases, "claim", slow_claim)
    jobs.start()
    assert ran.wait(5)
    assert jobs.join(5.0)
    assert not Lease.objects.filter(name="job:late").exists()
