"""``/api/providers/quotas``, ``/refresh-quotas`` and ``/{id}/usage|balance|account``: stored readings and live ones."""

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelhotel import config_store
from modelhotel.core.threads import released
from providers import cache, control
from providers.models import Provider, QuotaSnapshot
from providers.quota import desk, store
from providers.quota.fetch import FETCHER
from providers.quota.store import Fetched
from tests.providers.conftest import Api
from tests.upstream.server import FakeProvider, Hold, reply, status

pytestmark = pytest.mark.database

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = "sk-abcdef123456"
OK = {"usage": {"limit": "100", "used": "40", "remaining": "60", "resetTime": "2030-01-01T00:00:00Z"}}


def kimi(api: Api, upstream: FakeProvider, name: str = "Kimi", **more: Any) -> dict[str, Any]:
    return api.provider(upstream, name=name, provider_type="kimi-code", api_key=KEY, **more)


def keep(made: dict[str, Any], fetched: Fetched, kind: str = "usage", at: datetime = AT) -> None:
    store.keep(made["id"], kind, fetched, "poll", at)


def test_the_quotas_are_those_that_are_stored_in_one_form(api: Api, provider_a: FakeProvider):
    spent, other = kimi(api, provider_a, quota_reserve_percent=20), kimi(api, provider_a, "Another")
    off, none = kimi(api, provider_a, "Off"), api.provider(provider_a, name="Custom")
    keep(spent, Fetched(OK, 200))
    keep(spent, Fetched(error="HTTP 500"), at=AT + timedelta(minutes=5))
    keep(other, Fetched(status=424))
    for made in (off, none):
        keep(made, Fetched(OK, 200))
    api.put(f"/providers/{off['id']}", {"enabled": False})
    answer = api.get("/providers/quotas")
    assert answer.status_code == 200
    assert answer.json() == {
        "quotas": [
            {
                "provider_id": other["id"],
                "provider_name": "Another",
                "provider_type": "kimi-code",
                "kind": "usage",
                "http_status": 424,
                "fetched_at": "2026-03-01T12:00:00Z",
                "last_error": "",
                "reserve_percent": 0,
                "windows": [],
                "plan": None,
            },
            {
                "provider_id": spent["id"],
                "provider_name": "Kimi",
                "provider_type": "kimi-code",
                "kind": "usage",
                "http_status": 200,
                "fetched_at": "2026-03-01T12:00:00Z",
                "last_error": "HTTP 500",
                "reserve_percent": 20,
                "windows": [
                    {
                        "name": "cycle",
                        "used_percent": 40.0,
                        "used": 40.0,
                        "limit": 100.0,
                        "remaining": 60.0,
                        "unit": "",
                        "resets_at": "2030-01-01T00:00:00Z",
                    }
                ],
                "plan": None,
            },
        ]
    }
    assert provider_a.requests == [], "nobody is asked"


def test_without_readings_there_are_no_quotas(api: Api):
    assert api.get("/providers/quotas").json() == {"quotas": []}


# --- one provider -------------------------------------------------------------------------------------------------

UNASKED = "2026-03-01T12:00:00Z"


def usage(upstream: FakeProvider, *answers: Any) -> None:
    """Kimi's answers one after the other; the last one for ever."""
    left = list(answers)
    upstream.route("GET", "/v1/usages", lambda wire: (left.pop(0) if left[1:] else left[0])(wire))


def lines(caplog: pytest.LogCaptureFixture, level: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == level and record.name == "quota"]


@pytest.mark.parametrize(
    ("provider_type", "kind"),
    [("deepseek", "usage"), ("deepseek", "account"), ("kimi-code", "balance"), ("ollama-cloud", "usage")],
)
def test_a_kind_that_the_type_does_not_tell_is_refused(
    api: Api, provider_a: FakeProvider, provider_type: str, kind: str
):
    """providers 63"""
    made = api.provider(provider_a, provider_type=provider_type, api_key=KEY)
    answer = api.get(f"/providers/{made['id']}/{kind}")
    assert (answer.status_code, answer.content.decode()) == (
        400,
        f"{kind} information not supported for this provider type",
    )
    assert provider_a.requests == []


def test_a_custom_provider_tells_nothing(api: Api, provider_a: FakeProvider):
    made = api.provider(provider_a)
    assert [api.get(f"/providers/{made['id']}/{kind}").status_code for kind in ("usage", "balance", "account")] == [
        400
    ] * 3


