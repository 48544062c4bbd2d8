"""Providers that are switched off on a day that was set before."""

import datetime
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from modelhotel.core import events
from modelhotel.core.clock import SYSTEM, ManualClock
from modelhotel.core.leader import Job
from modelhotel.ops import services
from modelhotel.ops.jobs import LOOK, Jobs
from providers import cache, schedule
from providers.models import Provider
from tests.providers.conftest import Api, Ports
from tests.proxy import world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

DAY = datetime.timedelta(days=1)


@pytest.fixture
def told() -> list[events.Event]:
    found: list[events.Event] = []
    events.subscribe(lambda event: found.append(event) if event.type == "provider.scheduled_disable" else None)
    return found


def today() -> datetime.date:
    return SYSTEM.now().astimezone().date()


def row(name: str = "P") -> Provider:
    return Provider.objects.get(name=name)


def test_the_day_of_today_switches_off_once_and_is_cleared(api: Api, behind: Ports, told: list[events.Event]):
    """providers 15"""
    made = api.provider()
    path = f"/providers/{made['id']}"
    for refused in (str(today() - DAY), "2026-02-30", "tomorrow", 5):
        assert api.put(path, {"scheduled_disable_on": refused}).status_code == 400
    assert api.put(path, {"scheduled_disable_on": str(today())}).status_code == 200
    behind.calls.clear()
    assert schedule.disable_due() == ["P"]
    shown = api.get(path).json()
    assert (shown["enabled"], shown["scheduled_disable_on"]) == (False, None)
    assert not cache.SNAPSHOT.current.providers[made["id"]].enabled  # routing knows at once
    (event,) = told
    assert (event.severity, event.source) == ("warning", "providers")
    assert event.metadata == {"provider": "P", "provider_id": made["id"]}
    assert behind.calls == [("full_sync", None)]
    # Once: switched on again it stays on.
    assert api.put(path, {"enabled": True}).status_code == 200
    assert schedule.disable_due() == [] and row().enabled and len(told) == 1
    # By hand: the day that was set goes too.
    api.put(path, {"scheduled_disable_on": str(today() + DAY)})
    assert api.put(path, {"enabled": False}).json()["scheduled_disable_on"] is None
    # It is looked for within a minute, and at the start of every process.
    (job,) = [job for job in services.JOBS if job.run is schedule.disable_due]
    assert job.every + LOOK <= 60
    assert schedule.at_start in [service.start for service in services.services(None)]


def test_it_waits_for_the_midnight_of_the_server(api: Api, told: list[events.Event]):
    """part of providers 15"""
    made = api.provider()
    clock = ManualClock()
    day = clock.now().astimezone().date()
    Provider.objects.filter(pk=made["id"]).update(scheduled_disable_on=day + DAY)
    assert schedule.disable_due(clock) == []
    midnight = datetime.datetime.combine(day + DAY, datetime.time()).astimezone()
    clock.advance((midnight - clock.now()).total_seconds() - 1)
    assert schedule.disable_due(clock) == []
    clock.advance(2)
    assert schedule.disable_due(clock) == ["P"] and len(told) == 1


def test_what_came_due_while_nobody_ran_fires_at_the_start(api: Api, told: list[events.Event]):
    """part of providers 15"""
    made = api.provider()
    Provider.objects.filter(pk=made["id"]).update(scheduled_disable_on=today() - 3 * DAY)
    schedule.at_start()
    assert not row().enabled and len(told) == 1


def test_a_start_goes_on_when_the_sweep_fails(api: Api, monkeypatch: pytest.MonkeyPatch, caplog):
    def broken() -> None:
        raise RuntimeError("no database")

    monkeypatch.setattr(schedule, "disable_due", broken)
    schedule.at_start()
    assert "effect of a change failed" in caplog.text


def test_one_sync_for_all_of_a_day_and_disabled_ones_keep_their_day(behind: Ports, told: list[events.Event], api: Api):
    for name in ("b", "a", "c"):
        world.provider(name, scheduled_disable_on=today(), enabled=name != "c")
    world.provider("d")
    assert schedule.disable_due() == ["a", "b"]
    assert [event.metadata["provider"] for event in told] == ["a", "b"]
    assert behind.calls == [("full_sync", None)]
    assert row("c").scheduled_disable_on == today() and row("d").enabled


def test_a_group_sync_that_fails_leaves_the_provider_off(behind: Ports, told: list[events.Event], api: Api):
    world.provider("P", scheduled_disable_on=today())
    behind.broken = True
    assert schedule.disable_due() == ["P"]
    assert not row().enabled and len(told) == 1


def test_of_several_processes_one_switches_off(told: list[events.Event], api: Api):
    world.provider("P", scheduled_disable_on=today())
    gate = threading.Barrier(4)

    def process() -> list[str]:
        try:
            gate.wait(10)
            return schedule.disable_due()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        found = [running.result() for running in [pool.submit(process) for _ in range(4)]]
    assert sorted(found) == [[], [], [], ["P"]] and len(told) == 1


def test_a_sweep_under_way_is_finished_by_a_stop(told: list[events.Event], api: Api):
    world.provider("P", scheduled_disable_on=today())
    begun, go_on = threading.Event(), threading.Event()

    def sweep() -> None:
        begun.set()
        go_on.wait(10)
        schedule.disable_due()

    jobs = Jobs([Job("job:test", 300.0, sweep)], "me")
    jobs.start()
    assert begun.wait(10)
    jobs.stop()
    go_on.set()
    assert services.JOIN >= 10 and jobs.join(services.JOIN)
    assert not row().enabled and len(told) == 1
