"""When quotas are read: every few minutes by one process of all, and out of turn for a provider whose circuit opens.

Each process passes the stored readings on to its own circuits: the one that polls right after the poll, the others
once it must be over, or has to be done in the place of a process that died over it.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from datetime import timedelta

from django.db import connection

from failover import breaker
from failover.advice import Advisor
from modelhotel.core import catalogue, options
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.leader import RUN_LEASE, Leases
from modelhotel.core.threads import released as _released
from providers import cache, control
from providers.cache import Catalogue, ProviderRow
from providers.quota import desk
from providers.quota.fetch import FETCHER, Fetcher
from providers.quota.store import Fetched

log = logging.getLogger("quota")

#: Seconds between two readings of one provider that its circuits ask for.
DEBOUNCE = 60.0
#: Seconds that the pass after such a reading may take, apart from the reading itself.
PASS_SECONDS = 30.0
#: The lease of the poll; it is moved to the next interval when the poll is done.
POLL = "quota-poll"
#: Seconds after which the poll of another process is over, or its lease.
LAG = RUN_LEASE.total_seconds() + 5.0
#: Seconds by which a poll may come early, so that the next one is not missed by a hair.
_EARLY = 5.0
_JOIN_SECONDS = 5.0


def interval() -> float:
    """Seconds between two polls; 0 = switched off."""
    return options.current()[catalogue.QUOTA_REFRESH_INTERVAL_MIN] * 60.0


def judge() -> None:
    """One pass over the stored readings now, whoever polls; never raises for the database."""
    ADVISOR.refresh()


#: Of this process: its passes take turns.
ADVISOR = Advisor(lambda: breaker.board(), SYSTEM, interval)


class QuotaWatch:
    """A thread that sleeps until something is due (:meth:`turn`) or changed. *holder* names this process; *fetcher* and
    *advisor* are the process's own, which the admin API uses as well, unless others are given."""

    def __init__(
        self,
        leases: Leases,
        holder: str,
        clock: Clock = SYSTEM,
        fetcher: Fetcher | None = None,
        advisor: Advisor | None = None,
    ) -> None:
        self._leases = leases
        self._holder = holder
        self._clock = clock
        self._fetcher = fetcher or FETCHER
        self._advisor = advisor or ADVISOR
        self._last = clock.monotonic()
        self._late: float | None = None
        self._blind = False
        self._reserves: Mapping[str, int] = {}
        self._judge_again = False
        self._asked: dict[str, float] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._leave: list[Callable[[], object]] = []

    def start(self) -> None:
        self._fetcher.resume()
        self._reserves = _reserves(cache.SNAPSHOT.current)
        cache.SNAPSHOT.listeners.append(self._catalogue_changed)
        breaker.openings.append(self.wanted)
        self._leave = [
            lambda: cache.SNAPSHOT.listeners.remove(self._catalogue_changed),
            lambda: breaker.openings.remove(self.wanted),
            options.on_change(catalogue.QUOTA_REFRESH_INTERVAL_MIN, lambda value: self._wake.set()),
        ]
        self._thread = threading.Thread(target=self._run, name="quota", daemon=True)
        self._thread.start()

    def halt(self) -> None:
        """Nothing new begins; a fetch that is under way is cut off, whoever waits for it."""
        self._stopped = True
        self._wake.set()
        while self._leave:
            self._leave.pop()()
        self._fetcher.halt()

    def stop(self) -> None:
        self.halt()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)

    def turn(self) -> float | None:
        """Do what is due. Seconds until something is due again; None = not until something changes."""
        every, now = interval(), self._clock.monotonic()
        if not every:
            if not self._blind:
                self._blind = True
                self._advisor.go_blind()
            return None
        if self._blind:
            self._blind, self._last, self._late = False, now, None
        if self._judge_again:
            self._judge_again = False
            self._advisor.refresh()
        late, due = self._late is not None and now >= self._late, now >= self._last + every
        if late or due:
            self._last = now if due else self._last
            polled = self._poll(every)
            self._late = now + LAG if due and not polled else None
            if late or polled:
                self._advisor.refresh()
        instants = [self._last + every, *([] if self._late is None else [self._late])]
        return max(min(instants) - self._clock.monotonic(), 0.0)

    def wanted(self, provider_id: str) -> None:
        """A circuit of the provider opened. Returns at once, from any thread."""
        row = cache.SNAPSHOT.current.providers.get(provider_id)
        if row is None or not row.enabled or row.kind.quota is None or not interval():
            return
        now = self._clock.monotonic()
        with self._lock:
            if now < self._asked.get(provider_id, float("-inf")) + DEBOUNCE:
                return
            self._asked[provider_id] = now
        control.LOOP.start(self._read_now(row))

    def _poll(self, every: float) -> bool:
        """Read every quota, if it is this process's turn. False: another one does."""
        now = self._clock.now()
        try:
            if not self._leases.claim(POLL, self._holder, now, now + RUN_LEASE):
                return False
        except Exception as problem:
            log.warning("quota: poll not claimed", extra={"attrs": {"error": type(problem).__name__}})
            return True
        rows = [row for row in cache.SNAPSHOT.current.providers.values() if row.enabled and row.kind.quota]
        for row, fetched in self._fetcher.each(rows):
            desk.kept(row, fetched, "poll", self._clock)
        try:
            self._leases.move(POLL, self._holder, now + timedelta(seconds=every - _EARLY))
        except Exception as problem:  # it runs out by itself: somebody polls earlier than needed
            log.warning("quota: next poll not noted", extra={"attrs": {"error": type(problem).__name__}})
        return True

    async def _read_now(self, row: ProviderRow) -> None:
        try:
            fetched = await self._fetcher.one(row)
            await asyncio.wait_for(asyncio.to_thread(_released, lambda: self._settle(row, fetched)), PASS_SECONDS)
        except Exception:
            log.exception("quota: reading out of turn failed", extra={"attrs": {"provider": row.name}})

    def _settle(self, row: ProviderRow, fetched: Fetched | None) -> None:
        if fetched is not None:
            desk.kept(row, fetched, "poll", self._clock)
        self._advisor.refresh()

    def _catalogue_changed(self, catalogue: Catalogue) -> None:
        reserves = _reserves(catalogue)
        if reserves != self._reserves:
            self._reserves, self._judge_again = reserves, True
            self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.clear()
            self._wake.wait(self._guarded_turn())
        connection.close()

    def _guarded_turn(self) -> float | None:
        try:
            return _released(self.turn)
        except CancelledError:  # the process stops
            return DEBOUNCE
        except Exception:
            log.exception("quota: turn failed")
            return DEBOUNCE


def _reserves(catalogue: Catalogue) -> Mapping[str, int]:
    """A provider that comes, goes or is switched counts as well: its stored reading starts or ceases to count."""
    return {row.id: row.quota_reserve_percent for row in catalogue.providers.values() if row.enabled}
