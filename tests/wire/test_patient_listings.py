"""Listings that take the product its time, with the waits as they are: each in a product of its own, all at once."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.upstream.behaviours import Behaviour, Wire, head, http_chunk
from tests.upstream.server import reply
from tests.wire.yard import MODELS, PATH, Yard, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400, func_only=True)]


def drip(every: float) -> Behaviour:
    """A listing of one byte in a while, without an end."""

    async def behave(wire: Wire) -> None:
        await wire.write(head(200, [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]))
        await wire.write(http_chunk(b'{"object":"list","data":['))
        for _ in range(1000):
            await wire.write(http_chunk(b" "))
            await wire.sleep(every)

    return behave


def _empty_listings(yard: Yard) -> None:
    yard.bad.route(*PATH, reply(200, {"object": "list", "data": []}))
    yard.sweep(150.0)
    assert len([one for one in yard.bad.requests if one.path == PATH[1]]) == 3
    assert yard.on() == MODELS and yard.serves()
    assert yard.shown()["last_model_fetch_error"] == "provider returned no models" and yard.shown()["inventory_stale"]
    assert "discovery: listing not believed" in yard.product.output


def _models_that_are_gone(yard: Yard) -> None:
    crowd = [*MODELS, *(f"crowd-{n:02}" for n in range(17))]
    yard.good.models = [*crowd]
    assert yard.discover("Good") == 200
    yard.good.models, yard.bad.models = [MODELS[0]], MODELS[:2]  # 19 of 20 are gone here, one of three there
    for _ in range(2):
        yard.sweep(150.0)
        assert len(yard.bad.requests) >= 3, "the listing was asked for twice more"
        assert yard.on("Good") == sorted(crowd)
    rows = yard.admin("GET", f"/api/models?provider_id={yard.ids['Bad']}").json()
    assert {row["model_id"]: row["enabled"] for row in rows} == {"kept-1": True, "kept-2": True, "kept-3": False}
    yard.good.models, yard.bad.models = list(crowd), list(MODELS)
    yard.sweep()
    assert yard.on() == MODELS and yard.on("Good") == sorted(crowd)


def _a_listing_without_end(yard: Yard) -> None:
    yard.bad.route(*PATH, drip(1.0))
    began = time.monotonic()
    assert yard.discover() == 500
    assert time.monotonic() - began < 130
    assert yard.shown()["last_model_fetch_error"] and yard.on() == MODELS


STORIES: dict[str, Callable[[Yard], None]] = {
    "empty": _empty_listings,
    "gone": _models_that_are_gone,
    "endless": _a_listing_without_end,
}


def _live(story: Callable[[Yard], None], directory: Path) -> None:
    with opened(directory) as yard:
        story(yard)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[None]]]:
    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {name: pool.submit(_live, story, tmp_path_factory.mktemp(name)) for name, story in STORIES.items()}


def test_a_sweep_believes_no_empty_listing_however_often_it_comes(lived: dict[str, Future[None]]):
    """part of providers 28, 32"""
    lived["empty"].result()


def test_two_sweeps_tell_a_model_that_is_gone_from_a_listing_that_is_not_believed(lived: dict[str, Future[None]]):
    """part of providers 29, 32: over the wire, with the waits of the confirmations as they are"""
    lived["gone"].result()


def test_a_listing_that_never_ends_is_left_in_time(lived: dict[str, Future[None]]):
    """One byte a second is cut off by the clock."""
    lived["endless"].result()
