"""How many requests a provider gets at once: learned limits, ceilings, skips, and the wait for a slot."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from proxy import outgoing, passthrough
from requestlogs import counting
from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_cancellation import CHARGE, _id
from tests.proxy.walk.test_rate_limits import limited
from tests.upstream.behaviours import head
from tests.upstream.server import (
    DONE,
    FakeProvider,
    Hold,
    Wire,
    answer,
    completion,
    cut_after,
    delta,
    empty_choices,
    empty_stream,
    first_event_error,
    half_json,
    headers_then_silence,
    html,
    http_chunk,
    no_vectors,
    reply,
    reset,
    silence,
    sse,
    stall_after,
    status,
    stream,
    vectors,
    wrong_length,
)

TOO_MANY = "too many concurrent requests"
FULL = ("provider_saturated", "noop")


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    provider_b.script(answer("from B"))
    return stage


@contextmanager
def held(provider: FakeProvider, count: int) -> Iterator[list[Hold]]:
    """The next *count* requests to *provider* stay there until the end."""
    holds = [Hold(answer("held")) for _ in range(count)]
    try:
        yield holds
    finally:
        for hold in holds:
            hold.release()


async def occupied(stage: Stage, provider: FakeProvider, holds: list[Hold], model: str = "hotel/g"):
    """Requests that are with *provider* now, one for each of *holds*."""
    before = len(provider.calls)
    tasks = [asyncio.create_task(stage.ask(model)) for _ in holds]
    await provider.until(lambda: len(provider.calls) == before + len(holds))
    return tasks


def capped(stage: Stage, name: str, limit: int) -> None:
    """*name* has learned *limit*, and nothing runs there."""
    slots = [stage.fill(name) for _ in range(limit)]
    stage.windows.cut(next(p.id for p in stage._providers.values() if p.name == name), 0.0)
    for slot in slots:
        stage.windows.release(slot, None)
    assert stage.limits[name] == limit and not stage.running


def texts(got) -> str:
    return got.json["choices"][0]["message"]["content"]


# -- learning


async def test_a_busy_answer_leaves_what_runs_and_the_next_request_skips_the_full_provider(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog
):
    """failover-loop 58, failover-loop 38"""
    caplog.set_level(logging.INFO)
    with held(provider_a, 3) as holds:
        provider_a.script(*holds, status(429, {"error": TOO_MANY}))
        tasks = await occupied(ab, provider_a, holds)
        assert texts(await ab.ask()) == "from B"
        assert ab.trail == [(0, "A", 429, "provider_saturated", "noop"), (1, "B", 200, None, "success")]
        assert ab.row.attempts is not None and ab.row.attempts[0]["phrase"] == "too many concurrent"
        assert ab.limits == {"A": 3} and ab.state("A") == "closed" and ab.fails("A") == 0
        provider_b.script(answer("from B again"))
        assert texts(await ab.ask()) == "from B again"
        assert len(provider_a.calls) == 4
        assert ab.trail == [(0, "A", None, *FULL), (1, "B", 200, None, "success")]
        skipped = ab.row.attempts[0]
        assert (skipped["detail"], skipped["duration_ms"]) == ("at in-flight limit", 0)
    assert [texts(got) for got in await asyncio.gather(*tasks)] == ["held"] * 3
    assert ab.running == {}
    told = {r.message: r.attrs for r in caplog.records if "in-flight" in r.message}
    assert told["proxy: in-flight allowance cut on saturated 429"] == {
        "provider_id": skipped["provider_id"],
        "limit": 3,
        "inflight": 3,
    }
    assert told["proxy: skipping candidate: provider at in-flight limit"] == {
        "provider": "A",
        "provider_id": skipped["provider_id"],
        "model": "m",
    }


async def test_a_busy_first_event_cuts_as_a_429_does(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(first_event_error({"code": 429, "message": TOO_MANY}))
    provider_b.script(stream(["from B"]))
    assert "from B" in (await ab.ask(stream=True)).body.decode()
    assert ab.limits == {"A": 1} and ab.running == {}


async def test_a_cut_needs_no_breaker(ab: Stage, provider_a: FakeProvider):
    ab.set(circuit_breaker_enabled="false")
    provider_a.script(limited(TOO_MANY))
    assert texts(await ab.ask()) == "from B"
    assert ab.limits == {"A": 1}
    slot = ab.fill("A")
    ab.set(circuit_breaker_enabled="false")
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", None, "provider_saturated", "disabled")
    ab.windows.release(slot, None)


@pytest.mark.parametrize(
    "settings", [{"rate_limit_classify_enabled": "false"}, {"inflight_limiter_enabled": "false"}], ids=str
)
async def test_nothing_is_learned_with_its_setting_off(ab: Stage, provider_a: FakeProvider, settings):
    """part of failover-loop 53"""
    ab.set(**settings)
    provider_a.script(status(429, {"error": TOO_MANY}, headers={"X-RateLimit-Remaining": "1"}))
    assert texts(await ab.ask()) == "from B"
    assert ab.limits == {}


async def test_twenty_clean_completions_earn_a_slot(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 59"""
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    capped(stage, "A", 3)
    provider_a.script(*[answer("x")] * 19, status(500), *[answer("x")] * 19)
    provider_b.script(answer("from B"))
    for _ in range(39):
        assert (await stage.ask()).status == 200
    assert stage.limits == {"A": 3} and len(provider_a.calls) == 39
    provider_a.script(answer("x"))
    await stage.ask()
    assert stage.limits == {"A": 4}


