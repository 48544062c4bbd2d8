"""Every provider type there is."""

from providers.kinds.base import Kind
from providers.kinds.custom import Custom
from providers.kinds.deepseek import DeepSeek
from providers.kinds.lmstudio import LMStudio
from providers.kinds.minimax import MiniMax
from providers.kinds.ollama import Ollama
from providers.kinds.openai import OpenAI
from providers.kinds.openrouter import OpenRouter

KINDS: dict[str, Kind] = {
    kind.type: kind for kind in (Custom(), OpenAI(), OpenRouter(), DeepSeek(), MiniMax(), Ollama(), LMStudio())
}
GENERIC = "openai"


def get(provider_type: str) -> Kind:
    """The kind of a stored type; an unknown one (a row from a newer version) behaves like ``custom``."""
    return KINDS.get(provider_type) or KINDS["custom"]


def self_hosted() -> list[str]:
    return [kind.type for kind in KINDS.values() if kind.self_hosted]
