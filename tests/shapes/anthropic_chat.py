"""Anthropic at its OpenAI-compatible address, where chat clients of type ``anthropic`` go.

Shaped after https://docs.claude.com/en/api/openai-sdk (what is taken, what is left out).
"""

from typing import Any

from tests.shapes import asked
from tests.shapes.table import (
    DONE,
    Body,
    Break,
    Row,
    Shape,
    Vendor,
    call,
    data,
    failed,
    payload,
    said,
    text,
    use,
)

MODEL = "claude-sonnet-4-5"
HEAD = {"id": "msg_01XFDUDYJgAACzvnptvVoYEL", "created": 1759500000, "model": MODEL}


def usage(prompt: int, completion: int) -> Body:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def whole(message: Body, finish: str, spent: Body) -> Body:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, "logprobs": None}
    return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": spent}


def chunk(delta: Body, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
    return data({**HEAD, "object": "chat.completion.chunk", "choices": [choice], **more})


CALLS = [asked.made("toolu_01A", "get_weather", '{"city":"Rome"}'), asked.made("toolu_01B", "get_time", "{}")]
SHAPES = {
    "text": Shape(
        whole=whole({"content": "Rome is sunny."}, "stop", usage(20, 5)),
        frames=(
            chunk({"role": "assistant"}),
            chunk({"content": "Rome is"}),
            chunk({"content": " sunny."}),
            chunk({}, "stop", usage=usage(20, 5)),
            DONE,
        ),
        row=Row(20, 5),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "tools": Shape(
        whole=whole({"content": None, "tool_calls": CALLS}, "tool_calls", usage(300, 90)),
        frames=(
            chunk({"role": "assistant"}),
            chunk({"tool_calls": [{"index": 0, **asked.made("toolu_01A", "get_weather", "")}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city":"Rome"}'}}]}),
            chunk({"tool_calls": [{"index": 1, **asked.made("toolu_01B", "get_time", "")}]}),
            chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
            chunk({}, "tool_calls", usage=usage(300, 90)),
            DONE,
        ),
        row=Row(300, 90),
        content=[use("toolu_01A", "get_weather", city="Rome"), use("toolu_01B", "get_time")],
        stop="tool_use",
        output=[call("toolu_01A", "get_weather", '{"city":"Rome"}'), call("toolu_01B", "get_time", "{}")],
    ),
    "length": Shape(
        whole=whole({"content": "Once upon"}, "length", usage(9, 2)),
        frames=(chunk({"role": "assistant", "content": "Once upon"}), chunk({}, "length", usage=usage(9, 2)), DONE),
        row=Row(9, 2),
        content=[text("Once upon")],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
}


def refused(message: str, type: str) -> Body:
    return {"error": {"code": type, "message": message, "type": type, "param": None}}


INVALID, BAD = "invalid_request_error", "provider_bad_request"
TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
OVERLOADED = refused("Overloaded", "overloaded_error")
VENDOR = Vendor(
    kind="anthropic",
    model=MODEL,
    base="",
    dialects=("chat", "responses"),  # a Messages client goes to Anthropic's own
    path="/v1/chat/completions",
    shapes=SHAPES,
    faults={
        "401": failed(401, refused("invalid x-api-key", "authentication_error")),
        "400 context": payload(400, refused(TOO_LONG, INVALID), TOO_LONG, INVALID, None, kind=BAD),
        "529": failed(529, OVERLOADED),
    },
    breaks={
        "error": Break(
            (chunk({"role": "assistant", "content": "Rome"}), data(OVERLOADED)),
            chat=data(OVERLOADED),
            message="Overloaded",
            type="overloaded_error",
            code="overloaded_error",
        )
    },
    sent=asked.chat(
        MODEL,
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "min_p",
        "reasoning_effort",
    ),
    sent_headers={"x-api-key": "sk-vendor-key-0001", "anthropic-version": "2023-06-01"},
)