async def test_a_limit_is_forgotten_ten_minutes_after_the_wait_that_was_asked_for(ab: Stage, provider_a: FakeProvider):
    """failover-loop 60"""
    provider_a.script(limited(TOO_MANY, retry_after="30"), answer("x"), answer("x"))
    await ab.ask()
    ab.clock.advance(629.0)
    await ab.ask()
    assert ab.limits == {"A": 1}
    ab.clock.advance(1.5)
    await ab.ask()
    assert ab.limits == {}


@pytest.mark.parametrize(
    "name", ["X-RateLimit-Remaining", "x-ratelimit-remaining-requests", "X-RateLimit-Remaining-Tokens"]
)
@pytest.mark.parametrize(("value", "limits"), [("0", {"A": 2}), ("00", {}), ("0.0", {}), ("", {}), ("1", {})])
async def test_remaining_zero_is_a_limit_of_what_runs(ab: Stage, provider_a: FakeProvider, caplog, name, value, limits):
    """failover-loop 61"""
    caplog.set_level(logging.INFO)
    with held(provider_a, 1) as holds:
        provider_a.script(*holds, answer("x", headers={name: value}))
        (task,) = await occupied(ab, provider_a, holds)
        assert texts(await ab.ask()) == "x"
        assert ab.limits == limits
    await task
    assert ("proxy: in-flight allowance capped by remaining=0 header" in caplog.messages) is bool(limits)


async def test_the_ceiling_of_the_operator_holds_with_the_learner_off(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.set(inflight_limiter_enabled="false")
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url)
    provider_b.script(answer("from B"))
    with held(provider_a, 1) as holds:
        provider_a.script(*holds)
        (task,) = await occupied(stage, provider_a, holds)
        assert texts(await stage.ask()) == "from B"
        assert stage.trail[0] == (0, "A", None, *FULL) and len(provider_a.calls) == 1
    await task


