"""Scans that an operator asks for."""

import logging
import threading
from typing import Any

import pytest
from django.db import DatabaseError, connection

from failover import table
from modelhotel.core import events
from providers import cache, control
from providers.discovery import scan, store
from providers.discovery.classify import classify
from providers.kinds.base import Listed
from providers.models import Model, Provider
from tests.providers.conftest import Api, Ports
from tests.providers.sweeping import beside
from tests.upstream.server import FakeProvider, after, hang_up, html, raw, redirect, reply, silence, status
from tests.wire.product import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


def listing(*ids: str, **more: Any) -> Any:
    return reply(200, {"data": [{"id": model_id, "owned_by": "o", **more} for model_id in ids]})


def scan_of(api: Api, made: dict[str, Any], status_code: int = 200) -> Any:
    response = api.post(f"/providers/{made['id']}/discover")
    assert response.status_code == status_code, response.content
    return response.json() if status_code == 200 else response.content.decode()


def of_type(told: list[events.Event], type: str) -> list[Any]:
    return [event.metadata for event in told if event.type == type]


def test_a_scan_stores_what_the_provider_lists(api: Api, behind: Ports, told: list[events.Event]):
    with FakeProvider(models=["glm-4.6", "text-embedding-3", "glm-4.6"]) as upstream:
        made = api.provider(upstream, api_key="sk-abcdef12")
        behind.parts = {"failover_updated_groups": [{"display_model": "glm-4.6", "added_model_ids": ["x"]}]}
        told.clear()
        answer = scan_of(api, made)
        assert {r.headers["authorization"] for r in upstream.requests} == {"Bearer sk-abcdef12"}
        assert {r.headers["content-type"] for r in upstream.requests} == {"application/json"}
    assert answer["discovered"] == 2
    assert answer["diff"] == {
        "added": [{"model_id": m, "reason": "new_model"} for m in ("glm-4.6", "text-embedding-3")],
        **behind.parts,
    }
    assert [(m["model_id"], m["modality"], m["enabled"], m["owned_by"]) for m in answer["models"]] == [
        ("glm-4.6", "chat", True, "fake"),
        ("text-embedding-3", "embedding", True, "fake"),
    ]
    assert behind.named("stamped") == [["glm-4.6", "text-embedding-3"]]
    assert ("P", 2) in [(e["provider"], e["count"]) for e in of_type(told, "discovery.provider_fetched")]
    assert of_type(told, "config.changed") == [{"kind": "model", "id": "", "action": "updated", "actor": "system"}]
    assert set(cache.SNAPSHOT.current.by_model_id) == {"glm-4.6", "text-embedding-3"}
    shown = api.get(f"/providers/{made['id']}").json()
    assert shown["health"] == "healthy" and shown["model_count"] == 2 and shown["last_model_fetch_error"] == ""
    stamps = ("last_discovered_at", "last_model_fetch_at", "last_availability_at", "last_discovery_success_at")
    assert len({shown[name] for name in (*stamps, "last_checked_at")}) == 1 and shown["last_discovered_at"]


def test_a_second_scan_changes_nothing(api: Api, told: list[events.Event]):
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        scan_of(api, made)
        told.clear()
        assert scan_of(api, made)["diff"] == {}
    assert of_type(told, "config.changed") == []


def test_a_failing_listing_is_asked_three_times(api: Api, waits: list[float]):
    """providers 27"""
    with FakeProvider(models=["m"]) as upstream:
        made = api.provider(upstream)
        replies = iter([status(500), status(503)])
        upstream.route("GET", "/v1/models", lambda wire: next(replies, listing("m"))(wire))
        assert scan_of(api, made)["discovered"] == 1
        assert len(upstream.requests) == 3
        assert waits == [3 + 1.5, 6 + 1.5]
        upstream.forget()
        upstream.route("GET", "/v1/models", status(401, {"error": {"message": "bad key"}}))
        assert scan_of(api, made, 500) == "failed to discover models for provider P"
        assert len(upstream.requests) == 1
    assert Model.objects.get().enabled
    shown = api.get(f"/providers/{made['id']}").json()
    assert shown["last_model_fetch_error"].startswith("HTTP 401:") and shown["health"] == "degraded"
    assert shown["last_availability_error"] == shown["last_model_fetch_error"]


