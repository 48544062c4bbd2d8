"""OpenAI, spoken to in Responses: a Responses client passes untouched, chat goes there for models that need it.

Shaped after https://platform.openai.com/docs/api-reference/responses (bodies), /docs/api-reference/responses-streaming
(events) and /docs/guides/reasoning (reasoning items, encrypted_content).
"""

from tests.shapes import asked
from tests.shapes.table import (
    Body,
    Break,
    Row,
    Shape,
    Vendor,
    busy,
    completion,
    data,
    failed,
    gone,
    named,
    payload,
    tool_call,
    unpaid,
)
from tests.upstream.vendors_api import called, reasoned, response_events, said

MODEL = "gpt-5-pro"
OWN = {"id": "resp_0a1b2c", "created_at": 1759500000}


def usage(prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0) -> Body:
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": prompt + completion,
    }


def whole(output: list[Body], spent: Body, status: str = "completed", reason: str | None = None) -> Body:
    return {
        **OWN,
        "object": "response",
        "status": status,
        "background": False,
        "billing": {"payer": "developer"},
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5-pro-2025-10-06",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": "high", "summary": "detailed"},
        "safety_identifier": None,
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": spent,
        "user": None,
        "metadata": {},
    }


def frames(answer: Body) -> tuple[bytes, ...]:
    """Every delta is padded, so that frames of different deltas are alike in length."""
    told = []
    for event in response_events({"model": MODEL}, answer["output"], answer):
        if "response" in event:
            event = {**event, "response": {**event["response"], **OWN}}
        told.append({**event, "obfuscation": "kR7vTq"} if event["type"].endswith(".delta") else event)
    return tuple(map(named, told))


def chat(message: Body, finish: str, spent: Row) -> Body:
    """As a chat client gets it, under the response's id and time."""
    counted = {
        "prompt_tokens": spent.prompt,
        "completion_tokens": spent.completion,
        "total_tokens": spent.prompt + spent.completion,
        "prompt_tokens_details": {"cached_tokens": spent.hit},
        "completion_tokens_details": {"reasoning_tokens": spent.reasoning},
    }
    return completion(MODEL, message, finish, counted) | {"id": "chatcmpl-0a1b2c", "created": 1759500000}


FORECAST = '{"place":"Rome","degrees":21.5}'
ROME, TIME = called("get_weather", '{"city":"Rome"}', "call_r1"), called("get_time", "{}", "call_r2")
SEALED = "gAAAAABoISQ24OyVRYbkYfukdJoqdzWT"


def shape(
    items: list[Body], message: Body, finish: str, spent: Row, reason: str | None = None, *, streamed: bool = True
) -> Shape:
    """What a Messages client gets is said of all vendors elsewhere: a chat and a Responses client are here."""
    counted = usage(spent.prompt, spent.completion, cached=spent.hit, reasoning=spent.reasoning)
    answer = whole(items, counted, "incomplete" if reason else "completed", reason)
    return Shape(
        whole=answer,
        frames=frames(answer) if streamed else (),
        chat=chat(message, finish, spent),
        row=spent,
        content=[],
        stop="",
        output=[],
    )


SHAPES = {
    "text": shape([said("Rome is sunny.")], {"content": "Rome is sunny."}, "stop", Row(1200, 5, 0, 1024, 176)),
    "reasoning": shape(
        [reasoned("Comparing.", "9.80 > 9.11.", encrypted=SEALED), said("9.8")],
        {"content": "9.8", "reasoning_content": "Comparing.\n\n9.80 > 9.11."},
        "stop",
        Row(12, 200, 192, 0, 12),
    ),
    "reasoning and tools": shape(
        [reasoned("Two.", encrypted=SEALED), ROME, TIME],
        {
            "content": None,
            "reasoning_content": "Two.",
            "tool_calls": [
                tool_call("call_r1", "get_weather", '{"city":"Rome"}'),
                tool_call("call_r2", "get_time", "{}"),
            ],
        },
        "tool_calls",
        Row(90, 50, 10, 0, 90),
    ),
    "length": shape(
        [{**said("Once upon"), "status": "incomplete"}],
        {"content": "Once upon"},
        "length",
        Row(9, 2, 0, 0, 9),
        "max_output_tokens",
    ),
    "filter": shape(
        [{**said("He took"), "status": "incomplete"}],
        {"content": "He took"},
        "stop",  # of the reasons only length has a counterpart (v1-api 16)
        Row(9, 2, 0, 0, 9),
        "content_filter",
    ),
    "structured": shape([said(FORECAST)], {"content": FORECAST}, "stop", Row(64, 12, 0, 0, 64)),
}


