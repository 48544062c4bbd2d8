"""The cache of decrypted keys."""

import asyncio
import dataclasses
import logging
import math
import threading
from collections.abc import Callable

import pytest

from modelhotel.core import crypto
from modelhotel.core.clock import ManualClock
from providers import cache, keyring
from providers.cache import ProviderRow, SealedKey
from providers.keyring import Keyring
from providers.kinds import registry


def row(number: int = 1, *, keyless: bool = False, enabled: bool = True) -> ProviderRow:
    sealed = None if keyless else SealedKey(f"c{number}".encode(), b"n" * 12, b"s" * 32)
    kind = registry.get("custom")
    return ProviderRow(str(number), f"P{number}", f"P{number}", "http://x", kind, enabled, sealed, 0.0, False)


class Deriver:
    """Counts; ``c1`` opens to ``sk-1``; blocks while *held*; fails for what is in *bad*."""

    def __init__(self) -> None:
        self.calls: list[bytes] = []
        self.free = threading.Event()
        self.free.set()
        self.bad: set[bytes] = set()

    def __call__(self, sealed: SealedKey) -> str:
        self.calls.append(sealed.ciphertext)
        assert self.free.wait(5)
        if sealed.ciphertext in self.bad:
            raise crypto.DecryptError("decryption failed, possible wrong master key")
        return "sk-" + sealed.ciphertext.decode()[1:]


class Ring:
    def __init__(self, clock: ManualClock) -> None:
        self.derive = Deriver()
        self.ttl = 600.0
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.keys = Keyring(clock, lambda: self.ttl, self.derive, lambda s, run: self.later.append((s, run)))


@pytest.fixture
def ring(clock: ManualClock) -> Ring:
    return Ring(clock)


async def test_a_thousand_requests_cost_one_derivation(ring: Ring):
    """providers 23"""
    assert ring.keys.peek(row()) is None
    assert [await ring.keys.fetch(row()) for _ in range(1000)] == ["sk-1"] * 1000
    assert ring.keys.peek(row()) == "sk-1"
    assert ring.derive.calls == [b"c1"]


async def test_requests_that_come_together_wait_for_one_derivation(ring: Ring):
    ring.derive.free.clear()
    waiting = [asyncio.create_task(ring.keys.fetch(row())) for _ in range(20)]
    await asyncio.sleep(0.01)
    waiting[0].cancel()  # the one who hangs up takes nothing from the others
    await asyncio.sleep(0)
    ring.derive.free.set()
    assert await asyncio.gather(*waiting[1:]) == ["sk-1"] * 19
    assert ring.derive.calls == [b"c1"]


async def test_a_replaced_key_never_serves_its_predecessor(ring: Ring):
    assert await ring.keys.fetch(row(1)) == "sk-1"
    assert ring.keys.peek(row(2)) is None
    assert await ring.keys.fetch(row(2)) == "sk-2"


async def test_a_key_leaves_memory_when_its_time_is_over(ring: Ring, clock: ManualClock):
    await ring.keys.fetch(row())
    assert [seconds for seconds, _ in ring.later] == [600.0]
    clock.advance(601)
    assert ring.keys.peek(row()) is None
    assert ring.keys.known() == ("sk-1",)
    ring.later[0][1]()
    assert ring.keys.known() == ()
    assert len(ring.later) == 1, "nothing is left to sweep"
    assert await ring.keys.fetch(row()) == "sk-1"
    assert len(ring.derive.calls) == 2 and len(ring.later) == 2


async def test_what_was_made_of_keys_goes_when_one_of_them_goes(ring: Ring, clock: ManualClock):
    await ring.keys.fetch(row(1))
    table, other = object(), object()
    ring.keys.made_for(table)["name"] = "made"
    assert ring.keys.made_for(table) == {"name": "made"}
    assert ring.keys.made_for(other) == {} and ring.keys.made_for(table) == {}
    for forget in (lambda: ring.keys.warm([row(2)])[0].result(), ring.later[0][1], ring.keys.reset):
        ring.keys.made_for(table)["name"] = "made"
        forget()
        assert ring.keys.made_for(table) == {}