@pytest.mark.parametrize("code", [429, 500, 502])
def test_three_failures_are_enough(api: Api, waits: list[float], code: int):
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        upstream.route("GET", "/v1/models", status(code))
        scan_of(api, made, 500)
        assert len(upstream.requests) == 3 and len(waits) == 2


@pytest.mark.parametrize("broken", [html(), reply(200, {"object": "list"}), raw(b"\x00\x01garbage\r\n\r\n"), hang_up()])
def test_an_answer_that_is_no_listing_fails_the_scan(api: Api, broken: Any, told: list[events.Event]):
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        told.clear()
        upstream.route("GET", "/v1/models", broken)
        scan_of(api, made, 500)
    (failed,) = of_type(told, "discovery.provider_failed")
    shown = api.get(f"/providers/{made['id']}").json()
    assert failed == {"provider": "P", "error": shown["last_model_fetch_error"]} and failed["error"]
    assert (shown["health"], shown["last_discovered_at"]) == ("unhealthy", None)


def test_an_empty_listing_touches_nothing(api: Api, behind: Ports):
    """providers 28, circuit-breaker 74"""
    with FakeProvider(models=["a", "b", "c", "d"]) as upstream:
        made = api.provider(upstream)
        scan_of(api, made)
        before = list(Model.objects.order_by("model_id").values())
        behind.calls.clear()
        upstream.models = []
        assert scan_of(api, made) == {"discovered": 0, "models": [], "diff": {}}
        fresh = api.provider(upstream, name="fresh")
        assert scan_of(api, fresh)["discovered"] == 0
        Provider.objects.filter(name="P").update(inventory_stale=True)
        scan_of(api, made)
        assert Provider.objects.get(name="P").inventory_stale, "an empty listing clears nothing"
    assert list(Model.objects.order_by("model_id").values()) == before and behind.named("stamped") == []
    shown = {row["name"]: row for row in api.get("/providers").json()}
    assert shown["P"]["last_model_fetch_error"] == "provider returned no models"
    assert (shown["P"]["health"], shown["fresh"]["health"]) == ("degraded", "unhealthy")


def test_a_manual_scan_never_switches_a_model_off(api: Api):
    """providers 36"""
    with FakeProvider(models=["a", "b"]) as upstream:
        made = api.provider(upstream)
        scan_of(api, made)
        upstream.models = ["b"]
        assert scan_of(api, made)["diff"] == {}
    assert list(Model.objects.order_by("model_id").values_list("model_id", "enabled", "missing_scans")) == [
        ("a", True, 0),
        ("b", True, 0),
    ]


def test_who_switched_a_model_off_decides_whether_a_sighting_brings_it_back(api: Api):
    """providers 34"""
    with FakeProvider(models=["operator", "vanished", "retired"]) as upstream:
        made = api.provider(upstream)
        ids = {m["model_id"]: m["id"] for m in scan_of(api, made)["models"]}
        api.patch(f"/models/{ids['operator']}", {"enabled": False})
        Model.objects.filter(pk=ids["vanished"]).update(enabled=False)
        Model.objects.filter(pk=ids["retired"]).update(enabled=False, auto_retired_at="2026-01-01T00:00:00Z")
        assert scan_of(api, made)["diff"] == {"reenabled": [{"model_id": "vanished", "reason": "reappeared"}]}
        for _ in range(9):
            assert scan_of(api, made)["diff"] == {}
    assert dict(Model.objects.values_list("model_id", "enabled")) == {
        "operator": False,
        "vanished": True,
        "retired": False,
    }


