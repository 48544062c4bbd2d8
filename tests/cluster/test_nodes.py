"""Two nodes on one PostgreSQL and one Redis, as two real products."""

import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.pace import slower
from tests.upstream.server import FakeProvider
from tests.wire.product import REDIS, Product, eventually, fresh_postgres

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.redis, pytest.mark.timeout(90)]

ENV = {"MASTER_KEY": "m" * 40, "REDIS_URL": REDIS}


class Listener(threading.Thread):
    """Everything that ``/api/events`` of one node says."""

    def __init__(self, node: Product, token: str) -> None:
        super().__init__(daemon=True)
        self.node, self.auth = node, {"Authorization": f"Bearer {token}"}
        self.events: list[dict[str, object]] = []
        self.connected = threading.Event()
        self.start()
        assert self.connected.wait(10)

    def run(self) -> None:
        try:
            with httpx.stream("GET", f"{self.node.url}/api/events", headers=self.auth, timeout=60) as answer:
                for line in answer.iter_lines():
                    self.connected.set()
                    if line.startswith("data: "):
                        self.events.append(json.loads(line[6:]))
        except httpx.TransportError:
            self.connected.set()

    def of(self, kind: str) -> list[dict[str, object]]:
        return [event for event in self.events if event["type"] == kind]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Product, Product, str]]:
    """Started at the same moment on an empty database."""
    with fresh_postgres() as url:
        made = [
            Product(tmp_path_factory.mktemp(name), {**ENV, "DATABASE_URL": url, "NODE_NAME": name}, wait=False)
            for name in ("alpha", "beta")
        ]
        with made[0] as alpha, made[1] as beta:
            for node in made:
                node.wait_until_ready(60)
            yield alpha, beta, alpha.token or beta.token


def test_two_nodes_started_at_once_migrate_once_and_share_one_token(pair: tuple[Product, Product, str]):
    """operations 86, providers 86."""
    alpha, beta, token = pair
    both = alpha.output + beta.output
    assert both.count("database migrated") == 1
    assert both.count("ADMIN TOKEN (save now") == 1
    for node in (alpha, beta):
        assert node.api("GET", "/api/settings", token=token).status_code == 200


def test_a_setting_written_through_one_is_in_force_in_the_other_within_a_second(pair: tuple[Product, Product, str]):
    """settings 52."""
    alpha, beta, token = pair
    for value in ("3", "4"):
        written = alpha.api("PUT", "/api/settings", token=token, json={"circuit_breaker_threshold": value})
        assert written.status_code == 200
        began = time.monotonic()
        assert eventually(lambda value=value: in_force_memory(beta, token) == value)
        assert time.monotonic() - began < slower()


def in_force_memory(node: Product, token: str) -> str:
    """What the node's memory holds, not what the shared table says."""
    catalogue = node.api("GET", "/api/settings/catalogue", token=token).json()["settings"]
    (found,) = [row["effective"] for row in catalogue if row["key"] == "circuit_breaker_threshold"]
    return str(found)


def test_an_event_of_one_node_is_seen_once_by_the_listeners_of_the_other(pair: tuple[Product, Product, str]):
    """operations 50, part of operations 41a."""
    alpha, beta, token = pair
    here, there = Listener(alpha, token), Listener(beta, token)
    began = time.monotonic()
    alpha.api("PUT", "/api/settings", token=token, json={"circuit_breaker_threshold": "7"})
    assert eventually(lambda: here.of("config.changed") and there.of("config.changed"))
    assert time.monotonic() - began < 1.5 * slower()
    time.sleep(0.3)
    assert len(there.of("config.changed")) == 1
    assert here.of("config.changed") == there.of("config.changed")


