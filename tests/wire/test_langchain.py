"""Conversations as LangChain's ``ChatOpenAI`` has them: what it sends, how it puts a stream together and replays it."""

import json
from typing import Any

import pytest

from tests.upstream.behaviours import as_asked
from tests.upstream.server import DONE, answer, delta, events, status, stream
from tests.upstream.vendors_api import called, generated, message, response, said, text, tool_use
from tests.wire.clients import frames
from tests.wire.mixed import CHAT, GATEWAY, GROUP, PRO, VERTEX, Mixed

pytestmark = pytest.mark.slow

Item = dict[str, Any]
TOOL: Item = {
    "type": "function",
    "function": {
        "name": "multiply",
        "description": "",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}
CALLS = [("call_1", {"a": 3, "b": 4}), ("call_2", {"a": 5, "b": 6})]


def chat(hotel: Mixed, model: str, history: list[Item], *, streamed: bool) -> Item:
    """One turn; the assistant's message as it goes into the history."""
    body = {"model": model, "messages": history, "tools": [TOOL], "temperature": 0.7, "n": 1, "stream": streamed}
    if streamed:
        body["stream_options"] = {"include_usage": True}
    got = hotel.home.http.post("/v1/chat/completions", json=body)
    assert got.status_code == 200, got.text
    content, made, finish = "", [], ""
    if streamed:
        found, end = [data for _, data in frames(got.text)][:-1], frames(got.text)[-1]
        assert end == ("", {}) and [data["usage"]["total_tokens"] > 0 for data in found if data.get("usage")] == [True]
        for choice in (choice for data in found for choice in data["choices"]):
            content += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
            for piece in choice["delta"].get("tool_calls") or []:
                # Strings of one index are put together: whatever came twice would stand there twice.
                if piece["index"] == len(made):
                    made.append({"id": "", "name": "", "arguments": ""})
                made[piece["index"]]["id"] += piece.get("id") or ""
                for member in ("name", "arguments"):
                    made[piece["index"]][member] += piece["function"].get(member) or ""
    else:
        (choice,) = got.json()["choices"]
        content, finish = choice["message"].get("content") or "", choice["finish_reason"]
        made = [{"id": call["id"], **call["function"]} for call in choice["message"].get("tool_calls") or []]
    assert finish == ("tool_calls" if made else "stop")
    turn: Item = {"role": "assistant", "content": content or None}
    if made:
        turn["tool_calls"] = [
            {
                "type": "function",
                "id": call["id"],
                "function": {"name": call["name"], "arguments": json.dumps(json.loads(call["arguments"]))},
            }
            for call in made
        ]
    return turn


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", [CHAT, GATEWAY, VERTEX, PRO, GROUP])
def test_a_model_calls_its_tools_and_answers(hotel, model, streamed):
    calls = [
        {"id": id, "type": "function", "function": {"name": "multiply", "arguments": json.dumps(given)}}
        for id, given in CALLS
    ]
    pieces = [
        piece
        for at, call in enumerate(calls)
        for piece in (
            {"index": at, **call, "function": {"name": "multiply", "arguments": ""}},
            {"index": at, "function": {"arguments": call["function"]["arguments"][:4]}},
            {"index": at, "function": {"arguments": call["function"]["arguments"][4:]}},
        )
    ]
    usage = {"usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}, "choices": []}
    asks = events(
        *(delta(tool_calls=[piece]) for piece in pieces), delta("m", "tool_calls"), {**delta(), **usage}, DONE
    )
    hotel.a.script(
        as_asked(answer(None, finish="tool_calls", tool_calls=calls), asks),
        as_asked(answer("12, 30."), stream(["12, ", "30."])),
    )
    hotel.gateway.script(message(*(tool_use("multiply", given, id) for id, given in CALLS)), message(text("12, 30.")))
    parts = [{"functionCall": {"name": "multiply", "args": given}} for _, given in CALLS]
    hotel.vertex.script(generated(*parts), generated({"text": "12, 30."}))
    hotel.openai.script(
        response(*(called("multiply", json.dumps(given), id) for id, given in CALLS)), response(said("12, 30."))
    )
    if model == GROUP:
        hotel.order("OpenAI", "Alpha")
        hotel.openai.script(status(503))
    history: list[Item] = [{"role": "system", "content": "You multiply."}, {"role": "user", "content": "3 * 4, 5 * 6"}]
    turn = chat(hotel, model, history, streamed=streamed)
    made = turn["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in made] == [given for _, given in CALLS]
    assert [call["function"]["name"] for call in made] == ["multiply"] * 2 and made[0]["id"] != made[1]["id"]
    results = [
        {"role": "tool", "content": content, "tool_call_id": call["id"]}
        for call, content in zip(made, ("12", "30"), strict=True)
    ]
    history += [turn, *results]
    assert chat(hotel, model, history, streamed=streamed) == {"role": "assistant", "content": "12, 30."}
    if model in (CHAT, GROUP):
        assert hotel.a.calls[1].json["messages"] == history and hotel.a.calls[1].json["tools"] == [TOOL]
    elif model == GATEWAY:
        *_, asked, answered = hotel.gateway.calls[1].json["messages"]
        assert [(block["id"], block["input"]) for block in asked["content"]] == CALLS
        assert answered["content"] == [
            {"type": "tool_result", "tool_use_id": id, "content": content}
            for (id, _), content in zip(CALLS, ("12", "30"), strict=True)
        ]
    elif model == VERTEX:
        *_, asked, answered = hotel.vertex.calls[1].json["contents"]
        assert asked == {"role": "model", "parts": parts}
        assert [part["functionResponse"]["name"] for part in answered["parts"]] == ["multiply"] * 2
    else:
        sent = hotel.openai.calls[1].json["input"][-4:]
        assert [item["type"] for item in sent] == ["function_call"] * 2 + ["function_call_output"] * 2
        assert [(item["call_id"], item["output"]) for item in sent[2:]] == [("call_1", "12"), ("call_2", "30")]


@pytest.mark.parametrize("model", [CHAT, GATEWAY, VERTEX])
def test_langchain_replays_empty_lists_of_tool_calls(hotel, model):
    """v1-api 63"""
    tool = {"type": "function", "function": {"name": "multiply", "description": "", "parameters": {"type": "object"}}}
    history = [
        {"role": "system", "content": "You multiply."},
        {"role": "user", "content": "hi", "name": "ada"},
        {"role": "assistant", "content": "Hello.", "tool_calls": []},
        {"role": "user", "content": "3 * 4"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"type": "function", "id": "call_9", "function": {"name": "multiply", "arguments": '{"a": 3, "b": 4}'}}
            ],
        },
        {"role": "tool", "content": "12", "tool_call_id": "call_9"},
    ]
    hotel.a.script(stream(["12", "."]))
    body = {
        "model": model,
        "messages": history,
        "tools": [tool],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
        "n": 1,
    }
    got = frames(hotel.home.http.post("/v1/chat/completions", json=body).text)
    with_choices = [data for _, data in got[:-1] if data["choices"]]
    assert "".join(data["choices"][0]["delta"].get("content") or "" for data in with_choices) in ("12.", "Hello")
    assert [data["usage"]["total_tokens"] > 0 for _, data in got[:-1] if data.get("usage")] == [True]
    assert with_choices[-1]["choices"][0]["finish_reason"] == "stop" and got[-1] == ("", {})
    if model == CHAT:
        sent = hotel.a.calls[0].json["messages"]
        assert "tool_calls" not in sent[2] and sent[4]["tool_calls"] == history[4]["tool_calls"]
    if model == VERTEX:
        last = hotel.vertex.calls[0].json["contents"][-1]["parts"][0]["functionResponse"]
        assert last["name"] == "multiply"
