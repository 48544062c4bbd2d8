"""Servers of one's own, on loopback: they say who they are, and answer OpenAI's endpoints beside their own."""

import re
from typing import Any, ClassVar

from tests.upstream.behaviours import Behaviour, Recorded, reply
from tests.upstream.vendors.base import OpenAILike, Route, entry, fixed, listing, refusal


class Local(OpenAILike):
    """*base_url* is known when its server listens (:meth:`at`)."""

    base_url = ""

    def at(self, origin: str) -> None:
        self.base_url = origin
        self.places = (origin,)  # type: ignore[misc]
        self.chat_url = origin + "/v1/chat/completions"

    def path(self, rest: str) -> str:
        return "/v1" + rest


class Ollama(Local):
    """Without a key; two models, one of which embeds."""

    kind = "ollama"
    key = ""
    model = "qwen3:8b"
    entries = (entry("qwen3:8b", "library"), entry("nomic-embed-text:latest", "library"))
    listed = frozenset({"qwen3:8b", "nomic-embed-text:latest"})
    facts: ClassVar = {"owned_by": "qwen3", "context_length": 40960, "output_modalities": ["text"]}
    unsent = frozenset({"reasoning_effort"})

    def allowed(self, request: Recorded) -> bool:
        return "authorization" not in request.headers

    def routes(self) -> dict[tuple[str, str], Route]:
        tags = [self._tag("qwen3:8b", "qwen3"), self._tag("nomic-embed-text:latest", "nomic-bert")]
        return {
            **super().routes(),
            ("GET", "/api/tags"): fixed({"models": tags}),
            ("POST", "/api/show"): self.show,
        }

    @staticmethod
    def _tag(name: str, family: str) -> dict[str, Any]:
        details = {"format": "gguf", "family": family, "families": [family], "parameter_size": "8.2B"}
        return {"name": name, "model": name, "size": 5225388164, "digest": "500a1f067a9f", "details": details}

    def show(self, request: Recorded) -> Behaviour:
        shown: dict[str, Any] = {
            "qwen3:8b": {
                "capabilities": ["completion", "tools", "thinking"],
                "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
            },
            "nomic-embed-text:latest": {
                "capabilities": ["embedding"],
                "model_info": {"general.architecture": "nomic-bert", "nomic-bert.context_length": 2048},
            },
        }
        found = shown.get(request.members.get("model", ""))
        return reply(200, found) if found else reply(404, {"error": "model not found"})


class OllamaCloud(Ollama):
    """The same behind a key: what is there can be read by everybody, the account and chat can not."""

    kind = "ollama-cloud"
    base_url = "https://ollama.com/v1"
    places = ("https://ollama.com",)
    key = "0123456789abcdef.ollama"
    model = "gpt-oss:120b"
    entries = (entry("gpt-oss:120b", "library"),)
    listed = frozenset({"gpt-oss:120b"})
    facts: ClassVar = {"owned_by": "gptoss", "context_length": 131072}
    public = True
    quota = "account"

    def __init__(self) -> None:
        super().__init__()
        self.chat_url = "https://ollama.com/v1/chat/completions"

    def allowed(self, request: Recorded) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.key}"

    def free(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", "/api/tags"): fixed({"models": [self._tag("gpt-oss:120b", "gptoss")]}),
            ("POST", "/api/show"): self.show,
        }

    def routes(self) -> dict[tuple[str, str], Route]:
        return {("POST", "/v1/chat/completions"): self.completions, ("POST", "/api/me"): self.me}

    def show(self, request: Recorded) -> Behaviour:
        return reply(
            200,
            {
                "capabilities": ["completion", "tools", "thinking"],
                "model_info": {"general.architecture": "gptoss", "gptoss.context_length": 131072},
            },
        )

    def me(self, request: Recorded) -> Behaviour:
        account = {"id": "7c8a", "email": "someone@example.org", "name": "someone", "plan": "pro"}
        return reply(200, account)

    def exhausted(self) -> Behaviour:
        return reply(429, {"error": "you've reached your session usage limit, please wait or upgrade to continue"})


class LMStudio(Local):
    """Unknown routes are answered with a 200 that holds an error."""

    kind = "lmstudio"
    key = ""
    model = "qwen2.5-vl-7b-instruct"
    entries = (entry("qwen2.5-vl-7b-instruct", "organization_owner"),)
    listed = frozenset({"qwen2.5-vl-7b-instruct", "text-embedding-nomic-embed-text-v1.5"})
    facts: ClassVar = {
        "owned_by": "lmstudio-community",
        "context_length": 128000,
        "input_modalities": ["text", "image"],
    }
    unsent = frozenset({"reasoning_effort"})

    def allowed(self, request: Recorded) -> bool:
        return "authorization" not in request.headers

    def routes(self) -> dict[tuple[str, str], Route]:
        sees = entry("qwen2.5-vl-7b-instruct", publisher="lmstudio-community", type="vlm", arch="qwen2vl")
        sees |= {"compatibility_type": "gguf", "state": "loaded", "max_context_length": 128000}
        embeds = entry("text-embedding-nomic-embed-text-v1.5", publisher="nomic-ai", type="embeddings")
        embeds |= {"arch": "nomic-bert", "max_context_length": 2048}
        return {**super().routes(), ("GET", "/api/v0/models"): fixed(listing(sees, embeds))}

    def answer(self, request: Recorded) -> Behaviour:
        known = {path for _, path in self.routes()}
        if self.instead is None and not any(re.fullmatch(path, request.path) for path in known):
            self.requests.append(request)
            return reply(200, {"error": f"Unexpected endpoint or method. ({request.method} {request.path})"})
        return super().answer(request)


class KoboldCPP(Local):
    """Started with ``--password``; one model is loaded."""

    kind = "koboldcpp"
    key = "kobold-password"
    model = "koboldcpp/Tiefighter-13B"
    entries = (entry("koboldcpp/Tiefighter-13B", "koboldcpp"),)
    listed = frozenset({"koboldcpp/Tiefighter-13B"})
    facts: ClassVar = {"owned_by": "koboldcpp", "context_length": 8192, "input_modalities": ["text", "image"]}
    unsent = frozenset({"reasoning_effort"})

    def routes(self) -> dict[tuple[str, str], Route]:
        version = {"result": "KoboldCpp", "version": "1.99.4", "protected": True, "vision": True, "audio": False}
        return {
            **super().routes(),
            ("GET", "/api/extra/version"): fixed(version),
            ("GET", "/api/extra/true_max_context_length"): fixed({"value": 8192}),
        }

    def unauthorised(self) -> Behaviour:
        return refusal(401, "Authentication required. Password must be provided.", "authentication_error")
