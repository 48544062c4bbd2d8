"""Circuits of several processes over a real Redis: two boards, each with a clock and a memory of its own."""

import contextlib
import json
import logging
import secrets
import threading
from datetime import timedelta

import pytest

from failover import verdict
from failover.breaker.pins import Advice, Source
from failover.breaker.rules import BreakerSettings
from failover.breaker.shared import SharedBoard
from failover.breaker.store import News, StoreAway
from failover.verdict import Judgement, Verdict
from modelhotel.core import events
from modelhotel.core.clock import ManualClock
from modelhotel.ops.circuit_store import RedisStore
from tests.wire.product import REDIS

pytestmark = pytest.mark.redis

A, B = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
NAMES = {A: "Aurora", B: "Borealis"}
FAILED = verdict.of_status(503, moves_on=True, open_on_exhaustion=True)
SERVED = verdict.success(200)
SPENT = Judgement(Verdict.EXHAUSTED, "upstream status 429 (exhausted)", 429, "charge", 7200.0, rate_limited=True)


class Switch:
    """A store that can be out of reach, as a whole or for the questions *lost*. *meanwhile*: what happens while the
    next answer to a question is on its way.
    """

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.away = False
        self.lost: set[str] = set()
        self.meanwhile = {}

    def __getattr__(self, name):
        def ask(*args):
            if self.away or name in self.lost:
                raise StoreAway
            answer = getattr(self.store, name)(*args)
            self.meanwhile.pop(name, lambda: None)()
            return answer

        return ask


class Worker(SharedBoard):
    """One process. Nothing of it runs by itself: ``turn`` does what its thread would do."""

    def __init__(self, house: "House", clock: ManualClock) -> None:
        self.rules = BreakerSettings()
        self.switch = Switch(house.store)
        self.polls: list[str] = []
        super().__init__(
            clock,
            lambda: self.rules,
            lambda pid: NAMES.get(pid, ""),
            chance=lambda: 0.0,
            opened=self.polls.append,
            store=self.switch,
            send=lambda news: house.spread(self, news),
        )

    def say(self, *judgements, provider=A, model="m"):
        for judgement in judgements:
            self.record(provider, model, judgement)
            self.turn()

    def fails(self, provider=A, model="m"):
        circuit = self._circuits.find(provider, model)
        return circuit.consecutive_fails if circuit else None

    def blocked(self, provider=A, model="m"):
        return self.gate(provider, model).state == "blocked"

    def row(self, provider=A):
        return next(r for r in self.status(NAMES, True)["providers"] if r["provider_id"] == provider)


class House:
    def __init__(self, prefix: str) -> None:
        self.store = RedisStore(REDIS, prefix)
        self.workers: list[Worker] = []
        self.cut: set[Worker] = set()

    def spread(self, sender: Worker, news: News) -> None:
        for worker in self.workers:
            if worker is not sender and worker not in self.cut:
                worker.hear(news)

    def worker(self, **clock: float) -> Worker:
        made = Worker(self, ManualClock(**clock))
        self.workers.append(made)
        made.turn()
        return made

    def settle(self) -> None:
        """Everybody hears of everything."""
        for _ in range(3):
            for worker in self.workers:
                worker.clock.advance(1.0)
                worker.turn()

    def pass_(self, seconds: float) -> None:
        for worker in self.workers:
            worker.clock.advance(seconds)


@pytest.fixture
def house():
    prefix = f"mh-test:{secrets.token_hex(6)}"
    made = House(prefix)
    yield made
    client = made.store._client
    for key in client.scan_iter(f"{prefix}*"):
        client.delete(key)
    made.store.close()


@pytest.fixture
def two(house):
    """Their clocks began at different moments, as those of two machines did."""
    return house.worker(mono=100.0), house.worker(mono=90_000.0)


@pytest.fixture
def heard():
    seen = []
    leave = events.subscribe(seen.append)
    yield lambda: [(e.type, e.metadata.get("consecutive_fails")) for e in seen if e.type.startswith("circuit_breaker.")]
    leave()


