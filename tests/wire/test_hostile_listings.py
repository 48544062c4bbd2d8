"""Listings that are none, from a running product's point of view: inventory kept, the reason shown, memory bounded."""

import json
import threading
from collections.abc import Iterator

import pytest

from tests.upstream.behaviours import Behaviour, Wire, head, http_chunk
from tests.upstream.server import (
    half_json,
    hang_up,
    html,
    pieces,
    raw,
    redirect,
    reply,
    status,
    wrong_length,
)
from tests.wire.yard import KEY, MEGABYTE, MODELS, PATH, Yard, opened

pytestmark = pytest.mark.slow

#: Megabytes that one listing may add to the process at most: what is read of it, once as pieces and once joined; and
#: what is decoded.
ROOM = 150.0


def flood(entry: bytes, total: int) -> Behaviour:
    """A listing of *total* bytes that never closes its brackets."""

    async def behave(wire: Wire) -> None:
        await wire.write(head(200, [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]))
        await wire.write(http_chunk(b'{"object":"list","data":['))
        block = entry * (65536 // len(entry))
        for _ in range(total // len(block)):
            await wire.write(http_chunk(block))
        await wire.write(http_chunk(entry.rstrip(b",") + b"]}") + b"0\r\n\r\n")

    return behave


def crowd(models: int) -> Behaviour:
    """A listing that holds little and is much once it is decoded."""
    return reply(200, b'{"data":[%s]}' % b",".join(b'{"id":"%d"}' % n for n in range(models)))


@pytest.fixture(scope="module")
def shared_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with opened(tmp_path_factory.mktemp("yard")) as made:
        yield made


@pytest.fixture
def yard(shared_yard: Yard) -> Iterator[Yard]:
    yield shared_yard
    shared_yard.mend()
    for name in shared_yard.ids:
        assert shared_yard.discover(name) == 200
        assert shared_yard.shown(name)["health"] == "healthy" and not shared_yard.shown(name)["inventory_stale"]


class Peak(threading.Thread):
    """The most memory a process has used since it began."""

    def __init__(self, yard: Yard) -> None:
        super().__init__(daemon=True)
        self.before = self.most = yard.memory()
        self._yard, self._over = yard, threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.01):
            self.most = max(self.most, self._yard.memory())

    def __enter__(self) -> "Peak":
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self.join()

    @property
    def grown(self) -> float:
        return self.most - self.before


LISTED = json.dumps({"object": "list", "data": [{"id": name} for name in MODELS]})
TOO_LARGE, TOO_MANY = "the answer is too large", "the listing has more than 20000 models"
HOSTILE: dict[str, tuple[Behaviour, str]] = {
    "401": (status(401, {"error": {"message": f"bad key {KEY}"}}), "HTTP 401: "),
    "403": (html(403), "HTTP 403: "),
    "HTML for JSON": (html(200, "<html><body>Sign in</body></html>"), "the answer is not JSON"),
    "half JSON": (half_json(), "the answer is not JSON"),
    "deep JSON": (reply(200, b"[" * 200_000), "the answer is not JSON"),
    "a list": (reply(200, b"[]"), "the listing has no list named data"),
    "no list": (reply(200, {"object": "list", "data": {"id": "x"}}), "the listing has no list named data"),
    "null": (reply(200, b"null"), "the listing has no list named data"),
    "nothing": (reply(200, b""), "the answer is not JSON"),
    "endless head": (pieces(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2_000_000, 65536, 0.0), ""),
    "a private address": (redirect("http://10.0.0.1/v1/models"), "refused connection to private/reserved IP 10.0.0.1"),
    "the metadata service": (redirect("http://169.254.169.254/latest"), "refused connection to private/reserved IP"),
    "a file": (redirect("file:///etc/passwd"), "refused to follow a redirect"),
    "100 MB": (flood(b'{"id":"one-of-a-flood","object":"model","owned_by":"x"},', 100 * MEGABYTE), TOO_LARGE),
    "a million models": (crowd(10**6), TOO_LARGE),
    "400,000 models": (crowd(400_000), TOO_MANY),
}
#: Tried again, which takes its time.
BROKEN = {"hung up": hang_up(), "cut": wrong_length(40), "500": status(500), "no HTTP": raw(b"SSH-2.0-x\r\n")}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_listing_that_is_none_costs_no_model_and_says_why(yard: Yard, case: str):
    """part of providers 75"""
    behaviour, reason = HOSTILE[case]
    yard.bad.route(*PATH, behaviour)
    with Peak(yard) as peak:
        assert yard.discover() == 500
    assert peak.grown < ROOM
    shown = yard.shown()
    assert shown["last_model_fetch_error"].startswith(reason) and shown["last_model_fetch_error"]
    assert shown["health"] == "degraded" and shown["inventory_stale"] and shown["model_count"] == len(MODELS)
    assert KEY not in json.dumps(shown) and KEY not in yard.product.output
    assert yard.on() == MODELS and yard.serves()


@pytest.mark.parametrize("empty", [b'{"object":"list","data":[]}', b'{"data":[{},{"id":""},{"id":null},7]}'])
def test_a_listing_without_models_is_no_inventory(yard: Yard, empty: bytes):
    """part of providers 28"""
    yard.bad.route(*PATH, reply(200, empty))
    assert yard.discover() == 200
    shown = yard.shown()
    assert shown["last_model_fetch_error"] == "provider returned no models" and shown["health"] == "degraded"
    assert yard.on() == MODELS and yard.serves()


def test_a_listing_that_moved_is_followed_without_the_key(yard: Yard):
    """part of providers 75"""
    yard.bad.route(*PATH, redirect(f"{yard.good.origin}/moved", 307))
    yard.good.route("GET", "/moved", reply(200, LISTED))
    assert yard.discover() == 200
    [arrived] = [one for one in yard.good.requests if one.path == "/moved"]
    assert KEY not in str(arrived.raw_headers) and "authorization" not in arrived.headers
    yard.bad.route(*PATH, redirect(f"{yard.bad.origin}/v1/models"))
    yard.bad.forget()
    assert yard.discover() == 500
    assert yard.shown()["last_model_fetch_error"] == "more than 10 redirects" and len(yard.bad.requests) == 11


def test_the_content_type_is_not_believed(yard: Yard):
    yard.bad.route(*PATH, reply(200, LISTED, content_type="text/html"))
    assert yard.discover() == 200 and yard.shown()["last_model_fetch_error"] == ""


def test_ids_that_nobody_could_ask_for_are_left_out(yard: Yard):
    odd = ["x" * 600, "line\nbreak", "nul\x00", "", MODELS[0], MODELS[0], 7, None, {"id": 1}]
    yard.bad.route(*PATH, reply(200, {"data": [{"id": one} for one in odd] + [{"id": name} for name in MODELS]}))
    assert yard.discover() == 200
    assert yard.on() == MODELS


SWEPT_OVER = {name: HOSTILE[name][0] for name in ("401", "HTML for JSON", "half JSON", "100 MB")}


@pytest.mark.parametrize("case", SWEPT_OVER)
def test_sweeps_switch_nothing_off_for_a_listing_that_is_none(yard: Yard, case: str):
    """part of providers 57"""
    yard.bad.route(*PATH, SWEPT_OVER[case])
    for _ in range(2):  # as many as switch off what is really gone
        yard.sweep()
        assert yard.on() == MODELS
    bad, good = yard.shown("Bad"), yard.shown("Good")
    assert (bad["health"], bad["inventory_stale"], bool(bad["last_model_fetch_error"])) == ("degraded", True, True)
    assert (good["health"], good["inventory_stale"], good["last_model_fetch_error"]) == ("healthy", False, "")
    assert yard.serves()
    listed = yard.product.http.get(f"{yard.product.url}/v1/models", headers={"Authorization": f"Bearer {yard.key}"})
    assert {f"Bad/{name}" for name in MODELS} <= {one["id"] for one in listed.json()["data"]}


@pytest.mark.parametrize("case", SWEPT_OVER)
def test_sweeps_through_an_outage_of_every_listing_mark_nobody(yard: Yard, case: str):
    """part of providers 58"""
    for upstream in (yard.bad, yard.good):
        upstream.route(*PATH, SWEPT_OVER[case])
    for _ in range(2):
        yard.sweep()
    for name in ("Bad", "Good"):
        shown = yard.shown(name)
        assert shown["last_model_fetch_error"] and shown["health"] == "degraded" and not shown["inventory_stale"]
        assert yard.on(name) == MODELS and yard.serves(name)


@pytest.mark.timeout(120, func_only=True)
@pytest.mark.parametrize("outage", ["refused", *BROKEN])
def test_an_outage_of_every_listing_marks_nobody(yard: Yard, outage: str):
    """part of providers 58"""
    for upstream in (yard.bad, yard.good):
        if outage == "refused":
            upstream.refuse()
        else:
            upstream.route(*PATH, BROKEN[outage])
    told = yard.admin("POST", "/api/providers/discover-all").json()
    assert (told["failed"], told["succeeded"]) == (2, 0)
    for name in ("Bad", "Good"):
        shown = yard.shown(name)
        assert shown["last_model_fetch_error"] and shown["health"] == "degraded" and not shown["inventory_stale"]
        assert yard.on(name) == MODELS
    assert outage == "refused" or yard.serves()
