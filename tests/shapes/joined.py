"""A stream of each dialect put together to the whole answer it stands for, strictly: what is out of order fails."""

import json
from typing import Any

from tests.shapes.table import Body, payloads

#: Members of a delta that are pieces of a text.
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


def chat(body: bytes) -> Body:
    """``message``, ``finish_reason`` and ``usage`` of a chat stream, members without a value left out."""
    message: Body = {}
    calls: dict[int, Body] = {}
    finish = usage = None
    for chunk in payloads(body):
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            delta = choice.get("delta") or {}
            for name in _TEXTS:
                if delta.get(name):
                    assert finish is None, "said after the end"
                    message[name] = message.get(name, "") + delta[name]
            for piece in delta.get("tool_calls") or ():
                made = calls.setdefault(piece["index"], {"function": {"name": "", "arguments": ""}})
                for name, value in piece["function"].items():
                    made["function"][name] += value or ""
                made |= {name: value for name, value in piece.items() if name not in ("index", "function") and value}
            finish = choice.get("finish_reason") or finish
    if calls:
        message["tool_calls"] = [calls[index] for index in range(len(calls))]
    return {"message": message, "finish_reason": finish, "usage": usage}


def core(completion: Body) -> Body:
    """The same of a whole completion."""
    (choice,) = completion["choices"]
    message: Body = {name: choice["message"][name] for name in _TEXTS if choice["message"].get(name)}
    if calls := choice["message"].get("tool_calls"):
        message["tool_calls"] = [{name: value for name, value in one.items() if name != "index"} for one in calls]
    return {"message": message, "finish_reason": choice["finish_reason"], "usage": completion.get("usage")}


def messages(body: bytes) -> Body:
    """The whole message of a Messages stream."""

    events = [event for event in payloads(body) if event["type"] != "ping"]
    first, *middle, ended, last = events
    assert (first["type"], ended["type"], last) == ("message_start", "message_delta", {"type": "message_stop"})
    content: list[Any] = []
    pieces: list[str] = []
    opened = False
    for event in middle:
        kind = event["type"].removeprefix("content_block_")
        if kind == "start":
            assert not opened and event["index"] == len(content)
            opened, pieces = True, []
            content.append(dict(event["content_block"]))
            continue
        assert opened and event["index"] == len(content) - 1
        block = content[-1]
        if kind == "stop":
            opened = False
            if block["type"] == "tool_use":
                block["input"] = json.loads("".join(pieces) or "{}")
        elif event["delta"]["type"] == "input_json_delta":
            pieces.append(event["delta"]["partial_json"])
        else:
            assert event["delta"]["type"] == "text_delta"
            block["text"] += event["delta"]["text"]
    assert not opened
    usage = first["message"]["usage"] | ended["usage"]
    return {**first["message"], "content": content, **ended["delta"], "usage": usage}


def responses(body: bytes) -> Body:
    """The Response object that a Responses stream ends with; its items are those that were told before, piece by
    piece."""
    events = payloads(body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]["response"]
    assert events[-1]["type"] == f"response.{last['status']}"
    pieces: dict[str, str] = {}
    items: dict[int, Body] = {}
    for event in events[2:-1]:
        kind = event["type"].removeprefix("response.")
        if kind == "output_item.done":
            items[event["output_index"]] = event["item"]
        elif kind.endswith(".delta"):
            pieces[event["item_id"]] = pieces.get(event["item_id"], "") + event["delta"]
    assert [items[index] for index in range(len(items))] == last["output"]
    for item in last["output"]:
        parts = item.get("content") or item.get("summary") or [{"text": item.get("arguments")}]
        assert pieces[item["id"]] == "".join(part.get("text", part.get("refusal")) for part in parts)
    return dict(last)
