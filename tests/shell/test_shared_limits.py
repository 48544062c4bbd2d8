"""Token buckets of several processes over a real Redis: one store each."""

import asyncio
import logging
import secrets
import time
from contextlib import asynccontextmanager

import pytest
import redis

from modelhotel.ops import limit_store
from modelhotel.ops.limit_store import RedisBuckets
from proxy.limits import buckets
from proxy.limits.buckets import Ask, Live
from proxy.limits.caps import Cap
from proxy.limits.gate import Limiter
from tests.wire.product import REDIS

pytestmark = pytest.mark.redis
AWAY = "redis://127.0.0.1:1/0"
SLOW = Cap(0.001, 5)


def ask(name="key:a", cap=SLOW):
    return Ask(name, cap, Live(cap, {"key": "app"}, time.monotonic()))


class House:
    def __init__(self):
        self.prefix = f"mh-test:{secrets.token_hex(6)}"
        self.made = []

    def process(self, url=REDIS):
        self.made.append(RedisBuckets(url, self.prefix))
        return self.made[-1]


@pytest.fixture
async def house(monkeypatch):
    # The suite shares its machine with others; what 5 ms mean is shown by a test of its own.
    monkeypatch.setattr(limit_store, "AT_ONCE", 2.0)
    made = House()
    yield made
    for store in made.made:
        await store.aclose()
        store.stop()
    with redis.Redis.from_url(REDIS) as client:
        for key in client.scan_iter(f"{made.prefix}*"):
            client.delete(key)


async def granted(store, *asks, longest=0.0):
    taken = await store.take(asks or (ask(),), longest)
    assert taken is not None
    return taken.granted


async def test_a_cap_is_one_for_all_processes(house):
    """v1-api 4.6"""
    one, other = house.process(), house.process()
    assert [await granted(store) for store in (one, other, one, other, one)] == [True] * 5
    assert [await granted(store) for store in (one, other)] == [False, False]


async def test_many_at_once_never_take_more_than_there_is(house):
    stores = [house.process() for _ in range(4)]
    answers = await asyncio.gather(*(granted(stores[n % 4]) for n in range(40)))
    assert sum(answers) == 5


async def test_it_does_what_a_bucket_of_one_process_does(house):
    """The same steps, in Redis and in memory, come to the same balances."""
    store, cap, other = house.process(), Cap(0.001, 10), Cap(0.002, 4)
    live = Live(cap, {}, 0.0)
    steps = [("take", 0.0), ("spend", 15.0), ("take", 0.0), ("take", 60_000.0), ("spend", -3.0), ("spend", -100.0)]
    for limits in (cap, other, cap):
        here = Ask("tokens:x", limits, live)
        for step, amount in steps:
            if step == "take":
                there, mine = await store.take([here], amount), buckets.take([here], amount, 1, 0.0)
                assert there is not None and there.granted == mine.granted
                assert there.tokens == pytest.approx(mine.tokens, abs=0.01)
            else:
                assert await store.spend([here], amount)
                buckets.spend([here], amount, 1, 0.0)
    assert live.bucket.tokens == 10.0


async def test_two_buckets_are_taken_together_or_not_at_all(house):
    store, key, owner = house.process(), ask("key:a", Cap(0.001, 5)), ask("owner:u", Cap(0.001, 1))
    assert await granted(store, owner, key)
    for _ in range(3):
        taken = await store.take((owner, key), 0.2)
        assert taken is not None and not taken.granted
        waits = taken.waits((owner, key))
        assert waits[0] == pytest.approx(1000, rel=0.01) and waits[1] == 0
    assert [await granted(store, key) for _ in range(5)] == [True] * 4 + [False]


async def test_tokens_come_in_by_the_clock_of_redis_at_the_old_rate(house):
    store, quick = house.process(), Cap(20.0, 1)
    assert await granted(store, ask("key:q", quick))
    assert not await granted(store, ask("key:q", quick))
    assert await granted(store, ask("key:q", quick), longest=0.2), "held, and taken in advance"
    await asyncio.sleep(0.15)
    assert await granted(store, ask("key:q", quick))
    slow, fast = ask("key:s", Cap(0.001, 1)), ask("key:s", Cap(1000.0, 500))
    assert await granted(store, slow)
    await asyncio.sleep(0.05)
    assert not await granted(store, fast), "what passed before the edit counts at the old rate"


async def test_a_bucket_goes_by_itself_and_a_debt_does_not(house):
    store = house.process()
    await store.take([ask("key:a", Cap(1.0, 5))], 0.0)
    await store.spend([ask("tokens:a", Cap(1.0, 5))], 100_000.0)
    with redis.Redis.from_url(REDIS) as client:
        assert 595 < client.ttl(f"{house.prefix}:b:key:a") <= 602
        assert client.ttl(f"{house.prefix}:b:tokens:a") > 100_000


async def test_buckets_are_cleared_once_for_all(house):
    one, other = house.process(), house.process()
    for name in ("key:a", "owner:u", "tokens:a"):
        await one.spend([ask(name)], 5.0)
    await one.clear(("key:", "owner:"))
    assert await granted(other, ask("key:a")) and await granted(other, ask("owner:u"))
    assert not await granted(other, ask("tokens:a"))
    await one.spend([ask("key:a")], 5.0)
    await other.clear(("key:", "owner:"))
    assert not await granted(one, ask("key:a"))


async def test_what_is_told_is_told_by_one(house):
    one, other = house.process(), house.process()
    assert [await store.first("budget.warning:x", 0.3) for store in (one, other, one)] == [True, False, False]
    assert await other.first("budget.warning:y", 60)
    await asyncio.sleep(0.35)
    assert await other.first("budget.warning:x", 60)
    assert await house.process(AWAY).first("budget.warning:x", 60), "better twice than never"


