"""One runner per periodic job, however many processes look at the clock.

A job's row says when it is due next. Whoever moves that instant by a conditional update runs the job; while it runs,
the instant is only :data:`RUN_LEASE` away and pushed on, so a job whose runner died is due again within that time.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from modelhotel.core.clock import Clock

#: A dead runner's job is taken over within this time (operations.md 16.2 row 6).
RUN_LEASE = timedelta(seconds=45)
log = logging.getLogger("jobs")


class Leases(Protocol):
    """The store of due instants; the shell's ``ops/leases.py``."""

    def claim(self, name: str, holder: str, now: datetime, until: datetime) -> bool: ...

    def move(self, name: str, holder: str, until: datetime) -> bool: ...


@dataclass(frozen=True, slots=True)
class Job:
    """*every* in seconds, from start to start."""

    name: str
    every: float
    run: Callable[[], object]


class Leader:
    """Runs what is due. *holder* names this process, *start* runs a callable elsewhere (a pool of threads)."""

    def __init__(self, leases: Leases, holder: str, clock: Clock, start: Callable[[Callable[[], None]], None]) -> None:
        self._leases = leases
        self._holder = holder
        self._clock = clock
        self._start = start
        self._running: set[str] = set()
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def turn(self, jobs: Iterable[Job]) -> None:
        """Look once at every job; call it a few times per RUN_LEASE. Raises what the store raises."""
        for job in jobs:
            now = self._clock.now()
            if job.name in self._running:
                self._leases.move(job.name, self._holder, now + RUN_LEASE)
            elif self._leases.claim(job.name, self._holder, now, now + RUN_LEASE):
                with self._lock:
                    self._running.add(job.name)
                self._start(lambda job=job, began=now: self._run(job, began))  # type: ignore[misc]

    def _run(self, job: Job, began: datetime) -> None:
        try:
            job.run()
        except Exception:
            log.exception("jobs: run failed", extra={"attrs": {"job": job.name}})
        finally:
            with self._lock:
                self._running.discard(job.name)
            try:
                self._leases.move(job.name, self._holder, began + timedelta(seconds=job.every))
            except Exception:
                # The lease runs out by itself; the job is then due earlier than it had to be.
                log.exception("jobs: next run not noted", extra={"attrs": {"job": job.name}})