def test_prices_and_names_that_an_operator_set_stay(api: Api):
    """part of providers 41, providers 42, providers 43. The 5 % of another type are in the next test."""

    def entry(prompt: str | None) -> Any:
        pricing = {"completion": "0"} if prompt is None else {"prompt": prompt, "completion": "0"}
        model = {"id": "v/m", "name": "Theirs", "architecture": {"modality": "text->text"}, "pricing": pricing}
        return reply(200, {"data": [model]})

    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/key", reply(200, {"data": {}}))
        upstream.route("GET", "/v1/models", entry("0.000001"))
        made = api.provider(upstream, provider_type="openrouter", api_key="sk-or-12345")
        (model,) = scan_of(api, made)["models"]
        assert (model["input_price_per_million"], model["output_price_per_million"]) == (1.0, 0.0)
        assert model["input_price_per_million_cache_hit"] is None
        upstream.route("GET", "/v1/models", entry("0.00000105"))
        answer = scan_of(api, made)
        assert (answer["diff"], answer["models"][0]["input_price_per_million"]) == ({}, 1.0)
        upstream.route("GET", "/v1/models", entry("0.0000012"))
        assert scan_of(api, made)["diff"] == {
            "updated": [
                {"model_id": "v/m", "changes": [{"field": "input_price", "old": 1.0, "new": 1.2}]},
            ]
        }
        path = f"/models/{model['id']}"
        api.patch(path, {"input_price_per_million": 5.0, "display_name": "Mine"})
        answer = scan_of(api, made)
        assert answer["diff"] == {}
        assert (answer["models"][0]["input_price_per_million"], answer["models"][0]["display_name"]) == (5.0, "Mine")
        unpinned = api.patch(path, {"price_customized": False, "input_price_per_million": 1.0, "display_name": ""})
        assert unpinned.json()["input_price_per_million"] is None
        answer = scan_of(api, made)
        assert (answer["models"][0]["input_price_per_million"], answer["models"][0]["display_name"]) == (1.2, "Theirs")
        upstream.route("GET", "/v1/models", entry(None))
        assert scan_of(api, made)["models"][0]["input_price_per_million"] == 1.2


def test_a_small_price_move_of_another_type_is_stored(api: Api):
    """part of providers 42"""
    made = api.provider()
    row = Provider.objects.get(pk=made["id"])
    for price in (1.0, 1.05):
        listed = classify(Listed("m", input_price_per_million=price))
        outcome = store.apply(row, [listed], scan.SYSTEM.now())
    assert outcome.diff.sections()["updated"][0]["changes"] == [{"field": "input_price", "old": 1.0, "new": 1.05}]
    assert Model.objects.get().input_price_per_million == 1.05


def test_a_custom_server_gets_no_models_it_does_not_list(api: Api):
    """part of providers 44. The generic half: nothing but the listing."""
    with FakeProvider(models=["llama-3"]) as upstream:
        scan_of(api, api.provider(upstream))
    assert list(Model.objects.values_list("model_id", flat=True)) == ["llama-3"]


def test_ollama_keeps_a_context_that_a_failing_show_does_not_tell(api: Api, waits: list[float]):
    """providers 48"""
    with FakeProvider(face="ollama", models=["a", "b", "c", "d", "e"]) as upstream:
        made = api.provider(upstream.origin, provider_type="ollama")
        assert {m["context_length"] for m in scan_of(api, made)["models"]} == {131072}
        broken: dict[str, Any] = {"name": "c", "show": "no object"}
        upstream.models = ["a", "b", broken, "d", "e"]
        found = {m["model_id"]: m for m in scan_of(api, made)["models"]}
    assert len(found) == 5 and found["c"]["context_length"] == 131072
    assert found["c"]["capabilities"] == '{"streaming":true}'


def test_odd_ids_and_characters_do_not_break_a_scan(api: Api):
    with FakeProvider() as upstream:
        data = [
            {"id": "good", "owned_by": "o\x00wner" + "x" * 300},
            {"id": "bad\x00id"},
            {"id": "x" * 600},
            {"id": ""},
            {"id": None},
            "text",
        ]
        upstream.route("GET", "/v1/models", reply(200, {"data": data}))
        answer = scan_of(api, api.provider(upstream))
    assert [m["model_id"] for m in answer["models"]] == ["good"]
    assert answer["models"][0]["owned_by"].startswith("ownerx")


def test_a_disabled_provider_and_one_without_discovery_are_not_scanned(api: Api):
    """part of providers 39. All but the sweeps."""
    with FakeProvider() as upstream:
        off, manual = api.provider(upstream, name="off"), api.provider(upstream, name="manual")
        api.put(f"/providers/{off['id']}", {"enabled": False})
        api.put(f"/providers/{manual['id']}", {"autodiscovery_enabled": False})
        assert scan_of(api, off, 400) == "provider is disabled"
        assert scan_of(api, manual, 403) == "autodiscovery is disabled for this provider"
        answer = api.post("/providers/discover-all").json()
        assert answer == {"results": [], "succeeded": 0, "failed": 0, "discovered": 0}
        assert upstream.requests == []
    assert scan_of(api, {"id": "x"}, 400) == "invalid provider ID"
    assert scan_of(api, {"id": "0d9e0b9e-1111-4222-8333-444455556666"}, 404) == "provider not found"


