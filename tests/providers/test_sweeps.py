"""Sweeps: what they write, what they disbelieve, what they tell."""

import threading
from typing import Any

import pytest
from django.db import DatabaseError

from modelhotel.core import events
from providers import cache
from providers.discovery import claims, inventory, journal, prune, scan, store
from providers.discovery.recheck import Rechecker
from providers.models import DiscoveryChange, Model, Provider
from tests.providers.conftest import Api, Ports
from tests.providers.sweeping import House, beside, listing, numbered, of_type, provider_row, streaks, types
from tests.upstream.server import FakeProvider, html, raw, silence, status
from tests.wire.product import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


# ---------------------------------------------------------------- three proofs


def test_a_model_that_vanishes_is_switched_off_by_the_second_sweep(house: House, behind: Ports):
    """providers 29"""
    with FakeProvider(models=["a", "b"]) as upstream:
        made = house.provider(upstream)
        upstream.models = ["b"]
        upstream.forget()
        first = house.sweep()
        assert (len(upstream.requests), house.naps) == (3, [17.5, 47.5]), "two more listings confirm it"
        assert streaks() == {"a": (True, 1), "b": (True, 0)}
        assert types(first) == ["discovery.complete"] and not DiscoveryChange.objects.exists()
        behind.calls.clear()
        second = house.sweep()
        assert streaks() == {"a": (False, 0), "b": (True, 0)}
        assert not Model.objects.get(model_id="a").disabled_manually
    assert types(second) == ["discovery.models_disabled", "discovery.complete", "discovery.changes_pending"]
    assert of_type(second, "discovery.models_disabled") == [{"provider": "P", "count": 1}]
    entry = DiscoveryChange.objects.get()
    assert (entry.source, str(entry.provider_id)) == ("scheduled", made["id"])
    assert entry.diff == {"disabled": [{"model_id": "a", "reason": "not_listed"}]}
    assert [(name, ids) for name, ids in behind.calls if "stamped" in name] == [
        ("stamped", ["b"]),
        ("stamped revalidated", ["a"]),
        ("stamped revalidated", ["a", "b"]),
    ]
    assert not cache.SNAPSHOT.current.by_pair[made["id"], "a"].enabled, "the snapshot knows"


def test_what_a_confirmation_still_finds_is_no_miss(house: House):
    """part of providers 29. Absent in the first listing, present in the second."""
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.models = ["b"]
        house.sweep()
        assert streaks()["a"] == (True, 1)
        house.before_confirmation = [lambda: setattr(upstream, "models", ["a"])]
        upstream.forget()
        assert types(house.sweep()) == ["discovery.complete"]
        assert (len(upstream.requests), len(house.naps)) == (2, 1), "nothing is missing, so nothing more is asked"
    assert streaks() == {"a": (True, 0), "b": (True, 0)}


def test_a_manual_scan_between_two_sweeps_counts_as_a_sighting(house: House):
    """providers 30"""
    with FakeProvider(models=["a", "b"]) as upstream:
        made = house.provider(upstream)
        for models in (["b"], ["a", "b"], ["b"]):
            upstream.models = list(models)
            if "a" in models:
                house.api.post(f"/providers/{made['id']}/discover")
            else:
                house.sweep()
    assert streaks() == {"a": (True, 1), "b": (True, 0)}


def test_what_another_scan_sees_while_a_sweep_confirms_is_no_miss(house: House):
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.models = ["b"]
        house.sweep()

        def seen_elsewhere() -> None:
            beside(lambda: store.apply(provider_row(), [scan_of("a")], scan.SYSTEM.now())).join(10)

        house.before_confirmation = [seen_elsewhere]
        house.sweep()
    assert streaks() == {"a": (True, 0), "b": (True, 0)}


def scan_of(model_id: str) -> Any:
    from providers.kinds.base import Listed

    return Listed(model_id)


