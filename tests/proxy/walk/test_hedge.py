"""Hedged requests over sockets: who is launched when, who wins, what becomes of the others (failover-loop 12)."""

import asyncio
import gc
import logging
import time
import weakref
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from proxy import serving, walk
from proxy.hedge import Race
from proxy.stream import firsttoken
from requestlogs import counting
from tests.pace import slower
from tests.proxy.walk.stage import Stage
from tests.upstream import rig
from tests.upstream.server import (
    DONE,
    FakeProvider,
    after,
    answer,
    delta,
    empty_stream,
    events,
    first_event_error,
    headers_then_silence,
    reply,
    silence,
    stall_after,
    status,
    stream,
)

TICK = 0.1
SLACK = 0.5  # seconds that a busy machine may add


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.set(hedging_enabled="true", hedge_delay="100ms")
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    return stage


def gap(first: FakeProvider, second: FakeProvider) -> float:
    """Seconds between their first calls."""
    return second.calls[0].at - first.calls[0].at


def kinds(stage: Stage) -> list[tuple[str, str | None, str | None]]:
    """(provider, error kind, detail) of every element; all of them are marked as hedged."""
    trail = stage.row.attempts or []
    assert all(element["hedged"] is True for element in trail)
    return [(e["provider"], e.get("error_kind"), e.get("detail")) for e in trail]


SUPERSEDED = ("hedge_superseded", "superseded by the winner while in flight")


# -- who is launched, and when


async def test_the_second_is_launched_on_the_tick_and_serves_when_the_first_is_silent(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog
):
    """failover-loop 85"""
    caplog.set_level(logging.INFO, "proxy")
    provider_a.script(silence())
    provider_b.script(after(0.05, stream(["from ", "B"])))
    began = time.monotonic()
    got = await ab.ask(stream=True)
    took = time.monotonic() - began
    assert got.status == 200 and got.complete and b"from " in got.body and got.events[-1] == "[DONE]"
    assert TICK + 0.05 <= took < TICK + 0.05 + SLACK * slower()
    assert 0.5 * TICK < gap(provider_a, provider_b) < TICK + SLACK * slower()
    row = ab.row
    assert (row.state, row.status_code, row.failover_attempt, row.provider_name) == ("completed", 200, 1, "B")
    assert row.resolved_model_id == "m" and got.header("x-modelhotel-provider") == "B"
    assert got.header("x-modelhotel-attempts") == "2"
    assert row.ttft_ms is not None and row.ttft_ms >= 150 and row.response_header_ms is not None
    assert ab.trail == [(0, "A", None, "hedge_superseded", None), (1, "B", 200, None, "success")]
    assert kinds(ab)[0] == ("A", *SUPERSEDED)
    first, second = row.attempts or []
    assert first["duration_ms"] > second["ttft_ms"] and second["duration_ms"] < 1000 * took - 90
    assert ab.fails("A") == 0 and ab.cause("A") == ("", 0)
    told = next(record for record in caplog.records if record.message == "proxy: hedge winner")
    assert told.attrs["provider"] == "B" and told.attrs["attempt"] == 1  # type: ignore[attr-defined]
    assert told.attrs["true_ttft_ms"] == pytest.approx(row.ttft_ms, abs=0.1)  # type: ignore[attr-defined]
    cut = next(record for record in caplog.records if "context cancelled" in record.message)
    assert (cut.attrs["origin"], cut.attrs["provider"]) == ("hedge_superseded", "A")  # type: ignore[attr-defined]
    await provider_a.until(lambda: provider_a.disconnects == 1)


