"""What Anthropic (Messages), OpenAI (Responses) and Google (generateContent) answer, whole or streamed as asked.

    claude.script(message(thinking("Hm."), text("Hello")))            # JSON, or all events with a ping among them
    claude.script(refused_by_anthropic(529, "Overloaded"))
    openai.script(response(reasoned("Hm."), said("Hello"), called("f", '{"a":1}')))
    google.script(generated({"text": "Hello"}))

Asked for a chat completion, they say their text in it. *then* of a stream tells how it ends: ``None`` as it should;
``ends`` (the body) or ``cut`` (the connection) after the last delta; ``endless`` with a ping every 50 ms until the
client leaves; ``pings`` (of Anthropic) with nothing else from the start; or with an event.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.upstream.behaviours import Behaviour, Wire, answer, head, http_chunk, reply

Item = dict[str, Any]
PIECE = 7  # characters of one delta
PING_SECONDS = 0.05
REQUEST_ID = "req_011CSHoEeqs5C35K2UUqR7Fy"
SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"
_SSE = (("Content-Type", "text/event-stream; charset=utf-8"), ("Cache-Control", "no-cache"))


def split(value: str) -> list[str]:
    """*value* in pieces as a model would send it."""
    return [value[at : at + PIECE] for at in range(0, len(value), PIECE)]


def named(event: Item) -> bytes:
    """An event that is named by its type."""
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), json.dumps(event).encode())


def unnamed(event: Item) -> bytes:
    return b"data: %s\r\n\r\n" % json.dumps(event).encode()


async def _chats(wire: Wire, value: str) -> bool:
    """Whether a chat completion was asked for; then it is answered."""
    if not wire.request.path.endswith("/chat/completions"):
        return False
    await answer(value)(wire)
    return True


async def _play(
    wire: Wire, frames: Iterable[bytes], *, headers: Mapping[str, str], then: str = "", ping: bytes = b""
) -> None:
    fields = [*_SSE, ("Transfer-Encoding", "chunked"), *headers.items()]
    await wire.write(head(200, fields, "OK"))
    for frame in frames:
        await wire.write(http_chunk(frame))
    while then == "endless":
        await wire.sleep(PING_SECONDS)
        await wire.write(http_chunk(ping))
    if then == "cut":
        await asyncio.sleep(PING_SECONDS)
        wire.close_after = True
        return
    await wire.write(b"0\r\n\r\n")


# ---------------------------------------------------------------- Anthropic Messages


def text(value: str) -> Item:
    return {"type": "text", "text": value}


def thinking(value: str, signature: str = SIGNATURE) -> Item:
    return {"type": "thinking", "thinking": value, "signature": signature}


def tool_use(name: str, arguments: Item, id: str = "toolu_01T1x1fJ34qAmk2tNTrN7Up6") -> Item:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


ANTHROPIC_USAGE = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 1000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 30,
    "service_tier": "standard",
}


def _whole_message(model: str, blocks: list[Item], stop: str | None, usage: Item) -> Item:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


def _block_events(at: int, block: Item) -> list[Item]:
    kind = block["type"]
    empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
    deltas: list[Item] = []
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in split(block["text"])]
    elif kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in split(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "tool_use":
        pieces = ["", *split(json.dumps(block["input"]))]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    opened = {**block, **empty.get(kind, {})}
    return [
        {"type": "content_block_start", "index": at, "content_block": opened},
        *({"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": at},
    ]


PING = {"type": "ping"}


def message_events(model: str, blocks: list[Item], stop: str, usage: Item) -> list[Item]:
    """All events of a Messages stream; a ping follows the first one and stands between any two blocks."""
    begun = _whole_message(model, [], None, {**usage, "output_tokens": 1})
    events = [{"type": "message_start", "message": begun}, PING]
    for at, block in enumerate(blocks):
        events += [*_block_events(at, block), PING]
    ended = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": usage["output_tokens"]}})
    return [*events, {"type": "message_stop"}]


def message(*blocks: Item, stop: str = "", usage: Item = ANTHROPIC_USAGE, then: str | Item | None = None) -> Behaviour:
    """An answer of Anthropic's. *stop* follows from the blocks when it is not given."""
    said = list(blocks) or [text("Hello")]
    reason = stop or ("tool_use" if said[-1]["type"] == "tool_use" else "end_turn")
    headers = {"request-id": REQUEST_ID, "anthropic-ratelimit-requests-remaining": "999"}

    async def behave(wire: Wire) -> None:
        if await _chats(wire, "".join(block.get("text", "") for block in said)):
            return
        model = wire.request.model
        if not wire.request.streaming:
            await reply(200, _whole_message(model, said, reason, usage), headers=headers)(wire)
            return
        events = message_events(model, said, reason, usage)
        if then is not None:
            events = events[: 1 if then == "pings" else -3]  # not the last ping, message_delta and message_stop
        if isinstance(then, dict):
            events.append(then)
        ending = "endless" if then == "pings" else then if isinstance(then, str) else ""
        await _play(wire, map(named, events), headers=headers, then=ending, ping=named(PING))

    return behave


