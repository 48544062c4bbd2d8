"""Listings are foreign: whatever JSON comes, a kind gives models or says that there is no listing."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from providers.discovery import store
from providers.discovery.classify import classify
from providers.kinds import registry
from providers.kinds.base import Header, Listed, ListingError

MEMBERS = sorted(
    {"id", "name", "data", "models", "value", "owned_by", "status", "type", "model", "modelName", "features", "details"}
    | {
        "capabilities",
        "image_input",
        "supported",
        "context_length",
        "max_tokens",
        "display_name",
        "displayName",
        "note",
    }
    | {"architecture", "modality", "input_modalities", "output_modalities", "pricing", "prompt", "completion", "cost"}
    | {"top_provider", "image", "iconLabel", "subscription", "included", "supportedGenerationMethods", "model_info"}
    | {"inputTokenLimit", "version", "vision", "audio", "prompt_text_token_price", "image_price", "family"}
)
ONWARD = ("has_more", "last_id", "nextLink", "next_page_token", "nextPageToken", "vision", "audio")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**400), 10**400) | st.integers(-5, 300_000),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["KoboldCpp", "generateContent", "succeeded", "ModelDeployment", "text", "both", "http://[", "1e999"]
    ),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=8),
    max_leaves=12,
)
entry = st.dictionaries(st.sampled_from(MEMBERS), values, max_size=10)
listings = values | st.fixed_dictionaries(
    {
        "data": st.lists(entry, max_size=2),
        "models": st.lists(entry, max_size=2) | st.fixed_dictionaries({"image": st.dictionaries(st.text(), entry)}),
        "value": st.lists(entry, max_size=2),
        "result": st.just("KoboldCpp"),
    },
    optional=dict.fromkeys(ONWARD, values),
)


class Junk:
    """Every call gets the next of *answers*, then nothing more."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers

    async def get(self, url: str, headers: Iterable[Header]) -> Any:
        if not self.answers:
            raise ListingError("HTTP 404", 404)
        return self.answers.pop(0)

    async def post(self, url: str, headers: Iterable[Header], body: Any) -> Any:
        return await self.get(url, headers)


async def ask_all(answers: list[Any]) -> list[Listed]:
    found: list[Listed] = []
    for kind in registry.KINDS.values():
        with suppress(ListingError):
            found += await kind.list_models(Junk(list(answers)), "https://h.example/api/subscription/v1", "k")
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(answers=st.lists(listings, min_size=1, max_size=3))
def test_no_listing_upsets_a_kind(answers: list[Any]):
    for model in map(classify, store.usable(asyncio.run(ask_all(answers)))):
        assert model.model_id and isinstance(model.owned_by, str) and isinstance(model.display_name, str)
        assert all(value is True or value is False for value in model.capabilities.values())
        json.dumps([model.params, model.input_modalities, model.output_modalities], allow_nan=False)
        for price in (model.input_price_per_million, model.output_price_per_million):
            assert price is None or price >= 0