async def test_nobody_else_is_launched_when_the_first_answers_in_time(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 86. Its first token is what has to be in time, not the end of its stream."""
    ab.set(hedge_delay="300ms")
    provider_a.script(stall_after(1, seconds=0.35))
    got = await ab.ask(stream=True)
    assert b"tok0" in got.body and ab.trail == [(0, "A", 200, None, "success")]
    assert not provider_b.calls and ab.row.failover_attempt == 0


async def test_a_failure_launches_the_next_at_once(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 87"""
    ab.set(hedge_delay="5s")
    provider_a.script(after(0.02, status(503)))
    provider_b.script(answer("from B"))
    got = await ab.ask(stream=True)
    assert b"from B" in got.body
    assert gap(provider_a, provider_b) < 4.0
    assert ab.trail == [(0, "A", 503, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert not ab.waits and ab.fails("A") == 1


async def test_ticks_go_on_from_the_start_whatever_failed_meanwhile(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(hedge_delay="400ms")
    provider_a.script(status(503))
    provider_b.script(silence())
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        await ab.ask(stream=True)
        assert gap(provider_a, provider_b) < 0.3 * slower()
        assert 0.3 < gap(provider_a, provider_c) < 0.4 + SLACK * slower()


async def test_launches_are_a_tenth_of_a_second_apart_at_least(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 88"""
    ab.set(hedge_delay="0s")
    provider_a.script(silence())
    provider_b.script(silence())
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        await ab.ask(stream=True)
        starts = [p.calls[0].at for p in (provider_a, provider_b, provider_c)]
    assert min(starts[1] - starts[0], starts[2] - starts[1]) > 0.5 * TICK
    assert starts[2] - starts[0] < 2 * TICK + SLACK * slower()


async def test_a_whole_answer_is_asked_for_one_candidate_at_a_time(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 92"""
    provider_a.script(after(0.15, answer("from A")))
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from A"
    assert not provider_b.calls
    assert "hedged" not in (ab.row.attempts or [])[0]


@pytest.mark.parametrize(
    "how", [{"model": "A/m"}, {"off": {"failover_enabled": "false"}}, {"off": {"hedging_enabled": "false"}}], ids=str
)
async def test_where_there_is_nobody_to_race_there_is_no_race(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, how
):
    ab.set(**how.get("off", {}))
    provider_a.script(after(0.15, answer("from A")))
    got = await ab.ask(how.get("model", "hotel/g"), stream=True)
    assert b"from A" in got.body and not provider_b.calls
    assert "hedged" not in (ab.row.attempts or [])[0]


async def test_no_more_candidates_are_launched_than_may_be_contacted(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(failover_max_attempts="1")
    provider_a.script(after(0.4, answer("from A")))
    provider_b.script(status(503))
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        got = await ab.ask(stream=True)
        assert b"from A" in got.body and not provider_c.calls
    assert ab.trail == [(0, "A", 200, None, "success"), (1, "B", 503, "provider_error", "charge")]
    assert ab.row.failover_attempt == 0


async def test_every_launch_is_counted(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """README decision 50."""
    provider_a.script(silence())
    provider_b.script(silence())
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        await ab.ask(stream=True)
    sums: defaultdict[tuple[Any, ...], float] = defaultdict(float)
    counting._add_failover(ab.row, sums)
    counted = {labels[1:]: value for labels, value in sums.items() if "failover_attempts" in labels[0]._name}
    assert counted == {("hotel/g", "B"): 1, ("hotel/g", "C"): 1}


# -- half-open


async def test_a_launch_leaves_a_held_probe_to_its_holder_and_the_next_is_asked(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """circuit-breaker 5.4: a hedged launch follows the rule of the lease."""
    provider_a.script(status(503))
    ab.set(hedging_enabled="false", circuit_breaker_threshold="1")
    await ab.ask(stream=True)
    ab.set(hedging_enabled="true")
    ab.clock.advance(90_000)
    holder = object()
    assert ab.board.admit("00000000-0000-4000-8000-000000000065", "m", holder, alone=False)
    provider_a.forget()
    got = await ab.ask(stream=True)
    assert b"from B" in got.body and not provider_a.calls
    assert ab.trail == [(-1, "A", None, None, "skipped"), (0, "B", 200, None, "success")]


async def test_a_superseded_probe_gives_its_lease_back(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """circuit-breaker 5.4"""
    ab.set(hedging_enabled="false", circuit_breaker_threshold="1")
    provider_a.script(status(503))
    await ab.ask(stream=True)
    ab.set(hedging_enabled="true")
    ab.clock.advance(90_000)
    provider_a.script(silence())
    await ab.ask(stream=True)
    circuit = ab.board._circuits.find("00000000-0000-4000-8000-000000000065", "m")
    assert ab.trail[0] == (0, "A", None, "hedge_superseded", None)
    assert circuit is not None and circuit.lease is None and ab.state("A") == "half-open"


# -- who wins, and what it leaves


async def test_a_loser_is_no_failure_however_long_it_was_silent(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """circuit-breaker 22. Its silence is longer than the stall floor."""
    ab.set(stream_stall_timeout="20ms", ttft_timeout="5s")
    provider_a.script(headers_then_silence())
    await ab.ask(stream=True)
    assert ab.trail == [(0, "A", None, "hedge_superseded", None), (1, "B", 200, None, "success")]
    assert ab.fails("A") == 0 and ab.cause("A") == ("", 0)


async def test_a_loser_that_had_answered_keeps_its_own_verdict(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """circuit-breaker 22"""
    provider_a.script(after(0.2, status(503)))
    provider_b.script(after(0.25, answer("from B")))
    got = await ab.ask(stream=True)
    assert b"from B" in got.body
    assert ab.trail == [(0, "A", 503, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert kinds(ab)[0] == ("A", "provider_error", "scripted 503")
    assert ab.fails("A") == 1 and (ab.row.attempts or [])[0]["duration_ms"] >= 200


async def test_not_one_byte_of_a_loser_reaches_the_client(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(after(0.0, stall(delta(role="loser"))))
    provider_b.script(stream(["from ", "B"], delay=0.02))
    got = await ab.ask(stream=True)
    assert b"loser" not in got.body and b"from " in got.body and got.events[-1] == "[DONE]"


def stall(*items):
    async def behave(wire):
        await events(*items, end=False)(wire)
        await wire.sleep(30)

    return behave


async def test_an_empty_answer_behind_frames_wins(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(silence())
    provider_b.script(events(delta(role="assistant"), delta(finish="stop"), DONE))
    got = await ab.ask(stream=True)
    assert got.status == 200 and ab.trail[1] == (1, "B", 200, None, "charge")


async def test_without_a_probe_the_headers_win(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    ab.set(ttft_timeout="0s")
    provider_a.script(silence())
    provider_b.script(stall_after(0, seconds=0.05))
    got = await ab.ask(stream=True)
    assert got.status == 200 and ab.trail[0][3] == "hedge_superseded" and ab.row.ttft_ms is None


async def test_a_stream_without_any_frame_does_not_win(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(empty_stream())
    got = await ab.ask(stream=True)
    assert b"from B" in got.body
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")


async def test_the_winner_is_judged_at_the_end_of_its_stream(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(stream_stall_timeout="60ms")
    provider_a.script(silence())
    provider_b.script(stall_after(2))
    got = await ab.ask(stream=True)
    assert got.status == 200 and "stream stalled" in got.events[-1]
    assert ab.trail[1] == (1, "B", 200, "provider_timeout", "charge")
    assert (ab.row.state, ab.row.status_code, ab.row.failover_attempt) == ("failed", 0, 1)
    assert kinds(ab)[1] == ("B", "provider_timeout", None)


@pytest.mark.parametrize("client", rig.CLIENTS)
async def test_a_race_leaves_no_connection_and_no_task_whichever_client_carries_it(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, provider_c: FakeProvider, client, monkeypatch
):
    made = rig.CLIENTS[client](rig.FixedResolver())
    monkeypatch.setattr(walk, "TOOLS", replace(walk.TOOLS, client=lambda: made))
    ab.member("C", provider_c.url)
    provider_a.script(headers_then_silence())
    provider_c.script(silence())
    provider_b.script(silence())
    with FakeProvider() as provider_d:
        ab.member("D", provider_d.url)
        got = await ab.ask(stream=True)
        assert got.complete and ab.row.provider_name == "D"
        for loser in (provider_a, provider_b, provider_c):
            await loser.until(lambda loser=loser: loser.disconnects == 1)
        await rig.nothing_runs()
    await made.aclose()


async def test_a_race_leaves_no_ring_of_references_behind(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, monkeypatch
):
    races: list[weakref.ref[Race]] = []

    class Seen(Race):
        __slots__ = ("__weakref__",)

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            races.append(weakref.ref(self))

    monkeypatch.setattr(serving, "Race", Seen)
    provider_a.script(headers_then_silence())
    gc.collect()
    gc.disable()
    try:
        await ab.ask(stream=True)
        await rig.nothing_runs()
        assert [race() for race in races] == [None]
    finally:
        gc.enable()


# -- what losers cost


async def test_a_loser_that_had_begun_to_answer_is_paid_for(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 89"""
    ab.price("A", 3.0)
    ab.price("B", 1.0)
    provider_a.script(headers_then_silence())
    usage = {"prompt_tokens": 11, "completion_tokens": 4, "total_tokens": 15}
    provider_b.script(answer("from B", usage=usage))
    await ab.ask(stream=True, prompt="x" * 39 + "é")
    assert ab.charged == 11 + 15  # 41 bytes of prompt, four a token, and what B reported
    assert (ab.row.tokens_prompt, ab.row.tokens_completion) == (11, 4)
    assert ab.row.cost_usd == pytest.approx((11 * 3.0 + 11 * 1.0) / 1e6)


@pytest.mark.parametrize(
    ("loser", "paid"),
    [
        (silence(), False),
        (after(0.2, status(503)), False),
        (after(0.2, first_event_error()), False),
        (headers_then_silence(), True),
        (after(0.2, empty_stream()), True),
    ],
    ids=["silent", "refused", "its own error", "headers", "lost with an empty stream"],
)
async def test_only_who_answered_2xx_and_not_with_an_error_is_paid_for(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, loser, paid
):
    """failover-loop 12.6"""
    ab.price("A", 4.0)
    provider_a.script(loser)
    provider_b.script(after(0.25, answer("from B", usage={"prompt_tokens": 9, "completion_tokens": 1})))
    await ab.ask(stream=True, prompt="x" * 40)
    assert ab.charged - 10 == (10 if paid else 0)
    assert ab.row.tokens_prompt == 9
    assert ab.row.cost_usd == (pytest.approx(10 * 4.0 / 1e6) if paid else None)


# -- nobody wins


async def test_when_all_failed_the_result_that_came_last_is_the_last_word(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(after(0.35, status(500)))
    provider_b.script(status(403))
    got = await ab.ask(stream=True)
    assert got.said == (502, "all providers failed for model hotel/g")
    assert ab.trail == [(0, "A", 500, "provider_error", "charge"), (1, "B", 403, "provider_error", "charge")]
    assert len(provider_a.calls) == 1 and len(provider_b.calls) == 1 and not ab.waits  # no repetition in a race
    row = ab.row
    assert (row.status_code, row.error_kind, row.failover_attempt) == (502, "provider_error", 1)
    assert row.error_message == (
        'all 2 providers failed; last error: provider "A" returned HTTP 500 on attempt 1; '
        "last provider error: scripted 500"
    )
    assert row.provider_id is None and kinds(ab) == [
        ("A", "provider_error", None),
        ("B", "provider_error", "scripted 403"),
    ]


BUSY = status(429, {"error": {"message": "too many concurrent requests"}})


async def test_a_group_that_is_merely_busy_is_waited_for_as_it_is_without_a_race(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 12.4: hedging never makes it fail sooner than the sequential walk would."""
    provider_a.script(BUSY)
    provider_b.script(BUSY, answer("from B"))
    got = await ab.ask(stream=True)
    assert b"from B" in got.body and ab.waits == [2.0]
    assert ab.trail == [
        (0, "A", 429, "provider_saturated", "noop"),
        (1, "B", 429, "provider_saturated", "noop"),
        (2, "B", 200, None, "success"),
    ]
    assert [element.get("hedged") for element in ab.row.attempts or []] == [True, True, None]
    assert ab.row.failover_attempt == 2


async def test_a_group_that_stays_busy_is_told_so_with_a_wait(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(BUSY)
    provider_b.script(BUSY)
    got = await ab.ask(stream=True)
    assert got.said == (429, "all providers busy for model hotel/g, retry shortly")
    assert got.header("retry-after") == "2" and len(provider_b.calls) == 2


async def test_an_answer_that_may_not_move_on_ends_the_race(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 5.2, 5.5: what no other candidate may be asked about is answered at once."""
    provider_a.script(after(0.3, status(422)))
    provider_b.script(silence())
    got = await ab.ask(stream=True)
    assert got.status == 422 and got.json["error"]["message"] == "scripted 422"
    assert ab.trail == [(0, "A", 422, "provider_error", "alive"), (1, "B", None, "hedge_superseded", None)]
    assert ab.row.failover_attempt == 0 and ab.row.provider_id is not None


TOO_LONG = status(400, {"error": {"message": "too long", "code": "context_length_exceeded"}})


async def test_after_a_prompt_too_long_only_larger_windows_are_launched(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, provider_c: FakeProvider
):
    """failover-loop 5.5 inside a race."""
    stage.set(hedging_enabled="true")
    stage.member("A", provider_a.url, window=8192)
    stage.member("C", provider_c.url, window=8192)
    stage.member("B", provider_b.url, window=131072)
    provider_a.script(TOO_LONG)
    got = await stage.ask(stream=True)
    assert b"from B" in got.body and not provider_c.calls
    assert stage.trail == [(0, "A", 400, "provider_bad_request", "alive"), (1, "B", 200, None, "success")]


async def test_a_prompt_too_long_lets_running_attempts_go_on(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.set(hedging_enabled="true", hedge_delay="100ms")
    stage.member("A", provider_a.url, window=131072)
    stage.member("B", provider_b.url, window=8192)
    provider_a.script(after(0.2, TOO_LONG))
    provider_b.script(after(0.25, answer("from B")))
    assert b"from B" in (await stage.ask(stream=True)).body


async def test_a_prompt_too_long_for_everybody_is_told_to_the_client(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.set(hedging_enabled="true")
    stage.member("A", provider_a.url, window=8192)
    stage.member("B", provider_b.url, window=4096)
    provider_a.script(TOO_LONG)
    got = await stage.ask(stream=True)
    assert (got.status, got.json["error"]["code"]) == (400, "context_length_exceeded") and not provider_b.calls
    assert stage.row.failover_attempt == 0


async def test_the_end_of_the_requests_time_ends_the_race(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog
):
    ab.set(request_timeout="20ms", hedge_delay="10s")  # 0.2 s for an attempt, 0.4 s in all
    provider_a.script(after(0.1, status(503)))
    provider_b.script(after(0.15, status(403)))
    with FakeProvider() as provider_c:
        provider_c.script(silence())
        ab.member("C", provider_c.url)
        got = await ab.ask(stream=True)
    assert got.said == (504, "request timed out for model hotel/g")
    late = ("failover_timeout", "still in flight at the failover deadline")
    assert kinds(ab)[-1] == ("C", *late)
    assert (ab.row.error_kind, ab.row.failover_attempt) == ("failover_timeout", 2)
    assert ab.row.error_message == (
        'request timed out while waiting on provider "C" (attempt 3); last provider error: scripted 403'
    )
    told = next(record for record in caplog.records if "during hedged streaming" in record.message)
    assert told.message == "proxy: overall request deadline exceeded during hedged streaming"
    assert told.attrs == {"model": "hotel/g", "launched": 3, "deadline": "400ms"}  # type: ignore[attr-defined]


# -- the client leaves


async def leave(stage: Stage, when) -> None:
    client = stage.client(stream=True)
    running = asyncio.create_task(client.run())
    await when()
    client.left.set()
    await running
    assert not client.answer.complete
    await rig.nothing_runs()


async def test_leaving_while_nothing_has_failed_is_the_clients_affair(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 91. Both had been silent for longer than the stall floor."""
    ab.set(stream_stall_timeout="20ms")
    provider_a.script(headers_then_silence())
    provider_b.script(silence())
    await leave(ab, lambda: provider_b.until(lambda: len(provider_b.calls) == 1))
    left = ("client_disconnect", "client disconnected while in flight")
    assert (ab.row.status_code, ab.row.error_kind) == (499, "client_disconnect")
    assert kinds(ab) == [("A", *left), ("B", *left)]
    assert [e.get("breaker") for e in ab.row.attempts or []] == [None, None]
    assert ab.row.error_message == 'client disconnected during attempt 2 to provider "B"'
    await provider_a.until(lambda: provider_a.disconnects == 1)
    await provider_b.until(lambda: provider_b.disconnects == 1)


async def test_leaving_after_a_stall_tells_on_the_provider(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 91"""
    ab.set(ttft_timeout="30ms", request_timeout="10s")
    provider_a.script(headers_then_silence())
    provider_b.script(silence())
    await leave(ab, lambda: provider_b.until(lambda: len(provider_b.calls) == 1))
    assert (ab.row.status_code, ab.row.error_kind) == (502, "provider_timeout")
    assert ab.trail == [(0, "A", 200, "provider_timeout", "charge"), (1, "B", None, "client_disconnect", None)]
    assert ab.row.error_message is not None and ab.row.error_message.startswith(
        'provider "A" did not return a response in time on attempt 1'
    )
    assert ab.fails("A") == 1 and ab.fails("B") == 0


async def test_leaving_behind_another_failure_names_it(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(status(503))
    provider_b.script(silence())
    await leave(ab, lambda: provider_b.until(lambda: len(provider_b.calls) == 1))
    assert ab.row.status_code == 499 and ab.row.error_message == (
        'client disconnected while retrying provider "B" (attempt 2); last provider error: scripted 503'
    )


async def test_leaving_the_winners_stream_is_like_leaving_any(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(silence())
    provider_b.script(stall_after(1))
    client = ab.client(stream=True)
    running = asyncio.create_task(client.run())
    await client.until(b"tok0")
    client.left.set()
    await running
    assert (ab.row.status_code, ab.row.error_kind) == (0, "client_disconnect")
    assert ab.trail == [(0, "A", None, "hedge_superseded", None), (1, "B", 200, "client_disconnect", None)]
    await provider_b.until(lambda: provider_b.disconnects == 1)


async def test_a_server_that_stops_ends_every_attempt(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(headers_then_silence())
    provider_b.script(silence())
    running = asyncio.create_task(ab.client(stream=True).run())
    await provider_b.until(lambda: len(provider_b.calls) == 1)
    running.cancel()
    await running
    await provider_a.until(lambda: provider_a.disconnects == 1)
    await provider_b.until(lambda: provider_b.disconnects == 1)
    await rig.nothing_runs()
    assert ab.row.error_kind == "internal" and ab.fails("A") == ab.fails("B") == 0
    assert [one["provider"] for one in ab.row.attempts or []] == ["A", "B"]


async def test_an_attempt_that_breaks_on_its_own_is_one_that_lost(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, monkeypatch, caplog
):
    """A fault of ours in one attempt costs the others nothing."""

    async def broken(response, framer):
        raise ZeroDivisionError

    look = firsttoken.look
    monkeypatch.setattr(
        firsttoken, "look", lambda r, f, *how: broken(r, f) if not provider_b.calls else look(r, f, *how)
    )
    got = await ab.ask(stream=True)
    assert b"from B" in got.body
    assert ab.trail == [(0, "A", 200, "internal", None), (1, "B", 200, None, "success")]
    assert kinds(ab)[0] == ("A", "internal", "attempt broke: ZeroDivisionError")
    assert any(record.message == "proxy: attempt broke" for record in caplog.records)


async def test_a_2xx_without_a_body_by_its_status_wins(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(reply(204, b""))
    got = await ab.ask(stream=True)
    assert got.status == 204 and ab.trail == [(0, "A", 204, None, "charge")]
