"""The event loop asks and records while API threads reset and read: nothing is lost, doubled or stuck."""

import random
import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from failover import verdict
from failover.breaker.board import Board
from failover.breaker.pins import Advice, Source
from failover.breaker.rules import BreakerSettings
from modelhotel.core import events
from modelhotel.core.clock import SYSTEM
from tests.failover.breaker.conftest import SPENT

FAST = BreakerSettings(threshold=3, cooldown=0.001, probe_lease=0.002, backoff_max=0.0)
DEADLINE = 20.0


@pytest.fixture(autouse=True)
def quiet(caplog):
    """Ten thousands of lines would be most of the work."""
    caplog.set_level("CRITICAL", "circuit-breaker")
    caplog.set_level("CRITICAL", "proxy")


def run(*workers):
    """Run all at once; the first exception of any of them is raised."""
    problems = []

    def guarded(work):
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive(), "a thread is stuck"
    if problems:
        raise problems[0]


def test_hammering_every_door_at_once_leaves_a_board_that_works():
    board = Board(SYSTEM, lambda: FAST, lambda pid: pid)
    verdicts = (verdict.TRANSPORT, verdict.TRANSPORT, verdict.success(), verdict.NONE)

    def request(seed):
        dice = random.Random(seed)

        def work():
            for n in range(1500):
                provider, model = dice.choice("pq"), dice.choice(("m1", "m2", "m3"))
                if board.gate(provider, model).state == "blocked" and dice.random() < 0.5:
                    continue
                if board.admit(provider, model, (seed, n), alone=dice.random() < 0.1):
                    board.record(provider, model, dice.choice(verdicts))
                board.release(provider, model, (seed, n))

        return work

    def operate():
        for n in range(300):
            rows = board.status({"p": "p", "q": "q"}, True)
            assert rows["closed"] + rows["half_open"] + rows["open"] == 2
            for row in rows.get("providers", []):
                assert row["state"] in {c["state"] for c in row["circuits"]}
            board.reset("pq"[n % 2], ("m1", None)[n % 3 == 0])
            board.provider_open("p")
            spent = Advice(SYSTEM.now() + timedelta(seconds=0.01), Source.ADVISOR)
            board.take_advice({"pq"[n % 2]: spent}, ["qp"[n % 2]])
            if n % 7 == 0:
                board.release_pins()
            if n % 50 == 0:
                board.forget("q")
                board.keep_only({"p", "q"})

    run(*(request(seed) for seed in range(4)), operate, operate)
    board.reset()
    for provider in "pq":
        assert board.gate(provider, "m1").state == "free"
        assert board.admit(provider, "m1", "last", alone=False)
    assert board.status({}, True) == {"closed": 0, "half_open": 0, "open": 0}


def test_charges_from_many_threads_open_once_at_the_threshold():
    for _ in range(50):
        told = []
        leave = events.subscribe(told.append)
        board = Board(SYSTEM, lambda: replace(FAST, threshold=40, cooldown=60.0), lambda pid: pid)
        start = threading.Barrier(4)

        def charge(board=board, start=start):
            start.wait(DEADLINE)
            for _ in range(10):
                board.record("p", "m", verdict.TRANSPORT)

        run(*[charge] * 4)
        leave()
        assert [e.metadata["consecutive_fails"] for e in told] == [40]


def test_one_of_many_threads_gets_the_probe(clock):
    for _ in range(50):
        board = Board(clock, BreakerSettings, lambda pid: pid)
        board.record("p", "m", SPENT)
        clock.advance(60)
        start, admitted = threading.Barrier(8), []

        def ask(board=board, start=start, admitted=admitted):
            start.wait(DEADLINE)
            admitted.append(board.admit("p", "m", object(), alone=False))

        run(*[ask] * 8)
        assert sorted(admitted) == [False] * 7 + [True]
