"""One walk for every dialect: who is asked in which words, and what comes back in the client's (v1-api 12 to 16)."""

import json
from typing import Any

import pytest

from proxy import reasons
from tests.proxy.asgi import Answer, client
from tests.proxy.walk.stage import KEY, Stage
from tests.upstream.server import (
    Behaviour,
    FakeProvider,
    Wire,
    answer,
    cut_after,
    delta,
    events,
    raw,
    reply,
    status,
    stream,
    tools_stream,
)

USER = [{"role": "user", "content": "hi"}]
ASK = {"max_tokens": 100, "messages": USER}
NATIVE = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Hello from Claude"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 1, "output_tokens": 6},
}
RESPONSE = {
    "id": "resp_68",
    "object": "response",
    "status": "completed",
    "model": "gpt-5",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hello from OpenAI", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18},
}
GENERATED = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello from Gemini"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 3, "totalTokenCount": 8},
}


def body(value: Any) -> Behaviour:
    return reply(200, value)


def sse(*frames: dict[str, Any], end: bytes = b"") -> Behaviour:
    """A stream in the words of Anthropic and of Responses: every event is named by its type."""
    said = b"".join(
        b"event: %s\ndata: %s\n\n" % (frame["type"].encode(), json.dumps(frame).encode()) for frame in frames
    )
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    return raw(head + said + end)


def block(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **more}}


