"""The door of /metrics at the application, and what workers leave each other in their directory."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from failover import windows
from failover.window import Learning
from failover.windows import Windows
from modelhotel.core import metrics
from modelhotel.core.clock import ManualClock
from modelhotel.core.environment import read
from modelhotel.ops import gauges, scrape, workers
from modelhotel.ops.metrics import Metrics
from providers import cache
from providers.cache import Catalogue, ProviderRow
from providers.kinds import registry
from tests.shell.cast import *  # noqa: F403
from tests.shell.cast import signed_in
from tests.shell.test_lifecycle_front import Call, ask
from tests.wire.product import ROOT

TOKEN = "scrape-" * 4


def door(token: str = "") -> Metrics:
    return Metrics(read({**settings.MH.raw, "METRICS_TOKEN": token}), lambda scope: ((b"x-safe", b"1"),))


def bearer(token: str) -> Call:
    return Call("/metrics", headers=[(b"authorization", f"Bearer {token}".encode())])


@pytest.mark.django_db(transaction=True)
async def test_a_viewer_may_not_scrape_and_an_administrator_may(admin_user, viewer_user, stranger_user):
    for user, status in ((admin_user, 200), (viewer_user, 403), (stranger_user, 403)):
        caller = await sync_to_async(signed_in)(user)
        cookie = f"mh_session={caller.client.cookies['mh_session'].value}".encode()
        call = await ask(door(), Call("/metrics", headers=[(b"cookie", cookie)]))
        assert call.status == status
        assert call.header(b"x-safe") == b"1"
        if status == 403:
            assert call.text == b"insufficient permissions"


async def test_with_a_token_a_scrape_needs_no_database():
    """None is allowed in this test, so that the quota figures are missing."""
    assert (await ask(door(TOKEN), bearer(TOKEN))).status == 200
    assert (await ask(door(TOKEN), bearer("x"))).status == 401


async def test_a_scrape_that_fails_is_one_line_and_a_500(monkeypatch, caplog):
    def broken() -> bytes:
        raise OSError("no space left on device")

    monkeypatch.setattr(scrape, "render", broken)
    call = await ask(door(TOKEN), bearer(TOKEN))
    assert (call.status, call.text) == (500, b"internal error")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_a_quota_reserve_is_a_gauge_where_there_is_one(monkeypatch):
    rows = [
        ProviderRow(name, name, name, "http://p", registry.get("custom"), True, None, 1.0, False, **more)
        for name, more in (("P", {"quota_reserve_percent": 20}), ("Q", {}))
    ]
    monkeypatch.setattr(cache.SNAPSHOT, "current", Catalogue({row.id: row for row in rows}))
    assert gauges.read()["modelhotel_provider_quota_reserve_ratio"] == {("P", "P"): 0.2}


def test_the_learned_limit_is_a_gauge_and_that_of_the_node_a_sum(tmp_path, monkeypatch):
    """A limit of 0 is none, whichever worker says so."""
    row = ProviderRow("id", "P", "P", "http://p", registry.get("custom"), True, None, 1.0, False)
    monkeypatch.setattr(cache.SNAPSHOT, "current", Catalogue({"id": row}))
    kept = Windows(ManualClock(), Learning)
    monkeypatch.setattr(windows, "_windows", kept)
    assert gauges.read()["modelhotel_provider_inflight_limit"] == {("id", "P"): 0}
    assert scrape.inflight_limits() == {}
    kept.take(row, True)
    kept.cut("id", 1.0)
    assert gauges.read()["modelhotel_provider_inflight_limit"] == {("id", "P"): 1}
    for pid, limit in ((11, 3.0), (12, 0.0)):
        (tmp_path / f"live-{pid}.json").write_text(
            json.dumps({"modelhotel_provider_inflight_limit": [[["id", "P"], limit], [["other", "O"], limit]]})
        )
    monkeypatch.setenv(metrics.DIRECTORY, str(tmp_path))
    assert scrape.inflight_limits() == {"id": 4, "other": 3}


class TestDirectory:
    def test_a_start_finds_it_empty_whatever_the_node_is_called(self, tmp_path: Path):
        first = workers.prepare(tmp_path, "../a b")
        (first / "counter_1.db").write_bytes(b"left behind")
        assert workers.prepare(tmp_path, "../a b") == first
        assert list(first.iterdir()) == []
        assert first.parent == tmp_path / "metrics"
        assert first != workers.prepare(tmp_path, "another")
        workers.clear(first)
        assert not first.exists()

    def test_gauges_of_the_others_are_read_unless_they_are_old(self, tmp_path: Path):
        mine = {"modelhotel_requests_inflight": {(): 1.0}}
        workers.publish(tmp_path, mine)
        for pid, value in ((11, 2.0), (12, 4.0)):
            (tmp_path / f"live-{pid}.json").write_text(
                json.dumps({"modelhotel_provider_inflight": [[["id", "P"], value]]})
            )
        old = (tmp_path / "live-12.json").stat().st_mtime - workers.STALE - 1
        os.utime(tmp_path / "live-12.json", (old, old))
        assert workers.others(tmp_path) == {11: {"modelhotel_provider_inflight": {("id", "P"): 2.0}}}

    def test_what_the_dead_have_counted_is_kept_once(self, tmp_path: Path):
        """The second one has the process id of the first."""
        for count in (3, 4):
            pid = counted_by_a_worker(tmp_path, count)
            (tmp_path / f"live-{pid}.json").write_text("{}")
            renamed(tmp_path, pid, 4711)
            workers.bury(tmp_path, 4711)
            workers.bury(tmp_path, 4711)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["counter_buried.db", "histogram_buried.db", "lock"]
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(tmp_path))
        labels = {"provider": "P", "model": "hotel/x"}
        assert registry.get_sample_value("modelhotel_tokens_total", {**labels, "kind": "prompt"}) == 7
        assert registry.get_sample_value("modelhotel_request_duration_seconds_count", labels) == 7
        assert registry.get_sample_value("modelhotel_request_duration_seconds_bucket", {**labels, "le": "0.5"}) == 7
        assert registry.get_sample_value("modelhotel_request_duration_seconds_bucket", {**labels, "le": "0.1"}) == 0
        assert registry.get_sample_value("modelhotel_request_duration_seconds_sum", labels) == pytest.approx(7 * 0.3)


def counted_by_a_worker(directory: Path, count: int) -> int:
    """A process that counts and is gone; its id."""
    program = f"""
