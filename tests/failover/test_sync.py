"""Automatic maintenance against the database."""

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from failover import maintenance, ports, resolve, sync, verbs
from failover.models import FailoverGroup
from modelhotel.core import events, snapshots
from modelhotel.core.actor import ADMIN
from modelhotel.core.clock import ManualClock
from providers import ports as provider_ports
from providers.models import Model, Provider
from tests.failover import world as w

pytestmark = pytest.mark.database
ONE_LEFT = "only 1 enabled provider (need 2+ for failover)"
TOO_FEW = "fewer than 2 routable members (need 2+ for failover)"


def versions():
    return dict(snapshots.read_versions())


def test_a_full_sync_creates_the_auto_group(world, config_events):
    """routing 26"""
    result = sync.full()
    made = w.stored("glm-4.6")
    assert (made.auto_created, made.group_enabled, made.entry_enabled) == (True, True, {})
    assert made.priority_order == w.ids(world.m1, world.m2)
    assert result.body() == {"deleted_groups": None}
    assert config_events == [{"kind": "failover_group", "id": str(made.id), "action": "created", "actor": "system"}]
    assert [live.model.id for live in resolve.SNAPSHOT.current.groups["glm-4.6"].live] == made.priority_order


def test_rows_count_not_providers(world):
    """routing 27, routing 28, routing 29"""
    one, two = w.model(world.p1, "glm-9"), w.model(world.p1, "z-ai/glm-9")
    big, small = w.model(world.p1, "GLM-5.1"), w.model(world.p2, "org/glm-5.1")
    w.model(world.p1, "openai/")
    w.model(world.p2, "openai/")
    assert sync.full().errors == []
    assert w.stored("glm-9").priority_order == w.ids(one, two)
    assert w.stored("glm-5.1").priority_order == w.ids(big, small)
    assert set(FailoverGroup.objects.values_list("display_model", flat=True)) == {"glm-4.6", "glm-9", "glm-5.1"}


def test_an_operators_order_survives_a_new_member(world):
    """routing 30"""
    sync.full()
    made = w.stored("glm-4.6")
    order = w.ids(world.m2, world.m1)
    verbs.update(str(made.id), {"priority_order": order, "entry_enabled": {str(world.m1.pk): False}}, ADMIN)
    third = w.model(world.p3, "glm-4.6")
    result = sync.full()
    after = w.stored("glm-4.6")
    assert after.priority_order == [*order, str(third.pk)]
    assert after.entry_enabled == {str(world.m1.pk): False}
    assert after.auto_created
    assert result.updated_groups() == [{"display_model": "glm-4.6", "added_model_ids": w.ids(third)}]


def test_a_model_switched_off_takes_the_auto_group_with_it(world):
    """routing 31"""
    sync.full()
    Model.objects.filter(pk=world.m2.pk).update(enabled=False, disabled_manually=True)
    assert sync.full().body() == {
        "deleted_groups": [
            {
                "display_model": "glm-4.6",
                "reason": ONE_LEFT,
                "provider_count": 1,
                "provider_names": ["OpenRouter"],
            }
        ]
    }
    assert not FailoverGroup.objects.exists()
    Model.objects.filter(pk=world.m2.pk).update(enabled=True)
    sync.full()
    assert w.stored("glm-4.6").priority_order == w.ids(world.m1, world.m2)


def test_no_row_left(world):
    """routing 32"""
    sync.full()
    Model.objects.all().delete()
    assert sync.full().deleted_groups() == [
        {
            "display_model": "glm-4.6",
            "reason": "no enabled providers found",
            "provider_count": 0,
            "provider_names": [],
        }
    ]


def test_the_switch_of_an_auto_group_does_not_stick(world):
    """routing 33"""
    sync.full()
    made = w.stored("glm-4.6")
    order, toggles = w.ids(world.m2, world.m1), {str(world.m1.pk): False}
    changed = {"priority_order": order, "entry_enabled": toggles, "group_enabled": False}
    assert verbs.update(str(made.id), changed, ADMIN).auto_disabled
    sync.full()
    after = w.stored("glm-4.6")
    assert (after.group_enabled, after.auto_disabled_at, after.floor_disabled_at) == (True, None, None)
    assert (after.priority_order, after.entry_enabled) == (order, toggles)


