"""NeuralWatt: OpenAI-compatible, billed by energy."""

from providers.kinds.base import Kind
from providers.quota import readers


class NeuralWatt(Kind):
    type = "neuralwatt"
    label = "NeuralWatt"
    default_base_url = "https://api.neuralwatt.com/v1"
    quota = readers.NEURALWATT
    catalog = "openai"
    modelsdev = "neuralwatt"
