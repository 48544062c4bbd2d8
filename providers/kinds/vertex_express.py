"""Vertex AI with an express key: Gemini's own dialect only, and no listing, so known models are tried."""

from urllib.parse import quote

from providers.kinds.base import Header, Http, Kind, Listed, ListingError, goog_key
from providers.kinds.google import described
from providers.kinds.reading import at_most

PARALLEL = 4
#: Models that Google's documents name; one that an account can not use is left out of its listing.
CANDIDATES = (
    "gemini-3.8-flash",
    "gemini-3.7-flash",
    "gemini-3.6-flash",
    "gemini-3.5-flash",
    "gemini-3.5-flash-lite",
    "gemini-3.1-pro-preview",
    "gemini-3.1-flash-lite",
    "gemini-3.1-flash-lite-preview",
    "gemini-3.1-flash-image",
    "gemini-3.1-flash-image-preview",
    "gemini-3-pro-image",
    "gemini-3-pro-image-preview",
    "gemini-3-pro-preview",
    "gemini-3-flash-preview",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "gemini-2.5-flash-lite",
    "gemini-2.5-flash-image",
    "gemini-2.0-flash-001",
    "gemini-2.0-flash-lite-001",
)
_WORD = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


class VertexExpress(Kind):
    type = "vertex-express"
    label = "Vertex AI (express keys)"
    default_base_url = "https://aiplatform.googleapis.com"
    inserts_v1 = True
    chat_route = "gemini"

    def gemini_root(self, base_url: str) -> str:
        return self.root(base_url) + "/publishers/google"

    def auth_headers(self, key: str, dialect: str = "chat") -> list[Header]:
        return goog_key(key)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        async def offered(model_id: str) -> bool:
            url = f"{self.gemini_root(base_url)}/models/{quote(model_id, safe='')}:countTokens"
            try:
                await http.post(url, self.headers(key), _WORD)
            except ListingError as problem:
                if problem.status in (0, 401, 403):
                    raise
                return False
            return True

        answers = await at_most(PARALLEL, CANDIDATES, offered)
        return [
            described(model_id, capabilities={"streaming": True})
            for model_id, kept in zip(CANDIDATES, answers, strict=True)
            if kept
        ]
