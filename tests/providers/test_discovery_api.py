"""``/api/discovery``: claims, the feed, and what an operator answers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from modelhotel.core import events
from modelhotel.core.clock import rfc3339
from modelhotel.models import User
from providers.discovery import journal
from providers.models import DiscoveryChange, Model, Provider
from providers.ports import GroupOff
from tests.providers.conftest import Api, Ports

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

DAY = timedelta(days=1)


def now() -> datetime:
    return datetime.now(UTC)


def provider(name: str = "P", **given: Any) -> Provider:
    return Provider.objects.create(name=name, base_url=f"https://{name}.example/v1", provider_type="custom", **given)


def model(owner: Provider, model_id: str, **given: Any) -> Model:
    values = {"enabled": False, "last_seen_at": now() - DAY, **given}
    return Model.objects.create(provider=owner, model_id=model_id, **values)


def diff(**sections: list[str]) -> dict[str, Any]:
    return {name: [{"model_id": one, "reason": "r"} for one in ids] for name, ids in sections.items()}


def status(api: Api, query: str = "") -> Any:
    answer = api.get(f"/discovery/status{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def states(found: Any) -> dict[str, dict[str, list[str]]]:
    words = ("gone", "stale", "suspect", "retired", "pinned")
    return {
        owner["provider_name"]: {word: [item["model_id"] for item in owner[word]] for word in words if owner[word]}
        for owner in found["claims"]
    }


def config(told: list[events.Event]) -> list[Any]:
    return [event.metadata for event in told if event.type == "config.changed"]


def test_nothing_to_tell_is_told_in_whole(api: Api):
    """providers 6.10"""
    model(provider(), "on", enabled=True)
    assert status(api) == {
        "claims": [],
        "group_claims": [],
        "informational": [],
        "claim_count": 0,
        "informational_unseen": 0,
    }


def test_claims_are_what_the_rows_say_now(api: Api, behind: Ports):
    """providers 6.10, part of providers 34, part of providers 35"""
    owner, other, parked = provider("P"), provider("A"), provider("Z", enabled=False)
    gone = model(owner, "gone")
    model(owner, "long-gone", last_seen_at=now() - 31 * DAY)
    model(owner, "flapped", last_seen_at=now() - 31 * DAY)
    model(owner, "missed", enabled=True, missing_scans=1)
    model(owner, "by-hand", enabled=True, missing_scans=4, manually_enabled_at=now() - DAY)
    model(owner, "refused", auto_retired_at=now() - 2 * DAY)
    model(other, "x")
    for name, more in (
        ("listed", {"enabled": True}),
        ("pinned-and-listed", {"enabled": True, "manually_enabled_at": now()}),
        ("off-by-operator", {"disabled_manually": True}),
        ("dismissed", {"discovery_dismissed_at": now()}),
    ):
        model(owner, name, **more)
    model(parked, "parked")
    journal.record("scheduled", owner, diff(disabled=["flapped"]), now() - 29 * DAY)
    behind.groups_off = [GroupOff("glm", 3, 1, now() - DAY)]
    found = status(api)
    assert list(states(found)) == ["A", "P"]
    assert states(found) == {
        "A": {"gone": ["x"]},
        "P": {
            "gone": ["flapped", "gone"],
            "stale": ["long-gone"],
            "suspect": ["missed"],
            "retired": ["refused"],
            "pinned": ["by-hand"],
        },
    }
    assert found["claim_count"] == 3 + 1 + 1
    (group,) = found["group_claims"]
    assert (group["display_model"], group["member_count"], group["routable_count"]) == ("glm", 3, 1)
    claims = found["claims"][1]
    assert claims["provider_id"] == str(owner.pk)
    assert claims["gone"][1] == {
        "id": str(gone.pk),
        "model_id": "gone",
        "state": "gone",
        "last_seen_at": rfc3339(gone.last_seen_at),
        "missing_scans": 0,
        "flap_window": 0,
        "flap_since_review": 0,
    }
    assert claims["retired"][0]["retired_at"] and claims["pinned"][0]["pinned_at"]
    assert claims["pinned"][0]["missing_scans"] == 4


def test_a_sighting_or_an_operator_settles_a_claim_without_more(api: Api):
    """providers 6.10"""
    row = model(provider(), "m")
    assert status(api)["claim_count"] == 1
    assert api.patch(f"/models/{row.pk}", {"enabled": True}).status_code == 200
    assert status(api)["claims"] == []


def test_ups_and_downs_are_counted_in_the_window_and_since_the_last_review(api: Api, behind: Ports):
    """providers 6.10"""
    owner, twin = provider("P"), provider("Q")
    model(owner, "m")
    model(twin, "m")
    journal.record("scheduled", owner, diff(added=["m"]), now() - 31 * DAY)
    journal.record("scheduled", owner, diff(disabled=["m"]), now() - 29 * DAY)
    journal.record("startup", owner, diff(reenabled=["m"], added=["other"]), now() - 2 * DAY)

    def counts(query: str = "") -> dict[str, tuple[int, int]]:
        claims = status(api, query)["claims"]
        return {c["provider_name"]: (c["gone"][0]["flap_window"], c["gone"][0]["flap_since_review"]) for c in claims}

    assert counts() == {"P": (2, 0), "Q": (0, 0)}
    assert counts("?review=1") == {"P": (2, 2), "Q": (0, 0)}
    assert counts("?review=1") == {"P": (2, 0), "Q": (0, 0)}
    journal.record("scheduled", owner, diff(disabled=["m"]), now())
    assert counts() == {"P": (3, 0), "Q": (0, 0)}
    assert counts("?review=1") == {"P": (3, 1), "Q": (0, 0)}
    behind.noted.clear()
    behind.noted["_discovery_reviewed_at"] = "yesterday"
    assert counts("?review=1") == {"P": (3, 3), "Q": (0, 0)}


def test_only_an_administrators_look_is_a_review(api: Api, behind: Ports, settings: Any):
    """providers 6.10"""
    viewer = signed_in("vera")
    assert viewer.get("/discovery/status?review=1").status_code == 200
    status(api, "?review=")
    assert behind.noted == {}
    settings.MH = replace(settings.MH, demo_readonly=True)
    status(api, "?review=1")
    assert behind.noted == {}
    settings.MH = replace(settings.MH, demo_readonly=False)
    status(api, "?review=1")
    assert list(behind.noted) == ["_discovery_reviewed_at"]


def signed_in(name: str) -> Api:
    """A viewer: an account that may look at everything."""
    made = Api()
    user = User.objects.create_user(name, password="only-looking-1", is_staff=True)
    made.client.force_login(user)
    made.client.defaults.pop("HTTP_AUTHORIZATION", None)
    return made


def test_the_feed_is_what_nobody_has_seen_the_newest_first(api: Api):
    """providers 6.10"""
    owner = provider()
    model(owner, "m")
    price = {"updated": [{"model_id": "x", "changes": [{"field": "input_price", "old": 1, "new": 2}]}]}
    journal.record("startup", owner, diff(added=["x"]), now() - 3 * DAY)
    journal.record("scheduled", owner, price, now() - 2 * DAY)
    journal.record("scheduled", owner, diff(disabled=["m"]), now() - DAY)
    found = status(api)
    assert [(entry["source"], entry["diff"]) for entry in found["informational"]] == [
        ("scheduled", price),
        ("startup", diff(added=["x"])),
    ]
    assert {entry["provider_id"] for entry in found["informational"]} == {str(owner.pk)}
    assert (found["claim_count"], found["informational_unseen"]) == (1, 1)
    journal.record("scheduled", owner, {**price, **diff(disabled=["m"])}, now())
    journal.record("scheduled", None, {"failover_deleted_groups": [{"display_model": "g"}]}, now())
    assert status(api, "?brief=1") == {"claim_count": 1, "informational_unseen": 2}
    assert status(api)["informational_unseen"] == 2
    DiscoveryChange.objects.update(seen=True)
    assert status(api)["informational"] == [] and status(api, "?brief=1")["informational_unseen"] == 0


def test_an_acknowledgement_marks_what_it_returns(api: Api):
    """providers 6.10"""
    owner = provider()
    journal.record("startup", owner, diff(added=["x"]), now() - DAY)
    journal.record("scheduled", None, {"failover_deleted_groups": [{"display_model": "g"}]}, now())
    answer = api.post("/discovery/changes/ack")
    assert answer.status_code == 200
    found = answer.json()
    assert [(entry["provider_name"], entry["source"]) for entry in found["entries"]] == [
        ("", "scheduled"),
        ("P", "startup"),
    ]
    assert "provider_id" not in found["entries"][0] and found["count"] == 0
    assert not DiscoveryChange.objects.filter(seen=False).exists()
    assert api.post("/discovery/changes/ack").json() == {"entries": [], "count": 0}
    journal.record("scheduled", owner, diff(disabled=["x"]), now())
    assert [entry["diff"] for entry in status(api)["informational"]] == [diff(disabled=["x"])]


def test_a_dismissed_claim_rests_and_discovery_goes_on(api: Api, told: list[events.Event]):
    """providers 6.10"""
    owner = provider()
    gone, retired = model(owner, "gone"), model(owner, "retired", auto_retired_at=now())
    model(owner, "on", enabled=True, missing_scans=1)
    model(owner, "by-hand", disabled_manually=True)
    model(provider("Q"), "gone")
    told.clear()
    body = {"provider_id": str(owner.pk), "model_ids": ["retired", "gone", "on", "by-hand", "nope", "gone"]}
    answer = api.post("/discovery/dismiss", body)
    assert answer.status_code == 200 and answer.json() == {"dismissed": ["retired", "gone"], "updated": 2}
    assert states(status(api)) == {"P": {"suspect": ["on"]}, "Q": {"gone": ["gone"]}}
    gone.refresh_from_db()
    retired.refresh_from_db()
    assert gone.discovery_dismissed_at and retired.discovery_dismissed_at and not gone.enabled
    assert config(told) == [{"kind": "model", "id": "", "action": "updated", "actor": "admin"}]
    journal.record("scheduled", owner, diff(disabled=["gone"]), now())
    assert status(api)["informational"] == []  # settled is settled
    told.clear()
    assert api.post("/discovery/dismiss", body).json() == {"dismissed": ["retired", "gone"], "updated": 0}
    assert config(told) == []


def test_an_unpinned_model_is_discoverys_again(api: Api, told: list[events.Event]):
    """providers 6.10, part of providers 35"""
    owner = provider()
    row = model(owner, "m", enabled=True, missing_scans=5, manually_enabled_at=now())
    model(owner, "free", enabled=True, missing_scans=1)
    told.clear()
    answer = api.post("/discovery/unpin", {"provider_id": str(owner.pk), "model_ids": ["m", "free"]})
    assert answer.status_code == 200 and answer.json() == {"unpinned": ["m"]}
    row.refresh_from_db()
    assert (row.enabled, row.manually_enabled_at, row.missing_scans) == (True, None, 0)
    assert config(told) == [{"kind": "model", "id": str(row.pk), "action": "updated", "actor": "admin"}]
    assert states(status(api)) == {"P": {"suspect": ["free"]}}


@pytest.mark.parametrize("verb", ["dismiss", "unpin"])
def test_answers_to_claims_that_are_refused(api: Api, verb: str):
    """providers 6.10"""
    owner = provider()
    model(owner, "by-hand", disabled_manually=True)
    mine = str(owner.pk)
    for body, code, text in (
        ({"provider_id": "x", "model_ids": ["m"]}, 400, "invalid provider ID"),
        ({"model_ids": ["m"]}, 400, "invalid provider ID"),
        ({"provider_id": mine, "model_ids": []}, 400, "model_ids must not be empty"),
        ({"provider_id": mine}, 400, "model_ids must not be empty"),
        ({"provider_id": mine, "model_ids": [f"{n}" for n in range(10_001)]}, 400, "too many ids (max 10000)"),
        ({"provider_id": mine, "model_ids": ["by-hand", "nope", "a\x00b"]}, 404, "no matching models"),
        ({"provider_id": str(uuid4()), "model_ids": ["by-hand"]}, 404, "no matching models"),
        ({"provider_id": mine, "model_ids": "by-hand"}, 400, "invalid request body"),
        ({"provider_id": mine, "model_ids": [1]}, 400, "invalid request body"),
        ([], 400, "invalid request body"),
    ):
        answer = api.post(f"/discovery/{verb}", body if body else [])
        assert (answer.status_code, answer.content.decode()) == (code, text), body


def test_ten_thousand_models_are_judged_in_a_handful_of_queries(api: Api):
    """part of providers 6.10"""
    owner = provider()
    Model.objects.bulk_create(
        (Model(provider=owner, model_id=f"m{n}", enabled=n % 2 == 0, last_seen_at=now()) for n in range(10_000)),
        batch_size=500,
    )
    journal.record("scheduled", owner, diff(disabled=[f"m{n}" for n in range(10_000)]), now())
    with CaptureQueriesContext(
        connection,
    ) as asked:
        found = status(api)
    assert found["claim_count"] == 5000 and {item["flap_window"] for item in found["claims"][0]["gone"]} == {1}
    assert len(found["informational"][0]["diff"]["disabled"]) == 5000
    assert sum("discovery" in query["sql"] or '"models"' in query["sql"] for query in asked) <= 3
    body = {"provider_id": str(owner.pk), "model_ids": [f"m{n}" for n in range(10_000)]}
    assert api.post("/discovery/dismiss", body).json()["updated"] == 5000
