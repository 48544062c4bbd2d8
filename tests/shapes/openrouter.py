"""OpenRouter, spoken to in chat form.

Shaped after https://openrouter.ai/docs/api-reference/overview (bodies, comments while processing),
/docs/use-cases/reasoning-tokens (reasoning, reasoning_details), /docs/use-cases/usage-accounting (cost),
/docs/api-reference/errors (error objects, errors within streams) and /docs/api-reference/limits.
"""

import time
from typing import Any

from tests.shapes import asked
from tests.shapes.table import (
    DONE,
    Body,
    Break,
    Fault,
    Row,
    Shape,
    Vendor,
    busy,
    call,
    data,
    declined,
    failed,
    payload,
    said,
    spent,
    text,
    thought,
    unpaid,
    use,
)

MODEL = "anthropic/claude-sonnet-4.5"
HEAD = {"id": "gen-1759500000-Qb2kXw7LhT9vRzYdUoPn", "provider": "Anthropic", "model": MODEL}
WAITING = b": OPENROUTER PROCESSING\n\n"


def usage(prompt: int, completion: int, cost: float, *, cached: int = 0, reasoning: int = 0) -> Body:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "cost": cost,
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0, "audio_tokens": 0},
        "cost_details": {"upstream_inference_cost": None, "upstream_inference_prompt_cost": cost / 2},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "image_tokens": 0},
    }


def whole(message: Body, finish: str, native: str, spent: Body) -> Body:
    told = {"role": "assistant", "content": None, "refusal": None, "reasoning": None, **message}
    choice = {"logprobs": None, "finish_reason": finish, "native_finish_reason": native, "index": 0, "message": told}
    return {**HEAD, "object": "chat.completion", "created": 1759500000, "choices": [choice], "usage": spent}


def chunk(delta: Body, finish: str | None = None, native: str | None = None, **more: Any) -> bytes:
    told = {"role": "assistant", "content": "", **delta}
    choice = {"index": 0, "delta": told, "finish_reason": finish, "native_finish_reason": native, "logprobs": None}
    return data({**HEAD, "object": "chat.completion.chunk", "created": 1759500000, "choices": [choice], **more})


def normal(delta: Body) -> bytes:
    """A chunk of nothing but reasoning as the gateway passes it: without the empty content."""
    told = {"role": "assistant", **delta}
    choice = {"index": 0, "delta": told, "finish_reason": None, "native_finish_reason": None, "logprobs": None}
    return data({**HEAD, "object": "chat.completion.chunk", "created": 1759500000, "choices": [choice]})


def counted(spent: Body) -> bytes:
    return data({**HEAD, "object": "chat.completion.chunk", "created": 1759500000, "choices": [], "usage": spent})


def detail(value: str, **more: Any) -> Body:
    return {"type": "reasoning.text", "text": value, **more, "format": "anthropic-claude-v1", "index": 0}


SEALED = {"type": "reasoning.encrypted", "data": "gAAAAABo", "id": "rs_1", "format": "openai-responses-v1", "index": 0}
SUMMED = {"type": "reasoning.summary", "summary": "Adding.", "format": "openai-responses-v1", "index": 0}
THOUGHT: Body = {"reasoning": "Two cities.", "reasoning_details": [detail("Two cities.", signature="EqQB")]}
PIECES: tuple[Body, ...] = (
    {"reasoning": "Two ", "reasoning_details": [detail("Two ")]},
    {"reasoning": "cities.", "reasoning_details": [detail("cities.")]},
)
CALLS = [asked.made("toolu_a", "get_weather", '{"city": "Rome"}'), asked.made("toolu_b", "get_weather", "{}")]
INDEXED = [{"index": at, **one} for at, one in enumerate(CALLS)]
HALF = {"index": 0, "id": None, "type": "function", "function": {"name": None, "arguments": '"Rome"}'}}
FORECAST = '{"place":"Rome","degrees":21.5}'

