"""Vertex AI with an express key: Gemini's own dialect only, and no listing, so known models are tried."""

from urllib.parse import quote

from providers.discovery import catalog
from providers.kinds.base import Header, Http, Kind, Listed, ListingError, goog_key
from providers.kinds.google import described
from providers.kinds.reading import at_most

PARALLEL = 4
#: The models that are tried; one that an account can not use is left out of its listing.
CANDIDATES = "vertex-candidates"
_WORD = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


class VertexExpress(Kind):
    type = "vertex-express"
    label = "Vertex AI (express keys)"
    default_base_url = "https://aiplatform.googleapis.com"
    inserts_v1 = True
    chat_route = "gemini"
    modelsdev = "google-vertex"
    modelsdev_only = True

    def gemini_root(self, base_url: str) -> str:
        return self.root(base_url) + "/publishers/google"

    def auth_headers(self, key: str, dialect: str = "chat") -> list[Header]:
        return goog_key(key)

    async def list_models(self, http: Http, base_url: str, key: str) -> list[Listed]:
        async def offered(model_id: str) -> bool:
            url = f"{self.gemini_root(base_url)}/models/{quote(model_id, safe='')}:countTokens"
            try:
                counted = await http.post(url, self.headers(key), _WORD)
            except ListingError as problem:
                if problem.status in (0, 401, 403):
                    raise
                return False
            # A 200 of somebody in between counts nothing.
            return isinstance(counted, dict) and "totalTokens" in counted

        candidates = catalog.ids(CANDIDATES)
        answers = await at_most(PARALLEL, candidates, offered)
        return [
            described(model_id, capabilities={"streaming": True})
            for model_id, kept in zip(candidates, answers, strict=True)
            if kept
        ]