@pytest.mark.parametrize("kind", ["usage", "balance", "account"])
def test_who_is_not_there_has_no_quota(api: Api, kind: str):
    bad, gone = api.get(f"/providers/nobody/{kind}"), api.get(f"/providers/7d0f6bd4-8c6f-4d3f-9c9a-4b1f7a3b9d11/{kind}")
    assert (bad.status_code, bad.content.decode()) == (400, "invalid provider ID")
    assert (gone.status_code, gone.content.decode()) == (404, "provider not found")


def test_the_first_view_of_openrouter_asks_it_and_later_ones_do_not(api: Api, provider_a: FakeProvider):
    """providers 63"""
    made = api.provider(provider_a, provider_type="openrouter", api_key=KEY)
    provider_a.route("GET", "/v1/credits", reply(200, {"data": {"total_credits": 20, "total_usage": 5}}))
    provider_a.route("GET", "/v1/key", reply(200, {"data": {"label": "sk-or...96", "usage": 5, "limit": None}}))
    first = api.get(f"/providers/{made['id']}/usage")
    assert first.status_code == 200
    assert first.json() == {
        "label": "sk-or...96",
        "usage": 5,
        "limit": None,
        "credits_total": 20.0,
        "credits_used": 5.0,
        "credits_remaining": 15.0,
    }
    stamp = datetime.fromisoformat(first["X-Quota-Fetched-At"])
    assert abs(datetime.now(UTC) - stamp) < timedelta(minutes=1) and first["X-Quota-Fetched-At"].endswith("Z")
    assert QuotaSnapshot.objects.get().source == "manual"
    asked = [call.path for call in provider_a.requests]
    assert asked == ["/v1/credits", "/v1/key"]
    assert all(call.headers["authorization"] == f"Bearer {KEY}" for call in provider_a.requests)
    again = api.get(f"/providers/{made['id']}/usage")
    assert (again.json(), again["X-Quota-Fetched-At"]) == (first.json(), first["X-Quota-Fetched-At"])
    assert [call.path for call in provider_a.requests] == asked


def test_a_balance_and_an_account_are_told_the_same_way(api: Api, provider_a: FakeProvider):
    sea = api.provider(provider_a, name="Sea", provider_type="deepseek", api_key=KEY)
    cloud = api.provider(provider_a, name="Cloud", provider_type="ollama-cloud", api_key=KEY)
    told = {"is_available": True, "balance_infos": [{"currency": "USD", "total_balance": "4.10"}]}
    provider_a.route("GET", "/v1/user/balance", reply(200, {**told, "secret": 1}))
    provider_a.route("POST", "/api/me", reply(200, {"Plan": "pro", "Bio": "long"}))
    assert api.get(f"/providers/{sea['id']}/balance").json() == told
    assert api.get(f"/providers/{cloud['id']}/account").json() == {"plan": "pro"}
    shown = api.get("/providers/quotas").json()["quotas"]
    assert [(one["provider_name"], one["kind"], one["plan"]) for one in shown] == [
        ("Cloud", "account", "pro"),
        ("Sea", "balance", None),
    ]
    assert [(line["name"], line["remaining"], line["unit"]) for line in shown[1]["windows"]] == [
        ("balance USD", 4.1, "USD")
    ]


@pytest.mark.parametrize(
    ("fetched", "status_code", "body"),
    [(Fetched(OK, 200), 200, OK), (Fetched(status=204), 204, b""), (Fetched(status=424), 424, b"")],
)
def test_a_stored_reading_is_answered_with_its_own_status(
    api: Api, provider_a: FakeProvider, fetched: Fetched, status_code: int, body: Any
):
    """part of providers 64"""
    made = kimi(api, provider_a)
    keep(made, fetched)
    answer = api.get(f"/providers/{made['id']}/usage")
    assert answer.status_code == status_code
    assert (answer.json() if body else answer.content) == body
    assert answer["X-Quota-Fetched-At"] == UNASKED
    assert provider_a.requests == []


@pytest.mark.parametrize("code", [401, 403])
def test_a_dead_key_is_one_warning_however_often_it_is_asked_about(
    api: Api, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture, code: int
):
    """providers 64"""
    made = kimi(api, provider_a)
    usage(provider_a, status(code))
    first = api.get(f"/providers/{made['id']}/usage")
    assert (first.status_code, first.content.decode()) == (424, "provider key invalid or inactive for Kimi")
    later = api.get(f"/providers/{made['id']}/usage")
    assert (later.status_code, later.content) == (424, b"")
    refreshed = api.post("/providers/refresh-quotas").json()
    assert refreshed["refreshed"] == 1 and refreshed["failed"] == 0
    assert QuotaSnapshot.objects.get().http_status == 424
    assert lines(caplog, "WARNING") == ["quota: provider refused its key"]
    assert lines(caplog, "ERROR") == []
    assert len(provider_a.requests) == 2


