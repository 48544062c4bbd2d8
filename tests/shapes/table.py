"""What a table of one vendor's shapes holds, and how an expectation is read.

The bodies are written by us after the vendor's documentation, which each module names. Every expectation stands as a
value; ids that the gateway makes and its clock are ``*`` and 0 in it. See ``test_shapes.py`` for what is driven.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
DONE = b"data: [DONE]\n\n"
_OURS = re.compile(r"(chatcmpl-|msg_|resp_|rs_|fc_)[0-9a-f]{32}")


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def data(value: Body) -> bytes:
    """An event without a name."""
    return b"data: " + compact(value) + b"\n\n"


def named(value: Body) -> bytes:
    """An event that is named by its type."""
    return b"event: " + value["type"].encode() + b"\n" + data(value)


@dataclass(frozen=True)
class Row:
    """What the request's row stores. *prompt* holds *hit* and *miss*, *completion* holds *reasoning*."""

    prompt: int
    completion: int
    reasoning: int = 0
    hit: int = 0
    miss: int = 0


@dataclass(frozen=True)
class Shape:
    """One answer of a vendor's, whole and as a stream, and what clients of three dialects make of it."""

    whole: Body
    frames: tuple[bytes, ...]
    row: Row
    content: list[Body]  # of a message
    stop: str
    output: list[Body]  # of a response
    chat: Body | None = None  # None: the vendor's body, byte for byte
    #: Frames that a chat client gets otherwise than the vendor wrote them, by place; None = left out.
    changed: Mapping[int, bytes | None] = field(default_factory=dict)
    #: Where the frame with nothing but usage stands; who did not ask for it does not get it (v1-api 10.4).
    usage_at: int | None = None
    total: int | None = None  # tokens, where they are more than prompt and completion
    incomplete: str | None = None  # why a response is incomplete
    lead: bytes = b""  # bytes before the whole body
    native_row: Row | None = None  # where the vendor's own dialect is metered otherwise (v1-api 12.6)


@dataclass(frozen=True)
class Fault:
    """A refusal of a vendor's: what three clients get, and what the walk makes of it.

    *said* is the message of ours for all of them. Where it is empty the vendor's own object passes: byte for byte to
    clients of its dialect, and its *message*, with *type* and *code*, to others (decisions 17 and 39).
    """

    status: int
    body: Body | list[Body]
    kind: str
    verdict: str
    said: str = ""
    code: str | None = None
    type: str = ""  # of OpenAI's shape
    anthropic: str = ""  # type in Anthropic's shape
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: str | None = None
    asked: int = 1  # how often the vendor is asked, with repeats in place
    opens: bool = False  # the circuit, on this one answer
    param: str | None = None
    prompt: int = 0  # tokens that are counted all the same
    answered: int = 0  # the status of the answer, where it is not the vendor's


@dataclass(frozen=True)
class Break:
    """A stream that ends with the vendor's own error: what stands last in each client's stream."""

    frames: tuple[bytes, ...]
    chat: bytes
    message: str
    type: str  # in Anthropic's shape
    code: str  # of the failed response
    native: bytes = b""  # the last event for the vendor's own dialect
    kept: str = ""  # what the row says besides that it was the vendor's own error


@dataclass(frozen=True)
class Vendor:
    """One vendor behind one provider type. *native* is the client's dialect that passes untouched."""

    kind: str
    model: str
    path: str
    shapes: Mapping[str, Shape]
    faults: Mapping[str, Fault]
    breaks: Mapping[str, Break]
    sent: Body  # what the rich chat request becomes
    sent_headers: Mapping[str, str]
    stream_path: str = ""
    native: str = ""
    own: str = "chat"  # the dialect it is spoken to in by a chat client
    model_told: str = ""  # the model that a translated answer names
    dialects: tuple[str, ...] = ("chat", "messages", "responses")
    base: str = "/v1"


# -- refusals, as the gateway tells them

_OPENAI = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
_ANTHROPIC = {**_OPENAI, 413: "request_too_large", 503: "overloaded_error"}


def _types(status: int) -> dict[str, Any]:
    """What an error of ours with *status* is called in both shapes (v1-api 9.1 and 9.2)."""
    ours = ("server_error", "api_error") if status >= 500 else ("invalid_request_error", "invalid_request_error")
    return {"type": _OPENAI.get(status, ours[0]), "anthropic": _ANTHROPIC.get(status, ours[1])}


def _told(reason: str, status: int) -> str:
    return f"{reason} (provider V, upstream HTTP {status})"


def failed(status: int, body: Body | list[Body], **more: Any) -> Fault:
    """The vendor is at fault or its key is; its words stay inside. What may pass by itself is asked once more."""
    given = {"kind": "provider_error", "verdict": "charge", "code": "provider_error", **_types(status), **more}
    given.setdefault("asked", 2 if status in (500, 502, 503, 504) else 1)
    return Fault(status, body, said=_told("the provider failed to serve this request", status), **given)


def gone(status: int, body: Body | list[Body]) -> Fault:
    """The model is not there."""
    said = _told("the provider no longer serves this model", status)
    return Fault(status, body, "provider_model_gone", "noop", said, "model_not_found", **_types(status))


