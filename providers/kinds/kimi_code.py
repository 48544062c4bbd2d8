"""Kimi Code, Moonshot's coding plan: its listing says what each model can."""

from typing import Any

from providers.kinds.base import Http, Kind, Listed, entries, positive, stub, text
from providers.kinds.reading import flags
from providers.quota import readers


def read_entry(entry: dict[str, Any]) -> Listed:
    return stub(
        text(entry, "id"),
        "moonshotai",
        display_name=text(entry, "display_name") or text(entry, "id"),
        capabilities=flags(
            streaming=True,
            tool_calling=True,
            reasoning=entry.get("supports_reasoning"),
            vision=entry.get("supports_image_in"),
            video_input=entry.get("supports_video_in"),
        ),
        context_length=positive(entry.get("context_length")),
    )


class KimiCode(Kind):
    type = "kimi-code"
    label = "Kimi Code"
    default_base_url = "https://api.kimi.com/coding/v1"
    quota = readers.KIMI_CODE
    modelsdev = "moonshotai"
    modelsdev_only = True

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        payload = await http.get(self.root(base_url) + "/models", self.headers(key))
        return [read_entry(entry) for entry in entries(payload, "data") if text(entry, "id")]