def test_a_custom_group_keeps_a_base_name(world):
    """routing 34"""
    custom = w.group("glm-9", world.m1, world.m2)
    w.model(world.p1, "glm-9")
    w.model(world.p2, "glm-9")
    sync.full()
    after = w.stored("glm-9")
    assert (after.pk, after.auto_created, after.priority_order) == (custom.pk, False, w.ids(world.m1, world.m2))
    verbs.delete(str(custom.pk), ADMIN)
    sync.full()
    assert w.stored("glm-9").auto_created


def test_a_custom_group_below_two_is_switched_off_and_never_on_again(world):
    """routing 35"""
    w.group("mine", world.m1, world.m2)
    Model.objects.filter(pk=world.m2.pk).update(enabled=False)
    assert sync.full().body() == {
        "deleted_groups": None,
        "disabled_groups": [{"display_model": "mine", "effective_count": 1, "reason": TOO_FEW}],
    }
    off = w.stored("mine")
    assert (off.group_enabled, off.auto_disabled, off.priority_order) == (False, True, w.ids(world.m1, world.m2))
    assert sync.full().body() == {"deleted_groups": None}
    Model.objects.filter(pk=world.m2.pk).update(enabled=True)
    sync.full()
    assert not w.stored("mine").group_enabled


def test_a_toggle_is_no_reason_to_switch_a_group_off(world):
    """routing 36"""
    w.group("mine", world.m1, world.m2, entry_enabled={str(world.m2.pk): False})
    sync.full()
    assert w.stored("mine").group_enabled


def test_a_custom_group_is_not_deleted_when_its_models_are_gone(world):
    """routing 37"""
    w.group("mine", world.m1, world.m2)
    gone = w.ids(world.m1, world.m2)
    Model.objects.all().delete()
    assert sync.full().body() == {
        "deleted_groups": None,
        "purged_entries": [{"group_display_model": "mine", "pruned_model_ids": gone}],
        "disabled_groups": [{"display_model": "mine", "effective_count": 0, "reason": TOO_FEW}],
    }
    after = w.stored("mine")
    assert (after.priority_order, after.group_enabled) == ([], False)


@pytest.mark.parametrize("stamp", [None, w.T0])
def test_pruning_is_nobodys_opinion_about_the_switch(world, stamp):
    """routing 38"""
    w.group("mine", world.m1, world.m2, group_enabled=False, auto_disabled_at=stamp)
    gone = str(world.m2.pk)
    world.m2.delete()
    result = sync.prune([gone])
    assert [step.removed for step in result.pruned] == [[gone]]
    after = w.stored("mine")
    assert (after.priority_order, after.group_enabled, after.auto_disabled_at) == (w.ids(world.m1), False, stamp)
    assert after.auto_disabled is (stamp is not None)


def test_pruning_one_model_touches_only_the_groups_that_hold_it(world):
    third = w.model(world.p3, "m1")
    stale = w.group("stale", "00000000-0000-4000-8000-000000000000", world.m1, world.m2)
    w.group("mine", world.m1, third)
    w.group("small", world.m1)
    gone = str(third.pk)
    third.delete()
    result = sync.prune([gone, "nonsense", str(world.m1.pk)])
    assert w.stored("mine").priority_order == w.ids(world.m1)
    assert not w.stored("mine").group_enabled, "its custom group is revalidated"
    assert w.stored("small").group_enabled, "no other group is"
    assert w.stored("stale").priority_order == stale.priority_order
    assert result.disabled_groups() == [{"display_model": "mine", "effective_count": 1, "reason": TOO_FEW}]


def test_nothing_to_do_writes_nothing_but_the_stamp(world, config_events):
    """routing 39"""
    clock = ManualClock()
    sync.full(clock=clock)
    config_events.clear()
    before, updated = versions(), w.stored("glm-4.6").updated_at
    clock.advance(60)
    assert sync.full(clock=clock).body() == {"deleted_groups": None}
    assert sync.last_synced() == "2026-01-01T12:01:00Z"
    assert (versions(), w.stored("glm-4.6").updated_at, config_events) == (before, updated, [])


