"""Anthropic, what imitates it, and Google: dialects of their own."""

from typing import ClassVar

from tests.providers.vendors import CLAUDE, GEMINI
from tests.upstream.behaviours import Behaviour, Recorded, reply
from tests.upstream.vendors.base import SAID, Item, Route, Vendor
from tests.upstream.vendors_api import generated, message, refused_by_anthropic, text

SNAPSHOT = "claude-sonnet-4-5-20250929"
_OLD = {"type": "model", "id": "claude-3-haiku-20240307", "display_name": "Claude Haiku 3"}


class Anthropic(Vendor):
    """Ordinary chat in its OpenAI layer; the listing comes in two pages."""

    kind = "anthropic"
    base_url = "https://api.anthropic.com"
    places = ("https://api.anthropic.com",)
    key = "sk-ant-api03-0123456789abcdef"
    auth = ("x-api-key", "")
    model = SNAPSHOT
    listed = frozenset({SNAPSHOT, "claude-3-haiku-20240307"})
    facts: ClassVar = {
        "display_name": "Claude Sonnet 4.5",
        "owned_by": "anthropic",
        "context_length": 200000,
        "max_output_tokens": 64000,
        "input_modalities": ["text", "image", "pdf"],
    }
    unsent = frozenset({"reasoning_effort"})
    chat_url = "https://api.anthropic.com/v1/chat/completions"

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", self.path("/v1/models")): self.models,
            ("POST", self.path("/v1/chat/completions")): self.chat,
            ("POST", self.path("/v1/messages")): self.chat,
        }

    def allowed(self, request: Recorded) -> bool:
        return super().allowed(request) and request.headers.get("anthropic-version") == "2023-06-01"

    def models(self, request: Recorded) -> Behaviour:
        pages = {
            "limit=100": {"data": [CLAUDE], "has_more": True, "first_id": SNAPSHOT, "last_id": SNAPSHOT},
            f"limit=100&after_id={SNAPSHOT}": {"data": [_OLD], "has_more": False, "last_id": _OLD["id"]},
        }
        page = pages.get(request.target.partition("?")[2])
        return reply(200, page) if page else refused_by_anthropic(400, "after_id: no such model")

    def unauthorised(self) -> Behaviour:
        return refused_by_anthropic(401, "invalid x-api-key")

    def exhausted(self) -> Behaviour:
        said = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."
        return reply(402, {"type": "error", "error": {"type": "billing_error", "message": said}})

    def said(self, request: Recorded) -> Behaviour:
        return message(text(SAID))


class AnthropicMessages(Anthropic):
    """Somebody's gateway that speaks the Messages API only."""

    kind = "anthropic-messages"
    base_url = "https://gateway.example.org/anthropic"
    places = ("https://gateway.example.org",)
    key = "gw-0123456789abcdef"
    chat_url = "https://gateway.example.org/anthropic/v1/messages"
    sent: ClassVar = {"system": "Be short."}

    def routes(self) -> dict[tuple[str, str], Route]:
        return {key: route for key, route in super().routes().items() if not key[1].endswith("completions")}


def _gemini_error(status: int, message: str, reason: str) -> Behaviour:
    return reply(status, {"error": {"code": status, "message": message, "status": reason}})


class Google(Vendor):
    """Chat in the OpenAI layer with a bearer key; the listing natively with a key of its own header."""

    kind = "google"
    base_url = "https://generativelanguage.googleapis.com/v1beta/openai"
    places = ("https://generativelanguage.googleapis.com",)
    key = "AIza0123456789abcdef"
    model = "gemini-3-flash"
    listed = frozenset({"gemini-3-flash", "gemini-embedding-001"})
    facts: ClassVar = {
        "display_name": "Gemini 3 Flash",
        "owned_by": "google",
        "context_length": 1048576,
        "max_output_tokens": 65536,
    }
    unsent = frozenset({"top_k", "reasoning_effort"})
    chat_url = "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"

    def routes(self) -> dict[tuple[str, str], Route]:
        return {("GET", "/v1beta/models"): self.models, ("POST", "/v1beta/openai/chat/completions"): self.chat}

    def allowed(self, request: Recorded) -> bool:
        if request.path.startswith("/v1beta/openai/"):
            return super().allowed(request)
        return request.headers.get("x-goog-api-key") == self.key and "authorization" not in request.headers

    def models(self, request: Recorded) -> Behaviour:
        embeds = {**GEMINI, "name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]}
        retired = {**GEMINI, "name": "models/gemini-1.5-pro"}
        pages: dict[str, Item] = {
            "pageSize=1000": {"models": [GEMINI, retired], "nextPageToken": "Cg=="},
            "pageSize=1000&pageToken=Cg%3D%3D": {"models": [embeds]},
        }
        page = pages.get(request.target.partition("?")[2])
        return reply(200, page) if page else _gemini_error(400, "Invalid page token.", "INVALID_ARGUMENT")

    def unauthorised(self) -> Behaviour:
        return _gemini_error(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT")

    def exhausted(self) -> Behaviour:
        return _gemini_error(429, "You exceeded your current quota, please check your plan.", "RESOURCE_EXHAUSTED")


class VertexExpress(Vendor):
    """No listing: a model that counts tokens is there. Generation in Gemini's dialect only."""

    kind = "vertex-express"
    base_url = "https://aiplatform.googleapis.com"
    places = ("https://aiplatform.googleapis.com",)
    key = "AQ.0123456789abcdef"
    auth = ("x-goog-api-key", "")
    model = "gemini-2.5-flash"
    listed = frozenset({"gemini-2.5-flash", "gemini-2.5-pro"})
    facts: ClassVar = {"owned_by": "google"}
    chat_url = "https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-2.5-flash:generateContent"
    stream_url = (
        "https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    )
    sent: ClassVar = {"systemInstruction": {"parts": [{"text": "Be short."}]}}
    unsent = frozenset({"model", "messages", "reasoning_effort"})

    def routes(self) -> dict[tuple[str, str], Route]:
        models = r"/v1/publishers/google/models/([^/]+)"
        return {
            ("POST", models + ":countTokens"): self.count,
            ("POST", models + ":(generateContent|streamGenerateContent)"): self.chat,
        }

    def count(self, request: Recorded) -> Behaviour:
        asked = request.path.rpartition("/")[2].partition(":")[0]
        if asked not in self.listed:
            return _gemini_error(404, f"Publisher Model `{asked}` was not found.", "NOT_FOUND")
        return reply(200, {"totalTokens": 1, "totalBillableCharacters": 2})

    def said(self, request: Recorded) -> Behaviour:
        return generated({"text": SAID})

    def unauthorised(self) -> Behaviour:
        return _gemini_error(401, "API keys are not supported by this API.", "UNAUTHENTICATED")

    def exhausted(self) -> Behaviour:
        return _gemini_error(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED")
