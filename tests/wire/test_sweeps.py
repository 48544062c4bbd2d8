"""Sweeps, rechecks and the command in the running product."""

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.pace import slower
from tests.upstream.server import FakeProvider, answer, reply, silence, status
from tests.wire.house import house
from tests.wire.product import Product, eventually, manage
from tests.wire.scraping import scrape

pytestmark = pytest.mark.slow

DISCOVERY = {"provider_recheck_interval": "0", "discovery_interval": "0"}


def provider(product: Product, upstream: FakeProvider, name: str) -> str:
    body = {"name": name, "base_url": upstream.url, "provider_type": "custom"}
    made = product.api("POST", "/api/providers", json=body)
    assert made.status_code == 201, made.text
    assert product.api("POST", f"/api/providers/{made.json()['id']}/discover").status_code == 200
    return str(made.json()["id"])


def settings(product: Product, **values: str) -> None:
    assert product.api("PUT", "/api/settings", json=values).status_code == 200


def listings(upstream: FakeProvider) -> int:
    return sum(request.path.endswith("/models") for request in upstream.requests)


def facts(product: Product, provider_id: str) -> Any:
    return product.api("GET", f"/api/providers/{provider_id}").json()


def test_a_house_is_swept_by_itself_and_failures_are_rechecked(tmp_path: Path):
    """part of providers 38, part of providers 59. The interval takes effect without a restart, 0 ends it."""
    with FakeProvider(models=["m"]) as a, FakeProvider(models=["m"]) as b, Product(tmp_path) as product:
        settings(product, **DISCOVERY)
        first, second = provider(product, a, "A"), provider(product, b, "B")
        a.forget()
        settings(product, discovery_interval="1s")
        assert eventually(lambda: listings(a) >= 2, 30)
        a.route("GET", "/v1/models", status(401))
        assert eventually(lambda: facts(product, first)["inventory_stale"], 30)
        shown = product.api("GET", "/api/providers/status").json()
        assert (shown["summary"]["overall_status"], shown["summary"]["degraded"]) == ("degraded", 1)
        numbers = scrape(product).only("modelhotel_provider_health")
        assert {labels[0]: value for labels, value in numbers.items()} == {"A": 2, "B": 0} or set(numbers.values()) == {
            0,
            2,
        }
        settings(product, discovery_interval="0", provider_recheck_interval="5s")
        time.sleep(1)  # a sweep that has begun ends
        b.forget()
        a.route("GET", "/v1/models", reply(200, {"data": [{"id": "m"}]}))
        assert eventually(lambda: not facts(product, first)["inventory_stale"], 30)
        assert listings(b) == 0, "whoever is well is not asked"
        assert facts(product, second)["health"] == "healthy"


def test_a_restart_sweeps_once_in_five_minutes(tmp_path: Path):
    """part of providers 38. Over the wire: a start soon after a scan asks nobody."""
    with FakeProvider(models=["m"]) as upstream:
        with Product(tmp_path) as product:
            settings(product, **DISCOVERY)
            body = {"name": "A", "base_url": upstream.url, "provider_type": "custom"}
            made = product.api("POST", "/api/providers", json=body).json()
            token = product.token
        upstream.forget()
        with Product(tmp_path, token=token) as product:
            assert eventually(lambda: listings(upstream) == 1, 30)
            assert eventually(lambda: facts(product, made["id"])["last_discovered_at"], 10)
        with Product(tmp_path, token=token) as product:
            assert facts(product, made["id"])["model_count"] == 1
            time.sleep(1.5)
        assert listings(upstream) == 1


def test_the_command_works_beside_the_running_product(tmp_path: Path):
    with FakeProvider(models=["m"]) as upstream, Product(tmp_path) as product:
        settings(product, **DISCOVERY)
        provider(product, upstream, "A")
        upstream.models = ["m", "new"]
        done = manage(tmp_path, "discover_models")
        assert (done.returncode, done.stdout) == (0, "A: 2 models (1 new)\n"), done.stderr
        names = lambda: {row["model_id"] for row in product.api("GET", "/api/models").json()}  # noqa: E731
        assert eventually(lambda: names() == {"m", "new"}, 5)
        upstream.route("GET", "/v1/models", status(401))
        done = manage(tmp_path, "discover_models", "--provider", "A")
        assert done.returncode == 1 and done.stdout.startswith("A: failed: HTTP 401")
        done = manage(tmp_path, "discover_models", "--provider", "B")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.strip().endswith("provider not found: B")