def test_no_plan_is_an_empty_answer(api: Api, provider_a: FakeProvider):
    """providers 64"""
    watt = api.provider(provider_a, name="Watt", provider_type="neuralwatt", api_key=KEY)
    go = api.provider(provider_a, name="Go", provider_type="opencode-go", api_key=KEY)
    provider_a.route("GET", "/v1/quota", status(404))
    provider_a.route("GET", "/v1/usage", reply(403, {"error": {"type": "EntitlementError", "message": "no plan"}}))
    for made in (watt, go, watt):
        answer = api.get(f"/providers/{made['id']}/usage")
        assert (answer.status_code, answer.content) == (204, b"")
        assert "X-Quota-Fetched-At" in answer
    rows = QuotaSnapshot.objects.all()
    assert [(row.http_status, row.payload, row.last_error) for row in rows] == [(204, None, "")] * 2
    assert len(provider_a.requests) == 2


def test_a_failure_leaves_a_placeholder_and_the_next_view_asks_again(api: Api, provider_a: FakeProvider):
    made = kimi(api, provider_a)
    usage(provider_a, reply(400, {"error": KEY}), reply(200, OK))
    failed = api.get(f"/providers/{made['id']}/usage")
    assert (failed.status_code, failed.content.decode()) == (500, "failed to fetch usage for provider Kimi")
    row = QuotaSnapshot.objects.get()
    assert (row.http_status, row.fetched_at, row.source) == (0, None, "manual")
    assert row.last_error.startswith("HTTP 400") and KEY not in row.last_error
    assert api.get(f"/providers/{made['id']}/usage").json() == OK
    row.refresh_from_db()
    assert (row.http_status, row.last_error) == (200, "")


def test_who_failed_five_times_is_left_alone_and_unavailable(api: Api, provider_a: FakeProvider):
    made = kimi(api, provider_a)
    usage(provider_a, status(404))
    assert [api.get(f"/providers/{made['id']}/usage").status_code for _ in range(5)] == [500] * 5
    answer = api.get(f"/providers/{made['id']}/usage")
    assert (answer.status_code, answer.content.decode()) == (503, "quota unavailable")
    assert len(provider_a.requests) == 5
    assert api.post("/providers/refresh-quotas").json()["results"] == [
        {
            "provider_name": "Kimi",
            "provider_type": "kimi-code",
            "refreshed": False,
            "error": "left alone after 5 failed fetches in a row",
        }
    ]
    assert len(provider_a.requests) == 5


def test_a_failed_refresh_keeps_what_was_read_before(api: Api, provider_a: FakeProvider):
    """part of providers 65"""
    made = kimi(api, provider_a)
    usage(provider_a, reply(200, OK), reply(418, {"error": "teapot"}))
    first = api.get(f"/providers/{made['id']}/usage")
    refreshed = api.post("/providers/refresh-quotas").json()
    assert refreshed["results"][0]["error"].startswith("HTTP 418")
    again = api.get(f"/providers/{made['id']}/usage")
    assert (again.status_code, again.json()) == (200, OK)
    assert again["X-Quota-Fetched-At"] == first["X-Quota-Fetched-At"]
    row = QuotaSnapshot.objects.get()
    assert row.last_error.startswith("HTTP 418") and row.last_attempt_at > row.fetched_at
    [shown] = api.get("/providers/quotas").json()["quotas"]
    assert shown["last_error"] == row.last_error and shown["windows"][0]["used_percent"] == 40.0


# --- all of them ----------------------------------------------------------------------------------------------------


