"""xAI: a listing with prices for language models, another for images; image bodies have a shape of their own."""

import re
from typing import Any

import msgspec

from providers.kinds.base import Http, Kind, Listed, ListingError, NotShown, entries, stub, text, words
from providers.kinds.reading import flags, price

#: Prices are whole US cents per 100 million tokens (docs.x.ai, "Language Models"): 20000 is 2 USD per million.
TO_USD_PER_MILLION = 1 / 10_000
#: No right to list models: asking the plainer listing would bring the same.
_NO_ACCESS = frozenset({403, 429})
RATIOS = (
    "1:1",
    "16:9",
    "9:16",
    "4:3",
    "3:4",
    "3:2",
    "2:3",
    "2:1",
    "1:2",
    "19.5:9",
    "9:19.5",
    "20:9",
    "9:20",
    "21:9",
    "5:2",
)
TOLERANCE = 0.03  # of the ratio
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")
_NULL = msgspec.Raw(b"null")


def _value(ratio: str) -> float:
    width, _, height = ratio.partition(":")
    return float(width) / float(height)


def aspect_ratio(size: object) -> str:
    """The supported ratio that ``WxH`` is, give or take 3 %; ``""`` when it is near none."""
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None or not int(found[1]) or not int(found[2]):
        return ""
    given = int(found[1]) / int(found[2])
    apart, nearest = min((round(abs(given / _value(ratio) - 1), 6), ratio) for ratio in RATIOS)
    return nearest if apart <= TOLERANCE else ""


def _said(size: msgspec.Raw) -> object:
    """The value; None of one that no ``WxH`` can be, and that may not be readable at all (``1e999``)."""
    return msgspec.json.decode(size) if bytes(memoryview(size)[:1]) == b'"' else None


def _price(entry: dict[str, Any], member: str) -> float | None:
    # 0 stands for "not sold this way".
    return price(entry.get(member), TO_USD_PER_MILLION) or None


def read_language(entry: dict[str, Any]) -> Listed:
    """One entry of ``/language-models``."""
    inputs = words(entry.get("input_modalities"))
    return stub(
        text(entry, "id"),
        text(entry, "owned_by") or "xai",
        capabilities=flags(streaming=True, tool_calling=True, structured_output=True, vision="image" in inputs),
        input_modalities=inputs,
        output_modalities=words(entry.get("output_modalities")),
        input_price_per_million=_price(entry, "prompt_text_token_price"),
        input_price_per_million_cache_hit=_price(entry, "cached_prompt_text_token_price"),
        output_price_per_million=_price(entry, "completion_text_token_price"),
    )


def read_image(entry: dict[str, Any]) -> Listed:
    """One entry of ``/image-generation-models``; ``params.image_price`` is the vendor's own number."""
    cost = entry.get("image_price")
    return stub(
        text(entry, "id"),
        text(entry, "owned_by") or "xai",
        capabilities={},
        input_modalities=words(entry.get("input_modalities")),
        output_modalities=("image",),
        params={"image_price": cost} if price(cost) is not None else {},
    )


class XAI(Kind):
    type = "xai"
    label = "xAI (Grok)"
    default_base_url = "https://api.x.ai/v1"
    strip = frozenset({"min_p", "top_k"})
    catalog = "xai"
    catalog_adds = True
    catalog_owner = "xai"
    modelsdev = "xai"
    modelsdev_only = True

    def image_body(self, members: dict[str, msgspec.Raw], model_id: str) -> None:
        size = members.pop("size", _NULL)
        if "imagine" not in model_id.lower():
            members.pop("aspect_ratio", None)
        elif members.get("aspect_ratio", _NULL) == _NULL and (ratio := aspect_ratio(_said(size))):
            members["aspect_ratio"] = msgspec.Raw(msgspec.json.encode(ratio))

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        try:
            found = await self._language(http, base_url, key) or await super().list_models(http, base_url, key)
        except ListingError as problem:
            if problem.status in _NO_ACCESS:
                raise NotShown(str(problem), problem.status) from None
            raise
        if not found:
            return []
        try:
            payload = await http.get(self.root(base_url) + "/image-generation-models", self.headers(key))
            return found + [read_image(entry) for entry in entries(payload, "models") if text(entry, "id")]
        except ListingError:
            return found

    async def _language(self, http: Http, base_url: str, key: str) -> list[Listed]:
        try:
            payload = await http.get(self.root(base_url) + "/language-models", self.headers(key))
            return [read_language(entry) for entry in entries(payload, "models") if text(entry, "id")]
        except ListingError as problem:
            if problem.status in _NO_ACCESS:
                raise
            return []
