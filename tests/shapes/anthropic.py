"""Anthropic, spoken to in Messages (type ``anthropic-messages``; a Messages client passes untouched).

Shaped after https://docs.claude.com/en/api/messages (bodies), /en/docs/build-with-claude/streaming (events, pings),
/en/docs/build-with-claude/extended-thinking (signatures, redacted blocks), /en/docs/build-with-claude/prompt-caching
(cache_creation), /en/api/errors and /en/api/rate-limits (headers).
"""

from typing import Any

from tests.shapes import asked
from tests.shapes.table import (
    Body,
    Break,
    Row,
    Shape,
    Vendor,
    busy,
    call,
    compact,
    completion,
    data,
    failed,
    gone,
    named,
    payload,
    said,
    text,
    thought,
    tool_call,
    use,
)
from tests.upstream.vendors_api import PING, SIGNATURE, message_events, thinking

MODEL = "claude-sonnet-4-5"
REQUEST = "req_011CSHoEeqs5C35K2UUqR7Fy"
REDACTED = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP"}


def usage(prompt: int, completion: int, *, read: int = 0, written: int = 0, **more: Any) -> Body:
    """The three counts of the prompt exclude each other."""
    return {
        "input_tokens": prompt,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": completion,
        "service_tier": "standard",
        **more,
    }


def whole(content: list[Body], stop: str, spent: Body, sequence: str | None = None) -> Body:
    head = {"model": MODEL, "id": "msg_01XFDUDYJgAACzvnptvVoYEL", "type": "message", "role": "assistant"}
    return {**head, "content": content, "stop_reason": stop, "stop_sequence": sequence, "usage": spent}


def frames(content: list[Body], stop: str, spent: Body) -> tuple[bytes, ...]:
    """All events, with pings; the input of a tool in pieces without a blank."""
    told: list[Body] = []
    for event in message_events(MODEL, content, stop, spent):
        if event["type"] == "message_delta":  # counts once more, all of them
            told.append({**event, "usage": {name: spent[name] for name in spent if name != "service_tier"}})
        elif event.get("delta", {}).get("type") != "input_json_delta":
            told.append(event)
        elif event["delta"]["partial_json"] == "":
            given = compact(content[event["index"]]["input"]).decode()
            for piece in ("", given[:5], given[5:]):
                told.append({**event, "delta": {"type": "input_json_delta", "partial_json": piece}})
    return tuple(map(named, told))


def chat(
    message: Body, finish: str, prompt: int, completed: int, read: int = 0, written: int = 0, *, reasoning: int = 0
) -> Body:
    """As a chat client gets it; the prompt's count is all three."""
    spent: Body = {
        "prompt_tokens": prompt,
        "completion_tokens": completed,
        "total_tokens": prompt + completed,
        "prompt_tokens_details": {"cached_tokens": read},
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    }
    if reasoning:
        spent["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return completion(MODEL, message, finish, spent)


TEXT = [text("Rome is sunny.")]
THINKING = [thinking("Two cities."), REDACTED, text("I will look.")]
USES = [use("toolu_01A", "get_weather", city="Rome"), use("toolu_01B", "get_time")]
SEARCH: list[Body] = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "weather rome"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://weather.example/rome",
                "title": "Rome",
                "encrypted_content": "Eqo=",
                "page_age": None,
            }
        ],
    },
    {
        "type": "text",
        "text": "Rome is sunny.",
        "citations": [{"type": "web_search_result_location", "url": "https://weather.example/rome", "title": "Rome"}],
    },
]
THOUGHT_USAGE = usage(300, 90, output_tokens_details={"thinking_tokens": 40})
SEARCHED = usage(200, 40, server_tool_use={"web_search_requests": 1})
FORECAST = '{"place":"Rome","degrees":21.5}'
SUNNY = {"content": "Rome is sunny."}

