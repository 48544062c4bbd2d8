"""Cohere: an OpenAI-compatible layer for chat and embeddings, its native API for rerank and the listing."""

from typing import Any
from urllib.parse import quote

from providers.kinds.base import (
    RERANK_PATH,
    Http,
    Kind,
    Listed,
    ListingError,
    cohere_base,
    entries,
    positive,
    stub,
    text,
    words,
)
from providers.kinds.reading import PAGES, flags


def read_entry(entry: dict[str, Any], endpoint: str) -> Listed | None:
    """One entry of the listing for *endpoint* (``chat`` or ``rerank``); None for what is on its way out."""
    model_id = text(entry, "name")
    if not model_id or entry.get("is_deprecated") is True:
        return None
    context = positive(entry.get("context_length"))
    if endpoint == "rerank":
        return stub(model_id, "cohere", capabilities={}, output_modalities=("rerank",), context_length=context)
    can = set(words(entry.get("features")))
    return stub(
        model_id,
        "cohere",
        capabilities=flags(
            streaming=True,
            tool_calling=not can.isdisjoint({"tools", "tool_choice"}),
            structured_output=not can.isdisjoint({"json_mode", "json_schema"}),
            reasoning="reasoning" in can,
            vision="vision" in can,
        ),
        output_modalities=("text",),
        context_length=context,
    )


class Cohere(Kind):
    type = "cohere"
    label = "Cohere"
    default_base_url = "https://api.cohere.ai/compatibility/v1"
    sends_stream_options = False
    strip = frozenset({"logprobs", "top_logprobs", "min_p", "top_k", "reasoning_effort"})
    catalog = "cohere"
    modelsdev = "cohere"
    modelsdev_only = True

    def native(self, base_url: str) -> str:
        """The base of Cohere's own API."""
        found = cohere_base(base_url)
        return base_url.rstrip("/") if found is None else found

    def url(self, base_url: str, path: str) -> str:
        return self.native(base_url) + "/v2" + path if path == RERANK_PATH else super().url(base_url, path)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        found = await self._pages(http, base_url, key, "chat")
        try:
            return found + await self._pages(http, base_url, key, "rerank")
        except ListingError:
            return found

    async def _pages(self, http: Http, base_url: str, key: str, endpoint: str) -> list[Listed]:
        url = f"{self.native(base_url)}/v1/models?endpoint={endpoint}&page_size=100"
        found: list[Listed] = []
        after = ""
        for _ in range(PAGES):
            payload = await http.get(url + after, self.headers(key))
            page = (read_entry(entry, endpoint) for entry in entries(payload, "models"))
            found += [model for model in page if model is not None]
            token = text(payload, "next_page_token")
            if not token:
                break
            after = "&page_token=" + quote(token, safe="")
        return found