def test_a_refresh_asks_every_enabled_provider_that_tells_a_quota_and_judges_then(
    api: Api, provider_a: FakeProvider, provider_b: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    good, bad = kimi(api, provider_a, "Good"), kimi(api, provider_b, "Bad")
    off = kimi(api, provider_a, "Off")
    api.put(f"/providers/{off['id']}", {"enabled": False})
    api.provider(provider_a, name="Custom")
    usage(provider_a, reply(200, OK))
    usage(provider_b, status(404))
    passes: list[int] = []
    monkeypatch.setattr("providers.ports.judge_quotas", lambda: passes.append(QuotaSnapshot.objects.count()))
    answer = api.post("/providers/refresh-quotas")
    assert answer.status_code == 200
    found = answer.json()
    assert found["results"][0].pop("error").startswith("HTTP 404")
    assert found == {
        "results": [
            {"provider_name": "Bad", "provider_type": "kimi-code", "refreshed": False},
            {"provider_name": "Good", "provider_type": "kimi-code", "refreshed": True},
        ],
        "refreshed": 1,
        "failed": 1,
        "skipped": 1,
    }
    assert passes == [2], "after both are stored"
    kept = {str(row.provider_id): (row.http_status, row.source) for row in QuotaSnapshot.objects.all()}
    assert kept == {good["id"]: (200, "manual"), bad["id"]: (0, "manual")}


def test_a_reading_that_can_not_be_stored_counts_as_failed(
    api: Api, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    kimi(api, provider_a)
    usage(provider_a, reply(200, OK))

    def broken(*args: Any) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(store, "keep", broken)
    found = api.post("/providers/refresh-quotas").json()
    assert (found["refreshed"], found["failed"]) == (0, 1)
    assert found["results"][0]["error"] == "the reading could not be stored"


@pytest.mark.parametrize("deleted", [False, True])
def test_a_reading_of_an_account_that_is_another_by_now_is_no_reading(
    api: Api, provider_a: FakeProvider, deleted: bool
):
    made, held = kimi(api, provider_a), Hold(reply(200, OK))
    usage(provider_a, held)
    found: list[Any] = []
    refresh = lambda: found.append(desk.refresh()[0][0].error)  # noqa: E731
    asking = threading.Thread(target=released, args=(refresh,))
    asking.start()
    try:
        assert held.reached.wait(10)
        if deleted:
            api.delete(f"/providers/{made['id']}")
        else:
            api.put(f"/providers/{made['id']}", {"api_key": KEY + "x"})
    finally:
        held.release()
        asking.join(10)
    assert found == ["the provider was changed meanwhile"] and not QuotaSnapshot.objects.exists()


def test_a_word_is_no_id_of_a_provider(api: Api):
    assert api.get("/providers/quotas").status_code == 200
    assert api.post("/providers/refresh-quotas").json() == {"results": [], "refreshed": 0, "failed": 0, "skipped": 0}


def test_what_is_cleared_is_asked_for_again(api: Api, provider_a: FakeProvider):
    made = kimi(api, provider_a)
    keep(made, Fetched(status=424))
    usage(provider_a, reply(200, OK))
    cleared = api.delete("/providers/quotas")
    assert (cleared.status_code, cleared.content) == (204, b"")
    assert api.get("/providers/quotas").json() == {"quotas": []}
    assert api.get(f"/providers/{made['id']}/usage").json() == OK


# --- what makes a reading worthless -----------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"api_key": "sk-another-key"}, {"base_url": "http://127.0.0.1:9/v1"}])
def test_a_reading_of_another_account_is_forgotten(api: Api, provider_a: FakeProvider, change: dict[str, Any]):
    made = kimi(api, provider_a)
    keep(made, Fetched(status=424))
    api.put(f"/providers/{made['id']}", {"name": "Renamed", "base_url": made["base_url"]})
    assert QuotaSnapshot.objects.count() == 1
    assert api.put(f"/providers/{made['id']}", change).status_code == 200
    assert QuotaSnapshot.objects.count() == 0


def test_an_answer_that_was_meant_for_the_old_key_is_not_kept(api: Api, provider_a: FakeProvider):
    made = kimi(api, provider_a)
    usage(provider_a, status(401))
    fetched = control.LOOP.run(FETCHER.one(cache.row_of(Provider.objects.get())))
    assert fetched == Fetched(status=424)
    api.put(f"/providers/{made['id']}", {"api_key": "sk-another-key"})
    keep(made, fetched)
    assert QuotaSnapshot.objects.count() == 0


def test_a_saved_reserve_is_judged_before_the_answer(
    api: Api, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    made = kimi(api, provider_a, quota_reserve_percent=20)
    seen: list[int] = []
    monkeypatch.setattr(
        "providers.ports.judge_quotas", lambda: seen.append(Provider.objects.get().quota_reserve_percent)
    )
    for change in ({"quota_reserve_percent": 20}, {"name": "Other"}, {"quota_reserve_percent": 0}):
        api.put(f"/providers/{made['id']}", change)
    assert seen == [0]


def test_what_is_remembered_of_a_shape_is_no_setting(
    api: Api, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    """Neither read nor written through the settings, and gone with the provider."""
    monkeypatch.setattr("providers.ports.notes", config_store)
    made = kimi(api, provider_a)
    usage(provider_a, reply(200, OK))
    api.post("/providers/refresh-quotas")
    key = f"_quota_schema_{made['id']}"
    assert "usage.limit" in (config_store.load_note(key) or "")
    refused = api.put("/settings", {key: "x"})
    assert (refused.status_code, refused.content.decode()) == (400, f"unknown setting: {key}")
    assert "_quota_schema_" not in api.get("/settings").content.decode()
    api.delete(f"/providers/{made['id']}")
    assert config_store.load_note(key) is None
