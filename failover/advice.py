"""From stored quota readings to the circuits: who is spent until when, who has recovered (``circuit-breaker`` 11.2)."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from failover.breaker.board import Board
from failover.breaker.pins import Advice, Source
from modelhotel.core.clock import Clock
from providers.quota import assess, store
from providers.quota.store import Account, Snapshot

T = TypeVar("T")
log = logging.getLogger("quota")

#: A snapshot older than so many intervals of the poll says nothing any more.
FRESH_INTERVALS = 3


def judge(
    accounts: Mapping[str, Account], snapshots: Iterable[Snapshot], interval: float, now: datetime
) -> tuple[dict[str, Advice], frozenset[str]]:
    """Advice by provider id, and the providers that are affirmatively not spent. Pure; *interval* in seconds.

    A reading whose latest refresh failed may still say that a quota is spent, but not that it is back.
    """
    advice: dict[str, Advice] = {}
    recovered: set[str] = set()
    for snapshot in snapshots:
        account = accounts.get(snapshot.provider_id)
        if account is None or not _usable(snapshot, interval, now):
            continue
        found = assess.assess(account.provider_type, snapshot.payload, account.reserve, now)
        if found.deadline is not None:
            new = Advice(found.deadline, Source(found.source))
            advice[snapshot.provider_id] = min(advice.get(snapshot.provider_id, new), new)
        elif found.understood and not snapshot.last_error:
            recovered.add(snapshot.provider_id)
    return advice, frozenset(recovered - advice.keys())


def _usable(snapshot: Snapshot, interval: float, now: datetime) -> bool:
    if snapshot.http_status != store.OK or snapshot.fetched_at is None:
        return False
    return now - snapshot.fetched_at <= timedelta(seconds=FRESH_INTERVALS * interval)


class Advisor:
    """Runs the passes, one at a time. *board* gives the circuits, *interval* the seconds between polls (0 = off)."""

    def __init__(self, board: Callable[[], Board], clock: Clock, interval: Callable[[], float]) -> None:
        self._board = board
        self._clock = clock
        self._interval = interval
        self._lock = threading.Lock()

    def refresh(self) -> None:
        """One pass over all stored snapshots; nothing while the poll is switched off. Never raises for the database."""
        with self._lock:
            interval = self._interval()
            if not interval:
                return
            accounts = _listed("providers", store.accounts)
            snapshots = None if accounts is None else _listed("snapshots", store.snapshots)
            if accounts is None or snapshots is None:
                self._board().drop_advice()
                return
            advice, recovered = judge(accounts, snapshots, interval, self._clock.now())
            self._board().take_advice(advice, recovered)
        level = logging.INFO if advice else logging.DEBUG
        log.log(level, "quota: advice refreshed", extra={"attrs": {"advised_providers": len(advice)}})

    def go_blind(self) -> None:
        """The poll was switched off: nothing would notice a recovery, so no pin stays."""
        with self._lock:
            released = self._board().release_pins()
        if released:
            log.info("quota: polling disabled, released pins in force", extra={"attrs": {"released_pins": released}})


def _listed(what: str, read: Callable[[], T]) -> T | None:
    try:
        return read()
    except Exception as problem:
        attrs = {"error": type(problem).__name__}
        log.warning(f"quota: advice refresh failed to list {what}", extra={"attrs": attrs})
        return None