def test_one_base_that_can_not_be_written_does_not_stop_the_others(world, monkeypatch):
    """routing 40"""
    sync.full()
    w.model(world.p3, "glm-4.6")
    one, two = w.model(world.p1, "kimi"), w.model(world.p2, "kimi")
    write = sync._Run._write

    def failing(self, step, new_id):
        if isinstance(step, sync.Refresh):
            FailoverGroup.objects.create(display_model=step.group.name, updated_at=self.now)
        write(self, step, new_id)

    monkeypatch.setattr(sync._Run, "_write", failing)
    result = sync.full()
    [problem] = result.body()["sync_errors"]
    assert problem.startswith("glm-4.6: ") and "\n" not in problem
    assert w.stored("glm-4.6").priority_order == w.ids(world.m1, world.m2)
    assert w.stored("kimi").priority_order == w.ids(one, two)
    assert result.auto_groups == 2


def test_a_failing_read_fails_the_sync(world, monkeypatch):
    def broken():
        raise DatabaseError("gone")

    monkeypatch.setattr(sync, "read_rows", broken)
    with pytest.raises(DatabaseError):
        sync.full()
    assert sync.last_synced() is None


def test_a_scan_reports_what_happened_to_groups(world):
    """part of routing 41. What a scan calls; scans that disable are still to come."""
    sync.full()
    w.group("mine", world.m1, world.m2)
    Model.objects.filter(pk=world.m2.pk).update(enabled=False)
    diff = maintenance.MAINTENANCE.sync_models([world.m2.model_id], stamp=True, revalidate=True)
    assert diff == {
        "failover_deleted_groups": [
            {"display_model": "glm-4.6", "reason": ONE_LEFT, "provider_count": 1, "provider_names": []}
        ],
        "failover_disabled_groups": [{"display_model": "mine", "effective_count": 1, "reason": TOO_FEW}],
    }
    assert sync.last_synced() is not None


def test_a_scan_publishes_what_could_not_be_synced(world, monkeypatch):
    """A13: one event per base name, and the scan goes on."""

    def failing(self, step, new_id):
        raise DatabaseError("no room")

    seen = []
    events.subscribe(seen.append)
    monkeypatch.setattr(sync._Run, "_write", failing)
    assert maintenance.MAINTENANCE.sync_models(["kimi", "z-ai/GLM-4.6"]) == {}
    assert seen == []
    assert maintenance.MAINTENANCE.sync_models(["kimi", "z-ai/GLM-4.6"], stamp=True) == {}
    [event] = seen
    assert (event.type, event.severity, event.source) == ("failover.sync_error", "warning", "discovery")
    assert event.message == "Failover sync failed for model 'z-ai/GLM-4.6'"
    assert event.metadata == {"error": "no room", "model_id": "z-ai/GLM-4.6"}


def test_a_sync_of_one_name_reports_members_and_then_nothing(world):
    """routing 42"""
    w.model(world.p1, "kimi")
    w.model(world.p2, "kimi")
    sync_models = maintenance.MAINTENANCE.sync_models
    assert sync_models(["any/GLM-4.6", "glm-4.6", "openai/"]) == {
        "failover_updated_groups": [{"display_model": "glm-4.6", "added_model_ids": w.ids(world.m1, world.m2)}]
    }
    assert sync_models(["glm-4.6"]) == {}
    assert not FailoverGroup.objects.filter(display_model="kimi").exists()
    assert sync.last_synced() is None
    world.m1.delete()
    third = w.model(world.p3, "glm-4.6")
    [changed] = sync_models(["glm-4.6"])["failover_updated_groups"]
    assert changed["added_model_ids"] == w.ids(third)
    assert len(changed["removed_model_ids"]) == 1


def test_a_failing_count_switches_nothing_off(world, monkeypatch):
    """routing 44"""
    w.group("mine", world.m1)

    def broken():
        raise DatabaseError("gone")

    monkeypatch.setattr(sync, "read_rows", broken)
    assert sync.revalidate().disabled == []
    assert w.stored("mine").group_enabled