def test_a_confirmation_that_fails_proves_nothing(house: House, monkeypatch: pytest.MonkeyPatch, waits: list[float]):
    """providers 31"""
    asked: list[Any] = []
    monkeypatch.setattr(prune, "prune", lambda trusted, *args: asked.append(list(trusted)) or [])
    with FakeProvider(models=["a", "b"]) as upstream, FakeProvider(models=["x"]) as other:
        house.provider(upstream)
        well = house.provider(other, name="well")
        upstream.models = ["b"]
        house.sweep()
        assert streaks()["a"] == (True, 1)
        house.before_confirmation = [lambda: upstream.route("GET", "/v1/models", status(503))]
        upstream.forget()
        told = house.sweep()
        assert len(upstream.requests) == 1 + 3, "the confirmation had its retries"
    assert types(told) == ["discovery.complete"] and streaks()["a"] == (True, 1)
    assert asked[1] == [well["id"]], "nothing is pruned for a provider that was not trusted"
    assert provider_row().suspect_scans == 0


def test_a_mass_vanishing_is_not_believed_however_long_it_lasts(house: House):
    """providers 32. 12 of 20 for three sweeps, then a trusted one."""
    with FakeProvider(models=numbered(*range(20))) as upstream:
        made = house.provider(upstream)
        upstream.models = numbered(*range(12, 20))
        told = [house.sweep() for _ in range(3)]
        assert all(on and missing == 0 for on, missing in streaks().values())
        assert provider_row().suspect_scans == 3
        facts = {"provider": "P", "provider_id": made["id"], "missing": 12, "enabled": 20}
        assert [of_type(one, "discovery.suspect_scan") for one in told] == [[facts]] * 3
        suspected = [of_type(one, "discovery.bulk_removal_suspected") for one in told]
        assert suspected == [[], [], [{**facts, "consecutive_scans": 3}]]
        (event,) = [e for e in told[2] if e.type == "discovery.bulk_removal_suspected"]
        assert event.severity == "error"
        upstream.models = numbered(*range(20))
        house.sweep()
        assert provider_row().suspect_scans == 0, "a trusted scan begins anew"


@pytest.mark.parametrize(
    ("stored", "left", "suspect"), [(12, [*range(6)], False), (5, [99], False), (3, [], True), (12, [], True)]
)
def test_the_guard_has_a_floor_and_a_share(house: House, stored: int, left: list[int], suspect: bool):
    """providers 32. The other rows."""
    with FakeProvider(models=numbered(*range(stored))) as upstream:
        house.provider(upstream)
        upstream.models = numbered(*left)
        told = [*house.sweep(), *house.sweep()]
    gone = [model_id for model_id, (on, _) in streaks().items() if not on]
    assert len(of_type(told, "discovery.suspect_scan")) == (2 if suspect else 0)
    assert len(gone) == (0 if suspect else stored - len([n for n in left if n < stored]))


def test_pinned_models_are_outside_of_the_guard_and_stay_on(house: House):
    """providers 33"""
    with FakeProvider(models=numbered(*range(20))) as upstream:
        house.provider(upstream)
        Model.objects.filter(model_id__in=numbered(*range(10))).update(manually_enabled_at="2026-01-01T00:00:00Z")
        upstream.models = numbered(*range(12, 20))
        told = [*house.sweep(), *house.sweep()]
    found = streaks()
    assert of_type(told, "discovery.suspect_scan") == []
    assert [found[str(model_id)] for model_id in numbered(*range(10))] == [(True, 2)] * 10
    assert [model_id for model_id, (on, _) in found.items() if not on] == numbered(10, 11)


