"""What the tests of the Messages dialect share: bodies in the shapes of its documentation, and how they are fed."""

import json

import msgspec
from hypothesis import strategies as st

from proxy.dialects.messages import reader, writer
from proxy.stream.sse import Event, Framer

ID = "0123456789abcdef" * 2
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
PDF = "JVBERi0xLjQKJdPr6eEKMSAwIG9iago8PC9UaXRsZQ=="

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)

#: A coding agent in the middle of its work, as Anthropic's clients send it.
AGENT = {
    "model": "hotel/g",
    "max_tokens": 32000,
    "stream": True,
    "metadata": {"user_id": "user_1"},
    "service_tier": "auto",
    "container": None,
    "thinking": {"type": "enabled", "budget_tokens": 10000},
    "system": [
        {"type": "text", "text": "You are an agent."},
        {"type": "text", "text": " Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ],
    "tools": [
        {
            "name": "read_file",
            "description": "Reads a file",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
        {
            "type": "custom",
            "name": "ls",
            "input_schema": {"type": "object"},
            "cache_control": {"type": "ephemeral"},
        },
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is in a and b?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two files.", "signature": "EqQBCgIYAhIM"},
                {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix"},
                {"type": "text", "text": "Reading "},
                {"type": "text", "text": "both."},
                {"type": "tool_use", "id": "toolu_01A", "name": "read_file", "input": {"path": "a", "at": 1.50}},
                {"type": "tool_use", "id": "toolu_01B", "name": "ls", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "alpha"},
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01B",
                    "is_error": True,
                    "content": [
                        {"type": "text", "text": "be"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                        {"type": "text", "text": "ta", "cache_control": {"type": "ephemeral"}},
                    ],
                },
                {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ],
}

#: A whole answer with thinking, text, two calls in parallel and a cache that was read and written.
ANSWER = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-20250514",
    "content": [
        {"type": "thinking", "thinking": "Let me look.", "signature": "EqQBCgIYAhIM"},
        {"type": "text", "text": "It is ", "citations": [{"type": "char_location", "cited_text": "sun"}]},
        {"type": "text", "text": "sunny."},
        {"type": "tool_use", "id": "toolu_01A", "name": "weather", "input": {"city": "Paris", "days": 3}},
        {"type": "tool_use", "id": "toolu_01B", "name": "now", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 21,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 188086,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 393,
        "service_tier": "standard",
    },
}


def raw(value):
    return json.dumps(value, ensure_ascii=False).encode()


def members(**given):
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in given.items()}


def plain(found):
    """Members as values."""
    return {name: json.loads(bytes(value)) for name, value in found.items()}


def sse(*events):
    """Events of a stream as Anthropic writes them."""
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), raw(e)) for e in events)


def chat_frames(*chunks, done=True):
    return b"".join(b"data: %b\n\n" % raw(chunk) for chunk in chunks) + (b"data: [DONE]\n\n" if done else b"")


def chunk(delta=None, finish=None, **more):
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
        **more,
    }


def start(**usage):
    return {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 25, "output_tokens": 1, **usage},
        },
    }


def opened(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **said):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **said}}


def closed(index):
    return {"type": "content_block_stop", "index": index}


def stopping(reason, **usage):
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 15, **usage},
    }


PING = {"type": "ping"}
STOP = {"type": "message_stop"}


def frames_of(message):
    """The events that stream the whole answer *message*, with pings between."""
    usage = message["usage"]
    events = [start(**{name: count for name, count in usage.items() if not name.startswith("output")}), PING]
    for at, block in enumerate(message["content"]):
        match block["type"]:
            case "text":
                events.append(opened(at, type="text", text=""))
                events += [delta(at, "text_delta", text=piece) for piece in pieces(block["text"])]
            case "thinking":
                events.append(opened(at, type="thinking", thinking="", signature=""))
                events += [delta(at, "thinking_delta", thinking=piece) for piece in pieces(block["thinking"])]
                events.append(delta(at, "signature_delta", signature=block["signature"]))
            case "tool_use":
                events.append(opened(at, type="tool_use", id=block["id"], name=block["name"], input={}))
                said = json.dumps(block["input"], separators=(",", ":")) if block["input"] else ""
                events += [delta(at, "input_json_delta", partial_json=piece) for piece in ("", *pieces(said))]
            case _:
                events.append(opened(at, **block))
        events += [closed(at), PING]
    output = {name: count for name, count in usage.items() if name.startswith("output")}
    return [*events, {**stopping(message["stop_reason"]), "usage": output}, STOP]