async def play(wire: Wire, blocks: list[Item], *, pause: float) -> None:
    """A stream of Anthropic's, *pause* seconds between any two events and no ping among them."""
    await wire.write(head(200, [*_SSE, ("Transfer-Encoding", "chunked")], "OK"))
    for event in message_events(wire.request.model, blocks, "tool_use", ANTHROPIC_USAGE):
        if event is not PING:
            await wire.write(http_chunk(named(event)))
            await wire.sleep(pause)
    await wire.write(b"0\r\n\r\n")


ANTHROPIC_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def refused_by_anthropic(status: int, said: str, *, retry_after: int | None = None) -> Behaviour:
    error = {"type": ANTHROPIC_ERRORS[status], "message": said}
    headers = {"request-id": REQUEST_ID, **({} if retry_after is None else {"retry-after": str(retry_after)})}
    return reply(status, {"type": "error", "error": error, "request_id": REQUEST_ID}, headers=headers)


# ---------------------------------------------------------------- OpenAI Responses


def said(value: str) -> Item:
    part = {"type": "output_text", "text": value, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_68a1", "status": "completed", "role": "assistant", "content": [part]}


def reasoned(*summaries: str, encrypted: str | None = None) -> Item:
    parts = [{"type": "summary_text", "text": value} for value in summaries]
    return {"type": "reasoning", "id": "rs_68a1", "summary": parts, "encrypted_content": encrypted}


def called(name: str, arguments: str, call_id: str = "call_68a1") -> Item:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "status": "completed",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


RESPONSES_USAGE = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 123,
}


def _envelope(asked: Item, status: str, output: list[Item], **more: Any) -> Item:
    """A Response object as OpenAI writes it: what was asked comes back in it."""
    return {
        "id": "resp_68a1b2c3",
        "object": "response",
        "created_at": 1741476777,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "model": f"{asked['model']}-2025-08-07",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None, **asked.get("reasoning", {})},
        "store": asked.get("store", True),
        "temperature": 1.0,
        "text": asked.get("text", {"format": {"type": "text"}}),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools", []),
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **more,
    }


