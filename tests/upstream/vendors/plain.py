"""Vendors that sell by the token and speak OpenAI's chat completions."""

import re
from typing import ClassVar

from tests.providers.vendors import COMMAND, DEPLOYMENT, GROK, GROK_IMAGE
from tests.upstream.behaviours import Behaviour, Recorded, reply
from tests.upstream.vendors.base import OpenAILike, Route, entry, fixed, listing, refusal


class Custom(OpenAILike):
    """vLLM without ``--api-key``: no key at all."""

    kind = "custom"
    base_url = "https://llm.example.org/v1"
    places = ("https://llm.example.org",)
    key = ""
    model = "Qwen/Qwen3-32B"
    entries = (entry("Qwen/Qwen3-32B", "vllm", root="Qwen/Qwen3-32B", parent=None, max_model_len=40960),)
    listed = frozenset({"Qwen/Qwen3-32B"})
    facts: ClassVar = {"owned_by": "vllm", "modality": "chat"}
    sent: ClassVar = {"reasoning_effort": "low", "top_k": 3}

    def allowed(self, request: Recorded) -> bool:
        return not {"authorization", "x-api-key", "x-goog-api-key"} & request.headers.keys()


class OpenAI(OpenAILike):
    kind = "openai"
    base_url = "https://api.openai.com/v1"
    places = ("https://api.openai.com",)
    key = "sk-proj-0123456789abcdef"
    model = "gpt-4.1-mini"
    entries = (
        entry("gpt-4.1-mini", "system"),
        entry("text-embedding-3-small", "system"),
        entry("gpt-image-1", "system"),
        entry("whisper-1", "openai-internal"),
        entry("tts-1", "openai-internal"),
    )
    listed = frozenset({"gpt-4.1-mini", "text-embedding-3-small", "gpt-image-1", "whisper-1", "tts-1"})
    facts: ClassVar = {"modality": "chat", "output_modalities": ["text"]}
    sent: ClassVar = {"reasoning_effort": "low"}
    unsent = frozenset({"top_k"})


class DeepSeek(OpenAILike):
    kind = "deepseek"
    base_url = "https://api.deepseek.com/v1"
    places = ("https://api.deepseek.com",)
    key = "sk-deepseek-0123456789abcdef"
    model = "deepseek-reasoner"
    entries = (entry("deepseek-chat", "deepseek"), entry("deepseek-reasoner", "deepseek"))
    listed = frozenset({"deepseek-chat", "deepseek-reasoner"})
    more = True
    facts: ClassVar = {"owned_by": "deepseek"}
    unsent = frozenset({"top_k", "reasoning_effort"})
    quota = "balance"

    def routes(self) -> dict[tuple[str, str], Route]:
        return {**super().routes(), ("GET", "/v1/user/balance"): self.balance}

    def balance(self, request: Recorded) -> Behaviour:
        left = "0.00" if self.spent else "110.00"
        info = {"currency": "CNY", "total_balance": left, "granted_balance": "0.00", "topped_up_balance": left}
        return reply(200, {"is_available": not self.spent, "balance_infos": [info]})

    def exhausted(self) -> Behaviour:
        return refusal(402, "Insufficient Balance", "unknown_error", "invalid_request_error")


class Azure(OpenAILike):
    """A project of a resource: what can be asked are its deployments, at the resource's own surface."""

    kind = "azure"
    base_url = "https://house.services.ai.azure.com/api/projects/front"
    places = ("https://house.services.ai.azure.com",)
    key = "0123456789abcdef0123456789abcdef"
    model = "my-fast"
    listed = frozenset({"my-fast"})
    facts: ClassVar = {"name": "gpt-4.1-mini", "owned_by": "OpenAI", "display_name": "my-fast"}
    sent: ClassVar = {"reasoning_effort": "low"}

    def __init__(self) -> None:
        super().__init__()
        self.chat_url = "https://house.services.ai.azure.com/openai/v1/chat/completions"

    def routes(self) -> dict[tuple[str, str], Route]:
        deployments = {"value": [DEPLOYMENT, {"name": "search", "type": "SearchIndex"}]}
        return {
            ("GET", "/api/projects/front/deployments"): lambda request: (
                reply(200, deployments)
                if request.target.endswith("?api-version=v1")
                else refusal(400, "Missing required query parameter: api-version")
            ),
            ("POST", "/openai/v1/chat/completions"): self.completions,
        }

    def exhausted(self) -> Behaviour:
        said = "Your requests have exceeded token rate limit of your current pricing tier. Please retry after 1 second."
        return reply(429, {"error": {"code": "RateLimitReached", "message": said}}, headers={"retry-after": "1"})

    def unauthorised(self) -> Behaviour:
        said = "Access denied due to invalid subscription key or wrong API endpoint."
        return reply(401, {"error": {"code": "401", "message": said}})


