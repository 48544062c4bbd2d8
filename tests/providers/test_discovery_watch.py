"""When sweeps and rechecks run, and in which process."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from modelhotel.core import options
from modelhotel.core.clock import ManualClock
from modelhotel.core.options import REGISTRY
from modelhotel.models import Lease
from modelhotel.ops import leases
from providers.discovery import watch
from providers.discovery.watch import LOOK, DiscoveryWatch
from providers.models import Provider
from tests.wire.product import eventually

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]
HOUR = 3600.0


class Doer:
    """Stands for a sweeper and a rechecker: notes what it is asked for."""

    def __init__(self, log: list[str], who: str) -> None:
        self.log = log
        self.who = who
        self.during: Callable[[], object] = lambda: None

    def run(self, source: str = "Recheck") -> None:
        self.log.append(f"{self.who}{source}")
        self.during()

    def stop(self) -> None:
        self.log.append(f"{self.who}stopped")


class Fleet:
    """Processes that look at the same leases; everything they do lands in *log*."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.log: list[str] = []
        self.patch = monkeypatch
        self.settings(discovery_interval="6h", provider_recheck_interval="0", discovery_on_startup="false")

    def settings(self, **texts: str) -> None:
        stored = {**getattr(self, "stored", {}), **texts}
        self.stored = stored
        values = REGISTRY.values(stored, {})
        self.patch.setattr(options.SNAPSHOT, "current", values)
        for listener in list(options.SNAPSHOT.listeners):
            listener(values)

    def process(self, who: str = "") -> DiscoveryWatch:
        def inline(work: Callable[[], None]) -> None:
            work()

        doer = Doer(self.log, who)
        made = DiscoveryWatch(leases, who or "one", self.clock, doer, doer, inline)  # type: ignore[arg-type]
        made.doer = doer  # type: ignore[attr-defined]
        made._prepared = True
        for work in (made._scheduled, made._recheck):
            made._leave.append(options.on_change(work.option, lambda value, work=work, made=made: made._rearm(work)))
        return made

    def until(self, seconds: float, *processes: DiscoveryWatch) -> list[str]:
        """What is done in the next *seconds*; each process looks as often as it wants to."""
        self.log.clear()
        end = self.clock.now() + timedelta(seconds=seconds)
        while True:
            wait = min(process.turn() for process in processes)
            if any(process._wake.is_set() for process in processes):
                for process in processes:
                    process._wake.clear()
                continue
            left = (end - self.clock.now()).total_seconds()
            if left <= 0:
                return list(self.log)
            self.clock.advance(min(max(wait, 0.01), left))


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Nobody dies here, so nobody has to look often."""
    monkeypatch.setattr(watch, "LOOK", HOUR)
    return Fleet(monkeypatch)


@pytest.fixture
def looking(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setattr(watch, "LOOK", LOOK)
    return fleet


def test_the_first_sweep_comes_a_full_interval_after_the_start(fleet: Fleet):
    """part of providers 38"""
    one = fleet.process()
    assert fleet.until(6 * HOUR - 1, one) == []
    assert fleet.until(1, one) == ["Scheduled"]
    assert fleet.until(6 * HOUR - 1, one) == []
    assert fleet.until(12 * HOUR + 1, one) == ["Scheduled"] * 3


def test_another_interval_counts_from_the_change(fleet: Fleet):
    """part of providers 38"""
    one = fleet.process()
    assert fleet.until(5 * HOUR, one) == []
    fleet.settings(discovery_interval="30m")
    assert fleet.until(HOUR / 2 - 1, one) == []
    assert fleet.until(1, one) == ["Scheduled"]
    fleet.settings(discovery_interval="0")
    assert fleet.until(30 * HOUR, one) == []
    fleet.settings(discovery_interval="1h")
    assert fleet.until(HOUR - 1, one) == []
    assert fleet.until(1, one) == ["Scheduled"]


def test_an_interval_that_changes_during_a_sweep_counts_from_the_change(fleet: Fleet):
    one = fleet.process()

    def change() -> None:
        fleet.clock.advance(60)
        fleet.settings(discovery_interval="30m")
        one.turn()
        fleet.clock.advance(60)

    fleet.until(6 * HOUR - 1, one)
    one.doer.during = change  # type: ignore[attr-defined]
    assert fleet.until(1, one) == ["Scheduled"]
    one.doer.during = lambda: None  # type: ignore[attr-defined]
    assert fleet.until(HOUR / 2 - 61, one) == []
    assert fleet.until(1, one) == ["Scheduled"]


def test_one_process_of_all_sweeps(fleet: Fleet):
    a, b = fleet.process("a:"), fleet.process("b:")
    done = fleet.until(24 * HOUR + 1, a, b)
    assert len(done) == 4
    fleet.settings(discovery_interval="30m")
    assert len(fleet.until(HOUR / 2, a, b)) == 1, "each hears of the change, and one acts on it"


def test_a_process_that_dies_over_a_sweep_is_stood_in_for_within_a_minute(looking: Fleet):
    a, b = looking.process("a:"), looking.process("b:")
    looking.settings(discovery_interval="10m")
    looking.until(599, a, b)
    assert leases.claim(
        watch.SCHEDULED, "dead", looking.clock.now() + timedelta(seconds=1), looking.clock.now() + timedelta(seconds=46)
    )
    assert looking.until(44, b) == []
    assert looking.until(16, b) == ["b:Scheduled"]


def test_a_long_sweep_keeps_its_lease(looking: Fleet):
    a, b = looking.process("a:"), looking.process("b:")

    def long() -> None:
        for _ in range(30):
            looking.clock.advance(LOOK)
            a.turn()
            b.turn()

    a.doer.during = b.doer.during = long  # type: ignore[attr-defined]
    looking.settings(discovery_interval="10m")
    assert len(looking.until(600, a, b)) == 1


def test_a_start_sweeps_once(fleet: Fleet):
    """part of providers 38"""
    fleet.settings(discovery_on_startup="true")
    assert fleet.until(60, fleet.process()) == ["Startup"]


def test_a_start_within_five_minutes_of_a_scan_sweeps_nothing(fleet: Fleet):
    """providers 38. Restarted twice within five minutes: one sweep at the start."""
    fleet.settings(discovery_on_startup="true")
    row = Provider.objects.create(name="P", base_url="http://127.0.0.1/v1", provider_type="custom")
    Provider.objects.create(name="never", base_url="http://127.0.0.2/v1", provider_type="custom")
    first = fleet.process()

    def stamp() -> None:
        Provider.objects.filter(pk=row.pk).update(last_discovered_at=fleet.clock.now())

    first.doer.during = stamp  # type: ignore[attr-defined]
    assert fleet.until(100, first) == ["Startup"]
    assert fleet.until(100, fleet.process()) == []
    assert fleet.until(60, fleet.process()) == []
    fleet.clock.advance(40.5)
    assert fleet.until(60, fleet.process()) == ["Startup"]


def test_a_clock_that_is_set_back_costs_one_interval_at_most(looking: Fleet):
    """A machine may start with any date and learn the right one later."""
    looking.settings(discovery_on_startup="true", discovery_interval="6h", provider_recheck_interval="60s")
    row = Provider.objects.create(name="P", base_url="http://127.0.0.1/v1", provider_type="custom")
    looking.clock.advance(1000 * 24 * HOUR)
    Provider.objects.filter(pk=row.pk).update(last_discovered_at=looking.clock.now())
    one = looking.process()
    looking.until(5, one)
    looking.clock.advance(-1000 * 24 * HOUR)
    assert looking.until(2 * LOOK + 60, one) == ["Recheck"]
    done = looking.until(6 * HOUR, one)
    assert done.count("Scheduled") == 1 and done.count("Recheck") == 6 * 60
    assert "Startup" in looking.until(LOOK, looking.process()), "a scan of the future is not young"


def test_of_processes_that_start_together_one_sweeps(looking: Fleet):
    looking.settings(discovery_on_startup="true")
    Provider.objects.create(name="P", base_url="http://127.0.0.1/v1", provider_type="custom")
    a, b = looking.process("a:"), looking.process("b:")

    def stamp() -> None:
        b.turn()  # the other one looks meanwhile
        Provider.objects.update(last_discovered_at=looking.clock.now())

    a.doer.during = stamp  # type: ignore[attr-defined]
    assert looking.until(60, a, b) == ["a:Startup"]
    assert (a._startup, b._startup) == (None, None)


def test_a_sweep_of_the_start_whose_process_died_is_done_by_another(looking: Fleet):
    looking.settings(discovery_on_startup="true")
    assert leases.claim(watch.STARTUP, "dead", looking.clock.now(), looking.clock.now() + timedelta(seconds=45))
    one = looking.process()
    assert looking.until(44, one) == []
    assert looking.until(16, one) == ["Startup"]


def test_two_kinds_of_sweep_do_not_run_at_once(looking: Fleet):
    looking.settings(discovery_on_startup="true", discovery_interval="30s")
    Provider.objects.create(name="P", base_url="http://127.0.0.1/v1", provider_type="custom")
    a, b = looking.process("a:"), looking.process("b:")

    def long() -> None:
        a.doer.during = lambda: None  # type: ignore[attr-defined]
        for _ in range(12):
            looking.clock.advance(LOOK)
            a.turn()
            b.turn()
        looking.log.append("over")
        Provider.objects.update(last_discovered_at=looking.clock.now())

    a.doer.during = long  # type: ignore[attr-defined]
    done = looking.until(150, a, b)
    assert done[:2] == ["a:Startup", "over"] and "Scheduled" in done[2]


def test_rechecks_come_every_interval_and_not_at_all_when_switched_off(fleet: Fleet):
    """part of providers 61. 0 = no rechecks."""
    fleet.settings(discovery_interval="0", provider_recheck_interval="60s")
    one = fleet.process()
    assert fleet.until(59, one) == []
    assert fleet.until(121, one) == ["Recheck"] * 3
    fleet.settings(provider_recheck_interval="5s")
    assert fleet.until(15, one) == ["Recheck"] * 3
    fleet.settings(provider_recheck_interval="0")
    assert fleet.until(HOUR, one) == []


def test_rechecks_go_on_while_a_sweep_waits_for_its_proofs(looking: Fleet):
    looking.settings(provider_recheck_interval="60s", discovery_interval="10m")
    a = looking.process()

    def long() -> None:
        for _ in range(13):
            looking.clock.advance(LOOK)
            a.turn()

    a._scheduled.run = long
    looking.until(595, a)
    assert looking.until(5, a).count("Recheck") == 3, "one with the sweep, two during it"


def test_a_run_that_fails_is_logged_and_comes_again(fleet: Fleet, caplog: pytest.LogCaptureFixture):
    one = fleet.process()
    one.doer.during = lambda: 1 / 0  # type: ignore[attr-defined]
    assert fleet.until(12 * HOUR, one) == ["Scheduled"] * 2
    assert [record.getMessage() for record in caplog.records] == ["discovery: run failed"] * 2


def test_the_sweep_of_the_start_waits_for_models_dev(looking: Fleet):
    """part of providers 46. models.dev is asked before the first sweep."""
    looking.settings(discovery_on_startup="true")
    one = looking.process()
    one._prepared = False
    one._before = lambda: looking.log.append("models.dev")
    assert looking.until(30, one) == []
    one._prepare()
    assert looking.log == ["models.dev"]
    assert looking.until(LOOK, one) == ["Startup"]


# ---------------------------------------------------------------- the thread


class Store:
    """Leases that can be away."""

    def __init__(self) -> None:
        self.away = False

    def __getattr__(self, name: str) -> Any:
        if self.away:
            raise RuntimeError("the database is away")
        return getattr(leases, name)


def test_the_thread_notices_a_change_at_once_and_ends(fleet: Fleet):
    log: list[str] = []
    fleet.settings(discovery_interval="0")
    doer = Doer(log, "")
    one = DiscoveryWatch(leases, "one", sweeper=doer, rechecker=doer, before=list)  # type: ignore[arg-type]
    listeners = len(options.SNAPSHOT.listeners)
    one.start()
    assert eventually(lambda: not one._scheduled.changed)
    fleet.settings(discovery_interval="10ms")
    assert eventually(lambda: "Scheduled" in log)
    one.halt()
    one.stop()
    assert "stopped" in log and len(options.SNAPSHOT.listeners) == listeners
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("discovery")]
    assert set(Lease.objects.filter(name=watch.SCHEDULED).values_list("holder", flat=True)) == {""}, "given back"


def test_leases_that_can_not_be_read_are_looked_at_again(looking: Fleet, caplog: pytest.LogCaptureFixture):
    store = Store()
    store.away = True
    doer = Doer(looking.log, "")
    one = DiscoveryWatch(store, "one", looking.clock, doer, doer, lambda work: work())  # type: ignore[arg-type,func-returns-value]
    for _ in range(7):
        assert one._guarded_turn() == LOOK
        looking.clock.advance(LOOK)
    assert [record.getMessage() for record in caplog.records] == ["discovery: leases can not be read"] * 2
    store.away = False
    one._guarded_turn()
    looking.clock.advance(6 * HOUR)
    one._guarded_turn()
    assert looking.log == ["Scheduled"], "the interval was not lost on the way"
