"""A committed change reaches the snapshots, the version counter and the event bus."""

import pytest
from django.db import transaction

from modelhotel.config_store import read_versions
from modelhotel.core import actor, catalogue, changes, events, options, snapshots
from modelhotel.models import Setting

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


def write(value):
    with transaction.atomic():
        Setting.objects.update_or_create(key="request_timeout", defaults={"value": value})
        changes.record(["settings"], changes.Change("setting", "request_timeout", "updated"), actor.ADMIN)


def test_a_write_is_in_force_after_the_commit():
    seen = []
    events.subscribe(seen.append)
    before = read_versions().get("settings", 0)
    write("7s")
    assert options.current()[catalogue.REQUEST_TIMEOUT] == 7.0
    assert read_versions()["settings"] == before + 1
    assert [(e.type, e.message) for e in seen] == [("config.changed", "setting request_timeout updated")]


def test_a_rolled_back_write_changes_nothing():
    seen = []
    events.subscribe(seen.append)
    with pytest.raises(RuntimeError, match="stop"), transaction.atomic():
        Setting.objects.create(key="request_timeout", value="9s")
        changes.record(["settings"], changes.Change("setting", "request_timeout", "updated"), actor.ADMIN)
        raise RuntimeError("stop")
    assert options.current()[catalogue.REQUEST_TIMEOUT] == 60.0
    assert seen == []


def test_the_watcher_sees_what_another_process_wrote():
    snapshots.refresh_all()
    with transaction.atomic():
        Setting.objects.create(key="request_timeout", value="11s")
        changes.bump_versions(["settings"])
    assert options.current()[catalogue.REQUEST_TIMEOUT] == 60.0
    assert snapshots.refresh_behind() is True
    assert options.current()[catalogue.REQUEST_TIMEOUT] == 11.0
    assert snapshots.refresh_behind() is False


def test_a_bad_stored_value_reads_as_the_last_good_one_and_warns_once(caplog):
    write("20s")
    Setting.objects.filter(key="request_timeout").update(value="nonsense")
    for _ in range(3):
        snapshots.refresh(["settings"])
    assert options.current()[catalogue.REQUEST_TIMEOUT] == 20.0
    assert len([r for r in caplog.records if "ignored" in r.message]) == 1
