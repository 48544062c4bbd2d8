"""NeuralWatt: OpenAI-compatible, billed by energy."""

from providers.kinds.base import Kind


class NeuralWatt(Kind):
    type = "neuralwatt"
    label = "NeuralWatt"
    default_base_url = "https://api.neuralwatt.com/v1"
