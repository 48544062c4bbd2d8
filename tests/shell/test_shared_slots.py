"""Ceilings of several processes over a real Redis: one set of windows each."""

import asyncio
import logging
import secrets

import pytest

from failover.window import Learning
from failover.windows import Windows
from modelhotel.core.clock import SYSTEM
from modelhotel.ops import slot_store
from modelhotel.ops.slot_store import RedisClaims
from providers.cache import ProviderRow
from providers.kinds import registry
from tests.wire.product import REDIS

pytestmark = pytest.mark.redis


def provider(ceiling: int | None) -> ProviderRow:
    return ProviderRow("a", "A", "A", "http://a", registry.get("custom"), True, None, 1.0, False, ceiling)


class House:
    def __init__(self) -> None:
        self.prefix = f"mh-test:{secrets.token_hex(6)}"
        self.made: list[tuple[Windows, RedisClaims]] = []

    def process(self, url: str = REDIS) -> Windows:
        windows = Windows(SYSTEM, Learning)
        windows.claims = claims = RedisClaims(url, self.prefix, lambda pid: self.tell(windows, pid))
        self.made.append((windows, claims))
        return windows

    def tell(self, sender: Windows, provider_id: str) -> None:
        for windows, _ in self.made:
            if windows is not sender:
                windows.heard(provider_id)

    def kill(self, victim: Windows) -> None:
        """It gives nothing back, and no sign of life any more."""
        claims = next(claims for windows, claims in self.made if windows is victim)
        claims._client.delete(f"{self.prefix}:alive:{claims._me}")


@pytest.fixture
def house():
    made = House()
    yield made
    client = made.process().claims._client  # type: ignore[union-attr]
    for key in client.scan_iter(f"{made.prefix}*"):
        client.delete(key)
    for _, claims in made.made:
        claims.stop()


async def test_a_ceiling_is_one_for_all_processes(house: House):
    one, other = house.process(), house.process()
    row = provider(3)
    slots = [one.take(row, True), other.take(row, True), other.take(row, True)]
    assert all(slots)
    assert one.take(row, True) is None and other.take(row, True) is None
    assert (one.running(), other.running()) == ({"a": 1}, {"a": 2})
    other.release(slots[2], True)  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert one.take(row, True) is not None and other.take(row, True) is None


async def test_without_a_ceiling_nobody_is_asked(house: House):
    one = house.process()
    slot = one.take(provider(None), True)
    assert slot is not None and slot.claimed == 0
    one.release(slot, True)
    assert not list(one.claims._client.scan_iter(f"{house.prefix}*"))  # type: ignore[union-attr]


async def test_who_waits_here_is_woken_by_a_slot_that_frees_there(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("failover.windows.ASK_AGAIN", 60.0)
    one, other = house.process(), house.process()
    row = provider(1)
    slot = other.take(row, True)
    assert slot is not None and one.take(row, True) is None
    assert not one.room(row, True), "others have filled it"
    with one.waiting([row]) as waiter:
        other.release(slot, True)
        await asyncio.wait_for(waiter.woken.wait(), 5)
        assert one.room(row, True) and one.take(row, True) is not None


async def test_where_nobody_tells_it_is_asked_again_after_a_moment(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("failover.windows.ASK_AGAIN", 0.05)
    one, other = house.process(), house.process()
    row = provider(1)
    slot = other.take(row, True)
    assert slot is not None and one.take(row, True) is None
    monkeypatch.setattr(house, "tell", lambda sender, pid: None)
    with one.waiting([row]) as waiter:
        other.release(slot, True)
        await asyncio.wait_for(waiter.woken.wait(), 10)
        assert one.take(row, True) is not None


async def test_what_a_dead_process_had_is_free_again(house: House):
    one, other = house.process(), house.process()
    row = provider(1)
    assert other.take(row, True) is not None and one.take(row, True) is None
    house.kill(other)
    assert one.take(row, True) is not None


async def test_counts_that_redis_lost_are_there_with_the_next_request(house: House):
    one, other = house.process(), house.process()
    row = provider(2)
    assert one.take(row, True) is not None
    one.claims._client.delete(f"{house.prefix}:a")  # type: ignore[union-attr]
    assert one.take(row, True) is not None
    assert other.take(row, True) is None


async def test_without_redis_each_process_counts_for_itself(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(slot_store, "PAUSE", 0.0)
    one = house.process("redis://127.0.0.1:1/0")
    row = provider(2)
    with caplog.at_level(logging.INFO, "proxy"):
        slots = [one.take(row, True) for _ in range(3)]
        assert [slot is not None for slot in slots] == [True, True, False]
        assert slots[0] is not None and slots[0].claimed == 0
        one.release(slots[0], True)
        assert one.take(row, True) is not None
    assert caplog.messages == ["proxy: shared slots unreachable, ceilings hold in each process"]


async def test_a_process_that_stops_leaves_its_slots(house: House):
    one, other = house.process(), house.process()
    row = provider(1)
    assert other.take(row, True) is not None
    claims = house.made[1][1]
    claims.start()
    claims.stop()
    assert one.take(row, True) is not None