def test_charges_of_all_processes_count_together_and_one_tells(house, two, heard):
    """circuit-breaker 78"""
    one, other = two
    for at in range(4):
        (one, other)[at % 2].say(FAILED)
    assert heard() == []
    one.say(FAILED)
    house.settle()
    assert one.blocked() and other.blocked()
    assert heard() == [("circuit_breaker.open", 5)]
    assert (one.polls, other.polls) == ([A], [])
    assert one.row()["next_retry_at"] == other.row()["next_retry_at"]


def test_a_process_that_missed_the_news_reads_everything_again(house, two):
    """circuit-breaker 78: its channel broke and came back, and the store was there all the time"""
    one, other = two
    one.say(FAILED, provider=B)
    house.settle()
    house.cut.add(other)
    one.say(*[FAILED] * 5)
    one.reset(B)
    house.settle()
    assert not other.blocked() and other.fails(B) == 1
    other.catch_up()
    other.turn()
    assert other.blocked() and other.fails(B) is None


def test_a_success_of_one_forgives_for_all(house, two):
    one, other = two
    one.say(FAILED, FAILED, FAILED)
    house.settle()
    assert other.fails() == 3
    other.say(SERVED)
    house.settle()
    assert one.fails() == 0


def test_plain_successes_reach_the_others_within_a_second(house, two):
    one, other = two
    one.say(SERVED)
    house.settle()
    house.pass_(300.0)
    assert not other.served_within(A, "m", 60.0)
    one.record(A, "m", SERVED)  # nothing to forgive: noted here, delivered later
    one.clock.advance(0.5)
    one.turn()
    other.turn()
    assert other.served_within(A, "m", 60.0)


def test_a_verdict_on_an_outdated_view_is_judged_by_what_is_there(house, two, heard):
    """circuit-breaker 80"""
    one, other = two
    one.say(*[FAILED] * 5)
    house.settle()
    house.pass_(61.0)
    for worker, holder in ((one, "1"), (other, "2")):
        assert worker.admit(A, "m", holder, alone=True)
    one.turn()
    other.turn()
    # Both have failed by the time either hears of the other.
    one.record(A, "m", FAILED)
    other.record(A, "m", FAILED)
    one.turn()
    other.turn()
    house.settle()
    assert one.row()["failed_probes"] == other.row()["failed_probes"] == 1
    assert [kind for kind, _ in heard()] == ["circuit_breaker.open"] * 2


def test_one_request_of_all_processes_probes(house, two):
    """circuit-breaker 28b"""
    one, other = two
    one.say(SPENT)
    house.settle()
    house.pass_(2 * 3600.0)
    assert one.admit(A, "m", "probe", alone=False)
    assert not other.admit(A, "m", "late", alone=False)
    assert other.admit(A, "m", "last", alone=True), "who has nobody else goes anyway"
    one.turn()
    other.turn()
    assert other.gate(A, "m").state == "leased" and one.gate(A, "m").state == "leased"
    one.release(A, "m", "probe")
    one.turn()
    assert other.gate(A, "m").state == "free"
    assert other.admit(A, "m", "next", alone=False)


def test_a_good_probe_closes_it_for_everybody(house, two, heard):
    one, other = two
    one.say(*[FAILED] * 5)
    house.settle()
    house.pass_(61.0)
    assert other.admit(A, "m", "probe", alone=False)
    other.say(SERVED)
    other.release(A, "m", "probe")
    house.settle()
    assert one.gate(A, "m").state == other.gate(A, "m").state == "free" and one.calm
    assert [kind for kind, _ in heard()] == ["circuit_breaker.open", "circuit_breaker.closed"]


def test_a_reset_holds_everywhere_and_says_what_it_cleared(house, two):
    """circuit-breaker 80"""
    one, other = two
    one.say(*[FAILED] * 5)
    one.say(FAILED, model="n")
    house.settle()
    cleared = other.reset(A)
    assert {(done.model, str(done.previous)) for done in cleared} == {("m", "open"), ("n", "closed")}
    one.turn()
    assert one.fails() is None and one.gate(A, "m").state == "free"
    one.say(FAILED)
    house.settle()
    assert other.fails() == 1


def test_a_reset_amid_a_reading_of_the_store_is_not_undone_by_it(house, two):
    """circuit-breaker 80: they are of two threads of one process"""
    one, other = two
    other.say(*[FAILED] * 5)
    house.settle()
    other.say(FAILED)
    resetting = threading.Thread(target=one.reset, args=(A,))

    def reset():
        resetting.start()
        resetting.join(0.2)

    one.switch.meanwhile["read"] = reset
    one.turn()
    resetting.join(5)
    house.settle()
    assert not one.blocked() and not other.blocked()


