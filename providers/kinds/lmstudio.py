"""LM Studio on the operator's own machine: the OpenAI layer for chat, the native listing for what it knows."""

from typing import Any

from providers.kinds.base import Http, Kind, Listed, ListingError, entries, positive, stub, text

_FLAGS = {"streaming": True, "structured_output": True}


def read_entry(entry: dict[str, Any]) -> Listed:
    """One entry of ``/api/v0/models``."""
    kind, owner = text(entry, "type"), text(entry, "publisher") or "lmstudio"
    context = positive(entry.get("max_context_length"))
    if kind == "embeddings":
        return stub(
            text(entry, "id"), owner, capabilities=_FLAGS, output_modalities=("embedding",), context_length=context
        )
    if kind == "vlm":
        flags = {**_FLAGS, "vision": True}
        return stub(
            text(entry, "id"), owner, capabilities=flags, input_modalities=("text", "image"), context_length=context
        )
    return stub(text(entry, "id"), owner, capabilities=_FLAGS, context_length=context)


class LMStudio(Kind):
    type = "lmstudio"
    label = "LM Studio"
    base_url_hint = "http://192.168.1.50:1234"
    keyless_allowed = True
    self_hosted = True
    inserts_v1 = True
    strip = frozenset({"reasoning_effort"})

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        try:
            payload = await http.get(self.origin(base_url) + "/api/v0/models", self.headers(key))
            native = [read_entry(entry) for entry in entries(payload, "data") if text(entry, "id")]
        except ListingError:
            native = []
        if native:
            return native
        payload = await http.get(self.origin(base_url) + "/v1/models", self.headers(key))
        return [
            stub(model_id, text(entry, "owned_by") or "lmstudio", capabilities=_FLAGS)
            for entry in entries(payload, "data")
            if (model_id := text(entry, "id"))
        ]
