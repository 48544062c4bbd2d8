"""Mid-stream recovery for clients of Messages and Responses, whoever began and whoever finishes (beyond 1)."""

import json
from typing import Any

import pytest

from proxy.recovery import PREFILL
from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_dialects import SPOKEN, START, USER, block, frames, sse, text_of, words
from tests.upstream.server import Behaviour, FakeProvider, Wire, cut_after, stream

COMMENT = b": model-hotel recovered\n\n"
THOUGHT = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.fixture(autouse=True)
def nothing_learned():
    PREFILL.reset()
    yield
    PREFILL.reset()


@pytest.fixture
def mixed(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.recovery = "continue"
    stage.member("A", provider_a.url, kind="anthropic-messages", key="sk-ant-0123456789", model="ma")
    stage.member("B", provider_b.url, kind="openai", key="sk-bbbbbbbbbbbbbbb1", model="mb")
    return stage


def goes_on(whole: str) -> Behaviour:
    """What is missing of *whole* behind the assistant message at the end."""

    async def behave(wire: Wire) -> None:
        last = wire.request.json["messages"][-1]
        asked = last["content"] if last["role"] == "assistant" else ""
        assert whole.startswith(asked)
        await stream([whole[len(asked) :]])(wire)

    return behave


def message(got: Any) -> list[tuple[str, str]]:
    """(type, text) of each block, as an SDK would put them together; checks that the frames are in order."""
    found: list[list[str]] = []
    open_at = None
    kinds = [e for e, _ in got]
    assert kinds[0] == "message_start" and kinds.count("message_start") == 1
    assert kinds[-2:] == ["message_delta", "message_stop"]
    for event, data in got:
        if event == "content_block_start":
            assert open_at is None and data["index"] == len(found)
            open_at = data["index"]
            found.append([data["content_block"]["type"], ""])
        elif event == "content_block_delta":
            assert data["index"] == open_at
            found[open_at][1] += data["delta"].get("text") or data["delta"].get("thinking") or ""
        elif event == "content_block_stop":
            assert data["index"] == open_at
            open_at = None
    assert open_at is None
    return [(kind, text) for kind, text in found]


@pytest.mark.parametrize("last", [(), (OVERLOADED,)], ids=["cut", "error event"])
async def test_a_native_messages_stream_is_finished_by_a_chat_provider(
    mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider, last: tuple[dict[str, Any], ...]
):
    provider_a.script(sse(*SPOKEN, *last))
    provider_b.script(goes_on("Hello world"))
    got = await mixed.say("/messages", max_tokens=9, messages=USER, stream=True)
    assert got.body.count(COMMENT) == 1
    told = type(got)(got.status, got.headers, [got.body.replace(COMMENT, b"")], True)
    assert message(frames(told)) == [("text", "Hello world")]
    assert provider_b.calls[0].json["messages"] == [*USER, {"role": "assistant", "content": "Hello"}]
    row = mixed.row
    assert (row.state, row.provider_name) == ("completed", "B")
    assert [(e["provider"], e.get("recovery"), e.get("recovered_at")) for e in row.attempts or []] == [
        ("A", None, None),
        ("B", "prefill", 5),
    ]
    assert mixed.fails("A", "ma") == 1


async def test_thinking_that_was_open_is_closed(mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """A thought was delivered, no text yet: whoever finishes begins a block of text of its own."""
    provider_a.script(sse(START, block(0, "thinking", thinking="", signature=""), THOUGHT))
    provider_b.script(stream(["Hello"]))
    got = await mixed.say("/messages", max_tokens=9, messages=USER, stream=True)
    told = type(got)(got.status, got.headers, [got.body.replace(COMMENT, b"")], True)
    assert message(frames(told)) == [("thinking", "hm"), ("text", "Hello")]


async def test_a_chat_stream_of_a_messages_client_is_finished_by_anthropic(
    mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_b.script(cut_after(2, clean=True))
    ends = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    mixed._order.reverse()
    mixed._install()
    stop = {"type": "content_block_stop", "index": 0}
    provider_a.script(sse(START, block(0, "text", text=""), words("!"), stop, ends, {"type": "message_stop"}))
    got = await mixed.say("/messages", max_tokens=9, messages=USER, stream=True)
    told = type(got)(got.status, got.headers, [got.body.replace(COMMENT, b"")], True)
    ((kind, text),) = message(frames(told))
    assert kind == "text" and text.endswith("!") and len(text) > 1
    sent = provider_a.calls[0].json["messages"]
    assert sent[-1] == {"role": "assistant", "content": text[:-1].rstrip()}
    assert mixed.row.state == "completed"


async def test_nobody_can_finish_it(mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(sse(*SPOKEN, OVERLOADED))
    provider_b.refuse()
    got = await mixed.say("/messages", max_tokens=9, messages=USER, stream=True)
    assert text_of(got) == "Hello"
    assert frames(got)[-1] == ("error", OVERLOADED)
    assert [e for e, _ in frames(got)].count("error") == 1 and COMMENT not in got.body


async def test_a_tool_call_is_nobody_elses_to_finish(mixed: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    call = block(0, "tool_use", id="toolu_1", name="f", input={})
    part = {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a"'}}
    provider_a.script(sse(START, call, part))
    got = await mixed.say("/messages", max_tokens=9, messages=USER, stream=True)
    assert frames(got)[-1][0] == "error" and not provider_b.calls


# -- Responses

CREATED = {
    "type": "response.created",
    "sequence_number": 0,
    "response": {"id": "resp_native", "status": "in_progress", "output": []},
}
ITEM = {
    "type": "response.output_item.added",
    "sequence_number": 1,
    "output_index": 0,
    "item": {"type": "message", "id": "msg_native", "role": "assistant", "status": "in_progress", "content": []},
}
PLACE = {"item_id": "msg_native", "output_index": 0, "content_index": 0}
PART = {
    "type": "response.content_part.added",
    "sequence_number": 2,
    **PLACE,
    "part": {"type": "output_text", "text": "", "annotations": []},
}
DELTA = {"type": "response.output_text.delta", "sequence_number": 3, **PLACE, "delta": "Hello"}


async def test_a_native_response_is_finished_by_a_chat_provider(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    from providers.kinds.openai import OpenAI

    monkeypatch.setattr(OpenAI, "native_responses", lambda self, base_url: base_url == provider_a.url)
    stage.recovery = "continue"
    stage.member("A", provider_a.url, kind="openai", model="ma")
    stage.member("B", provider_b.url, kind="openai", model="mb")
    provider_a.script(sse(CREATED, ITEM, PART, DELTA))
    provider_b.script(goes_on("Hello world"))
    got = await stage.say("/responses", input="hi", stream=True)
    assert got.body.count(COMMENT) == 1
    told = frames(type(got)(got.status, got.headers, [got.body.replace(COMMENT, b"")], True))
    assert [d["sequence_number"] for _, d in told] == list(range(len(told)))
    assert [e for e, _ in told].count("response.created") == 1
    deltas = [d for e, d in told if e == "response.output_text.delta"]
    assert "".join(d["delta"] for d in deltas) == "Hello world"
    assert {d["item_id"] for d in deltas} == {"msg_native"}
    kind, last = told[-1]
    assert (kind, last["response"]["id"]) == ("response.completed", "resp_native")
    assert [json.dumps(part["text"]) for part in last["response"]["output"][0]["content"]] == ['"Hello world"']
    assert stage.row.state == "completed" and provider_a.calls[0].path == "/v1/responses"
