"""The provider type that a host name stands for; asked only when the operator named none. Pure.

Ports are never a hint, and ``ollama``, ``lmstudio``, ``koboldcpp``, ``anthropic-messages`` and ``custom`` are never
derived: a server of one's own must be named.
"""

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from providers.kinds.registry import GENERIC


class Rule(NamedTuple):
    """*host*: an expression for a lower-case host, read alike by Python and by the page's script; *path*: what the
    path must hold as well."""

    type: str
    host: str
    path: str = ""


#: The first that fits counts.
RULES = (
    Rule("nanogpt", r"(^|\.)nano-gpt\.com$"),
    Rule("zai-coding", r"(^|\.)z\.ai$"),
    Rule("deepseek", r"(^|\.)deepseek\.com$"),
    Rule("anthropic", r"(^|\.)anthropic\.com$"),
    Rule("xai", r"(^|\.)x\.ai$"),
    Rule("cohere", r"(^|\.)cohere\.(com|ai)$"),
    Rule("openrouter", r"(^|\.)openrouter\.ai$"),
    Rule("ollama-cloud", r"(^|\.)ollama\.com$"),
    Rule("neuralwatt", r"(^|\.)neuralwatt\.com$"),
    Rule("azure", r"\.(services\.ai|openai)\.azure\.com$"),
    Rule("kimi-code", r"(^|\.)kimi\.com$"),
    Rule("minimax", r"(^|\.)minimax\.io$"),
    Rule("bedrock", r"^bedrock-mantle\.(.+\.)?api\.aws$"),
    Rule("google", r"generativelanguage.*\.googleapis\.com$"),
    Rule("vertex-express", r"aiplatform.*\.googleapis\.com$"),
    Rule("opencode-go", r"(^|\.)opencode\.ai$", "/zen/go"),
    Rule("opencode-zen", r"(^|\.)opencode\.ai$", "/zen"),
)


def provider_type(base_url: str) -> str:
    """The type of the vendor whose host this is; ``openai`` for everyone else."""
    try:
        parts = urlsplit(base_url.strip())
        host = (parts.hostname or "").lower().rstrip(".")
    except ValueError:
        return GENERIC
    fits = (rule.type for rule in RULES if re.search(rule.host, host) and rule.path in parts.path)
    return next(fits, GENERIC)
