"""OpenCode Zen: chat completions, Gemini's own dialect for its Gemini family, some models free without a key."""

from providers.kinds.base import Dialect, Header, Kind, goog_key


class OpenCodeZen(Kind):
    type = "opencode-zen"
    label = "OpenCode Zen"
    default_base_url = "https://opencode.ai/zen/v1"
    keyless_allowed = True
    strip = frozenset({"reasoning_effort"})
    catalog = "opencode-zen"
    catalog_adds = True
    keyless_free_only = True
    modelsdev = "opencode"

    def chat_dialect(self, model_id: str) -> Dialect:
        return "gemini" if model_id.lower().startswith("gemini-") else self.chat_route

    def auth_headers(self, key: str, dialect: str = "chat") -> list[Header]:
        return goog_key(key) if dialect == "gemini" else super().auth_headers(key)