def test_the_table_holds_the_lines_of_both_nodes_and_memory_those_of_the_one_that_answers(
    pair: tuple[Product, Product, str],
):
    alpha, beta, token = pair

    def nodes(node: Product, query: str) -> set[str]:
        found = node.api("GET", f"/api/logs/app{query}", token=token).json()
        return {line["node"] for line in (found["entries"] if query else found)}

    wanted = "?history=true&source=lifecycle&search=ready"
    assert eventually(lambda: nodes(alpha, wanted) == {"alpha", "beta"})
    assert nodes(beta, wanted) == {"alpha", "beta"}
    assert (nodes(alpha, ""), nodes(beta, "")) == ({"alpha"}, {"beta"})


def test_a_disabled_account_is_signed_out_of_both_nodes_at_once(pair: tuple[Product, Product, str]):
    """operations 71. One cookie opens both nodes until then: sessions are shared."""
    alpha, beta, _ = pair
    made = alpha.manage(
        "shell", "-c", "from modelhotel.models import User as U; U.objects.create_superuser('x', '', 'y-7')"
    )
    assert made.returncode == 0, made.stderr
    with httpx.Client(timeout=10, trust_env=False) as browser:
        browser.get(f"{alpha.url}/login/")
        form = {"username": "x", "password": "y-7", "csrfmiddlewaretoken": browser.cookies["mh_csrf"]}
        assert browser.post(f"{alpha.url}/login/", data=form).status_code == 302
        asked = [f"{node.url}/api/settings" for node in (alpha, beta)]
        assert [browser.get(url).status_code for url in asked] == [200, 200]
        alpha.manage("shell", "-c", "from modelhotel.models import User as U; U.objects.update(is_active=False)")
        assert [browser.get(url).status_code for url in asked] == [401, 401]
        alpha.manage("shell", "-c", "from modelhotel.models import User as U; U.objects.update(is_active=True)")


def test_a_node_of_several_workers_serves_and_ends_as_one(tmp_path: Path):
    with (
        fresh_postgres() as url,
        Product(
            tmp_path, {**ENV, "DATABASE_URL": url, "ADMIN_TOKEN": "t0ken"}, args=("--workers", "2"), wait=False
        ) as node,
    ):
        node.wait_until_ready(60)
        assert eventually(lambda: node.output.count("lifecycle: ready") == 2, 30)
        asked = "/api/logs/app?history=true&source=lifecycle&search=ready"
        assert eventually(lambda: node.api("GET", asked).json()["total"] == 2)
        assert node.output.count("Model Hotel ") == 1
        assert node.output.count("FIRST ACCOUNT (save now") == 1
        assert node.api("PUT", "/api/settings", json={"circuit_breaker_threshold": "9"}).status_code == 200
        deadline = time.monotonic() + slower()
        while time.monotonic() < deadline and in_force_memory(node, "t0ken") != "9":
            pass
        # Each call is a connection of its own and meets either worker.
        for _ in range(10):
            with httpx.Client(headers={"Authorization": "Bearer t0ken"}, verify=False) as client:
                rows = client.get(f"{node.url}/api/settings/catalogue").json()["settings"]
                assert [row["effective"] for row in rows if row["key"] == "circuit_breaker_threshold"] == ["9"]
        assert node.stop(seconds=30) == 0
        assert node.output.count("lifecycle: stopped") == 2


def served_by(node: Product, key: str, model: str = "hotel/glm-4.6") -> str:
    answer = node.http.post(
        f"{node.url}/v1/chat/completions",
        headers={"Authorization": f"Bearer {key}"},
        json={"model": model, "messages": []},
    )
    return answer.headers.get("x-modelhotel-provider", str(answer.status_code))