class Bedrock(OpenAILike):
    """The OpenAI-compatible endpoint; Claude is listed and not served there."""

    kind = "bedrock"
    base_url = "https://bedrock-mantle.us-east-1.api.aws/v1"
    places = ("https://bedrock-mantle.us-east-1.api.aws",)
    key = "bedrock-api-key-0123456789abcdef"
    model = "openai.gpt-oss-120b"
    entries = (
        entry("openai.gpt-oss-120b", "system"),
        entry("anthropic.claude-sonnet-4-5-20250929-v1:0", "system"),
        entry("us.anthropic.claude-opus-4-1-20250805-v1:0", "system"),
    )
    listed = frozenset({"openai.gpt-oss-120b"})
    sent: ClassVar = {"reasoning_effort": "low", "top_k": 3}

    def exhausted(self) -> Behaviour:
        return refusal(429, "Too many tokens per day, please wait before trying again.", "throttling_error")


class XAI(OpenAILike):
    kind = "xai"
    base_url = "https://api.x.ai/v1"
    places = ("https://api.x.ai",)
    key = "xai-0123456789abcdef"
    model = "grok-4-0709"
    listed = frozenset({"grok-4-0709", "grok-2-image-1212"})
    more = True
    facts: ClassVar = {
        "owned_by": "xai",
        "input_price_per_million": 3.0,
        "input_price_per_million_cache_hit": 0.75,
        "output_price_per_million": 15.0,
        "input_modalities": ["text", "image"],
    }
    unsent = frozenset({"top_k"})

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", "/v1/language-models"): fixed({"models": [GROK]}),
            ("GET", "/v1/image-generation-models"): fixed({"models": [GROK_IMAGE]}),
            ("GET", "/v1/models"): fixed(listing(entry("grok-4-0709", "xai"), entry("grok-2-image-1212", "xai"))),
            ("POST", "/v1/chat/completions"): self.completions,
        }

    def exhausted(self) -> Behaviour:
        said = "Your team has either used all available credits or reached its monthly spending limit."
        return reply(403, {"code": "The caller does not have permission", "error": said})

    def unauthorised(self) -> Behaviour:
        said = "Incorrect API key provided: xa***. You can obtain an API key from https://console.x.ai."
        return reply(400, {"code": "Client specified an invalid argument", "error": said})


class Cohere(OpenAILike):
    """The layer is at ``api.cohere.ai``; its own API, with the listing, at ``api.cohere.com``."""

    kind = "cohere"
    base_url = "https://api.cohere.ai/compatibility/v1"
    places = ("https://api.cohere.ai", "https://api.cohere.com")
    key = "co-0123456789abcdef"
    model = "command-a-03-2025"
    listed = frozenset({"command-a-03-2025", "rerank-v3.5"})
    facts: ClassVar = {"owned_by": "cohere", "context_length": 256000, "modality": "chat"}
    unsent = frozenset({"top_k", "reasoning_effort", "stream_options"})

    def routes(self) -> dict[tuple[str, str], Route]:
        return {
            ("GET", "/v1/models"): self.models,
            ("POST", re.escape("/compatibility/v1/chat/completions")): self.completions,
        }

    def models(self, request: Recorded) -> Behaviour:
        rerank = {"name": "rerank-v3.5", "endpoints": ["rerank"], "context_length": 4096, "features": None}
        old = {**COMMAND, "name": "command", "is_deprecated": True}
        pages = {
            "endpoint=chat&page_size=100": {"models": [old], "next_page_token": "b2xk"},
            "endpoint=chat&page_size=100&page_token=b2xk": {"models": [COMMAND], "next_page_token": ""},
            "endpoint=rerank&page_size=100": {"models": [rerank]},
        }
        page = pages.get(request.target.partition("?")[2])
        native = request.extra["url"].startswith("https://api.cohere.com/")
        return reply(200, page) if page and native else reply(400, {"message": "invalid request"})

    def exhausted(self) -> Behaviour:
        return reply(
            429, {"id": "a1", "message": "You are using a Trial key, which is limited to 1000 API calls / month."}
        )

    def unauthorised(self) -> Behaviour:
        return reply(401, {"id": "a1", "message": "invalid api token"})