SHAPES = {
    "text": Shape(
        whole=whole(TEXT, "end_turn", usage(12, 30, read=1000, written=100)),
        frames=frames(TEXT, "end_turn", usage(12, 30, read=1000, written=100)),
        chat=chat(SUNNY, "stop", 1112, 30, 1000, 100),
        row=Row(1112, 30, 0, 1000, 112),
        content=TEXT,
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "thinking and tools": Shape(
        whole=whole([*THINKING, *USES], "tool_use", THOUGHT_USAGE),
        frames=frames([*THINKING, *USES], "tool_use", THOUGHT_USAGE),
        chat=chat(
            {
                "content": "I will look.",
                "reasoning_content": "Two cities.",
                "tool_calls": [
                    tool_call("toolu_01A", "get_weather", '{"city":"Rome"}'),
                    tool_call("toolu_01B", "get_time", "{}"),
                ],
            },
            "tool_calls",
            300,
            90,
            reasoning=40,
        ),
        row=Row(300, 90, 40, 0, 300),
        native_row=Row(300, 90, 40),
        content=[],
        stop="tool_use",
        output=[
            thought("Two cities."),
            said("I will look."),
            call("toolu_01A", "get_weather", '{"city":"Rome"}'),
            call("toolu_01B", "get_time", "{}"),
        ],
    ),
    "a search of its own": Shape(
        whole=whole(SEARCH, "end_turn", SEARCHED),
        frames=frames(SEARCH, "end_turn", SEARCHED),
        chat=chat(SUNNY, "stop", 200, 40),
        row=Row(200, 40, 0, 0, 200),
        native_row=Row(200, 40),
        content=[],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "length": Shape(
        whole=whole([text("Once upon")], "max_tokens", usage(9, 2)),
        frames=frames([text("Once upon")], "max_tokens", usage(9, 2)),
        chat=chat({"content": "Once upon"}, "length", 9, 2),
        row=Row(9, 2, 0, 0, 9),
        native_row=Row(9, 2),
        content=[],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
    "refusal": Shape(
        whole=whole([text("I")], "refusal", usage(9, 1)),
        frames=frames([text("I")], "refusal", usage(9, 1)),
        chat=chat({"content": "I"}, "content_filter", 9, 1),
        row=Row(9, 1, 0, 0, 9),
        native_row=Row(9, 1),
        content=[],
        stop="refusal",
        output=[said("I")],
        incomplete="content_filter",
    ),
    "stop sequence": Shape(
        whole=whole([text("one, two,")], "stop_sequence", usage(9, 5), "END"),
        frames=frames([text("one, two,")], "stop_sequence", usage(9, 5)),
        chat=chat({"content": "one, two,"}, "stop", 9, 5),
        row=Row(9, 5, 0, 0, 9),
        native_row=Row(9, 5),
        content=[],
        stop="stop_sequence",
        output=[said("one, two,")],
    ),
    "structured": Shape(
        whole=whole([text(FORECAST)], "end_turn", usage(64, 12)),
        frames=frames([text(FORECAST)], "end_turn", usage(64, 12)),
        chat=chat({"content": FORECAST}, "stop", 64, 12),
        row=Row(64, 12, 0, 0, 64),
        native_row=Row(64, 12),
        content=[],
        stop="end_turn",
        output=[said(FORECAST)],
    ),
}


def refused(message: str, type: str) -> Body:
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": REQUEST}


INVALID, BAD = "invalid_request_error", "provider_bad_request"
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
POLICY = "Output blocked by content filtering policy"
UNPAID = "Your credit balance is too low to access the Anthropic API."
MINUTE = "This request would exceed your organization's rate limit of 50 requests per minute."
FAULTS = {
    "401": failed(401, refused("invalid x-api-key", "authentication_error")),
    "403": failed(403, refused("Your API key does not have permission to use the resource.", "permission_error")),
    "404 model": gone(404, refused(f"model: {MODEL}", "not_found_error")),
    "413": payload(
        413,
        refused("Request exceeds the maximum size", "request_too_large"),
        "Request exceeds the maximum size",
        "request_too_large",
        "provider_error",
    ),
    "429": busy(
        429,
        refused(MINUTE, "rate_limit_error"),
        "7",
        retry_after="7",
        anthropic_ratelimit_requests_limit="50",
        anthropic_ratelimit_requests_remaining="0",
        anthropic_ratelimit_requests_reset="2026-11-30T12:00:00Z",
        request_id=REQUEST,
    ),
    "400 context": payload(400, refused(TOO_LONG, INVALID), TOO_LONG, INVALID, "context_length_exceeded", kind=BAD),
    "400 policy": payload(400, refused(POLICY, INVALID), POLICY, INVALID, BAD, kind=BAD),
    # Its balance is told by a 400, which no circuit reads.
    "400 credit": payload(
        400, refused(UNPAID, INVALID), UNPAID, INVALID, "insufficient_quota", kind="provider_not_entitled"
    ),
    "500": failed(500, refused("Internal server error", "api_error")),
    "529": failed(529, refused("Overloaded", "overloaded_error")),
}
OVERLOADED = named({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
BREAKS = {
    "error": Break(
        (*frames(TEXT, "end_turn", usage(12, 30))[:4], named(PING), OVERLOADED),
        chat=data({"error": {"message": "Overloaded", "type": "overloaded_error", "param": None, "code": None}}),
        message="Overloaded",
        type="overloaded_error",
        code="overloaded_error",
        native=OVERLOADED,
        kept=" (overloaded_error, status 529)",
    )
}
VENDOR = Vendor(
    kind="anthropic-messages",
    model=MODEL,
    base="",
    path="/v1/messages",
    own="messages",
    native="messages",
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent={
        "model": MODEL,
        "system": asked.SYSTEM,
        "messages": [
            {
                "role": "user",
                "content": [
                    text(asked.QUESTION),
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": asked.PICTURE},
                    },
                    {"type": "image", "source": {"type": "url", "url": asked.LINK}},
                ],
            },
            {"role": "assistant", "content": [text("I will look."), use("call_a", "get_weather", city="Rome")]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_a", "content": '{"degrees": 21}'}],
            },
            {"role": "assistant", "content": "Rome, 21 degrees."},
            {"role": "user", "content": "And as JSON?"},
        ],
        "tools": [
            {"name": "get_weather", "description": "The weather of a city.", "input_schema": asked.PARAMETERS},
        ],
        "tool_choice": {"type": "auto"},
        # With thinking on, no sampling goes along (v1-api 14.4).
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": asked.SCHEMA}},
        "max_tokens": 5000,
        "stop_sequences": ["END", "STOP"],
        "stream": True,
    },
    sent_headers={"x-api-key": "sk-vendor-key-0001", "anthropic-version": "2023-06-01"},
)
assert SIGNATURE in str(SHAPES["thinking and tools"].whole)
