"""Ollama, spoken to at its OpenAI-compatible address.

Shaped after https://docs.ollama.com/api/openai-compatibility (bodies, system_fingerprint), /capabilities/thinking
(reasoning) and /api/errors.
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
    use,
)

MODEL = "qwen3:8b"
PRINT = "fp_ollama"


def usage(prompt: int, completion: int) -> Body:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def whole(message: Body, finish: str, spent: Body) -> Body:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    head = {"id": "chatcmpl-713", "object": "chat.completion", "created": 1759500000, "model": MODEL}
    return {**head, "system_fingerprint": PRINT, "choices": [choice], "usage": spent}


def event(**members: Any) -> bytes:
    head = {"id": "chatcmpl-713", "object": "chat.completion.chunk", "created": 1759500000, "model": MODEL}
    return data({**head, "system_fingerprint": PRINT, **members})


def chunk(delta: Body, finish: str | None = None) -> bytes:
    """Every delta states the role."""
    return event(choices=[{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}])


def ends(finish: str, spent: Body) -> tuple[bytes, ...]:
    return chunk({"content": ""}, finish), event(choices=[], usage=spent), DONE


FORECAST = '{"place":"Rome","degrees":21.5}'
SHAPES = {
    "text": Shape(
        whole=whole({"content": "Rome is sunny."}, "stop", usage(20, 5)),
        frames=(chunk({"content": "Rome is"}), chunk({"content": " sunny."}), *ends("stop", usage(20, 5))),
        usage_at=3,
        row=Row(20, 5),
        content=[text("Rome is sunny.")],
        stop="end_turn",
        output=[said("Rome is sunny.")],
    ),
    "reasoning": Shape(
        whole=whole({"content": "9.8", "reasoning": "9.80 > 9.11."}, "stop", usage(12, 30)),
        chat=whole(
            {"content": "9.8", "reasoning": "9.80 > 9.11.", "reasoning_content": "9.80 > 9.11."}, "stop", usage(12, 30)
        ),
        frames=(
            chunk({"content": "", "reasoning": "9.80 >"}),
            chunk({"content": "", "reasoning": " 9.11."}),
            chunk({"content": "9.8"}),
            *ends("stop", usage(12, 30)),
        ),
        changed={
            0: chunk({"reasoning": "9.80 >", "reasoning_content": "9.80 >"}),
            1: chunk({"reasoning": " 9.11.", "reasoning_content": " 9.11."}),
        },
        usage_at=4,
        row=Row(12, 30),
        content=[text("9.8")],
        stop="end_turn",
        output=[thought("9.80 > 9.11."), said("9.8")],
    ),
    "thinking in tags": Shape(
        # A model whose template Ollama does not know thinks in its content.
        whole=whole({"content": "<think>\n9.80 > 9.11.\n</think>\n\n9.8"}, "stop", usage(12, 30)),
        chat=whole({"content": "\n\n9.8", "reasoning_content": "\n9.80 > 9.11.\n"}, "stop", usage(12, 30)),
        frames=(
            chunk({"content": "<think>"}),
            chunk({"content": "\n9.80 >"}),
            chunk({"content": " 9.11.\n"}),
            chunk({"content": "</think>"}),
            chunk({"content": "\n\n9.8"}),
            *ends("stop", usage(12, 30)),
        ),
        changed={
            0: chunk({"content": ""}),
            1: chunk({"reasoning_content": "\n9.80 >"}),
            2: chunk({"reasoning_content": " 9.11.\n"}),
            3: chunk({"content": ""}),
        },
        usage_at=6,
        row=Row(12, 30),
        content=[text("\n\n9.8")],
        stop="end_turn",
        output=[thought("\n9.80 > 9.11.\n"), said("\n\n9.8")],
    ),
    "tools": Shape(
        whole=whole(
            {
                "content": "",
                "tool_calls": [
                    {"index": 0, **asked.made("call_k3u9x0aa", "get_weather", '{"city":"Rome"}')},
                    {"index": 1, **asked.made("call_k3u9x0ab", "get_time", "{}")},
                ],
            },
            "tool_calls",
            usage(150, 40),
        ),
        # Each call comes whole, in a chunk of its own.
        frames=(
            chunk(
                {
                    "content": "",
                    "tool_calls": [{"index": 0, **asked.made("call_k3u9x0aa", "get_weather", '{"city":"Rome"}')}],
                }
            ),
            chunk({"content": "", "tool_calls": [{"index": 1, **asked.made("call_k3u9x0ab", "get_time", "{}")}]}),
            *ends("tool_calls", usage(150, 40)),
        ),
        usage_at=3,
        row=Row(150, 40),
        content=[use("call_k3u9x0aa", "get_weather", city="Rome"), use("call_k3u9x0ab", "get_time")],
        stop="tool_use",
        output=[call("call_k3u9x0aa", "get_weather", '{"city":"Rome"}'), call("call_k3u9x0ab", "get_time", "{}")],
    ),
    "length": Shape(
        whole=whole({"content": "Once upon"}, "length", usage(9, 2)),
        frames=(chunk({"content": "Once upon"}), *ends("length", usage(9, 2))),
        usage_at=2,
        row=Row(9, 2),
        content=[text("Once upon")],
        stop="max_tokens",
        output=[said("Once upon")],
        incomplete="max_output_tokens",
    ),
    "structured": Shape(
        whole=whole({"content": FORECAST}, "stop", usage(64, 12)),
        frames=(chunk({"content": FORECAST[:9]}), chunk({"content": FORECAST[9:]}), *ends("stop", usage(64, 12))),
        usage_at=3,
        row=Row(64, 12),
        content=[text(FORECAST)],
        stop="end_turn",
        output=[said(FORECAST)],
    ),
}


def refused(message: str, type: str) -> Body:
    return {"error": {"message": message, "type": type, "param": None, "code": None}}


BAD, INVALID = "provider_bad_request", "invalid_request_error"
NO_TOOLS = f"registry.ollama.ai/library/{MODEL} does not support tools"
TOO_LONG = "prompt too long; exceeded max context length by 812 tokens"
FAULTS = {
    "401": failed(401, {"error": "unauthorized"}),
    "404 model": gone(404, refused(f"model '{MODEL}' not found", "not_found_error")),
    "429": busy(429, {"error": "too many concurrent requests"}, "2"),
    "400 tools": payload(400, refused(NO_TOOLS, INVALID), NO_TOOLS, INVALID, None, kind=BAD),
    "400 context": payload(400, refused(TOO_LONG, INVALID), TOO_LONG, INVALID, None, kind=BAD),
    "500": failed(500, refused("llama runner process has terminated: exit status 2", "api_error")),
    "503": failed(503, refused("server busy, please try again. maximum pending requests exceeded", "api_error")),
}
DIED = "an error was encountered while running the model: unexpected EOF"
BREAKS = {
    "error": Break(
        (chunk({"content": "Rome"}), data(refused(DIED, "api_error"))),
        chat=data(refused(DIED, "api_error")),
        message=DIED,
        type="api_error",
        code="api_error",
    ),
    "error as a text": Break(
        (chunk({"content": "Rome"}), data({"error": DIED})),
        chat=data({"error": DIED}),
        message=DIED,
        type="api_error",
        code="server_error",
    ),
}
VENDOR = Vendor(
    kind="ollama",
    model=MODEL,
    base="",
    path="/v1/chat/completions",
    shapes=SHAPES,
    faults=FAULTS,
    breaks=BREAKS,
    sent=asked.chat(MODEL, "reasoning_effort"),
    sent_headers={"authorization": "Bearer sk-vendor-key-0001"},
)
