"""Ollama's own cloud: the server's API behind a key."""

from providers.kinds.base import Http
from providers.kinds.ollama import Ollama
from providers.kinds.reading import access
from providers.quota import readers


class OllamaCloud(Ollama):
    type = "ollama-cloud"
    label = "Ollama Cloud"
    default_base_url = "https://ollama.com/v1"
    quota = readers.OLLAMA_CLOUD
    base_url_hint = ""
    keyless_allowed = False
    self_hosted = False
    inserts_v1 = False

    async def check_access(self, http: Http, base_url: str, key: str) -> str | None:
        # /api/tags is public.
        return await access(self.quota.read(http, base_url, key))
