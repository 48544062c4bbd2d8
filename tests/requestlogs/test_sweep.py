"""Stale rows and retention, with a clock of our own."""

from datetime import timedelta

import pytest

from modelhotel.core import events, snapshots
from modelhotel.core.clock import SYSTEM, ManualClock
from modelhotel.models import Setting
from requestlogs import sweep
from requestlogs.models import AppLog, RequestLog

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture
def wall():
    return ManualClock(SYSTEM.now())


def row(wall, age, **fields):
    created = wall.now() - timedelta(seconds=age)
    values = {"request_hash": "a" * 16, "state": "completed", "endpoint_type": "chat", "model_id": "m", **fields}
    return RequestLog.objects.create(created_at=created, **values)


def setting(key, value):
    Setting.objects.update_or_create(key=key, defaults={"value": value})
    snapshots.refresh(["settings"])


def test_a_row_in_flight_nobody_refreshes_is_closed(wall):
    """operations 19"""
    seen = []
    events.subscribe(seen.append)
    old = row(wall, 1900, state="streaming", status_code=200)
    alive = row(wall, 1900, state="streaming", heartbeat_at=wall.now() - timedelta(seconds=30))
    young = row(wall, 60, state="pending")
    assert sweep.stale(wall) == 1
    old.refresh_from_db()
    assert (old.state, old.error_kind, old.error_message) == ("failed", "internal", "request interrupted (stale)")
    assert old.status_code == 200
    assert {r.state for r in RequestLog.objects.filter(pk__in=[alive.pk, young.pk])} == {"streaming", "pending"}
    assert [e.type for e in seen] == ["logs.stale_cleanup"]


def test_zero_switches_the_periodic_pass_off(wall):
    """operations 18"""
    setting("stale_request_timeout", "0s")
    row(wall, 999_999, state="pending")
    assert sweep.stale(wall) == 0


@pytest.mark.parametrize(
    ("value", "left"), [("", 3), ("0s", 3), ("0", 3), ("1d", 1), ("1w", 2), ("1m", 3), ("60s", 0), ("bogus", 3)]
)
def test_retention_deletes_by_age_and_one_m_is_a_month(wall, value, left):
    """settings 19, settings 20, settings 22"""
    for age in (3600, 3 * 86400, 20 * 86400):
        row(wall, age)
    setting("log_retention", value)
    sweep.retention(wall)
    assert RequestLog.objects.count() == left


def test_rows_in_flight_are_never_pruned(wall):
    row(wall, 10 * 86400, state="pending")
    setting("log_retention", "60s")
    assert sweep.retention(wall) == 0


def test_retention_works_in_chunks(wall, monkeypatch):
    monkeypatch.setattr(sweep, "CHUNK", 3)
    for _ in range(8):
        row(wall, 100)
    assert sweep.delete_before(None) == 8


@pytest.mark.parametrize(("value", "left"), [("", 3), ("1d", 1), ("1w", 2), ("60s", 0), ("bogus", 3)])
def test_retention_takes_log_lines_of_the_same_age(wall, value, left):
    """settings 20, settings 21, settings 22"""
    for age in (3600, 3 * 86400, 20 * 86400):
        said = wall.now() - timedelta(seconds=age)
        AppLog.objects.create(timestamp=said, created_at=said, level="info", source="a", message="a: b")
    setting("log_retention", value)
    assert sweep.retention(wall) == 3 - left
    assert AppLog.objects.count() == left
