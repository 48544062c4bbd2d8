"""Streams from a provider to the client: the first-token probe, forwarding, every way of ending."""

import asyncio
import json
import logging
from typing import Any

import pytest

from proxy import reasons
from proxy.stream import chat
from tests.proxy.walk.stage import Stage
from tests.upstream.server import (
    DONE,
    Behaviour,
    FakeProvider,
    Wire,
    cut_after,
    delta,
    empty_stream,
    error_after,
    events,
    first_event_error,
    headers_then_silence,
    http_chunk,
    reply,
    reset,
    silence,
    sse,
    stall_after,
    stream,
    tools_stream,
    usage_chunk,
)

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
ROLE = delta(role="assistant", content="")
STOP = delta(finish="stop")


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url, key="sk-aaaaaaaaaaaaaaaa1111")
    stage.member("B", provider_b.url)
    return stage


def beats(*parts: bytes | float, close: bool = False, end: bool = True) -> Behaviour:
    """A stream of exactly these bytes; numbers are pauses in seconds."""

    async def behave(wire: Wire) -> None:
        await wire.write(HEAD)
        for part in parts:
            if isinstance(part, bytes):
                await wire.write(http_chunk(part))
            else:
                await wire.sleep(part)
        if end:
            await wire.write(b"0\r\n\r\n")
        wire.close_after = close

    return behave


def words(got: Any) -> str:
    """All content of a stream."""
    out = ""
    for payload in got.events:
        if payload.startswith("{"):
            for choice in json.loads(payload).get("choices", []):
                out += choice.get("delta", {}).get("content") or ""
    return out


def last_error(got: Any) -> dict[str, Any]:
    error = json.loads(got.events[-1])["error"]
    assert list(error) == ["message", "type", "param", "code"] and error["type"] == "server_error"
    assert "[DONE]" not in got.events
    return error


# -- a good stream


async def test_a_stream_reaches_the_client_event_by_event_and_byte_for_byte(ab: Stage, provider_a: FakeProvider):
    parts = [sse(ROLE), sse(delta(content="Hel")), sse(delta(content="lo")), sse(STOP), DONE]
    provider_a.script(beats(*parts))
    got = await ab.ask(stream=True)
    assert got.body == b"".join(parts) and got.complete
    assert (got.status, got.header("content-type")) == (200, "text/event-stream")
    assert got.header("cache-control") == "no-cache" and got.header("x-accel-buffering") == "no"
    assert got.header("x-modelhotel-provider") == "A"
    assert ab.trail == [(0, "A", 200, None, "success")]
    row = ab.row
    assert (row.state, row.status_code, row.streaming) == ("completed", 200, True)
    assert row.ttft_ms is not None and row.response_header_ms is not None and row.ttft_ms >= row.response_header_ms
    assert row.attempts is not None and row.attempts[0]["ttft_ms"] > 0


async def test_usage_is_asked_for_metered_and_shown_only_to_who_asked(ab: Stage, provider_a: FakeProvider):
    """v1-api 55"""
    provider_a.script(stream(["a"]))
    got = await ab.ask(stream=True, stream_options={"include_usage": False})
    assert provider_a.calls[0].json["stream_options"] == {"include_usage": True}
    assert b"usage" not in got.body and (ab.row.tokens_prompt, ab.row.tokens_completion) == (3, 5)
    got = await ab.ask(stream=True, stream_options={"include_usage": True})
    assert "usage" in got.events[-2] and got.events[-1] == "[DONE]"
    ab.set(expose_usage_chunk="true")
    got = await ab.ask(stream=True)
    assert "usage" in got.events[-2]
    assert ab.charged == 24


async def test_a_tool_call_streams(ab: Stage, provider_a: FakeProvider):
    provider_a.script(tools_stream("look", ('{"a":', "1}")))
    got = await ab.ask(stream=True)
    assert got.events[-1] == "[DONE]" and ab.trail[0][4] == "success"


@pytest.mark.parametrize("words", [3, 400], ids=["short", "long"])
async def test_the_connection_of_a_finished_stream_is_used_again(ab: Stage, provider_a: FakeProvider, words: int):
    provider_a.script(stream(["some words "] * words), stream(["some words "] * words))
    for _ in range(2):
        assert (await ab.ask(stream=True)).events[-1] == "[DONE]"
    assert provider_a.accepted == 1


