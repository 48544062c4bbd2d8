"""The catalogue in memory is what the tables hold, column by column."""

import os
import time
from collections.abc import Iterator

import pytest

from tests.providers.conftest import Api

pytestmark = pytest.mark.database


@pytest.fixture(autouse=True)
def _far_from_greenwich() -> Iterator[None]:
    """A naive time that is read as local time shows."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


def test_a_row_in_memory_is_the_row_of_the_table(api: Api):
    from providers import cache
    from providers.models import Model, Provider

    made = api.provider(name="Some one")
    provider = Provider.objects.get(pk=made["id"])
    can = {"streaming": True, "vision": False}
    full = Model.objects.create(
        provider=provider,
        model_id="a/b:c",
        name="n",
        display_name='Ä "d"',
        description="x" * 3000,
        owned_by="o",
        modality="embedding",
        capabilities=can,
        input_modalities=["text", "image"],
        output_modalities=["embedding"],
        context_length=4096,
        max_output_tokens=0,
        input_price_per_million=0.0,
        input_price_per_million_cache_hit=0.125,
        output_price_per_million=2.5,
        search_price_per_thousand=10.0,
        enabled=False,
    )
    bare = Model.objects.create(provider=provider, model_id="a/b:c2")
    found = cache.build()
    for row in (full, bare):
        seen = found.models[str(row.pk)]
        assert found.by_pair[str(provider.pk), row.model_id] is seen and found.by_model_id[row.model_id] == (seen,)
        assert (seen.id, seen.provider_id, seen.model_id) == (str(row.pk), str(provider.pk), row.model_id)
        assert (seen.enabled, type(seen.enabled)) == (row.enabled, bool)
        assert (seen.name, seen.display_name, seen.description) == (row.name, row.display_name, row.description)
        assert (seen.owned_by, seen.modality, seen.capabilities) == (row.owned_by, row.modality, row.capabilities)
        assert seen.input_modalities == tuple(row.input_modalities)
        assert seen.output_modalities == tuple(row.output_modalities)
        assert (seen.context_length, seen.max_output_tokens) == (row.context_length, row.max_output_tokens)
        assert seen.input_price_per_million == row.input_price_per_million
        assert seen.input_price_per_million_cache_hit == row.input_price_per_million_cache_hit
        assert seen.output_price_per_million == row.output_price_per_million
        assert seen.search_price_per_thousand == row.search_price_per_thousand
        assert seen.created_at == pytest.approx(row.created_at.timestamp(), abs=0.001)


ODD = [
    ('["vision"]', '{"text": 1}'),
    ("null", "null"),
    ('{"\\ud800": true}', '["text", 7, null]'),  # half of a surrogate pair, which PostgreSQL does not take
    ("1", '"text"'),
]


@pytest.mark.parametrize(("can", "inputs"), ODD)
def test_an_odd_row_costs_no_other_one_the_snapshot(api: Api, can: str, inputs: str):
    """Written by hand, or by something older."""
    from django.db import DatabaseError, connection

    from providers import cache
    from providers.models import Model, Provider

    provider = Provider.objects.get(pk=api.provider()["id"])
    odd, whole = (Model.objects.create(provider=provider, model_id=name, capabilities={"a": True}) for name in "ab")
    with connection.cursor() as cursor:
        sql = "UPDATE models SET capabilities = %s, input_modalities = %s WHERE model_id = 'a'"
        try:
            cursor.execute(sql, [can, inputs])
        except DatabaseError:
            assert connection.vendor == "postgresql" and "ud800" in can
            return
    found = cache.build()
    assert found.models[str(whole.pk)].capabilities == {"a": True}
    seen = found.models[str(odd.pk)]
    assert (seen.capabilities, set(seen.input_modalities) <= {"text"}) == ({}, True)


def test_a_build_of_many_rows_lets_other_threads_go_first(api: Api, monkeypatch: pytest.MonkeyPatch):
    from modelhotel.core import snapshots
    from providers import cache
    from providers.models import Model, Provider

    provider = Provider.objects.get(pk=api.provider()["id"])
    Model.objects.bulk_create(Model(provider=provider, model_id=f"m{n}") for n in range(1000))
    breaths: list[float] = []
    monkeypatch.setattr(snapshots, "_breathe", breaths.append)
    assert len(cache.build().models) == 1000
    assert breaths == [snapshots.BREATH] * (1000 // snapshots.BLOCK)
