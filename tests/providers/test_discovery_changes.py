"""The journal of sweeps, the pruning of what stays away, and the alert about claims."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from modelhotel.core import catalogue, events, options
from modelhotel.models import Setting
from providers.discovery import claims, journal, prune
from providers.models import DiscoveryChange, DiscoveryFlap, Model, Provider
from providers.ports import GroupOff
from tests.providers.conftest import Api, Ports

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def provider(name: str = "P", **given: Any) -> Provider:
    return Provider.objects.create(name=name, base_url=f"https://{name}.example/v1", provider_type="custom", **given)


def model(owner: Provider, model_id: str, **given: Any) -> Model:
    values = {"enabled": False, "last_seen_at": NOW - 8 * DAY, **given}
    return Model.objects.create(provider=owner, model_id=model_id, **values)


def diff(**sections: list[str]) -> dict[str, Any]:
    return {name: [{"model_id": one, "reason": "r"} for one in ids] for name, ids in sections.items()}


def stored(key: str, value: str) -> None:
    Setting.objects.update_or_create(key=key, defaults={"value": value})
    options.SNAPSHOT.refresh()


def left() -> set[str]:
    return set(Model.objects.values_list("model_id", flat=True))


def test_an_entry_tells_of_a_provider_and_survives_it():
    """providers 6.10"""
    owner = provider()
    told = diff(added=["a"], reenabled=["b"], disabled=["a"]) | {"updated": [{"model_id": "c", "changes": []}]}
    assert journal.record("scheduled", owner, told, NOW)
    entry = DiscoveryChange.objects.get()
    assert (entry.source, entry.provider, entry.provider_name, entry.diff, entry.seen) == (
        "scheduled",
        owner,
        "P",
        told,
        False,
    )
    assert sorted(DiscoveryFlap.objects.values_list("model_id", flat=True)) == ["a", "a", "b"]
    owner.delete()
    entry.refresh_from_db()
    assert entry.provider is None and entry.provider_name == "P"
    assert not DiscoveryFlap.objects.exists()


def test_a_sweep_that_changed_nothing_leaves_no_entry():
    assert not journal.record("startup", provider(), {}, NOW)
    assert not DiscoveryChange.objects.exists()


def test_the_groups_of_a_run_stand_in_an_entry_without_a_name():
    """providers 6.10"""
    parts = {"failover_disabled_groups": [{"display_model": "g", "effective_count": 1, "reason": "r"}]}
    assert journal.record("startup", None, parts, NOW)
    assert DiscoveryChange.objects.values_list("provider_id", "provider_name", "diff").get() == (None, "", parts)


def test_acknowledged_entries_are_kept_for_thirty_days():
    """providers 6.10"""
    owner = provider()
    for age, seen in ((31, True), (29, True), (31, False)):
        journal.record("scheduled", owner, diff(added=[f"{age}{seen}"]), NOW - age * DAY)
        DiscoveryChange.objects.filter(detected_at=NOW - age * DAY, seen=False).update(seen=seen)
    assert journal.retain(NOW) == 1
    assert set(DiscoveryFlap.objects.values_list("model_id", flat=True)) == {"29True", "31False"}
    assert DiscoveryChange.objects.count() == 2 and journal.retain(NOW) == 0


def test_what_stayed_away_for_long_enough_is_deleted(behind: Ports, told: list[events.Event]):
    """providers 6.9"""
    owner, untrusted, parked = provider(), provider("Q"), provider("R", enabled=False)
    old = model(owner, "old")
    model(owner, "never-seen", last_seen_at=None)
    Model.objects.filter(model_id="never-seen").update(created_at=NOW - 9 * DAY)
    kept = [
        model(owner, "young", last_seen_at=NOW - 7 * DAY),
        model(owner, "on", enabled=True),
        model(owner, "by-hand", disabled_manually=True),
        model(owner, "pinned", manually_enabled_at=NOW - 20 * DAY),
        model(owner, "refused", auto_retired_at=NOW - 20 * DAY),
        model(owner, "moved"),
        model(owner, "moving"),
        model(untrusted, "elsewhere"),
        model(parked, "parked"),
    ]
    journal.record("scheduled", owner, diff(disabled=["moved"]), NOW - 7 * DAY)
    journal.record("scheduled", untrusted, diff(disabled=["old"]), NOW - DAY)
    journal.record("scheduled", owner, diff(disabled=["old"]), NOW - 7 * DAY - timedelta(seconds=1))
    told.clear()
    found = prune.prune([owner.pk, str(parked.pk)], NOW, {str(owner.pk): diff(disabled=["moving"])})
    assert found == ["never-seen", "old"]
    assert left() == {row.model_id for row in kept}
    (pruned,) = behind.named("prune_models")
    assert str(old.pk) in pruned and len(pruned) == 2
    assert [event.metadata for event in told] == [{"kind": "model", "id": "", "action": "deleted", "actor": "system"}]
    assert prune.prune([owner.pk], NOW) == ["moving"]


@pytest.mark.parametrize("reason", ["disabled", "reenabled", "added"])
def test_a_model_that_came_or_went_lately_stays(reason: str):
    """providers 6.9"""
    owner = provider()
    model(owner, "m")
    journal.record("scheduled", owner, diff(**{reason: ["m"]}), NOW - DAY)
    assert prune.prune([owner.pk], NOW) == [] and left() == {"m"}


def test_one_sweep_deletes_five_hundred_at_most_the_oldest_first(caplog: pytest.LogCaptureFixture):
    """providers 6.9"""
    owner = provider()
    Model.objects.bulk_create(
        Model(provider=owner, model_id=f"m{n:03}", enabled=False, last_seen_at=NOW - 9 * DAY - n * timedelta(hours=1))
        for n in range(502)
    )
    with caplog.at_level(logging.WARNING, "discovery"):
        assert len(prune.prune([owner.pk], NOW)) == 500
    assert left() == {"m000", "m001"}
    assert [record.getMessage() for record in caplog.records] == ["discovery: more models to delete than one sweep may"]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "discovery"):
        assert prune.prune([owner.pk], NOW) == ["m001", "m000"]
    assert not caplog.records


@pytest.mark.parametrize(
    ("value", "days"), [("0", None), ("181", None), ("-1", None), ("soon", None), ("1", 1), ("180", 180)]
)
def test_the_age_is_a_setting_and_nonsense_deletes_nothing(
    value: str, days: int | None, caplog: pytest.LogCaptureFixture
):
    """providers 6.9"""
    owner = provider()
    model(owner, "old", last_seen_at=NOW - 400 * DAY)
    model(owner, "edge", last_seen_at=NOW - (days or 1) * DAY)
    options.REGISTRY.forget()
    with caplog.at_level(logging.WARNING):
        stored("model_prune_days", value)
        for _ in range(3):
            prune.prune([owner.pk], NOW)
            options.SNAPSHOT.refresh()
    assert left() == ({"edge"} if days else {"old", "edge"})
    assert len(caplog.records) == (1 if value in ("181", "-1", "soon") else 0)


def test_without_a_row_the_age_is_seven_days():
    """part of settings 66"""
    owner = provider()
    model(owner, "eight")
    model(owner, "seven", last_seen_at=NOW - 7 * DAY)
    assert prune.prune([owner.pk], NOW) == ["eight"]


def test_what_changes_hands_while_it_is_judged_stays(monkeypatch: pytest.MonkeyPatch):
    """providers 6.9. The conditions hold in the statement that deletes."""
    owner = provider()
    model(owner, "old")
    real = prune._due

    def late(*given: Any) -> Any:
        rows = real(*given)
        plain = rows.filter

        def filter(**more: Any) -> Any:
            Provider.objects.update(enabled=False)
            return plain(**more)

        rows.filter = filter
        return rows

    monkeypatch.setattr(prune, "_due", late)
    assert prune.prune([owner.pk], NOW) == [] and left() == {"old"}


@pytest.mark.parametrize(("value", "status"), [("30", 400), ("0", 400), ("1", 200), ("29", 200)])
def test_the_age_of_an_alert_has_a_range(api: Api, value: str, status: int):
    """settings 67"""
    answer = api.put("/settings", {"discovery_claim_alert_days": value})
    assert answer.status_code == status
    if status == 400:
        assert answer.content.decode() == "discovery_claim_alert_days must be between 1 and 29"


@pytest.mark.parametrize(("value", "status"), [("-1", 400), ("181", 400), ("0", 200), ("1", 200), ("180", 200)])
def test_the_age_of_pruning_has_a_range(api: Api, value: str, status: int):
    """settings 66"""
    assert options.current()[catalogue.MODEL_PRUNE_DAYS] == 7
    answer = api.put("/settings", {"model_prune_days": value})
    assert answer.status_code == status
    if status == 400:
        assert answer.content.decode() == "model_prune_days must be between 0 and 180"


def outstanding(told: list[events.Event]) -> list[Any]:
    return [event.metadata for event in told if event.type == "discovery.claims_outstanding"]


def test_an_alert_is_told_once_per_level(behind: Ports, told: list[events.Event]):
    """providers 6.11"""
    owner = provider()
    old = model(owner, "old")
    assert claims.alert(NOW) and not claims.alert(NOW)
    fresh = model(owner, "fresh", last_seen_at=NOW)
    assert claims.alert(NOW)
    fresh.delete()
    assert not claims.alert(NOW)
    model(owner, "refused", auto_retired_at=NOW)
    assert claims.alert(NOW)
    assert [(m["claim_count"], m["model_claims"], m["oldest_age_days"]) for m in outstanding(told)] == [
        (1, 1, 8),
        (2, 2, 8),
        (2, 2, 8),
    ]
    old.delete()
    assert not claims.alert(NOW)
    assert behind.noted[claims.LEVEL] == ""
    model(owner, "again")
    assert claims.alert(NOW)


def test_an_alert_counts_groups_and_leaves_out_what_an_operator_decided(behind: Ports, told: list[events.Event]):
    """providers 6.11"""
    owner, parked = provider(), provider("R", enabled=False)
    model(owner, "dismissed", discovery_dismissed_at=NOW)
    model(owner, "by-hand", disabled_manually=True)
    model(parked, "parked")
    assert not claims.alert(NOW)
    behind.groups_off = [GroupOff("glm", 3, 1, NOW - 8 * DAY)]
    assert claims.alert(NOW)
    (alert,) = outstanding(told)
    assert (alert["claim_count"], alert["model_claims"], alert["group_claims"]) == (1, 0, 1)
    assert alert["oldest_at"] == "2026-02-21T12:00:00Z" and alert["worst_providers"] == []
    (event,) = [event for event in told if event.type == "discovery.claims_outstanding"]
    assert (event.severity, event.source) == ("warning", "discovery")


def test_an_alert_waits_for_the_age_that_is_set(told: list[events.Event]):
    """providers 6.11"""
    model(provider(), "m", last_seen_at=NOW - 29 * DAY)
    stored("discovery_claim_alert_days", "30")
    assert not claims.alert(NOW)
    assert claims.alert(NOW + timedelta(seconds=1))
    assert outstanding(told)[0]["threshold_days"] == 29