def refused(message: str, type: str, code: str | None = None, param: str | None = None) -> Body:
    return {"error": {"message": message, "type": type, "param": param, "code": code}}


INVALID, BAD = "invalid_request_error", "provider_bad_request"
MISSING = f"The requested model '{MODEL}' does not exist."
MINUTE = "Rate limit reached for gpt-5-pro on requests per min (RPM): Limit 500, Used 500. Please try again in 120ms."
QUOTA = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."
POLICY = "Invalid prompt: it was flagged as potentially violating our usage policy."
FAULTS = {
    "401": failed(401, refused("Incorrect API key provided: sk-vendo*****0001.", INVALID, "invalid_api_key")),
    "404 model": gone(404, refused(MISSING, INVALID, "model_not_found", "model")),
    "429 a minute": busy(
        429,
        refused(MINUTE, "requests", "rate_limit_exceeded"),
        "1",
        x_ratelimit_remaining_requests="0",
        x_ratelimit_reset_requests="120ms",
    ),
    "429 quota": unpaid(429, refused(QUOTA, "insufficient_quota", "insufficient_quota")),
    "400 context": payload(
        400, refused(TOO_LONG, INVALID, "context_length_exceeded", "input"), TOO_LONG, INVALID, None, kind=BAD
    ),
    "400 policy": payload(400, refused(POLICY, INVALID, "invalid_prompt"), POLICY, INVALID, None, kind=BAD),
    "500": failed(500, refused("The server had an error while processing your request.", "server_error")),
}
CRASH = "The model produced no further output."
SPOKEN = frames(SHAPES["text"].whole)
FAILED = named(
    {
        "type": "response.failed",
        "sequence_number": 6,
        "response": {
            **whole([], usage(9, 2), "failed"),
            "usage": None,
            "error": {"code": "server_error", "message": CRASH},
        },
    }
)
ERROR = named({"type": "error", "sequence_number": 6, "code": "server_error", "message": CRASH, "param": None})
TOLD = data({"error": {"message": CRASH, "type": "server_error", "param": None, "code": "server_error"}})
BREAKS = {
    "failed": Break((*SPOKEN[:6], FAILED), chat=TOLD, message=CRASH, type="", code="", native=FAILED),
    "error": Break((*SPOKEN[:6], ERROR), chat=TOLD, message=CRASH, type="", code="", native=ERROR),
}
VENDOR = Vendor(
    kind="openai",
    model=MODEL,
    path="/v1/responses",
    own="responses",
    native="responses",
    dialects=("chat", "responses"),
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent={
        "model": MODEL,
        "instructions": asked.SYSTEM,
        "input": [
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": asked.QUESTION},
                    {"type": "input_image", "image_url": asked.DATA_URI, "detail": "low"},
                    {"type": "input_image", "image_url": asked.LINK},
                ],
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "I will look."}],
            },
            {
                "type": "function_call",
                "call_id": "call_a",
                "name": "get_weather",
                "arguments": '{"city":"Rome"}',
            },
            {"type": "function_call_output", "call_id": "call_a", "output": '{"degrees": 21}'},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Rome, 21 degrees."}],
            },
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And as JSON?"}]},
        ],
        "tools": [{"type": "function", "strict": False, **asked.WEATHER}],
        "tool_choice": "auto",
        "max_output_tokens": 5000,
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "forecast", "strict": True, "schema": asked.SCHEMA}},
        "temperature": 0.25,
        "top_p": 0.9,
        "metadata": {"trace": "t-1"},
        "parallel_tool_calls": True,
        "stream": True,
        "store": False,
    },
    sent_headers={"authorization": "Bearer sk-vendor-key-0001"},
)
