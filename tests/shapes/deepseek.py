"""DeepSeek, spoken to in chat form.

Shaped after https://api-docs.deepseek.com/api/create-chat-completion (bodies, usage, finish reasons),
/guides/reasoning_model (reasoning_content), /quick_start/rate_limit (keep-alives) and /quick_start/error_codes.
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
    busy,
    call,
    data,
    failed,
    gone,
    payload,
    said,
    text,
    thought,
    unpaid,
    use,
)

MODEL = "deepseek-reasoner"
ID = "7f3c1a52-9d0e-4c1b-8a57-2f64c0b1d9e3"
PRINT = "fp_ffc7281d48_prod0820_fp8_kvcache"
WAITING = b": keep-alive\n\n"  # written while the request waits its turn


def usage(prompt: int, hit: int, completion: int, reasoning: int | None = None) -> Body:
    found: Body = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": hit},
    }
    if reasoning is not None:
        found["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return {**found, "prompt_cache_hit_tokens": hit, "prompt_cache_miss_tokens": prompt - hit}


def whole(message: Body, finish: str, spent: Body) -> Body:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "logprobs": None, "finish_reason": finish}
    head = {"id": ID, "object": "chat.completion", "created": 1759500000, "model": MODEL}
    return {**head, "choices": [choice], "usage": spent, "system_fingerprint": PRINT}


def chunk(delta: Body, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": ID, "object": "chat.completion.chunk", "created": 1759500000, "model": MODEL}
    return data({**head, "system_fingerprint": PRINT, "choices": [choice], **more})


ROLE = chunk({"role": "assistant", "content": ""})


def ends(finish: str, spent: Body) -> tuple[bytes, ...]:
    """DeepSeek counts on the chunk that states the reason; there is none with nothing but usage."""
    return chunk({"content": ""}, finish, usage=spent), DONE


SHAPES = {
    "text": Shape(
        # While the request waits its turn the body begins with empty lines.
        lead=b"\n\n\n",
        whole=whole({"content": "Rome is sunny."}, "stop", usage(20, 16, 5)),
        frames=(
            WAITING,
            WAITING,
            ROLE,
            chunk({"content": "Rome is"}),
            chunk({"content": " sunny."}),
            *ends("stop", usage(20, 16, 5)),
        ),
        row=Row(20, 5, 0, 16, 4),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "reasoning": Shape(
        whole=whole({"content": "9.8", "reasoning_content": "9.80 > 9.11."}, "stop", usage(12, 0, 30, 24)),
        frames=(
            chunk({"role": "assistant", "content": None, "reasoning_content": ""}),
            chunk({"content": None, "reasoning_content": "9.80 >"}),
            chunk({"content": None, "reasoning_content": " 9.11."}),
            chunk({"content": "9.8", "reasoning_content": None}),
            *ends("stop", usage(12, 0, 30, 24)),
        ),
        row=Row(12, 30, 24, 0, 12),
        content=[text("9.8")],
        stop="end_turn",
        output=[thought("9.80 > 9.11."), said("9.8")],
    ),
    "tools": Shape(
        whole=whole(
            {
                "content": "",
                "reasoning_content": "Two cities.",
                "tool_calls": [
                    {"index": 0, **asked.made("call_00_a", "get_weather", '{"city": "Rome"}')},
                    {"index": 1, **asked.made("call_01_b", "get_weather", '{"city": "Oslo"}')},
                ],
            },
            "tool_calls",
            usage(200, 128, 40, 12),
        ),
        frames=(
            chunk({"role": "assistant", "content": None, "reasoning_content": "Two cities."}),
            chunk({"tool_calls": [{"index": 0, **asked.made("call_00_a", "get_weather", "")}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]}),
            chunk({"tool_calls": [{"index": 1, **asked.made("call_01_b", "get_weather", "")}]}),
            chunk({"tool_calls": [{"index": 1, "function": {"arguments": '{"city": "Oslo"}'}}]}),
            *ends("tool_calls", usage(200, 128, 40, 12)),
        ),
        row=Row(200, 40, 12, 128, 72),
        content=[use("call_00_a", "get_weather", city="Rome"), use("call_01_b", "get_weather", city="Oslo")],
        stop="tool_use",
        output=[
            thought("Two cities."),
            call("call_00_a", "get_weather", '{"city": "Rome"}'),
            call("call_01_b", "get_weather", '{"city": "Oslo"}'),
        ],
    ),
    "length": Shape(
        whole=whole({"content": "Once upon"}, "length", usage(9, 0, 2)),
        frames=(ROLE, chunk({"content": "Once upon"}), *ends("length", usage(9, 0, 2))),
        row=Row(9, 2, 0, 0, 9),
        content=[text("Once upon")],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
    "interrupted": Shape(
        # The inference system had no room to go on: a stop before the end, which OpenAI's words call length.
        whole=whole({"content": "Half of"}, "insufficient_system_resource", usage(9, 0, 2)),
        chat=whole({"content": "Half of"}, "length", usage(9, 0, 2)),
        frames=(ROLE, chunk({"content": "Half of"}), *ends("insufficient_system_resource", usage(9, 0, 2))),
        changed={2: chunk({"content": ""}, "length", usage=usage(9, 0, 2))},
        row=Row(9, 2, 0, 0, 9),
        content=[text("Half of")],
        stop="max_tokens",
        output=[said("Half of")],
        incomplete="max_output_tokens",
    ),
    "filter": Shape(
        whole=whole({"content": "I"}, "content_filter", usage(9, 0, 1)),
        frames=(ROLE, chunk({"content": "I"}), *ends("content_filter", usage(9, 0, 1))),
        row=Row(9, 1, 0, 0, 9),
        content=[text("I")],
        stop="end_turn",
        output=[said("I")],
        incomplete="content_filter",
    ),
    "structured": Shape(
        whole=whole({"content": '{"place": "Rome", "degrees": 21.5}'}, "stop", usage(64, 64, 12)),
        frames=(
            ROLE,
            chunk({"content": '{"place": "Rome",'}),
            chunk({"content": ' "degrees": 21.5}'}),
            *ends("stop", usage(64, 64, 12)),
        ),
        row=Row(64, 12, 0, 64, 0),
        content=[text('{"place": "Rome", "degrees": 21.5}')],
        stop="end_turn",
        output=[said('{"place": "Rome", "degrees": 21.5}')],
    ),
}


def refused(message: str, type: str, code: str | None = "invalid_request_error") -> Body:
    return {"error": {"message": message, "type": type, "param": None, "code": code}}


TOO_LONG = "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens."
INVALID = "invalid_request_error"
RISK = "Content Exists Risk"
BAD = "provider_bad_request"
FAULTS = {
    "401": failed(401, refused("Authentication Fails, Your api key: ****0001 is invalid", "authentication_error")),
    "402": unpaid(402, refused("Insufficient Balance", "unknown_error")),
    "404 model": gone(404, refused(f"The model `{MODEL}` does not exist.", "invalid_request_error", "model_not_found")),
    "422": payload(
        422, refused("temperature: too large", "invalid_request_error"), "temperature: too large", INVALID, INVALID
    ),
    "429": busy(429, refused("Too many concurrent requests, please slow down.", "rate_limit_error"), "2"),
    "400 context": payload(400, refused(TOO_LONG, INVALID), TOO_LONG, INVALID, INVALID, kind=BAD),
    "400 policy": payload(400, refused(RISK, INVALID), RISK, INVALID, INVALID, kind=BAD),
    "500": failed(500, refused("Internal error.", "server_error")),
    "503": failed(503, refused("Service is too busy.", "service_unavailable_error")),
}
OVERLOADED = refused("Server overloaded, stream ended", "server_error", "server_error")
BREAKS = {
    "error": Break(
        (ROLE, chunk({"content": "Rome"}), data(OVERLOADED)),
        chat=data(OVERLOADED),
        message="Server overloaded, stream ended",
        type="api_error",
        code="server_error",
    )
}

IN_WORDS = "\n\nRespond with a single JSON object and nothing else. It must conform to this JSON Schema:\n"
VENDOR = Vendor(
    kind="deepseek",
    model=MODEL,
    path="/v1/chat/completions",
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent=asked.chat(
        MODEL,
        "min_p",
        "top_k",
        "reasoning_effort",
        # It takes no schema: the schema goes along in words (v1-api 11.6). Its turns want reasoning_content (11.4).
        response_format={"type": "json_object"},
        messages=[
            {"role": "system", "content": asked.SYSTEM + IN_WORDS + asked.SCHEMA_TEXT},
            asked.CHAT_MESSAGES[1],
            {**asked.CHAT_MESSAGES[2], "reasoning_content": ""},
            asked.CHAT_MESSAGES[3],
            {**asked.CHAT_MESSAGES[4], "reasoning_content": ""},
            asked.CHAT_MESSAGES[5],
        ],
    ),
    sent_headers={"authorization": "Bearer sk-vendor-key-0001"},
)
