"""Listings whose models are named and described by somebody who means harm, or does not care."""

import pytest

from providers.kinds.reading import DEAREST
from providers.models import Model
from tests.providers.sweeping import House, provider_row
from tests.upstream.server import FakeProvider, reply

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


#: Members of one entry of OpenRouter's listing, as JSON text.
VALUES = {
    "half a character": b'"name":"a\\ud800b","description":"\\udfff"',
    "half a character in a word": (
        b'"architecture":{"modality":"text->text","input_modalities":["te\\ud800xt"],'
        b'"output_modalities":["text","\\udc00"]}'
    ),
    "NUL": b'"name":"a\\u0000b","description":"\\u0000"',
    "very long": b'"name":"' + b"n" * 100_000 + b'","description":"' + b"d" * 1_000_000 + b'"',
    "prices that are none": b'"pricing":{"prompt":NaN,"completion":"Infinity","input_cache_read":-1}',
    "prices without end": b'"pricing":{"prompt":1e308,"completion":"1e300","input_cache_read":"1e-320"}',
    "context without end": b'"context_length":9223372036854775808,"top_provider":{"max_completion_tokens":1e999}',
    "context that is none": b'"context_length":-1,"top_provider":{"max_completion_tokens":"128000"}',
    "numbers of four thousand digits": b'"context_length":1'
    + b"0" * 4000
    + b',"pricing":{"prompt":"1'
    + b"0" * 4000
    + b'"}',
    "nested": b'"architecture":' + b'{"a":[' * 400 + b"1" + b"]}" * 400,
    "direction marks": '"name":"\u202etxt.exe\u2066"'.encode(),
    "other types": b'"name":[],"description":{},"architecture":"x","pricing":[1],"supported_parameters":{"a":1}',
}


@pytest.mark.parametrize("case", VALUES)
def test_one_odd_model_costs_nobody_the_listing(house: House, case: str):
    entry = b'{"id":"v/odd","architecture":{"modality":"text->text"},' + VALUES[case] + b"}"
    well = b'{"id":"v/well","architecture":{"modality":"text->text"},"name":"Well"}'
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", reply(200, b'{"data":[' + well + b"]}"))
        upstream.route("GET", "/v1/key", reply(200, {"data": {}}))
        house.provider(upstream, provider_type="openrouter", api_key="sk-or-0123456789")
        upstream.route("GET", "/v1/models", reply(200, b'{"data":[' + entry + b"," + well + b"]}"))
        told = [event.type for _ in range(2) for event in house.sweep()]
    assert "discovery.provider_failed" not in told
    assert provider_row().last_model_fetch_error == "" and provider_row().suspect_scans == 0
    rows = {row.model_id: row for row in Model.objects.all()}
    assert rows["v/well"].enabled and rows["v/well"].missing_scans == 0
    listed = house.api.get("/models")
    assert listed.status_code == 200 and len(listed.json()) == len(rows)
    if "v/odd" in rows:
        row = rows["v/odd"]
        for price in (row.input_price_per_million, row.output_price_per_million, row.input_price_per_million_cache_hit):
            assert price is None or 0 <= price <= DEAREST
        assert row.context_length is None or row.context_length < 2**31