def pieces(text, size=3):
    return [text[at : at + size] for at in range(0, len(text), size)]


def read(*parts, cut_off=False):
    """The chat payloads that the bytes *parts*, as they arrive, are read as; the end marker as a string."""
    framer, one = Framer(), reader.Reader("m", new_id=lambda: ID, now=lambda: 7.0)
    events = [found for part in parts for event in framer.feed(part) for found in one.take(event)]
    events += [found for event in framer.finish() for found in one.take(event)]
    if not cut_off:
        events += one.finish()
    assert all(
        event.raw == (b": ping\n\n" if event.data is None else b"data: " + event.data + b"\n\n") for event in events
    )
    return [said(event) for event in events]


def said(event: Event):
    if event.data is None:
        return event.raw.decode().strip()
    return "[DONE]" if event.data == b"[DONE]" else json.loads(event.data)


def joined(payloads):
    """The whole chat completion that chunks add up to."""
    message = {"role": "assistant", "content": ""}
    calls, finish, usage = [], None, None
    for payload in payloads:
        if not isinstance(payload, dict) or not payload["choices"]:
            continue
        choice = payload["choices"][0]
        finish, usage = choice["finish_reason"] or finish, payload.get("usage", usage)
        for name in ("content", "reasoning_content"):
            if name in choice["delta"]:
                message[name] = message.get(name, "") + choice["delta"][name]
        for call in choice["delta"].get("tool_calls", ()):
            if call["index"] == len(calls):
                calls.append({"id": call["id"], "type": call["type"], "function": dict(call["function"])})
            else:
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    if calls:
        message["tool_calls"] = calls
        message["content"] = message["content"] or None
    whole = {
        "id": f"chatcmpl-{ID}",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    return whole if usage is None else {**whole, "usage": usage}


def written(*parts, end=True):
    """The (event, data) pairs that a client gets for chat *parts*."""
    one = writer.Writer({}, new_id=lambda: ID)
    one.begin("m")
    out = b"".join(one.feed(part) for part in parts) + (one.end() if end else b"")
    return events_of(out)


def events_of(out):
    found = []
    assert out == b"" or out.endswith(b"\n\n")
    for block in out.split(b"\n\n")[:-1]:
        name, data = block.split(b"\n")
        value = json.loads(data.removeprefix(b"data: "))
        assert name == b"event: " + value["type"].encode()
        found.append(value)
    return found


def message_of(events):
    """The whole message that a client makes of events; asserts that every block is contiguous and whole."""
    assert [e["type"] for e in events[:2]] == ["message_start", "ping"]
    assert [e["type"] for e in events[-2:]] == ["message_delta", "message_stop"]
    message = dict(events[0]["message"])
    content, current = [], None
    for event in events[2:-2]:
        match event["type"]:
            case "content_block_start":
                assert current is None and event["index"] == len(content)
                current = dict(event["content_block"])
                given = ""
            case "content_block_delta":
                assert current is not None and event["index"] == len(content)
                said = event["delta"]
                if said["type"] == "text_delta":
                    current["text"] += said["text"]
                else:
                    given += said["partial_json"]
            case "content_block_stop":
                assert current is not None and event["index"] == len(content)
                if current["type"] == "tool_use" and given:
                    current["input"] = json.loads(given)
                content.append(current)
                current = None
            case other:
                raise AssertionError(other)
    assert current is None
    ending = events[-2]
    return {**message, "content": content, **ending["delta"], "usage": {**message["usage"], **ending["usage"]}}