async def test_a_done_without_the_end_of_the_body_does_not_hold_the_client(ab: Stage, provider_a: FakeProvider):
    provider_a.script(beats(sse(delta(content="a")), sse(STOP), DONE, 5.0))
    client = ab.client(stream=True)
    running = asyncio.create_task(client.run())
    await client.until(b"[DONE]")
    await asyncio.sleep(0.02)
    assert client.answer.complete and ab.row.state == "completed"
    await running


async def test_a_clean_end_behind_a_finish_reason_gets_its_done(ab: Stage, provider_a: FakeProvider, caplog):
    """failover-loop 83, v1-api 57"""
    caplog.set_level(logging.INFO)
    for tail in (STOP, usage_chunk()):
        provider_a.script(events(delta(content="a"), tail))
        got = await ab.ask(stream=True)
        assert got.events[-1] == "[DONE]" and ab.row.state == "completed" and ab.trail[0][4] == "success"
    assert caplog.messages.count("proxy: upstream omitted [DONE] sentinel; injecting for downstream") == 2


async def test_done_behind_output_completes_a_stream(ab: Stage, provider_a: FakeProvider):
    """failover-loop 83"""
    provider_a.script(events(delta(content="a"), DONE))
    got = await ab.ask(stream=True)
    assert got.events[-1] == "[DONE]" and ab.row.state == "completed"


# -- wire forms


async def test_odd_wire_forms_arrive_whole(ab: Stage, provider_a: FakeProvider):
    """failover-loop 109, v1-api 58"""
    first = json.dumps(delta(content="one ")).encode()
    second = json.dumps(delta(content="two "), indent=1).encode()
    raw = b"\xef\xbb\xbfdata:" + first + b"\r\r: ping\r\n\r\n"
    raw += b"".join(b"data: " + line + b"\r" for line in second.split(b"\n")) + b"\r"
    raw += sse(delta(content="three")) + b"\n\n: ping\n\n" + b"data: " + json.dumps(STOP).encode()
    provider_a.script(beats(*(raw[i : i + 7] for i in range(0, len(raw), 7))))
    got = await ab.ask(stream=True)
    assert words(got) == "one two three"
    assert got.body.count(b": ping\n\n") == 2 and b"data: : ping" not in got.body
    assert got.events[-1] == "[DONE]"


async def test_a_line_of_twenty_mebibytes_arrives(ab: Stage, provider_a: FakeProvider):
    """failover-loop 109"""
    text = "x" * (20 << 20)
    provider_a.script(events(delta(content="a"), delta(content=text), STOP))
    got = await ab.ask(stream=True)
    assert len(words(got)) == len(text) + 1


async def test_a_line_over_the_limit_ends_the_stream(ab: Stage, provider_a: FakeProvider):
    """failover-loop 109"""
    provider_a.script(events(delta(content="a"), b"data: " + b"x" * (33 << 20)))
    got = await ab.ask(stream=True)
    assert last_error(got)["message"] == "stream failed: a frame exceeded the gateway's 32 MiB line limit"
    assert ab.fails("A") == 1 and ab.row.error_kind == "provider_error"


async def test_too_many_blank_lines_end_the_stream(ab: Stage, provider_a: FakeProvider):
    provider_a.script(events(delta(content="a"), b"\n" * 1500, STOP))
    got = await ab.ask(stream=True)
    assert last_error(got)["message"] == "stream interrupted: too many empty lines"


async def test_broken_json_is_dropped_and_the_rest_arrives(ab: Stage, provider_a: FakeProvider):
    """v1-api 59"""
    provider_a.script(events(delta(content="a"), b"data: {oops\n\n", delta(content="b"), STOP))
    got = await ab.ask(stream=True)
    assert words(got) == "ab" and b"oops" not in got.body


async def test_a_key_with_strip_reasoning_sees_hollow_chunks(ab: Stage, provider_a: FakeProvider):
    """v1-api 60"""
    ab.strip_reasoning = True
    provider_a.script(stream(["a"], reasoning=["secret thought"]))
    ab.set()
    got = await ab.ask(stream=True)
    assert b"secret thought" not in got.body and words(got) == "a"