def test_two_scans_of_one_provider_are_one_listing(api: Api, monkeypatch: pytest.MonkeyPatch):
    """providers 51. Both callers get the result of the one listing."""
    with FakeProvider(models=["m"]) as upstream:
        made = api.provider(upstream)
        gate = threading.Event()

        async def held(wire: Any) -> None:
            while not gate.is_set():
                await scan.asyncio.sleep(0.01)
            await listing("m")(wire)

        upstream.route("GET", "/v1/models", held)
        claim, claims = scan.SCANNER.flights.claim, threading.Semaphore(0)
        monkeypatch.setattr(scan.SCANNER.flights, "claim", lambda key: (claim(key), claims.release())[0])
        answers: list[Any] = []
        callers = [beside(lambda: answers.append(scan_of(api, made))) for _ in range(2)]
        for _ in callers:
            assert claims.acquire(timeout=10)
        gate.set()
        for caller in callers:
            caller.join(10)
        assert len(upstream.requests) == 1
    assert len(answers) == 2 and answers[0] == answers[1] and Model.objects.count() == 1
    assert len(scan.SCANNER.flights) == 0


def test_a_deleted_model_comes_back_as_a_new_row(api: Api):
    """providers 52"""
    with FakeProvider(models=["m"]) as upstream:
        made = api.provider(upstream)
        (first,) = scan_of(api, made)["models"]
        api.patch(f"/models/{first['id']}", {"enabled": False})
        assert api.delete(f"/models/{first['id']}").status_code == 204
        (second,) = scan_of(api, made)["models"]
    assert second["id"] != first["id"] and second["enabled"] and not second["disabled_manually"]


def test_a_failing_upsert_writes_nothing(api: Api, monkeypatch: pytest.MonkeyPatch):
    """part of providers 37. What a manual scan has of it."""
    with FakeProvider(models=["a", "b"]) as upstream:
        made = api.provider(upstream)
        save = Model.save

        def broken(self: Model, *args: Any, **more: Any) -> None:
            if self.model_id == "b":
                raise DatabaseError("down")
            save(self, *args, **more)

        monkeypatch.setattr(Model, "save", broken)
        assert scan_of(api, made, 500) == "failed to upsert model b for provider P"
    assert Model.objects.count() == 0


def test_a_failing_group_sync_leaves_the_scan_a_success(api: Api, behind: Ports, told: list[events.Event]):
    with FakeProvider(models=["m"]) as upstream:
        made = api.provider(upstream)
        behind.broken = True
        assert scan_of(api, made)["discovered"] == 1
    assert of_type(told, "failover.sync_error") == [{"model_id": "m", "error": "RuntimeError"}]


def test_a_provider_deleted_during_its_scan_is_not_found(api: Api):
    with FakeProvider(models=["m"]) as upstream:
        made = api.provider(upstream)
        fetched = scan.Fetched([Listed("m")])
        row = Provider.objects.get(pk=made["id"])
        Provider.objects.filter(pk=row.pk).delete()
        result = scan.SCANNER.write(row, fetched, scan.MANUAL)
    assert result.problem is not None and result.problem.status == 404 and Model.objects.count() == 0


def test_a_key_that_can_not_be_read_fails_the_scan(api: Api):
    """providers 24. Discovery."""
    with FakeProvider() as upstream:
        made = api.provider(upstream, api_key="sk-abcdef12")
        Provider.objects.update(key_salt=b"s" * 32)
        scan_of(api, made, 500)
        assert upstream.requests == []
    assert Provider.objects.get().last_model_fetch_error == "failed to decrypt API key"


# ---------------------------------------------------------------- all providers