def busy(status: int, body: Body | list[Body], wait: str, **headers: str) -> Fault:
    """Asked once more after *wait* seconds, which the client is told too; the circuit is not charged."""
    said = _told("the provider is at capacity; retry shortly", status)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    more = {"headers": names, "retry_after": wait, "asked": 2, **_types(status)}
    return Fault(status, body, "provider_saturated", "noop", said, "rate_limit_exceeded", **more)


def unpaid(status: int, body: Body | list[Body]) -> Fault:
    """A person has to pay: the circuit opens on this one answer."""
    said = _told("the provider rejected this request for billing or plan reasons", status)
    types = _types(status)
    return Fault(status, body, "provider_not_entitled", "charge", said, "insufficient_quota", opens=True, **types)


def spent(status: int, body: Body | list[Body], **headers: str) -> Fault:
    """A window of use is over: the circuit opens on this one answer."""
    said = _told("the provider's usage quota is exhausted; retry after it resets", status)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    more = {"headers": names, "opens": True, **_types(status)}
    return Fault(status, body, "provider_quota_exhausted", "charge", said, "insufficient_quota", **more)


def payload(status: int, body: Body | list[Body], message: str, type: str, code: str | None, **more: Any) -> Fault:
    """The caller's own request is at fault: the vendor's words pass, and nobody is charged."""
    given = {"kind": "provider_error", "verdict": "alive", "anthropic": _types(status)["anthropic"], **more}
    return Fault(status, body, message=message, type=type, code=code, **given)


# -- what three clients get, as values


def completion(model: str, message: Body, finish: str, usage: Body) -> Body:
    """A chat completion of ours."""
    return {
        "id": "chatcmpl-*",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": usage,
    }


def message(model: str, shape: Shape) -> Body:
    """What was read from a cache is no part of the input here; thoughts are part of the output."""
    row = shape.row
    spent: Body = {"input_tokens": row.prompt - row.hit, "output_tokens": row.completion}
    if row.hit:
        spent["cache_read_input_tokens"] = row.hit
    if row.reasoning:
        spent["output_tokens_details"] = {"thinking_tokens": row.reasoning}
    return {
        "id": "msg_*",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": shape.content,
        "stop_reason": shape.stop,
        "stop_sequence": None,
        "usage": spent,
    }


def response(model: str, shape: Shape) -> Body:
    row = shape.row
    return {
        "id": "resp_*",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if shape.incomplete else "completed",
        "error": None,
        "incomplete_details": {"reason": shape.incomplete} if shape.incomplete else None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": shape.output,
        "parallel_tool_calls": True,
        "temperature": None,
        "top_p": None,
        "tool_choice": "auto",
        "tools": [],
        "store": False,
        "text": {"format": {"type": "text"}},
        "reasoning": None,
        "usage": {
            "input_tokens": row.prompt,
            "input_tokens_details": {"cached_tokens": row.hit},
            "output_tokens": row.completion,
            "output_tokens_details": {"reasoning_tokens": row.reasoning},
            "total_tokens": shape.total or row.prompt + row.completion,
        },
    }


def text(value: str) -> Body:
    """A block of a message."""
    return {"type": "text", "text": value}


def use(id: str, name: str, **arguments: Any) -> Body:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def said(value: str) -> Body:
    """An item of a response, with a text."""
    part = {"type": "output_text", "text": value, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_*", "status": "completed", "role": "assistant", "content": [part]}


def declined(value: str) -> Body:
    part = {"type": "refusal", "refusal": value}
    return {"type": "message", "id": "msg_*", "status": "completed", "role": "assistant", "content": [part]}


def thought(value: str) -> Body:
    summary = [{"type": "summary_text", "text": value}]
    return {"type": "reasoning", "id": "rs_*", "summary": summary, "status": "completed"}


def call(call_id: str, name: str, arguments: str) -> Body:
    return {
        "type": "function_call",
        "id": "fc_*",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def tool_call(id: str, name: str, arguments: str, **more: Any) -> Body:
    """One of a chat message."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


# -- reading an answer


def normal(body: bytes | Body) -> Any:
    """*body* with the gateway's own ids and clock taken out."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = json.loads(_OURS.sub(r"\1*", raw.decode()))
    for name in ("created", "created_at"):
        if abs(found.get(name, 0) - time.time()) < 60:
            found[name] = 0
    return found


def split(body: bytes) -> list[bytes]:
    """The events of a stream, each with the blank line behind it."""
    assert body.endswith(b"\n\n")
    return [part + b"\n\n" for part in body[:-2].split(b"\n\n")]


def payloads(body: bytes) -> list[Body]:
    """The data of every event that holds JSON; an event's name is its type."""
    found = []
    for part in split(body):
        lines = part.decode().rstrip("\n").split("\n")
        told = [line[6:] for line in lines if line.startswith("data: ")]
        if not told or told == ["[DONE]"]:
            continue
        (said,) = told
        value = json.loads(said)
        names = [line[7:] for line in lines if line.startswith("event: ")]
        assert names in ([], [value.get("type")]), names
        found.append(value)
    return found
