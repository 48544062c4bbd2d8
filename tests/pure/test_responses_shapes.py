"""What goes to a Responses client is what OpenAI's own library takes for a Response and its events."""

import json
from typing import Any

import msgspec
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from proxy.dialects.responses.writer import Writer

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
OWN = {
    "instructions": "be brief",
    "temperature": 0.5,
    "reasoning": {"effort": "low"},
    "text": {"format": {"type": "json_object"}},
    "tools": [{"type": "namespace", "name": "git", "tools": [{"type": "function", "name": "log"}]}],
}
DELTAS: list[dict[str, Any]] = [
    {"role": "assistant", "content": ""},
    {"reasoning_content": "hm"},
    {"content": "a"},
    {"content": "b"},
    {"refusal": "no"},
    {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "git__log", "arguments": "{"}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
]


def frames(finish: str) -> bytes:
    said = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in DELTAS]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in [*said, last])


def writer(**own: object) -> Writer:
    one = Writer({name: msgspec.Raw(json.dumps(value).encode()) for name, value in own.items()})
    one.begin("m")
    return one


def checked(out: bytes) -> list[Any]:
    return [EVENT.validate_json(block.split(b"data: ", 1)[1], strict=True) for block in out.split(b"\n\n")[:-1]]


@pytest.mark.parametrize("own", [{}, OWN])
@pytest.mark.parametrize("finish", ["stop", "length", "content_filter"])
def test_events(own, finish):
    one = writer(**own)
    found = checked(one.feed(frames(finish)) + one.end())
    assert len(found) == 25 and found[-1].type in ("response.completed", "response.incomplete")
    call = next(event.item for event in reversed(found) if event.type == "response.output_item.done")
    assert (call.name, call.namespace) == (("log", "git") if own else ("git__log", None))
    assert found[-1].response.output_text == "ab"


def test_a_whole_answer():
    message = {"content": "a", "reasoning_content": "r", "refusal": "n", "tool_calls": DELTAS[5]["tool_calls"]}
    chat = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
    found = Response.model_validate_json(writer(**OWN).whole(chat, "m"), strict=True)
    assert [item.type for item in found.output] == ["reasoning", "message", "function_call"]
