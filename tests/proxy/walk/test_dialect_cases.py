"""Cases of the other lists that need a dialect: probe, end of a stream, verdicts and refusals of other protocols."""

import json
from typing import Any

import pytest

from tests.proxy.asgi import Answer
from tests.proxy.walk.stage import Stage
from tests.upstream.server import FakeProvider, answer, events, reply, status
from tests.upstream.vendors_api import message_events, named, refused_by_anthropic, text, tool_use

ASK = {"max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
USAGE = {"input_tokens": 3, "output_tokens": 5}
GEMINI_PATH = "/v1/publishers/google/models/m:generateContent"


def of_claude(*blocks: dict[str, Any], stop: str = "end_turn") -> list[dict[str, Any]]:
    return message_events("claude-sonnet-4-5", list(blocks), stop, USAGE)


def sent(*frames: dict[str, Any], end: bool = True):
    return events(*map(named, frames), end=end)


def told(got: Answer) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in got.body.decode().split("\n") if line.startswith("data: ")]


@pytest.fixture
def mixed(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    """A speaks Anthropic's dialect, B chat."""
    stage.member("A", provider_a.url, kind="anthropic", key="sk-ant-0123456789")
    stage.member("B", provider_b.url, kind="openai", key="sk-bbbbbbbbbbbbbbb1")
    return stage


# -- the probe


async def test_pings_are_no_output_of_a_native_stream(mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 78: the first half, with a window of 200 ms."""
    mixed.set(ttft_timeout="200ms")
    start = of_claude(text("x"))[0]
    provider_a.script(events(*[named(start), *[named({"type": "ping"})] * 40], delay=0.02))
    provider_b.script(answer("from B"))
    got = await mixed.say("/messages", **ASK, stream=True)
    assert "".join(d.get("delta", {}).get("text", "") for d in told(got)) == "from B"
    assert mixed.trail == [(0, "A", 200, "provider_timeout", "charge"), (1, "B", 200, None, "success")]


async def test_a_tool_that_is_named_is_output_of_a_native_stream(
    mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 78: the second half. What is silent then was committed to, and fails for good."""
    mixed.set(ttft_timeout="200ms", stream_stall_timeout="200ms")
    opened = of_claude(tool_use("get_weather", {}))[:3]
    assert opened[-1]["content_block"]["name"] == "get_weather"
    provider_a.script(events(*map(named, opened), *[b": ping\n\n"] * 60, delay=0.02, end=False))
    got = await mixed.say("/messages", **ASK, stream=True)
    assert [frame["type"] for frame in told(got)] == ["message_start", "ping", "content_block_start", "error"]
    assert [provider for _, provider, *_ in mixed.trail] == ["A"] and provider_b.calls == []


# -- the end of a native stream


async def test_a_stop_reason_ends_a_native_stream(mixed: Stage, provider_a: FakeProvider):
    """failover-loop 111: complete with a stop reason, and nothing is added."""
    frames = of_claude(text("Hello"))[:-1]
    assert frames[-1]["type"] == "message_delta"
    provider_a.script(sent(*frames))
    got = await mixed.say("/messages", **ASK, stream=True)
    assert got.body == b"".join(map(named, frames))
    assert (mixed.row.state, mixed.row.status_code, mixed.trail[0][4]) == ("completed", 200, "success")


async def test_a_native_stream_without_either_is_truncated(mixed: Stage, provider_a: FakeProvider):
    """failover-loop 111: neither."""
    frames = of_claude(text("Hello"))[:-2]
    provider_a.script(sent(*frames))
    got = await mixed.say("/messages", **ASK, stream=True)
    error = {"type": "api_error", "message": "stream truncated: upstream closed before message_stop"}
    last = b"event: error\ndata: %b\n\n" % json.dumps({"type": "error", "error": error}, separators=(",", ":")).encode()
    assert got.body == b"".join(map(named, frames)) + last
    assert (mixed.row.state, mixed.trail[0][4]) == ("failed", "charge")


async def test_what_was_reported_before_a_translated_stream_broke_is_metered(stage: Stage, provider_a: FakeProvider):
    """Anthropic counts the prompt at the start of a stream, and nothing of that is lost with its end."""
    stage.member("A", provider_a.url, kind="anthropic-messages", key="sk-ant-0123456789")
    frames = of_claude(text("Hello"))[:-2]
    provider_a.script(sent(*frames, end=False))
    got = await stage.ask("A/m", stream=True)
    assert '"error"' in got.events[-1] and "usage" not in got.body.decode()
    assert (stage.row.state, stage.row.tokens_prompt, stage.row.tokens_completion) == ("failed", 3, 0)
    assert stage.charged == 3 + 2  # what was delivered is estimated


# -- verdicts


BLOCKED: dict[str, dict[str, Any]] = {
    "the prompt": {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}},
    "the answer": {"candidates": [{"finishReason": "SAFETY"}], "usageMetadata": {"promptTokenCount": 9}},
}


@pytest.mark.parametrize("blocked", BLOCKED.values(), ids=BLOCKED)
async def test_ten_prompts_that_are_blocked_leave_the_circuit_closed(
    stage: Stage, provider_a: FakeProvider, blocked: dict[str, Any]
):
    """circuit-breaker 24"""
    stage.member("A", provider_a.url, kind="vertex-express", key="AQ.0123456789abcdef")
    provider_a.route("POST", GEMINI_PATH, reply(200, blocked))
    for _ in range(10):
        await stage.ask("A/m")
    assert (stage.fails("A"), stage.state("A"), len(provider_a.requests)) == (0, "closed", 10)


# -- refusals


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
async def test_a_group_that_is_busy_tells_anthropics_clients_in_their_words(
    mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider, streams: bool
):
    """failover-loop 99"""
    provider_a.script(refused_by_anthropic(429, "slow down", retry_after=7))
    provider_b.script(status(429, headers={"Retry-After": "7"}))
    got = await mixed.say("/messages", **ASK, stream=streams)
    text = "all providers busy for model hotel/g, retry shortly"
    assert (got.status, got.header("retry-after")) == (429, "7")
    assert got.json == {"type": "error", "error": {"type": "rate_limit_error", "message": text}}
    outcomes = [(name, code, kind) for _, name, code, kind, _ in mixed.trail]
    busy = (429, "provider_saturated")  # the last one is asked again once its wait is over
    assert outcomes == [("A", *busy), ("B", *busy), ("B", *busy)]
