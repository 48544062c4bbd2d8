"""OpenRouter: a rich listing that answers without a key, prices per token as strings."""

from typing import Any

from providers.kinds.base import Http, Kind, Listed, entries, positive, text, words
from providers.kinds.reading import access, member, price
from providers.quota import readers

PER_MILLION = 1_000_000
_FLAGS = {"tools": "tool_calling", "reasoning": "reasoning", "structured_outputs": "structured_output"}


def read_entry(entry: dict[str, Any]) -> Listed | None:
    """One entry of the listing; None for what is no model that writes text or code."""
    model_id = text(entry, "id")
    architecture, pricing, top = (member(entry, name) for name in ("architecture", "pricing", "top_provider"))
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
        input_price_per_million=price(pricing.get("prompt"), PER_MILLION),
        input_price_per_million_cache_hit=price(pricing.get("input_cache_read"), PER_MILLION),
        output_price_per_million=price(pricing.get("completion"), PER_MILLION),
    )


class OpenRouter(Kind):
    type = "openrouter"
    label = "OpenRouter"
    default_base_url = "https://openrouter.ai/api/v1"
    quota = readers.OPENROUTER
    strip = frozenset({"reasoning_effort"})
    modelsdev = "openrouter"

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        payload = await http.get(self.root(base_url) + "/models", self.headers(key))
        return [model for entry in entries(payload, "data") if (model := read_entry(entry)) is not None]

    async def check_access(self, http: Http, base_url: str, key: str) -> str | None:
        # /credits wants a management key, so an ordinary one would look dead there; /key answers every live key.
        return await access(http.get(self.root(base_url) + "/key", self.headers(key)))