def _message_events(at: int, item: Item) -> list[Item]:
    place = {"item_id": item["id"], "output_index": at, "content_index": 0}
    events: list[Item] = []
    for part in item["content"]:
        empty = {**part, "text": ""}
        events.append({"type": "response.content_part.added", **place, "part": empty})
        for piece in split(part["text"]):
            events.append({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []})
        events.append({"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []})
        events.append({"type": "response.content_part.done", **place, "part": part})
    return events


def _reasoning_events(at: int, item: Item) -> list[Item]:
    events: list[Item] = []
    for n, part in enumerate(item["summary"]):
        place = {"item_id": item["id"], "output_index": at, "summary_index": n}
        events.append({"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}})
        for piece in split(part["text"]):
            events.append({"type": "response.reasoning_summary_text.delta", **place, "delta": piece})
        events.append({"type": "response.reasoning_summary_text.done", **place, "text": part["text"]})
        events.append({"type": "response.reasoning_summary_part.done", **place, "part": part})
    return events


def _call_events(at: int, item: Item) -> list[Item]:
    place = {"item_id": item["id"], "output_index": at}
    deltas = [
        {"type": "response.function_call_arguments.delta", **place, "delta": piece}
        for piece in split(item["arguments"])
    ]
    return [*deltas, {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}]


_OPENED: dict[str, Item] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": ""},
}
_OF_ITEM = {"message": _message_events, "reasoning": _reasoning_events, "function_call": _call_events}


def response_events(asked: Item, items: list[Item], last: Item) -> list[Item]:
    """All events of a Responses stream up to *last*, the Response object that ends it."""
    begun = _envelope(asked, "in_progress", [])
    events: list[Item] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for at, item in enumerate(items):
        opened = {**item, **_OPENED[item["type"]]}
        if "status" in item:
            opened["status"] = "in_progress"
        events.append({"type": "response.output_item.added", "output_index": at, "item": opened})
        events += _OF_ITEM[item["type"]](at, item)
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    events.append({"type": f"response.{last['status']}", "response": last})
    return [{**event, "sequence_number": n} for n, event in enumerate(events)]


def response(
    *items: Item,
    status: str = "completed",
    usage: Item | None = RESPONSES_USAGE,
    then: str | None = None,
    **more: Any,
) -> Behaviour:
    """An answer of OpenAI's at ``/v1/responses``; *more* are members of the Response object."""
    output = list(items) or [said("Hello")]
    headers = {"x-request-id": "req_68a1", "openai-processing-ms": "120"}

    async def behave(wire: Wire) -> None:
        asked = wire.request.json
        texts = [part["text"] for item in output for part in item.get("content", [])]
        if await _chats(wire, "".join(texts)):
            return
        whole = _envelope(asked, status, output, usage=usage, **more)
        if not wire.request.streaming:
            await reply(200, whole, headers=headers)(wire)
            return
        events = response_events(asked, output, whole)
        if then is not None:
            events = [event for event in events[:-1] if not event["type"].endswith(".done")]
        await _play(wire, map(named, events), headers=headers, then=then or "", ping=b": keep-alive\n\n")

    return behave


# ---------------------------------------------------------------- Gemini generateContent

GEMINI_USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 6, "totalTokenCount": 19}


def generated(*parts: Item, finish: str = "STOP", usage: Item = GEMINI_USAGE, then: str | None = None) -> Behaviour:
    """An answer of Gemini's; in a stream each part is an event, a text several."""
    whole = list(parts) or [{"text": "Hello"}]

    def event(model: str, said: list[Item], ended: bool) -> Item:
        candidate: Item = {"content": {"parts": said, "role": "model"}, "index": 0}
        if ended:
            candidate["finishReason"] = finish
        counted = usage if ended else {"promptTokenCount": usage["promptTokenCount"]}
        made = {"candidates": [candidate], "usageMetadata": counted, "modelVersion": model, "responseId": "a1b2"}
        return made

    def pieces() -> list[Item]:
        found: list[Item] = []
        for part in whole:
            rest = {name: value for name, value in part.items() if name != "text"}
            found += [{**rest, "text": piece} for piece in split(part["text"])] if "text" in part else [part]
        return found

    async def behave(wire: Wire) -> None:
        if await _chats(wire, "".join(part.get("text", "") for part in whole)):
            return
        model = wire.request.path.rpartition("/")[2].partition(":")[0]
        if not wire.request.path.endswith(":streamGenerateContent"):
            await reply(200, event(model, whole, True), content_type="application/json; charset=UTF-8")(wire)
            return
        frames = [event(model, [piece], False) for piece in pieces()]
        if then is None:
            frames.append(event(model, [{"text": ""}], True))
        await _play(wire, map(unnamed, frames), headers={}, then=then or "", ping=b": keep-alive\r\n\r\n")

    return behave
