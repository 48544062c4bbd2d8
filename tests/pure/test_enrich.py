"""Live, then catalog, then models.dev, then nothing."""

import time
from typing import Any

import pytest

from providers.discovery import known
from providers.discovery.catalog import Row
from providers.discovery.enrich import Enriched, enrich, mark_live
from providers.discovery.known import NOTHING, Entry, Index, Known
from providers.kinds import registry
from providers.kinds.base import Listed, stub

ROWS = {"a": Row(model_id="a", context_length=2, output_price_per_million=2.0)}


def entry(name: str = "N", price: float = 3.0) -> Entry:
    return Entry(
        name=name,
        cost=known._Cost(input=price, output=price, cache_read=price),
        limit=known._Limit(context=3, output=3),
        modalities=known._Modalities(("text",), ("text",)),
    )


def document(section: str = "openai", **entries: Entry) -> Known:
    found = Index(entries)
    return Known({section: found}, found)


def only(found: Enriched) -> Listed:
    (model,) = found.models
    return model


def test_each_field_comes_from_the_first_that_says_it():
    """part of providers 40. Only what the provider itself said counts as live."""
    listed = mark_live([stub("a", input_price_per_million=0.0, max_output_tokens=1)])
    model = only(enrich(registry.get("openai"), True, listed, ROWS, document(a=entry())))
    assert (model.max_output_tokens, model.context_length) == (1, 2)
    prices = (model.input_price_per_million, model.output_price_per_million, model.input_price_per_million_cache_hit)
    assert prices == (0.0, 2.0, 3.0)
    assert (model.display_name, model.live) == ("N", frozenset({"max_output_tokens"}))


def test_without_models_dev_the_rest_still_happens():
    """part of providers 46. models.dev unreachable."""
    found = enrich(registry.get("openai"), True, [stub("a"), stub("b")], ROWS, NOTHING)
    assert [model.context_length for model in found.models] == [2, None] and found.known == 0


def test_how_many_models_dev_knew_is_counted():
    found = enrich(
        registry.get("openai"), True, [stub("a"), stub("b"), stub("c")], {}, document(a=entry(), c=entry("c"))
    )
    assert found.known == 2


@pytest.mark.parametrize("kind", sorted(registry.KINDS))
def test_an_empty_listing_stays_empty(kind: str):
    """part of providers 28. It never falls back to the catalog."""
    assert enrich(registry.get(kind), True, [], ROWS, document(a=entry())) == Enriched([])


def test_a_deployment_is_looked_up_by_its_id_then_by_its_model():
    """part of providers 47"""
    kind = registry.get("azure")
    rows = document("azure", **{"gpt-4.1-mini": entry("GPT-4.1 mini")})
    model = only(enrich(kind, True, [stub("my-fast", "OpenAI", name="gpt-4.1-mini")], {}, rows))
    assert (model.model_id, model.context_length, model.input_price_per_million) == ("my-fast", 3, 3.0)
    assert model.owned_by == "OpenAI"
    both = document("azure", **{"gpt-4.1-mini": entry(), "my-fast": entry(price=9.0)})
    assert only(enrich(kind, True, [stub("my-fast", name="gpt-4.1-mini")], {}, both)).input_price_per_million == 9.0


def test_an_exclusive_type_takes_nothing_from_a_reseller():
    """part of providers 46"""
    resold = document("reseller", **{"glm-9": entry()})
    for kind, price in (
        ("zai-coding", None),
        ("anthropic-messages", 3.0),
        ("ollama-cloud", 3.0),
        ("opencode-zen", 3.0),
    ):
        assert only(enrich(registry.get(kind), True, [stub("glm-9")], {}, resold)).input_price_per_million == price


FREE = {
    "free": Row(model_id="free", input_price_per_million=0, output_price_per_million=0),
    "half": Row(model_id="half", input_price_per_million=0),
    "unlisted": Row(model_id="unlisted", input_price_per_million=0, output_price_per_million=0),
}


@pytest.mark.parametrize(("keyed", "ids"), [(True, ["free", "half", "paid", "unlisted"]), (False, ["free"])])
def test_zen_without_a_key_has_what_is_listed_and_free(keyed: bool, ids: list[str]):
    """part of providers 49"""
    found = enrich(registry.get("opencode-zen"), keyed, [stub("free"), stub("half"), stub("paid")], FREE, NOTHING)
    assert [model.model_id for model in found.models] == ids
    assert (found.models[0].input_price_per_million, found.models[0].output_price_per_million) == (0, 0)


def test_ten_thousand_models_cost_well_under_a_second():
    big = {f"vendor/model-{number}": entry() for number in range(5000)}
    rows: dict[str, Any] = {f"m-{number}": Row(model_id=f"m-{number}", context_length=1) for number in range(100)}
    listed = [stub(f"vendor/model-{number}-2026-01-01") for number in range(10_000)]
    began = time.process_time()
    found = enrich(registry.get("custom"), True, mark_live(listed), rows, document(**big))
    spent = time.process_time() - began
    assert found.known == 5000 and spent < 1.0