def test_all_providers_are_scanned_and_one_failure_is_one_line(api: Api, told: list[events.Event]):
    with FakeProvider(models=["a", "b"]) as good, FakeProvider() as bad:
        bad.route("GET", "/v1/models", status(403, {"error": "no"}))
        api.provider(good, name="good")
        api.provider(bad, name="bad")
        told.clear()
        answer = api.post("/providers/discover-all").json()
    lines = {line["provider_name"]: line for line in answer["results"]}
    assert (answer["succeeded"], answer["failed"], answer["discovered"]) == (1, 1, 2)
    assert "diff" not in lines["bad"] and lines["bad"]["error"].startswith("HTTP 403")
    assert "error" not in lines["good"] and len(lines["good"]["diff"]["added"]) == 2
    starting = of_type(told, "request.discovery.provider_starting")
    assert {e["provider"] for e in starting} == {"good", "bad"}
    assert len(of_type(told, "discovery.provider_failed")) == len(of_type(told, "discovery.provider_fetched")) == 1


def test_slow_providers_do_not_hold_up_the_others_and_eight_run_at_once(api: Api):
    with FakeProvider(models=["m"]) as upstream:
        running = [0, 0]

        async def counted(wire: Any) -> None:
            running[0] += 1
            running[1] = max(running)
            await scan.asyncio.sleep(0.05)
            running[0] -= 1
            await listing("m")(wire)

        upstream.route("GET", "/v1/models", counted)
        for number in range(12):
            api.provider(upstream, name=f"p{number}")
        assert api.post("/providers/discover-all").json()["succeeded"] == 12
    assert running[1] == 8


def test_a_provider_that_hangs_does_not_keep_the_others_from_being_refreshed(api: Api):
    """circuit-breaker 77"""
    gate = threading.Event()

    async def held(wire: Any) -> None:
        while not gate.is_set():
            await scan.asyncio.sleep(0.01)
        await listing("m")(wire)

    with FakeProvider(models=["m"]) as upstream, FakeProvider(models=["m"]) as hanging:
        hanging.route("GET", "/v1/models", held)
        api.provider(hanging, name="p0")
        for number in range(1, 10):
            api.provider(upstream, name=f"p{number}")
        sweep = threading.Thread(target=lambda: (api.post("/providers/discover-all"), connection.close()))
        sweep.start()
        try:
            hanging.wait_for(lambda: len(hanging.requests) == 1)
            assert eventually(lambda: Provider.objects.exclude(last_discovered_at=None).count() == 9, 10)
            assert sweep.is_alive() and Provider.objects.get(name="p0").last_discovered_at is None
        finally:
            gate.set()
            sweep.join(10)
    assert Provider.objects.exclude(last_discovered_at=None).count() == 10


# ---------------------------------------------------------------- health and stale inventories


def bare(name: str) -> list[str]:
    """Providers of a bare name in the order to be asked."""
    return [entry.provider.name for entry in table.SNAPSHOT.current.bare(name)]


def test_a_failed_refresh_next_to_a_healthy_provider_is_stale(
    api: Api, told: list[events.Event], caplog: pytest.LogCaptureFixture
):
    """part of providers 57, providers 59, part of circuit-breaker 73. A manual scan of all."""
    with FakeProvider(models=["m"]) as a, FakeProvider(models=["m"]) as b:
        caplog.set_level(logging.INFO, "providers")
        for name, upstream in (("A", a), ("B", b)):
            api.provider(upstream, name=name)
        api.post("/providers/discover-all")
        a.route("GET", "/v1/models", status(500))
        api.post("/providers/discover-all")
        shown = {row["name"]: row for row in api.get("/providers").json()}
        assert (shown["A"]["inventory_stale"], shown["A"]["health"], shown["A"]["model_count"]) == (True, "degraded", 1)
        assert not shown["B"]["inventory_stale"]
        assert cache.SNAPSHOT.current.by_name["A"].inventory_stale
        assert bare("m") == ["B", "A"]
        a.route("GET", "/v1/models", listing("m"))
        told.clear()
        scan_of(api, shown["A"])
        assert not cache.SNAPSHOT.current.by_name["A"].inventory_stale
        assert bare("m") == ["A", "B"]
    assert of_type(told, "discovery.provider_fetched") == [{"provider": "A", "count": 1}]
    assert api.get(f"/providers/{shown['A']['id']}").json()["last_model_fetch_error"] == ""
    attrs = {"provider": "A", "provider_id": shown["A"]["id"], "models": 1}
    lines = [(r.levelname, r.getMessage(), r.attrs) for r in caplog.records if "inventory" in r.getMessage()]  # type: ignore[attr-defined]
    assert lines == [
        (
            "WARNING",
            "providers: inventory marked stale",
            {**attrs, "error": shown["A"]["last_model_fetch_error"]},
        ),
        ("INFO", "providers: inventory fresh again", attrs),
    ]


