"""The clockwork of the periodic jobs: APScheduler looks every few seconds, ``core/leader.py`` says what is due."""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from apscheduler.schedulers.background import BackgroundScheduler

from modelhotel.core.clock import SYSTEM
from modelhotel.core.leader import Job, Leader
from modelhotel.core.threads import released
from modelhotel.ops import leases

#: Seconds between two looks; several fit into a lease (``leader.RUN_LEASE``), so a running job keeps its own.
LOOK = 10
WARN_EVERY = 60.0
log = logging.getLogger("jobs")


class Jobs:
    """*holder* names this process among all that look at the same jobs."""

    def __init__(self, jobs: Sequence[Job], holder: str) -> None:
        self._jobs = jobs
        self._stopped = False
        self._warned = float("-inf")
        self._scheduler = BackgroundScheduler(
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone="UTC",
            daemon=True,
        )
        # Runs are not the scheduler's: it would take finished ones out of a store that a stop empties meanwhile.
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="jobs")
        self.leader = Leader(leases, holder, SYSTEM, self._begin)

    def _begin(self, work: Callable[[], None]) -> None:
        self._pool.submit(released, work)

    def _look(self) -> None:
        try:
            self.leader.turn(job for job in self._jobs if not self._stopped)
        except Exception as problem:
            if time.monotonic() - self._warned >= WARN_EVERY:
                self._warned = time.monotonic()
                log.warning("jobs: leases can not be read", extra={"attrs": {"reason": type(problem).__name__}})

    def start(self) -> None:
        self._scheduler.add_job(lambda: released(self._look), "interval", seconds=LOOK)
        self._scheduler.start()
        self._pool.submit(released, self._look)

    def stop(self) -> None:
        """No new run is claimed; runs claimed already go on until :meth:`join`, so the clockwork is not paused."""
        self._stopped = True

    def join(self, seconds: float) -> bool:
        """Wait for runs under way; False when they took longer (their leases run out by themselves)."""
        deadline = time.monotonic() + seconds
        while self.leader.busy and time.monotonic() < deadline:
            time.sleep(0.02)
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
        self._pool.shutdown(wait=False, cancel_futures=True)
        return not self.leader.busy
