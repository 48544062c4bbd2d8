"""Listings are foreign: whatever stands in the place of a documented member, a kind gives models or says that there
is no listing."""

import asyncio
import copy
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from providers.discovery import store
from providers.discovery.classify import classify
from providers.kinds import registry
from providers.kinds.base import Header, Listed, ListingError
from tests.providers import vendors

BASE = "https://h.example/api/subscription/v1"
PLAIN = [{"data": [{"id": "a", "owned_by": "b"}]}]
OPENROUTER = {
    "id": "z-ai/glm",
    "name": "GLM",
    "description": "d",
    "context_length": 1000,
    "architecture": {"modality": "text->text", "input_modalities": ["text"], "output_modalities": ["text"]},
    "top_provider": {"context_length": 1000, "max_completion_tokens": 10},
    "pricing": {"prompt": "0.1", "completion": "0.1", "input_cache_read": "0.1"},
    "supported_parameters": ["tools"],
}
TAGS = {"models": [{"name": "a", "details": {"family": "llama"}}]}
SHOW = {"capabilities": ["completion"], "model_info": {"llama.context_length": 8192}}
IMAGE = {
    "name": "I",
    "description": "d",
    "owned_by": "o",
    "cost": {"auto": 0.1},
    "iconLabel": "both",
    "subscription": {"included": True, "note": "n"},
}
#: Type -> the answers to its calls, in their order.
ANSWERS: dict[str, list[Any]] = {
    "anthropic": [{"data": [vendors.CLAUDE], "has_more": True, "last_id": "a"}, {"data": []}],
    "google": [{"models": [vendors.GEMINI], "nextPageToken": "t"}, {"models": []}],
    "azure": [{"value": [vendors.DEPLOYMENT], "nextLink": "https://h.example/2"}, {"value": []}],
    "cohere": [
        {"models": [vendors.COMMAND], "next_page_token": ""},
        {"models": [{"name": "r", "context_length": 4096}]},
    ],
    "xai": [{"models": [vendors.GROK]}, {"models": [vendors.GROK_IMAGE]}],
    "koboldcpp": [
        {"result": "KoboldCpp", "version": "1", "vision": True, "audio": True},
        {"data": [{"id": "a"}]},
        {"value": 8192},
    ],
    "nanogpt": [{"data": [vendors.NANO]}, {"models": {"image": {"a": IMAGE}}}],
    "kimi-code": [{"data": [vendors.KIMI]}],
    "openrouter": [{"data": [OPENROUTER]}],
    "ollama": [TAGS, SHOW],
    "ollama-cloud": [TAGS, SHOW],
    "lmstudio": [{"data": [{"id": "a", "type": "vlm", "publisher": "p", "max_context_length": 4096}]}],
}
JUNK: list[Any] = [
    None,
    True,
    -1,
    0,
    10**400,
    float("nan"),
    float("inf"),
    "",
    "\x00",
    "http://[",
    "1e999",
    [],
    [None, 5, "x"],
    [{"x": 1}],
    {},
    {"x": None},
]


class Scripted:
    """Each call gets the next of *answers*; then there is nothing more."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers

    async def get(self, url: str, headers: Iterable[Header]) -> Any:
        if not self.answers:
            raise ListingError("HTTP 404", 404)
        return self.answers.pop(0)

    async def post(self, url: str, headers: Iterable[Header], body: Any) -> Any:
        return await self.get(url, headers)


def paths(node: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, inner in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*here, key)
        yield from paths(inner, (*here, key))


def spoiled(answers: list[Any]) -> Iterator[list[Any]]:
    """*answers* with every member of every one replaced by every piece of junk, one at a time."""
    for path in paths(answers):
        for junk in JUNK:
            made = copy.deepcopy(answers)
            node: Any = made
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = junk
            yield made


async def listed(kind: str, answers: list[Any]) -> list[Listed]:
    base = BASE if kind != "azure" else "https://h.example/api/projects/p"
    try:
        return await registry.get(kind).list_models(Scripted(answers), base, "k")
    except ListingError:
        return []


def check(model: Listed) -> None:
    assert model.model_id and isinstance(model.owned_by, str) and isinstance(model.display_name, str)
    assert all(value is True or value is False for value in model.capabilities.values())
    json.dumps([model.params, model.input_modalities, model.output_modalities], allow_nan=False)
    prices = (model.input_price_per_million, model.input_price_per_million_cache_hit, model.output_price_per_million)
    assert all(price is None or 0 <= price < float("inf") for price in prices)
    assert all(limit is None or limit > 0 for limit in (model.context_length, model.max_output_tokens))


@pytest.mark.parametrize("kind", sorted(registry.KINDS))
def test_no_member_of_a_listing_upsets_a_kind(kind: str):
    async def every() -> None:
        answers = ANSWERS.get(kind, PLAIN)
        assert kind == "vertex-express" or len(await listed(kind, copy.deepcopy(answers))) >= 1
        for made in spoiled(answers):
            for model in store.usable(await listed(kind, made)):
                check(classify(model))

    asyncio.run(every())
