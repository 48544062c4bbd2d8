"""The fast recheck, stale inventories, and how a provider is said to be."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from failover import table
from failover.tally import TALLY
from modelhotel.core import events
from modelhotel.ops import gauges
from providers import cache, ports
from providers.discovery import recheck, scan
from providers.discovery.recheck import Rechecker
from providers.models import DiscoveryChange, Model, Provider
from tests.providers.conftest import Api, Ports
from tests.providers.sweeping import House, beside, listing, of_type, provider_row, streaks
from tests.upstream.server import FakeProvider, reply, silence, status

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
DOWN = status(401)


@pytest.fixture
def rechecker() -> Rechecker:
    return Rechecker()


def asked(*upstreams: FakeProvider) -> list[int]:
    counts = [len(upstream.requests) for upstream in upstreams]
    for upstream in upstreams:
        upstream.forget()
    return counts


def stale() -> set[str]:
    return set(Provider.objects.filter(inventory_stale=True).values_list("name", flat=True))


def bare(name: str) -> list[str]:
    """Providers of a bare name in the order to be asked."""
    return [entry.provider.name for entry in table.SNAPSHOT.current.bare(name)]


def health_of(api: Api, name: str = "P") -> str:
    return next(row["health"] for row in api.get("/providers").json() if row["name"] == name)


# ---------------------------------------------------------------- whom it asks, and what it writes


def test_only_those_are_asked_whose_latest_refresh_failed(house: House, rechecker: Rechecker):
    """providers 61. Healthy providers are never rechecked (an interval of 0: test_discovery_watch.py)."""
    names = ("well", "listing", "access", "stale", "off", "manual", "never")
    with FakeProvider(models=["m"]) as shared:
        upstreams = {name: FakeProvider(models=["m"]) for name in names[:-1]}
        for upstream in upstreams.values():
            upstream.__enter__()
        try:
            for name, upstream in upstreams.items():
                house.provider(upstream, name=name)
            house.api.provider(shared, name="never")
            rows = Provider.objects
            rows.filter(name__in=("listing", "off", "manual")).update(last_model_fetch_error="HTTP 500")
            rows.filter(name="access").update(last_availability_error="HTTP 401")
            rows.filter(name="stale").update(inventory_stale=True)
            rows.filter(name="off").update(enabled=False)
            rows.filter(name="manual").update(autodiscovery_enabled=False)
            asked(*upstreams.values())
            rechecker.run()
            assert dict(zip(upstreams, asked(*upstreams.values()), strict=True)) == {
                "well": 0,
                "listing": 1,
                "access": 1,
                "stale": 1,
                "off": 0,
                "manual": 0,
            }
            rechecker.run()
            assert asked(*upstreams.values(), shared) == [0] * 7, "they are well again"
        finally:
            for upstream in upstreams.values():
                upstream.__exit__()


def test_a_recovery_is_told_once_and_written_like_a_manual_scan(house: House, rechecker: Rechecker, behind: Ports):
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.route("GET", "/v1/models", DOWN)
        house.sweep()
        before = provider_row()
        start = len(house.told)
        for _ in range(3):
            rechecker.run()
        assert house.told[start:] == [], "failures are not repeated"
        after = provider_row()
        assert after.last_model_fetch_at > before.last_model_fetch_at  # type: ignore[operator]
        upstream.route("GET", "/v1/models", listing("b", "c"))
        behind.calls.clear()
        rechecker.run()
        rechecker.run()
    told = house.told[start:]
    assert of_type(told, "discovery.provider_fetched") == [{"provider": "P", "count": 2}]
    assert {event.type for event in told} == {"discovery.provider_fetched", "config.changed"}
    assert streaks() == {"a": (True, 0), "b": (True, 0), "c": (True, 0)}, "no miss is counted"
    assert not DiscoveryChange.objects.exists()
    assert behind.named("stamped") == [["b", "c"]]
    assert provider_row().last_discovered_at > before.last_discovered_at  # type: ignore[operator]


def test_a_failing_recheck_leaves_the_last_discovery_where_it_was(house: House, rechecker: Rechecker):
    """providers 62"""
    with FakeProvider(models=["m"]) as upstream:
        house.provider(upstream)
        for broken in (DOWN, listing()):
            upstream.route("GET", "/v1/models", broken)
            house.sweep()
            before = provider_row()
            rechecker.run()
            after = provider_row()
            assert after.last_discovered_at == before.last_discovered_at
            assert after.last_model_fetch_at > before.last_model_fetch_at  # type: ignore[operator]
    assert streaks() == {"m": (True, 0)}


def test_a_provider_without_models_is_rechecked_too(house: House, rechecker: Rechecker):
    """circuit-breaker 74a"""
    with FakeProvider(models=["m"]) as upstream, FakeProvider(models=["m"]) as well:
        house.provider(well, name="well")
        upstream.route("GET", "/v1/models", DOWN)
        house.api.provider(upstream)
        house.sweep()
        for _ in range(2):
            asked(upstream)
            rechecker.run()
            assert asked(upstream) == [1]
            assert (health_of(house.api), stale()) == ("unhealthy", set())
        upstream.route("GET", "/v1/models", listing("m"))
        rechecker.run()
    assert health_of(house.api) == "healthy"


def test_whoever_is_down_was_last_checked_when_it_was_last_asked(house: House, rechecker: Rechecker):
    """circuit-breaker 76a. In the API. On the card: test_a_card_says_when_its_provider_was_last_checked."""
    ten = datetime(2026, 1, 1, 10, tzinfo=UTC)
    with FakeProvider(models=["m"]) as upstream:
        made = house.provider(upstream)
        Provider.objects.update(last_model_fetch_at=ten, last_availability_at=ten + timedelta(minutes=5))
        lines = house.api.get("/providers/status").json()["providers"]
        shown = [*lines, *house.api.get("/providers").json(), house.api.get(f"/providers/{made['id']}").json()]
        assert [one["last_checked_at"] for one in shown] == ["2026-01-01T10:05:00Z"] * 3
        upstream.route("GET", "/v1/models", DOWN)
        house.sweep()
        for _ in range(2):
            before = house.api.get(f"/providers/{made['id']}").json()["last_checked_at"]
            began = datetime.now(UTC).replace(microsecond=0)
            rechecker.run()
            after = house.api.get(f"/providers/{made['id']}").json()["last_checked_at"]
            assert before <= after and datetime.fromisoformat(after) >= began
        assert house.api.get(f"/providers/{made['id']}").json()["health"] == "degraded"


def test_a_provider_that_hangs_delays_no_other(house: House, rechecker: Rechecker, monkeypatch: pytest.MonkeyPatch):
    """part of providers 61. The others are written while it hangs."""
    gate = threading.Event()

    async def held(wire: Any) -> None:
        while not gate.is_set():
            await scan.asyncio.sleep(0.01)
        await DOWN(wire)

    with FakeProvider(models=["m"]) as hanging, FakeProvider(models=["m"]) as back:
        for number in range(12):
            house.provider(hanging, name=f"h{number}")
        house.provider(back, name="back")
        Provider.objects.update(last_model_fetch_error="HTTP 500")
        hanging.route("GET", "/v1/models", held)
        landed = threading.Event()
        write = scan.SCANNER.write
        monkeypatch.setattr(
            scan.SCANNER, "write", lambda row, *args: (write(row, *args), row.name == "back" and landed.set())[0]
        )
        round_ = beside(rechecker.run)
        try:
            assert landed.wait(10) and round_.is_alive()
        finally:
            gate.set()
            round_.join(10)
    assert provider_row("back").last_model_fetch_error == ""


def test_a_recheck_has_thirty_seconds(house: House, rechecker: Rechecker, monkeypatch: pytest.MonkeyPatch):
    assert recheck.RECHECK_SECONDS == 30
    monkeypatch.setattr(recheck, "RECHECK_SECONDS", 0.2)
    with FakeProvider(models=["m"]) as upstream:
        house.provider(upstream)
        Provider.objects.update(last_model_fetch_error="HTTP 500")
        upstream.route("GET", "/v1/models", silence())
        rechecker.run()
    assert provider_row().last_model_fetch_error == "the scan took longer than 0 s"


def test_who_is_being_scanned_already_is_left_alone(house: House, rechecker: Rechecker):
    with FakeProvider(models=["m"]) as upstream:
        made = house.provider(upstream)
        Provider.objects.update(last_model_fetch_error="HTTP 500")
        asked(upstream)
        scan.SCANNER.flights.claim(made["id"])
        rechecker.run()
        assert asked(upstream) == [0]
        with scan.SCANNER.flights.landing(made["id"]) as landing:
            landing.result = scan.cut_off(provider_row())
        rechecker.run()
        assert asked(upstream) == [1]


def test_a_recheck_that_is_stopped_says_nothing_about_anybody(house: House, rechecker: Rechecker):
    with FakeProvider(models=["m"]) as upstream:
        house.provider(upstream)
        Provider.objects.update(last_model_fetch_error="HTTP 500")
        before = list(Provider.objects.values())
        upstream.route("GET", "/v1/models", silence())
        asked(upstream)
        round_ = beside(rechecker.run)
        upstream.wait_for(lambda: len(upstream.requests) == 1)
        rechecker.stop()
        round_.join(10)
        assert not round_.is_alive()
        rechecker.run()
        assert asked(upstream) == [1], "for good"
    assert list(Provider.objects.values()) == before and len(scan.SCANNER.flights) == 0


# ---------------------------------------------------------------- stale inventories


def test_who_fails_beside_a_success_is_stale_and_fresh_again_at_once(
    house: House, rechecker: Rechecker, told: list[events.Event]
):
    """part of providers 57, providers 59. A sweep and a recheck."""
    with FakeProvider(models=["m"]) as a, FakeProvider(models=["m"]) as b:
        for name, upstream in (("A", a), ("B", b)):
            house.provider(upstream, name=name)
        a.route("GET", "/v1/models", DOWN)
        house.sweep()
        assert (stale(), health_of(house.api, "A"), health_of(house.api, "B")) == ({"A"}, "degraded", "healthy")
        assert Model.objects.filter(provider__name="A", enabled=True).exists()
        assert bare("m") == ["B", "A"]
        rechecker.run()
        assert stale() == {"A"} and provider_row("A").last_model_fetch_error
        a.route("GET", "/v1/models", listing("m"))
        start = len(told)
        rechecker.run()
        assert (stale(), bare("m"), health_of(house.api, "A")) == (set(), ["A", "B"], "healthy")
        rechecker.run()
    assert provider_row("A").last_model_fetch_error == ""
    assert of_type(told[start:], "discovery.provider_fetched") == [{"provider": "A", "count": 1}]


def test_an_outage_of_all_marks_nobody_until_the_first_is_back(house: House, rechecker: Rechecker):
    """providers 58, circuit-breaker 75"""
    with FakeProvider(models=["m"]) as a, FakeProvider(models=["m"]) as b:
        for name, upstream in (("A", a), ("B", b)):
            house.provider(upstream, name=name)
            upstream.route("GET", "/v1/models", DOWN)
        house.sweep()
        assert (stale(), bare("m")) == (set(), ["A", "B"])
        rechecker.run()
        assert stale() == set(), "nobody is healthy"
        b.route("GET", "/v1/models", listing("m"))
        rechecker.run()
        assert (stale(), bare("m")) == ({"A"}, ["B", "A"]), "in the very round in which B came back"


def test_the_only_provider_is_never_stale(house: House, rechecker: Rechecker):
    """part of providers 60. Sweeps and rechecks."""
    with FakeProvider(models=["m"]) as upstream:
        house.provider(upstream)
        upstream.route("GET", "/v1/models", DOWN)
        for _ in range(2):
            house.sweep()
            rechecker.run()
        assert (stale(), health_of(house.api)) == (set(), "degraded")
        Model.objects.all().delete()
        assert health_of(house.api) == "unhealthy"


def test_a_refused_key_is_rechecked_and_its_inventory_does_not_flicker(
    house: House, rechecker: Rechecker, caplog: pytest.LogCaptureFixture
):
    """circuit-breaker 76"""
    model = {"id": "v/m", "architecture": {"modality": "text->text"}}
    with FakeProvider(models=["m"]) as other, FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", reply(200, {"data": [model]}))
        upstream.route("GET", "/v1/key", reply(200, {"data": {}}))
        house.provider(other, name="other")
        house.provider(upstream, provider_type="openrouter", api_key="sk-or-12345")
        upstream.route("GET", "/v1/key", status(401, {"error": "no such user"}))
        house.sweep()
        before = provider_row()
        assert (stale(), health_of(house.api)) == ({"P"}, "degraded")
        start = len(house.told)
        version = cache.SNAPSHOT._versions["providers"]
        for _ in range(3):
            asked(upstream)
            rechecker.run()
            assert asked(upstream) == [2] and stale() == {"P"}
        assert house.told[start:] == [] and cache.SNAPSHOT._versions["providers"] == version
        lines = [record.getMessage() for record in caplog.records if "inventory" in record.getMessage()]
        assert lines == ["providers: inventory marked stale"]
        assert provider_row().last_discovered_at == before.last_discovered_at
        other.route("GET", "/v1/models", DOWN)
        house.sweep()
        assert stale() == set(), "it was listed a moment ago, and nobody else is healthy"
        upstream.route("GET", "/v1/key", reply(200, {"data": {}}))
        rechecker.run()
    assert health_of(house.api) == "healthy" and stale() == {"other"}


# ---------------------------------------------------------------- how a provider is


def test_the_status_of_all_providers(house: House, behind: Ports):
    api = house.api
    empty = {"total": 0, "healthy": 0, "degraded": 0, "unhealthy": 0, "overall_status": "degraded"}
    assert api.get("/providers/status").json() == {"summary": empty, "providers": []}
    with FakeProvider(models=["a", "b"]) as well, FakeProvider(models=["a"]) as bad:
        made = {name: house.provider(well, name=name) for name in ("open", "probing", "well", "off")}
        summary = api.get("/providers/status").json()["summary"]
        assert summary == {"total": 4, "healthy": 4, "degraded": 0, "unhealthy": 0, "overall_status": "healthy"}
        house.provider(bad, name="failing")
        bad.route("GET", "/v1/models", status(403))
        api.provider(bad, name="empty")
        house.sweep()
    api.put(f"/providers/{made['off']['id']}", {"enabled": False})
    behind.circuits = {
        made["open"]["id"]: ports.CircuitHealth(provider_open=True, any_open=True),
        made["probing"]["id"]: ports.CircuitHealth(half_open=True),
    }
    answer = api.get("/providers/status").json()
    assert answer["summary"] == {
        "total": 5,
        "healthy": 1,
        "degraded": 2,
        "unhealthy": 2,
        "overall_status": "degraded",
    }
    lines = {line["name"]: line for line in answer["providers"]}
    assert {name: (line["status"], line["status_reason"]) for name, line in lines.items()} == {
        "open": ("circuit_open", "the circuit breaker skips this provider"),
        "probing": ("recovering", "a circuit is being probed"),
        "well": ("healthy", ""),
        "failing": ("degraded", "latest refresh failed, previous models still available"),
        "empty": ("unhealthy", "latest refresh failed, no models known"),
    }
    assert set(lines["well"]) == set(lines["failing"]) - {"last_error"}
    failing, shown = lines["failing"], {row["name"]: row for row in api.get("/providers").json()}
    assert failing["last_error"] == shown["failing"]["last_model_fetch_error"] != ""
    assert (failing["type"], failing["model_count"], failing["id"]) == ("custom", 1, shown["failing"]["id"])
    assert failing["last_checked_at"] == shown["failing"]["last_checked_at"]
    assert failing["last_success_at"] == shown["failing"]["last_discovery_success_at"]
    assert lines["empty"]["last_success_at"] is None
    for row in Provider.objects.exclude(name="empty"):
        api.put(f"/providers/{row.pk}", {"enabled": False})
    only = api.get("/providers/status").json()["summary"]
    assert (only["total"], only["overall_status"]) == (1, "unhealthy")


def test_the_health_is_a_metric(house: House):
    with FakeProvider(models=["a"]) as upstream, FakeProvider(models=["a"]) as bad:
        made = house.provider(upstream)
        house.provider(bad, name="bad")
        bad.route("GET", "/v1/models", DOWN)
        off = house.provider(upstream, name="off")
        house.api.put(f"/providers/{off['id']}", {"enabled": False})
        fresh = house.api.provider(bad, name="fresh")

        def values() -> dict[str, float]:
            return {name: value for (_, name), value in gauges.read()["modelhotel_provider_health"].items()}

        assert values() == {"P": 0, "bad": 0, "fresh": 0}
        house.sweep()
        assert values() == {"P": 0, "bad": 2, "fresh": 3}
        assert (fresh["id"], "fresh") in gauges.read()["modelhotel_provider_health"]
        for _ in range(3):
            TALLY.note(made["id"], "a", True)
        assert values() == {"P": 2, "bad": 2, "fresh": 3}
