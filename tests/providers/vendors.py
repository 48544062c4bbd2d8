"""Simulated vendors: behaviours for ``FakeProvider.route`` that answer with what the vendor documents."""

from collections.abc import Mapping
from typing import Any

from tests.upstream.server import Behaviour, FakeProvider, Wire, reply

CLAUDE = {
    "type": "model",
    "id": "claude-sonnet-4-5-20250929",
    "display_name": "Claude Sonnet 4.5",
    "created_at": "2025-09-29T00:00:00Z",
    "max_input_tokens": 200000,
    "max_tokens": 64000,
    "capabilities": {
        "batch": {"supported": True},
        "image_input": {"supported": True},
        "pdf_input": {"supported": True},
        "structured_outputs": {"supported": True},
        "thinking": {"supported": True, "types": {"enabled": {"supported": True}}},
    },
}
GEMINI = {
    "name": "models/gemini-3-flash",
    "version": "3",
    "displayName": "Gemini 3 Flash",
    "description": "Fast and versatile.",
    "inputTokenLimit": 1048576,
    "outputTokenLimit": 65536,
    "supportedGenerationMethods": ["generateContent", "countTokens", "batchGenerateContent"],
    "temperature": 1,
    "topP": 0.95,
    "thinking": True,
}
DEPLOYMENT = {
    "name": "my-fast",
    "type": "ModelDeployment",
    "modelName": "gpt-4.1-mini",
    "modelVersion": "2025-04-14",
    "modelPublisher": "OpenAI",
    "capabilities": {"chat_completion": "true"},
    "sku": {"name": "GlobalStandard", "capacity": 100},
}
GROK = {
    "id": "grok-4-0709",
    "fingerprint": "fp_156d35dcaa",
    "created": 1752019200,
    "object": "model",
    "owned_by": "xai",
    "version": "1.0.0",
    "input_modalities": ["text", "image"],
    "output_modalities": ["text"],
    "prompt_text_token_price": 30000,
    "cached_prompt_text_token_price": 7500,
    "prompt_image_token_price": 0,
    "completion_text_token_price": 150000,
    "aliases": ["grok-4"],
}
GROK_IMAGE = {
    "id": "grok-2-image-1212",
    "object": "model",
    "owned_by": "xai",
    "image_price": 7,
    "max_prompt_length": 1024,
    "input_modalities": ["text"],
    "output_modalities": ["image"],
}
COMMAND = {
    "name": "command-a-03-2025",
    "is_deprecated": False,
    "endpoints": ["chat"],
    "finetuned": False,
    "context_length": 256000,
    "features": ["json_mode", "json_schema", "tools", "tool_choice", "strict_tools"],
}
KIMI = {
    "id": "kimi-for-coding",
    "object": "model",
    "created": 1761264000,
    "display_name": "Kimi For Coding",
    "context_length": 262144,
    "supports_reasoning": True,
    "supports_image_in": True,
    "supports_video_in": False,
}
NANO = {
    "id": "z-ai/glm-4.6",
    "object": "model",
    "created": 1759276800,
    "owned_by": "z-ai",
    "name": "GLM 4.6",
    "description": "A coding model.",
    "context_length": 200000,
    "max_output_tokens": 65535,
    "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
    "capabilities": {"vision": False, "reasoning": True, "tool_calling": True, "parallel_tool_calls": True},
    "pricing": {"prompt": 0.4, "completion": 1.5, "currency": "USD", "unit": "per_million_tokens"},
    "subscription": {"included": True, "note": "Included in the subscription"},
}


def by_query(pages: Mapping[str, Any]) -> Behaviour:
    """Query -> the JSON of a 200; any other query is a 400."""

    async def behave(wire: Wire) -> None:
        query = wire.request.target.partition("?")[2]
        await (reply(200, pages[query]) if query in pages else reply(400, {"error": f"unexpected {query}"}))(wire)

    return behave


def guarded(header: str, value: str, then: Behaviour) -> Behaviour:
    """*then* for a request that carries this header, else 401."""

    async def behave(wire: Wire) -> None:
        shown = wire.request.headers.get(header) == value
        await (then if shown else reply(401, {"error": {"message": "unauthorized"}}))(wire)

    return behave


def routes(upstream: FakeProvider, **answers: Any) -> None:
    """``GET`` paths -> the JSON of a 200, or a behaviour."""
    for path, answer in answers.items():
        upstream.route("GET", path, answer if callable(answer) else reply(200, answer))
