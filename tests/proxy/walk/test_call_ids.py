"""Conversations with tools that move between vendors: no id of one is refused by the next (v1-api 12.5, 15.3)."""

import json
import re
from typing import Any

import pytest

from providers.kinds.openai import OpenAI
from tests.proxy.asgi import Answer
from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_dialects import NATIVE, RESPONSE, body, frames
from tests.upstream.server import FakeProvider, answer, raw

ASK = {"role": "user", "content": "hi"}
SIGNED = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "CvQB+/sig=="}
CANDIDATE = {"content": {"role": "model", "parts": [SIGNED]}, "finishReason": "STOP"}
GEMINI = "/v1/publishers/google/models/m:%s"
TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]


def called(call_id: str | None, **more: Any):
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}, **more}
    if call_id is not None:
        call["id"] = call_id
    message = {"role": "assistant", "content": None, **({"tool_calls": [call]})}
    return body({"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})


def replayed(got: Answer) -> list[dict[str, Any]]:
    """The next turn of a Messages client."""
    (use,) = got.json["content"]
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "r"}
    return [ASK, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


async def test_an_id_of_kimi_goes_to_anthropic_as_it_takes_it(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url, kind="anthropic")
    provider_a.script(called("functions.f:0"))
    provider_b.script(body(NATIVE))
    said = replayed(await stage.say("/messages", "A/m", max_tokens=9, messages=[ASK]))
    assert said[1]["content"][0]["id"] == "functions.f:0"
    assert (await stage.say("/messages", "B/m", max_tokens=9, messages=said)).status == 200
    sent = json.dumps(provider_b.calls[0].json["messages"])
    assert sent == json.dumps(said).replace("functions.f:0", "functions_f_0")


@pytest.mark.parametrize("kind", ["azure", "custom"])
@pytest.mark.parametrize("gemini", [True, False])
async def test_our_own_ids_are_not_too_long_for_a_chat_provider(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, gemini: bool, kind: str
):
    stage.member("A", provider_a.url, kind="vertex-express" if gemini else "custom")
    stage.member("B", provider_b.url, kind=kind)
    if gemini:
        provider_a.route("POST", GEMINI % "generateContent", body({"candidates": [CANDIDATE]}))
    else:
        provider_a.script(called(None))
    provider_b.script(answer("x"))
    said = replayed(await stage.say("/messages", "A/m", max_tokens=9, messages=[ASK]))
    assert (await stage.say("/messages", "B/m", max_tokens=9, messages=said)).status == 200
    _, asked, result = provider_b.calls[0].json["messages"]
    (call,) = asked["tool_calls"]
    assert call["id"] == result["tool_call_id"] and len(call["id"]) == 40
    assert "extra_content" not in call


async def test_a_chat_client_with_a_call_of_gemini_may_go_on_at_openai(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.member("A", provider_a.url, kind="vertex-express")
    stage.member("B", provider_b.url, kind="azure")
    provider_a.route("POST", GEMINI % "generateContent", body({"candidates": [CANDIDATE]}))
    provider_b.script(answer("x"))
    message = (await stage.ask("A/m")).json["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert re.fullmatch("call_chatcmpl-[0-9a-f]{32}_0", call["id"])
    said = [ASK, message, {"role": "tool", "tool_call_id": call["id"], "content": "r"}]
    await stage.ask("B/m", messages=said)
    _, asked, result = provider_b.calls[0].json["messages"]
    assert asked["tool_calls"] == [{**call, "id": result["tool_call_id"]}]  # the client's own extra_content stays
    assert len(result["tool_call_id"]) == 40
    await stage.ask("A/m", messages=said)
    assert provider_a.requests[-1].json["contents"][1]["parts"] == [SIGNED]


@pytest.mark.parametrize(
    ("kind", "model", "kept"),
    [("google", "m", True), ("openrouter", "google/gemini-3-pro", True), ("custom", "m", False), ("xai", "m", False)],
)
async def test_a_signature_that_we_restored_goes_to_who_understands_it(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, kind: str, model: str, kept: bool
):
    extra = {"google": {"thought_signature": "c2ln"}}
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url, kind=kind, model=model)
    provider_a.script(called("call_1", extra_content=extra))
    provider_b.script(answer("x"))
    said = replayed(await stage.say("/messages", "A/m", max_tokens=9, messages=[ASK]))
    await stage.say("/messages", f"B/{model}", max_tokens=9, messages=said)
    (call,) = provider_b.calls[0].json["messages"][1]["tool_calls"]
    assert (call["id"], call.get("extra_content")) == ("call_1", extra if kept else None)


# -- /v1/responses


def items(got: Answer, stream: bool) -> list[dict[str, Any]]:
    """The output as the SDK gives it to be sent back."""
    if not stream:
        return list(got.json["output"])
    told = frames(got)
    done = [data["item"] for event, data in told if event == "response.output_item.done"]
    assert told[-1][1]["response"]["output"] == done
    return done


@pytest.mark.parametrize("stream", [False, True])
async def test_a_signature_of_gemini_comes_back_to_it_through_responses(
    stage: Stage,
    provider_a: FakeProvider,
    provider_b: FakeProvider,
    monkeypatch: pytest.MonkeyPatch,
    stream: bool,
):
    monkeypatch.setattr(OpenAI, "native_responses", lambda self, base_url: base_url == provider_b.url)
    stage.member("A", provider_a.url, kind="vertex-express")
    stage.member("B", provider_b.url, kind="openai")
    event = b"data: %s\n\n" % json.dumps({"candidates": [CANDIDATE]}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    provider_a.route("POST", GEMINI % "streamGenerateContent", raw(head + event))
    provider_a.route("POST", GEMINI % "generateContent", body({"candidates": [CANDIDATE]}))
    provider_b.script(body(RESPONSE))
    got = await stage.say("/responses", "A/m", input="hi", tools=TOOLS, **({"stream": True} if stream else {}))
    (call,) = items(got, stream)
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "r"}
    said = [ASK, call, output]
    for model in ("A/m", "B/m"):
        assert (await stage.say("/responses", model, input=said, tools=TOOLS)).status == 200
    assert provider_a.requests[-1].json["contents"][1]["parts"] == [SIGNED]
    assert provider_a.requests[-1].json["contents"][2]["parts"][0]["functionResponse"]["name"] == "f"
    plain_id = call["call_id"].partition("_thoughtsig_")[0]
    assert plain_id != call["call_id"] and len(plain_id) <= 64
    assert provider_b.calls[0].json["input"] == [
        ASK,
        {**call, "call_id": plain_id},
        {**output, "call_id": plain_id},
    ]


async def test_reasoning_that_we_made_an_item_of_does_not_go_to_openai(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(OpenAI, "native_responses", lambda self, base_url: base_url == provider_b.url)
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url, kind="openai")
    message = {"role": "assistant", "content": "Hello", "reasoning_content": "hm"}
    provider_a.script(body({"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    provider_b.script(body(RESPONSE))
    got = await stage.say("/responses", "A/m", input="hi")
    reasoning, spoken = got.json["output"]
    assert reasoning["type"] == "reasoning"
    await stage.say("/responses", "B/m", input=[ASK, reasoning, spoken, ASK])
    assert provider_b.calls[0].json["input"] == [ASK, spoken, ASK]
