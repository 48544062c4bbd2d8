"""The windows of this process: what they log, who is woken when a slot frees, and that no slot is lost on the way."""

import asyncio
import logging
import threading
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover.window import Learning
from failover.windows import Windows, of_options
from modelhotel.core import options
from modelhotel.core.clock import ManualClock
from providers.cache import ProviderRow
from providers.kinds import registry
from proxy.slots import Full
from tests.upstream import rig

A = ProviderRow("a", "A", "A", "http://a", registry.get("custom"), True, None, 1.0, False)
B = replace(A, id="b", name="B")


class House:
    def __init__(self):
        self.clock = ManualClock()
        self.rules = Learning()
        self.windows = Windows(self.clock, lambda: self.rules)
        self.order = []
        self.probed = ()

    def fill(self, provider, count):
        return [self.windows.take(provider, True) for _ in range(count)]

    def full(self, provider, count):
        """*provider* has learned that it takes *count*, and has them."""
        taken = self.fill(provider, count)
        self.windows.cut(provider.id, 0.0)
        return taken

    async def waits(self, name, *providers, seconds=None):
        """Waits for a slot, takes it and tells *name*, or None when the time was over."""

        async def sleep(_):
            await (asyncio.Event().wait() if seconds is None else asyncio.sleep(0))

        full = Full(self.windows, learned=True, leased=lambda seat: seat.provider in self.probed)
        found = await full.first_free([Seat(p) for p in providers], sleep, seconds or 60.0)
        slot = None if found is None else self.windows.take(found.provider, True)
        self.order.append((name, found and found.provider.name))
        return slot


class Seat:
    def __init__(self, provider):
        self.provider = provider


@pytest.fixture
def house():
    return House()


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def test_the_operators_ceiling_holds_with_the_learner_off_and_a_learned_limit_does_not(house):
    house.full(A, 2)
    assert house.windows.take(A, True) is None
    assert house.windows.take(A, False) is not None  # a request that began with the learner off
    capped = replace(B, max_in_flight=1)
    assert house.windows.take(capped, False) is not None
    assert house.windows.take(capped, False) is None


def test_a_learned_limit_is_forgotten_on_admission(house):
    """failover-loop 60"""
    house.fill(A, 3)
    house.windows.cut("a", 30.0)
    assert house.windows.limits() == {"a": 3}
    house.clock.advance(629.0)
    assert house.windows.take(A, True) is None
    house.clock.advance(1.0)
    assert house.windows.limits() == {}
    assert house.windows.take(A, True) is not None


def test_switching_the_learner_off_drops_learned_limits_at_the_next_admission(house):
    house.full(A, 1)
    house.rules = Learning(enabled=False)
    assert house.windows.limits() == {}
    assert house.windows.take(A, False) is not None
    house.rules = Learning()
    assert house.windows.take(A, True) is not None


def test_what_changes_a_limit_is_logged_with_what_runs(house, caplog):
    caplog.set_level(logging.INFO, "proxy")
    house.windows.release(house.fill(A, 4)[0], False)
    house.windows.cut("a", 2.0)
    house.windows.cap("a")  # no lower than what it is: nothing to tell
    house.fill(B, 2)
    house.windows.cap("b")
    assert [(r.getMessage(), r.attrs) for r in caplog.records] == [
        (
            "proxy: in-flight allowance cut on saturated 429",
            {"provider_id": "a", "limit": 3, "inflight": 3},
        ),
        (
            "proxy: in-flight allowance capped by remaining=0 header",
            {"provider_id": "b", "limit": 2, "inflight": 2},
        ),
    ]


async def test_each_slot_that_frees_wakes_the_one_who_waits_longest(house):
    taken = house.full(A, 2)
    waiting = [asyncio.ensure_future(house.waits(name, A)) for name in "xyz"]
    await settle()
    for slot in taken:
        house.windows.release(slot, True)
    await settle()
    assert house.order == [("x", "A"), ("y", "A")]
    house.windows.release(waiting[0].result(), True)
    await settle()
    assert house.order[2:] == [("z", "A")]
    assert house.windows.running() == {"a": 2} and not house.windows._waiting


