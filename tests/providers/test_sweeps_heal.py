"""Sweeps with the real failover groups behind the port: what a model that goes takes along, and what brings it back."""

from typing import Any

import pytest

from failover.models import FailoverGroup
from modelhotel import wiring
from modelhotel.core import catalogue, options, snapshots
from modelhotel.core.actor import ADMIN
from modelhotel.core.clock import SYSTEM
from modelhotel.settings_verbs import update
from providers.models import DiscoveryChange, Model
from tests.providers.conftest import Ports
from tests.providers.sweeping import House, of_type, provider_row
from tests.upstream.server import FakeProvider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


def groups() -> dict[str, tuple[bool, int]]:
    """Name -> (enabled, members)."""
    rows = FailoverGroup.objects.values_list("display_model", "group_enabled", "priority_order")
    return {name: (on, len(order)) for name, on, order in rows}


def custom_group(name: str, model_id: str) -> None:
    members = [str(pk) for pk in Model.objects.filter(model_id=model_id).values_list("pk", flat=True)]
    now = SYSTEM.now()
    FailoverGroup.objects.create(display_model=name, priority_order=members, auto_created=False, updated_at=now)


def newest(name: str) -> Any:
    rows = DiscoveryChange.objects.filter(provider_name=name).order_by("-detected_at")
    return rows.values_list("diff", flat=True).first()


def test_groups_follow_a_model_that_goes_and_comes_back(house: House, behind: Ports):
    """part of providers 29. The groups, with the rooms of the product."""
    wiring._providers()  # the fixture *behind* puts back what was there before it
    with FakeProvider(models=["glm", "kimi"]) as a, FakeProvider(models=["glm", "kimi"]) as b:
        for name, upstream in (("A", a), ("B", b)):
            house.provider(upstream, name=name)
        custom_group("mine", "glm")
        assert groups() == {"glm": (True, 2), "kimi": (True, 2), "mine": (True, 2)}
        a.models = ["kimi"]
        house.sweep()
        assert groups() == {"glm": (True, 2), "kimi": (True, 2), "mine": (True, 2)}
        house.sweep()
        assert groups() == {"kimi": (True, 2), "mine": (False, 2)}
        told = newest("A")
        assert told["disabled"] == [{"model_id": "glm", "reason": "not_listed"}]
        assert [one["display_model"] for one in told["failover_deleted_groups"]] == ["glm"]
        assert [(one["display_model"], one["effective_count"]) for one in told["failover_disabled_groups"]] == [
            ("mine", 1)
        ]
        a.models = ["glm", "kimi"]
        house.sweep()
        assert groups()["glm"] == (True, 2)
        back = newest("A")
        assert back["reenabled"] == [{"model_id": "glm", "reason": "reappeared"}]
        assert [one["display_model"] for one in back["failover_updated_groups"]] == ["glm"]


def test_a_group_that_nobody_touched_is_healed_at_the_end_of_a_sweep(house: House, behind: Ports):
    wiring._providers()
    with FakeProvider(models=["glm"]) as a, FakeProvider(models=["glm"]) as b:
        for name, upstream in (("A", a), ("B", b)):
            house.provider(upstream, name=name)
        house.api.put(f"/providers/{provider_row('B').pk}", {"autodiscovery_enabled": False})
        house.api.put(f"/providers/{provider_row('A').pk}", {"autodiscovery_enabled": False})
        FailoverGroup.objects.all().delete()
        house.api.provider(a, name="C")
        house.sweep()
    assert groups()["glm"] == (True, 3)


def test_models_that_stay_away_are_deleted_by_a_later_sweep(house: House, behind: Ports):
    """A model that has been gone for longer than model_prune_days, and the groups that held it."""
    wiring._providers()
    with FakeProvider(models=["glm", "kimi"]) as a, FakeProvider(models=["glm", "kimi"]) as b:
        for name, upstream in (("A", a), ("B", b)):
            house.provider(upstream, name=name)
        gone = Model.objects.get(model_id="glm", provider__name="A")
        custom_group("mine", "glm")
        Model.objects.filter(pk=gone.pk).update(enabled=False, last_seen_at="2026-01-01T00:00:00Z")
        a.models = ["kimi"]
        update({"model_prune_days": "0"}, ADMIN)
        assert of_type(house.sweep(), "discovery.complete")[0]["models_pruned"] == 0
        update({"model_prune_days": "7"}, ADMIN)
        assert options.current()[catalogue.MODEL_PRUNE_DAYS] == 7
        assert of_type(house.sweep(), "discovery.complete")[0]["models_pruned"] == 1
    snapshots.refresh_all()
    assert not Model.objects.filter(pk=gone.pk).exists()
    assert groups() == {"kimi": (True, 2), "mine": (False, 1)}