async def test_processes_know_how_many_they_are(house):
    stores = [house.process() for _ in range(3)]
    for store in stores:
        await asyncio.to_thread(store.start)
    await asyncio.to_thread(stores[0]._count)
    assert stores[0].processes == 3
    await asyncio.to_thread(stores[2].stop)
    await asyncio.to_thread(stores[0]._count)
    assert stores[0].processes == 2
    with redis.Redis.from_url(REDIS) as client:
        client.zadd(f"{house.prefix}:alive", {stores[1]._me: 1})  # it died a while ago
    await asyncio.to_thread(stores[0]._count)
    assert stores[0].processes == 1


class Call:
    """A request at the gates."""

    def __init__(self, opts):
        self.opts, self.scope, self.base, self.numbered, self.placed = opts, {}, [], -1, ()
        self.client, self.said = "192.0.2.1", []

    async def say(self, answer, *extra):
        self.said.append(answer.status)


@asynccontextmanager
async def limiter(monkeypatch, store, **values):
    from modelhotel.core import options

    found = Limiter()
    found.share(store)
    stored = {"rate_limit_ip_rps": "0.001", "rate_limit_ip_burst": "6", **values}
    opts = options.REGISTRY.values(stored, {"RATE_LIMIT_ENABLED": "true"})

    async def passes():
        call = Call(opts)
        asked = found.address(call)
        return asked is None or await asked

    yield passes
    options.SNAPSHOT.listeners.remove(found._changed)


async def test_without_redis_each_process_holds_its_share_and_refuses_nobody_for_it(house, monkeypatch, caplog):
    """v1-api 4.6. Three processes as last known: a third each, said once."""
    store = house.process(AWAY)
    store.processes = 3
    async with limiter(monkeypatch, store) as passes:
        with caplog.at_level(logging.INFO, "limits"):
            assert [await passes() for _ in range(4)] == [True, True, False, False]
    warnings = [record.message for record in caplog.records if "shared" in record.message]
    assert warnings == ["limits: shared counters unreachable, each process holds its share"]


async def test_a_shared_limiter_refuses_what_another_process_has_used_up(house, monkeypatch):
    one, other = house.process(), house.process()
    async with limiter(monkeypatch, one) as here, limiter(monkeypatch, other) as there:
        assert [await passes() for passes in (here, there) * 3] == [True] * 6
        assert [await here(), await there()] == [False, False]


async def test_whoever_loses_redis_goes_on_with_its_share_of_what_was_left_and_says_later_what_it_spent(
    house, monkeypatch
):
    monkeypatch.setattr(limit_store, "PAUSE", 0.0)
    monkeypatch.setattr(limit_store, "HICCUP", 0.0)
    one, other = house.process(), house.process()
    one.processes = 2
    async with limiter(monkeypatch, one) as here, limiter(monkeypatch, other) as there:
        assert [await here(), await here()] == [True, True]
        await one.aclose()
        one._url = AWAY
        assert [await here() for _ in range(4)] == [True, True, False, False], "half of the four that were left"
        await one.aclose()
        one._url = REDIS
        assert await here()
        for _ in range(100):
            if await there() is False:
                break
            await asyncio.sleep(0.01)
        with redis.Redis.from_url(REDIS) as client:
            left = float(client.hget(f"{house.prefix}:b:address:192.0.2.1", "t"))
        assert 0 <= left < 1, "2 here, 2 without Redis, 1 after that, 1 there"


async def test_a_decision_that_takes_too_long_is_made_alone_and_undone(house, monkeypatch):
    """A Redis that answers after 5 ms: the request does not wait for it, and its token comes back."""
    store = house.process()
    assert await granted(store)
    monkeypatch.setattr(limit_store, "AT_ONCE", 0.0)
    monkeypatch.setattr(limit_store, "TURNS", 0)
    assert await store.take([ask()], 0.0) is None
    monkeypatch.setattr(limit_store, "AT_ONCE", 2.0)
    await quiet(store)
    assert store._slow_until > 0
    store._slow_until = 0.0
    assert [await granted(store) for _ in range(5)] == [True] * 4 + [False]


async def quiet(store):
    """Until nothing is under way any more that nobody waits for."""
    for _ in range(200):
        if not store._late:
            return
        await asyncio.sleep(0.01)


async def test_whoever_is_cut_off_in_the_middle_of_a_decision_takes_nothing(house):
    store = house.process()
    for _ in range(8):
        task = asyncio.ensure_future(store.take([ask()], 0.0))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    await quiet(store)
    assert [await granted(store) for _ in range(6)] == [True] * 5 + [False]


async def test_a_redis_that_hangs_is_not_asked_by_everybody(house, monkeypatch):
    monkeypatch.setattr(limit_store, "AT_ONCE", 0.0)
    monkeypatch.setattr(limit_store, "TURNS", 0)
    store = house.process()
    assert [await store.take([ask()], 0.0) for _ in range(50)] == [None] * 50
    assert len(store._late) < 5


async def test_redis_that_comes_back_is_asked_again(house, monkeypatch, caplog):
    monkeypatch.setattr(limit_store, "PAUSE", 0.0)
    monkeypatch.setattr(limit_store, "HICCUP", 0.0)
    store = house.process(AWAY)
    with caplog.at_level(logging.INFO, "limits"):
        assert await store.take([ask()], 0.0) is None
        await store.aclose()
        store._url = REDIS
        assert await granted(store)
    assert caplog.messages[-1] == "limits: shared counters back"
