"""Azure OpenAI and Azure AI Foundry (type ``azure``), spoken to in chat form at the resource's v1 address.

Shaped after https://learn.microsoft.com/azure/ai-foundry/openai/latest (bodies), /azure/ai-foundry/openai/concepts/
content-filter and content-streaming (filter results, the first frame, asynchronous filtering) and
/azure/ai-foundry/openai/how-to/quota (429).
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
    payload,
    said,
    text,
    use,
)

MODEL = "chat-deployment"  # a deployment's name
SERVED = "gpt-4.1-2025-04-14"
HEAD = {"created": 1759500000, "id": "chatcmpl-CMx7kQ2pWvTzYb4RfGhJn8sLdEoUb", "model": SERVED}
SAFE = {
    "hate": {"filtered": False, "severity": "safe"},
    "self_harm": {"filtered": False, "severity": "safe"},
    "sexual": {"filtered": False, "severity": "safe"},
    "violence": {"filtered": False, "severity": "safe"},
}
PROMPT = [{"prompt_index": 0, "content_filter_results": {**SAFE, "jailbreak": {"filtered": False, "detected": False}}}]
CUT = {**SAFE, "violence": {"filtered": True, "severity": "medium"}}
CODE = {"filtered": False, "detected": True, "citation": {"URL": "https://code.example/x", "license": "MIT"}}


def usage(prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0) -> Body:
    return {
        "completion_tokens": completion,
        "completion_tokens_details": {"audio_tokens": 0, "reasoning_tokens": reasoning},
        "prompt_tokens": prompt,
        "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": cached},
        "total_tokens": prompt + completion,
    }


def whole(message: Body, finish: str, spent: Body, results: Body = SAFE) -> Body:
    told = {"annotations": [], "content": None, "refusal": None, "role": "assistant", **message}
    head = {"content_filter_results": results, "finish_reason": finish, "index": 0, "logprobs": None}
    return {
        "choices": [{**head, "message": told}],
        **HEAD,
        "object": "chat.completion",
        "prompt_filter_results": PROMPT,
        "system_fingerprint": "fp_3502f4eb73",
        "usage": spent,
    }


def event(choices: list[Body], spent: Body | None = None) -> bytes:
    head = {**HEAD, "object": "chat.completion.chunk", "system_fingerprint": "fp_3502f4eb73"}
    return data({"choices": choices, **head, "usage": spent})


def chunk(delta: Body, finish: str | None = None, results: Body = SAFE) -> bytes:
    head = {"content_filter_results": results, "delta": delta, "finish_reason": finish}
    return event([{**head, "index": 0, "logprobs": None}])


#: First of all, before any choice: what was found in the prompt.
FOUND = data({"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": PROMPT})
ROLE = chunk({"content": "", "refusal": None, "role": "assistant"}, results={})


def annotated(start: int, end: int, results: Body = SAFE) -> bytes:
    """What an asynchronous filter found in text that went out before: no delta, no id."""
    offsets = {"check_offset": start, "start_offset": start, "end_offset": end}
    found = {"content_filter_offsets": offsets, "content_filter_results": results, "finish_reason": None, "index": 0}
    return data({"choices": [found], "created": 0, "id": "", "model": "", "object": ""})


def ends(finish: str, spent: Body, results: Body | None = None) -> tuple[bytes, ...]:
    return chunk({}, finish, results or {}), event([], spent), DONE


FORECAST = '{"place":"Rome","degrees":21.5}'
ROME, OSLO = '{"city":"Rome"}', '{"city":"Oslo"}'
SHAPES = {
    "text": Shape(
        whole=whole({"content": "Rome is sunny."}, "stop", usage(1200, 5, cached=1152)),
        frames=(
            FOUND,
            ROLE,
            chunk({"content": "Rome is"}),
            chunk({"content": " sunny."}),
            *ends("stop", usage(1200, 5, cached=1152)),
        ),
        usage_at=5,
        row=Row(1200, 5, 0, 1152, 48),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "text, filtered afterwards": Shape(
        whole=whole({"content": "Rome is sunny."}, "stop", usage(20, 5), {**SAFE, "protected_material_code": CODE}),
        frames=(
            FOUND,
            ROLE,
            chunk({"content": "Rome is"}, results={}),
            annotated(44, 51),
            chunk({"content": " sunny."}, results={}),
            chunk({}, "stop", {}),
            annotated(51, 58, {**SAFE, "protected_material_code": CODE}),
            event([], usage(20, 5)),
            DONE,
        ),
        usage_at=7,
        row=Row(20, 5, 0, 0, 20),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "reasoning": Shape(
        whole=whole({"content": "9.8"}, "stop", usage(12, 200, reasoning=192)),
        frames=(FOUND, ROLE, chunk({"content": "9.8"}), *ends("stop", usage(12, 200, reasoning=192))),
        usage_at=4,
        row=Row(12, 200, 192, 0, 12),
        content=[text("9.8")],
        stop="end_turn",
        output=[said("9.8")],
    ),
    "tools": Shape(
        whole=whole(
            {"tool_calls": [asked.made("call_a1", "get_weather", ROME), asked.made("call_a2", "get_weather", OSLO)]},
            "tool_calls",
            usage(90, 50),
            {},
        ),
        frames=(
            FOUND,
            chunk(
                {
                    "content": None,
                    "refusal": None,
                    "role": "assistant",
                    "tool_calls": [{"index": 0, **asked.made("call_a1", "get_weather", "")}],
                },
                results={},
            ),
            chunk({"tool_calls": [{"function": {"arguments": ROME}, "index": 0}]}, results={}),
            chunk({"tool_calls": [{"index": 1, **asked.made("call_a2", "get_weather", "")}]}, results={}),
            chunk({"tool_calls": [{"function": {"arguments": OSLO}, "index": 1}]}, results={}),
            *ends("tool_calls", usage(90, 50)),
        ),
        usage_at=6,
        row=Row(90, 50, 0, 0, 90),
        content=[use("call_a1", "get_weather", city="Rome"), use("call_a2", "get_weather", city="Oslo")],
        stop="tool_use",
        output=[call("call_a1", "get_weather", ROME), call("call_a2", "get_weather", OSLO)],
    ),
    "length": Shape(
        whole=whole({"content": "Once upon"}, "length", usage(9, 2)),
        frames=(FOUND, ROLE, chunk({"content": "Once upon"}), *ends("length", usage(9, 2))),
        usage_at=4,
        row=Row(9, 2, 0, 0, 9),
        content=[text("Once upon")],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
    "filter": Shape(
        whole=whole({"content": "He took"}, "content_filter", usage(9, 2), CUT),
        frames=(FOUND, ROLE, chunk({"content": "He took"}), *ends("content_filter", usage(9, 2), CUT)),
        usage_at=4,
        row=Row(9, 2, 0, 0, 9),
        content=[text("He took")],
        stop="end_turn",
        output=[said("He took")],
        incomplete="content_filter",
    ),
    "structured": Shape(
        whole=whole({"content": FORECAST}, "stop", usage(64, 12)),
        frames=(FOUND, ROLE, chunk({"content": FORECAST}), *ends("stop", usage(64, 12))),
        usage_at=4,
        row=Row(64, 12, 0, 0, 64),
        content=[text(FORECAST)],
        stop="end_turn",
        output=[said(FORECAST)],
    ),
}


def refused(message: str, code: str, **more: Any) -> Body:
    return {"error": {"code": code, "message": message, **more}}


INVALID, BAD = "invalid_request_error", "provider_bad_request"
DENIED = "Access denied due to invalid subscription key or wrong API endpoint."
MISSING = "The API deployment for this resource does not exist."
MINUTE = (
    "Requests to the ChatCompletions_Create Operation have exceeded token rate limit. Please retry after 26 seconds."
)
TOO_LONG = "This model's maximum context length is 1047576 tokens. However, your messages resulted in 1100000 tokens."
POLICY = "The response was filtered due to the prompt triggering the content management policy."
INNER = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": CUT}
FAULTS = {
    "401": failed(401, refused(DENIED, "401")),
    "404 deployment": failed(404, refused(MISSING, "DeploymentNotFound"), verdict="noop"),
    "429": busy(
        429,
        refused(MINUTE, "RateLimitReached"),
        "26",
        retry_after="26",
        retry_after_ms="25400",
        x_ratelimit_remaining_tokens="0",
        x_ms_region="Sweden Central",
        apim_request_id="7a1d",
    ),
    "400 context": payload(
        400,
        refused(TOO_LONG, "context_length_exceeded", type=INVALID, param="messages"),
        TOO_LONG,
        INVALID,
        None,
        kind=BAD,
    ),
    "400 policy": payload(
        400,
        refused(POLICY, "content_filter", type=None, param="prompt", status=400, innererror=INNER),
        POLICY,
        INVALID,
        None,
    ),
    "500": failed(500, refused("The server had an error processing the request.", "InternalServerError")),
    "503": failed(503, refused("The service is temporarily unable to process the request.", "ServiceUnavailable")),
}
GONE = refused("The server had an error processing the request.", "InternalServerError")
BREAKS = {
    "error": Break(
        (FOUND, ROLE, chunk({"content": "Rome"}), data(GONE)),
        chat=data(GONE),
        message="The server had an error processing the request.",
        type="api_error",
        code="InternalServerError",
    )
}
VENDOR = Vendor(
    kind="azure",
    model=MODEL,
    base="/api/projects/hotel",
    path="/openai/v1/chat/completions",
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent=asked.chat(MODEL),
    sent_headers={"authorization": "Bearer sk-vendor-key-0001"},
)
