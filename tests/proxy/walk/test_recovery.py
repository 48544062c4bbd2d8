"""Streams that break after output reached the client, finished by the next candidate (failover-loop 11.4, beyond 1)."""

import asyncio
import json
import logging
from typing import Any

import pytest

from proxy import chat_attempt, reasons, shutdown
from proxy.recovery import PREFILL
from tests.proxy.asgi import Answer
from tests.proxy.walk.stage import Stage
from tests.upstream.server import (
    Behaviour,
    FakeProvider,
    Wire,
    cut_after,
    delta,
    events,
    first_event_error,
    headers_then_silence,
    reply,
    silence,
    status,
    stream,
    tools_stream,
    usage_chunk,
)

WORDS = [f"word{n} " for n in range(59)] + ["end."]
WHOLE = "".join(WORDS)
ROLE = delta("ma", role="assistant", content="")
RECOVERED = ": model-hotel recovered"
READ_ERROR = "stream failed: upstream connection error"
TRUNCATED = "stream truncated: upstream closed before a finish_reason"
REFUSAL = {
    "error": {
        "message": "This model does not support assistant message prefill.",
        "type": "invalid_request_error",
        "code": None,
    }
}


@pytest.fixture(autouse=True)
def nothing_learned():
    PREFILL.reset()
    yield
    PREFILL.reset()


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.recovery = "continue"
    stage.member("A", provider_a.url, model="ma", key="sk-aaaaaaaaaaaaaaaa1111")
    stage.member("B", provider_b.url, model="mb")
    return stage


def begins(*more: Any, words: int = 40, end: bool = True) -> Behaviour:
    """The first *words* words, then *more*; not *end*: the connection breaks there."""
    told = [{**delta("ma", content=word), "id": "chatcmpl-a"} for word in WORDS[:words]]
    return events({**ROLE, "id": "chatcmpl-a"}, *told, *more, end=end)


CUT = begins(end=False)


def completes(whole: str = WHOLE, *, prefill: bool = True, ignores: bool = False, usage: Any = None) -> Behaviour:
    """A candidate that says *whole*, or what is missing of it when it is asked to continue.

    Not *prefill*: it refuses to; *ignores*: it says everything all the same.
    """

    async def behave(wire: Wire) -> None:
        last = wire.request.json["messages"][-1]
        asked = last["content"] if last["role"] == "assistant" else ""
        if asked and not prefill:
            await reply(400, REFUSAL)(wire)
            return
        assert whole.startswith(asked)
        text = whole if ignores else whole[len(asked) :]
        await stream([text[at : at + 7] for at in range(0, len(text), 7)], usage=usage)(wire)

    return behave


def chunks(got: Answer) -> list[dict[str, Any]]:
    return [json.loads(payload) for payload in got.events if payload.startswith("{")]


def words(got: Answer) -> str:
    told = [choice["delta"] for chunk in chunks(got) for choice in chunk.get("choices", [])]
    return "".join(one.get("content") or "" for one in told)


def complete(got: Answer) -> bool:
    """One stream with the whole text once."""
    ids = {chunk["id"] for chunk in chunks(got)}
    roles = [choice["delta"]["role"] for c in chunks(got) for choice in c["choices"] if choice["delta"].get("role")]
    ends = [choice["finish_reason"] for c in chunks(got) for choice in c["choices"] if choice["finish_reason"]]
    assert (ids, roles, ends) == ({"chatcmpl-a"}, ["assistant"], ["stop"])
    assert got.events[-2:] == [RECOVERED, "[DONE]"] and got.events.count("[DONE]") == 1
    return got.complete and words(got) == WHOLE


def error_of(got: Answer) -> str:
    """The text of the error frame, the last event."""
    assert got.complete and "[DONE]" not in got.events and RECOVERED not in got.events
    assert [("error" in chunk) for chunk in chunks(got)].index(True) == len(chunks(got)) - 1
    return chunks(got)[-1]["error"]["message"]


def of_recovery(stage: Stage) -> list[tuple[Any, Any]]:
    return [(e.get("recovery"), e.get("recovered_at")) for e in stage.row.attempts or []]


DELIVERED = len("".join(WORDS[:40]))


