"""Gemini in its own dialect (type ``vertex-express``: every chat request goes to generateContent).

Shaped after https://ai.google.dev/api/generate-content (bodies, usageMetadata, finish reasons),
https://ai.google.dev/gemini-api/docs/thinking and /thought-signatures (thoughts), and
https://ai.google.dev/gemini-api/docs/troubleshooting (errors).
"""

from typing import Any

from tests.shapes import asked
from tests.shapes.table import (
    Body,
    Break,
    Fault,
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
    payload,
    said,
    text,
    tool_call,
    use,
)

MODEL = "gemini-2.5-flash"
RATED = [{"category": "HARM_CATEGORY_HATE_SPEECH", "probability": "NEGLIGIBLE"}]
SIGNATURE = "EsMB"  # opaque
IN_ID = "RXNNQg"  # the same in a tool's id (v1-api 12.5)
FIRST, SECOND = "call_chatcmpl-*_0", "call_chatcmpl-*_1"


def usage(prompt: int, candidates: int | None, *, thoughts: int = 0, cached: int = 0) -> Body:
    """Google leaves out what is zero."""
    found: Body = {"promptTokenCount": prompt}
    if candidates is not None:
        found["candidatesTokenCount"] = candidates
    found["totalTokenCount"] = prompt + (candidates or 0) + thoughts
    if cached:
        found |= {"cachedContentTokenCount": cached, "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": cached}]}
    found["promptTokensDetails"] = [{"modality": "TEXT", "tokenCount": prompt}]
    if thoughts:
        found["thoughtsTokenCount"] = thoughts
    return found


