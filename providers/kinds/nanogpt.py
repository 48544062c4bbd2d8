"""NanoGPT: one rich listing for text models, another for images, which live beside the subscription's address."""

from typing import Any
from urllib.parse import urlsplit, urlunsplit

from providers.kinds.base import Http, Kind, Listed, ListingError, entries, positive, stub, text, words
from providers.kinds.reading import access, flags, member, price
from providers.quota import readers

_SEGMENT = "subscription"
_FLAGS = (
    "vision",
    "video_input",
    "audio_input",
    "reasoning",
    "tool_calling",
    "parallel_tool_calls",
    "structured_output",
    "pdf_upload",
)
_EDITS = ("edit", "image-to-image", "img2img")


def _subscribed(entry: dict[str, Any]) -> dict[str, object]:
    said = member(entry, "subscription")
    params: dict[str, object] = {}
    if isinstance(said.get("included"), bool):
        params["subscription_included"] = said["included"]
    if text(said, "note"):
        params["subscription_note"] = text(said, "note")
    return params


def read_entry(entry: dict[str, Any]) -> Listed:
    """One entry of the detailed listing."""
    model_id, can = text(entry, "id"), member(entry, "capabilities")
    architecture, pricing = member(entry, "architecture"), member(entry, "pricing")
    return stub(
        model_id,
        text(entry, "owned_by"),
        display_name=text(entry, "name") or model_id,
        description=text(entry, "description"),
        capabilities=flags(streaming=True, **{name: can.get(name) for name in _FLAGS}),
        params=_subscribed(entry),
        modality=text(architecture, "modality"),
        input_modalities=words(architecture.get("input_modalities")),
        output_modalities=words(architecture.get("output_modalities")),
        context_length=positive(entry.get("context_length")),
        max_output_tokens=positive(entry.get("max_output_tokens")),
        input_price_per_million=price(pricing.get("prompt")),
        output_price_per_million=price(pricing.get("completion")),
    )


def _costs(cost: Any) -> dict[str, object]:
    if isinstance(cost, dict):
        cost = {size: value for size, value in cost.items() if price(value) is not None}
        return {"image_cost": cost} if cost else {}
    return {"image_cost": cost} if price(cost) is not None else {}


def read_image(model_id: str, entry: dict[str, Any]) -> Listed:
    """One entry of the image catalog; ``params.image_cost`` is USD per image, by size."""
    mark = text(entry, "iconLabel").lower()
    edits = mark == "both" or any(word in mark for word in _EDITS)
    return stub(
        model_id,
        text(entry, "owned_by"),
        display_name=text(entry, "name") or model_id,
        description=text(entry, "description"),
        capabilities={},
        params={**_subscribed(entry), **_costs(entry.get("cost"))},
        input_modalities=("text", "image") if edits else ("text",),
        output_modalities=("image",),
    )


def images_of(payload: Any, *, subscribed: bool) -> list[Listed]:
    """The image catalog in the order of its ids. *subscribed*: only what the subscription includes."""
    found = member(member(payload, "models"), "image") if isinstance(payload, dict) else {}
    return [
        read_image(model_id, entry)
        for model_id, entry in sorted(found.items())
        if isinstance(entry, dict) and (not subscribed or member(entry, "subscription").get("included") is True)
    ]


class NanoGPT(Kind):
    type = "nanogpt"
    label = "NanoGPT"
    default_base_url = "https://nano-gpt.com/api/subscription/v1"
    quota = readers.NANOGPT
    strip = frozenset({"reasoning_effort"})
    modelsdev = "nano-gpt"

    def url(self, base_url: str, path: str) -> str:
        return super().url(_unsubscribed(base_url) if path.startswith("/images") else base_url, path)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        payload = await http.get(self.root(base_url) + "/models?detailed=true", self.headers(key))
        found = [read_entry(entry) for entry in entries(payload, "data") if text(entry, "id")]
        parts = urlsplit(base_url)
        try:
            images = await http.get(f"{parts.scheme}://{parts.netloc}/api/models/image", self.headers(key))
        except ListingError:
            return found
        return found + images_of(images, subscribed=_SEGMENT in parts.path.split("/"))

    async def check_access(self, http: Http, base_url: str, key: str) -> str | None:
        # Its listings are public.
        return await access(self.quota.read(http, base_url, key))


def _unsubscribed(base_url: str) -> str:
    parts = urlsplit(base_url)
    segments = parts.path.split("/")
    if _SEGMENT in segments:
        segments.remove(_SEGMENT)
    return urlunsplit(parts._replace(path="/".join(segments)))
