"""When providers are swept and rechecked: by one process of all, at instants that all of them read from the leases.

A lease that nobody holds says when its work is due; whoever claims it does the work, keeps it while that takes, and
gives it back with the next instant. A process that dies over it holds it for ``RUN_LEASE`` at most.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from django.db.models import Max

from modelhotel.core import catalogue, options
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.leader import RUN_LEASE, Leases
from modelhotel.core.options import Option
from modelhotel.core.threads import released
from providers.discovery import modelsdev
from providers.discovery.recheck import Rechecker
from providers.discovery.sweep import Sweeper
from providers.models import Provider

log = logging.getLogger("discovery")

#: The leases.
STARTUP, SCHEDULED, RECHECK = "discovery-startup", "discovery-sweep", "discovery-recheck"
#: Seconds between two looks at the leases; several fit into RUN_LEASE.
LOOK = 10.0
#: A start sweeps nothing when some provider was scanned less than this long ago.
FRESH = timedelta(minutes=5)
WARN_EVERY = 60.0
_JOIN_SECONDS = 10.0


class DueLeases(Leases, Protocol):
    """Leases that can also be looked at and set while nobody holds them; the shell's ``ops/leases.py``."""

    def give_back(self, name: str, holder: str, until: datetime) -> bool: ...

    def arm(self, name: str, now: datetime, until: datetime) -> None: ...

    def look(self, names: Collection[str]) -> Mapping[str, tuple[str, datetime]]: ...


class _Work:
    """Something that is done under a lease. *option*: every so many seconds, 0 = never; None: once."""

    def __init__(self, name: str, run: Callable[[], object], option: Option[float] | None = None) -> None:
        self.name = name
        self.run = run
        self.option = option
        self.armed: datetime | None = None  # since when the interval counts
        self.changed = True  # the interval is another one, or the process is new
        self.running = False

    @property
    def every(self) -> float:
        return options.current()[self.option] if self.option else 0.0


def _spawn(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=released, args=(work,), name="discovery", daemon=True)
    thread.start()
    return thread


