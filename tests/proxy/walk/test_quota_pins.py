"""Spent quotas end to end: the provider's own words, the circuit that waits for them, and what the next client gets."""

import asyncio
from typing import Any

import pytest

from modelhotel.core import events
from tests.proxy.walk.stage import Stage
from tests.upstream.server import FakeProvider, Hold, answer, reply, status

A, B = (f"00000000-0000-4000-8000-{ord(name):012d}" for name in "AB")
PAID = "insufficient_quota"
WINDOW = "session usage limit reached"
HOUR = 3600.0


def limited(words: str, **headers: str) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return reply(429, {"error": {"message": words}}, headers=given)


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    stage.member("A", provider_a.url, model="other", grouped=False)
    provider_b.script(answer("from B"))
    return stage


def circuit(stage: Stage, model: str = "m", provider: str = A) -> dict[str, Any]:
    rows: Any = stage.board.status({}, True).get("providers", [])
    for row in rows:
        if row["provider_id"] == provider:
            return next(
                ({**c, "provider_open": row["provider_open"]} for c in row["circuits"] if c["model"] == model), {}
            )
    return {}


async def test_a_model_whose_window_is_spent_waits_and_its_siblings_are_served(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 10, circuit-breaker 11, failover-loop 40"""
    provider_a.script(limited("Insufficient balance or no resource package"))
    assert (await ab.ask()).status == 200
    found = circuit(ab)
    assert (found["state"], found["pin_source"], found["provider_open"]) == ("open", "response", False)
    assert HOUR <= found["cooldown_ms"] / 1000 <= 1.05 * HOUR
    assert ab.board.gate(A, "other").state == "free"
    assert (await ab.ask()).status == 200
    assert ab.trail == [(-1, "A", None, None, "skipped"), (0, "B", 200, None, "success")]
    assert len(provider_a.calls) == 1


@pytest.mark.parametrize("waits", [("120", "600"), ("600", "120")], ids=" then ".join)
async def test_of_two_429s_in_flight_the_longer_wait_governs(ab: Stage, provider_a: FakeProvider, waits):
    """circuit-breaker 47a, over the wire"""
    first, second = (Hold(limited(WINDOW, retry_after=wait)) for wait in waits)
    provider_a.script(first, second)
    running = []
    for hold in (first, second):
        running.append(asyncio.create_task(ab.ask()))
        await provider_a.until(hold.reached.is_set)
    for hold, task in zip((first, second), running, strict=True):
        hold.release()
        assert (await task).status == 200
    found = circuit(ab)
    assert (found["pin_source"], found.get("failed_probes", 0)) == ("response", 0)
    assert 600 <= found["cooldown_ms"] / 1000 <= 600 * 1.05


async def test_a_refused_account_is_dark_for_every_model_and_says_so(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 12, failover-loop 39"""
    told: list[events.Event] = []
    events.subscribe(told.append)
    provider_a.script(limited(PAID))
    assert (await ab.ask()).status == 200
    assert (circuit(ab)["pin_source"], circuit(ab)["provider_open"]) == ("account", True)
    assert ab.board.gate(A, "other").state == "blocked"
    [opened] = [event for event in told if event.type == "circuit_breaker.open"]
    assert opened.message == (
        "Provider A circuit breaker: open for model m (provider skipped): upstream status 429 (exhausted)"
    )
    assert opened.metadata["pin_source"] == "account" and "model_id" not in opened.metadata
    assert (await ab.ask("A/other")).status != 200 and len(provider_a.calls) == 2, "a direct request is never refused"


async def test_where_exhaustion_may_not_open_the_fifth_one_does_without_a_pin(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 13"""
    ab.set(circuit_breaker_open_on_exhaustion="false")
    provider_a.script(limited(PAID))
    for _ in range(5):
        assert "pin_source" not in circuit(ab)
        await ab.ask()
    found = circuit(ab)
    assert (found["state"], found["cooldown_ms"], found.get("pin_source")) == ("open", 60_000, None)
    assert [c.opens_429_streak for c in ab.board._circuits.of(A)] == [1]


async def test_plain_429s_count_for_no_streak(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 17"""
    ab.set(rate_limit_classify_enabled="false")
    provider_a.script(limited(PAID))
    for _ in range(5):
        await ab.ask()
    assert (circuit(ab)["state"], circuit(ab)["last_cause"]) == ("open", "upstream status 429")
    assert [c.opens_429_streak for c in ab.board._circuits.of(A)] == [0]


async def test_two_models_that_want_payment_darken_the_third(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 14"""
    provider_a.script(status(402))
    provider_a.script(status(402), model="other")
    await ab.ask()
    found = circuit(ab)
    assert (found["last_status"], found["pin_source"], found["provider_open"]) == (402, "response", False)
    await ab.ask("A/other")
    assert circuit(ab)["provider_open"] is True
    ab.member("A", provider_a.url, model="third")
    await ab.ask()
    skipped = (-1, "A", None, None, "skipped")
    assert ab.trail == [skipped, skipped, (0, "B", 200, None, "success")]
    assert len(provider_a.calls) == 2


async def test_a_group_that_waits_for_quotas_only_says_so(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """circuit-breaker 69, failover-loop 93, routing 17"""
    provider_a.script(limited(PAID))
    provider_b.script(limited(WINDOW))
    await ab.ask()
    got = await ab.ask()
    assert got.said == (
        429,
        "no available provider for hotel/g: A/m: circuit breaker open; B/m: circuit breaker open",
    )
    assert (got.header("retry-after"), got.error["code"]) == ("60", "insufficient_quota")
    assert (ab.row.error_kind, ab.row.status_code) == ("provider_quota_exhausted", 429)
    assert ab.trail == [(-1, "A", None, None, "skipped"), (-1, "B", None, None, "skipped")]
    assert len(provider_a.calls) == len(provider_b.calls) == 1


async def test_one_ordinary_circuit_among_the_pinned_makes_it_a_matter_of_time(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """routing 17"""
    ab.set(circuit_breaker_threshold="1", circuit_breaker_cooldown="12s", server_error_retry_enabled="false")
    provider_a.script(limited(PAID))
    provider_b.script(status(503))
    await ab.ask()
    got = await ab.ask()
    assert (got.status, got.error["code"]) == (429, "rate_limit_exceeded")
    assert 1 <= int(got.header("retry-after") or 0) <= 12
    assert ab.row.error_kind == "provider_saturated"


async def test_a_pinned_model_is_probed_once_an_hour_and_a_good_answer_ends_it(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 56"""
    provider_a.script(limited(PAID), limited(PAID), answer("back"))
    await ab.ask()
    for _ in range(2):
        ab.clock.advance(1.05 * HOUR)
        assert (await ab.ask()).status == 200
        assert "failed_probes" not in circuit(ab)
    assert (circuit(ab)["state"], len(provider_a.calls)) == ("closed", 3)
    assert ab.trail == [(0, "A", 200, None, "success")]