async def test_the_next_candidate_continues_where_a_stream_broke(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog
):
    """failover-loop 112 (S08): all words once, one end, the model of the finisher; the row tells both attempts."""
    caplog.set_level(logging.INFO)
    provider_a.script(CUT)
    provider_b.script(completes(usage={"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}))
    got = await ab.ask(stream=True)
    assert complete(got)
    assert {chunk["model"] for chunk in chunks(got)[-5:]} == {"mb"} and chunks(got)[0]["model"] == "ma"
    assert len(provider_a.calls) == len(provider_b.calls) == 1
    told = provider_b.calls[0].json["messages"]
    assert told == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "".join(WORDS[:40]).rstrip()},
    ]
    assert ab.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert of_recovery(ab) == [(None, None), ("prefill", DELIVERED)]
    first = (ab.row.attempts or [])[0]
    assert first["detail"].startswith(READ_ERROR)
    row = ab.row
    assert (row.state, row.status_code, row.error_kind, row.error_message) == ("completed", 200, None, None)
    assert (row.provider_name, row.resolved_model_id, row.failover_attempt) == ("B", "mb", 1)
    assert ab.fails("A", "ma") == 1 and ab.fails("B", "mb") == 0
    line = next(r for r in caplog.records if r.message == "proxy: mid-stream recovery")
    attrs = vars(line)["attrs"]
    assert attrs == {
        "model": "mb",
        "provider": "B",
        "attempt": 2,
        "recovered_at": DELIVERED,
        "recovery": "prefill",
    }


async def test_both_attempts_are_metered_and_the_client_sees_their_sum(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1: usage summed over what was billed. What A did not report is estimated for the key."""
    provider_a.script(CUT)
    provider_b.script(completes(usage={"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}))
    got = await ab.ask(stream=True, stream_options={"include_usage": True})
    (usage,) = [chunk["usage"] for chunk in chunks(got) if chunk.get("usage")]
    estimate = -(-DELIVERED // 4)
    assert usage == {"prompt_tokens": 50 + 1, "completion_tokens": 20 + estimate, "total_tokens": 71 + estimate}
    assert ab.charged == usage["total_tokens"]
    assert (ab.row.tokens_prompt, ab.row.tokens_completion) == (50, 20), "the row keeps what was reported"


async def test_a_refused_prefill_is_never_shown_and_the_answer_is_spliced(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1 (S14): asked afresh in the same attempt; learned, so the next time at once."""
    provider_a.script(CUT)
    provider_b.script(completes(prefill=False))
    for asked in (2, 3):
        got = await ab.ask(stream=True)
        assert complete(got) and b"prefill" not in got.body
        assert len(provider_b.calls) == asked
        assert provider_b.calls[-1].json["messages"] == [{"role": "user", "content": "hi"}]
        assert of_recovery(ab) == [(None, None), ("splice", DELIVERED)]
        assert ab.trail[1] == (1, "B", 200, None, "success")
        ab.board.reset("")


async def test_what_one_model_refuses_another_one_may_still_take(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1: learned per provider and model"""
    ab.set(midstream_recovery_max="2")
    ab.member("B", provider_b.url, model="mc")
    provider_a.script(CUT)
    provider_b.script(completes(prefill=False), model="mb")
    provider_b.script(completes(), model="mc")
    await ab.ask(stream=True)
    provider_b.script(status(503), model="mb")
    assert complete(await ab.ask(stream=True))
    assert of_recovery(ab)[1:] == [("splice", DELIVERED), ("prefill", DELIVERED)]


async def test_a_candidate_that_says_everything_again_is_spliced_and_not_asked_to_continue_again(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1: an answer to a prefill that repeats the text from its start"""
    provider_a.script(CUT)
    provider_b.script(completes(ignores=True))
    assert complete(await ab.ask(stream=True))
    assert of_recovery(ab)[1] == ("prefill", DELIVERED)
    assert complete(await ab.ask(stream=True))
    assert of_recovery(ab)[1] == ("splice", DELIVERED)


async def test_a_silent_stream_is_recovered_once_it_stalled(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1 (S09)"""
    ab.set(stream_stall_timeout="150ms")
    first = [delta("ma", content=word) | {"id": "chatcmpl-a"} for word in WORDS[:20]]

    async def stalls(wire: Wire) -> None:
        await events({**ROLE, "id": "chatcmpl-a"}, *first, end=False)(wire)
        await wire.sleep(20)

    provider_a.script(stalls)
    provider_b.script(completes())
    got = await ab.ask(stream=True)
    assert complete(got)
    assert ab.trail == [(0, "A", 200, "provider_timeout", "charge"), (1, "B", 200, None, "success")]
    assert ab.cause("A", "ma") == ("stream stalled", 200)


@pytest.mark.parametrize(
    ("broken", "detail"),
    [
        (begins(), TRUNCATED),
        (begins({"error": {"message": "overloaded, sorry", "code": 500}}), f"{reasons.ENDED} (status 500)"),
        (begins(b"data: " + b"x" * 5), TRUNCATED),
    ],
    ids=["truncated", "error event", "half an event"],
)
async def test_every_failure_after_output_is_recovered_and_not_shown(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, broken: Behaviour, detail: str
):
    """part of beyond 1; the provider's own error event is held back"""
    provider_a.script(broken)
    provider_b.script(completes())
    got = await ab.ask(stream=True)
    assert complete(got) and b"error" not in got.body
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")
    assert (ab.row.attempts or [])[0]["detail"] == detail
    assert ab.cause("A", "ma") == ("response failed after headers", 200)


async def test_where_recovery_is_off_nothing_of_a_stream_is_kept(
    ab: Stage, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(chat_attempt, "KeptStream", None)
    ab.recovery = None
    ab.set(midstream_recovery_max="10")
    provider_a.script(stream(WORDS))
    assert words(await ab.ask(stream=True)) == WHOLE


async def test_without_the_property_the_error_frame_comes_at_once(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of failover-loop 112: off, and not said with the setting off; the group's word governs"""
    provider_a.script(CUT)
    provider_b.script(completes())
    for recovery, default, wanted in (("off", "continue", False), (None, "off", False), (None, "continue", True)):
        ab.recovery = recovery
        ab.set(midstream_recovery_default=default)
        got = await ab.ask(stream=True)
        if wanted:
            assert complete(got)
        else:
            assert error_of(got) == READ_ERROR and not provider_b.calls
            assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "provider_error")


@pytest.mark.parametrize(
    ("second", "trail"),
    [
        (status(503), (1, "B", 503, "provider_error", "charge")),
        (first_event_error(), (1, "B", 200, "provider_error", "charge")),
        (completes("word0 another answer"), (1, "B", 200, "provider_error", None)),
        (cut_after(0, clean=True), (1, "B", 200, "provider_error", "charge")),
    ],
    ids=["refused", "error first", "differs", "empty"],
)
async def test_a_recovery_that_brings_nothing_new_ends_with_the_first_failures_frame(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, second: Behaviour, trail: tuple[Any, ...]
):
    """part of failover-loop 112: B fails before a new character"""
    PREFILL.refused("00000000-0000-4000-8000-000000000066", "mb")
    provider_a.script(CUT)
    provider_b.script(second)
    got = await ab.ask(stream=True)
    assert error_of(got) == READ_ERROR
    assert words(got) == "".join(WORDS[:40])
    assert ab.trail == [(0, "A", 200, "provider_error", "charge"), trail]
    row = ab.row
    assert (row.state, row.status_code, row.error_kind) == ("failed", 0, "provider_error")
    assert row.provider_name == "A" and (row.error_message or "").startswith(READ_ERROR)
    first, recovery = row.attempts or []
    assert "detail" not in first and recovery["detail"], "the row's message is that of the attempt it names"


async def test_the_held_error_event_is_shown_masked_when_the_recovery_failed(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(begins({"error": {"message": "bad key sk-aaaaaaaaaaaaaaaa1111", "code": "x"}}))
    provider_b.script(status(503))
    got = await ab.ask(stream=True)
    assert error_of(got) == "bad key [redacted]"
    assert ab.row.error_message == reasons.ENDED


async def test_a_recovery_that_fails_later_ends_with_its_own_frame(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1"""
    provider_a.script(CUT)
    provider_b.script(events(*(delta("mb", content=word) for word in [" ", *WORDS[40:45]])))
    got = await ab.ask(stream=True)
    assert error_of(got) == TRUNCATED
    assert words(got) == "".join(WORDS[:45])
    assert ab.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, "provider_error", "charge")]
    assert (ab.row.provider_name, ab.row.error_message) == ("B", TRUNCATED)
    assert "detail" in (ab.row.attempts or [])[0] and "detail" not in (ab.row.attempts or [])[1]


async def test_no_more_recoveries_than_the_setting_allows(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1: midstream_recovery_max; each failed one is charged, and every one goes on from all that came"""
    ab.member("C", provider_b.url, model="mc")
    provider_a.script(CUT)
    provider_b.script(events(*(delta("mb", content=word) for word in [" ", *WORDS[40:45]])), model="mb")
    provider_b.script(completes(), model="mc")
    assert error_of(await ab.ask(stream=True)) == TRUNCATED
    ab.set(midstream_recovery_max="2")
    got = await ab.ask(stream=True)
    assert complete(got)
    assert of_recovery(ab)[1:] == [("prefill", DELIVERED), ("prefill", len("".join(WORDS[:45])))]
    assert (ab.fails("A", "ma"), ab.fails("B", "mb"), ab.fails("C", "mc")) == (2, 2, 0)
    assert ab.row.provider_name == "C"


async def test_only_candidates_that_were_not_contacted_may_finish(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 11.4: B failed before the commit and is not asked again; nobody is left"""
    ab.set(midstream_recovery_max="5")
    provider_a.script(status(503))
    provider_b.script(events(delta("mb", role="assistant"), delta("mb", content="one "), end=False))
    assert error_of(await ab.ask(stream=True)) == READ_ERROR
    assert len(provider_a.calls) == len(provider_b.calls) == 1


@pytest.mark.parametrize("setting", [{"failover_enabled": "false"}, {"failover_max_attempts": "1"}])
async def test_a_recovery_is_a_further_candidate(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, setting: dict[str, str]
):
    ab.set(**setting)
    ab.member("C", provider_b.url, model="mc")
    provider_a.script(status(503))
    provider_b.script(CUT, model="mb")
    provider_b.script(completes(), model="mc")
    await ab.ask(stream=True)
    assert all(call.model != "mc" for call in provider_b.calls)


async def test_a_direct_request_has_nobody_to_finish_it(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    ab.set(midstream_recovery_default="continue")
    provider_a.script(CUT)
    assert error_of(await ab.ask("A/ma", stream=True)) == READ_ERROR
    assert not provider_b.calls


@pytest.mark.parametrize(
    "given",
    [
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        {"n": 2},
        {"logprobs": True},
        {"top_logprobs": 3},
    ],
)
async def test_requests_that_forbid_it_are_not_recovered(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, given: dict[str, Any]
):
    """part of beyond 1"""
    provider_a.script(CUT)
    provider_b.script(completes())
    assert error_of(await ab.ask(stream=True, **given)) == READ_ERROR
    assert not provider_b.calls


async def test_usual_values_of_these_members_forbid_nothing(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(CUT)
    provider_b.script(completes())
    given = {"response_format": {"type": "text"}, "n": 1, "logprobs": False, "top_logprobs": None, "tools": []}
    assert complete(await ab.ask(stream=True, **given))


async def test_a_delivered_tool_call_ends_in_the_error_frame(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of beyond 1: with tools delivered recovery stays off"""
    call = [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}]
    provider_a.script(begins(delta("ma", tool_calls=call), end=False))
    provider_b.script(tools_stream())
    assert error_of(await ab.ask(stream=True)) == READ_ERROR
    assert not provider_b.calls


async def test_nothing_is_recovered_outside_the_overall_deadline(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 11.4: an attempt has 300 ms here and the request 600; A used up its own, B the rest"""
    ab.set(request_timeout="30ms")
    ab.member("C", provider_b.url, model="mc")

    async def stalls(wire: Wire) -> None:
        await events(ROLE, delta("mb", content="one "), end=False)(wire)
        await wire.sleep(20)

    provider_a.script(silence())
    provider_b.script(stalls, model="mb")
    provider_b.script(stream(["one two"]), model="mc")
    got = await ab.ask(stream=True)
    assert error_of(got) == "stream interrupted: upstream request timed out"
    assert [(call.model) for call in provider_b.calls] == ["mb"]
    assert [e.get("error_kind") for e in ab.row.attempts or []] == ["failover_timeout", "failover_timeout"]


async def test_a_client_that_leaves_meanwhile_ends_it(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 17: during a recovery. Nobody further is asked, the row says so, the lease is free."""
    ab.member("C", provider_b.url, model="mc")
    ab.set(midstream_recovery_max="5")
    provider_a.script(CUT)
    provider_b.script(headers_then_silence())
    client = ab.client(stream=True)
    running = asyncio.create_task(client.run())
    await provider_b.until(lambda: len(provider_b.calls) == 1)
    client.left.set()
    await running
    provider_b.wait_disconnects(1)
    assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "client_disconnect")
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge") and len(ab.trail) == 2
    assert (ab.trail[1][1], *ab.trail[1][3:]) == ("B", "client_disconnect", None)
    assert len(provider_b.calls) == 1


async def test_a_client_that_leaves_in_the_pause_before_it_ends_it(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(CUT)
    ab.hold = asyncio.Event()
    client = ab.client(stream=True)
    running = asyncio.create_task(client.run())
    await ab.holding.wait()
    client.left.set()
    await running
    assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "client_disconnect")
    assert len(ab.row.attempts or []) == 1 and not provider_b.calls


@pytest.mark.parametrize("when", ["pause", "probe", "stream"])
async def test_the_end_of_the_gateway_ends_it(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, when: str):
    """failover-loop 11.3: a shutdown meanwhile gives the stream its terminal frame"""
    provider_a.script(CUT)
    if when == "pause":
        ab.hold = asyncio.Event()

    async def goes_on_slowly(wire: Wire) -> None:
        await events(delta("mb", content=" "), delta("mb", content=WORDS[40]), end=False)(wire)
        await wire.sleep(20)

    provider_b.script(headers_then_silence() if when == "probe" else goes_on_slowly)
    client = ab.client(stream=True)
    running = asyncio.create_task(client.run())
    if when == "pause":
        await ab.holding.wait()
    elif when == "probe":
        await provider_b.until(lambda: len(provider_b.calls) == 1)
    else:
        await client.until(WORDS[40].encode())
    assert shutdown.interrupt_streams() == 1
    got = await running
    assert error_of(got) == "stream interrupted: gateway restarting"
    assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "internal")
    assert shutdown.running() == 0
    assert ab.fails("B", "mb") == 0


async def test_thinking_that_was_delivered_does_not_stand_in_the_way(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """The text is what is finished; the thinking of the second candidate stays behind."""
    thought = {**delta("ma", reasoning_content="hm"), "id": "chatcmpl-a"}
    told = [{**delta("ma", content=word), "id": "chatcmpl-a"} for word in WORDS[:3]]
    provider_a.script(events({**ROLE, "id": "chatcmpl-a"}, thought, *told, end=False))
    text = WHOLE[len("".join(WORDS[:3]).rstrip()) :]
    provider_b.script(stream([text], reasoning=["well"]))
    got = await ab.ask(stream=True)
    assert complete(got) and b"well" not in got.body


async def test_a_request_that_ends_in_a_prefill_of_its_own_is_continued_in_it(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(events(ROLE, delta("ma", content="two "), end=False))
    provider_b.script(stream([" three"]))
    messages = [{"role": "user", "content": "count"}, {"role": "assistant", "content": "one "}]
    got = await ab.ask(stream=True, messages=messages)
    assert words(got) == "two three"
    assert provider_b.calls[0].json["messages"] == [messages[0], {"role": "assistant", "content": "one two"}]


async def test_a_chunk_with_usage_before_the_break_is_metered_as_it_was_reported(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(begins(usage_chunk("ma"), {"error": {"message": "late"}}))
    provider_b.script(completes(usage={"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}))
    got = await ab.ask(stream=True, stream_options={"include_usage": True})
    assert [c["usage"]["total_tokens"] for c in chunks(got) if c.get("usage")][-1] == 78
    assert (ab.row.tokens_prompt, ab.row.tokens_completion, ab.charged) == (53, 25, 78)


async def test_the_winner_of_a_race_is_finished_by_a_candidate_that_was_not_launched(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(hedging_enabled="true", hedge_delay="5s")
    provider_a.script(CUT)
    provider_b.script(completes())
    assert complete(await ab.ask(stream=True))
    assert [e.get("hedged") for e in ab.row.attempts or []] == [True, None]
    assert (ab.row.failover_attempt, ab.row.provider_name) == (1, "B")


async def test_a_lease_held_by_another_request_leaves_the_recovery_to_the_next_candidate(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 11.4: a recovery passes the probe lease. One that is skipped is none of those allowed."""
    ab.member("C", provider_b.url, model="mc")
    ab.set(circuit_breaker_threshold="1", circuit_breaker_cooldown="1s")
    provider_a.script(status(503), CUT)
    provider_b.script(status(503), completes(), model="mb")
    provider_b.script(completes(), model="mc")
    await ab.ask("B/mb")
    ab.clock.advance(2)
    assert ab.board.admit("00000000-0000-4000-8000-000000000066", "mb", object(), alone=False, direct=False)
    provider_a.script(CUT)
    assert complete(await ab.ask(stream=True))
    assert [(e["attempt"], e["provider"]) for e in ab.row.attempts or []] == [(-1, "B"), (0, "A"), (1, "C")]


async def test_an_error_text_that_repeats_what_was_delivered_is_kept_nowhere(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 15.3: what was delivered is content of the request by then"""
    provider_a.script(CUT)
    provider_b.script(reply(500, {"error": {"message": f"cannot go on from {WHOLE[:60]}"}}))
    assert error_of(await ab.ask(stream=True)) == READ_ERROR
    assert "detail" not in (ab.row.attempts or [])[1]


async def test_an_error_event_that_repeats_what_was_delivered_is_kept_nowhere(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 15.3: the same once the second candidate has begun to answer"""
    provider_a.script(CUT)
    provider_b.script(events(delta("mb", content=WORDS[40]), {"error": {"message": f"stuck behind {WHOLE[:60]}"}}))
    await ab.ask(stream=True)
    assert (ab.row.state, ab.row.error_message) == ("failed", reasons.ENDED)
    assert "detail" not in (ab.row.attempts or [])[1]


async def test_a_full_provider_is_skipped_and_counts_as_no_recovery(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 11.4: a recovery passes admission. The first attempt's slot is free by then."""
    ab.member("F", provider_b.url, model="mf", most=1)
    ab.member("G", provider_b.url, model="mg")
    ab.set(midstream_recovery_max="2")
    provider_a.script(CUT)
    provider_b.script(status(503), model="mb")
    provider_b.script(completes(), model="mg")
    slot = ab.fill("F")
    assert complete(await ab.ask(stream=True))
    assert [(e["provider"], e.get("error_kind")) for e in ab.row.attempts or []] == [
        ("A", "provider_error"),
        ("B", "provider_error"),
        ("F", "provider_saturated"),
        ("G", None),
    ]
    assert (ab.row.failover_attempt, ab.row.provider_name) == (3, "G")
    ab.windows.release(slot, None)
    assert not any(ab.windows.running().values())


TEXTS = {
    "emoji of several code points": ("we 👩‍💻👨‍👩‍👧 work ", "👩‍💻👨‍👩‍👧 and work"),
    "CJK": ("漢字かな", "交じり文"),
    "inside a combining sequence": ("cafe", "\u0301 au lait"),
    "inside an emoji": ("👩", "\u200d💻!"),
    "code with leading spaces": ("def f(x):\n    if x:\n", "        return 1\n    return 2\n"),
    "behind an indent": ("def f(x):\n    ", "    return 1\n"),
    "between blank lines": ("one\n\n", "\n\ntwo\n"),
    "inside a word": ("recov", "ery of words"),
    "escapes": ('{"a": "\\\\n', '\\"b"}\n<b>&amp;</b>'),
}


@pytest.mark.parametrize("prefill", [True, False], ids=["prefill", "splice"])
@pytest.mark.parametrize("text", TEXTS)
async def test_the_text_is_exactly_the_whole_whatever_stands_at_the_seam(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, text: str, prefill: bool
):
    """part of beyond 1: white space at the seam is kept exact; the second answer comes character by character"""
    begun, rest = TEXTS[text]

    async def goes_on(wire: Wire) -> None:
        last = wire.request.json["messages"][-1]
        if last["role"] == "assistant" and not prefill:
            await reply(400, REFUSAL)(wire)
            return
        said = (begun + rest)[len(last["content"]) :] if last["role"] == "assistant" else begun + rest
        await stream(said)(wire)

    provider_a.script(events(ROLE, *(delta("ma", content=letter) for letter in begun), end=False))
    provider_b.script(goes_on)
    got = await ab.ask(stream=True)
    assert words(got) == begun + rest and got.events[-1] == "[DONE]"


@pytest.mark.parametrize("end", [True, False], ids=["clean end", "cut"])
async def test_a_stream_that_is_cut_inside_a_character_loses_none(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, end: bool
):
    """part of beyond 1: a seam inside a UTF-8 sequence"""
    half = json.dumps(delta("ma", content="é"), ensure_ascii=False).encode().partition("é".encode())[0]
    provider_a.script(events(ROLE, delta("ma", content="caf"), b"data: " + half + "é".encode()[:1], end=end))
    provider_b.script(stream(["é au lait"]))
    got = await ab.ask(stream=True)
    assert words(got) == "café au lait" and got.events[-1] == "[DONE]"
