"""The catalogs that ship: every file is well-formed, and what its rows fill."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.discovery import catalog, modelsdev
from providers.discovery.catalog import Row, fill, merge
from providers.discovery.classify import STATED
from providers.kinds import registry
from providers.kinds.base import Listed, stub

FLAGS = frozenset(catalog.FLAGS)
LISTS = frozenset({"modality", "input_modalities", "output_modalities"})
PRICES = frozenset({"input_price_per_million", "input_price_per_million_cache_hit", "output_price_per_million"})
LIMITS = frozenset({"context_length", "max_output_tokens"})
TEXTS = frozenset({"display_name", "description"})
WHOLE = TEXTS | LIMITS | LISTS | FLAGS | PRICES
#: What a row of a catalog may hold beside its id.
FIELDS = {
    "openai": WHOLE,
    "xai": WHOLE,
    "opencode-zen": WHOLE,
    "opencode-go": WHOLE,
    "deepseek": LIMITS | PRICES | {"description", "reasoning", "vision", "input_modalities"},
    "zai": LIMITS | PRICES | {"modality", "reasoning", "tool_calling", "structured_output"},
    "anthropic": PRICES,
    "google": PRICES | {"display_name", "free_tier"},
    "cohere": TEXTS | {"max_output_tokens", "input_price_per_million", "output_price_per_million"},
    "google-retired": frozenset(),
    "vertex-candidates": frozenset(),
}
PLAIN = ("google-retired", "vertex-candidates")
SNAPSHOT = "modelsdev-snapshot"


def test_every_file_is_read_by_someone_and_every_reader_has_its_file():
    files = {path.stem for path in catalog.DIRECTORY.iterdir()}
    assert files == {*FIELDS, SNAPSHOT}
    assert {kind.catalog for kind in registry.KINDS.values()} == {*FIELDS, ""} - {*PLAIN}


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_catalog_is_well_formed(name: str):
    file = catalog.load(name)
    assert file.sources and all(page.startswith("https://") for page in file.sources)
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", file.compiled)
    assert bool(file.ids) is (name in PLAIN) and not (file.ids and file.rows)
    ids = [row.model_id for row in file.rows] or list(file.ids)
    assert len({model_id.lower() for model_id in ids}) == len(ids)
    assert all(model_id.strip() == model_id and model_id for model_id in ids)
    for raw in json.loads((catalog.DIRECTORY / f"{name}.json").read_bytes()).get("rows", []):
        assert raw.keys() <= FIELDS[name] | {"model_id"}, raw["model_id"]


def test_the_documents_name_every_page_and_its_day():
    text = (Path(__file__).parents[2] / "docs" / "discovery.md").read_text()
    for name in FIELDS:
        file = catalog.load(name)
        (line,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |") and "<https://" in line]
        assert [page for page in file.sources if f"<{page}>" not in line] == []
        assert f"compiled from, on {file.compiled}" in text


@pytest.mark.parametrize(
    "row", [row for name in FIELDS for row in catalog.load(name).rows], ids=lambda row: row.model_id
)
def test_a_row_holds_possible_values(row: Row):
    assert row.modality in {*STATED, "", "chat", "text->text"}
    assert all(limit is None or 0 < limit <= 10_000_000 for limit in (row.context_length, row.max_output_tokens))
    prices = (row.input_price_per_million, row.input_price_per_million_cache_hit, row.output_price_per_million)
    assert all(price is None or 0 <= price <= 1000 for price in prices)
    if prices[0] and prices[1] is not None:
        assert prices[1] < prices[0]
    assert row.vision is ("image" in row.input_modalities)


@pytest.mark.parametrize(
    "broken",
    [
        b'{"sources": [], "compiled": "x", "rows": [{}]}',
        b'{"sources": [], "compiled": "x", "rows": [{"model_id": "m", "contxt_length": 1}]}',
        b'{"sources": [], "compiled": "x", "rows": [{"model_id": "m", "context_length": "much"}]}',
        b'{"rows": []}',
        b"[]",
    ],
)
def test_a_malformed_file_is_not_read(broken: bytes):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(broken, type=catalog.File)


def test_the_copy_of_models_dev_is_small_and_in_its_schema():
    known = modelsdev.shipped()
    raw = json.loads(modelsdev.SNAPSHOT.read_bytes())
    assert len(known.everywhere) == sum(len(section["models"]) for section in raw.values()) >= 40
    assert modelsdev.SNAPSHOT.stat().st_size < 50_000
    for name, section in raw.items():
        assert section["id"] == name and section["doc"].startswith("https://") and section["name"]
        for model_id, entry in section["models"].items():
            assert entry["id"] == model_id and entry["modalities"]["input"] and entry["modalities"]["output"]
            assert isinstance(entry["attachment"] and entry["reasoning"] and entry["tool_call"], bool)
            assert all(price >= 0 for price in entry.get("cost", {}).values())


ROW = Row(
    model_id="M",
    display_name="Model",
    description="Good.",
    context_length=200000,
    max_output_tokens=1000,
    modality="chat",
    input_modalities=("text", "image"),
    output_modalities=("text",),
    reasoning=True,
    vision=True,
    input_price_per_million=0.0,
    output_price_per_million=2.0,
)


def test_a_row_fills_what_is_empty():
    filled = fill(stub("M"), ROW)
    assert (filled.display_name, filled.description, filled.modality) == ("Model", "Good.", "chat")
    assert (filled.context_length, filled.max_output_tokens, filled.live) == (200000, 1000, frozenset())
    assert (filled.input_price_per_million, filled.output_price_per_million) == (0.0, 2.0)
    assert filled.input_price_per_million_cache_hit is None
    assert (filled.input_modalities, filled.output_modalities) == (("text", "image"), ("text",))
    assert filled.capabilities == {"streaming": True, "reasoning": True, "vision": True}


def test_what_the_provider_says_wins_and_flags_are_joined():
    said = Listed(
        "M",
        display_name="Theirs",
        description="Theirs.",
        capabilities={"tool_calling": True, "reasoning": False},
        modality="text->text",
        input_modalities=("text",),
        output_modalities=("code",),
        context_length=128000,
        input_price_per_million=1.0,
        input_price_per_million_cache_hit=0.0,
        output_price_per_million=3.0,
        live=frozenset({"context_length"}),
    )
    filled = fill(said, ROW)
    assert filled.max_output_tokens == 1000
    assert filled.capabilities == {"tool_calling": True, "reasoning": True, "vision": True}
    kept = (
        "display_name",
        "description",
        "modality",
        "input_modalities",
        "output_modalities",
        "context_length",
        "live",
    )
    assert all(getattr(filled, name) == getattr(said, name) for name in kept)
    assert filled.input_price_per_million == 1.0 and filled.output_price_per_million == 3.0


def test_a_free_tier_is_told_among_the_extras():
    free = Row(model_id="m", free_tier=True)
    assert fill(stub("m", params={"x": 1}), free).params == {"free_tier": True, "x": 1}
    assert fill(stub("m"), ROW).params == {}


@pytest.mark.parametrize("unsaid", ["", "[]", "{}", "null"])
def test_a_modality_that_says_nothing_is_filled(unsaid: str):
    assert fill(stub("M", modality=unsaid), ROW).modality == "chat"


KNOWN = {"m": ROW, "x": Row(model_id="X", streaming=False), "y": Row(model_id="y")}


def test_a_union_adds_what_is_not_listed_after_what_is():
    """part of providers 44"""
    kind = registry.get("deepseek")
    found = merge(kind, KNOWN, [stub("own"), stub("m", "o")], adds=True)
    assert [model.model_id for model in found] == ["own", "m", "X", "y"]
    assert found[1].owned_by == "o" and found[1].context_length == 200000
    assert [model.owned_by for model in found[2:]] == ["deepseek"] * 2 and found[3].display_name == "y"
    assert (found[2].capabilities, found[3].capabilities) == ({}, {"streaming": True})
    assert all(model.live == frozenset() for model in found)


def test_a_backfill_adds_nothing():
    """part of providers 44"""
    assert [model.model_id for model in merge(registry.get("custom"), KNOWN, [stub("own")], adds=False)] == ["own"]


@given(st.lists(st.sampled_from(["m", "M", "x", "own", "z"]), unique_by=str.lower), st.booleans())
def test_what_is_listed_stays_first_and_in_its_order(listed: list[str], adds: bool):
    found = [model.model_id for model in merge(registry.get("xai"), KNOWN, [stub(name) for name in listed], adds=adds)]
    assert found[: len(listed)] == listed and len({name.lower() for name in found}) == len(found)
    assert adds or len(found) == len(listed)


def test_which_types_add_and_which_only_fill():
    adds = {kind.type for kind in registry.KINDS.values() if kind.catalog_adds}
    assert adds == {"deepseek", "xai", "zai-coding", "opencode-zen", "opencode-go"}
    fills = {kind.type: kind.catalog for kind in registry.KINDS.values() if kind.catalog and not kind.catalog_adds}
    assert fills == {
        "custom": "openai",
        "openai": "openai",
        "neuralwatt": "openai",
        "anthropic": "anthropic",
        "anthropic-messages": "anthropic",
        "google": "google",
        "cohere": "cohere",
    }


def test_claude_is_known_with_and_without_its_day():
    kind, known = registry.get("anthropic"), {"claude-x-5": Row(model_id="claude-x-5", input_price_per_million=1.0)}

    def price(model_id: str) -> Any:
        return merge(kind, known, [stub(model_id)], adds=False)[0].input_price_per_million

    assert [price(name) for name in ("claude-x-5", "CLAUDE-X-5-20260101", "claude-x-5-2026", "claude-x")] == [
        1.0,
        1.0,
        None,
        None,
    ]