def test_a_process_that_starts_finds_what_the_others_know(house, two):
    one, _ = two
    one.say(SPENT)
    house.settle()
    late = house.worker(mono=5.0)
    assert late.blocked() and late.row() == one.row() | {"circuits": late.row()["circuits"]}
    assert late.row()["quota_pinned"] and late.row()["pin_source"] == "response"


def test_without_the_store_each_counts_for_itself_and_nobody_waits(house, two, heard, caplog):
    """circuit-breaker 79"""
    one, other = two
    one.say(FAILED, FAILED)
    house.settle()
    with caplog.at_level(logging.INFO, "circuit-breaker"):
        for worker in two:
            worker.switch.away = True
        one.say(FAILED, FAILED)
        other.say(FAILED)
        assert (one.fails(), other.fails()) == (4, 3)
        one.say(FAILED)
        assert one.blocked() and not other.blocked()
        house.settle()
        assert one.blocked() and not other.blocked()
        for worker in two:
            worker.switch.away = False
        house.settle()
        assert one.blocked() and other.blocked(), "the open state wins everywhere"
    said = [r.getMessage() for r in caplog.records if "shared store" in r.getMessage()]
    assert sorted(said) == sorted(
        ["circuit-breaker: shared store unreachable, using local state", "circuit-breaker: shared store back"] * 2
    )
    assert [kind for kind, _ in heard()] == ["circuit_breaker.open"]


@pytest.mark.parametrize("charged_after", [False, True])
def test_what_was_reset_meanwhile_stays_reset_unless_it_failed_again(house, two, charged_after):
    one, other = two
    one.say(*[FAILED] * 5)
    house.settle()
    one.switch.away = True
    house.cut.add(one)
    one.say(FAILED)  # a late result: it notices that the store is away
    house.pass_(5.0)
    other.reset(A)
    house.pass_(5.0)
    if charged_after:
        one.say(FAILED)
    one.switch.away = False
    house.cut.clear()
    house.settle()
    assert one.blocked() is other.blocked() is charged_after


@pytest.mark.parametrize("charged_after", [False, True])
def test_what_was_reset_without_the_store_stays_reset_for_everybody(house, two, charged_after):
    """circuit-breaker 79"""
    one, other = two
    one.say(*[FAILED] * 5)
    house.settle()
    one.switch.away = other.switch.away = True
    house.pass_(5.0)
    assert [str(done.previous) for done in one.reset(A)] == ["open"]
    assert not one.blocked() and other.blocked()
    house.pass_(5.0)
    if charged_after:
        other.say(FAILED)
    one.switch.away = other.switch.away = False
    house.settle()
    assert one.blocked() is other.blocked() is charged_after


def test_a_probe_is_granted_locally_while_the_store_is_away(house, two):
    one, other = two
    one.say(*[FAILED] * 5)
    house.settle()
    house.pass_(61.0)
    one.switch.away = other.switch.away = True
    assert one.admit(A, "m", "probe", alone=False) and other.admit(A, "m", "probe", alone=False)
    assert not one.admit(A, "m", "late", alone=False)


def test_a_reading_opens_the_account_once_and_closes_it_once(house, two, heard):
    one, other = two
    advice = {A: Advice(one.clock.now() + timedelta(hours=3), Source.ADVISOR)}
    for worker in two:
        worker.take_advice(advice, ())
    house.settle()
    assert one.blocked(model="anything") and other.blocked(model="anything")
    for worker in two:
        worker.take_advice({}, [A])
    house.settle()
    assert one.calm and other.calm
    assert [kind for kind, _ in heard()] == ["circuit_breaker.open", "circuit_breaker.closed"]


def test_a_deleted_provider_is_gone_from_the_store(house, two):
    one = two[0]
    one.say(FAILED)
    one.say(FAILED, provider=B)
    one.forget(A)
    one.turn()
    assert set(house.store.read_all()) == {B}
    assert house.worker(mono=1.0).fails() is None


