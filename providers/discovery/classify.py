"""Which endpoint a model belongs to, read from what its provider says and, failing that, from its id. Pure."""

import re
from collections.abc import Iterable
from dataclasses import replace

from providers.kinds.base import Listed

ORDER = ("text", "code", "image", "audio", "video", "pdf", "embedding", "rerank")
#: A class that a provider states is final.
STATED = frozenset({"embedding", "rerank", "image", "tts", "stt"})
#: Words of older servers for what goes in.
LEGACY = {
    "vision": ("text", "image"),
    "audio": ("text", "audio"),
    "video": ("text", "video"),
    "multimodal": ("text", "image", "audio"),
}
_FLAGS = {"vision": "image", "audio_input": "audio", "video_input": "video", "pdf_upload": "pdf"}
_DEFAULT_OUTPUT = {"chat": "text", "stt": "text", "tts": "audio"}
_SEGMENTS = re.compile(r"[/\-_.: ]")
_EMBEDDERS = frozenset({"bge", "gte", "e5", "minilm"})
_TRANSCRIBERS = frozenset({"whisper", "transcribe"})


def ordered(given: Iterable[str]) -> tuple[str, ...]:
    """Lower case, trimmed, each once: the known words in their order, then the unknown ones as they came."""
    found = dict.fromkeys(word for text in given if (word := text.strip().lower()))
    return (*(word for word in ORDER if word in found), *(word for word in found if word not in ORDER))


def _segments(model_id: str) -> set[str]:
    return set(_SEGMENTS.split(model_id.lower()))


def by_name(model_id: str) -> str:
    """The class that an id alone suggests."""
    lower, segments = model_id.lower(), _segments(model_id)
    if "rerank" in lower:
        return "rerank"
    if "embed" in lower:
        return "embedding"
    if any(mark in lower for mark in ("gpt-image", "dall-e", "dalle")):
        return "image"
    if segments & _EMBEDDERS:
        return "embedding"
    if "tts" in segments:
        return "tts"
    return "stt" if segments & _TRANSCRIBERS else "chat"


def by_names(model: Listed) -> str:
    """By the id; where that says nothing, by the name behind it (the model of a deployment)."""
    found = by_name(model.model_id)
    return found if found != "chat" else by_name(model.name)


def _derive(model: Listed, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str:
    for word in ("rerank", "embedding"):
        if word in outputs:
            return word
    if "text" in outputs or "code" in outputs:
        return "stt" if "audio" in inputs and _segments(model.model_id) & _TRANSCRIBERS else "chat"
    if not outputs:
        return by_names(model)
    for word, found in (("video", "video"), ("image", "image"), ("audio", "tts")):
        if word in outputs:
            return found
    return "chat"


def classify(model: Listed) -> Listed:
    """*model* with its class as ``modality``, both lists filled and ordered, the input flags in step with them."""
    said = model.modality.strip().lower()
    inputs, outputs = ordered(model.input_modalities), ordered(model.output_modalities)
    before, arrow, behind = said.partition("->")
    if arrow:
        inputs = inputs or ordered(before.split("+"))
        outputs = outputs or ordered(behind.split("+"))
    inputs = inputs or LEGACY.get(said, ())
    flags = dict(model.capabilities)
    added = [word for flag, word in _FLAGS.items() if flags.get(flag)]
    inputs = ordered((*(inputs or (("text",) if added else ())), *added))
    kind = said if said in STATED else _derive(model, inputs, outputs)
    inputs, outputs = inputs or ("text",), outputs or (_DEFAULT_OUTPUT.get(kind, kind),)
    flags.update({flag: True for flag, word in _FLAGS.items() if word in inputs})
    if kind == "stt":
        inputs = ("audio",)
        flags = {flag: on for flag, on in flags.items() if flag not in _FLAGS} | {"audio_input": True}
    return replace(model, modality=kind, input_modalities=inputs, output_modalities=outputs, capabilities=flags)
