"""OpenAI; also what an address without a type becomes when no vendor is known by its host."""

from providers.kinds.base import CALL_ID_LIMIT, Kind


class OpenAI(Kind):
    type = "openai"
    label = "OpenAI"
    default_base_url = "https://api.openai.com/v1"
    catalog = "openai"
    modelsdev = "openai"
    strip = frozenset({"min_p", "top_k"})
    reroutes_responses = True

    def native_responses(self, base_url: str) -> bool:
        return self.host(base_url) == "api.openai.com"

    def call_id_limit(self, base_url: str) -> int | None:
        """OpenAI's own; a relay may give longer ids, and need them back."""
        return CALL_ID_LIMIT if f".{self.host(base_url)}".endswith(".api.openai.com") else None
