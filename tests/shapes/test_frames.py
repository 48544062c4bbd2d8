"""Translated streams frame by frame: what each client reads while the vendor speaks, in order, and nothing besides."""

import json
from typing import Any

import pytest

from tests.shapes import anthropic, deepseek, gemini, openai_responses, openrouter
from tests.shapes.house import House
from tests.shapes.table import Body, Vendor, normal, payloads, response, split, thought
from tests.upstream.server import events

USAGE = {"stream_options": {"include_usage": True}}
PING = ": ping"
DONE = "[DONE]"


async def streamed(house: House, shape: str, dialect: str, **more: Any) -> bytes:
    house.upstream.script(events(*house.vendor.shapes[shape].frames))
    got = await house.ask(dialect, stream=True, **more)
    assert got.status == 200
    return got.body


def chunks(body: bytes, **head: Any) -> list[Any]:
    """The choice of every chunk, with ``usage`` where the chunk has it; comments and the end as text."""
    found: list[Any] = []
    for frame in split(body):
        line = frame.decode().rstrip("\n")
        if line.startswith(":") or line.endswith(DONE):
            found.append(line.removeprefix("data: "))
            continue
        chunk = normal(frame.removeprefix(b"data: "))
        choices = chunk.pop("choices")
        counted = {"usage": chunk.pop("usage")} if "usage" in chunk else {}
        assert chunk == {"object": "chat.completion.chunk", **head}
        found.append((choices[0] if choices else {}) | counted)
    return found


def says(finish: str | None = None, **delta: Any) -> Body:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def opens(index: int, id: str, name: str) -> Body:
    call = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    return says(tool_calls=[call])


def goes_on(index: int, piece: str) -> Body:
    return says(tool_calls=[{"index": index, "function": {"arguments": piece}}])


@pytest.mark.parametrize("vendor", [anthropic.VENDOR])
async def test_anthropics_events_as_chunks(house: House, vendor: Vendor):
    """Pings stay comments; signatures and what is sealed have no words in chat; reason and usage come together."""
    shape = vendor.shapes["thinking and tools"]
    assert shape.chat is not None
    body = await streamed(house, "thinking and tools", "chat", **USAGE)
    assert chunks(body, id="chatcmpl-*", created=0, model="claude-sonnet-4-5") == [
        says(role="assistant"),
        PING,
        says(reasoning_content="Two cit"),
        says(reasoning_content="ies."),
        PING,
        PING,
        says(content="I will "),
        says(content="look."),
        PING,
        opens(0, "toolu_01A", "get_weather"),
        goes_on(0, '{"cit'),
        goes_on(0, 'y":"Rome"}'),
        PING,
        opens(1, "toolu_01B", "get_time"),
        goes_on(1, "{}"),
        PING,
        says("tool_calls") | {"usage": shape.chat["usage"]},
        DONE,
    ]


@pytest.mark.parametrize("vendor", [gemini.VENDOR])
async def test_geminis_events_as_chunks(house: House, vendor: Vendor):
    """An event of thoughts alone is none; the end is ours, for Google says none."""
    body = await streamed(house, "tools", "chat", **USAGE)
    shape = vendor.shapes["tools"]
    assert shape.chat is not None
    first, second = shape.chat["choices"][0]["message"]["tool_calls"]
    assert chunks(body, id="chatcmpl-*", created=0, model="gemini-2.5-flash") == [
        says(role="assistant", tool_calls=[{"index": 0, **first}, {"index": 1, **second}]),
        says("tool_calls") | {"usage": shape.chat["usage"]},
        DONE,
    ]


@pytest.mark.parametrize("vendor", [gemini.VENDOR])
async def test_a_prompt_that_gemini_blocks_ends_a_stream_as_filtered(house: House, vendor: Vendor):
    house.upstream.script(events(b"data: " + json.dumps(gemini.BLOCKED).encode() + b"\r\n\r\n"))
    got = await house.ask("chat", stream=True)
    usage = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
    head = {"id": "chatcmpl-*", "created": 0, "model": "gemini-2.5-flash"}
    assert chunks(got.body, **head) == [says("content_filter") | {"usage": usage}, DONE]
    assert house.stage.state("V") == "closed" and house.stage.fails("V", vendor.model) == 0


@pytest.mark.parametrize("vendor", [openai_responses.VENDOR])
async def test_openais_response_events_as_chunks(house: House, vendor: Vendor):
    """Under the response's own id and time; usage in a frame of its own."""
    shape = vendor.shapes["reasoning and tools"]
    assert shape.chat is not None
    body = await streamed(house, "reasoning and tools", "chat", **USAGE)
    assert chunks(body, id="chatcmpl-0a1b2c", created=1759500000, model="gpt-5-pro") == [
        says(role="assistant", content=""),
        says(reasoning_content="Two."),
        opens(0, "call_r1", "get_weather"),
        goes_on(0, '{"city"'),
        goes_on(0, ':"Rome"'),
        goes_on(0, "}"),
        opens(1, "call_r2", "get_time"),
        goes_on(1, "{}"),
        says("tool_calls"),
        {"usage": shape.chat["usage"]},
        DONE,
    ]


