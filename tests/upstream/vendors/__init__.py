"""Every provider type's vendor, simulated at its own address.

    with World() as world:
        world.vendors["zai-coding"].spend()
        ...  # the code under test, with world.environment(...), calls https://api.z.ai/...

See :mod:`tests.upstream.vendors.world` for how a request finds its vendor, :mod:`.base` for what a vendor is.
"""

from tests.upstream.vendors.base import SAID, Vendor
from tests.upstream.vendors.local import KoboldCPP, LMStudio, Local, Ollama, OllamaCloud
from tests.upstream.vendors.native import Anthropic, AnthropicMessages, Google, VertexExpress
from tests.upstream.vendors.plain import XAI, Azure, Bedrock, Cohere, Custom, DeepSeek, OpenAI
from tests.upstream.vendors.plans import (
    KimiCode,
    MiniMax,
    NanoGPT,
    NeuralWatt,
    OpenCodeGo,
    OpenCodeZen,
    OpenRouter,
    ZaiCoding,
)

#: Provider type -> the class of its vendor.
BY_KIND: dict[str, type[Vendor]] = {
    vendor.kind: vendor
    for vendor in (
        Custom,
        OpenAI,
        Anthropic,
        AnthropicMessages,
        Google,
        VertexExpress,
        OpenRouter,
        DeepSeek,
        Azure,
        Bedrock,
        XAI,
        Cohere,
        ZaiCoding,
        KimiCode,
        MiniMax,
        NanoGPT,
        NeuralWatt,
        OpenCodeZen,
        OpenCodeGo,
        OllamaCloud,
        Ollama,
        LMStudio,
        KoboldCPP,
    )
}

__all__ = ["BY_KIND", "SAID", "Local", "Vendor"]