async def test_a_key_is_held_until_its_time_is_over(ring: Ring, clock: ManualClock):
    began = clock.monotonic()
    await ring.keys.fetch(row())
    assert ring.keys.held(row()) == ("sk-1", began + 600.0)
    assert ring.keys.held(row(keyless=True)) == ("", math.inf)
    clock.advance(600)
    assert ring.keys.held(row()) is None


async def test_a_ttl_of_nothing_leaves_the_old_one(ring: Ring, clock: ManualClock):
    """providers 23"""
    ring.ttl = 60.0
    await ring.keys.fetch(row(1))
    ring.ttl = 0.0
    await ring.keys.fetch(row(2))
    clock.advance(59)
    assert ring.keys.peek(row(2)) == "sk-2"
    clock.advance(2)
    assert ring.keys.peek(row(1)) is None and ring.keys.peek(row(2)) is None


async def test_only_success_is_kept(ring: Ring):
    """providers 21"""
    ring.derive.bad.add(b"c1")
    for _ in range(2):
        with pytest.raises(crypto.DecryptError):
            await ring.keys.fetch(row())
    assert ring.derive.calls == [b"c1", b"c1"]
    assert ring.keys.peek(row()) is None and ring.keys.known() == ()


async def test_a_keyless_provider_has_the_empty_key(ring: Ring):
    assert ring.keys.peek(row(keyless=True)) == ""
    assert await ring.keys.fetch(row(keyless=True)) == ""
    assert ring.derive.calls == []


def test_warming_logs_what_can_not_be_read_and_goes_on(ring: Ring, caplog: pytest.LogCaptureFixture):
    """providers 24. The start goes on."""
    ring.derive.bad.add(b"c1")
    rows = [row(1), row(2), row(3, keyless=True), row(4, enabled=False)]
    with caplog.at_level(logging.ERROR, "keycache"):
        assert len(ring.keys.warm(rows)) == 2
        ring.keys._pool.shutdown(wait=True)  # all done, what is told included
    assert ring.keys.peek(row(2)) == "sk-2" and sorted(ring.derive.calls) == [b"c1", b"c2"]
    assert [record.getMessage() for record in caplog.records] == [
        "keycache: decryption failed, possible wrong master key"
    ]


async def test_all_keys_are_known_for_an_error_text_and_a_broken_one_is_tried_once(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
):
    """Of disabled providers too (v1-api 9.6)."""
    rows = {str(number): row(number, enabled=number != 2) for number in (1, 2, 3)} | {"4": row(4, keyless=True)}
    catalogue = dataclasses.replace(cache.SNAPSHOT.current, providers=rows)
    monkeypatch.setattr(cache.SNAPSHOT, "current", catalogue)
    ring.derive.bad = {b"c3"}
    for _ in range(3):
        await ring.keys.know_all()
    assert ring.keys.known() == ("sk-1", "sk-2")
    assert sorted(ring.derive.calls) == [b"c1", b"c2", b"c3"]


async def test_an_error_text_does_not_wait_long_for_keys(ring: Ring, monkeypatch: pytest.MonkeyPatch):
    catalogue = dataclasses.replace(cache.SNAPSHOT.current, providers={"1": row()})
    monkeypatch.setattr(cache.SNAPSHOT, "current", catalogue)
    monkeypatch.setattr(keyring, "_KNOWING", 0.02)
    ring.derive.free.clear()
    await asyncio.wait_for(ring.keys.know_all(), 2)
    assert ring.keys.known() == ()
    ring.derive.free.set()


def test_known_keys_come_longest_first(ring: Ring):
    for number in (1, 123, 12):
        assert ring.keys.wait(row(number)) == f"sk-{number}"
    assert ring.keys.known() == ("sk-123", "sk-12", "sk-1")