def whole(parts: list[Body], finish: str | None, spent: Body, **more: Any) -> Body:
    candidate: Body = {"content": {"parts": parts, "role": "model"}, **more, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": spent, "modelVersion": MODEL, "responseId": "bGfeaLi7"}


def event(parts: list[Body], spent: Body, finish: str | None = None) -> bytes:
    """An event ends with CRLF; none says that it is the last."""
    return b"data: " + compact(whole(parts, finish, spent)) + b"\r\n\r\n"


def chat(message: Body, finish: str, spent: Row) -> Body:
    """As a chat client gets it; details are there where Google counted them."""
    counted: Body = {
        "prompt_tokens": spent.prompt,
        "completion_tokens": spent.completion,
        "total_tokens": spent.prompt + spent.completion,
    }
    if spent.reasoning:
        counted["completion_tokens_details"] = {"reasoning_tokens": spent.reasoning}
    if spent.hit:
        counted["prompt_tokens_details"] = {"cached_tokens": spent.hit}
    return completion(MODEL, message, finish, counted)


def thinks(value: str) -> Body:
    return {"text": value, "thought": True}


def runs(name: str, **arguments: Any) -> Body:
    return {"functionCall": {"name": name, "args": arguments}}


FORECAST = '{"place":"Rome","degrees":21.5}'
PICTURE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
SEEN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
SIGNED = {"extra_content": {"google": {"thought_signature": SIGNATURE}}}
ROME = {**runs("get_weather", city="Rome"), "thoughtSignature": SIGNATURE}  # of parallel calls the first is signed

SHAPES = {
    "text": Shape(
        whole=whole([{"text": "Rome is sunny."}], "STOP", usage(2000, 5, cached=1536), safetyRatings=RATED),
        frames=(
            event([{"text": "Rome is"}], usage(2000, 2, cached=1536)),
            event([{"text": " sunny."}], usage(2000, 5, cached=1536), "STOP"),
        ),
        chat=chat({"content": "Rome is sunny."}, "stop", Row(2000, 5, 0, 1536)),
        row=Row(2000, 5, 0, 1536, 464),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "thoughts": Shape(
        # Thoughts are drafts and go nowhere; they are billed with the answer.
        whole=whole(
            [thinks("**Comparing** 9.80 > 9.11."), {"text": "9.8", "thoughtSignature": SIGNATURE}],
            "STOP",
            usage(12, 3, thoughts=40),
        ),
        frames=(
            event([thinks("**Comparing** 9.80")], usage(12, None, thoughts=20)),
            event([thinks(" > 9.11.")], usage(12, None, thoughts=40)),
            event([{"text": "9.8"}], usage(12, 3, thoughts=40)),
            event([{"text": "", "thoughtSignature": SIGNATURE}], usage(12, 3, thoughts=40), "STOP"),
        ),
        chat=chat({"content": "9.8"}, "stop", Row(12, 43, 40)),
        row=Row(12, 43, 40),
        content=[text("9.8")],
        stop="end_turn",
        output=[said("9.8")],
    ),
    "tools": Shape(
        whole=whole([thinks("Two."), ROME, runs("get_time")], "STOP", usage(90, 20, thoughts=7)),
        frames=(
            event([thinks("Two.")], usage(90, None, thoughts=7)),
            event([ROME, runs("get_time")], usage(90, 20, thoughts=7), "STOP"),
        ),
        chat=chat(
            {
                "content": None,
                "tool_calls": [
                    tool_call(FIRST, "get_weather", '{"city":"Rome"}', **SIGNED),
                    tool_call(SECOND, "get_time", "{}"),
                ],
            },
            "tool_calls",
            Row(90, 27, 7),
        ),
        row=Row(90, 27, 7),
        content=[use(f"{FIRST}_thoughtsig_{IN_ID}", "get_weather", city="Rome"), use(SECOND, "get_time")],
        stop="tool_use",
        output=[call(f"{FIRST}_thoughtsig_{IN_ID}", "get_weather", '{"city":"Rome"}'), call(SECOND, "get_time", "{}")],
    ),
    "length": Shape(
        whole=whole([{"text": "Once upon"}], "MAX_TOKENS", usage(9, 2)),
        frames=(event([{"text": "Once upon"}], usage(9, 2), "MAX_TOKENS"),),
        chat=chat({"content": "Once upon"}, "length", Row(9, 2)),
        row=Row(9, 2),
        content=[text("Once upon")],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
    "safety": Shape(
        whole=whole([{"text": "He took"}], "SAFETY", usage(9, 2), safetyRatings=[{**RATED[0], "blocked": True}]),
        frames=(event([{"text": "He took"}], usage(9, 2)), event([], usage(9, 2), "SAFETY")),
        chat=chat({"content": "He took"}, "content_filter", Row(9, 2)),
        row=Row(9, 2),
        content=[text("He took")],
        stop="end_turn",
        output=[said("He took")],
        incomplete="content_filter",
    ),
    "picture": Shape(
        whole=whole([{"text": "Here."}, PICTURE], "STOP", usage(9, 1290)),
        frames=(event([{"text": "Here."}], usage(9, 1)), event([PICTURE], usage(9, 1290), "STOP")),
        chat=chat({"content": "Here.", "images": [SEEN]}, "stop", Row(9, 1290)),
        row=Row(9, 1290),
        content=[text("Here.")],
        stop="end_turn",
        output=[said("Here.")],
    ),
    "structured": Shape(
        whole=whole([{"text": FORECAST}], "STOP", usage(64, 12)),
        frames=(
            event([{"text": FORECAST[:9]}], usage(64, 4)),
            event([{"text": FORECAST[9:]}], usage(64, 12), "STOP"),
        ),
        chat=chat({"content": FORECAST}, "stop", Row(64, 12)),
        row=Row(64, 12),
        content=[text(FORECAST)],
        stop="end_turn",
        output=[said(FORECAST)],
    ),
}


def refused(code: int, message: str, status: str, *details: Body) -> Body:
    error: Body = {"code": code, "message": message, "status": status}
    return {"error": {**error, "details": list(details)} if details else error}


def told(reason: str) -> Body:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com"}


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "26s"}
MINUTE = "Resource exhausted. Please try again later."
QUOTA = "You exceeded your current quota, please check your plan and billing details."
TOO_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
WRONG = "Invalid value at 'generation_config.top_p'"
BLOCKED = {
    "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
    "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    "modelVersion": MODEL,
}
BUSY = "The model is overloaded. Please try again later."
FAULTS = {
    "400 key": payload(
        400,
        refused(400, "API key not valid.", "INVALID_ARGUMENT", told("API_KEY_INVALID")),
        "API key not valid.",
        "invalid_request_error",
        "provider_error",
    ),
    "401": failed(401, refused(401, "Request had invalid authentication credentials.", "UNAUTHENTICATED")),
    "403": failed(403, refused(403, "Permission denied on resource.", "PERMISSION_DENIED", told("CONSUMER_INVALID"))),
    "404 model": gone(404, refused(404, f"models/{MODEL} is not found for API version v1.", "NOT_FOUND")),
    "429": busy(429, refused(429, MINUTE, "RESOURCE_EXHAUSTED", RETRY), "26"),
    # The words of a bill, but with its own reopening in seconds: a slot (failover-loop 7.5, 3).
    "429 quota of a minute": busy(429, refused(429, QUOTA, "RESOURCE_EXHAUSTED", RETRY), "26"),
    "400 context": payload(
        400,
        refused(400, TOO_LONG, "INVALID_ARGUMENT"),
        TOO_LONG,
        "invalid_request_error",
        "context_length_exceeded",
        kind="provider_bad_request",
    ),
    "400 value": payload(
        400, refused(400, WRONG, "INVALID_ARGUMENT"), WRONG, "invalid_request_error", "provider_error"
    ),
    "500": failed(500, refused(500, "An internal error has occurred.", "INTERNAL")),
    "503": failed(503, refused(503, BUSY, "UNAVAILABLE")),
    # Nobody's fault but the prompt's: the circuit is not charged.
    "200 blocked prompt": Fault(
        200,
        BLOCKED,
        "provider_error",
        "noop",
        "prompt blocked: PROHIBITED_CONTENT (provider V, upstream HTTP 200)",
        "provider_error",
        type="server_error",
        anthropic="api_error",
        prompt=9,
        answered=502,
    ),
}
BREAKS = {
    "error": Break(
        (event([{"text": "Rome"}], usage(9, 1)), data(refused(503, BUSY, "UNAVAILABLE"))),
        chat=data({"error": {"message": BUSY, "type": "UNAVAILABLE", "param": None, "code": "503"}}),
        message=BUSY,
        type="api_error",
        code="503",
    ),
}
ROUTE = f"/v1/publishers/google/models/{MODEL}"
VENDOR = Vendor(
    kind="vertex-express",
    model=MODEL,
    base="",
    path=ROUTE + ":generateContent",
    stream_path=ROUTE + ":streamGenerateContent?alt=sse",
    own="gemini",
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent={
        "systemInstruction": {"parts": [{"text": asked.SYSTEM}]},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": asked.QUESTION},
                    {"inlineData": {"mimeType": "image/png", "data": asked.PICTURE}},
                    {"fileData": {"fileUri": asked.LINK}},
                ],
            },
            {"role": "model", "parts": [{"text": "I will look."}, runs("get_weather", city="Rome")]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": "get_weather", "response": {"degrees": 21}}}],
            },
            {"role": "model", "parts": [{"text": "Rome, 21 degrees."}]},
            {"role": "user", "parts": [{"text": "And as JSON?"}]},
        ],
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "get_weather",
                        "description": "The weather of a city.",
                        "parametersJsonSchema": asked.PARAMETERS,
                    }
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {
            "maxOutputTokens": 5000,
            "temperature": 0.25,
            "topP": 0.9,
            "frequencyPenalty": 0.5,
            "presencePenalty": -0.5,
            "seed": 9007199254740993,
            "stopSequences": ["END", "STOP"],
            "responseMimeType": "application/json",
            "responseJsonSchema": asked.SCHEMA,
            "thinkingConfig": {"thinkingBudget": 24576},
        },
    },
    sent_headers={"x-goog-api-key": "sk-vendor-key-0001"},
)