def test_an_edit_through_one_node_governs_requests_of_the_other_within_a_second(pair: tuple[Product, Product, str]):
    """routing 55, routing 67, operations 84. At once in the node that took it; a new key, an order, a name and a
    deletion all travel.
    """
    alpha, beta, token = pair

    def admin(method: str, path: str, **kwargs: object) -> httpx.Response:
        answer = alpha.api(method, path, token=token, **kwargs)
        assert answer.status_code < 300, answer.text
        return answer

    def within_a_second(node: Product, key: str, expected: str, model: str = "hotel/glm-4.6") -> None:
        began = time.monotonic()
        assert eventually(lambda: served_by(node, key, model) == expected)
        assert time.monotonic() - began < slower()

    with FakeProvider(models=["glm-4.6"]) as a, FakeProvider(models=["glm-4.6"]) as b:
        for name, provider in (("Alpha", a), ("Beta", b)):
            admin("POST", "/api/providers", json={"name": name, "base_url": provider.url, "api_key": "sk-1"})
        admin("POST", "/api/providers/discover-all")
        group = admin("GET", "/api/failover-groups").json()["groups"][0]
        made = admin("POST", "/api/virtual-keys", json={"name": "both"}).json()
        ids = {entry["provider_name"]: entry["model_uuid"] for entry in group["entries"]}
        for first, second in (("Alpha", "Beta"), ("Beta", "Alpha")):
            admin("PUT", f"/api/failover-groups/{group['id']}", json={"priority_order": [ids[first], ids[second]]})
            assert served_by(alpha, made["key"]) == first
            within_a_second(beta, made["key"], first)
        admin("PUT", f"/api/failover-groups/{group['id']}", json={"display_model": "renamed"})
        assert served_by(alpha, made["key"]) == "404"
        assert served_by(alpha, made["key"], "hotel/renamed") == "Beta"
        within_a_second(beta, made["key"], "404")
        within_a_second(beta, made["key"], "Beta", "hotel/renamed")
        admin("DELETE", f"/api/virtual-keys/{made['id']}")
        assert served_by(alpha, made["key"]) == "401"
        within_a_second(beta, made["key"], "401")


def test_an_edit_through_one_node_is_in_force_in_the_other_before_it_is_answered(pair: tuple[Product, Product, str]):
    alpha, beta, token = pair
    for number in range(20):
        here, there = (alpha, beta) if number % 2 else (beta, alpha)
        made = here.api("POST", "/api/virtual-keys", token=token, json={"name": f"at-once-{number}"}).json()
        auth = {"Authorization": f"Bearer {made['key']}"}
        assert there.http.get(f"{there.url}/v1/models", headers=auth).status_code == 200
        assert here.api("DELETE", f"/api/virtual-keys/{made['id']}", token=token).status_code in (200, 204)
        assert there.http.get(f"{there.url}/v1/models", headers=auth).status_code == 401


def test_one_node_of_all_sweeps_and_both_tell_of_it(pair: tuple[Product, Product, str]):
    """part of operations 16.2 row 6. Each sweep asks a provider once, however many nodes there are."""
    alpha, beta, token = pair
    heard = [Listener(node, token) for node in pair[:2]]
    # What other tests left here may answer nobody, and a sweep waits for it.
    for other in alpha.api("GET", "/api/providers", token=token).json():
        left_out = alpha.api("PUT", f"/api/providers/{other['id']}", token=token, json={"autodiscovery_enabled": False})
        assert left_out.status_code == 200
    with FakeProvider(models=["swept"]) as upstream:
        body = {"name": "Swept", "base_url": upstream.url, "provider_type": "custom"}
        made = alpha.api("POST", "/api/providers", token=token, json=body).json()
        settings = {"discovery_interval": "2s", "provider_recheck_interval": "0"}
        assert alpha.api("PUT", "/api/settings", token=token, json=settings).status_code == 200
        assert eventually(lambda: len(upstream.requests) >= 4, 30)
        settings["discovery_interval"] = "0"
        assert beta.api("PUT", "/api/settings", token=token, json=settings).status_code == 200
        times = [request.at for request in upstream.requests]
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert min(gaps) > 1, gaps
        assert eventually(lambda: all(len(one.of("discovery.complete")) >= 3 for one in heard), 10)
        assert alpha.api("DELETE", f"/api/providers/{made['id']}", token=token).status_code == 204
        first, second = ([event["id"] for event in one.of("discovery.complete")] for one in heard)
        assert first[:3] == second[:3]
