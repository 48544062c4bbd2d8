"""The provider type that a host name stands for; asked only when the operator named none. Pure.

Ports are never a hint, and ``ollama``, ``lmstudio``, ``koboldcpp``, ``anthropic-messages`` and ``custom`` are never
derived: a server of one's own must be named.
"""

from urllib.parse import urlsplit

from providers.kinds.registry import GENERIC, KINDS

_DOMAINS = {
    "nano-gpt.com": "nanogpt",
    "z.ai": "zai-coding",
    "deepseek.com": "deepseek",
    "anthropic.com": "anthropic",
    "x.ai": "xai",
    "cohere.com": "cohere",
    "cohere.ai": "cohere",
    "openrouter.ai": "openrouter",
    "ollama.com": "ollama-cloud",
    "neuralwatt.com": "neuralwatt",
    "kimi.com": "kimi-code",
    "minimax.io": "minimax",
}


def domains() -> dict[str, str]:
    """Domain -> type, for the vendors this version offers that are known by their domain alone."""
    return {domain: found for domain, found in _DOMAINS.items() if found in KINDS}


def _within(host: str, domain: str) -> bool:
    return host == domain or host.endswith("." + domain)


def vendor(base_url: str) -> str:
    """The type of the vendor whose host this is, offered by this version or not; ``openai`` for everyone else."""
    try:
        parts = urlsplit(base_url.strip())
        host = (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        return GENERIC
    for domain, found in _DOMAINS.items():
        if _within(host, domain):
            return found
    if host.endswith((".services.ai.azure.com", ".openai.azure.com")):
        return "azure"
    if host.startswith("bedrock-mantle.") and host.endswith(".api.aws"):
        return "bedrock"
    if host.endswith(".googleapis.com"):
        if "generativelanguage" in host:
            return "google"
        if "aiplatform" in host:
            return "vertex-express"
    if _within(host, "opencode.ai") and "/zen" in parts.path:
        return "opencode-go" if "/zen/go" in parts.path else "opencode-zen"
    return GENERIC


def provider_type(base_url: str) -> str:
    """A type this version offers. A vendor it does not offer yet is spoken to as generic OpenAI-compatible."""
    found = vendor(base_url)
    return found if found in KINDS else GENERIC
