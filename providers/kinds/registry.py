"""Every provider type there is, in the order of the form."""

from providers.kinds.anthropic import Anthropic
from providers.kinds.anthropic_messages import AnthropicMessages
from providers.kinds.azure import Azure
from providers.kinds.base import Kind
from providers.kinds.bedrock import Bedrock
from providers.kinds.cohere import Cohere
from providers.kinds.custom import Custom
from providers.kinds.deepseek import DeepSeek
from providers.kinds.google import Google
from providers.kinds.kimi_code import KimiCode
from providers.kinds.koboldcpp import KoboldCPP
from providers.kinds.lmstudio import LMStudio
from providers.kinds.minimax import MiniMax
from providers.kinds.nanogpt import NanoGPT
from providers.kinds.neuralwatt import NeuralWatt
from providers.kinds.ollama import Ollama
from providers.kinds.ollama_cloud import OllamaCloud
from providers.kinds.openai import OpenAI
from providers.kinds.opencode_go import OpenCodeGo
from providers.kinds.opencode_zen import OpenCodeZen
from providers.kinds.openrouter import OpenRouter
from providers.kinds.vertex_express import VertexExpress
from providers.kinds.xai import XAI
from providers.kinds.zai_coding import ZaiCoding

KINDS: dict[str, Kind] = {
    kind.type: kind
    for kind in (
        Custom(),
        OpenAI(),
        Anthropic(),
        AnthropicMessages(),
        Google(),
        VertexExpress(),
        OpenRouter(),
        DeepSeek(),
        Azure(),
        Bedrock(),
        XAI(),
        Cohere(),
        ZaiCoding(),
        KimiCode(),
        MiniMax(),
        NanoGPT(),
        NeuralWatt(),
        OpenCodeZen(),
        OpenCodeGo(),
        OllamaCloud(),
        Ollama(),
        LMStudio(),
        KoboldCPP(),
    )
}
GENERIC = "openai"


def get(provider_type: str) -> Kind:
    """The kind of a stored type; an unknown one (a row from a newer version) behaves like ``custom``."""
    return KINDS.get(provider_type) or KINDS["custom"]


def self_hosted() -> list[str]:
    return [kind.type for kind in KINDS.values() if kind.self_hosted]
