"""What a provider reported of a translated stream that breaks is metered, however it breaks (v1-api 10.8)."""

import asyncio
import json
from typing import Any

import pytest

from proxy.recovery import PREFILL
from tests.proxy.asgi import Answer
from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_dialect_recovery import goes_on
from tests.proxy.walk.test_dialects import NO_TOOLS_HERE, RESPONSE, SPOKEN, START, TOOLS, USER, body
from tests.upstream.server import Behaviour, FakeProvider, Wire, events, status

CACHED = {"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 5, "output_tokens": 1}
SAID = ({**START, "message": {**START["message"], "usage": CACHED}}, *SPOKEN[1:])
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
FIGURES = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
GENERATED = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}}], "usageMetadata": FIGURES}
UNAVAILABLE = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "created_at": 1}}
TOLD = {"type": "response.output_text.delta", "delta": "Hello", "output_index": 0, "content_index": 0}
SPENT = {"input_tokens": 50, "output_tokens": 9, "total_tokens": 59, "input_tokens_details": {"cached_tokens": 7}}
FAILED = {
    "type": "response.failed",
    "response": {
        "id": "resp_1",
        "status": "failed",
        "error": {"code": "server_error", "message": "no"},
        "usage": SPENT,
    },
}
UNREADABLE = b"data: {bad\n\n"
STREAM = "/v1/publishers/google/models/m:streamGenerateContent"


def anthropic(stage: Stage, provider: FakeProvider, behaviour: Behaviour) -> dict[str, Any]:
    stage.member("A", provider.url, kind="anthropic-messages", key="sk-ant-0123456789")
    provider.script(behaviour)
    return {}


def google(stage: Stage, provider: FakeProvider, behaviour: Behaviour) -> dict[str, Any]:
    stage.member("A", provider.url, kind="vertex-express", key="AQ.0123456789abcdef")
    provider.route("POST", STREAM, behaviour)
    return {}


def openai(stage: Stage, provider: FakeProvider, behaviour: Behaviour) -> dict[str, Any]:
    stage.member("A", provider.url, kind="openai", key="sk-aaaaaaaaaaaaaaa1")
    provider.script(status(400, {"error": {"message": NO_TOOLS_HERE}}), behaviour)
    return {"tools": TOOLS}


def goes_silent(*said: Any) -> Behaviour:
    async def behave(wire: Wire) -> None:
        await events(*said, end=False)(wire)
        wire.close_after = False
        await wire.sleep(20.0)

    return behave


BREAKS = [
    pytest.param(anthropic, events(*SAID, OVERLOADED), (115, 0, 100), id="messages, an error event"),
    pytest.param(anthropic, events(*SAID, UNREADABLE), (115, 0, 100), id="messages, an unreadable event"),
    pytest.param(anthropic, events(*SAID), (115, 0, 100), id="messages, truncated"),
    pytest.param(anthropic, events(*SAID, end=False), (115, 0, 100), id="messages, cut"),
    pytest.param(google, events(GENERATED, UNAVAILABLE), (10, 2, 0), id="gemini, an error event"),
    pytest.param(google, events(GENERATED, {"candidates": 5}), (10, 2, 0), id="gemini, an unreadable event"),
    pytest.param(google, events(GENERATED, UNREADABLE), (10, 2, 0), id="gemini, an event that is not JSON"),
    pytest.param(google, events(GENERATED), (10, 2, 0), id="gemini, truncated"),
    pytest.param(google, events(GENERATED, end=False), (10, 2, 0), id="gemini, cut"),
]
CASES = [
    pytest.param(path, *case.values, id=f"{path[1:].partition('/')[0]} of {case.id}")
    for path in ("/chat/completions", "/messages", "/responses")
    for case in BREAKS
]
# Only chat requests are taken to OpenAI's /v1/responses and back.
CASES.append(pytest.param("/chat/completions", openai, events(CREATED, TOLD, FAILED), (50, 9, 7), id="chat of failed"))


@pytest.mark.parametrize(("path", "provider", "behaviour", "reported"), CASES)
async def test_what_was_reported_is_metered(
    stage: Stage, provider_a: FakeProvider, path: str, provider: Any, behaviour: Behaviour, reported: Any
):
    more = provider(stage, provider_a, behaviour)
    stage.price("A", 1_000_000.0)
    asked = {"input": "hi"} if path == "/responses" else {"messages": USER, "max_tokens": 9}
    got = await stage.say(path, "A/m", stream=True, **asked, **more)
    row = stage.row
    assert (row.state, row.error_kind) == ("failed", "provider_error")
    prompt, completion, _ = reported
    assert (row.tokens_prompt, row.tokens_completion, row.tokens_prompt_cache_hit) == reported
    # What is not reported is estimated for the key, and for nobody else.
    assert stage.charged == prompt + (completion or 2) and row.cost_usd == prompt
    # Nobody asked for the usage chunk.
    if path == "/chat/completions":
        assert '"usage"' not in got.body.decode() and json.loads(got.events[-1])["error"]


@pytest.mark.parametrize(
    ("provider", "said", "reported"),
    [
        pytest.param(anthropic, SAID, (115, 0), id="messages"),
        pytest.param(google, (GENERATED,), (10, 2), id="gemini"),
    ],
)
async def test_a_client_that_leaves_pays_what_was_reported(
    stage: Stage, provider_a: FakeProvider, provider: Any, said: Any, reported: Any
):
    provider(stage, provider_a, goes_silent(*said))
    client = stage.client("A/m", stream=True)
    running = asyncio.create_task(client.run())
    await client.until(b'lo"')
    client.left.set()
    await running
    row = stage.row
    assert (row.error_kind, row.tokens_prompt, row.tokens_completion) == ("client_disconnect", *reported)
    assert stage.charged == reported[0] + (reported[1] or 2)


@pytest.mark.parametrize(
    ("provider", "behaviour", "reported"),
    [
        pytest.param(anthropic, events(*SAID, OVERLOADED), (115, 0), id="messages"),
        pytest.param(google, events(GENERATED, UNAVAILABLE), (10, 2), id="gemini"),
    ],
)
async def test_a_recovered_stream_sums_it(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, provider: Any, behaviour: Behaviour, reported: Any
):
    """beyond 1"""
    PREFILL.reset()
    stage.recovery = "continue"
    provider(stage, provider_a, behaviour)
    stage.member("B", provider_b.url, kind="openai", key="sk-bbbbbbbbbbbbbbb1")
    provider_b.script(goes_on("Hello world"))
    got: Answer = await stage.ask(stream=True, stream_options={"include_usage": True})
    PREFILL.reset()
    (usage,) = [json.loads(e)["usage"] for e in got.events if '"usage"' in e]
    row, (prompt, completion) = stage.row, reported
    own = {"prompt": usage["prompt_tokens"] - prompt, "completion": usage["completion_tokens"] - (completion or 2)}
    assert own["prompt"] > 0 and own["completion"] > 0  # B's, and of A at least what it reported
    assert (row.state, row.provider_name) == ("completed", "B")
    assert (row.tokens_prompt, row.tokens_completion) == (prompt + own["prompt"], completion + own["completion"])
    assert stage.charged == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_a_failed_response_that_came_whole_pays_its_prompt(stage: Stage, provider_a: FakeProvider):
    """failover-loop 9.4"""
    more = openai(stage, provider_a, body({**RESPONSE, "status": "failed", "error": {"code": "server_error"}}))
    got = await stage.ask("A/m", **more)
    assert (got.status, stage.row.tokens_prompt, stage.charged) == (502, 11, 11)
