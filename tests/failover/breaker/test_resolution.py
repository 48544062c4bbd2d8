"""The board behind resolution: who is left out of a group's candidates, and what a dark group answers."""

from datetime import timedelta

import pytest

from failover import resolve
from failover.breaker.board import Board
from failover.breaker.pins import Advice, Source
from failover.breaker.rules import BreakerSettings
from tests.failover.breaker.conftest import HOUR, SUCCESS, spent, status
from tests.failover.rows import FakeKeys, Stored, model, options, provider, table, uid

A, B, C = (provider(name, at) for at, name in enumerate(("Aurora", "Borealis", "Corona")))
MEMBERS = [model(row, "m") for row in (A, B, C)]
BAD = status(503)


class House:
    """A group of three providers on a real board."""

    def __init__(self, clock):
        self.clock = clock
        self.board = Board(clock, BreakerSettings, lambda pid: pid)
        self.table = table(A, B, C, *MEMBERS, Stored("g", [m.id for m in MEMBERS]))

    async def ask(self, name="hotel/g", **stored):
        return await resolve.resolve(
            self.table,
            name,
            allowed=None,
            opts=options(**stored),
            board=self.board,
            keyring=FakeKeys(),
            now=self.clock.monotonic(),
        )

    def say(self, who, *judgements):
        for judgement in judgements:
            self.board.record(uid(who), "m", judgement)


@pytest.fixture
def house(clock):
    return House(clock)


def names(found):
    return [candidate.provider.name for candidate in found.candidates]


def left_out(found):
    return [(skip.provider, skip.reason, skip.on_trail) for skip in found.skips]


async def test_the_sixth_request_skips_the_dead_provider(house):
    """circuit-breaker 1"""
    house.say("Aurora", *[BAD] * 4)
    assert names(await house.ask()) == ["Aurora", "Borealis", "Corona"]
    house.say("Aurora", BAD)
    found = await house.ask()
    assert names(found) == ["Borealis", "Corona"]
    assert left_out(found) == [("Aurora", "circuit breaker open", True)]


async def test_a_held_lease_leaves_the_candidate_out_while_another_is_left(house):
    """circuit-breaker 25"""
    house.say("Aurora", *[BAD] * 5)
    house.clock.advance(60)
    assert names(await house.ask()) == ["Aurora", "Borealis", "Corona"]
    assert house.board.admit(A.id, "m", "first", alone=False)
    found = await house.ask()
    assert names(found) == ["Borealis", "Corona"]
    assert left_out(found) == [("Aurora", "probe in progress", True)]
    house.say("Borealis", *[BAD] * 5)
    house.say("Corona", *[BAD] * 5)
    assert names(await house.ask()) == ["Aurora"], "it is the only one left, so it stays in"
    house.say("Aurora", SUCCESS)
    assert names(await house.ask()) == ["Aurora"]


async def test_a_dark_group_says_when_the_first_circuit_comes_back(house):
    """part of circuit-breaker 69. The unpinned half: the earliest of the retry instants, rounded up."""
    for who, later in (("Aurora", 20.5), ("Borealis", 10), ("Corona", 0)):
        house.say(who, *[BAD] * 5)
        house.clock.advance(later)
    with pytest.raises(resolve.ResolveError) as problem:
        await house.ask()
    answer = problem.value
    assert (answer.status, answer.kind, answer.retry_after) == (429, "provider_saturated", 30)
    assert [skip.retry_at - house.clock.monotonic() for skip in answer.skips] == [29.5, 50, 60]


async def test_a_group_that_waits_for_quotas_only_is_exhausted_and_one_ordinary_wait_makes_it_busy(house):
    """circuit-breaker 69"""
    house.say("Aurora", spent(9 * HOUR))
    house.say("Borealis", *[BAD] * 5)
    house.clock.advance(20)
    house.say("Corona", *[BAD] * 5)
    house.clock.advance(28)
    with pytest.raises(resolve.ResolveError) as mixed:
        await house.ask()
    assert (mixed.value.kind, mixed.value.retry_after) == ("provider_saturated", 12)
    assert [skip.pinned for skip in mixed.value.skips] == [True, False, False]
    house.say("Borealis", spent(9 * HOUR))
    house.say("Corona", spent(9 * HOUR, account=True))
    with pytest.raises(resolve.ResolveError) as problem:
        await house.ask()
    answer = problem.value
    assert (answer.status, answer.kind, answer.code) == (429, "provider_quota_exhausted", "insufficient_quota")
    assert answer.retry_after == 60


async def test_a_seeded_account_leaves_out_all_its_models_as_pinned(house):
    for row in (A, B, C):
        house.board.take_advice({row.id: Advice(house.clock.now() + timedelta(hours=9), Source.ADVISOR)}, ())
    with pytest.raises(resolve.ResolveError) as problem:
        await house.ask()
    assert problem.value.kind == "provider_quota_exhausted"
    assert {skip.reason for skip in problem.value.skips} == {"circuit breaker open"}


async def test_direct_requests_are_never_filtered(house):
    """circuit-breaker 31"""
    house.say("Aurora", *[BAD] * 5)
    assert names(await house.ask("Aurora/m")) == ["Aurora"]


async def test_with_the_breaker_off_open_circuits_serve_and_block_again_when_it_is_back(house):
    """circuit-breaker 70"""
    house.say("Aurora", *[BAD] * 5)
    assert names(await house.ask(circuit_breaker_enabled="false")) == ["Aurora", "Borealis", "Corona"]
    assert names(await house.ask()) == ["Borealis", "Corona"]
