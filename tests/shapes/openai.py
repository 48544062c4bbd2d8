"""OpenAI, spoken to in chat form.

Shaped after https://platform.openai.com/docs/api-reference/chat (bodies), /docs/api-reference/chat-streaming (frames,
obfuscation), /docs/guides/error-codes and /docs/guides/rate-limits (headers).
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
    declined,
    failed,
    gone,
    payload,
    said,
    text,
    unpaid,
    use,
)

MODEL = "gpt-5-mini"
SERVED = "gpt-5-mini-2025-08-07"
HEAD = {"id": "chatcmpl-CMx7kQ2pWvTzYb4RfGhJn8sLdEoUa", "created": 1759500000, "model": SERVED}


def usage(prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0) -> Body:
    spoken = {"audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning, **spoken},
    }


def whole(message: Body, finish: str, spent: Body, **choice: Any) -> Body:
    told = {"role": "assistant", "content": None, "refusal": None, "annotations": [], **message}
    return {
        **HEAD,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": told, **choice, "finish_reason": finish}],
        "usage": spent,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def event(choices: list[Body], spent: Body | None, padding: str) -> bytes:
    """*padding* makes frames of different deltas alike in length."""
    head = {**HEAD, "object": "chat.completion.chunk", "service_tier": "default", "system_fingerprint": None}
    return data({**head, "choices": choices, "usage": spent, "obfuscation": padding})


def chunk(delta: Body, finish: str | None = None, padding: str = "kR7vTq", **choice: Any) -> bytes:
    return event([{"index": 0, "delta": delta, **choice, "finish_reason": finish}], None, padding)


ROLE = chunk({"role": "assistant", "content": "", "refusal": None})


def ends(finish: str, spent: Body) -> tuple[bytes, ...]:
    return chunk({}, finish, "w"), event([], spent, ""), DONE


def scored(token: str, logprob: float) -> Body:
    entry = {"token": token, "logprob": logprob, "bytes": list(token.encode())}
    return {"content": [{**entry, "top_logprobs": [entry]}], "refusal": None}


FORECAST = '{"place":"Rome","degrees":21.5}'
ROME, OSLO = '{"city":"Rome"}', '{"city":"Oslo"}'
SHAPES = {
    "text": Shape(
        whole=whole({"content": "Rome is sunny."}, "stop", usage(1200, 5, cached=1024)),
        frames=(
            ROLE,
            chunk({"content": "Rome is"}),
            chunk({"content": " sunny."}),
            *ends("stop", usage(1200, 5, cached=1024)),
        ),
        usage_at=4,
        row=Row(1200, 5, 0, 1024, 176),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "reasoning": Shape(
        # What it thought stays with OpenAI; it is counted.
        whole=whole({"content": "9.8"}, "stop", usage(12, 200, reasoning=192)),
        frames=(ROLE, chunk({"content": "9.8"}), *ends("stop", usage(12, 200, reasoning=192))),
        usage_at=3,
        row=Row(12, 200, 192, 0, 12),
        content=[text("9.8")],
        stop="end_turn",
        output=[said("9.8")],
    ),
    "tools": Shape(
        whole=whole(
            {
                "tool_calls": [
                    asked.made("call_Yk1rome", "get_weather", ROME),
                    asked.made("call_Yk2oslo", "get_weather", OSLO),
                ]
            },
            "tool_calls",
            usage(90, 50, reasoning=10),
        ),
        frames=(
            chunk({"role": "assistant", "content": None}),
            chunk({"tool_calls": [{"index": 0, **asked.made("call_Yk1rome", "get_weather", "")}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"ci'}}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'ty":"Rome"}'}}]}),
            chunk({"tool_calls": [{"index": 1, **asked.made("call_Yk2oslo", "get_weather", "")}]}),
            chunk({"tool_calls": [{"index": 1, "function": {"arguments": '{"ci'}}]}),
            chunk({"tool_calls": [{"index": 1, "function": {"arguments": 'ty":"Oslo"}'}}]}),
            *ends("tool_calls", usage(90, 50, reasoning=10)),
        ),
        usage_at=8,
        row=Row(90, 50, 10, 0, 90),
        content=[use("call_Yk1rome", "get_weather", city="Rome"), use("call_Yk2oslo", "get_weather", city="Oslo")],
        stop="tool_use",
        output=[call("call_Yk1rome", "get_weather", ROME), call("call_Yk2oslo", "get_weather", OSLO)],
    ),
    "text and a call": Shape(
        whole=whole(
            {"content": "I will look.", "tool_calls": [asked.made("call_Yk3", "get_time", "{}")]},
            "tool_calls",
            usage(90, 20),
        ),
        frames=(
            ROLE,
            chunk({"content": "I will"}),
            chunk({"content": " look."}),
            chunk({"tool_calls": [{"index": 0, **asked.made("call_Yk3", "get_time", "")}]}),
            chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
            *ends("tool_calls", usage(90, 20)),
        ),
        usage_at=6,
        row=Row(90, 20, 0, 0, 90),
        content=[text("I will look."), use("call_Yk3", "get_time")],
        stop="tool_use",
        output=[said("I will look."), call("call_Yk3", "get_time", "{}")],
    ),
    "length": Shape(
        whole=whole({"content": "Once upon"}, "length", usage(9, 2)),
        frames=(ROLE, chunk({"content": "Once upon"}), *ends("length", usage(9, 2))),
        usage_at=3,
        row=Row(9, 2, 0, 0, 9),
        content=[text("Once upon")],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
    "length, all of it reasoning": Shape(
        whole=whole({"content": ""}, "length", usage(9, 64, reasoning=64)),
        frames=(ROLE, *ends("length", usage(9, 64, reasoning=64))),
        usage_at=2,
        row=Row(9, 64, 64, 0, 9),
        content=[],
        stop="max_tokens",
        output=[],
        incomplete="max_output_tokens",
    ),
    "refusal": Shape(
        whole=whole({"refusal": "I cannot help with that."}, "stop", usage(9, 7)),
        frames=(
            chunk({"role": "assistant", "content": None, "refusal": ""}),
            chunk({"refusal": "I cannot help"}),
            chunk({"refusal": " with that."}),
            *ends("stop", usage(9, 7)),
        ),
        usage_at=4,
        row=Row(9, 7, 0, 0, 9),
        content=[text("I cannot help with that.")],
        stop="end_turn",
        output=[declined("I cannot help with that.")],
    ),
    "structured, with probabilities": Shape(
        whole=whole({"content": FORECAST}, "stop", usage(64, 12), logprobs=scored(FORECAST, -0.25)),
        frames=(
            ROLE,
            chunk({"content": FORECAST[:9]}, logprobs=scored(FORECAST[:9], -0.125)),
            chunk({"content": FORECAST[9:]}, logprobs=scored(FORECAST[9:], -0.125)),
            *ends("stop", usage(64, 12)),
        ),
        usage_at=4,
        row=Row(64, 12, 0, 0, 64),
        content=[text(FORECAST)],
        stop="end_turn",
        output=[said(FORECAST)],
    ),
}


def refused(message: str, type: str, code: str | None = None, param: str | None = None) -> Body:
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


INVALID, BAD = "invalid_request_error", "provider_bad_request"
MISSING = f"The model `{MODEL}` does not exist or you do not have access to it."
MINUTE = (
    "Rate limit reached for gpt-5-mini on tokens per min (TPM): Limit 200000, Used 199500. Please try again in 600ms."
)
QUOTA = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."
POLICY = "Invalid prompt: it was flagged as potentially violating our usage policy."
VALUE = "Invalid value for 'stop': expected at most 4 entries."
BUSY = "The server had an error while processing your request."
KEY = "Incorrect API key provided: sk-vendo*****0001."
FAULTS = {
    "401": failed(401, refused(KEY, INVALID, "invalid_api_key")),
    "403": failed(
        403, refused("Country, region, or territory not supported.", "request_forbidden", "unsupported_country")
    ),
    "404 model": gone(404, refused(MISSING, INVALID, "model_not_found")),
    "429 a minute": busy(
        429,
        refused(MINUTE, "tokens", "rate_limit_exceeded"),
        "6",
        x_ratelimit_limit_tokens="200000",
        x_ratelimit_remaining_tokens="0",
        x_ratelimit_reset_requests="120ms",
        x_ratelimit_reset_tokens="6s",
        openai_organization="org-1",
        x_request_id="req_of_openai",
    ),
    "429 quota": unpaid(429, refused(QUOTA, "insufficient_quota", "insufficient_quota")),
    "400 context": payload(
        400, refused(TOO_LONG, INVALID, "context_length_exceeded", "messages"), TOO_LONG, INVALID, None, kind=BAD
    ),
    "400 policy": payload(400, refused(POLICY, INVALID, "invalid_prompt"), POLICY, INVALID, None, kind=BAD),
    "400 value": payload(400, refused(VALUE, INVALID, "invalid_value", "stop"), VALUE, INVALID, None, kind=BAD),
    "500": failed(500, refused(BUSY, "server_error")),
    "503": failed(503, refused("The engine is currently busy, please try again later.", "server_error")),
}
BREAKS = {
    "error": Break(
        (ROLE, chunk({"content": "Rome"}), data(refused(BUSY, "server_error"))),
        chat=data(refused(BUSY, "server_error")),
        message=BUSY,
        type="api_error",
        code="server_error",
    )
}
VENDOR = Vendor(
    kind="openai",
    model=MODEL,
    path="/v1/chat/completions",
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent=asked.chat(MODEL, "min_p", "top_k"),
    sent_headers={"authorization": "Bearer sk-vendor-key-0001"},
)
