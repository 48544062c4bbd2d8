"""Any OpenAI-compatible server the operator names: vLLM, llama.cpp, LocalAI, TGI, a gateway."""

from providers.kinds.base import Kind


class Custom(Kind):
    type = "custom"
    label = "Custom"
    keyless_allowed = True
