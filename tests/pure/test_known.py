"""What models.dev knows: its document as indexes, the rules that match an id, and what an entry fills."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.discovery import known
from providers.discovery.known import NOTHING, BadDocument, Entry, Index, Known, candidates, fill
from providers.discovery.modelsdev import rank
from providers.kinds import registry
from providers.kinds.base import Listed, stub


def index(*ids: str) -> Index:
    return Index({name: Entry(name=name) for name in ids})


def document(**providers: dict[str, Any]) -> Known:
    return known.read(json.dumps({name: {"models": models} for name, models in providers.items()}).encode(), rank)


def priced(price: float) -> dict[str, Any]:
    return {"name": "N", "cost": {"input": price, "output": price}}


@pytest.mark.parametrize(
    ("model_id", "keys", "found"),
    [
        # exact
        ("gpt-4o", ["gpt-4o", "gpt-4"], "gpt-4o"),
        ("GPT-4o", ["gpt-4o"], "gpt-4o"),
        ("gpt-4o-2024-08-06", ["gpt-4o-2024-08-06", "gpt-4o"], "gpt-4o-2024-08-06"),
        # leading dot segments, exact hits only
        ("openai.gpt-oss-120b", ["gpt-oss-120b"], "gpt-oss-120b"),
        ("us.anthropic.claude-5", ["claude-5"], "claude-5"),
        ("us.anthropic.claude-5", ["anthropic.claude-5", "claude-5"], "anthropic.claude-5"),
        ("openai.gpt-oss-120b-2025-08-05", ["gpt-oss-120b"], None),
        ("qwen2.5", ["5"], "5"),
        # a year, a date
        ("gpt-4o-2024-08-06", ["gpt-4o"], "gpt-4o"),
        ("model-2024", ["model"], "model"),
        # digits
        ("claude-sonnet-4-20250514", ["claude-sonnet-4"], "claude-sonnet-4"),
        ("claude-sonnet-4@20250514", ["claude-sonnet-4"], "claude-sonnet-4"),
        ("model123456", ["model"], "model"),
        ("model-12345", ["model"], "model"),
        ("model12345", ["model"], None),
        # the longest known id before a date or version
        ("gpt-4-0613", ["gpt-4", "gpt"], "gpt-4"),
        ("m-2024-08", ["m"], "m"),
        ("m-2024-8", ["m"], "m"),
        ("m-2024-8-6", ["m", "m-2024"], "m"),
        ("m-2024-2025", ["m", "m-2024"], "m-2024"),
        ("m-2024-08-06-1", ["m"], None),
        ("gpt-5-search-api", ["gpt-5"], None),
        ("gpt-5-mini", ["gpt-5"], None),
        ("gpt-5-123", ["gpt-5"], None),
        ("gpt-5-1234x", ["gpt-5"], None),
        ("gpt-55", ["gpt-5"], None),
        ("gpt-5-", ["gpt-5"], None),
        ("-2024", [""], None),
        ("", ["gpt-5"], None),
    ],
)
def test_an_id_finds_its_entry(model_id: str, keys: list[str], found: str | None):
    """part of providers 46"""
    entry = index(*keys).find(model_id)
    assert (entry.name if entry else None) == found


@given(st.text(alphabet="abg12-._@", max_size=20))
def test_what_is_known_under_its_own_id_is_found_under_it(model_id: str):
    assert next(candidates(model_id)) == model_id.lower()


@given(st.text(alphabet="abz019-_@", max_size=20))
def test_only_a_date_or_a_version_may_follow_a_known_id(model_id: str):
    """Whatever follows with a letter in it is another model."""
    for name in candidates(model_id):
        assert model_id.startswith(name) and re.fullmatch(r"[-_@]?[0-9-]*", model_id[len(name) :])


@given(st.text(max_size=60))
def test_no_id_upsets_the_rules(model_id: str):
    found = list(candidates(model_id))
    assert len(found) <= 8 + model_id.count(".") and "" not in found[1:]


def test_the_vendor_counts_then_who_stands_for_a_type_then_the_first_by_name():
    """part of providers 46. The same id at several providers."""
    everywhere = {"abacus": {"m": priced(1)}, "azure": {"m": priced(2)}, "openai": {"m": priced(3)}}
    found = document(**everywhere)
    assert found.everywhere.find("m").cost.input == 3
    del everywhere["openai"]
    assert document(**everywhere).everywhere.find("m").cost.input == 2
    assert document(zeta={"m": priced(4)}, abacus={"m": priced(1)}).everywhere.find("m").cost.input == 1


def test_a_miss_in_an_exclusive_entry_ends_the_lookup():
    """part of providers 46. An id that is missing in the zai entry stays unknown though a reseller lists it."""
    found = document(zai={"glm-4.6": priced(1)}, reseller={"glm-5": priced(9)}, openai={"gpt-4o": priced(2)})
    assert found.find("zai", True, ["glm-4.6"]).cost.input == 1
    assert found.find("zai", True, ["glm-5"]) is None
    assert found.find("openai", False, ["glm-5"]).cost.input == 9
    assert found.find("", False, ["glm-5"]).cost.input == 9
    assert found.find("moonshotai", True, ["glm-5"]) is None, "a section that is not there"
    assert found.find("nano-gpt", False, ["glm-5"]).cost.input == 9
    assert NOTHING.find("openai", False, ["gpt-4o"]) is None


def test_the_second_name_is_asked_when_the_first_is_known_nowhere():
    """part of providers 47. The id first, then the model behind a deployment."""
    found = document(azure={"gpt-4.1-mini": priced(1)}, openai={"my-own": priced(2), "my-fast-2": priced(3)})
    assert found.find("azure", False, ["my-fast", "gpt-4.1-mini"]).cost.input == 1
    assert found.find("azure", False, ["my-own", "gpt-4.1-mini"]).cost.input == 2


def test_each_type_stands_where_the_mapping_says():
    """part of providers 46. Coding plans stand for the vendor's pay-per-token entry; Ollama Cloud is not mapped."""
    assert {kind.type: (kind.modelsdev, kind.modelsdev_only) for kind in registry.KINDS.values() if kind.modelsdev} == {
        "openai": ("openai", False),
        "anthropic": ("anthropic", True),
        "deepseek": ("deepseek", True),
        "xai": ("xai", True),
        "google": ("google", True),
        "vertex-express": ("google-vertex", True),
        "cohere": ("cohere", True),
        "minimax": ("minimax", True),
        "kimi-code": ("moonshotai", True),
        "zai-coding": ("zai", True),
        "nanogpt": ("nano-gpt", False),
        "openrouter": ("openrouter", False),
        "opencode-go": ("opencode-go", False),
        "opencode-zen": ("opencode", False),
        "bedrock": ("amazon-bedrock", False),
        "azure": ("azure", False),
        "neuralwatt": ("neuralwatt", False),
    }
    assert not any(kind.modelsdev_only for kind in registry.KINDS.values() if not kind.modelsdev)


