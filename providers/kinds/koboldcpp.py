"""KoboldCPP on the operator's own machine: one loaded model, described by its native API."""

from typing import Any

from providers.kinds.base import Http, Kind, Listed, ListingError, entries, positive, stub, text
from providers.kinds.reading import flags


def is_koboldcpp(payload: Any) -> bool:
    """Whether ``/api/extra/version`` answered as this server does."""
    result = payload.get("result") if isinstance(payload, dict) else None
    return isinstance(result, str) and result.lower() == "koboldcpp"


class KoboldCPP(Kind):
    type = "koboldcpp"
    label = "KoboldCPP"
    base_url_hint = "http://192.168.1.50:5001"
    keyless_allowed = True
    self_hosted = True
    inserts_v1 = True
    strip = frozenset({"reasoning_effort"})

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        version = await http.get(self.origin(base_url) + "/api/extra/version", self.headers(key))
        if not is_koboldcpp(version):
            raise ListingError("the server at this address is no KoboldCPP")
        payload = await http.get(self.root(base_url) + "/models", self.headers(key))
        loaded = next((model_id for entry in entries(payload, "data") if (model_id := text(entry, "id"))), "")
        if not loaded:
            return []
        # Its flags for other endpoints (transcribe, tts, txt2img, embeddings) are of models that are not listed.
        can = flags(streaming=True, vision=version.get("vision"), audio_input=version.get("audio"))
        return [stub(loaded, "koboldcpp", capabilities=can, context_length=await self._context(http, base_url, key))]

    async def _context(self, http: Http, base_url: str, key: str) -> int | None:
        url = self.origin(base_url) + "/api/extra/true_max_context_length"
        try:
            payload = await http.get(url, self.headers(key))
        except ListingError:
            return None
        return positive(payload.get("value")) if isinstance(payload, dict) else None
