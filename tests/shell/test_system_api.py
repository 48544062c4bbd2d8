"""``/api/system`` and ``/api/version/latest``."""

import time
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from modelhotel.core import clock, version
from modelhotel.ops import machine, releases, system_api
from requestlogs import rollup, stats_api
from requestlogs.models import RequestLog
from tests.shell.cast import (  # noqa: F401
    admin,
    clean_accounts,
    nobody,
    stranger,
    stranger_user,
    token,
    viewer,
    viewer_user,
)
from tests.upstream.server import reply

pytestmark = pytest.mark.django_db(transaction=True)
APP = {
    "memory_current_bytes", "memory_limit_bytes", "in_container", "uptime_seconds", "cpu_percent", "requests_today",
    "net_rx_bytes_sec", "net_tx_bytes_sec", "disk_read_bytes_sec", "disk_write_bytes_sec", "procs", "version",
    "instance_id", "node",
}  # fmt: skip
DB = {"size_mb", "connections", "cache_hit_ratio", "tx_per_sec", "dead_tuples", "lock_waits"}


@pytest.fixture(autouse=True)
def _no_old_answers():
    rollup.settle()
    for forget in (system_api.forget_cache, stats_api.forget_cache):
        forget()
    yield
    for forget in (system_api.forget_cache, stats_api.forget_cache):
        forget()


def test_the_system_is_shown_to_operators(admin, viewer, stranger, nobody):  # noqa: F811
    found = viewer.get("/api/system").json()
    assert (set(found), set(found["app"]), set(found["db"])) == ({"app", "db", "docker"}, APP, DB)
    assert found["app"]["memory_current_bytes"] > 10_000_000 and found["app"]["version"] == version.VERSION
    assert found["db"]["size_mb"] > 0 and found["docker"] is None
    assert admin.get("/api/system").json()["app"]["uptime_seconds"] >= 0
    assert stranger.get("/api/system").status_code == 403
    assert nobody.get("/api/system").status_code == 401


def test_requests_of_the_callers_day_are_counted(admin):  # noqa: F811
    now = clock.SYSTEM.now()
    for age in (timedelta(minutes=5), timedelta(hours=30), timedelta(hours=50)):
        values = {"request_hash": "a" * 16, "state": "completed", "endpoint_type": "chat", "model_id": "m"}
        RequestLog.objects.create(id=uuid.uuid4(), created_at=now - age, **values)
    since = (now - timedelta(hours=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert admin.get(f"/api/system?since={since}").json()["app"]["requests_today"] == 2
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    today = sum(1 for age in (5, 1800, 3000) if now - timedelta(minutes=age) >= midnight)
    for query in ("", "?since=yesterday", "?since=9999-99"):
        assert admin.get(f"/api/system{query}").json()["app"]["requests_today"] == today


def test_the_process_began_before_this_module_was_read(monkeypatch, tmp_path):
    now = time.monotonic()
    assert now - 24 * 3600 < machine._began() < now - 0.05
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    assert machine._began() >= now


def test_what_the_machine_does_not_tell_is_null(admin, monkeypatch, tmp_path):  # noqa: F811
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(system_api, "_process", machine.Process())
    answer = admin.get("/api/system")
    app = answer.json()["app"]
    nulls = {name for name in APP if app[name] is None} - {"instance_id", "cpu_percent"}
    assert answer.status_code == 200
    assert nulls == {name for name in APP if name.startswith(("memory", "net_", "disk_"))}


def test_rates_are_differences_per_second():
    first = machine.Sample(10.0, 1.0, (100, 200), (5, 5))
    second = machine.Sample(14.0, 3.0, (500, 200), (1, 45))
    assert machine.rates(first, second) == {
        "cpu_percent": 50.0,
        "net_rx_bytes_sec": 100.0,
        "net_tx_bytes_sec": 0.0,
        "disk_read_bytes_sec": 0.0,
        "disk_write_bytes_sec": 10.0,
    }
    assert set(machine.rates(first, first).values()) == {None}


def test_files_of_the_kernel_are_read_as_they_are(monkeypatch, tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(
        "Inter-|   Receive\n face |bytes packets\n"
        "    lo: 7 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
    )
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(machine, "_PROC", tmp_path)
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    assert (machine.network(), machine.memory_limit(), machine.disk()) == ((1000, 2000), None, None)
    (tmp_path / "memory.max").write_text("536870912\n")
    assert machine.memory_limit() == 536870912


@pytest.mark.parametrize(
    ("body", "latest", "url", "newer"),
    [
        (b'{"tag_name": "v99.1.0", "html_url": "https://x.test/r"}', "99.1.0", "https://x.test/r", True),
        (b'{"tag_name": "0.0.1", "html_url": "javascript:alert(1)"}', "0.0.1", None, False),
        (b'{"tag_name": "0.1.0-rc1"}', "0.1.0-rc1", None, False),
        (b'{"tag_name": "nightly"}', None, None, False),
        (b'{"tag_name": 5}', None, None, False),
        (b"[]", None, None, False),
        (b"<html>", None, None, False),
        (b"\xff\xfe", None, None, False),
    ],
)
def test_a_releases_page_is_read(body, latest, url, newer):
    assert releases.read(body, "0.1.0") == releases.Release("0.1.0", latest, url, newer)


def _address(settings, provider, host="127.0.0.1"):
    settings.MH = replace(settings.MH, releases_url=f"http://{host}:{provider.port}/latest")


def test_a_newer_release_is_asked_for_once(admin, stranger, nobody, settings, provider_a):  # noqa: F811
    provider_a.route("GET", "/latest", reply(200, {"tag_name": "v99.0", "html_url": "https://x.test/99"}))
    _address(settings, provider_a)
    told = {"current": version.VERSION, "latest": "99.0", "url": "https://x.test/99", "newer": True}
    assert admin.get("/api/version/latest").json() == told
    assert stranger.get("/api/version/latest").json() == told
    assert len(provider_a.requests) == 1
    assert nobody.get("/api/version/latest").status_code == 401


@pytest.mark.parametrize("host", ["", "no-such-host.invalid", "192.168.255.254", "[::1"])
def test_without_an_answer_nothing_is_said(admin, settings, provider_a, host):  # noqa: F811
    """Not asked, no such name, an address the egress guard refuses, no address at all."""
    if host:
        _address(settings, provider_a, host)
    answer = admin.get("/api/version/latest")
    nothing = {"current": version.VERSION, "latest": None, "url": None, "newer": False}
    assert (answer.status_code, answer.json()) == (200, nothing)


def test_an_answer_that_is_an_error_says_nothing(admin, settings, provider_a):  # noqa: F811
    provider_a.route("GET", "/latest", reply(500, {"tag_name": "v99.0"}))
    _address(settings, provider_a)
    assert admin.get("/api/version/latest").json()["latest"] is None