FULL = {
    "id": "m",
    "name": "Model M",
    "family": "fam",
    "attachment": True,
    "reasoning": True,
    "tool_call": True,
    "structured_output": True,
    "temperature": True,
    "modalities": {"input": ["text", "image", "pdf"], "output": ["text"]},
    "open_weights": False,
    "cost": {"input": 1.25, "output": 10, "cache_read": 0.125, "context_over_200k": {"input": 2.5, "output": 15}},
    "limit": {"context": 400000, "input": 272000, "output": 128000},
}


def entry(**changed: Any) -> Entry:
    found = document(openai={"m": {**FULL, **changed}}).everywhere.find("m")
    assert found is not None
    return found


def test_an_entry_fills_a_bare_model():
    filled = fill(stub("m"), entry())
    assert (filled.display_name, filled.owned_by) == ("Model M", "fam")
    assert (filled.context_length, filled.max_output_tokens) == (400000, 128000)
    prices = (filled.input_price_per_million, filled.input_price_per_million_cache_hit, filled.output_price_per_million)
    assert prices == (1.25, 0.125, 10.0)
    flags = ("streaming", "reasoning", "tool_calling", "structured_output", "vision")
    assert filled.capabilities == dict.fromkeys(flags, True)
    assert (filled.input_modalities, filled.output_modalities) == (("text", "image", "pdf"), ("text",))
    assert filled.live == frozenset()


SAID = Listed(
    "m",
    "m",
    "Theirs",
    owned_by="them",
    capabilities=dict.fromkeys(("reasoning", "tool_calling", "structured_output", "vision"), True),
    input_modalities=("text",),
    output_modalities=("code",),
    context_length=1,
    max_output_tokens=2,
    input_price_per_million=0.0,
    input_price_per_million_cache_hit=0.0,
    output_price_per_million=0.0,
    live=frozenset({"context_length"}),
)


