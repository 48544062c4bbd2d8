"""Endpoint classes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.discovery.classify import STATED, by_name, classify, ordered
from providers.kinds.base import Listed


def model(model_id: str, inputs: str = "", outputs: str = "", modality: str = "", **flags: bool) -> Listed:
    return Listed(
        model_id,
        modality=modality,
        input_modalities=tuple(inputs.split()),
        output_modalities=tuple(outputs.split()),
        capabilities=flags,
    )


@pytest.mark.parametrize(
    ("model_id", "inputs", "outputs", "kind"),
    [
        ("text-embedding-3-small", "", "", "embedding"),
        ("bge-reranker-v2", "", "", "rerank"),
        ("gpt-image-1", "", "", "image"),
        ("tts-1", "", "", "tts"),
        ("whisper-1", "audio", "text", "stt"),
        ("gpt-4o-transcribe", "", "", "stt"),
        ("gpt-4o-audio", "audio", "text", "chat"),
        ("x", "", "hologram", "chat"),
        ("arttst-1", "", "", "chat"),
        ("BAAI/bge-m3", "", "", "embedding"),
        ("e5.large", "", "", "embedding"),
        ("sora", "text", "video audio", "video"),
        ("speech", "text", "audio", "tts"),
        ("glm-4.6", "", "", "chat"),
        ("mixed", "", "text image", "chat"),
        ("coder", "", "code", "chat"),
        ("vec", "", "embedding text", "embedding"),
    ],
)
def test_the_class_follows_outputs_then_the_name(model_id: str, inputs: str, outputs: str, kind: str):
    """providers 45"""
    assert classify(model(model_id, inputs, outputs)).modality == kind


def test_a_transcriber_hears_only_audio():
    """providers 45"""
    found = classify(model("whisper-1", "audio text image", "text", vision=True, streaming=True))
    assert found.input_modalities == ("audio",) and found.output_modalities == ("text",)
    assert found.capabilities == {"streaming": True, "audio_input": True}


def test_an_arrow_fills_what_is_empty_only():
    found = classify(model("m", "", "", "Text+Image->text"))
    assert (found.input_modalities, found.output_modalities, found.modality) == (("text", "image"), ("text",), "chat")
    assert found.capabilities["vision"] is True
    assert classify(model("m", "audio", "", "text->image")).input_modalities == ("audio",)


@pytest.mark.parametrize("stated", sorted(STATED))
def test_a_class_the_provider_states_is_final(stated: str):
    assert classify(model("gpt-4o", "", "", stated.upper())).modality == stated


def test_legacy_words_seed_an_empty_input():
    assert classify(model("m", modality="multimodal")).input_modalities == ("text", "image", "audio")
    assert classify(model("m", inputs="pdf", modality="vision")).input_modalities == ("pdf",)


def test_flags_and_inputs_say_the_same():
    found = classify(model("m", "", "", "", vision=True, pdf_upload=True, audio_input=False))
    assert found.input_modalities == ("text", "image", "pdf")
    assert found.capabilities == {"vision": True, "pdf_upload": True, "audio_input": False}
    assert classify(model("m", "video")).capabilities == {"video_input": True}


def test_what_is_empty_gets_the_default_of_the_class():
    assert classify(model("glm")).output_modalities == ("text",)
    assert classify(model("tts-1")).output_modalities == ("audio",)
    assert classify(model("dall-e-3")).output_modalities == ("image",)
    assert classify(model("glm")).input_modalities == ("text",)


def test_words_are_ordered_and_none_is_lost():
    assert ordered(["Hologram", " video", "TEXT", "text", "smell", ""]) == ("text", "video", "hologram", "smell")


WORDS = st.lists(
    st.sampled_from(["text", "image", "audio", "video", "pdf", "code", "embedding", "odd", ""]), max_size=5
)


@given(st.text(max_size=20), WORDS, WORDS, st.sampled_from(["", "vision", "tts", "text->text", "a+b->", "->"]))
def test_classifying_twice_changes_nothing(model_id: str, inputs: list[str], outputs: list[str], modality: str):
    once = classify(
        Listed(model_id, input_modalities=tuple(inputs), output_modalities=tuple(outputs), modality=modality)
    )
    assert once.modality in {"chat", "embedding", "rerank", "image", "video", "tts", "stt"}
    assert once.input_modalities and once.output_modalities
    assert by_name(model_id) in {"chat", "embedding", "rerank", "image", "tts", "stt"}
    again = classify(once)
    assert (again.input_modalities, again.output_modalities) == (once.input_modalities, once.output_modalities)