def test_who_switched_a_model_off_decides_whether_a_sweep_brings_it_back(house: House):
    """part of providers 34. Ten sweeps."""
    with FakeProvider(models=["operator", "vanished", "retired"]) as upstream:
        made = house.provider(upstream)
        ids = dict(Model.objects.values_list("model_id", "pk"))
        house.api.patch(f"/models/{ids['operator']}", {"enabled": False})
        Model.objects.filter(model_id="vanished").update(enabled=False)
        Model.objects.filter(model_id="retired").update(enabled=False, auto_retired_at="2026-01-01T00:00:00Z")
        for _ in range(10):
            house.sweep()
    assert {model_id: on for model_id, (on, _) in streaks().items()} == {
        "operator": False,
        "retired": False,
        "vanished": True,
    }
    (entry,) = DiscoveryChange.objects.all()
    assert entry.diff == {"reenabled": [{"model_id": "vanished", "reason": "reappeared"}]}
    assert str(entry.provider_id) == made["id"]


def test_what_an_operator_switched_on_stays_on_until_the_listing_knows_it_again(house: House):
    """providers 35"""
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.models = ["b"]
        house.sweep()
        house.sweep()
        assert streaks()["a"] == (False, 0)
        house.api.patch(f"/models/{Model.objects.get(model_id='a').pk}", {"enabled": True})
        for count in (1, 2, 3, 4):
            assert of_type(house.sweep(), "discovery.models_disabled") == []
            assert streaks()["a"] == (True, count)
        upstream.models = ["a", "b"]
        house.sweep()
        assert streaks()["a"] == (True, 0) and Model.objects.get(model_id="a").manually_enabled_at is None
        upstream.models = ["b"]
        house.sweep()
        assert streaks()["a"] == (True, 1)
        house.sweep()
        assert streaks()["a"] == (False, 0)


def test_an_operator_who_switches_a_missing_model_off_in_the_meantime_is_heard(house: House):
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.models = ["b"]
        house.sweep()

        def off() -> None:
            beside(lambda: Model.objects.filter(model_id="a").update(enabled=False, disabled_manually=True)).join(10)

        house.before_confirmation = [off]
        assert of_type(house.sweep(), "discovery.models_disabled") == []
    row = Model.objects.get(model_id="a")
    assert (row.enabled, row.disabled_manually, row.missing_scans) == (False, True, 1)


def test_one_write_that_fails_costs_the_sweep_its_verdict(house: House, monkeypatch: pytest.MonkeyPatch):
    """providers 37"""
    asked: list[Any] = []
    monkeypatch.setattr(prune, "prune", lambda trusted, *args: asked.append(list(trusted)) or [])
    with FakeProvider(models=["a", "b"]) as upstream, FakeProvider(models=["x"]) as other:
        house.provider(upstream)
        house.provider(other, name="well")
        upstream.models = ["b", "new"]
        house.sweep()
        Model.objects.filter(model_id="new").delete()
        save = Model.save

        def broken(self: Model, *args: Any, **more: Any) -> None:
            if self.model_id == "new":
                raise DatabaseError("down")
            save(self, *args, **more)

        monkeypatch.setattr(Model, "save", broken)
        before = provider_row().last_discovered_at
        upstream.forget()
        told = house.sweep()
        assert len(upstream.requests) == 1, "nothing is confirmed that would not be recorded"
    assert streaks() == {"a": (True, 1), "b": (True, 0), "x": (True, 0)}
    assert str(provider_row().pk) not in asked[1]
    assert of_type(told, "discovery.provider_failed") == [
        {"provider": "P", "error": "failed to upsert model new for provider P"}
    ]
    assert of_type(told, "discovery.complete")[0]["errors"] == 1
    assert not provider_row().inventory_stale, "our database is nothing against the provider's listing"
    after = provider_row().last_discovered_at
    assert after is not None and before is not None and after > before, "the attempt is stamped"


@pytest.mark.parametrize("broken", ["enabled_ids", "record_misses"])
def test_misses_that_can_not_be_read_or_saved_are_not_trusted(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
):
    asked: list[Any] = []
    monkeypatch.setattr(prune, "prune", lambda trusted, *args: asked.append(list(trusted)) or [])

    def fail(*args: Any) -> Any:
        raise DatabaseError("down")

    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.models = ["b"]
        monkeypatch.setattr(store, broken, fail)
        assert types(house.sweep()) == ["discovery.complete"]
    assert asked == [[]] and streaks()["a"] == (True, 0)