def test_a_sync_that_changes_several_groups_publishes_one_event(world, config_events):
    """part of routing 98. The part about a sync."""
    w.model(world.p1, "kimi")
    w.model(world.p2, "kimi")
    w.group("mine", world.m1)
    sync.full()
    assert config_events == [{"kind": "failover_group", "id": "", "action": "updated", "actor": "system"}]


def test_the_number_of_queries_does_not_grow_with_the_catalogue(world):
    def count():
        with CaptureQueriesContext(
            connection,
        ) as found:
            sync.full()
        return len(found)

    sync.full()
    few = count()
    for at in range(40):
        w.model(world.p1, f"m{at}")
        w.model(world.p2, f"m{at}")
    sync.full()
    assert FailoverGroup.objects.count() == 41
    assert count() == few


def test_a_dry_run_reports_and_writes_nothing(world, config_events):
    """routing 68. The part about --dry-run."""
    w.group("mine", world.m1, "00000000-0000-4000-8000-000000000000")
    w.group("old", world.m1, world.m2, auto_created=True)
    before = (versions(), list(FailoverGroup.objects.values().order_by("display_model")))
    dry = sync.full(dry_run=True)
    assert dry.body()["dry_run"] is True
    assert [step.name for step in dry.created] == ["glm-4.6"]
    assert (versions(), list(FailoverGroup.objects.values().order_by("display_model"))) == before
    assert (sync.last_synced(), config_events) == (None, [])
    wet = sync.full().body()
    assert {**wet, "dry_run": True} == dry.body()


def test_a_stamp_that_can_not_be_stored_does_not_fail_the_sync(world, monkeypatch):
    def broken(key, value):
        raise DatabaseError("gone")

    monkeypatch.setattr(ports, "store_note", broken)
    assert sync.full().errors == []
    assert w.stored("glm-4.6").auto_created


def test_an_unusable_row_breaks_nothing(world):
    """An id edited by hand that is none is ignored by the table, the sync and the list."""
    w.group("odd", "nonsense", world.m1, entry_enabled=["nonsense"])
    w.group("odder", priority_order={"a": 1}, entry_enabled="x", group_enabled=False)
    assert sync.full().errors == []
    table = resolve.SNAPSHOT.current
    assert [entry.id for entry in table.groups["odd"].entries] == w.ids(world.m1)
    assert table.groups["odder"].entries == ()


def test_the_providers_floor_reaches_groups_through_its_port(world):
    """routing 31. What a provider verb calls after it switched a provider off, and on again."""
    groups = provider_ports.groups
    assert isinstance(groups, maintenance.Maintenance)
    groups.full_sync()
    Provider.objects.filter(pk=world.p2.pk).update(enabled=False)
    groups.full_sync()
    assert not FailoverGroup.objects.exists()
    Provider.objects.filter(pk=world.p2.pk).update(enabled=True)
    groups.full_sync()
    assert w.stored("glm-4.6").priority_order == w.ids(world.m1, world.m2)
    gone = str(world.m2.pk)
    w.group("mine", world.m1, world.m2)
    world.m2.delete()
    groups.sync_models(["zai-org/glm-4.6"])
    groups.prune_models([gone])
    groups.revalidate()
    assert w.stored("mine").priority_order == w.ids(world.m1)
    assert sync.last_synced() is None, "only scans, the button and the command stamp"


def test_the_groups_that_a_sync_switched_off_are_told_apart_from_those_an_operator_did(world):
    """part of providers 6.10"""
    w.group("mine", world.m1, world.m2)
    w.group("by-hand", world.m1, world.m2, group_enabled=False)
    Model.objects.filter(pk=world.m2.pk).update(enabled=False)
    sync.revalidate(clock=ManualClock())
    (off,) = maintenance.MAINTENANCE.switched_off()
    assert (off.display_model, off.members, off.routable) == ("mine", 2, 1)
    assert off.disabled_at == ManualClock().now()
    FailoverGroup.objects.filter(display_model="mine").update(group_enabled=True)
    assert maintenance.MAINTENANCE.switched_off() == []
