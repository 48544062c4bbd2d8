"""Google AI Studio: its OpenAI-compatible layer for chat, its native API for the listing and for media."""

from functools import cache
from typing import Any
from urllib.parse import quote

from providers.discovery import catalog
from providers.kinds.base import Header, Http, Kind, Listed, entries, goog_key, positive, stub, text, words
from providers.kinds.reading import PAGES, flags

_LAYER = "/openai"
#: Ids that Google has shut down, some of them still listed.
RETIRED = "google-retired"
_TALK = ("text", "image", "audio", "video")


@cache
def retired() -> frozenset[str]:
    return frozenset(catalog.ids(RETIRED))


def _modalities(name: str) -> dict[str, tuple[str, ...]]:
    if "embedding" in name:
        return {"output_modalities": ("embedding",)}
    if "image" in name or "banana" in name:
        return {"input_modalities": ("text", "image"), "output_modalities": ("text", "image")}
    if any(mark in name for mark in ("tts", "live", "native-audio")):
        return {"input_modalities": _TALK, "output_modalities": ("text", "audio")}
    return {}


def described(model_id: str, **more: Any) -> Listed:
    """What the id of a Gemini model tells about it; *more* as for ``stub``, ``capabilities`` joined."""
    name = model_id.lower()
    plain = not any(mark in name for mark in ("embedding", "imagen", "veo", "lyria", "aqa", "tts", "live"))
    sees = any(mark in name for mark in ("gemini-2", "gemini-3", "gemma"))
    can = flags(
        tool_calling=plain,
        structured_output=plain,
        vision=sees and not any(mark in name for mark in ("embedding", "tts", "live")),
    )
    can |= more.pop("capabilities", {})
    return stub(model_id, "google", capabilities=can, **_modalities(name), **more)


def read_entry(entry: dict[str, Any]) -> Listed | None:
    """One entry of the native listing; None for what neither chats nor embeds, and for what is gone."""
    model_id = text(entry, "name").removeprefix("models/")
    methods = words(entry.get("supportedGenerationMethods"))
    if not model_id or model_id.lower() in retired() or not {"generateContent", "embedContent"} & set(methods):
        return None
    return described(
        model_id,
        display_name=text(entry, "displayName") or model_id,
        description=text(entry, "description"),
        capabilities=flags(streaming="generateContent" in methods, reasoning=entry.get("thinking")),
        context_length=positive(entry.get("inputTokenLimit")),
        max_output_tokens=positive(entry.get("outputTokenLimit")),
    )


class Google(Kind):
    type = "google"
    label = "Google AI Studio (Gemini)"
    default_base_url = "https://generativelanguage.googleapis.com/v1beta/openai"
    strip = frozenset(
        {
            "frequency_penalty",
            "presence_penalty",
            "logprobs",
            "top_logprobs",
            "min_p",
            "top_k",
            "reasoning_effort",
            "reasoning",
        }
    )
    gemini_for_media = True
    catalog = "google"
    modelsdev = "google"
    modelsdev_only = True

    def reads_signatures(self, model_id: str) -> bool:
        return True

    def gemini_root(self, base_url: str) -> str:
        return base_url.rstrip("/").removesuffix(_LAYER)

    def auth_headers(self, key: str, dialect: str = "chat") -> list[Header]:
        return goog_key(key) if dialect == "gemini" else super().auth_headers(key)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        found: list[Listed] = []
        url = self.gemini_root(base_url) + "/models?pageSize=1000"
        after = ""
        for _ in range(PAGES):
            # The key goes into a header: an address ends up in logs.
            payload = await http.get(url + after, self.headers(key, "gemini"))
            found += [model for entry in entries(payload, "models") if (model := read_entry(entry)) is not None]
            token = text(payload, "nextPageToken")
            if not token:
                break
            after = "&pageToken=" + quote(token, safe="")
        return found