# ---------------------------------------------------------------- listings that are none


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(401, {"error": {"message": "bad key"}}), "HTTP 401"),
        (html(), "the answer is not JSON"),
        (silence(), "the scan took longer than"),
        (raw(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{"data":[' + b" " * 3_000_000), "too large"),
        (listing(), "provider returned no models"),
    ],
    ids=["refused key", "html", "never ends", "too much", "nothing"],
)
def test_a_hostile_listing_costs_nobody_a_model(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    waits: list[float],
    answer: Any,
    reason: str,
):
    """part of providers 28. In sweeps, and with everything else that is no listing."""
    monkeypatch.setattr("providers.discovery.http.LIMIT_BYTES", 1_000_000)
    with FakeProvider(models=numbered(1, 2, 3, 4)) as upstream, FakeProvider(models=["other"]) as well:
        house.provider(upstream)
        house.provider(well, name="well")
        before = list(Model.objects.filter(provider__name="P").order_by("model_id").values())
        monkeypatch.setattr(scan, "SCAN_SECONDS", 1.0)
        upstream.route("GET", "/v1/models", answer)
        told = [event for _ in range(3) for event in house.sweep()]
    row = provider_row()
    assert list(Model.objects.filter(provider__name="P").order_by("model_id").values()) == before
    assert reason in row.last_model_fetch_error and row.inventory_stale
    failed = of_type(told, "discovery.provider_failed")
    assert failed == [{"provider": "P", "error": row.last_model_fetch_error}] * 3
    suspects = 3 if reason == "provider returned no models" else 0
    assert len(of_type(told, "discovery.suspect_scan")) == suspects == row.suspect_scans
    complete = [event for event in told if event.type == "discovery.complete"]
    assert {(event.severity, event.metadata["errors"]) for event in complete} == {("warning", 1)}


def test_an_empty_listing_is_no_proof_even_if_a_later_one_names_something(house: House):
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        Model.objects.update(missing_scans=1)
        upstream.models = []
        house.before_confirmation = [lambda: setattr(upstream, "models", ["b"])]
        told = house.sweep()
    assert streaks() == {"a": (True, 1), "b": (True, 0)}
    assert of_type(told, "discovery.suspect_scan") == [] and provider_row().suspect_scans == 0


# ---------------------------------------------------------------- what a sweep takes, stamps and tells


def test_a_sweep_takes_who_is_enabled_and_wants_it(house: House):
    """providers 39"""
    with FakeProvider(models=["a", "b"]) as upstream:
        off, manual = house.provider(upstream, name="off"), house.provider(upstream, name="manual")
        house.api.put(f"/providers/{off['id']}", {"enabled": False})
        house.api.put(f"/providers/{manual['id']}", {"autodiscovery_enabled": False})
        upstream.models = ["b"]
        upstream.forget()
        assert house.sweep() == [] and upstream.requests == []
        assert house.api.post("/providers/discover-all").json()["results"] == []
        refused = house.api.post(f"/providers/{manual['id']}/discover")
        assert (refused.status_code, refused.content) == (403, b"autodiscovery is disabled for this provider")
        refused = house.api.post(f"/providers/{off['id']}/discover")
        assert (refused.status_code, refused.content) == (400, b"provider is disabled")
    assert all(row == (True, 0) for row in streaks().values())


def test_a_sweep_stamps_success_and_failure_alike(house: House):
    with FakeProvider(models=["a"]) as good, FakeProvider(models=["a"]) as bad:
        house.provider(good, name="good")
        house.provider(bad, name="bad")
        bad.route("GET", "/v1/models", status(401))
        before = {row.name: row.last_discovered_at for row in Provider.objects.all()}
        told = house.sweep("Startup")
    for row in Provider.objects.all():
        assert row.last_discovered_at is not None and row.last_discovered_at > before[row.name]
    assert of_type(told, "discovery.provider_fetched") == [], "a dashboard is not told of each success"
    (complete,) = [event for event in told if event.type == "discovery.complete"]
    assert (complete.severity, complete.metadata) == (
        "warning",
        {"source": "Startup", "models_pruned": 0, "errors": 1},
    )
    assert complete.message == "Startup discovery: 1 of 2 providers scanned"


def test_a_sweep_without_any_success_ends_as_an_error_and_marks_nobody(house: House):
    """part of providers 58"""
    with FakeProvider(models=["a"]) as one, FakeProvider(models=["a"]) as two:
        house.provider(one, name="one")
        house.provider(two, name="two")
        for upstream in (one, two):
            upstream.route("GET", "/v1/models", status(401))
        (complete,) = [event for event in house.sweep() if event.type == "discovery.complete"]
    assert (complete.severity, complete.metadata["errors"]) == ("error", 2)
    assert not Provider.objects.filter(inventory_stale=True).exists()


def test_a_sweep_that_went_well_is_a_success(house: House):
    with FakeProvider(models=["a"]) as upstream:
        house.api.provider(upstream)
        told = house.sweep("Startup")
    assert types(told) == ["discovery.complete", "discovery.changes_pending"]
    assert (told[0].severity, told[0].metadata) == ("success", {"source": "Startup", "models_pruned": 0})
    assert told[1].metadata == {"source": "Startup"}
    entry = DiscoveryChange.objects.get()
    assert (entry.source, entry.diff) == ("startup", {"added": [{"model_id": "a", "reason": "new_model"}]})


def test_groups_that_the_whole_run_changed_are_journaled_without_a_provider(house: House, behind: Ports):
    with FakeProvider(models=["a"]) as upstream:
        house.provider(upstream)
        behind.parts = {"failover_disabled_groups": [{"display_model": "mine", "effective_count": 1, "reason": "r"}]}
        house.sweep()
    assert list(DiscoveryChange.objects.order_by("-provider_name").values_list("provider_name", "diff")) == [
        ("P", behind.parts),
        ("", behind.parts),
    ]


@pytest.mark.parametrize(
    ("room", "name"),
    [(prune, "prune"), (store, "offered"), (journal, "record"), (journal, "retain"), (claims, "alert")],
)
def test_nothing_at_the_end_turns_a_sweep_into_a_failed_one(
    house: House,
    behind: Ports,
    monkeypatch: pytest.MonkeyPatch,
    room: Any,
    name: str,
):
    def fail(*args: Any) -> Any:
        raise DatabaseError("down")

    with FakeProvider(models=["a"]) as upstream:
        house.api.provider(upstream)
        monkeypatch.setattr(room, name, fail)
        (complete,) = [event for event in house.sweep() if event.type == "discovery.complete"]
    assert complete.severity == "success" and streaks() == {"a": (True, 0)}


def test_pruned_models_are_counted_and_their_groups_synced(
    house: House,
    behind: Ports,
    monkeypatch: pytest.MonkeyPatch,
):
    seen: dict[str, Any] = {}

    def pruning(trusted: Any, now: Any, fresh: Any) -> list[str]:
        seen.update(trusted=list(trusted), fresh=fresh)
        return ["old"]

    monkeypatch.setattr(prune, "prune", pruning)
    with FakeProvider(models=["a"]) as upstream:
        made = house.api.provider(upstream)
        told = house.sweep()
    assert of_type(told, "discovery.complete") == [{"source": "Scheduled", "models_pruned": 1}]
    added = {"added": [{"model_id": "a", "reason": "new_model"}]}
    assert seen == {"trusted": [made["id"]], "fresh": {made["id"]: added}}
    assert behind.named("stamped revalidated") == [["a", "old"]]


def test_eight_are_asked_at_once_and_a_slow_one_holds_up_nobody(house: House):
    """circuit-breaker 77. A sweep."""
    gate = threading.Event()
    running = [0, 0]

    async def held(wire: Any) -> None:
        running[0] += 1
        running[1] = max(running)
        while not gate.is_set():
            await scan.asyncio.sleep(0.01)
        running[0] -= 1
        await listing("m")(wire)

    with FakeProvider(models=["m"]) as upstream, FakeProvider(models=["m"]) as hanging:
        for number in range(9):
            house.api.provider(upstream, name=f"p{number}")
        house.api.provider(hanging, name="slow")
        hanging.route("GET", "/v1/models", held)
        sweep = beside(house.sweep)
        try:
            assert eventually(lambda: Provider.objects.exclude(last_discovered_at=None).count() == 9, 10)
            assert sweep.is_alive()
        finally:
            gate.set()
            sweep.join(10)
        gate.clear()
        upstream.route("GET", "/v1/models", held)
        running[:] = [0, 0]
        sweep = beside(house.sweep)
        try:
            assert eventually(lambda: running[0] == 8, 10)
        finally:
            gate.set()
            sweep.join(10)
    assert running[1] == 8


def test_a_wait_for_a_confirmation_takes_no_place_from_the_others(house: House):
    """Eight providers that miss a model each must not keep the ninth waiting for a minute."""
    gate, waiting = threading.Event(), []

    async def nap(seconds: float) -> None:
        waiting.append(seconds)
        while not gate.is_set():
            await scan.asyncio.sleep(0.01)

    with FakeProvider(models=["a", "b"]) as upstream:
        for number in range(8):
            house.provider(upstream, name=f"p{number}")
        upstream.models = ["b"]
        house.api.provider(upstream, name="last")
        house.sweeper._sleep = nap  # type: ignore[assignment]
        sweep = beside(house.sweep)
        try:
            assert eventually(lambda: len(waiting) == 8, 10)
            assert eventually(lambda: provider_row("last").last_discovered_at is not None, 10)
            answer = house.api.post(f"/providers/{provider_row('p0').pk}/discover")
            assert (answer.status_code, answer.json()["diff"]) == (200, {}), "whoever asks need not wait for proofs"
        finally:
            gate.set()
            sweep.join(10)


def test_a_sweep_that_is_stopped_holds_nothing_against_anybody(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(inventory, "after_sweep", lambda failed: pytest.fail("judged"))
    with FakeProvider(models=["a"]) as slow, FakeProvider(models=["a", "b"]) as missing:
        house.provider(slow, name="slow")
        house.provider(missing, name="missing")
        before = list(Provider.objects.filter(name="slow").values())
        slow.route("GET", "/v1/models", silence())
        missing.models = ["b"]
        gate = threading.Event()

        async def nap(seconds: float) -> None:
            gate.set()
            await scan.asyncio.sleep(60)

        house.sweeper._sleep = nap  # type: ignore[assignment]
        told: list[list[events.Event]] = []
        slow.forget()
        sweep = beside(lambda: told.append(house.sweep()))
        assert gate.wait(10)
        slow.wait_for(lambda: len(slow.requests) == 1)
        house.sweeper.stop()
        sweep.join(10)
        assert not sweep.is_alive()
        assert house.sweeper.run("Scheduled") is None, "for good"
    assert told == [[]] and streaks()["a"] == (True, 0)
    assert list(Provider.objects.filter(name="slow").values()) == before
    assert len(scan.SCANNER.flights) == 0


def test_a_provider_whose_scan_runs_already_is_left_to_it(house: House, api: Api, monkeypatch: pytest.MonkeyPatch):
    """part of providers 51. A sweep meets a manual scan."""
    gate = threading.Event()

    async def held(wire: Any) -> None:
        while not gate.is_set():
            await scan.asyncio.sleep(0.01)
        await listing("a")(wire)

    with FakeProvider(models=["a"]) as upstream:
        made = house.provider(upstream)
        upstream.route("GET", "/v1/models", held)
        upstream.forget()
        manual = beside(lambda: api.post(f"/providers/{made['id']}/discover"))
        upstream.wait_for(lambda: len(upstream.requests) == 1)
        met = threading.Event()
        claim = scan.SCANNER.flights.claim
        monkeypatch.setattr(scan.SCANNER.flights, "claim", lambda key: (claim(key), met.set())[0])
        sweep = beside(house.sweep)
        assert met.wait(10)
        gate.set()
        manual.join(10)
        sweep.join(10)
        assert len(upstream.requests) == 1
    assert not sweep.is_alive() and Model.objects.count() == 1


def test_a_provider_deleted_during_its_sweep_leaves_an_entry_with_its_name(
    house: House, caplog: pytest.LogCaptureFixture
):
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.models = ["b", "c"]

        def delete() -> None:
            beside(lambda: Provider.objects.all().delete()).join(10)

        house.before_confirmation = [delete]
        assert types(house.sweep()) == ["discovery.complete", "discovery.changes_pending"]
    assert Model.objects.count() == 0
    entry = DiscoveryChange.objects.get()
    assert (entry.provider, entry.provider_name, list(entry.diff)) == (None, "P", ["added"])
    assert not [record for record in caplog.records if record.exc_info]


def test_a_provider_deleted_while_it_is_listed_is_no_failure(house: House):
    async def deleted(wire: Any) -> None:
        beside(lambda: Provider.objects.all().delete()).join(10)
        await listing("a")(wire)

    with FakeProvider(models=["a"]) as upstream:
        house.provider(upstream)
        upstream.route("GET", "/v1/models", deleted)
        (complete,) = house.sweep()
    assert (complete.type, complete.severity) == ("discovery.complete", "success")
    assert Model.objects.count() == 0 and Provider.objects.count() == 0


@pytest.mark.parametrize("field", ["enabled", "autodiscovery_enabled"])
def test_a_provider_taken_out_of_discovery_during_its_sweep_keeps_its_models(house: House, field: str):
    with FakeProvider(models=["a", "b"]) as upstream:
        made = house.provider(upstream)
        upstream.models = ["b"]
        house.sweep()

        def off() -> None:
            beside(lambda: house.api.put(f"/providers/{made['id']}", {field: False})).join(10)

        house.before_confirmation = [off]
        assert of_type(house.sweep(), "discovery.models_disabled") == []
    assert streaks() == {"a": (True, 1), "b": (True, 0)}


def test_a_provider_that_leaves_discovery_during_its_sweep_is_not_judged(house: House):
    """part of providers 39. Switched over while its missing model is being confirmed."""
    with FakeProvider(models=["a", "b"]) as upstream:
        house.provider(upstream)
        upstream.models = ["b"]
        house.sweep()
        house.before_confirmation = [
            lambda: beside(lambda: Provider.objects.update(autodiscovery_enabled=False)).join(10)
        ]
        house.sweep()
    assert streaks() == {"a": (True, 1), "b": (True, 0)}


@pytest.mark.parametrize("room", ["sweep", "recheck", "scan"])
def test_a_scan_that_breaks_off_leaves_every_provider_free_for_the_next(
    house: House, monkeypatch: pytest.MonkeyPatch, room: str
):
    runs = {
        "sweep": lambda: house.sweeper.run("Scheduled"),
        "recheck": Rechecker().run,
        "scan": scan.SCANNER.every,
    }
    with FakeProvider(models=["a"]) as upstream:
        house.provider(upstream, name="one")
        house.provider(upstream, name="two")
        Provider.objects.update(last_model_fetch_error="HTTP 500")
        with monkeypatch.context() as patch:
            patch.setattr(f"providers.discovery.{room}.row_of", lambda row: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                runs[room]()
        assert len(scan.SCANNER.flights) == 0
        upstream.forget()
        runs[room]()
        assert len(upstream.requests) == 2
    assert not Provider.objects.exclude(last_model_fetch_error="").exists()