def test_an_outage_of_everything_marks_nobody_until_one_is_back(api: Api):
    """part of providers 58, part of circuit-breaker 75. With manual scans in the place of sweep and recheck."""
    with FakeProvider(models=["m"]) as a, FakeProvider(models=["m"]) as b:
        made = {name: api.provider(upstream, name=name) for name, upstream in (("A", a), ("B", b))}
        api.post("/providers/discover-all")
        for upstream in (a, b):
            upstream.route("GET", "/v1/models", status(500))
        api.post("/providers/discover-all")
        assert not Provider.objects.filter(inventory_stale=True).exists()
        scan_of(api, made["A"], 500)
        assert not Provider.objects.filter(inventory_stale=True).exists(), "B is no healthy alternative"
        b.route("GET", "/v1/models", listing("m"))
        scan_of(api, made["B"])
        scan_of(api, made["A"], 500)
    assert list(Provider.objects.filter(inventory_stale=True).values_list("name", flat=True)) == ["A"]


def test_the_only_provider_is_never_stale(api: Api):
    """providers 60"""
    with FakeProvider(models=["m"]) as upstream:
        made = api.provider(upstream)
        scan_of(api, made)
        upstream.route("GET", "/v1/models", status(500))
        scan_of(api, made, 500)
        shown = api.get(f"/providers/{made['id']}").json()
        assert (shown["inventory_stale"], shown["health"]) == (False, "degraded")
        fresh = api.provider(upstream, name="fresh")
        scan_of(api, fresh, 500)
    assert api.get(f"/providers/{fresh['id']}").json()["health"] == "unhealthy"


def test_a_provider_that_was_never_listed_has_nothing_that_could_be_stale(api: Api):
    """part of circuit-breaker 74a"""
    with FakeProvider(models=["m"]) as a, FakeProvider(models=["m"]) as b:
        a.route("GET", "/v1/models", status(500))
        made = api.provider(a, name="A")
        api.provider(b, name="B")
        api.post("/providers/discover-all")
        scan_of(api, made, 500)
        shown = api.get(f"/providers/{made['id']}").json()
        assert (shown["health"], shown["inventory_stale"]) == ("unhealthy", False)
        a.route("GET", "/v1/models", listing("m"))
        scan_of(api, made)
    assert api.get(f"/providers/{made['id']}").json()["health"] == "healthy"


def test_a_failed_scan_does_not_move_the_last_discovery(api: Api):
    """part of providers 62. For manual scans."""
    with FakeProvider(models=["m"]) as upstream:
        made = api.provider(upstream)
        scan_of(api, made)
        before = Provider.objects.get()
        for broken in (status(500), listing()):
            upstream.route("GET", "/v1/models", broken)
            api.post(f"/providers/{made['id']}/discover")
        after_ = Provider.objects.get()
    assert after_.last_discovered_at == before.last_discovered_at
    assert after_.last_discovery_success_at == before.last_discovery_success_at
    assert after_.last_model_fetch_at > before.last_model_fetch_at


def test_openrouter_lists_without_a_key_so_the_key_is_asked_for(api: Api):
    """part of circuit-breaker 76"""
    model = {"id": "v/m", "architecture": {"modality": "text->text"}}
    with FakeProvider() as upstream:
        upstream.route("GET", "/v1/models", reply(200, {"data": [model]}))
        upstream.route("GET", "/v1/key", status(401, {"error": "no such user"}))
        made = api.provider(upstream, provider_type="openrouter", api_key="sk-or-12345")
        assert scan_of(api, made)["discovered"] == 1
        shown = api.get(f"/providers/{made['id']}").json()
        assert (shown["last_model_fetch_error"], shown["health"]) == ("", "degraded")
        assert shown["last_availability_error"].startswith("HTTP 401")
        with FakeProvider(models=["m"]) as down:
            other = api.provider(down, name="other")
            scan_of(api, other)
            down.route("GET", "/v1/models", status(500))
            scan_of(api, other, 500)
        assert not Provider.objects.get(name="other").inventory_stale, "whose key is refused is no healthy alternative"
        upstream.route("GET", "/v1/key", reply(200, {"data": {}}))
        scan_of(api, made)
    assert api.get(f"/providers/{made['id']}").json()["health"] == "healthy"