import os
from modelhotel.core import metrics
for _ in range({count}):
    metrics.of(metrics.TOKENS, "P", "hotel/x", "prompt").inc()
    metrics.timings_of(metrics.DURATION, "P", "hotel/x").observe(0.3)
print(os.getpid(), flush=True)
os._exit(9)
"""
    environ = {**os.environ, metrics.DIRECTORY: str(directory), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, timeout=20)
    return int(done.stdout)


def renamed(directory: Path, pid: int, to: int) -> None:
    for path in directory.glob(f"*{pid}.*"):
        path.rename(path.with_name(path.name.replace(str(pid), str(to))))


@pytest.mark.parametrize(("merge", "found"), [("sum", {("a",): 3.0, ("b",): 5.0}), ("max", {("a",): 2.0, ("b",): 5.0})])
def test_gauges_of_several_workers_are_those_of_the_node(merge, found):
    gauge = metrics.Gauge("x", "", ("label",), merge)
    assert gauges.merge(gauge, [{("a",): 1.0}, {}, {("a",): 2.0, ("b",): 5.0}]) == found


def test_the_processor_time_of_the_dead_stays_in_the_sum():
    before = scrape._time_of_the_dead(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(range(6_000_000))"], check=True, timeout=20)
    spent = scrape._time_of_the_dead(os.getpid()) - before
    assert spent > 0
    families = {family.name: family for family in scrape.Processes((), os.getpid()).collect()}
    assert families["process_cpu_seconds"].type == "counter"
    assert families["process_cpu_seconds"].samples[0].value >= before + spent
    assert families["process_open_fds"].samples[0].value > 0