class DiscoveryWatch:
    """A thread that sleeps until something is due (:meth:`turn`) or changed. *holder* names this process.

    *spawn* runs a sweep or a recheck elsewhere; *before* is what the sweep of the start waits for.
    """

    def __init__(
        self,
        leases: DueLeases,
        holder: str,
        clock: Clock = SYSTEM,
        sweeper: Sweeper | None = None,
        rechecker: Rechecker | None = None,
        spawn: Callable[[Callable[[], None]], threading.Thread | None] = _spawn,
        before: Callable[[], object] = modelsdev.load,
    ) -> None:
        self._leases = leases
        self._holder = holder
        self._clock = clock
        self._sweeper = sweeper or Sweeper()
        self._rechecker = rechecker or Rechecker()
        self._spawn = spawn
        self._before = before
        self._prepared = False
        self._scheduled = _Work(SCHEDULED, lambda: self._sweeper.run("Scheduled"), catalogue.DISCOVERY_INTERVAL)
        self._recheck = _Work(RECHECK, self._rechecker.run, catalogue.PROVIDER_RECHECK_INTERVAL)
        self._startup: _Work | None = _Work(STARTUP, self._sweep_at_start)
        self._looking: threading.Thread | None = None
        self._threads: list[threading.Thread] = []
        self._wake = threading.Event()
        self._stopped = False
        self._warned = float("-inf")
        self._leave: list[Callable[[], object]] = []

    def start(self) -> None:
        for work in (self._scheduled, self._recheck):
            assert work.option is not None
            self._leave.append(options.on_change(work.option, lambda value, work=work: self._rearm(work)))  # type: ignore[misc]
        # Not waited for at the end: it hangs on the network of somebody else for a while.
        threading.Thread(target=self._prepare, name="models.dev", daemon=True).start()
        self._looking = threading.Thread(target=self._run, name="discovery-watch", daemon=True)
        self._looking.start()

    def halt(self) -> None:
        """Nothing new begins; what runs is cut off."""
        self._stopped = True
        while self._leave:
            self._leave.pop()()
        self._sweeper.stop()
        self._rechecker.stop()
        self._wake.set()

    def stop(self) -> None:
        self.halt()
        if self._looking is not None:  # first: after it nothing begins
            self._looking.join(_JOIN_SECONDS)
        for thread in list(self._threads):
            thread.join(_JOIN_SECONDS)

    def turn(self) -> float:
        """Do what is due. Seconds until the next look."""
        now = self._clock.now()
        for work in (self._scheduled, self._recheck):
            self._keep_armed(work, now)
        seen = self._leases.look((STARTUP, SCHEDULED, RECHECK))
        waits = [LOOK]
        if self._startup is not None:
            self._once(self._startup, seen, now)
        for work in (self._scheduled, self._recheck):
            if wait := self._regularly(work, seen, now):
                waits.append(wait)
        return min(waits)

    def _prepare(self) -> None:
        try:
            self._before()
        finally:
            self._prepared = True
            self._wake.set()

    def _rearm(self, work: _Work) -> None:
        work.changed = True
        self._wake.set()

    def _keep_armed(self, work: _Work, now: datetime) -> None:
        if not work.changed:
            return
        work.changed, work.armed = False, now
        try:
            if work.every:
                self._leases.arm(work.name, now, now + timedelta(seconds=work.every))
        except Exception:
            work.changed = True
            raise

    def _regularly(self, work: _Work, seen: Mapping[str, tuple[str, datetime]], now: datetime) -> float | None:
        """Seconds until the work is due, None = until it is over or switched on."""
        if work.running:
            self._leases.move(work.name, self._holder, now + RUN_LEASE)
            return None
        if not work.every:
            return None
        holder, due = seen.get(work.name, ("", now))
        if due > now:
            if not holder and due > now + timedelta(seconds=work.every):
                work.changed = True  # noted by a clock that was wrong, or before a change this process heard of first
            return (due - now).total_seconds()
        if work is not self._scheduled or not self._under_way(STARTUP, seen, now):
            self._begin(work, now)
        return None

    def _once(self, work: _Work, seen: Mapping[str, tuple[str, datetime]], now: datetime) -> None:
        """The sweep of the start: looked for until some process has done it."""
        if work.running:
            self._leases.move(work.name, self._holder, now + RUN_LEASE)
        elif not options.current()[catalogue.DISCOVERY_ON_STARTUP]:
            self._startup = None
        elif self._prepared and not self._under_way(SCHEDULED, seen, now):
            if seen.get(work.name, ("held", now))[0] == "":
                self._leases.arm(work.name, now, now)  # given back by a clock that was ahead
            self._begin(work, now)

    @staticmethod
    def _under_way(name: str, seen: Mapping[str, tuple[str, datetime]], now: datetime) -> bool:
        holder, until = seen.get(name, ("", now))
        return bool(holder) and until > now

    def _begin(self, work: _Work, now: datetime) -> None:
        if self._stopped or not self._leases.claim(work.name, self._holder, now, now + RUN_LEASE):
            return
        work.running = True
        thread = self._spawn(lambda: self._guarded(work, now))
        if thread is not None:
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]

    def _guarded(self, work: _Work, began: datetime) -> None:
        try:
            work.run()
        except Exception:
            log.exception("discovery: run failed", extra={"attrs": {"work": work.name}})
        finally:
            since = max(began, work.armed or began)
            every = 0.0 if self._stopped else work.every
            until = since + timedelta(seconds=every) if every else self._clock.now()
            try:
                self._leases.give_back(work.name, self._holder, until)
            except Exception as problem:  # it runs out by itself: somebody begins earlier than needed
                log.warning("discovery: next run not noted", extra={"attrs": {"error": type(problem).__name__}})
            if work is self._startup and not self._stopped:
                self._startup = None
            work.running = False
            self._wake.set()

    def _sweep_at_start(self) -> None:
        latest = Provider.objects.aggregate(latest=Max("last_discovered_at"))["latest"]
        # Later than now: the clock was wrong then, or is.
        if latest is not None and abs(self._clock.now() - latest) < FRESH:
            log.info("discovery: no sweep at this start, one was made less than 5 minutes ago")
            return
        self._sweeper.run("Startup")

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            self._wake.wait(self._guarded_turn())

    def _guarded_turn(self) -> float:
        try:
            return released(self.turn)
        except Exception as problem:
            if self._clock.monotonic() - self._warned >= WARN_EVERY:
                self._warned = self._clock.monotonic()
                log.warning("discovery: leases can not be read", extra={"attrs": {"error": type(problem).__name__}})
            return LOOK