# ---------------------------------------------------------------- redirects, secrets, time


def test_a_redirect_into_a_private_network_is_refused(api: Api):
    """providers 75"""
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        upstream.route("GET", "/v1/models", redirect("http://169.254.169.254/latest"))
        scan_of(api, made, 500)
        assert len(upstream.requests) == 1
    assert "169.254.169.254" in Provider.objects.get().last_model_fetch_error


def test_credentials_do_not_follow_a_redirect_to_another_origin(api: Api):
    """providers 75"""
    with FakeProvider() as upstream, FakeProvider(models=["there"]) as elsewhere:
        made = api.provider(upstream, api_key="sk-abcdef12")
        upstream.route("GET", "/v1/models", redirect("/v1/moved", 307))
        upstream.route("GET", "/v1/moved", redirect(elsewhere.url + "/models", 307))
        assert [m["model_id"] for m in scan_of(api, made)["models"]] == ["there"]
        assert [r.headers.get("authorization") for r in upstream.requests] == ["Bearer sk-abcdef12"] * 2
        assert [r.headers.get("authorization") for r in elsewhere.requests] == [None]


def test_eleven_redirects_are_too_many(api: Api):
    """providers 75"""
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        upstream.route("GET", "/v1/models", redirect("/v1/models"))
        scan_of(api, made, 500)
        assert len(upstream.requests) == 11
    assert Provider.objects.get().last_model_fetch_error == "more than 10 redirects"


@pytest.mark.parametrize("target", ["file:///etc/passwd", "http://user:pw@127.0.0.1/", "ftp://127.0.0.1/"])
def test_a_redirect_to_what_is_no_address_is_refused(api: Api, target: str):
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        upstream.route("GET", "/v1/models", redirect(target))
        scan_of(api, made, 500)
        assert len(upstream.requests) == 1


def test_no_error_path_shows_the_key(
    api: Api, told: list[events.Event], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    """providers 25"""
    key = "sk-verysecret-1234567890abcdef"
    echo = {"error": {"message": f"the key {key} is bad, Bearer {key}"}}
    answers: list[Any] = [status(401, echo), status(500, echo), reply(200, {"x": key}), raw(key.encode()), hang_up()]
    with caplog.at_level(logging.DEBUG), FakeProvider() as upstream:
        made = api.provider(upstream, api_key=key)
        Model.objects.create(provider_id=made["id"], model_id="m")
        shown = b""
        for answer in answers:
            upstream.route("GET", "/v1/models", answer)
            upstream.script(answer)
            shown += api.post(f"/providers/{made['id']}/discover").content
            shown += api.post("/providers/discover-all").content
            shown += api.post(f"/models/{Model.objects.get().pk}/test").content
            shown += api.get(f"/providers/{made['id']}").content
    out = capfd.readouterr()
    everything = (caplog.text, out.out, out.err, shown.decode(), *(event.json().decode() for event in told))
    assert not [text for text in everything if "verysecret" in text]
    assert "[REDACTED]" in shown.decode()


def test_a_scan_has_its_time(api: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scan, "SCAN_SECONDS", 0.2)
    with FakeProvider() as upstream:
        made = api.provider(upstream)
        upstream.route("GET", "/v1/models", silence())
        scan_of(api, made, 500)
    assert Provider.objects.get().last_model_fetch_error == "the scan took longer than 0 s"


def test_a_scan_that_is_cut_off_by_the_end_of_the_process_ends(api: Api):
    with FakeProvider() as upstream:
        api.provider(upstream)
        upstream.route("GET", "/v1/models", after(20, silence()))
        stopper = threading.Thread(
            target=lambda: (upstream.wait_for(lambda: bool(upstream.requests)), control.LOOP.stop())
        )
        stopper.start()
        answer = api.post("/providers/discover-all").json()
        stopper.join(5)
    assert answer["results"][0]["error"] == "the scan was interrupted"