def words(text: str, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


START = {
    "type": "message_start",
    "message": {**NATIVE, "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}},
}
STOP = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
END = {"type": "message_stop"}
SPOKEN = (START, block(0, "text", text=""), {"type": "ping"}, words("Hel"), words("lo"))
WHOLE = (*SPOKEN, {"type": "content_block_stop", "index": 0}, STOP, END)


def frames(got: Answer) -> list[tuple[str, dict[str, Any]]]:
    """(event, data) of every frame."""
    found = []
    for part in got.body.decode().removesuffix("\n\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in part.split("\n"))
        found.append((lines.get("event", ""), json.loads(lines["data"])))
    return found


def text_of(got: Answer) -> str:
    return "".join(d["delta"]["text"] for e, d in frames(got) if e == "content_block_delta")


@pytest.fixture
def mixed(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    """A speaks Anthropic's dialect, B chat."""
    stage.member("A", provider_a.url, kind="anthropic", key="sk-ant-0123456789")
    stage.member("B", provider_b.url, kind="openai", key="sk-bbbbbbbbbbbbbbb1")
    return stage


# -- /v1/messages


async def test_anthropic_gets_the_body_as_it_came(mixed: Stage, provider_a: FakeProvider):
    provider_a.script(body(NATIVE))
    system = [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    got = await mixed.say("/messages", **ASK, system=system, thinking=thinking)
    assert (got.status, got.json) == (200, NATIVE)
    (call,) = provider_a.calls
    assert call.path == "/v1/messages"
    assert call.json == {"model": "m", **ASK, "system": system, "thinking": thinking}
    assert (call.headers.get("x-api-key"), call.headers.get("anthropic-version")) == ("sk-ant-0123456789", "2023-06-01")
    assert call.headers.get("authorization") is None
    row = mixed.row
    assert (row.endpoint_type, row.tokens_prompt, row.tokens_completion) == ("messages", 15, 6)
    assert (row.tokens_prompt_cache_hit, row.tokens_prompt_cache_miss) == (4, 11)
    assert mixed.trail == [(0, "A", 200, None, "success")]
    assert got.header("request-id") == got.header("x-request-id")


async def test_the_next_candidate_is_asked_in_its_own_words(
    mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """v1-api 70"""
    provider_a.script(status(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
    provider_b.script(answer("Hello from B"))
    thoughts = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    said = [
        {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": [thoughts, {"type": "text", "text": "yes?"}]},
        {"role": "user", "content": "go on"},
    ]
    got = await mixed.say("/messages", max_tokens=9, messages=said)
    assert provider_a.calls[0].json == {"model": "m", "max_tokens": 9, "messages": said}
    sent = provider_b.calls[0].json
    assert provider_b.calls[0].path == "/v1/chat/completions"
    assert "thinking" not in json.dumps(sent) and "cache_control" not in json.dumps(sent)
    assert [m["role"] for m in sent["messages"]] == ["user", "assistant", "user"]
    assert got.status == 200
    assert (got.json["type"], got.json["role"], got.json["model"]) == ("message", "assistant", "m")
    assert got.json["content"] == [{"type": "text", "text": "Hello from B"}]
    assert mixed.trail == [(0, "A", 529, "provider_error", "charge"), (1, "B", 200, None, "success")]


async def test_a_native_stream_passes_byte_for_byte(mixed: Stage, provider_a: FakeProvider):
    provider_a.script(sse(*WHOLE))
    got = await mixed.say("/messages", **ASK, stream=True)
    assert got.status == 200 and got.complete
    assert [d for _, d in frames(got)] == list(WHOLE)
    assert b"[DONE]" not in got.body
    row = mixed.row
    assert (row.state, row.tokens_prompt, row.tokens_completion) == ("completed", 9, 5)
    assert row.ttft_ms is not None


async def test_a_chat_stream_becomes_a_messages_stream(mixed: Stage, provider_b: FakeProvider):
    provider_b.script(stream(["Hel", "lo"]))
    got = await mixed.say("/messages", "B/m", **ASK, stream=True)
    kinds = [e for e, _ in frames(got)]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert text_of(got) == "Hello" and b"[DONE]" not in got.body
    assert dict(frames(got))["message_start"]["message"]["model"] == "m"
    assert mixed.row.state == "completed" and mixed.row.tokens_completion > 0


async def test_calls_of_tools_become_blocks(mixed: Stage, provider_b: FakeProvider):
    provider_b.script(tools_stream())
    tool = {"name": "get_weather", "input_schema": {"type": "object"}}
    got = await mixed.say("/messages", "B/m", **ASK, stream=True, tools=[tool])
    assert provider_b.calls[0].json["tools"][0]["function"]["name"] == "get_weather"
    started = [d["content_block"] for e, d in frames(got) if e == "content_block_start"]
    assert [(b["type"], b["name"]) for b in started] == [("tool_use", "get_weather")]
    pieces = "".join(d["delta"]["partial_json"] for e, d in frames(got) if e == "content_block_delta")
    assert json.loads(pieces) == {"city": "Rome"}
    assert dict(frames(got))["message_delta"]["delta"]["stop_reason"] == "tool_use"


STOPPED = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}


def stopping(reason: str | None) -> Behaviour:
    """A call of a tool that ends with *reason*, whole or streamed."""

    async def behave(wire: Wire) -> None:
        if wire.request.streaming:
            said = [delta(tool_calls=[{**STOPPED, "index": 0}]), delta(finish=reason), b"data: [DONE]\n\n"]
            await events(*said)(wire)
        else:
            choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [STOPPED]}, "finish_reason": reason}
            await reply(200, {"id": "x", "object": "chat.completion", "choices": [choice]})(wire)

    return behave


@pytest.mark.parametrize(("reason", "told"), [("stop", "tool_use"), (None, "tool_use"), ("length", "max_tokens")])
async def test_a_call_that_ends_with_stop_is_a_tool_to_be_used(
    mixed: Stage, provider_b: FakeProvider, reason: str | None, told: str
):
    """OpenAI ends a forced tool so. Clients of Messages go by the reason, those of the others by the call."""
    provider_b.script(stopping(reason))
    got = await mixed.say("/messages", "B/m", **ASK)
    assert ([b["type"] for b in got.json["content"]], got.json["stop_reason"]) == (["tool_use"], told)
    got = await mixed.say("/messages", "B/m", **ASK, stream=True)
    assert dict(frames(got))["message_delta"]["delta"]["stop_reason"] == told
    got = await mixed.ask("B/m")
    assert got.json["choices"][0]["finish_reason"] == reason
    got = await mixed.say("/responses", "B/m", input="hi")
    (item,) = got.json["output"]
    status = "incomplete" if reason == "length" else "completed"
    assert (item["type"], item["name"], got.json["status"]) == ("function_call", "get_weather", status)


async def test_a_first_event_error_moves_on(mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}))
    provider_b.script(stream(["B"]))
    got = await mixed.say("/messages", **ASK, stream=True)
    assert text_of(got) == "B"
    assert [t[1:4] for t in mixed.trail] == [("A", 529, "provider_error"), ("B", 200, None)]


@pytest.mark.parametrize(
    ("frames_sent", "message"),
    [
        (SPOKEN, "stream truncated: upstream closed before message_stop"),
        ((*SPOKEN, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), "Overloaded"),
    ],
    ids=["truncated", "provider's error"],
)
async def test_a_native_stream_that_breaks(
    mixed: Stage, provider_a: FakeProvider, frames_sent: tuple[dict[str, Any], ...], message: str
):
    """v1-api 53: messages"""
    provider_a.script(sse(*frames_sent))
    got = await mixed.say("/messages", **ASK, stream=True)
    kind, last = frames(got)[-1]
    assert (kind, last["type"], last["error"]["message"]) == ("error", "error", message)
    assert [e for e, _ in frames(got)].count("error") == 1
    assert "message_stop" not in [e for e, _ in frames(got)]
    assert (mixed.row.state, mixed.row.error_kind) == ("failed", "provider_error")
    kept = f"{reasons.ENDED} (overloaded_error, status 529)" if message == "Overloaded" else message
    assert mixed.row.error_message == kept


async def test_a_translated_stream_that_breaks(mixed: Stage, provider_b: FakeProvider):
    """v1-api 53: messages"""
    provider_b.script(cut_after(2, clean=True))
    got = await mixed.say("/messages", "B/m", **ASK, stream=True)
    kind, last = frames(got)[-1]
    text = "stream truncated: upstream closed before a finish_reason"
    assert (kind, last) == ("error", {"type": "error", "error": {"type": "api_error", "message": text}})
    assert "message_stop" not in [e for e, _ in frames(got)]
    assert mixed.row.error_message == text


@pytest.mark.parametrize(
    ("given", "code", "kind"),
    [
        ({"key": "sk-wrong"}, 401, "authentication_error"),
        ({"json": {"model": "nobody/x", **ASK}}, 404, "not_found_error"),
        ({"json": {"max_tokens": 1, "messages": USER}}, 400, "invalid_request_error"),
        ({"body": b"{"}, 400, "invalid_request_error"),
        ({"json": {"model": "A/m", "messages": [{"role": "user", "content": 5}]}}, 400, "invalid_request_error"),
    ],
)
async def test_every_refusal_is_in_anthropics_words(mixed: Stage, given: dict[str, Any], code: int, kind: str):
    """v1-api 51"""
    got = await client("POST", "/v1/messages", **{"key": KEY, **given}).run()
    assert got.status == code
    assert list(got.json) == ["type", "error"] and list(got.json["error"]) == ["type", "message"]
    assert (got.json["type"], got.json["error"]["type"]) == ("error", kind)
    assert got.header("request-id") == got.header("x-request-id")


async def test_a_wrong_method_is_in_anthropics_words_too(mixed: Stage):
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        got = await client("GET", path).run()
        assert (got.status, got.header("allow"), got.json["type"]) == (405, "POST", "error")


async def test_a_path_below_messages_that_is_none_is_in_anthropics_words_too(mixed: Stage):
    """The errors of its SDK for batches are its own."""
    for path in ("/v1/messages/batches", "/v1/messages/batches/b1/results", "/v1/messages/"):
        got = await client("GET", path).run()
        assert list(got.json) == ["type", "error"]
    error = {"type": "not_found_error", "message": "unknown endpoint: POST /v1/messages/batches"}
    got = await client("POST", "/v1/messages/batches", key=KEY, json={}).run()
    assert (got.status, got.json) == (404, {"type": "error", "error": error})


async def test_a_providers_refusal_is_in_anthropics_words(mixed: Stage, provider_a: FakeProvider):
    provider_a.script(
        status(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "messages: too few"}})
    )
    got = await mixed.say("/messages", **ASK)
    wanted = {"type": "error", "error": {"type": "invalid_request_error", "message": "messages: too few"}}
    assert (got.status, got.json) == (400, wanted)


async def test_the_beta_header_goes_to_native_candidates_alone(
    mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(body(NATIVE))
    for model in ("A/m", "B/m"):
        headers = [("anthropic-beta", "context-1m-2025-08-07"), ("anthropic-version", "2020-01-01")]
        got = await client("POST", "/v1/messages", key=KEY, json={"model": model, **ASK}, headers=headers).run()
        assert got.status == 200
    assert provider_a.calls[0].headers.get("anthropic-beta") == "context-1m-2025-08-07"
    assert provider_a.calls[0].headers.get("anthropic-version") == "2023-06-01"
    assert provider_b.calls[0].headers.get("anthropic-beta") is None


async def test_a_signature_of_gemini_comes_back_to_it(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """v1-api 78"""
    stage.member("A", provider_a.url, kind="vertex-express")
    stage.member("B", provider_b.url, kind="anthropic")
    provider_b.script(body(NATIVE))
    signed = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "CvQB+/sig=="}
    candidate = {"content": {"role": "model", "parts": [signed]}, "finishReason": "STOP"}
    path = "/v1/publishers/google/models/m:generateContent"
    provider_a.route("POST", path, body({"candidates": [candidate]}))
    got = await stage.say("/messages", "A/m", **ASK)
    (use,) = got.json["content"]
    assert (use["type"], use["name"], use["input"]) == ("tool_use", "f", {"a": 1})
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "r"}
    said = [*USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    for model in ("A/m", "B/m"):
        assert (await stage.say("/messages", model, max_tokens=9, messages=said)).status == 200
    assert provider_a.requests[1].json["contents"][1]["parts"] == [signed]
    turns = provider_b.calls[0].json["messages"]
    plain_id = use["id"].partition("_thoughtsig_")[0]
    assert plain_id and plain_id != use["id"]
    assert turns[1]["content"] == [{**use, "id": plain_id}]
    assert turns[2]["content"] == [{**result, "tool_use_id": plain_id}]


# -- count_tokens


async def test_tokens_are_counted_by_who_can(mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.route("POST", "/v1/messages/count_tokens", body({"input_tokens": 14}))
    got = await mixed.say("/messages/count_tokens", messages=USER)
    assert (got.status, got.json) == (200, {"input_tokens": 14})
    assert provider_a.requests[-1].json == {"model": "m", "messages": USER}
    got = await mixed.say("/messages/count_tokens", "B/m", messages=[{"role": "user", "content": "12345678"}])
    assert (got.status, got.json) == (200, {"input_tokens": 2})
    assert not provider_b.requests and mixed.rows == []


async def test_a_count_that_is_refused(mixed: Stage, provider_a: FakeProvider):
    provider_a.route("POST", "/v1/messages/count_tokens", status(401, {"error": {"message": "bad key sk-ant-1"}}))
    got = await mixed.say("/messages/count_tokens", "A/m", messages=USER)
    wanted = "the provider failed to serve this request (provider A, upstream HTTP 401)"
    assert (got.status, got.json["error"]) == (401, {"type": "authentication_error", "message": wanted})
    provider_a.refuse()
    got = await mixed.say("/messages/count_tokens", "A/m", messages=USER)
    assert (got.status, got.json["error"]["type"]) == (502, "api_error")
    assert "127.0.0.1" not in got.body.decode()


# -- chat, spoken to Anthropic


async def test_chat_to_a_messages_only_provider(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages", key="sk-ant-0123456789")
    provider_a.script(body(NATIVE))
    got = await stage.ask("A/m", max_tokens=7, temperature=0.5)
    (call,) = provider_a.calls
    assert call.path == "/v1/messages"
    assert call.json == {"model": "m", "max_tokens": 7, "temperature": 0.5, "messages": USER}
    choice = got.json["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello from Claude", "stop")
    assert got.json["usage"]["prompt_tokens"] == 15
    assert (stage.row.tokens_prompt, stage.row.tokens_prompt_cache_hit) == (15, 4)


async def test_a_chat_stream_of_a_messages_only_provider(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    provider_a.script(sse(*WHOLE))
    got = await stage.ask("A/m", stream=True)
    chunks = [json.loads(e) for e in got.events[:-1] if not e.startswith(":")]
    assert "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks) == "Hello"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop" and got.events[-1] == "[DONE]"
    assert (stage.row.tokens_prompt, stage.row.tokens_completion) == (9, 5)


@pytest.mark.parametrize("asks", [False, True])
async def test_a_messages_stream_without_its_end(stage: Stage, provider_a: FakeProvider, asks: bool):
    """v1-api 75"""
    stage.member("A", provider_a.url, kind="anthropic-messages")
    provider_a.script(sse(*SPOKEN))
    more = {"stream_options": {"include_usage": True}} if asks else {}
    got = await stage.ask("A/m", stream=True, **more)
    payloads = [json.loads(e) for e in got.events if not e.startswith(":")]
    assert payloads[-1]["error"]["message"].startswith("stream truncated")
    assert not any(c.get("finish_reason") for p in payloads for c in p.get("choices", ()))
    usage_only = [p for p in payloads if p.get("choices") == []]
    assert len(usage_only) == asks
    assert stage.row.tokens_prompt == 9 and stage.row.state == "failed"


async def test_a_document_takes_the_native_route(stage: Stage, provider_a: FakeProvider):
    """v1-api 76"""
    stage.member("A", provider_a.url, kind="anthropic")
    provider_a.script(body(NATIVE), answer("plain"))
    pdf = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0x", "filename": "a.pdf"}}
    got = await stage.client("A/m", messages=[{"role": "user", "content": [pdf]}]).run()
    assert got.json["choices"][0]["message"]["content"] == "Hello from Claude"
    assert provider_a.calls[0].path == "/v1/messages"
    assert provider_a.calls[0].json["messages"][0]["content"][0]["type"] == "document"
    by_id = {"type": "file", "file": {"file_id": "file-1"}}
    await stage.client("A/m", messages=[{"role": "user", "content": [by_id]}]).run()
    assert provider_a.calls[1].path == "/v1/chat/completions"


async def test_the_other_way_of_thinking_is_learned(stage: Stage, provider_a: FakeProvider):
    """v1-api 74"""
    stage.member("A", provider_a.url, kind="anthropic-messages")
    refused = status(400, {"type": "error", "error": {"type": "x", "message": "adaptive thinking is not supported"}})
    provider_a.script(refused, body(NATIVE))
    asked = {"reasoning_effort": "high", "temperature": 0.2, "max_tokens": 100}
    assert (await stage.ask("A/m", **asked)).status == 200
    first, second = (call.json for call in provider_a.calls)
    assert (first["thinking"], first["output_config"], first["max_tokens"]) == (
        {"type": "adaptive"},
        {"effort": "high"},
        4096,
    )
    assert (second["thinking"], second["max_tokens"]) == ({"type": "enabled", "budget_tokens": 8192}, 12288)
    assert "temperature" not in first and "temperature" not in second
    await stage.ask("A/m", **asked)
    assert provider_a.calls[2].json == second


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
LOOP = [*USER, {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "call_1", "content": "1"}]
NO_BLOCK = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is "
    "enabled, a final `assistant` message must start with a thinking block."
)


async def claude_with_a_budget(wire: Any) -> None:
    """What Anthropic says of thinking to an older Claude."""
    asked = wire.request.json
    message, thinking = "", asked.get("thinking", {}).get("type")
    if thinking == "adaptive":
        message = "adaptive thinking is not supported on this model"
    elif thinking and asked.get("tool_choice", {}).get("type") in ("any", "tool"):
        message = "Thinking may not be enabled when tool_choice forces tool use."
    elif thinking and "tool_result" in str(asked["messages"][-1]):
        message = NO_BLOCK
    await (no_format(message) if message else body(NATIVE))(wire)


async def test_a_budget_of_thinking_is_left_out_where_claude_refuses_it(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    provider_a.script(claude_with_a_budget)
    think = {"reasoning_effort": "low", "tools": TOOLS}
    assert (await stage.ask("A/m", **think)).status == 200
    assert (await stage.client("A/m", messages=LOOP, **think).run()).status == 200
    assert (await stage.ask("A/m", tool_choice="required", **think)).status == 200
    assert (await stage.ask("A/m", **think)).status == 200
    budgets = [call.json.get("thinking", {}).get("type") for call in provider_a.calls]
    assert budgets == ["adaptive", "enabled", None, None, "enabled"]


async def test_a_missing_thinking_block_does_not_end_thinking_for_everybody(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    provider_a.script(no_format(NO_BLOCK), body(NATIVE))
    assert (await stage.ask("A/m", reasoning_effort="low")).said == (400, NO_BLOCK)
    assert (await stage.ask("A/m", reasoning_effort="low")).status == 200
    assert all("thinking" in call.json for call in provider_a.calls) and len(provider_a.calls) == 2


@pytest.mark.parametrize("code", [400, 422])
async def test_an_error_of_another_dialect_is_told_in_the_clients(stage: Stage, provider_a: FakeProvider, code: int):
    """README decision 39 of the specification."""
    stage.member("A", provider_a.url, kind="anthropic-messages", key="sk-ant-0123456789abcdef")
    said = "max_tokens: 5 > 4, says sk-ant-0123456789abcdef"
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": said}, "request_id": "req_1"}
    provider_a.script(status(code, body))
    got = await stage.ask("A/m")
    assert got.said == (code, "max_tokens: 5 > 4, says [redacted]")
    assert (got.error["type"], got.error["param"]) == ("invalid_request_error", None)
    native = client("POST", "/v1/messages", key=KEY, json={"model": "A/m", **ASK})
    assert (await native.run()).json == {
        **body,
        "error": {"type": "invalid_request_error", "message": "max_tokens: 5 > 4, says [redacted]"},
    }


async def test_a_rate_limit_that_stays_is_told_in_the_clients_dialect_too(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    stage.set(failover_on_rate_limit="false")
    said = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    provider_a.script(status(429, said, headers={"Retry-After": "7"}))
    got = await stage.ask("A/m")
    assert got.said == (429, "slow down") and got.error["type"] == "rate_limit_error"
    assert got.header("retry-after") == "7"


async def test_thinking_that_is_refused_is_left_out(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    refused = status(400, {"type": "error", "error": {"type": "x", "message": "`thinking` is not permitted here"}})
    provider_a.script(refused, body(NATIVE))
    assert (await stage.ask("A/m", reasoning_effort="high", temperature=0.2)).status == 200
    second = provider_a.calls[1].json
    assert second == {"model": "m", "max_tokens": 4096, "temperature": 0.2, "messages": USER}


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "additionalProperties": False}
BY_SCHEMA = {"response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}}


def no_format(message: str) -> Behaviour:
    return status(400, {"type": "error", "error": {"type": "invalid_request_error", "message": message}})


async def test_a_model_without_schemas_is_asked_in_words_from_then_on(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    provider_a.script(no_format("'m' does not support output format."), body(NATIVE))
    assert (await stage.ask("A/m", **BY_SCHEMA)).status == 200
    first, second = (call.json for call in provider_a.calls)
    assert first["output_config"] == {"format": {"type": "json_schema", "schema": CITY}} and "system" not in first
    assert "output_config" not in second and json.dumps(CITY) in second["system"]
    assert (await stage.ask("A/m", **BY_SCHEMA)).status == 200
    assert provider_a.calls[2].json == second and len(provider_a.calls) == 3
    assert stage.fails("A") == 0


async def test_a_schema_that_is_refused_is_said_in_words_this_once(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    said = "output_config.format.schema: For 'integer' type, property 'minimum' is not supported"
    provider_a.script(no_format(said), body(NATIVE))
    assert (await stage.ask("A/m", **BY_SCHEMA)).status == 200
    assert "output_config" not in provider_a.calls[1].json
    await stage.ask("A/m", **BY_SCHEMA)
    assert "output_config" in provider_a.calls[2].json


async def test_thinking_and_schema_are_each_refused_once(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    thinking = no_format("adaptive thinking is not supported")
    provider_a.script(thinking, no_format("output_config: Extra inputs are not permitted"), body(NATIVE))
    assert (await stage.ask("A/m", reasoning_effort="low", **BY_SCHEMA)).status == 200
    last = provider_a.calls[2].json
    assert last["thinking"]["type"] == "enabled" and "output_config" not in last and "JSON Schema" in last["system"]


async def test_a_400_that_names_no_format_is_the_clients(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="anthropic-messages")
    provider_a.script(no_format("messages: roles must alternate"))
    assert (await stage.ask("A/m", **BY_SCHEMA)).said == (400, "messages: roles must alternate")
    assert len(provider_a.calls) == 1


async def test_a_schema_of_a_messages_client_reaches_a_chat_provider(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url)
    stage.member("D", provider_a.url, kind="deepseek")
    asked = {**ASK, "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": CITY}}}
    for name in ("A", "D"):
        assert (await client("POST", "/v1/messages", key=KEY, json={"model": f"{name}/m", **asked}).run()).status == 200
    first, second = (call.json for call in provider_a.calls)
    assert first["response_format"]["json_schema"] == {"name": "response", "schema": CITY}
    assert second["response_format"] == {"type": "json_object"} and '"city"' in second["messages"][0]["content"]


# -- chat, spoken to Gemini


async def test_chat_to_gemini(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="vertex-express", key="AQ.0123456789abcdef")
    path = "/v1/publishers/google/models/m:generateContent"
    provider_a.route("POST", path, body(GENERATED))
    got = await stage.ask("A/m")
    (request,) = provider_a.requests
    assert (request.path, request.headers.get("x-goog-api-key")) == (path, "AQ.0123456789abcdef")
    assert request.headers.get("authorization") is None
    assert request.json["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert got.json["choices"][0]["message"]["content"] == "Hello from Gemini"
    assert (stage.row.tokens_prompt, stage.row.tokens_completion) == (5, 3)


async def test_a_prompt_that_gemini_blocks_is_nobodys_fault(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="vertex-express")
    path = "/v1/publishers/google/models/m:generateContent"
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}
    provider_a.route("POST", path, body(blocked))
    got = await stage.ask("A/m")
    assert got.said == (502, "prompt blocked: SAFETY (provider A, upstream HTTP 200)")
    assert stage.fails("A") == 0
    assert stage.row.tokens_prompt == 9


# -- /v1/responses


async def test_a_response_of_a_chat_provider(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="openai")
    provider_a.script(answer("Hello"))
    got = await stage.say("/responses", input="hi", instructions="be brief", max_output_tokens=5)
    assert provider_a.calls[0].json == {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
    }
    assert (got.status, got.json["object"], got.json["status"]) == (200, "response", "completed")
    assert got.json["output"][0]["content"][0]["text"] == "Hello" and got.json["model"] == "m"
    assert stage.row.endpoint_type == "responses"


async def test_a_stream_of_responses(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="openai")
    provider_a.script(stream(["Hel", "lo"]))
    got = await stage.say("/responses", input="hi", stream=True)
    kinds = [e for e, _ in frames(got)]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    assert [d["sequence_number"] for _, d in frames(got)] == list(range(len(kinds)))
    last = frames(got)[-1][1]["response"]
    assert last["output"][0]["content"][0]["text"] == "Hello" and last["usage"]["output_tokens"] > 0
    assert b"[DONE]" not in got.body and stage.row.state == "completed"


async def test_a_call_that_length_cut_off(stage: Stage, provider_a: FakeProvider):
    """No client shall run it with arguments that nobody wrote."""
    stage.member("A", provider_a.url)
    said = [delta(tool_calls=[{**STOPPED, "index": 0, "function": {"name": "f", "arguments": '{"path": "/tm'}}])]
    provider_a.script(events(*said, delta(finish="length"), b"data: [DONE]\n\n"))
    got = await stage.say("/responses", "A/m", input="hi", stream=True)
    last = frames(got)[-1][1]
    (item,) = last["response"]["output"]
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert (item["type"], item["arguments"], item["status"]) == ("function_call", '{"path": "/tm', "incomplete")
    assert dict(frames(got))["response.output_item.done"]["item"] == item


async def test_a_responses_stream_that_breaks(stage: Stage, provider_a: FakeProvider):
    """v1-api 53: responses"""
    stage.member("A", provider_a.url, kind="openai")
    provider_a.script(cut_after(2, clean=True))
    got = await stage.say("/responses", input="hi", stream=True)
    kind, last = frames(got)[-1]
    assert (kind, last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["message"].startswith("stream truncated")
    assert b"[DONE]" not in got.body


@pytest.mark.parametrize(
    ("member", "code"),
    [({"store": True}, 400), ({"previous_response_id": "r"}, 400), ({"store": False}, 200), ({}, 200)],
)
async def test_state_is_refused(stage: Stage, provider_a: FakeProvider, member: dict[str, Any], code: int):
    """v1-api 79"""
    stage.member("A", provider_a.url, kind="openai")
    got = await stage.say("/responses", input="hi", **member)
    assert got.status == code
    if code == 400:
        assert got.error["param"] == next(iter(member)) and got.error["code"] == "invalid_value"
        assert not provider_a.calls and stage.row.status_code == 400


async def test_hosted_tools_need_candidates_that_have_them(stage: Stage, provider_a: FakeProvider):
    """v1-api 82"""
    stage.member("A", provider_a.url, kind="openai")
    got = await stage.say("/responses", input="hi", tools=[{"type": "file_search"}])
    wanted = "tools[0]: this tool type is served by OpenAI's /v1/responses only; other routes take function tools"
    assert got.said == (400, wanted) and got.error["param"] == "tools[0]"
    assert (stage.row.error_kind, provider_a.calls) == ("validation", [])


async def test_a_history_at_the_limit_of_nesting_reaches_deepseek(stage: Stage, provider_a: FakeProvider):
    """How deep can be read depends on how deep the reader stands: what was read once may not be read again."""
    stage.member("A", provider_a.url, kind="deepseek", model="deepseek-v4")
    provider_a.script(answer("B"))
    for shape in (b"%b%b", b'[{"role":"user","content":%b%b}]'):
        for deep in range(900, 1000, 2):
            messages = shape % (b"[" * deep, b"]" * deep)
            raw_body = b'{"model":"A/deepseek-v4","messages":%b}' % messages
            got = await client("POST", "/v1/chat/completions", key=KEY, body=raw_body).run()
            assert got.status in (200, 400), deep
            assert got.status == 400 or messages in provider_a.calls[-1].body


# -- chat, spoken to /v1/responses

NO_TOOLS_HERE = "Function tools with reasoning_effort are not supported in chat. Please use /v1/responses instead."
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


async def test_tools_with_reasoning_learn_their_way(stage: Stage, provider_a: FakeProvider):
    """failover-loop 35"""
    stage.member("A", provider_a.url, kind="openai")
    provider_a.script(status(400, {"error": {"message": NO_TOOLS_HERE}}), body(RESPONSE))
    got = await stage.ask("A/m", tools=TOOLS)
    assert got.json["choices"][0]["message"]["content"] == "Hello from OpenAI"
    assert [call.path for call in provider_a.calls] == ["/v1/chat/completions", "/v1/responses"]
    assert provider_a.calls[1].json["store"] is False and provider_a.calls[1].json["tools"][0]["name"] == "f"
    assert stage.trail == [(0, "A", 200, None, "success")] and stage.row.tokens_prompt == 11
    await stage.ask("A/m", tools=TOOLS)
    provider_a.script(answer("plain"))
    await stage.ask("A/m", tools=TOOLS, reasoning_effort="none")
    await stage.ask("A/m")
    paths = [call.path for call in provider_a.calls[2:]]
    assert paths == ["/v1/responses", "/v1/chat/completions", "/v1/chat/completions"]


async def test_what_responses_refuse_is_left_out(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url, kind="openai")
    provider_a.script(
        status(400, {"error": {"message": NO_TOOLS_HERE}}),
        status(400, {"error": {"message": "Unsupported parameter: 'temperature'"}}),
        body(RESPONSE),
    )
    assert (await stage.ask("A/m", tools=TOOLS, temperature=1)).status == 200
    assert "temperature" in provider_a.calls[1].json and "temperature" not in provider_a.calls[2].json