async def test_who_lost_the_slot_to_a_newcomer_waits_on_and_keeps_its_place(house):
    (slot,) = house.full(A, 1)
    first, second = (asyncio.ensure_future(house.waits(name, A)) for name in "xy")
    await settle()
    house.windows.release(slot, True)
    newcomer = house.windows.take(A, True)  # before the woken one runs
    await settle()
    assert newcomer is not None and house.order == []
    house.windows.release(newcomer, True)
    await settle()
    assert house.order == [("x", "A")]
    house.windows.release(first.result(), True)
    house.windows.release(await second, True)
    assert house.windows.running() == {"a": 0}


async def test_a_slot_that_freed_before_the_wait_is_found_at_once(house):
    (slot,) = house.full(A, 1)
    house.windows.release(slot, True)
    assert await house.waits("x", A) is not None


async def test_of_several_providers_with_room_the_first_in_order_is_taken_and_the_other_slot_is_passed_on(house):
    (a,), (b,) = house.full(A, 1), house.full(B, 1)
    both = asyncio.ensure_future(house.waits("both", A, B))
    other = asyncio.ensure_future(house.waits("b only", B))
    await settle()
    house.windows.release(b, True)  # wakes the first
    house.windows.release(a, True)
    await settle()
    assert house.order == [("both", "A"), ("b only", "B")]
    assert both.result() and other.result()


async def test_a_provider_that_another_request_is_probing_is_taken_only_where_no_other_has_room(house):
    (a,), (b,) = house.full(A, 1), house.full(B, 1)
    house.probed = (A,)
    waiting = [asyncio.ensure_future(house.waits(name, A, B)) for name in "xy"]
    await settle()
    house.windows.release(b, True)
    house.windows.release(a, True)
    await settle()
    assert house.order == [("x", "B"), ("y", "A")]
    assert all(one.result() for one in waiting)


async def test_a_waiter_that_goes_as_it_is_woken_leaves_the_slot_to_the_next(house):
    (slot,) = house.full(A, 1)
    first, second = (asyncio.ensure_future(house.waits(name, A)) for name in "xy")
    await settle()
    house.windows.release(slot, True)
    first.cancel()
    await settle()
    assert house.order == [("y", "A")] and second.result()
    assert not house.windows._waiting


async def test_room_for_many_wakes_many(house):
    """The limit is forgotten while they wait: one admission notices it for all."""
    house.full(A, 1)
    waiting = [asyncio.ensure_future(house.waits(name, A)) for name in "xyz"]
    await settle()
    house.clock.advance(600.0)
    assert house.windows.take(A, True) is not None
    await settle()
    assert len(house.order) == 3 and all(one.result() for one in waiting)


async def test_the_wait_ends_with_its_time_and_leaves_nothing_behind(house):
    house.full(A, 1)
    assert await house.waits("x", A, seconds=1.0) is None
    assert house.order == [("x", None)] and not house.windows._waiting
    await rig.nothing_runs()


async def test_a_deleted_provider_has_no_window_and_its_last_slots_go_to_nobody(house):
    (slot,) = house.full(A, 1)
    gone = threading.Thread(target=house.windows.keep_only, args=({"b"},))
    gone.start()
    gone.join()
    assert house.windows.limits() == house.windows.running() == {}
    house.windows.release(slot, True)
    house.windows.cut("a", 1.0)
    house.windows.cap("a")
    assert house.windows.running() == {}


HAPPENING = st.one_of(
    st.tuples(st.just("comes"), st.sampled_from("ab")),
    st.tuples(st.just("waits"), st.sampled_from(["a", "ab", "ba"])),
    st.tuples(st.just("waits"), st.just("b")),
    st.tuples(st.just("ends"), st.integers(0, 9), st.sampled_from([True, False, None])),
    st.tuples(st.just("is refused"), st.integers(0, 9)),
    st.tuples(st.just("gives up"), st.integers(0, 9)),
    st.tuples(st.just("says remaining 0"), st.sampled_from("ab")),
    st.tuples(st.just("time passes"), st.sampled_from([1.0, 30.0, 61.0])),
    st.tuples(st.just("is set"), st.booleans(), st.sampled_from([1, 2, 5]), st.sampled_from([30.0, 60.0])),
)


