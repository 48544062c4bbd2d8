"""Any OpenAI-compatible server the operator names: vLLM, llama.cpp, LocalAI, TGI, a gateway."""

from providers.kinds.base import Kind


class Custom(Kind):
    type = "custom"
    label = "Custom"
    base_url_hint = "http://192.168.1.50:8000/v1"
    keyless_allowed = True
    catalog = "openai"
