"""OpenCode Zen: chat completions, Gemini's own dialect for its Gemini family, some models free without a key."""

from dataclasses import replace

from providers.kinds.base import Dialect, Header, Http, Kind, Listed, goog_key

#: The models Zen documents as free of charge (opencode.ai/docs/zen); its listing names no prices.
FREE = frozenset(
    {
        "big-pickle",
        "deepseek-v4-flash-free",
        "mimo-v2.5-free",
        "minimax-m2.5-free",
        "minimax-m3-free",
        "nemotron-3-super-free",
        "nemotron-3-ultra-free",
        "qwen3.6-plus-free",
    }
)


class OpenCodeZen(Kind):
    type = "opencode-zen"
    label = "OpenCode Zen"
    default_base_url = "https://opencode.ai/zen/v1"
    keyless_allowed = True
    strip = frozenset({"reasoning_effort"})

    def chat_dialect(self, model_id: str) -> Dialect:
        return "gemini" if model_id.lower().startswith("gemini-") else self.chat_route

    def auth_headers(self, key: str, dialect: str = "chat") -> list[Header]:
        return goog_key(key) if dialect == "gemini" else super().auth_headers(key)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        found = await super().list_models(http, base_url, key)
        priced = [
            replace(model, input_price_per_million=0.0, output_price_per_million=0.0)
            if model.model_id in FREE
            else model
            for model in found
        ]
        return priced if key else [model for model in priced if model.model_id in FREE]