def test_a_model_that_keeps_failing_makes_its_provider_degraded(tmp_path):
    """Three errors that are half of its requests (circuit-breaker 21.4), until it has answered often enough."""
    with house(tmp_path) as home:
        home.settings(
            circuit_breaker_threshold="100", server_error_retry_enabled="false", provider_recheck_interval="0"
        )
        home.a.script(status(500, {"error": {"message": "boom"}}))

        def after(requests: int) -> tuple[set[int], str]:
            codes = {home.ask("Alpha/glm-4.6").status_code for _ in range(requests)}
            return codes, facts(home.product, home.ids["Alpha"])["health"]

        assert after(2) == ({500}, "healthy")
        assert after(1) == ({500}, "degraded")
        home.a.script(answer("hi"))
        assert after(3) == ({200}, "degraded")
        assert after(1) == ({200}, "healthy")


def test_whoever_can_not_be_listed_still_serves_and_keeps_its_place(home):
    """part of providers 57, part of circuit-breaker 73. All but the balancing strategies, which are not there yet."""
    home.settings(**DISCOVERY)
    first, second = home.ids["Alpha"], home.ids["Beta"]
    home.a.route("GET", "/v1/models", status(401))
    home.settings(discovery_interval="1s")
    try:
        assert eventually(lambda: facts(home.product, first)["inventory_stale"], 30)
    finally:
        home.settings(discovery_interval="0")
    shown = facts(home.product, first)
    assert (shown["health"], shown["model_count"]) == ("degraded", 1)
    assert not facts(home.product, second)["inventory_stale"]
    assert {"Alpha/glm-4.6", "hotel/glm-4.6"} <= {model.id for model in home.client.models.list()}
    home.a.script(status(503, {"error": {"message": "alpha is down"}}))
    home.b.script(answer("from beta"))
    home.settings(server_error_retry_enabled="false")
    refused = home.ask("Alpha/glm-4.6")
    assert refused.status_code in (502, 503) and "not found" not in refused.text
    home.a.script(answer("from alpha"))

    def served(model: str) -> str:
        return home.ask(model).json()["choices"][0]["message"]["content"]

    assert served("Alpha/glm-4.6") == "from alpha"
    assert served("hotel/glm-4.6") == "from alpha", "the operator's order is not touched"
    home.admin("PUT", f"/api/failover-groups/{home.group['id']}", json={"group_enabled": False})
    assert served("glm-4.6") == "from beta", "a bare name asks the fresh inventory first"
    home.a.route("GET", "/v1/models", reply(200, {"data": [{"id": "glm-4.6"}]}))
    home.admin("POST", f"/api/providers/{first}/discover")
    assert served("glm-4.6") == "from alpha", "and at once in the order of creation again"


def test_a_stop_does_not_wait_for_a_provider_that_hangs(tmp_path: Path):
    """In the middle of a sweep, and while another provider's missing model is being confirmed."""
    with FakeProvider(models=["m"]) as hanging, FakeProvider(models=["m", "gone"]) as missing:
        with Product(tmp_path) as product:
            settings(product, **DISCOVERY)
            provider(product, hanging, "Hanging")
            provider(product, missing, "Missing")
            hanging.route("GET", "/v1/models", silence())
            missing.models = ["m"]
            for upstream in (hanging, missing):
                upstream.forget()
            settings(product, discovery_interval="1s")
            assert eventually(lambda: listings(hanging) == listings(missing) == 1, 30)
            token, began = product.token, time.monotonic()
            assert product.stop() == 0
            assert time.monotonic() - began < 8 * slower()
        hanging.route("GET", "/v1/models", status(401))
        with Product(tmp_path, token=token) as product:
            shown = {row["name"]: row for row in product.api("GET", "/api/providers").json()}
            assert shown["Hanging"]["last_model_fetch_error"] == "", "it is not held against it"
            assert not [row for row in product.api("GET", "/api/models").json() if not row["enabled"]]


def test_a_stop_ends_a_scan_that_somebody_asked_for(tmp_path: Path):
    """Three minutes may a scan take that somebody asked for; a stop takes as long as it grants to requests."""
    with FakeProvider(models=["m"]) as hanging, Product(tmp_path) as product:
        settings(product, **DISCOVERY)
        provider_id = provider(product, hanging, "A")
        hanging.route("GET", "/v1/models", silence())
        hanging.forget()
        ends: list[object] = []

        def scan() -> None:
            try:
                ends.append(product.api("POST", f"/api/providers/{provider_id}/discover", timeout=60.0).status_code)
            except httpx.TransportError as problem:
                ends.append(problem)

        waiting = threading.Thread(target=scan)
        waiting.start()
        hanging.wait_for(lambda: listings(hanging) == 1)
        assert product.stop(seconds=20.0) == 0
        waiting.join(10)
        assert len(ends) == 1 and ends != [200]
