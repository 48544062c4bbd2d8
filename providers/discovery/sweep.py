"""Sweeps: scans of every provider that nobody asked for, which alone may switch models off.

What a listing lacks is asked for twice more, judged (``misses.py``) and written in one transaction per provider; at
the end the groups are brought in line, what stayed away is pruned, and the journal and the dashboard are told.
"""

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from django.db import DatabaseError

from modelhotel.core import events
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.events import Severity
from providers.cache import ProviderRow, row_of
from providers.discovery import claims, inventory, journal, merge, misses, prune, store
from providers.discovery.flights import Claims, Inbox
from providers.discovery.listing import Fetched
from providers.discovery.misses import Confirmed, Verdict
from providers.discovery.scan import (
    AT_ONCE,
    GONE,
    SCANNER,
    SWEEP,
    Result,
    Scanner,
    cut_off,
    scannable,
    sync_groups,
)
from providers.models import Provider

T = TypeVar("T")
Source = Literal["Startup", "Scheduled"]
_JOURNAL: dict[Source, journal.Source] = {"Startup": "startup", "Scheduled": "scheduled"}
log = logging.getLogger("discovery")


@dataclass(slots=True)
class Swept:
    """One provider's part of a sweep. *known*: the model ids that were on before it; None = they could not be read.

    *landed*: its listing was dealt with. *cut*: it was cut off before that. *failed*: its refresh failed. *unwritten*:
    what came could not be written. *trusted*: its misses were recorded.
    """

    row: Provider
    known: frozenset[str] | None = None
    landed: bool = False
    cut: bool = False
    failed: bool = False
    unwritten: bool = False
    trusted: bool = False
    diff: dict[str, Any] = field(default_factory=dict)

    def add(self, parts: Mapping[str, Any]) -> None:
        """Put more sections to the diff."""
        for name, items in parts.items():
            self.diff[name] = [*self.diff.get(name, ()), *items]


@dataclass(frozen=True, slots=True)
class Report:
    """How many providers were asked, how many of them failed, how many models were pruned."""

    providers: int
    failed: int
    pruned: int


