"""One circuit breaker and one set of ceilings for all workers of a node, over a Redis that is sometimes not there."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
import redis

from tests.cluster.test_metrics import ask, call, scrape, workers
from tests.pace import slower
from tests.upstream.server import Hold, answer, status
from tests.wire.house import MODEL, House, house
from tests.wire.product import eventually, free_port, fresh_postgres

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.redis, pytest.mark.timeout(120)]

WORKERS = 4
OPENED = "circuit-breaker: model state=closed→open"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A Redis of our own, which can be stopped without anybody else noticing."""
    port, place = free_port(), tmp_path_factory.mktemp("redis")
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(place)]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"redis://127.0.0.1:{port}/0"
    with closing(redis.Redis.from_url(url)) as client:

        def answers() -> bool:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

        assert eventually(answers)
    try:
        yield process, url
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(5)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, store: tuple[subprocess.Popen[bytes], str]) -> Iterator[House]:
    with ExitStack() as stack:
        env = {
            "DATABASE_URL": stack.enter_context(fresh_postgres()),
            "REDIS_URL": store[1],
            "MASTER_KEY": "m" * 40,
            "ADMIN_TOKEN": "t0ken",
            "METRICS_TOKEN": "scrape-" * 5,
        }
        found = stack.enter_context(house(tmp_path_factory.mktemp("circuits"), env, args=("--workers", str(WORKERS))))
        assert eventually(lambda: found.product.output.count("lifecycle: ready") == WORKERS, 30)
        found.product.api("PUT", "/api/settings", json={"server_error_retry_enabled": "false"})
        yield found


@pytest.fixture(autouse=True)
def closed(several: House) -> None:
    """Every test begins with a healthy Alpha whose circuit is closed for every worker."""
    several.a.script(answer("from A"))
    code, _ = call(several, "POST", "/api/failover-groups/circuit-breaker/reset", "t0ken")
    assert code == 200
    assert eventually(lambda: everybody_says(several, (0, 0)))


def state(home: House) -> tuple[int, int]:
    """(open, half-open) as whichever worker answers says."""
    answer = home.product.api("GET", "/api/failover-groups/circuit-breaker-status").json()
    return answer["open"], answer["half_open"]


def said(home: House) -> int:
    return home.product.output.count(OPENED)


def everybody_says(home: House, wanted: tuple[int, int]) -> bool:
    return {state(home) for _ in range(3 * WORKERS)} == {wanted}


def fail_until_open(home: House) -> int:
    """Ask the group one after the other while its first member is dead; how often that one was asked."""
    home.a.script(status(503))
    before = len(home.a.calls)
    for _ in range(12):
        assert ask(home) == 200
        time.sleep(0.05)  # a charge is everywhere in a moment, and the next request is no late result then
    return len(home.a.calls) - before


def test_five_failures_in_all_open_it_once_for_every_worker(several: House):
    """circuit-breaker 78"""
    labels = {"provider": "Alpha", "model": MODEL, "cause": "upstream status 503"}
    opens = "modelhotel_circuit_breaker_opens_total"
    lines, before = said(several), scrape(several).of(opens, **labels)
    assert fail_until_open(several) == 5
    assert eventually(lambda: everybody_says(several, (1, 0)))
    assert said(several) == lines + 1
    assert eventually(lambda: scrape(several).of(opens, **labels) == before + 1)


def test_a_reset_by_one_worker_holds_for_all(several: House):
    """circuit-breaker 80"""
    fail_until_open(several)
    assert eventually(lambda: everybody_says(several, (1, 0)))
    several.a.script(answer("from A"))
    code, _ = call(several, "POST", f"/api/failover-groups/circuit-breaker/{several.ids['Alpha']}/reset", "t0ken")
    assert code == 200
    assert eventually(lambda: everybody_says(several, (0, 0)), slower())
    before = len(several.a.calls)
    assert ask(several) == 200 and len(several.a.calls) == before + 1


def test_without_redis_nobody_waits_and_afterwards_the_open_state_wins(
    several: House, store: tuple[subprocess.Popen[bytes], str]
):
    """circuit-breaker 79"""
    several.a.script(status(503))
    os.kill(store[0].pid, signal.SIGSTOP)
    try:
        for _ in range(WORKERS * 12):
            began = time.monotonic()
            assert ask(several) == 200
            assert time.monotonic() - began < slower()
        assert "shared store unreachable" in several.product.output
    finally:
        os.kill(store[0].pid, signal.SIGCONT)
    assert eventually(lambda: several.product.output.count("shared store back") >= 1)
    assert eventually(lambda: everybody_says(several, (1, 0)))


def test_a_worker_that_comes_later_knows_what_the_others_know(several: House):
    fail_until_open(several)
    assert eventually(lambda: everybody_says(several, (1, 0)))
    victim = workers(several)[0]
    ready = several.product.output.count("lifecycle: ready")
    os.kill(victim, signal.SIGKILL)
    assert eventually(lambda: several.product.output.count("lifecycle: ready") == ready + 1, 30)
    assert eventually(lambda: everybody_says(several, (1, 0)))


def test_a_ceiling_holds_for_all_workers_together(several: House):
    hold = Hold(answer("at last"))
    several.a.script(hold)
    several.admin("PUT", f"/api/providers/{several.ids['Alpha']}", json={"max_in_flight": 1})
    time.sleep(slower())  # an edit is in force in every worker within a second
    before = len(several.a.calls)
    try:
        with ThreadPoolExecutor(1) as first:
            asked = first.submit(ask, several)
            several.a.wait_calls(before + 1)
            assert [ask(several) for _ in range(3 * WORKERS)] == [200] * (3 * WORKERS)
            assert len(several.a.calls) == before + 1, "whichever worker was asked, Beta served"
            hold.release()
            assert asked.result() == 200
        several.a.script(answer("again"))
        assert eventually(lambda: ask(several) == 200 and len(several.a.calls) > before + 1)
    finally:
        hold.release()
        several.admin("PUT", f"/api/providers/{several.ids['Alpha']}", json={"max_in_flight": None})