class Crowd:
    """A house in which A has learned one and B may have two, both full; and what the requests know of their slots."""

    def __init__(self):
        self.house = House()
        self.house.rules = Learning(grow_after=2, forget_after=60.0)
        self.rows = {"a": A, "b": replace(B, max_in_flight=2)}
        self.held = []  # (provider id, window)
        self.waiting = []
        for pid in "abb":
            self.take(pid)
        self.house.windows.cap("a")

    def take(self, pid):
        slot = self.house.windows.take(self.rows[pid], True)
        if slot is not None:
            self.held.append((pid, slot))

    async def wait(self, pids):
        async def forever(_):
            await asyncio.Event().wait()

        full = Full(self.house.windows, learned=True, leased=None)
        found = await full.first_free([Seat(self.rows[pid]) for pid in pids], forever, 60.0)
        self.take(found.provider.id)

    def happen(self, what, *args):
        windows = self.house.windows
        if what == "comes":
            self.take(*args)
        elif what == "waits":
            self.waiting.append((args[0], asyncio.ensure_future(self.wait(*args))))
        elif what in ("ends", "is refused") and self.held:
            pid, slot = self.held.pop(args[0] % len(self.held))
            windows.release(slot, what == "ends" and args[1])
            if what == "is refused":
                windows.cut(pid, 5.0)
        elif what == "gives up" and self.waiting:
            self.waiting[args[0] % len(self.waiting)][1].cancel()
        elif what == "says remaining 0":
            windows.cap(*args)
        elif what == "time passes":
            self.house.clock.advance(*args)
        elif what == "is set":
            self.house.rules = Learning(*args)

    async def check(self):
        windows = self.house.windows
        await settle()
        room = {pid for pid, row in self.rows.items() if windows.room(row, True)}
        await settle()  # a limit that time has dropped wakes whoever waits
        self.waiting = [(pids, task) for pids, task in self.waiting if not task.done()]
        running = windows.running()
        for pid in self.rows:
            assert running.get(pid, 0) == sum(held == pid for held, _ in self.held)
        assert all(limit >= 1 for limit in windows.limits().values())
        assert running.get("b", 0) <= 2
        left = {pid for pid in room if windows.room(self.rows[pid], True)}
        assert not any(left & set(pids) for pids, _ in self.waiting), "somebody sleeps beside a free slot"


#: What happens in one turn of the loop happens before anybody who was woken by it has run.
TURNS = st.lists(st.lists(HAPPENING, min_size=1, max_size=5), max_size=15)


async def play(turns):
    crowd = Crowd()
    for turn in turns:
        for happening in turn:
            crowd.happen(*happening)
        await crowd.check()
    for _, task in crowd.waiting:
        task.cancel()
    await settle()
    assert not crowd.house.windows._waiting
    while crowd.held:
        crowd.happen("ends", 0, True)
    assert not any(crowd.house.windows.running().values())


@settings(max_examples=100, deadline=None)
@given(TURNS)
def test_whatever_happens_no_slot_is_lost_and_nobody_sleeps_beside_a_free_one(turns):
    asyncio.run(play(turns))


@pytest.mark.slow
@pytest.mark.timeout(180, func_only=True)
@settings(max_examples=400, deadline=None)
@given(TURNS)
def test_no_slot_is_lost_in_hundreds_of_crowds(turns):
    asyncio.run(play(turns))


def test_the_rules_are_the_settings():
    values = options.REGISTRY.values(
        {"inflight_limiter_enabled": "false", "inflight_grow_after": "7", "inflight_forget_after": "90s"}, {}
    )
    assert of_options(values) == Learning(False, 7, 90.0)
