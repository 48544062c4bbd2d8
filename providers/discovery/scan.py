"""Scans that an operator asks for: of one provider, and of all of them.

A scan adds and updates; it never switches off what a listing lacks. The network part runs on the control loop, the
database part in the thread that asked, one provider at a time. One scan per provider at a time: whoever asks for a
running one waits for its result.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from modelhotel.core import crypto, events
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from providers import control, ports
from providers.cache import ProviderRow, row_of
from providers.discovery import store
from providers.discovery.listing import Fetched, fetch
from providers.keyring import KEYRING
from providers.model_verbs import parse_id
from providers.models import Model, Provider

log = logging.getLogger("discovery")

SCAN_SECONDS = 180.0  # the whole listing of one provider, retries included
AT_ONCE = 8
UNDECRYPTABLE = "failed to decrypt API key"


@dataclass(frozen=True, slots=True)
class Result:
    """One finished scan. *problem* is the Refusal that a single scan answers with, None when it went well."""

    provider: str
    provider_id: str
    rows: list[Model] = field(default_factory=list)
    diff: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    failed: bool = False
    problem: Refusal | None = None


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
        self._lock = threading.Lock()
        self._running: dict[str, Future[Result]] = {}
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
        flight, mine = self._claim(str(row.pk))
        if mine:
            with _Landing(self, str(row.pk), flight) as landing:
                fetched = control.LOOP.run(self._fetch(row_of(row)))
                landing.result = self._finish(row, fetched)
                if fetched.failed:
                    self._mark_one(row)
        result = flight.result()
        if result.problem:
            raise result.problem
        return result

    def every(self) -> list[Result]:
        """Scan every enabled provider that takes part in discovery, at most 8 at a time. Never raises for one."""
        rows = {str(row.pk): row for row in Provider.objects.filter(enabled=True, autodiscovery_enabled=True)}
        claims = {provider_id: self._claim(provider_id) for provider_id in rows}
        mine = [provider_id for provider_id, (_, own) in claims.items() if own]
        landed: queue.SimpleQueue[tuple[str, Fetched]] = queue.SimpleQueue()
        control.LOOP.start(self._fetch_all([row_of(rows[provider_id]) for provider_id in mine], landed))
        failed: dict[str, bool] = {}
        for _ in mine:
            provider_id, fetched = landed.get()
            with _Landing(self, provider_id, claims[provider_id][0]) as landing:
                landing.result = self._finish(rows[provider_id], fetched)
                failed[provider_id] = fetched.failed or landing.result.failed
        # An outage of everything is more likely ours than theirs: then nobody is marked.
        if not all(failed.values()):
            store.mark_stale(provider_id for provider_id, bad in failed.items() if bad)
        return [self._settled(flight, rows[provider_id]) for provider_id, (flight, _) in claims.items()]

    @staticmethod
    def _settled(flight: "Future[Result]", row: Provider) -> Result:
        try:
            return flight.result()
        except Exception as problem:
            return Result(row.name, str(row.pk), error=type(problem).__name__, failed=True)

    def _claim(self, provider_id: str) -> tuple["Future[Result]", bool]:
        """The running scan of this provider, or a new one that the caller has to land."""
        with self._lock:
            running = self._running.get(provider_id)
            if running is not None:
                return running, False
            fresh: Future[Result] = Future()
            self._running[provider_id] = fresh
            return fresh, True

    def land(self, provider_id: str) -> None:
        with self._lock:
            self._running.pop(provider_id, None)

    async def _fetch_all(self, rows: list[ProviderRow], landed: "queue.SimpleQueue[tuple[str, Fetched]]") -> None:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(row: ProviderRow) -> None:
            try:
                landed.put((row.id, await ask(row)))
            except BaseException:  # the loop ends: the thread that counts the answers must not wait for ever
                landed.put((row.id, Fetched(error="the scan was interrupted")))
                raise

        async def ask(row: ProviderRow) -> Fetched:
            async with slots:
                events.publish(
                    "request.discovery.provider_starting",
                    "info",
                    "proxy",
                    f"Discovering models of {row.name}",
                    {"provider_id": row.id, "provider": row.name},
                )
                return await self._fetch(row)

        await asyncio.gather(*(one(row) for row in rows))

    async def _fetch(self, row: ProviderRow) -> Fetched:
        """Ask the provider. Never raises: the caller counts on an answer for each."""
        try:
            key = await KEYRING.fetch(row)
        except crypto.DecryptError:
            log.error("keycache: decryption failed, possible wrong master key", extra={"attrs": {"provider": row.name}})
            return Fetched(error=UNDECRYPTABLE)
        return await fetch(row.name, row.kind, row.base_url, key, seconds=SCAN_SECONDS, **self._waits)

    def _finish(self, row: Provider, fetched: Fetched) -> Result:
        """Write what came, tell about it. Never raises."""
        with self._writing:
            try:
                return self._write(row, fetched)
            except Refusal as problem:
                return self._lost(row, problem.text, problem)
            except Exception:
                log.exception("discovery: scan not written", extra={"attrs": {"provider": row.name}})
                text = f"failed to discover models for provider {row.name}"
                return self._lost(row, text, Refusal(500, text))

    def _write(self, row: Provider, fetched: Fetched) -> Result:
        now = self._clock.now()
        if fetched.error:
            store.note(row, fetched.listing_problem, fetched.access_problem, now, scanned=False)
            return self._lost(row, fetched.error, Refusal(500, f"failed to discover models for provider {row.name}"))
        outcome = store.apply(row, fetched.models, now) if fetched.models else store.Outcome()
        store.note(row, fetched.listing_problem, fetched.access_problem, now, scanned=bool(fetched.models))
        events.publish(
            "discovery.provider_fetched",
            "success",
            "discovery",
            f"{row.name}: {len(fetched.models)} models",
            {"provider": row.name, "count": len(fetched.models)},
        )
        if fetched.enriched:
            events.publish(
                "discovery.enriched",
                "info",
                "discovery",
                f"{row.name}: models.dev knew {fetched.enriched} of {len(fetched.models)} models",
                {"provider": row.name, "enriched": fetched.enriched, "total": len(fetched.models)},
            )
        groups = _sync_groups([model.model_id for model in fetched.models])
        for saved in outcome.rows:
            saved.provider = row
        return Result(row.name, str(row.pk), outcome.rows, outcome.diff.sections(groups), failed=fetched.failed)

    @staticmethod
    def _lost(row: Provider, error: str, problem: Refusal) -> Result:
        log.warning("discovery: scan failed", extra={"attrs": {"provider": row.name, "error": error}})
        metadata = {"provider": row.name, "error": error}
        events.publish("discovery.provider_failed", "error", "discovery", f"{row.name}: {error}", metadata)
        return Result(row.name, str(row.pk), error=error, failed=True, problem=problem)

    @staticmethod
    def _mark_one(row: Provider) -> None:
        if store.has_healthy_alternative(row):
            store.mark_stale([row.pk])


class _Landing:
    """Ends a claimed scan whatever happens, so that nobody waits for ever and the next one can start."""

    def __init__(self, scanner: Scanner, provider_id: str, flight: "Future[Result]") -> None:
        self._scanner = scanner
        self._id = provider_id
        self._flight = flight
        self.result: Result | None = None

    def __enter__(self) -> "_Landing":
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        self._scanner.land(self._id)
        if problem is not None or self.result is None:
            self._flight.set_exception(problem or RuntimeError("the scan gave no result"))
        else:
            self._flight.set_result(self.result)


def _sync_groups(model_ids: list[str]) -> Mapping[str, Any]:
    """Bring the groups of the ids that were seen in line; a failure is told and leaves the scan a success."""
    if not model_ids:
        return {}
    try:
        return ports.groups.sync_models(model_ids, stamp=True)
    except Exception as problem:
        log.exception("discovery: group sync failed")
        events.publish(
            "failover.sync_error",
            "warning",
            "discovery",
            "Failover groups could not be synced after a scan",
            {"model_id": model_ids[0], "error": type(problem).__name__},
        )
        return {}


SCANNER = Scanner()
