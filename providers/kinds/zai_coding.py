"""Z.ai's coding plan: GLM models, thinking switched on, JSON mode without schemas."""

from dataclasses import replace

import msgspec

from providers.kinds.base import Http, Kind, Listed
from providers.quota import readers

_THINKING = msgspec.Raw(b'{"type":"enabled","clear_thinking":false}')


class ZaiCoding(Kind):
    type = "zai-coding"
    label = "Z.ai Coding Plan"
    default_base_url = "https://api.z.ai/api/coding/paas/v4"
    quota = readers.ZAI_CODING
    strip = frozenset({"reasoning_effort"})
    takes_json_schema = False
    catalog = "zai"
    catalog_adds = True
    catalog_owner = "zhipu"
    modelsdev = "zai"
    modelsdev_only = True

    def inject(self, body: dict[str, msgspec.Raw], model_id: str) -> None:
        body.setdefault("thinking", _THINKING)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        found = await super().list_models(http, base_url, key)
        return [replace(model, owned_by="zhipu") if model.owned_by in ("", "z-ai") else model for model in found]