def test_beyond_the_cap_the_oldest_closed_circuit_makes_room_in_the_store_too(house):
    one = house.worker(mono=1.0)
    for number in range(257):
        one.record(A, f"m{number:03}", FAILED)
        one.clock.advance(1.0)
        one.turn()
    kept = house.store.read(A, None)
    assert len(kept) == 256 and "m000" not in kept and "m256" in kept


def test_a_record_nobody_can_read_is_no_circuit(house, two, caplog):
    one, _ = two
    one.say(FAILED)
    house.store._client.hset(house.store._hash(A), "m", b"from the future")
    one.say(FAILED)
    assert one.fails() == 1 and "unreadable record" in caplog.text


def test_many_processes_at_once_lose_no_charge(house):
    """circuit-breaker 78"""
    workers = [house.worker(mono=float(at)) for at in range(4)]
    for worker in workers:
        worker.rules = BreakerSettings(threshold=100)

    def hammer(worker):
        for _ in range(10):
            worker.record(A, "m", FAILED)
            with contextlib.suppress(RuntimeError):
                worker.turn()

    threads = [threading.Thread(target=hammer, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    house.settle()
    assert [worker.fails() for worker in workers] == [40] * 4


def test_a_request_that_goes_without_the_probe_leaves_its_lease_to_the_holder(house, two):
    """circuit-breaker 28b: who has nobody else to ask must not keep the probe taken once its holder is gone"""
    one, _ = two
    one.say(*[FAILED] * 5)
    house.settle()
    house.pass_(61.0)
    assert one.admit(A, "m", "probe", alone=False)
    assert one.admit(A, "m", "last", alone=True)
    one.release(A, "m", "last")
    assert one.gate(A, "m").state == "leased"
    one.release(A, "m", "probe")
    one.turn()
    assert one.gate(A, "m").state == "free"


def test_a_store_that_goes_between_reading_and_writing_counts_nothing_twice(house, two, heard):
    """circuit-breaker 79: the fifth charge opens, and is told, however far it came"""
    one, _ = two
    one.say(FAILED, FAILED, FAILED)
    one.switch.lost = {"swap"}
    one.say(FAILED)
    assert one.fails() == 4
    one.switch.lost = set()
    house.settle()
    one.switch.lost = {"swap"}
    one.say(FAILED)
    assert one.blocked() and one.fails() == 5
    assert (heard(), one.polls) == ([("circuit_breaker.open", 5)], [A])


def test_a_reset_whose_store_goes_meanwhile_says_what_it_cleared(house, two):
    one, _ = two
    one.say(FAILED)
    one.switch.lost = {"swap"}
    assert [str(done.previous) for done in one.reset(A)] == ["closed"]
    assert one.fails() is None


GARBAGE = {
    "not ours": b"\xff\x00 nothing",
    "an instant beyond the calendar": ["open", False, 5, 0, 0.0, None, 10**17, 1, 1, "x", 503, 1, 1, 1, 0, None],
    "an instant before it": ["open", False, 5, 0, 0.0, None, -(10**17), 1, 1, "x", 503, -(10**17), 1, 1, 0, None],
    "a wait beyond it": ["open", False, 5, 0, 1e300, None, 1_700_000_000_000, 1, 1, "x", 503, 1, 1, 1, 0, None],
    "a pin beyond it": ["open", False, 5, 0, 0, [1e300, "account", 0], 1_700_000_000_000, 1, 1, "x", 0, 1, 1, 1, 0, 1],
}


@pytest.mark.parametrize("what", GARBAGE)
def test_whatever_stands_in_the_store_a_process_starts_and_counts(house, what):
    """circuit-breaker 79: the store never costs anybody a request, or a process its start"""
    found = GARBAGE[what]
    data = found if isinstance(found, bytes) else json.dumps(found).encode()
    client = house.store._client
    client.hset(house.store._hash(A), mapping={"m": data, b"\xff": data})
    client.sadd(house.store._prefix, A, b"\xfe")
    client.hset(f"{house.store._prefix}:resets", mapping={b"\xff": b"soon", f"{A}\nm": b"never"})
    worker = house.worker(mono=1.0)
    assert worker.calm and worker.status(NAMES, True)
    worker.say(FAILED)
    assert worker.fails() == 1
    late = house.worker(mono=7.0)
    assert late.fails() == 1
