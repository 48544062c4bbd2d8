"""models.dev and the running product: fetched at its start from its own address, else the shipped copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.behaviours import Behaviour, html, reply, silence
from tests.upstream.server import FakeProvider
from tests.upstream.vendors import Vendor
from tests.upstream.vendors.base import Route
from tests.upstream.vendors.world import World
from tests.wire.product import Product, eventually

pytestmark = pytest.mark.slow

DOCUMENT = {
    "openai": {"id": "openai", "models": {"gpt-x": {"name": "GPT X", "cost": {"input": 2.5, "output": 10}}}},
}


class ModelsDev(Vendor):
    """The site: a document, or *behaviour*."""

    base_url = "https://models.dev"
    places = ("https://models.dev",)

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__()
        self._behaviour = behaviour

    def free(self) -> dict[tuple[str, str], Route]:
        return {("GET", "/api.json"): lambda request: self._behaviour}

    def routes(self) -> dict[tuple[str, str], Route]:
        return {}


@contextmanager
def product(directory: Path, behaviour: Behaviour, **env: str) -> Iterator[tuple[Product, ModelsDev]]:
    site, world = ModelsDev(behaviour), World(directory)
    world.vendors["models.dev"] = site
    with world, Product(directory / "data", {**world.environment(), "MODELSDEV_ENABLED": "true", **env}) as running:
        yield running, site


def price(running: Product, *model_ids: str) -> list[Any]:
    with FakeProvider(models=list(model_ids)) as upstream:
        body = {"name": "P", "provider_type": "openai", "base_url": upstream.url, "api_key": "sk-abcdef12"}
        made = running.api("POST", "/api/providers", json=body).json()
        found = running.api("POST", f"/api/providers/{made['id']}/discover").json()["models"]
    return [model["input_price_per_million"] for model in found]


def test_the_document_is_fetched_at_the_start_and_prices_what_is_listed(tmp_path: Path):
    """part of providers 41. From models.dev at its own address, through the guard and a proxy."""
    with product(tmp_path, reply(200, DOCUMENT)) as (running, site):
        assert eventually(lambda: "models.dev fetched" in running.output)
        assert [request.extra["url"] for request in site.requests] == ["https://models.dev/api.json"]
        assert not any("authorization" in request.headers for request in site.requests)
        assert price(running, "gpt-x-2026-01-01", "gpt-4o") == [2.5, None]


def test_without_it_the_product_starts_and_scans_with_the_copy(tmp_path: Path):
    """part of providers 46. models.dev unreachable."""
    with product(tmp_path, reply(503, "down")) as (running, site):
        assert eventually(lambda: "models.dev can not be read" in running.output)
        assert price(running, "gpt-x", "gpt-4o-2024-08-06") == [None, 2.5]
        assert len(site.requests) == 1 and running.output.count("models.dev can not be read") == 1


def test_switched_off_nobody_is_asked(tmp_path: Path):
    with product(tmp_path, reply(200, DOCUMENT), MODELSDEV_ENABLED="false") as (running, site):
        assert price(running, "gpt-x", "gpt-4o") == [None, None]
        assert site.requests == [] and "discovery: models.dev" not in running.output


def test_while_it_hangs_the_product_serves_and_stops(tmp_path: Path):
    with product(tmp_path, silence()) as (running, site):
        assert eventually(lambda: site.requests)
        assert running.get("/health").status_code == 200
        assert price(running, "gpt-4o") == [2.5], "with the copy, meanwhile"
        assert "discovery: models.dev" not in running.output, "nothing came of it yet"
        assert running.stop(seconds=10.0) == 0


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [(html(), "JSON"), (reply(200, b"[" + b" " * 60_000_000 + b"]"), "the document is too large")],
    ids=["html", "60 MB"],
)
def test_what_is_no_document_is_told_once_and_the_copy_stays(tmp_path: Path, behaviour: Behaviour, reason: str):
    with product(tmp_path, behaviour) as (running, _):
        assert eventually(lambda: "models.dev can not be read" in running.output)
        line = next(line for line in running.output.splitlines() if "models.dev can not be read" in line)
        assert "level=WARN" in line and reason in line
        assert price(running, "gpt-4o") == [2.5]
