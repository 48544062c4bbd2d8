"""Gemini at Google AI Studio's OpenAI-compatible address (type ``google``).

Shaped after https://ai.google.dev/gemini-api/docs/openai (bodies, thinking) and /docs/thought-signatures
(extra_content, which has to come back with the next turn).
"""

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
    call,
    data,
    failed,
    gone,
    said,
    text,
    thought,
    use,
)

MODEL = "gemini-3-pro-preview"
SIGNED = {"extra_content": {"google": {"thought_signature": "EsMB"}}}
IN_ID = "RXNNQg"


def usage(prompt: int, completion: int, total: int) -> Body:
    """Thoughts are in the total alone."""
    return {"completion_tokens": completion, "prompt_tokens": prompt, "total_tokens": total}


def whole(message: Body, finish: str, spent: Body) -> Body:
    choice = {"finish_reason": finish, "index": 0, "message": {**message, "role": "assistant"}}
    head = {"created": 1759500000, "id": "bGfeaLi7", "model": MODEL, "object": "chat.completion"}
    return {"choices": [choice], **head, "usage": spent}


def normal(delta: Body) -> bytes:
    """What the gateway adds to a delta stands at its end."""
    head = {"created": 1759500000, "id": "bGfeaLi7", "model": MODEL, "object": "chat.completion.chunk"}
    return data({"choices": [{"delta": {"role": "assistant", **delta}, "index": 0}], **head})


def chunk(delta: Body, finish: str | None = None, **more: Any) -> bytes:
    choice: Body = {"delta": {**delta, "role": "assistant"}, "index": 0}
    if finish:
        choice["finish_reason"] = finish
    head = {"created": 1759500000, "id": "bGfeaLi7", "model": MODEL, "object": "chat.completion.chunk"}
    return data({"choices": [choice], **head, **more})


CALLS = [{**SIGNED, **asked.made("function-call-1", "get_weather", '{"city":"Rome"}')}]
CALLS.append(asked.made("function-call-2", "get_time", "{}"))
INDEXED = [{**one, "index": at} for at, one in enumerate(CALLS)]
SHAPES = {
    "text": Shape(
        whole=whole({"content": "Rome is sunny."}, "stop", usage(20, 5, 25)),
        frames=(
            chunk({"content": "Rome is"}, usage=usage(20, 2, 22)),
            chunk({"content": " sunny."}, "stop", usage=usage(20, 5, 25)),
            DONE,
        ),
        row=Row(20, 5),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "tools": Shape(
        whole=whole({"tool_calls": CALLS}, "tool_calls", usage(90, 20, 110)),
        frames=(chunk({"tool_calls": INDEXED}, "tool_calls", usage=usage(90, 20, 110)), DONE),
        row=Row(90, 20),
        content=[
            use(f"function-call-1_thoughtsig_{IN_ID}", "get_weather", city="Rome"),
            use("function-call-2", "get_time"),
        ],
        stop="tool_use",
        output=[
            call(f"function-call-1_thoughtsig_{IN_ID}", "get_weather", '{"city":"Rome"}'),
            call("function-call-2", "get_time", "{}"),
        ],
    ),
    "thought in tags": Shape(
        # With include_thoughts the thoughts stand in the content.
        whole=whole({"content": "<thought>9.80 > 9.11.</thought>9.8"}, "stop", usage(12, 3, 55)),
        chat=whole({"content": "9.8", "reasoning_content": "9.80 > 9.11."}, "stop", usage(12, 3, 55)),
        frames=(
            chunk({"content": "<thought>9.80 > 9.11."}),
            chunk({"content": "</thought>9.8"}),
            chunk({"content": ""}, "stop", usage=usage(12, 3, 55)),
            DONE,
        ),
        changed={0: normal({"reasoning_content": "9.80 > 9.11."}), 1: chunk({"content": "9.8"})},
        total=55,
        row=Row(12, 3),
        content=[text("9.8")],
        stop="end_turn",
        output=[thought("9.80 > 9.11."), said("9.8")],
    ),
}


def refused(code: int, message: str, status: str, **more: Any) -> list[Body]:
    """Google puts an error into a list here."""
    return [{"error": {"code": code, "message": message, "status": status, **more}}]


BUSY = "The model is overloaded. Please try again later."
VENDOR = Vendor(
    kind="google",
    model=MODEL,
    base="/v1beta/openai",
    path="/v1beta/openai/chat/completions",
    shapes=SHAPES,
    faults={
        # A list is no error object that could pass (v1-api 9.4, 2).
        "400": Fault(
            400,
            refused(400, "Request contains an invalid argument.", "INVALID_ARGUMENT"),
            "provider_bad_request",
            "alive",
            "the provider rejected the request payload (provider V, upstream HTTP 400)",
            "provider_bad_request",
            type="invalid_request_error",
            anthropic="invalid_request_error",
        ),
        "404 model": gone(404, refused(404, f"models/{MODEL} is not found for API version v1main.", "NOT_FOUND")),
        "503": failed(503, refused(503, BUSY, "UNAVAILABLE")),
    },
    breaks={
        "error": Break(
            (chunk({"content": "Rome"}), data(refused(503, BUSY, "UNAVAILABLE")[0])),
            chat=data(refused(503, BUSY, "UNAVAILABLE")[0]),
            message=BUSY,
            type="api_error",
            code="server_error",
        )
    },
    sent=asked.chat(
        MODEL,
        "frequency_penalty",
        "presence_penalty",
        "logprobs",
        "top_logprobs",
        "min_p",
        "top_k",
        "reasoning_effort",
    ),
    sent_headers={"authorization": "Bearer sk-vendor-key-0001"},
)
