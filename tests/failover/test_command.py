"""``manage.py sync_failover_groups``."""

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError

from failover import resolve, sync
from failover.models import FailoverGroup
from modelhotel.core import snapshots
from tests.failover import world as w

pytestmark = pytest.mark.database
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def run(*arguments):
    """(exit code, stdout, stderr)"""
    out, err = StringIO(), StringIO()
    code = 0
    try:
        call_command("sync_failover_groups", *arguments, stdout=out, stderr=err)
    except SystemExit as left:
        code = left.code
    return code, out.getvalue(), err.getvalue()


def unsettle(world):
    """Something for every section of the output."""
    w.group("mine", world.m1, UNKNOWN)
    w.group("gone", world.m1, world.m2, auto_created=True)
    w.model(world.p1, "solo")
    w.group("solo", world.m1, world.m2, auto_created=True)
    kimi = [w.model(world.p1, "kimi"), w.model(world.p2, "kimi")]
    w.group("kimi", kimi[0], world.m1, auto_created=True)


LINES = """\
Synced 2 failover groups.
Created hotel/glm-4.6 (2 members)
Updated hotel/kimi (+1 -1 members)
Deleted hotel/solo: only 1 enabled provider (need 2+ for failover) (OpenRouter)
Deleted hotel/gone: no enabled providers found
Purged hotel/mine: 1 stale entries
Disabled hotel/mine: fewer than 2 routable members (need 2+ for failover) (1 routable)
"""


def test_the_text_output(world):
    """routing 68"""
    unsettle(world)
    before = list(FailoverGroup.objects.order_by("display_model").values())
    assert run("--dry-run") == (0, "Dry run: no changes were written.\n" + LINES, "")
    assert list(FailoverGroup.objects.order_by("display_model").values()) == before
    assert sync.last_synced() is None
    assert run() == (0, LINES, "")
    assert sync.last_synced() is not None
    assert run() == (0, "Synced 2 failover groups.\nNo changes.\n", "")


def test_the_json_output_is_the_answer_of_the_api(world):
    """routing 68"""
    unsettle(world)
    code, dry, err = run("--json", "--dry-run")
    expected = {**sync.full(dry_run=True).body()}
    assert (code, json.loads(dry), err) == (0, expected, "")
    assert json.loads(dry)["dry_run"] is True
    code, wet, err = run("--json")
    assert (code, {**json.loads(wet), "dry_run": True}, err) == (0, expected, "")
    assert json.loads(run("--json")[1]) == {"deleted_groups": None}


def test_a_base_that_can_not_be_synced_is_exit_code_1(world, monkeypatch):
    """routing 68"""

    def failing(self, step, new_id):
        raise DatabaseError("no\nroom")

    monkeypatch.setattr(sync._Run, "_write", failing)
    assert run() == (1, "Synced 0 failover groups.\nNo changes.\n", "Sync error: glm-4.6: no room\n")
    code, out, _ = run("--json")
    assert (code, json.loads(out)) == (1, {"deleted_groups": None, "sync_errors": ["glm-4.6: no room"]})


def test_a_sync_that_fails_says_so_without_a_traceback(world, monkeypatch):
    """routing 68"""

    def broken():
        raise DatabaseError("gone")

    monkeypatch.setattr(sync, "read_rows", broken)
    with pytest.raises(CommandError, match=r"^failed to sync failover groups: gone$"):
        run()
    with pytest.raises(DatabaseError):
        run("--traceback")


def test_running_processes_learn_of_it(world):
    """routing 68. The command raises the version that every process watches."""
    snapshots.refresh_all()
    before = dict(snapshots.read_versions())
    run("--dry-run")
    assert dict(snapshots.read_versions()) == before
    run()
    assert snapshots.read_versions()["groups"] == before.get("groups", 0) + 1
    assert "glm-4.6" in resolve.SNAPSHOT.current.groups