async def test_the_models_of_a_provider_share_its_window(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.member("A", provider_a.url, most=1)
    stage.member("A", provider_a.url, model="m2", most=1)
    stage.member("B", provider_b.url)
    provider_b.script(answer("from B"))
    slot = stage.fill("A")
    assert texts(await stage.ask()) == "from B"
    assert [(e["model"], e.get("error_kind")) for e in stage.row.attempts or []][:2] == [
        ("m", "provider_saturated"),
        ("m2", "provider_saturated"),
    ]
    stage.windows.release(slot, None)


# -- the walk past full providers


async def test_a_skip_neither_pays_a_delay_nor_counts_for_the_next(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 23"""
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url)
    stage.fill("A")
    provider_b.script(status(503))
    with FakeProvider() as provider_c:
        stage.member("C", provider_c.url)
        provider_c.script(answer("from C"))
        assert texts(await stage.ask()) == "from C"
    assert stage.waits == [pytest.approx(0.15)] and not provider_a.calls
    assert [(n, name, kind) for n, name, _, kind, _ in stage.trail] == [
        (0, "A", "provider_saturated"),
        (1, "B", "provider_error"),
        (2, "C", None),
    ]
    assert stage.row.failover_attempt == 2


@pytest.mark.parametrize("when", ["before the pause", "during the pause"])
async def test_a_provider_that_is_full_behind_a_failure_costs_no_pause_of_its_own(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, when
):
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url, most=1)
    with FakeProvider() as provider_c:
        stage.member("C", provider_c.url)
        provider_a.script(status(503))
        provider_c.script(answer("from C"))
        if when == "before the pause":
            stage.fill("B")
        stage.hold = asyncio.Event()
        task = asyncio.create_task(stage.ask())
        await stage.holding.wait()
        if when == "during the pause":
            stage.fill("B")
        stage.hold.set()
        assert texts(await task) == "from C"
    assert stage.waits == [pytest.approx(0.15)] and not provider_b.calls


async def test_a_skip_is_no_contact_for_the_limit_of_further_candidates(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """One further candidate: B and C are asked, and then A is one too many even when it has room again."""
    stage.set(failover_max_attempts="1", server_error_retry_enabled="false")
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url)
    slot = stage.fill("A")
    provider_b.script(status(503))
    with FakeProvider() as provider_c:
        stage.member("C", provider_c.url)
        provider_c.script(answer("from C"), status(503))
        assert texts(await stage.ask()) == "from C"
        task = asyncio.create_task(stage.ask())
        await provider_b.until(lambda: len(provider_b.calls) == 2)
        stage.windows.release(slot, None)
        assert (await task).said == (503, "the provider failed to serve this request (provider C, upstream HTTP 503)")
    assert not provider_a.calls and 60.0 not in stage.waits


async def test_with_failover_off_only_the_first_is_waited_for(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.set(failover_enabled="false")
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url)
    stage.fill("A")
    got = await stage.ask()
    assert (got.status, got.header("retry-after")) == (429, "2")
    assert not provider_b.calls and stage.trail == [(0, "A", None, *FULL)]


async def test_an_error_that_moves_nothing_answers_at_once(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url)
    stage.fill("A")
    provider_b.script(status(422, {"error": {"message": "no"}}))
    assert (await stage.ask()).status == 422
    assert stage.waits == []


async def test_a_candidate_left_to_the_probe_of_another_request_takes_no_slot(ab: Stage, provider_a: FakeProvider):
    for _ in range(5):
        ab.board.record(_id("A"), "m", CHARGE)
    ab.clock.advance(90_000)
    with held(provider_a, 1) as holds:
        provider_a.script(*holds)
        (task,) = await occupied(ab, provider_a, holds)
        assert texts(await ab.ask()) == "from B"
        assert [e["attempt"] for e in ab.row.attempts or []] == [-1, 0]
        assert ab.running == {"A": 1}
    await task
    assert ab.running == {}


# -- the wait for a slot


@pytest.fixture
def both_full(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    """A and B take one request each, and have it; a wait lasts until ``stage.hold`` is set."""
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url, most=1)
    stage.hold = asyncio.Event()
    return stage


def busy_message(*names: str) -> str:
    return f'all {len(names)} providers busy; last error: provider "{names[-1]}" is busy (rate limited at capacity)'


async def test_the_first_slot_to_free_serves_and_the_client_sees_no_error(
    both_full: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog
):
    """failover-loop 62"""
    caplog.set_level(logging.INFO)
    provider_a.script(stall_after(1), answer("from A"))
    provider_b.script(stall_after(1))
    first, second = both_full.client(stream=True), both_full.client(stream=True)
    tasks = [asyncio.create_task(client.run()) for client in (first, second)]
    for client in (first, second):
        await client.until(b"data:")
    assert both_full.running == {"A": 1, "B": 1}
    third = asyncio.create_task(both_full.ask())
    await both_full.holding.wait()
    first.left.set()  # A's stream ends, its client has gone
    got = await third
    assert texts(got) == "from A" and got.header("x-modelhotel-attempts") == "1"
    assert both_full.trail == [(0, "A", None, *FULL), (1, "B", None, *FULL), (2, "A", 200, None, "success")]
    assert both_full.row.failover_attempt == 2
    assert both_full.waits == [60.0]
    told = [(r.message, r.attrs) for r in caplog.records if r.message.startswith("proxy: slot freed")]
    assert told == [("proxy: slot freed, retrying a busy candidate", {"provider": "A", "model": "m", "attempt": 3})]
    second.left.set()
    await asyncio.gather(*tasks)
    assert both_full.running == {}


@pytest.mark.parametrize("as_429", [True, False])
async def test_nothing_frees_in_time(
    both_full: Stage, provider_a: FakeProvider, provider_b: FakeProvider, as_429, caplog
):
    """failover-loop 63, failover-loop 64"""
    caplog.set_level(logging.INFO)
    both_full.set(rate_limit_saturation_max_wait="7s", failover_exhaustion_status_429=str(as_429).lower())
    both_full.fill("A")
    both_full.fill("B")
    assert both_full.hold is not None
    both_full.hold.set()
    got = await both_full.ask()
    assert got.said == (429 if as_429 else 502, "all providers busy for model hotel/g, retry shortly")
    assert got.header("retry-after") == ("2" if as_429 else None)
    assert got.error["code"] == "rate_limit_exceeded"
    row = both_full.row
    assert (row.error_kind, row.provider_id, row.failover_attempt) == ("provider_saturated", None, 1)
    assert row.error_message == f"{busy_message('A', 'B')} on attempt 2"
    assert [e["detail"] for e in row.attempts or []] == ["at in-flight limit"] * 2
    assert counting.exhausted(row) == "all_busy"
    assert both_full.waits == [7.0] and not provider_a.calls and not provider_b.calls
    assert both_full.running == {"A": 1, "B": 1}
    (line,) = [r.attrs for r in caplog.records if r.message == "proxy: all providers exhausted"]
    assert (line["kind"], line["provider"], line["candidates"]) == ("provider_saturated", "B", 2)


async def test_a_direct_request_waits_too(both_full: Stage, provider_a: FakeProvider):
    slot = both_full.fill("A")
    provider_a.script(answer("from A"), status(503))
    task = asyncio.create_task(both_full.ask("A/m"))
    await both_full.holding.wait()
    both_full.windows.release(slot, None)
    assert texts(await task) == "from A"
    slot = both_full.fill("A")
    assert both_full.hold is not None
    both_full.hold.set()
    got = await both_full.ask("A/m")
    assert got.said == (429, "provider busy for model A/m, retry shortly") and got.header("retry-after") == "2"
    assert both_full.row.error_message == 'provider "A" is busy (rate limited at capacity) on attempt 1'


async def test_the_only_candidate_that_was_waited_for_answers_with_its_own_error(
    both_full: Stage, provider_a: FakeProvider
):
    """It stands in last position: one retry, then what it said."""
    slot = both_full.fill("A")
    provider_a.script(status(503))
    task = asyncio.create_task(both_full.ask("A/m"))
    await both_full.holding.wait()
    both_full.windows.release(slot, None)
    assert both_full.hold is not None
    both_full.hold.set()
    assert (await task).said == (503, "the provider failed to serve this request (provider A, upstream HTTP 503)")
    assert len(provider_a.calls) == 2


@pytest.mark.parametrize("frees", [True, False])
async def test_a_last_retry_that_finds_no_slot_waits_for_one(both_full: Stage, provider_a: FakeProvider, frees):
    """The slot of the first try went to another request during the pause."""
    provider_a.script(status(503), answer("from A"))
    task = asyncio.create_task(both_full.ask("A/m"))
    await both_full.holding.wait()
    slot, paused = both_full.fill("A"), both_full.hold
    assert paused is not None
    both_full.hold = asyncio.Event()
    both_full.holding.clear()
    paused.set()
    await both_full.holding.wait()
    if frees:
        both_full.windows.release(slot, None)
    else:
        both_full.hold.set()
    got = await task
    assert both_full.trail[:2] == [(0, "A", 503, "provider_error", "charge"), (1, "A", None, *FULL)]
    if frees:
        assert texts(got) == "from A" and both_full.trail[2] == (2, "A", 200, None, "success")
    else:
        assert got.said == (429, "provider busy for model A/m, retry shortly")


async def test_a_wait_in_place_that_finds_no_slot_moves_on(
    both_full: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    both_full.set(rate_limit_wait_in_place="3s")
    provider_a.script(limited(TOO_MANY, retry_after="2"))
    provider_b.script(answer("from B"))
    task = asyncio.create_task(both_full.ask())
    await both_full.holding.wait()
    both_full.fill("A")
    assert both_full.hold is not None
    both_full.hold.set()
    assert texts(await task) == "from B"
    assert [(n, name, kind) for n, name, _, kind, _ in both_full.trail] == [
        (0, "A", "provider_saturated"),
        (1, "A", "provider_saturated"),
        (2, "B", None),
    ]
    assert len(provider_a.calls) == 1


async def test_no_error_is_told_before_a_slot_was_waited_for(
    both_full: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 90. The sequential half: A and B are full, C fails, retry and all."""
    slot = both_full.fill("A")
    both_full.fill("B")
    provider_a.script(answer("from A"))
    with FakeProvider() as provider_c:
        both_full.member("C", provider_c.url)
        provider_c.script(status(503))
        assert both_full.hold is not None
        both_full.hold.set()
        got = await both_full.ask()
        assert got.said == (429, "all providers busy for model hotel/g, retry shortly")
        assert (
            both_full.row.error_message
            == f"{busy_message('A', 'C', 'B')} on attempt 2; last provider error: scripted 503"
        )
        assert len(provider_c.calls) == 2 and both_full.waits == [pytest.approx(0.75), 60.0]
        both_full.hold = asyncio.Event()
        both_full.set(server_error_retry_enabled="false")
        both_full.holding.clear()
        task = asyncio.create_task(both_full.ask())
        await both_full.holding.wait()
        both_full.windows.release(slot, None)
        assert texts(await task) == "from A"
        assert [(n, name) for n, name, *_ in both_full.trail] == [(0, "A"), (1, "B"), (2, "C"), (3, "A")]


async def test_a_race_whose_members_are_full_waits_for_a_slot(
    both_full: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 90"""
    both_full.set(hedging_enabled="true")
    slot = both_full.fill("A")
    both_full.fill("B")
    provider_a.script(stream(["from A"]))
    with FakeProvider() as provider_c:
        both_full.member("C", provider_c.url)
        provider_c.script(status(503))
        task = asyncio.create_task(both_full.ask(stream=True))
        await both_full.holding.wait()
        both_full.windows.release(slot, None)
        assert "from A" in (await task).body.decode()
    assert [(n, name) for n, name, *_ in both_full.trail] == [(0, "A"), (1, "B"), (2, "C"), (3, "A")]
    assert both_full.running == {"B": 1}


async def test_an_attempt_that_was_waited_for_and_fails_over_ends_the_request(
    both_full: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    slot, other = both_full.fill("A"), both_full.fill("B")
    provider_a.script(status(503))
    task = asyncio.create_task(both_full.ask())
    await both_full.holding.wait()
    both_full.windows.release(slot, None)
    assert (await task).said == (502, "all providers failed for model hotel/g")
    both_full.windows.release(other, None)
    assert not provider_b.calls and len(provider_a.calls) == 1
    assert both_full.trail[-1] == (2, "A", 503, "provider_error", "charge")


async def test_an_attempt_that_was_waited_for_and_is_busy_once_more_is_all_busy(
    both_full: Stage, provider_a: FakeProvider
):
    slot = both_full.fill("A")
    both_full.fill("B")
    provider_a.script(limited(TOO_MANY, retry_after="5"))
    task = asyncio.create_task(both_full.ask())
    await both_full.holding.wait()
    both_full.windows.release(slot, None)
    got = await task
    assert got.said == (429, "all providers busy for model hotel/g, retry shortly")
    assert got.header("retry-after") == "5" and both_full.limits == {"A": 1}


async def test_a_client_that_leaves_the_wait_is_499(both_full: Stage, provider_a: FakeProvider, caplog):
    caplog.set_level(logging.INFO)
    both_full.fill("A")
    both_full.fill("B")
    client = both_full.client()
    task = asyncio.create_task(client.run())
    await both_full.holding.wait()
    client.left.set()
    await task
    row = both_full.row
    assert (row.status_code, row.error_kind, row.provider_id) == (499, "client_disconnect", None)
    assert "proxy: client disconnected while waiting out saturation" in caplog.messages
    assert both_full.running == {"A": 1, "B": 1} and not both_full.windows._waiting and not provider_a.calls


async def test_the_wait_ends_with_the_time_of_the_request(both_full: Stage):
    both_full.set(request_timeout="10s")
    both_full.fill("A")
    both_full.fill("B")
    assert both_full.hold is not None
    both_full.hold.set()
    assert (await both_full.ask()).status == 429
    assert both_full.waits == [pytest.approx(20.0, abs=0.5)]


async def test_nobody_is_asked_once_the_time_of_the_request_is_over(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 4.1: no further attempt starts, also at a provider that has room by now"""
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url)
    stage.set(request_timeout="150ms")
    slot = stage.fill("A")
    provider_b.script(silence())
    with FakeProvider() as provider_c:
        stage.member("C", provider_c.url)
        provider_c.script(silence())
        task = asyncio.create_task(stage.ask())
        await provider_c.until(lambda: len(provider_c.calls) == 1)
        stage.windows.release(slot, None)
        got = await task
    assert got.said == (504, "request timed out for model hotel/g")
    assert stage.row.error_kind == "failover_timeout" and not provider_a.calls


async def test_a_prompt_too_long_for_a_full_candidate_does_not_wait_for_it(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """A is full and no larger than B, which refuses the prompt; C is larger, and fails."""
    stage.member("A", provider_a.url, window=8000, most=1)
    stage.member("B", provider_b.url, window=8000)
    stage.set(server_error_retry_enabled="false")
    stage.fill("A")
    provider_b.script(status(400, {"error": {"message": "x", "code": "context_length_exceeded"}}))
    with FakeProvider() as provider_c:
        stage.member("C", provider_c.url, window=100_000)
        provider_c.script(status(503))
        assert (await stage.ask()).status == 503
    assert 60.0 not in stage.waits


# -- a slot is given back once, whatever happens


CHAT = {
    "serves": (answer("x"), True),
    "no choices": (empty_choices(), False),
    "undecodable": (html(200), False),
    "breaks off": (half_json(), False),
    "no body": (status(204), False),
    "refuses": (status(400), False),
    "fails": (status(503), False),
    "spent": (limited("insufficient_quota"), False),
    "resets": (reset(), False),
    "times out": (silence(), False),
    "stops in the body": (headers_then_silence(stream=False), False),
}
STREAMS = {
    "serves": (stream(), True),
    "truncated": (cut_after(2, clean=True), False),
    "reset": (cut_after(2, reset=True), False),
    "stalls": (stall_after(2), False),
    "empty": (empty_stream(), False),
    "error first": (first_event_error(), False),
    "no first token": (headers_then_silence(), False),
}
PASSED = {
    "serves": (vectors(), True),
    "nothing": (no_vectors(), False),
    "breaks off": (half_json(), False),
    "stops in the body": (headers_then_silence(stream=False), False),
    "fails": (status(503), False),
}
ALL = [
    *[pytest.param("chat", *case, id=f"chat {name}") for name, case in CHAT.items()],
    *[pytest.param("stream", *case, id=f"stream {name}") for name, case in STREAMS.items()],
    *[pytest.param("embed", *case, id=f"embed {name}") for name, case in PASSED.items()],
    pytest.param("large", vectors(), True, id="embed relayed"),
    pytest.param("large", wrong_length(10), False, id="embed relayed and broken off"),
]


async def ask_as(stage: Stage, how: str, monkeypatch: pytest.MonkeyPatch):
    if how == "large":
        monkeypatch.setattr(passthrough, "BUFFERED", 5)
    if how in ("embed", "large"):
        return await stage.embed("A/m")
    return await stage.ask("A/m", stream=how == "stream")


@pytest.mark.parametrize(("how", "behaviour", "clean"), ALL)
async def test_every_end_gives_the_slot_back_and_only_an_answer_read_to_its_end_is_clean(
    stage: Stage, provider_a: FakeProvider, how, behaviour, clean, monkeypatch
):
    stage.set(
        request_timeout="150ms" if how != "stream" else "60s",
        ttft_timeout="150ms",
        stream_stall_timeout="150ms",
        server_error_retry_enabled="false",
    )
    stage.member("A", provider_a.url)
    capped(stage, "A", 2)
    window = next(iter(stage.windows._windows.values()))
    window.good_runs = 5
    provider_a.script(behaviour)
    await ask_as(stage, how, monkeypatch)
    assert stage.running == {} and stage.limits == {"A": 2}
    assert window.good_runs == (6 if clean else 0)


@pytest.mark.parametrize("how", ["chat", "stream", "embed"])
async def test_an_internal_error_gives_the_slot_back(stage: Stage, provider_a: FakeProvider, how, monkeypatch):
    stage.member("A", provider_a.url)

    def broken(*args):
        raise RuntimeError("a bug")

    monkeypatch.setattr(outgoing, "build", broken)
    await ask_as(stage, how, monkeypatch)
    assert stage.running == {} and stage.row.error_kind == "internal"


@pytest.mark.parametrize("how", ["whole", "stream", "before a token", "embed", "relayed"])
async def test_a_client_that_leaves_gives_the_slot_back_once_and_it_is_not_clean(
    stage: Stage, provider_a: FakeProvider, how, monkeypatch
):
    """failover-loop 65"""
    if how == "relayed":
        monkeypatch.setattr(passthrough, "BUFFERED", 5)
    behaviours = {"whole": silence(), "stream": stall_after(2), "before a token": headers_then_silence()}
    provider_a.script(behaviours.get(how, headers_then_silence(stream=False)))
    stage.member("A", provider_a.url)
    capped(stage, "A", 2)
    stage.fill("A")  # another request, whose slot must stay
    window = next(iter(stage.windows._windows.values()))
    window.good_runs = 5
    streamed = how in ("stream", "before a token")
    client = stage.client("A/m", stream=streamed) if how not in ("embed", "relayed") else stage.embedding_client("A/m")
    task = asyncio.create_task(client.run())
    await provider_a.until(lambda: len(provider_a.calls) == 1)
    if how == "stream":
        await client.until(b"data:")
    assert stage.running == {"A": 2}
    client.left.set()
    await task
    assert stage.running == {"A": 1} and window.good_runs == 0
    assert stage.row.error_kind == "client_disconnect"


async def test_a_stream_holds_its_slot_to_the_last_byte(stage: Stage, provider_a: FakeProvider):
    """Behind ``[DONE]`` too: the provider still has the request until its body ends."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def behave(wire: Wire) -> None:
        await wire.write(head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]))
        for event in (delta(content="x"), delta(finish="stop")):
            await wire.write(http_chunk(sse(event)))
        await wire.write(http_chunk(DONE))
        await wire.sleep(0.05)
        loop.call_soon_threadsafe(ending.set)
        await wire.write(b"0\r\n\r\n")

    stage.member("A", provider_a.url)
    provider_a.script(behave)
    client = stage.client("A/m", stream=True)
    task = asyncio.create_task(client.run())
    await client.until(b"[DONE]")
    assert client.answer.complete or not ending.is_set()
    assert stage.running == {"A": 1}
    await task
    assert ending.is_set() and stage.running == {}


async def test_a_slow_reader_does_not_hold_the_slot_of_an_answer_that_was_read(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url)
    provider_a.script(reply(200, completion("x")))
    client = stage.client("A/m")
    seen = []
    send = client.send

    async def slow(message):
        seen.append(dict(stage.running))
        await send(message)

    client.send = slow  # type: ignore[method-assign]
    await client.run()
    assert seen == [{}, {}]
