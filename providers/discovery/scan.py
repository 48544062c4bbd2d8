"""Scans: ask a provider for its models, write what came, tell about it.

A scan adds and updates; it never switches off what a listing lacks (``sweep.py`` does, after three proofs). The network
part runs on the control loop, the database part in the thread that asked, one provider at a time.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import Any

from modelhotel.core import crypto, events
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from providers import control, ports
from providers.cache import ProviderRow, row_of
from providers.discovery import inventory, store
from providers.discovery.flights import Claims, Flights, Inbox
from providers.discovery.listing import Fetched, fetch
from providers.keyring import KEYRING, UNREADABLE
from providers.model_verbs import parse_id
from providers.models import Model, Provider

log = logging.getLogger("discovery")

SCAN_SECONDS = 180.0  # the whole listing of one provider, retries included
AT_ONCE = 8
INTERRUPTED = "the scan was interrupted"
GONE = 404  # status of the Refusal where the provider was deleted during its scan


@dataclass(frozen=True, slots=True)
class Result:
    """One finished scan. *error*: nothing was written; *problem* is the Refusal that a single scan answers with then.

    *failed*: the refresh failed in some respect, a listing without models or a refused key included; not that what it
    gave could not be written, which is nothing against the provider.
    """

    provider: str
    provider_id: str
    rows: list[Model] = field(default_factory=list)
    diff: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    failed: bool = False
    problem: Refusal | None = None


def combined(results: Collection[Result]) -> dict[str, Any]:
    """The answer of ``POST /api/providers/discover-all``."""
    return {
        "results": [_line(result) for result in results],
        "succeeded": sum(not result.error for result in results),
        "failed": sum(bool(result.error) for result in results),
        "discovered": sum(len(result.rows) for result in results),
    }


def _line(result: Result) -> dict[str, Any]:
    line: dict[str, Any] = {"provider_name": result.provider, "discovered": len(result.rows)}
    return {**line, "error": result.error} if result.error else {**line, "diff": result.diff}


@dataclass(frozen=True, slots=True)
class Trigger:
    """What a kind of scan does beside writing what came.

    *stamps*: whether ``last_discovered_at`` moves, by what was fetched. *tells_fetched*, *tells_failed*: the same for
    the events ``discovery.provider_fetched`` and ``discovery.provider_failed``.
    """

    stamps: Callable[[Fetched], bool]
    tells_fetched: Callable[[Fetched], bool]
    tells_failed: Callable[[Fetched], bool]


MANUAL = Trigger(
    stamps=lambda fetched: bool(fetched.models),
    tells_fetched=lambda fetched: not fetched.error,
    tells_failed=lambda fetched: bool(fetched.error),
)
SWEEP = Trigger(
    stamps=lambda fetched: True,
    tells_fetched=lambda fetched: False,
    tells_failed=lambda fetched: bool(fetched.listing_problem),
)
#: A provider that is down is told once, by whoever found it so, and when it is back.
RECHECK = Trigger(
    stamps=lambda fetched: not fetched.failed,
    tells_fetched=lambda fetched: not fetched.failed,
    tells_failed=lambda fetched: False,
)


def scannable() -> dict[str, Provider]:
    """The providers that take part in discovery, by id, newest first."""
    return {str(row.pk): row for row in Provider.objects.filter(enabled=True, autodiscovery_enabled=True)}


class Scanner:
    """*sleep* and *chance* serve the waits between attempts; *clock* the stamps."""

    def __init__(
        self,
        clock: Clock = SYSTEM,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] | None = None,
    ) -> None:
        self._clock = clock
        self._waits: dict[str, Any] = {"sleep": sleep, **({"chance": chance} if chance else {})}
        self.flights: Flights[Result] = Flights()
        self._writing = threading.Lock()

    def one(self, provider_id: str) -> Result:
        """Scan one provider now, or wait for the scan of it that runs. Raises Refusal."""
        row = Provider.objects.filter(pk=parse_id(provider_id, "invalid provider ID")).first()
        if row is None:
            raise Refusal(404, "provider not found")
        if not row.enabled:
            raise Refusal(400, "provider is disabled")
        if not row.autodiscovery_enabled:
            raise Refusal(403, "autodiscovery is disabled for this provider")
        flight, mine = self.flights.claim(str(row.pk))
        if mine:
            with self.flights.landing(str(row.pk)) as landing:
                landing.result = self._now(row)
        result = flight.result()
        if result.problem:
            raise result.problem
        return result

    def _now(self, row: Provider) -> Result:
        try:
            fetched = control.LOOP.run(self.fetch(row_of(row)))
        except CancelledError:
            return cut_off(row)
        result = self.write(row, fetched, MANUAL)
        if fetched.failed:
            inventory.after_single([row.pk])
        return result

    def every(self, names: Collection[str] = (), tell: Callable[[Result], None] = lambda result: None) -> list[Result]:
        """Scan every provider that takes part in discovery, at most 8 at a time. Never raises for one.

        *names*: these alone. *tell* hears of each result as it comes.
        """
        rows = {key: row for key, row in scannable().items() if not names or row.name in names}
        inbox, slots = Inbox[Fetched](), asyncio.Semaphore(AT_ONCE)
        results: dict[str, Result] = {}

        def done(key: str, flight: "Future[Result]") -> None:
            results[key] = self.settled(flight, rows[key])
            tell(results[key])

        with Claims(self.flights, rows) as claims:
            for key in claims.own:
                inbox.ask(key, self._in_turn(row_of(rows[key]), slots))
            while inbox.waiting:
                key, fetched = inbox.take()
                flight = claims.own[key]
                with claims.landing(key) as landing:
                    landing.result = self.write(rows[key], fetched, MANUAL) if fetched else cut_off(rows[key])
                done(key, flight)
            for key, flight in claims.others.items():
                done(key, flight)
        failed = {key: one.failed for key, one in results.items() if one.error != INTERRUPTED}
        if names:
            inventory.after_single([key for key, bad in failed.items() if bad])
        else:
            inventory.after_sweep(failed)
        return [results[key] for key in rows]

    @staticmethod
    def settled(flight: "Future[Result]", row: Provider) -> Result:
        """The result of a scan, whoever ran it; waits for it. Never raises."""
        try:
            return flight.result()
        except Exception as problem:
            return Result(row.name, str(row.pk), error=type(problem).__name__, failed=True)

    async def _in_turn(self, row: ProviderRow, slots: asyncio.Semaphore) -> Fetched:
        async with slots:
            events.publish(
                "request.discovery.provider_starting",
                "info",
                "proxy",
                f"Discovering models of {row.name}",
                {"provider_id": row.id, "provider": row.name},
            )
            return await self.fetch(row)

    async def fetch(self, row: ProviderRow, seconds: float | None = None) -> Fetched:
        """Ask the provider, on the control loop. Never raises; *seconds* is SCAN_SECONDS if not given."""
        try:
            key = await KEYRING.fetch(row)
        except crypto.DecryptError:
            log.error("keycache: decryption failed, possible wrong master key", extra={"attrs": {"provider": row.name}})
            return Fetched(error=UNREADABLE)
        return await fetch(row.name, row.kind, row.base_url, key, seconds=seconds or SCAN_SECONDS, **self._waits)

    def write(self, row: Provider, fetched: Fetched, trigger: Trigger) -> Result:
        """Write what came, tell about it. Never raises."""
        with self._writing:
            try:
                return self._write(row, fetched, trigger)
            except Refusal as problem:
                lost = _lost(row, problem.text, problem, told=problem.status != GONE)
            except Exception:
                log.exception("discovery: scan not written", extra={"attrs": {"provider": row.name}})
                text = f"failed to discover models for provider {row.name}"
                lost = _lost(row, text, Refusal(500, text))
            return replace(lost, failed=fetched.failed)

    def _write(self, row: Provider, fetched: Fetched, trigger: Trigger) -> Result:
        now, stamps = self._clock.now(), trigger.stamps(fetched)
        if fetched.error:
            inventory.note(row, fetched.listing_problem, fetched.access_problem, now, scanned=stamps)
            problem = Refusal(500, f"failed to discover models for provider {row.name}")
            return _lost(row, fetched.error, problem, told=trigger.tells_failed(fetched))
        try:
            outcome = store.apply(row, fetched.models, now) if fetched.models else store.Outcome()
        except Refusal:
            if stamps:
                inventory.stamp(row, now)
            raise
        inventory.note(row, fetched.listing_problem, fetched.access_problem, now, scanned=stamps)
        if trigger.tells_fetched(fetched):
            _tell_fetched(row.name, fetched)
        elif trigger.tells_failed(fetched):
            _tell_failed(row.name, fetched.listing_problem)
        groups = sync_groups([model.model_id for model in fetched.models])
        for saved in outcome.rows:
            saved.provider = row
        return Result(row.name, str(row.pk), outcome.rows, outcome.diff.sections(groups), failed=fetched.failed)


def cut_off(row: Provider) -> Result:
    """Of a scan that ends with its process: it says nothing about the provider."""
    problem = Refusal(500, f"failed to discover models for provider {row.name}")
    return Result(row.name, str(row.pk), error=INTERRUPTED, failed=True, problem=problem)


def _lost(row: Provider, error: str, problem: Refusal, *, told: bool = True) -> Result:
    level = logging.WARNING if told else logging.DEBUG
    log.log(level, "discovery: scan failed", extra={"attrs": {"provider": row.name, "error": error}})
    if told:
        _tell_failed(row.name, error)
    return Result(row.name, str(row.pk), error=error, failed=True, problem=problem)


def _tell_failed(name: str, error: str) -> None:
    metadata = {"provider": name, "error": error}
    events.publish("discovery.provider_failed", "error", "discovery", f"{name}: {error}", metadata)


def _tell_fetched(name: str, fetched: Fetched) -> None:
    count = len(fetched.models)
    events.publish(
        "discovery.provider_fetched",
        "success",
        "discovery",
        f"{name}: {count} models",
        {"provider": name, "count": count},
    )
    if fetched.enriched:
        events.publish(
            "discovery.enriched",
            "info",
            "discovery",
            f"{name}: models.dev knew {fetched.enriched} of {count} models",
            {"provider": name, "enriched": fetched.enriched, "total": count},
        )


def sync_groups(model_ids: list[str], *, revalidate: bool = False) -> Mapping[str, Any]:
    """Bring the groups of these model ids in line; a failure is told and leaves the scan a success.

    *revalidate*: a model was switched off, so custom groups may have become too small. Gives the group sections of a
    diff.
    """
    if not model_ids and not revalidate:
        return {}
    try:
        return ports.groups.sync_models(model_ids, stamp=True, revalidate=revalidate)
    except Exception as problem:
        log.exception("discovery: group sync failed")
        events.publish(
            "failover.sync_error",
            "warning",
            "discovery",
            "Failover groups could not be synced after a scan",
            {"model_id": model_ids[0] if model_ids else "", "error": type(problem).__name__},
        )
        return {}


SCANNER = Scanner()