SHAPES = {
    "text": Shape(
        whole=whole({"content": "Rome is sunny."}, "stop", "end_turn", usage(20, 5, 0.000135, cached=16)),
        frames=(
            WAITING,
            WAITING,
            chunk({"content": "Rome is"}),
            WAITING,
            chunk({"content": " sunny."}),
            chunk({}, "stop", "end_turn"),
            counted(usage(20, 5, 0.000135, cached=16)),
            DONE,
        ),
        usage_at=6,
        row=Row(20, 5, 0, 16, 4),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "reasoning and tools": Shape(
        whole=whole({**THOUGHT, "tool_calls": INDEXED}, "tool_calls", "tool_use", usage(300, 80, 0.002, reasoning=9)),
        chat=whole(
            {**THOUGHT, "tool_calls": INDEXED, "reasoning_content": "Two cities."},
            "tool_calls",
            "tool_use",
            usage(300, 80, 0.002, reasoning=9),
        ),
        frames=(
            WAITING,
            chunk(PIECES[0]),
            chunk(PIECES[1]),
            chunk({"reasoning_details": [{**detail(""), "signature": "EqQB"}]}),
            chunk({"content": None, "tool_calls": [{"index": 0, **asked.made("toolu_a", "get_weather", '{"city": ')}]}),
            chunk({"content": None, "tool_calls": [HALF]}),
            chunk({"content": None, "tool_calls": [{"index": 1, **asked.made("toolu_b", "get_weather", "{}")}]}),
            chunk({}, "tool_calls", "tool_use"),
            # The reason once more, on the chunk that counts.
            chunk({}, "tool_calls", "tool_use", usage=usage(300, 80, 0.002, reasoning=9)),
            DONE,
        ),
        changed={
            1: normal({**PIECES[0], "reasoning_content": "Two "}),
            2: normal({**PIECES[1], "reasoning_content": "cities."}),
        },
        row=Row(300, 80, 9, 0, 300),
        content=[use("toolu_a", "get_weather", city="Rome"), use("toolu_b", "get_weather")],
        stop="tool_use",
        output=[
            thought("Two cities."),
            call("toolu_a", "get_weather", '{"city": "Rome"}'),
            call("toolu_b", "get_weather", "{}"),
        ],
    ),
    "sealed reasoning": Shape(
        # Details without a text of their own give no reasoning_content; they pass, for the next turn.
        whole=whole({"content": "4", "reasoning_details": [SUMMED, SEALED]}, "stop", "completed", usage(8, 70, 0.0007)),
        frames=(
            chunk({"reasoning_details": [SUMMED, SEALED]}),
            chunk({"content": "4"}),
            chunk({}, "stop", "completed", usage=usage(8, 70, 0.0007)),
            DONE,
        ),
        row=Row(8, 70, 0, 0, 8),
        content=[text("4")],
        stop="end_turn",
        output=[said("4")],
    ),
    "length": Shape(
        whole=whole({"content": "Once upon"}, "length", "max_tokens", usage(9, 2, 0.00003)),
        frames=(
            chunk({"content": "Once upon"}),
            chunk({}, "length", "max_tokens"),
            counted(usage(9, 2, 0.00003)),
            DONE,
        ),
        usage_at=2,
        row=Row(9, 2, 0, 0, 9),
        content=[text("Once upon")],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
    "filter": Shape(
        whole=whole(
            {"content": "", "refusal": "I cannot help with that."}, "content_filter", "refusal", usage(9, 7, 0.0)
        ),
        frames=(
            chunk({"refusal": "I cannot help"}),
            chunk({"refusal": " with that."}),
            chunk({}, "content_filter", "refusal", usage=usage(9, 7, 0.0)),
            DONE,
        ),
        row=Row(9, 7, 0, 0, 9),
        content=[text("I cannot help with that.")],
        stop="end_turn",
        output=[declined("I cannot help with that.")],
        incomplete="content_filter",
    ),
    "structured": Shape(
        whole=whole({"content": FORECAST}, "stop", "end_turn", usage(64, 12, 0.0004)),
        frames=(
            chunk({"content": FORECAST[:12]}),
            chunk({"content": FORECAST[12:]}),
            chunk({}, "stop", "end_turn"),
            counted(usage(64, 12, 0.0004)),
            DONE,
        ),
        usage_at=3,
        row=Row(64, 12, 0, 0, 64),
        content=[text(FORECAST)],
        stop="end_turn",
        output=[said(FORECAST)],
    ),
}


def refused(code: int, message: str, **metadata: Any) -> Body:
    error: Body = {"code": code, "message": message}
    if metadata:
        error["metadata"] = metadata
    return {"error": error, "user_id": "user_2hV"}


BAD = "provider_bad_request"
TOO_LONG = "This endpoint's maximum context length is 200000 tokens. However, you requested about 210000 tokens."
LIMITS = {"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0"}
TOMORROW = str(int((time.time() + 7200) * 1000))
FLAGGED = {"reasons": ["violence"], "flagged_input": "...", "provider_name": "OpenAI", "model_slug": "openai/gpt-5"}
FAULTS = {
    "401": failed(401, refused(401, "User not found.")),
    "402": unpaid(402, refused(402, "This request requires more credits, or fewer max_tokens.")),
    "403 policy": failed(403, refused(403, "The input was flagged by moderation.", **FLAGGED)),
    "404 model": failed(404, refused(404, f"No endpoints found for {MODEL}."), verdict="noop"),
    "429 a minute": busy(429, refused(429, "Rate limit exceeded: free-models-per-min.", headers=LIMITS), "2"),
    "429 a day": spent(
        429,
        refused(429, "Rate limit exceeded: free-models-per-day.", headers=LIMITS),
        X_RateLimit_Limit="50",
        X_RateLimit_Reset=TOMORROW,
    ),
    "400 context": payload(
        400, refused(400, TOO_LONG, provider_name=None), TOO_LONG, "invalid_request_error", None, kind=BAD
    ),
    "502": failed(
        502, refused(502, "Provider returned error", raw="upstream connect error", provider_name="Anthropic")
    ),
    # What fails after the request was accepted is told under a 200.
    "200 error": Fault(
        200,
        refused(502, "Provider returned error"),
        "provider_error",
        "charge",
        "provider returned no choices (provider V, upstream HTTP 200)",
        "provider_error",
        type="server_error",
        anthropic="api_error",
        answered=502,
    ),
}
GONE = {"code": "server_error", "message": "Provider disconnected unexpectedly"}
BREAKS = {
    "error beside a choice": Break(
        (WAITING, chunk({"content": "Rome"}), chunk({}, "error", error=GONE)),
        chat=chunk({}, "error", error=GONE),
        message="Provider disconnected unexpectedly",
        type="api_error",
        code="server_error",
    ),
    "error with a number": Break(
        (chunk({"content": "Rome"}), data(refused(502, "Provider disconnected"))),
        chat=data(refused(502, "Provider disconnected")),
        message="Provider disconnected",
        type="api_error",
        code="server_error",
    ),
}
VENDOR = Vendor(
    kind="openrouter",
    model=MODEL,
    path="/v1/chat/completions",
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent=asked.chat(MODEL, "reasoning_effort"),
    sent_headers={"authorization": "Bearer sk-vendor-key-0001"},
)