class Sweeper:
    """*sleep* and *chance* serve the waits before confirmations; *clock* the stamps. One sweep at a time."""

    def __init__(
        self,
        scanner: Scanner = SCANNER,
        clock: Clock = SYSTEM,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._scanner = scanner
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self._alone = threading.Lock()
        self._inbox: Inbox[Fetched | Confirmed] = Inbox()
        self._stopped = False

    def run(self, source: Source) -> Report | None:
        """Sweep now, or when the running sweep is over. None: it was stopped half-way."""
        with self._alone:
            swept = self._scan(scannable(), self._clock.now())
            if self._stopped or any(one.cut for one in swept.values()):
                return None
            inventory.after_sweep({provider_id: one.failed for provider_id, one in swept.items()})
            return self._finish(source, swept)

    def stop(self) -> None:
        """Cut off what is asked, for good; nothing of it is held against a provider. From any thread."""
        self._stopped = True
        self._inbox.cancel()

    # ------------------------------------------------------------ the providers, as they answer

    def _scan(self, rows: dict[str, Provider], began: datetime) -> dict[str, Swept]:
        swept = {provider_id: Swept(row) for provider_id, row in rows.items()}
        inbox, slots = Inbox[Fetched | Confirmed](), asyncio.Semaphore(AT_ONCE)
        self._inbox = inbox
        if self._stopped:
            inbox.cancel()
        with Claims(self._scanner.flights, rows) as claims:
            for provider_id in claims.own:
                inbox.ask(provider_id, self._list(row_of(rows[provider_id]), slots))
            while inbox.waiting:
                provider_id, answer = inbox.take()
                one = swept[provider_id]
                if isinstance(answer, Confirmed):
                    self._record(one, answer, began)
                elif not one.landed:
                    listed = self._land(one, answer, claims)
                    if listed is not None:
                        self._prove(one, listed, began, slots)
            for provider_id, flight in claims.others.items():
                # Somebody else's scan: it proves nothing, but says how the provider is.
                swept[provider_id].failed = Scanner.settled(flight, rows[provider_id]).failed
        return swept

    async def _list(self, row: ProviderRow, slots: asyncio.Semaphore) -> Fetched:
        async with slots:
            return await self._scanner.fetch(row)

    def _land(self, one: Swept, fetched: Fetched | None, claims: Claims[Result]) -> frozenset[str] | None:
        """Write a listing; whoever waits for this provider's scan has it now. The ids it named; None: it is lost."""
        one.landed, one.cut = True, fetched is None
        listed: frozenset[str] | None = None
        with claims.landing(str(one.row.pk)) as landing:
            if fetched is None:
                landing.result = cut_off(one.row)
            else:
                one.known = _known(one.row)
                result = landing.result = self._scanner.write(one.row, fetched, SWEEP)
                one.failed, one.diff = result.failed, dict(result.diff)
                one.unwritten = result.problem is not None and result.problem.status != GONE
                if not result.error:
                    listed = frozenset(model.model_id for model in fetched.models)
        return listed

    # ------------------------------------------------------------ the proofs

    def _prove(self, one: Swept, listed: frozenset[str], began: datetime, slots: asyncio.Semaphore) -> None:
        if one.known is None:
            return
        if misses.absent(one.known, listed):
            self._inbox.ask(str(one.row.pk), self._confirm(row_of(one.row), one.known, listed, slots))
        else:
            self._record(one, Confirmed(listed, listed), began)

    async def _confirm(
        self, row: ProviderRow, known: frozenset[str], listed: frozenset[str], slots: asyncio.Semaphore
    ) -> Confirmed:
        """List again, and again, until nothing of *known* is missing. A wait takes no slot from the others."""
        found = listed
        for seconds in misses.waits(self._chance):
            await self._sleep(seconds)
            fetched = await self._list(row, slots)
            if fetched.error:
                log.warning(
                    "discovery: missing models not confirmed",
                    extra={"attrs": {"provider": row.name, "error": fetched.error}},
                )
                return Confirmed(listed, found, failed=True)
            found |= {model.model_id for model in fetched.models}
            if not misses.absent(known, found):
                break
        return Confirmed(listed, found)

    def _record(self, one: Swept, confirmed: Confirmed, began: datetime) -> None:
        try:
            recorded = store.record_misses(one.row, one.known or frozenset(), confirmed, began)
        except DatabaseError:
            log.exception("discovery: misses not recorded", extra={"attrs": {"provider": one.row.name}})
            return
        verdict = recorded.verdict
        one.trusted = verdict.trusted
        if verdict.suspect:
            _tell_suspect(one.row, verdict, recorded.suspect_scans)
        if verdict.gone:
            one.add(merge.disabled(verdict.gone))
            one.add(sync_groups(list(verdict.gone), revalidate=True))
            _tell_disabled(one.row, verdict)

    # ------------------------------------------------------------ the end of a sweep

    def _finish(self, source: Source, swept: dict[str, Swept]) -> Report:
        """What can no longer turn a finished scan into a failed one."""
        now, kind = self._clock.now(), _JOURNAL[source]
        trusted = [provider_id for provider_id, one in swept.items() if one.trusted]
        fresh = {provider_id: one.diff for provider_id, one in swept.items()}
        pruned: list[str] = _calmly("pruning", lambda: prune.prune(trusted, now, fresh), [])
        offered: list[str] = _calmly("group sync", store.offered, [])
        groups = sync_groups([*offered, *pruned], revalidate=True)
        journaled = [
            _calmly("journal", lambda one=one: journal.record(kind, one.row, one.diff, now), False)  # type: ignore[misc]
            for one in swept.values()
        ]
        journaled.append(_calmly("journal", lambda: journal.record(kind, None, groups, now), False))
        report = Report(len(swept), sum(one.failed or one.unwritten for one in swept.values()), len(pruned))
        if swept:
            _tell_complete(source, report)
        if any(journaled):
            text = f"{source} discovery changed something"
            events.publish("discovery.changes_pending", "info", "discovery", text, {"source": source})
        _calmly("journal retention", lambda: journal.retain(now), 0)
        _calmly("claim alert", lambda: claims.alert(now), False)
        return report


def _known(row: Provider) -> frozenset[str] | None:
    try:
        return store.enabled_ids(row)
    except DatabaseError:
        log.exception("discovery: snapshot failed", extra={"attrs": {"provider": row.name}})
        return None


def _calmly(what: str, work: Callable[[], T], otherwise: T) -> T:
    try:
        return work()
    except Exception:
        log.exception("discovery: %s failed after a sweep", what)
        return otherwise


def _tell_suspect(row: Provider, verdict: Verdict, consecutive: int) -> None:
    facts = {
        "provider": row.name,
        "provider_id": str(row.pk),
        "missing": verdict.missing,
        "enabled": verdict.enabled,
    }
    log.warning("discovery: listing not believed", extra={"attrs": {**facts, "consecutive_scans": consecutive}})
    text = f"{row.name}: {verdict.missing} of {verdict.enabled} models vanished at once, none was switched off"
    events.publish("discovery.suspect_scan", "warning", "discovery", text, facts)
    if misses.tells(consecutive):
        text = f"{row.name}: {verdict.missing} of {verdict.enabled} models are gone for {consecutive} scans in a row"
        more = {**facts, "consecutive_scans": consecutive}
        events.publish("discovery.bulk_removal_suspected", "error", "discovery", text, more)


def _tell_disabled(row: Provider, verdict: Verdict) -> None:
    count = len(verdict.gone)
    attrs = {"provider": row.name, "count": count, "models": ", ".join(verdict.gone[:10])}
    log.warning("discovery: unlisted models switched off", extra={"attrs": attrs})
    text = f"{row.name}: {count} models switched off that it no longer lists"
    events.publish("discovery.models_disabled", "warning", "discovery", text, {"provider": row.name, "count": count})


def _tell_complete(source: Source, report: Report) -> None:
    severity: Severity = "success"
    if report.failed:
        severity = "error" if report.failed == report.providers else "warning"
    facts: dict[str, object] = {"source": source, "models_pruned": report.pruned}
    if report.failed:
        facts["errors"] = report.failed
    log.info("discovery: sweep complete", extra={"attrs": {**facts, "providers": report.providers}})
    text = f"{source} discovery: {report.providers - report.failed} of {report.providers} providers scanned"
    events.publish("discovery.complete", severity, "discovery", text, facts)