# -- the probe


async def test_keepalives_do_not_stretch_the_probe(ab: Stage, provider_a: FakeProvider):
    """failover-loop 72"""
    ab.set(ttft_timeout="200ms")
    provider_a.script(beats(sse(ROLE), *(part for _ in range(40) for part in (b": keepalive\n\n", 0.02))))
    got = await ab.ask(stream=True)
    assert words(got) == "from B" and b"keepalive" not in got.body
    assert ab.trail == [(0, "A", 200, "provider_timeout", "charge"), (1, "B", 200, None, "success")]
    assert ab.fails("A") == 1
    provider_a.wait_disconnects(1)


async def test_an_empty_answer_is_forwarded_and_charged_once(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 73, circuit-breaker 8"""
    provider_a.script(events(ROLE, STOP, DONE))
    got = await ab.ask(stream=True)
    assert [json.loads(e)["choices"][0]["finish_reason"] for e in got.events[:-1]] == [None, "stop"]
    assert got.events[-1] == "[DONE]" and not provider_b.calls
    assert ab.trail == [(0, "A", 200, None, "charge")] and ab.fails("A") == 1
    provider_a.script(events(ROLE, usage_chunk(usage={"prompt_tokens": 3, "completion_tokens": 0})))
    got = await ab.ask(stream=True)
    assert got.status == 200 and got.events[-1] == "[DONE]" and not provider_b.calls
    assert ab.trail == [(0, "A", 200, None, "charge")] and ab.fails("A") == 2
    assert ab.cause("A") == ("response completed without delivering content", 200)


@pytest.mark.parametrize("behaviour", [empty_stream(), empty_stream(done=False), beats(b": ping\n\n")])
async def test_a_stream_without_any_event_moves_on(behaviour: Behaviour, ab: Stage, provider_a: FakeProvider):
    """failover-loop 74"""
    provider_a.script(behaviour)
    assert words(await ab.ask(stream=True)) == "from B"
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")
    got = await ab.ask("A/m", stream=True)
    assert got.said == (502, "provider returned an empty stream (provider A, upstream HTTP 200)")


async def test_an_empty_stream_without_5xx_in_the_list_is_the_last_word(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 67a"""
    ab.set(failover_retry_on_statuses="429")
    provider_a.script(empty_stream())
    got = await ab.ask(stream=True)
    assert got.said == (502, "provider returned an empty stream (provider A, upstream HTTP 200)")
    assert not provider_b.calls and ab.fails("A") == 1


async def test_a_role_and_a_clean_end_move_on(ab: Stage, provider_a: FakeProvider):
    """failover-loop 110"""
    for tail in ((), (DONE,)):
        provider_a.script(events(ROLE, *tail))
        got = await ab.ask(stream=True)
        assert words(got) == "from B"
        assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")
    got = await ab.ask("A/m", stream=True)
    assert got.said == (502, "the provider stopped sending its response (provider A, upstream HTTP 200)")


async def test_an_error_as_first_event_is_as_if_that_status_had_come(ab: Stage, provider_a: FakeProvider):
    """part of failover-loop 75"""
    provider_a.script(first_event_error({"message": "boom"}))
    assert words(await ab.ask(stream=True)) == "from B"
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")
    assert ab.row.attempts is not None and ab.row.attempts[0]["detail"] == "boom"
    got = await ab.ask("A/m", stream=True)
    assert got.said == (502, "the provider failed to serve this request (provider A, upstream HTTP 200)")
    assert len(provider_a.calls) == 2  # no retry: the provider has generated already
    provider_a.script(first_event_error({"code": 404, "message": "gone"}))
    await ab.ask(stream=True)
    assert ab.trail[0] == (0, "A", 404, "provider_error", "noop")
    assert ab.row.tokens_prompt == 3 and ab.charged == 16


async def test_an_error_after_openers_is_still_a_first_event(ab: Stage, provider_a: FakeProvider):
    provider_a.script(events(ROLE, {"error": {"code": 503, "message": "late"}}))
    assert words(await ab.ask(stream=True)) == "from B"
    assert ab.trail[0] == (0, "A", 503, "provider_error", "charge")


async def test_a_carried_400_is_an_ordinary_answer(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 76"""
    provider_a.script(first_event_error({"code": 400, "message": "bad for sk-aaaaaaaaaaaaaaaa1111"}))
    got = await ab.ask(stream=True)
    assert got.status == 400 and got.header("content-type") == "application/json"
    assert got.json == {"error": {"code": 400, "message": "bad for [redacted]"}}
    assert not provider_b.calls and ab.trail == [(0, "A", 400, "provider_error", "alive")]


async def test_a_carried_prompt_too_long_looks_for_a_larger_window(ab: Stage, provider_a: FakeProvider):
    error = {"code": 400, "type": "context_length_exceeded", "message": "too long"}
    provider_a.script(first_event_error(error))
    assert words(await ab.ask(stream=True)) == "from B"
    assert ab.trail[0] == (0, "A", 400, "provider_bad_request", "alive")


async def test_a_single_newline_is_a_first_token(ab: Stage, provider_a: FakeProvider):
    """failover-loop 79"""
    provider_a.script(events(delta(content="\n"), STOP, DONE))
    assert words(await ab.ask(stream=True)) == "\n"
    assert ab.trail[0][1] == "A"


async def test_without_a_probe_the_headers_commit(ab: Stage, provider_a: FakeProvider):
    """failover-loop 80"""
    ab.set(ttft_timeout="0s")
    provider_a.script(first_event_error({"message": "boom sk-aaaaaaaaaaaaaaaa1111"}))
    got = await ab.ask(stream=True)
    assert got.status == 200 and got.events == ['{"error": {"message": "boom [redacted]"}}']
    assert (ab.row.status_code, ab.row.state, ab.row.ttft_ms) == (0, "failed", None)


async def test_without_a_probe_nothing_at_all_is_a_truncation(ab: Stage, provider_a: FakeProvider):
    ab.set(ttft_timeout="0s")
    provider_a.script(empty_stream(done=False))
    got = await ab.ask(stream=True)
    assert last_error(got)["message"] == "stream truncated: upstream closed connection without [DONE] sentinel"


async def test_a_connection_lost_in_the_probe_moves_on(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reset(before_headers=False))
    assert words(await ab.ask(stream=True)) == "from B"
    assert ab.trail[0] == (0, "A", 200, "provider_error", "charge")


async def test_no_headers_in_time_is_left_for_the_next(ab: Stage, provider_a: FakeProvider, caplog):
    """failover-loop 114"""
    ab.set(ttft_timeout="100ms", request_timeout="200ms")
    provider_a.script(silence())
    assert words(await ab.ask(stream=True)) == "from B"
    assert len(provider_a.calls) == 1
    assert ab.trail[0] == (0, "A", None, "provider_timeout", "charge") and ab.fails("A") == 1
    assert ab.row.attempts is not None and 190 <= ab.row.attempts[0]["duration_ms"] < 5_000
    assert "proxy: upstream sent no response headers before the header timeout" in caplog.messages


async def test_an_answer_that_is_no_stream_moves_on(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, {"choices": []}))
    assert words(await ab.ask(stream=True)) == "from B"


# -- how a stream ends


async def test_a_clean_end_without_anything_said_is_a_truncation(ab: Stage, provider_a: FakeProvider):
    """failover-loop 83, v1-api 57, circuit-breaker 68a"""
    ab.set(circuit_breaker_threshold="3")
    provider_a.script(cut_after(3, clean=True))
    for _ in range(3):
        got = await ab.ask("A/m", stream=True)
        error = last_error(got)
        assert (error["message"], error["code"]) == (
            "stream truncated: upstream closed before a finish_reason",
            "provider_error",
        )
        assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "provider_error")
        assert ab.trail == [(0, "A", 200, "provider_error", "charge")]
        assert ab.cause("A") == ("response failed after headers", 200)
    assert ab.state("A") == "open"


@pytest.mark.parametrize("behaviour", [cut_after(3), cut_after(3, reset=True)])
async def test_a_cut_after_output_ends_in_one_error_frame(
    behaviour: Behaviour, ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of v1-api 53, circuit-breaker 68a"""
    provider_a.script(behaviour)
    got = await ab.ask(stream=True)
    assert words(got) == "tok0 tok1 tok2 "
    assert last_error(got)["message"] == "stream failed: upstream connection error"
    assert not provider_b.calls and ab.trail == [(0, "A", 200, "provider_error", "charge")]
    assert ab.fails("A") == 1 and ab.cause("A") == ("response failed after headers", 200)
    assert "127.0.0.1" not in got.body.decode()
    assert ab.charged > 0 and ab.row.tokens_completion == 0


async def test_an_error_event_after_output_is_the_one_error_the_client_sees(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 77, v1-api 52"""
    provider_a.script(error_after(1, {"message": "broke with sk-aaaaaaaaaaaaaaaa1111"}))
    got = await ab.ask(stream=True)
    assert got.events[-1] == '{"error": {"message": "broke with [redacted]"}}' and len(got.events) == 2
    assert not provider_b.calls
    assert ab.trail == [(0, "A", 200, "provider_error", "charge")]
    assert (ab.row.status_code, ab.row.state, ab.row.error_message) == (0, "failed", reasons.ENDED)
    assert ab.fails("A") == 1 and ab.cause("A") == ("response failed after headers", 200)


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, ""),
        ({"code": 529}, " (status 529)"),
        ({"code": "my own"}, ""),
        ({"type": "overloaded_error"}, " (overloaded_error, status 529)"),
        ({"code": "server_error"}, " (server_error)"),
    ],
)
async def test_of_an_error_event_after_output_the_row_keeps_no_word(
    more: dict[str, Any], kept: str, ab: Stage, provider_a: FakeProvider
):
    """It may quote the prompt, and by then the answer as well."""
    provider_a.script(error_after(1, {"message": "no tool call: tok0 tok1", "type": "tok0", **more}))
    await ab.ask(stream=True)
    assert ab.row.error_message == f"{reasons.ENDED}{kept}"
    assert "tok" not in repr(ab.row.attempts)


async def test_an_output_nobody_can_model_charges_nobody(ab: Stage, provider_a: FakeProvider):
    provider_a.script(
        events({"type": "odd", "words": "x"}, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    )
    got = await ab.ask(stream=True)
    assert got.events[0] == '{"type": "odd", "words": "x"}'
    assert ab.trail == [(0, "A", 200, None, None)] and ab.fails("A") == 0


# -- the stall watchdog


async def test_a_silent_stream_stalls(ab: Stage, provider_a: FakeProvider, caplog):
    """failover-loop 81"""
    ab.set(stream_stall_timeout="400ms")
    provider_a.script(stall_after(10))
    got = await ab.ask(stream=True)
    error = last_error(got)
    assert (error["message"], error["code"]) == ("stream stalled: no data for 400ms", "provider_timeout")
    assert ab.trail == [(0, "A", 200, "provider_timeout", "charge")] and ab.row.status_code == 0
    provider_a.wait_disconnects(1)
    (record,) = [r for r in caplog.records if r.message == "proxy: stream stall detected"]
    assert record.attrs == {
        "model": "m",
        "provider": "A",
        "stall_timeout": "400ms",
        "base_timeout": "400ms",
        "chunks": 10,
    }


async def test_after_fifty_chunks_the_window_is_three_times_as_long(ab: Stage, provider_a: FakeProvider):
    """failover-loop 81"""
    ab.set(stream_stall_timeout="400ms")
    chunks = [sse(delta(content="t")) for _ in range(51)]
    provider_a.script(beats(*chunks, 0.7, sse(delta(content="!")), sse(STOP), DONE))
    got = await ab.ask(stream=True)
    assert words(got).endswith("t!") and ab.row.state == "completed"
    provider_a.script(beats(*chunks[:50], 0.7, sse(STOP), DONE))
    assert last_error(await ab.ask(stream=True))["message"] == "stream stalled: no data for 400ms"


async def test_comments_are_activity_but_no_chunks(ab: Stage, provider_a: FakeProvider):
    """failover-loop 81"""
    ab.set(stream_stall_timeout="400ms")
    chunks = [sse(delta(content="t")) for _ in range(30)]
    keepalives = [part for _ in range(25) for part in (b": ping\n\n", 0.02)]
    provider_a.script(beats(*chunks, *keepalives, 0.7, sse(STOP), DONE))
    got = await ab.ask(stream=True)
    assert got.body.count(b": ping\n\n") == 25
    assert last_error(got)["message"] == "stream stalled: no data for 400ms"


async def test_a_line_without_an_end_stalls(ab: Stage, provider_a: FakeProvider):
    """failover-loop 82"""
    ab.set(stream_stall_timeout="400ms")
    provider_a.script(beats(sse(delta(content="a")), b"data: ", *(part for _ in range(30) for part in (0.03, b"x"))))
    assert "stalled" in last_error(await ab.ask(stream=True))["message"]


async def test_without_a_stall_timeout_silence_is_allowed(ab: Stage, provider_a: FakeProvider):
    ab.set(stream_stall_timeout="0s")
    provider_a.script(beats(sse(delta(content="a")), 0.2, sse(STOP), DONE))
    assert (await ab.ask(stream=True)).events[-1] == "[DONE]"


async def test_the_attempts_deadline_ends_a_running_stream(ab: Stage, provider_a: FakeProvider):
    ab.set(request_timeout="30ms", ttft_timeout="30ms", stream_stall_timeout="0s")
    provider_a.script(stall_after(1))
    got = await ab.ask("A/m", stream=True)
    error = last_error(got)
    assert (error["message"], error["code"]) == ("stream interrupted: upstream request timed out", "failover_timeout")
    assert ab.trail == [(0, "A", 200, "failover_timeout", "charge")]


async def test_what_arrives_together_goes_out_in_one_write(ab: Stage, provider_a: FakeProvider):
    together = b"".join(sse(delta(content=str(i))) for i in range(20))
    provider_a.script(beats(sse(delta(content="a")), 0.05, together, 0.05, sse(STOP) + DONE))
    got = await ab.ask(stream=True)
    assert together in got.pieces


async def test_headers_and_silence_move_on(ab: Stage, provider_a: FakeProvider):
    ab.set(ttft_timeout="100ms")
    provider_a.script(headers_then_silence())
    assert words(await ab.ask(stream=True)) == "from B"


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "turn by turn"])
async def test_chunks_that_repeat_one_another_pass_with_and_without_the_servers_short_way(
    ab: Stage, provider_a: FakeProvider, direct: bool
):
    words = [f"word{n} " for n in range(12)]
    provider_a.script(stream(words, delay=0.03))
    client = ab.client(stream=True)
    if not direct:
        client.scope.pop("extensions")
    got = await client.run()
    texts = [json.loads(event)["choices"][0]["delta"].get("content") or "" for event in got.events[:-1]]
    assert "".join(texts) == "".join(words) and got.events[-1] == "[DONE]"
    assert (client.direct > 0) is direct
    row = ab.row
    assert (row.state, row.status_code, ab.trail[0][4]) == ("completed", 200, "success")


async def test_a_stall_behind_chunks_of_the_short_way_is_a_stall(ab: Stage, provider_a: FakeProvider):
    ab.set(stream_stall_timeout="500ms")
    provider_a.script(beats(*[part for n in range(6) for part in (sse(delta(content=f"w{n} ")), 0.03)], 5.0))
    got = await ab.ask(stream=True)
    assert json.loads(got.events[-1])["error"]["code"] == "provider_timeout"
    assert ab.row.error_kind == "provider_timeout" and "w5 " in got.body.decode()


TOLD = [f"word{n} " for n in range(30)]
WHOLE = b"".join(sse(chunk) for chunk in (ROLE, *[delta(content=word) for word in TOLD], STOP)) + DONE


@pytest.mark.parametrize("cut", [0, 10, 350, 2000, 2001, len(WHOLE) - 20, len(WHOLE) - 2])
async def test_however_a_stream_was_cut_few_of_its_chunks_are_taken_apart(
    ab: Stage, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch, cut: int
):
    decoded: list[bytes] = []
    decode = chat._chunk
    monkeypatch.setattr(chat, "_chunk", lambda payload: decoded.append(payload) or decode(payload))
    provider_a.script(beats(WHOLE[:cut], 0.05, WHOLE[cut:]) if cut else beats(WHOLE))
    got = await ab.ask(stream=True)
    assert got.body == WHOLE
    assert (ab.row.state, ab.trail[0][4]) == ("completed", "success")
    assert len(decoded) <= 8  # the opener, the first words, what the cut went through, the end
