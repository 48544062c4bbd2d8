"""Several workers of one node: one scrape is the sum of all, whoever answers and whoever has died."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.server import FakeProvider, Hold, answer, reply, status
from tests.upstream.spoken import PROMPT
from tests.wire.house import GROUP, MODEL, House, house
from tests.wire.product import REDIS, eventually, fresh_postgres
from tests.wire.scraping import Numbers, numbers

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.redis, pytest.mark.timeout(90)]

WORKERS = 4
REQUESTS = "modelhotel_requests_total"
TOKEN = "scrape-" * 5
#: Asked for directly: circuits have no say, and the other test's are Alpha's.
BETA = {"provider": "Beta", "model": f"Beta/{MODEL}"}


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with ExitStack() as stack:
        env = {
            "DATABASE_URL": stack.enter_context(fresh_postgres()),
            "REDIS_URL": REDIS,
            "MASTER_KEY": "m" * 40,
            "ADMIN_TOKEN": "t0ken",
            "METRICS_TOKEN": TOKEN,
            "NODE_NAME": "a/node of several",
        }
        args = ("--workers", str(WORKERS))
        found = stack.enter_context(house(tmp_path_factory.mktemp("several"), env, args=args))
        assert eventually(lambda: found.product.output.count("lifecycle: ready") == WORKERS, 30)
        yield found


def call(home: House, method: str, path: str, token: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    """(status, text); over a connection of its own, which meets any worker."""
    connection = HTTPConnection(home.product.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def scrape(home: House) -> Numbers:
    code, text = call(home, "GET", "/metrics", TOKEN)
    assert code == 200, text
    return numbers(text)


def ask(home: House, model: str = GROUP) -> int:
    body = {"model": model, "messages": [{"role": "user", "content": PROMPT}]}
    return call(home, "POST", "/v1/chat/completions", home.key, body)[0]


def workers(home: House) -> list[int]:
    pid = home.product.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def served(home: House) -> float:
    return scrape(home).of(REQUESTS, **BETA, status_class="2xx", error_kind="")


def test_every_scrape_is_the_sum_of_all_workers(several: House):
    """operations 79."""
    before = served(several)
    assert [ask(several, BETA["model"]) for _ in range(100)] == [200] * 100
    assert eventually(lambda: served(several) == before + 100)
    for _ in range(12):
        found = scrape(several)
        assert found.of(REQUESTS, **BETA, status_class="2xx", error_kind="") == before + 100
        assert found.of("modelhotel_request_duration_seconds_count", **BETA) == before + 100
        assert found.of("modelhotel_request_duration_seconds_bucket", **BETA, le="+Inf") == before + 100


def test_what_runs_in_all_workers_is_added_up_and_circuits_are_not(several: House):
    labels = {"provider": "Alpha", "provider_id": several.ids["Alpha"]}
    hold = Hold(answer("at last"))
    several.a.script(hold)
    with ThreadPoolExecutor(8) as clients:
        asked = [clients.submit(ask, several) for _ in range(8)]
        try:
            several.a.wait_calls(8)
            for name in ("modelhotel_requests_inflight", "modelhotel_provider_inflight"):
                wanted = labels if "provider" in name else {}
                assert eventually(lambda name=name, wanted=wanted: scrape(several).of(name, **wanted) == 8), name
        finally:
            hold.release()
        assert [one.result() for one in asked] == [200] * 8
    assert eventually(lambda: scrape(several).of("modelhotel_requests_inflight") == 0)
    several.a.script(status(503))
    while not eventually(lambda: scrape(several).of("modelhotel_circuit_breaker_state", **labels) == 2, 0.2):
        assert ask(several, f"Alpha/{MODEL}") == 503
    assert eventually(
        lambda: {scrape(several).of("modelhotel_circuit_breaker_state", **labels) for _ in range(8)} == {2}
    )


def test_no_counter_runs_backwards_when_a_worker_dies(several: House):
    before = served(several)
    assert [ask(several, BETA["model"]) for _ in range(40)] == [200] * 40
    assert eventually(lambda: served(several) == before + 40)
    found = before + 40
    victim = workers(several)[0]
    cpu = scrape(several).of("process_cpu_seconds_total")
    os.kill(victim, signal.SIGKILL)
    assert eventually(lambda: len(workers(several)) == WORKERS and victim not in workers(several), 30)
    assert eventually(lambda: several.product.output.count("lifecycle: ready") == WORKERS + 1, 30)
    metrics = several.product.data_dir / "metrics" / "a%2Fnode%20of%20several"
    assert not list(metrics.glob(f"*{victim}*"))
    assert {path.name for path in metrics.glob("*buried*")} == {"counter_buried.db", "histogram_buried.db"}
    for _ in range(8):
        now = scrape(several)
        assert now.of(REQUESTS, **BETA, status_class="2xx", error_kind="") == found
        assert now.of("modelhotel_request_duration_seconds_count", **BETA) == found
        assert now.of("process_cpu_seconds_total") >= cpu
    assert [ask(several, BETA["model"]) for _ in range(20)] == [200] * 20
    assert eventually(lambda: served(several) == found + 20)


def test_the_process_is_the_node_with_all_its_workers(several: House):
    found = scrape(several)
    assert found.of("process_resident_memory_bytes") > WORKERS * 30e6
    assert found.series("python_info")


def test_a_quota_is_the_same_whoever_answers_and_its_circuit_is_everybodys(several: House):
    """The reading is the database's: shown once, not once per worker. One worker judges it for all."""
    counter = {"limit": "100", "resetTime": "2999-01-01T00:00:00Z"}
    said = {"usage": {**counter, "used": "80", "remaining": "20"}}

    def admin(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        code, text = call(several, method, path, "t0ken", body)
        assert code < 300, (path, code, text)
        found: dict[str, Any] = json.loads(text or "{}")
        return found

    def dark() -> set[bool]:
        """What the workers say of the provider; each of sixteen answers comes from any of them."""
        found = set()
        for _ in range(16):
            rows = admin("GET", "/api/failover-groups/circuit-breaker-status?detail=1").get("providers", [])
            found.add(any(row["provider_id"] == made and row["provider_open"] for row in rows))
        return found

    with FakeProvider() as kimi:
        kimi.route("GET", "/v1/usages", lambda wire: reply(200, said)(wire))
        body = {"name": "Kimi", "provider_type": "kimi-code", "base_url": kimi.url, "api_key": "sk-kimi-0123456789"}
        made = admin("POST", "/api/providers", body)["id"]
        labels = {"provider": "Kimi", "provider_id": made, "window": "cycle"}
        ratio = "modelhotel_provider_quota_used_ratio"
        admin("POST", "/api/providers/refresh-quotas")
        assert {scrape(several).of(ratio, **labels) for _ in range(8)} == {0.8}
        assert dark() == {False}
        said["usage"] = {**counter, "used": "100"}
        admin("POST", "/api/providers/refresh-quotas")
        assert eventually(lambda: dark() == {True})
        assert {scrape(several).of(ratio, **labels) for _ in range(8)} == {1.0}
        said["usage"] = {**counter, "used": "1", "remaining": "99"}
        admin("POST", "/api/providers/refresh-quotas")
        assert eventually(lambda: dark() == {False})
        admin("DELETE", f"/api/providers/{made}")
        assert not scrape(several).series(ratio)
