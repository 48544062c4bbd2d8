"""OpenAI; also what an address without a type becomes when no vendor is known by its host."""

from providers.kinds.base import Kind


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
