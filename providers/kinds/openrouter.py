"""OpenRouter: a rich listing that answers without a key, prices per token as strings."""

import math
from typing import Any

from providers.kinds.base import Http, Kind, Listed, ListingError, entries, positive, text, words

PER_MILLION = 1_000_000
_FLAGS = {"tools": "tool_calling", "reasoning": "reasoning", "structured_outputs": "structured_output"}


def _price(value: Any) -> float | None:
    """USD per million tokens; None when empty, unreadable or negative (``-1`` = the price varies)."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        price = float(value) * PER_MILLION
    except ValueError:
        return None
    # Nine digits: 0.00000015 a token is 0.15 a million, not 0.15000000000000002.
    return round(price, 9) if math.isfinite(price) and price >= 0 else None


def _member(entry: dict[str, Any], name: str) -> dict[str, Any]:
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def read_entry(entry: dict[str, Any]) -> Listed | None:
    """One entry of the listing; None for what is no model that writes text or code."""
    model_id = text(entry, "id")
    architecture, pricing, top = (
        _member(entry, "architecture"),
        _member(entry, "pricing"),
        _member(entry, "top_provider"),
    )
    outputs, arrow = words(architecture.get("output_modalities")), text(architecture, "modality")
    speaks = {"text", "code"} & {word.strip().lower() for word in outputs}
    if not model_id or model_id.startswith("~"):
        return None
    if not speaks and not any(target in arrow.lower() for target in ("->text", "->code")):
        return None
    supported = words(entry.get("supported_parameters"))
    return Listed(
        model_id,
        name=model_id,
        display_name=text(entry, "name") or model_id,
        description=text(entry, "description"),
        owned_by=model_id.partition("/")[0] if "/" in model_id else "",
        capabilities={"streaming": True, **{flag: True for word, flag in _FLAGS.items() if word in supported}},
        modality=arrow,
        input_modalities=words(architecture.get("input_modalities")),
        output_modalities=outputs,
        context_length=positive(entry.get("context_length")) or positive(top.get("context_length")),
        max_output_tokens=positive(top.get("max_completion_tokens")),
        input_price_per_million=_price(pricing.get("prompt")),
        input_price_per_million_cache_hit=_price(pricing.get("input_cache_read")),
        output_price_per_million=_price(pricing.get("completion")),
    )


class OpenRouter(Kind):
    type = "openrouter"
    label = "OpenRouter"
    default_base_url = "https://openrouter.ai/api/v1"
    strip = frozenset({"reasoning_effort"})

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        payload = await http.get(self.root(base_url) + "/models", self.headers(key))
        return [model for entry in entries(payload, "data") if (model := read_entry(entry)) is not None]

    async def check_access(self, http: Http, base_url: str, key: str) -> str | None:
        # /credits wants a management key, so an ordinary one would look dead there; /key answers every live key.
        try:
            await http.get(self.root(base_url) + "/key", self.headers(key))
        except ListingError as problem:
            return str(problem) if problem.status in (0, 401, 403) else ""
        return ""