def test_what_is_said_stays():
    """A stated price of 0 is a price."""
    assert fill(SAID, entry()) is SAID


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        ({"cost": {"input": 0, "output": 0}}, "input_price_per_million", None),
        ({"cost": None, "limit": None, "modalities": None, "family": None}, "output_price_per_million", None),
        ({"limit": {"context": 0, "output": 0}}, "context_length", None),
        ({"limit": {"context": 1e30, "output": -1}}, "context_length", None),
        ({"limit": {"context": 128000.0, "output": 1}}, "context_length", 128000),
        ({"family": ""}, "owned_by", ""),
        ({"name": "m"}, "display_name", "m"),
        ({"modalities": {"input": [], "output": []}}, "input_modalities", ()),
        ({"tool_call": {"supported": False}}, "tool_calling", False),
        ({"tool_call": {"supported": True, "parallel": True}}, "tool_calling", True),
        ({"attachment": False}, "vision", False),
        ({"modalities": {"input": ["text", "pdf"], "output": ["text"]}}, "vision", False),
        ({"modalities": {"input": [], "output": []}}, "vision", True),
        ({"modalities": {}}, "vision", True),
    ],
)
def test_what_an_entry_does_not_say_is_not_filled(changed: dict[str, Any], field: str, value: Any):
    filled = fill(stub("m"), entry(**changed))
    got = filled.capabilities.get(field, False) if isinstance(value, bool) else getattr(filled, field)
    assert got == value


@pytest.mark.parametrize(
    ("model", "outputs"),
    [
        (stub("text-embedding-3-small"), ()),
        (stub("bge-reranker-v2"), ()),
        (stub("my-vectors", name="text-embedding-3-small"), ()),
        (stub("glm"), ("text",)),
        (stub("m", modality="embedding"), ()),
        (stub("m", modality="text->image"), ()),
        (stub("m", modality="chat"), ("text",)),
        (stub("whisper-1"), ("text",)),
    ],
)
def test_text_to_text_says_nothing_about_an_embedder(model: Listed, outputs: tuple[str, ...]):
    """part of providers 45. The document writes embedders as text to text; what is said in another form stays too."""
    assert fill(model, entry()).output_modalities == outputs


def test_a_word_for_the_input_is_not_replaced():
    assert fill(stub("m", modality="vision"), entry()).input_modalities == ()


@pytest.mark.parametrize(
    "junk", [b"", b"[]", b"nonsense", b"{}", b'{"openai": 5}', b'{"openai": {"models": {}}}', b"[" * 9999]
)
def test_what_is_no_document_is_refused(junk: bytes):
    with pytest.raises(BadDocument):
        known.read(junk, rank)


def test_a_model_that_does_not_fit_is_left_out():
    found = document(openai={"good": FULL, "bad": {"name": 5}, "worse": None}, other={"x": {"limit": "much"}})
    assert len(found.everywhere) == 1 and set(found.sections) == {"openai"}


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(
        st.sampled_from(["input", "output", "context", "cache_read", "supported"]), st.integers() | st.none()
    ),
)


@given(st.dictionaries(st.sampled_from(sorted(FULL)), JUNK))
def test_whatever_an_entry_holds_what_it_fills_can_be_stored(changed: dict[str, Any]):
    entries = {"m": {**FULL, **changed}, "good": FULL}
    known_of = document(openai=entries).everywhere
    filled = fill(stub("m"), known_of.find("m") or known_of.find("good"))
    assert all(limit is None or 0 < limit < 2**31 for limit in (filled.context_length, filled.max_output_tokens))
    prices = (filled.input_price_per_million, filled.input_price_per_million_cache_hit, filled.output_price_per_million)
    assert all(price is None or 0 < price < float("inf") for price in prices)
    assert all(value is True for value in filled.capabilities.values())
    texts = (*filled.input_modalities, *filled.output_modalities, filled.display_name, filled.owned_by)
    assert all(isinstance(text, str) for text in texts)


def test_ten_thousand_models_are_enriched_in_well_under_a_second():
    """A document of the size of the real one, and ids that match by every rule or by none."""
    models = {f"vendor/model-{number}": FULL for number in range(5000)}
    big = document(**{f"p{part}": models for part in range(4)}, openai={f"gpt-{number}": FULL for number in range(500)})
    ids = [
        f"{prefix}{number}{suffix}"
        for number in range(1250)
        for prefix in ("gpt-", "a.b.vendor/model-")
        for suffix in ("", "-2024-08-06", "-20250514", "-search-api")
    ]
    began = time.process_time()
    hits = sum(
        fill(stub(name), found) is not None for name in ids if (found := big.find("openai", False, [name, name]))
    )
    assert len(ids) == 10_000 and hits > 2000
    assert time.process_time() - began < 1.0