@pytest.mark.parametrize("vendor", [deepseek.VENDOR])
async def test_deepseeks_chunks_as_messages_events(house: House, vendor: Vendor):
    """A thought without a signature is none; one block is open at a time."""
    usage = {"cache_read_input_tokens": 128, "output_tokens_details": {"thinking_tokens": 12}}

    def block(index: int, id: str) -> Body:
        opened = {"type": "tool_use", "id": id, "name": "get_weather", "input": {}}
        return {"type": "content_block_start", "index": index, "content_block": opened}

    def piece(index: int, json_text: str) -> Body:
        delta = {"type": "input_json_delta", "partial_json": json_text}
        return {"type": "content_block_delta", "index": index, "delta": delta}

    body = await streamed(house, "tools", "messages")
    first, *rest = payloads(body)
    assert normal({**first["message"], "type": "message"}) == {
        "id": "msg_*",
        "type": "message",
        "role": "assistant",
        "model": "deepseek-reasoner",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    assert first["type"] == "message_start"
    assert rest == [
        {"type": "ping"},
        block(0, "call_00_a"),
        piece(0, '{"city": '),
        piece(0, '"Rome"}'),
        {"type": "content_block_stop", "index": 0},
        block(1, "call_01_b"),
        piece(1, '{"city": "Oslo"}'),
        {"type": "content_block_stop", "index": 1},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"input_tokens": 72, "output_tokens": 40, **usage},
        },
        {"type": "message_stop"},
    ]


def numbered(body: bytes) -> list[tuple[str, Body]]:
    """(event without its prefix, its members) of a Responses stream, the numbers checked and left out."""
    found = []
    for at, event in enumerate(payloads(body)):
        assert event.pop("sequence_number") == at
        found.append((event.pop("type").removeprefix("response."), normal(event)))
    return found


@pytest.mark.parametrize("vendor", [deepseek.VENDOR])
async def test_deepseeks_chunks_as_response_events(house: House, vendor: Vendor):
    """Thinking is a summary; calls stay open until the end and are told whole on their last event."""
    shape = vendor.shapes["tools"]
    _, rome, oslo = shape.output
    part = {"type": "summary_text", "text": "Two cities."}
    summary: Body = {"item_id": "rs_*", "output_index": 0, "summary_index": 0}

    def opened(item: Body) -> Body:
        return {**item, "arguments": "", "status": "in_progress"}

    def of(index: int, **members: Any) -> Body:
        return {"item_id": "fc_*", "output_index": index, **members}

    def ends(index: int, item: Body) -> list[tuple[str, Body]]:
        whole = of(index, name=item["name"], arguments=item["arguments"])
        done = {"output_index": index, "item": item}
        return [("function_call_arguments.done", whole), ("output_item.done", done)]

    created, progress, *rest, last = numbered(await streamed(house, "tools", "responses"))
    begun = response(vendor.model, shape) | {"status": "in_progress", "output": [], "created_at": 0}
    del begun["usage"]
    for name, told in (("created", created), ("in_progress", progress)):
        assert (told[0], normal(told[1]["response"])) == (name, begun)
    assert (last[0], normal(last[1]["response"])) == ("completed", response(vendor.model, shape))
    assert rest == [
        (
            "output_item.added",
            {"output_index": 0, "item": {**thought(""), "summary": [], "status": "in_progress"}},
        ),
        ("reasoning_summary_part.added", {**summary, "part": {**part, "text": ""}}),
        ("reasoning_summary_text.delta", {**summary, "delta": "Two cities."}),
        ("reasoning_summary_text.done", {**summary, "text": "Two cities."}),
        ("reasoning_summary_part.done", {**summary, "part": part}),
        ("output_item.done", {"output_index": 0, "item": thought("Two cities.")}),
        ("output_item.added", {"output_index": 1, "item": opened(rome)}),
        ("function_call_arguments.delta", of(1, delta='{"city": ')),
        ("function_call_arguments.delta", of(1, delta='"Rome"}')),
        ("output_item.added", {"output_index": 2, "item": opened(oslo)}),
        ("function_call_arguments.delta", of(2, delta='{"city": "Oslo"}')),
        *ends(1, rome),
        *ends(2, oslo),
    ]


@pytest.mark.parametrize("vendor", [openrouter.VENDOR])
async def test_a_refusal_as_response_events(house: House, vendor: Vendor):
    (item,) = vendor.shapes["filter"].output
    place: Body = {"item_id": "msg_*", "output_index": 0, "content_index": 0}
    _, _, *rest, last = numbered(await streamed(house, "filter", "responses"))
    assert last[0] == "incomplete"
    assert rest == [
        ("output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}}),
        ("content_part.added", {**place, "part": {"type": "refusal", "refusal": ""}}),
        ("refusal.delta", {**place, "delta": "I cannot help"}),
        ("refusal.delta", {**place, "delta": " with that."}),
        ("refusal.done", {**place, "refusal": "I cannot help with that."}),
        ("content_part.done", {**place, "part": item["content"][0]}),
        ("output_item.done", {"output_index": 0, "item": item}),
    ]
