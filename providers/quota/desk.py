"""What the admin API tells of quotas: stored readings, and a fetch of its own where none is stored yet."""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from modelhotel.core.clock import SYSTEM, Clock, rfc3339
from modelhotel.core.faults import Refusal
from providers import cache, control, ports
from providers.cache import ProviderRow
from providers.kinds import registry
from providers.models import Provider, QuotaSnapshot
from providers.quota import store, view
from providers.quota.fetch import FETCHER, Fetcher
from providers.quota.store import KEY_REFUSED, OK, Fetched

log = logging.getLogger("quota")

#: The error of a provider that failed too often of late to be asked now.
RESTING = "left alone after 5 failed fetches in a row"
#: The error of one that was given another key, address or type, or was deleted, while it was asked.
CHANGED = "the provider was changed meanwhile"


def overview() -> list[dict[str, Any]]:
    """What is stored of every provider, in one form; nobody is asked. One query."""
    return [
        {
            "provider_id": reading.provider_id,
            "provider_name": reading.name,
            "provider_type": reading.provider_type,
            "kind": reading.kind,
            "http_status": reading.http_status,
            "fetched_at": rfc3339(reading.fetched_at),
            "last_error": reading.last_error,
            "reserve_percent": reading.reserve,
            "windows": view.lines(reading.provider_type, payload := _payload(reading)),
            "plan": view.plan(reading.provider_type, payload),
        }
        for reading in store.readings()
        if reading.enabled and _kind(reading.provider_type) == reading.kind
    ]


def _payload(reading: store.Reading) -> Any:
    return reading.payload if reading.http_status == OK else None


def _kind(provider_type: str) -> str:
    """``usage``, ``balance`` or ``account``; ``""`` for a type that tells nothing."""
    reader = registry.get(provider_type).quota
    return reader.kind if reader is not None else ""


@dataclass(frozen=True, slots=True)
class Shown:
    """*status*: 200, 204 or 424. *payload* of a 200."""

    status: int
    payload: Any
    fetched_at: datetime


def show(provider: Provider, kind: str, fetcher: Fetcher = FETCHER, clock: Clock = SYSTEM) -> Shown:
    """The stored reading, whatever it says; without one the provider is asked, once. Raises Refusal.

    Whoever hangs up meanwhile does not end that fetch: it runs on the control loop, and is kept here.
    """
    if _kind(provider.provider_type) != kind:
        raise Refusal(400, f"{kind} information not supported for this provider type")
    if (stored := _stored(provider, kind)) is not None:
        return stored
    fetched = control.LOOP.run(fetcher.one(cache.row_of(provider)))
    if fetched is not None:
        store.keep(str(provider.pk), kind, fetched, "manual", clock.now())
        if fetched.error:
            raise Refusal(500, f"failed to fetch {kind} for provider {provider.name}")
        if fetched.status == KEY_REFUSED:
            raise Refusal(424, f"provider key invalid or inactive for {provider.name}")
    if (stored := _stored(provider, kind)) is not None:
        return stored
    raise Refusal(503, "quota unavailable")


def _stored(provider: Provider, kind: str) -> Shown | None:
    row = QuotaSnapshot.objects.filter(provider=provider, kind=kind).first()
    if row is None or not row.http_status or row.fetched_at is None:
        return None
    return Shown(row.http_status, row.payload, row.fetched_at)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """*error* ``""``: there is a new reading, be it that the key is refused."""

    name: str
    provider_type: str
    error: str


def refresh(fetcher: Fetcher = FETCHER, clock: Clock = SYSTEM) -> tuple[list[Refreshed], int]:
    """Ask every enabled provider that tells a quota now, then judge what they said. Also the number of the others."""
    rows = [cache.row_of(row) for row in Provider.objects.filter(enabled=True).order_by("name")]
    asked = [row for row in rows if row.kind.quota is not None]
    errors = {row.id: kept(row, fetched, "manual", clock) for row, fetched in fetcher.each(asked)}
    results = [Refreshed(row.name, row.kind.type, errors.get(row.id, RESTING)) for row in asked]
    ports.judge_quotas()
    return results, len(rows) - len(asked)


def kept(row: ProviderRow, fetched: Fetched, source: store.Source, clock: Clock = SYSTEM) -> str:
    """Store what *row* said; why there is no new reading of it, else ``""``. Never raises."""
    if row.kind.quota is None:
        return ""
    try:
        stored = store.keep(row.id, row.kind.quota.kind, fetched, source, clock.now())
    except Exception as problem:
        attrs = {"error": type(problem).__name__, "provider": row.name}
        log.warning("quota: reading not stored", extra={"attrs": attrs})
        return "the reading could not be stored"
    return fetched.error if stored else CHANGED
