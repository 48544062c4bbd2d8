"""The database side of a scan: the models it saw, and the health of the provider it asked."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.db import DatabaseError, transaction
from django.db.models import Count

from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM as SYSTEM_ACTOR
from modelhotel.core.changes import Change
from modelhotel.core.faults import Refusal
from providers.discovery import merge
from providers.kinds.base import Listed
from providers.models import Model, Provider

log = logging.getLogger("discovery")
inventory = logging.getLogger("providers")

NO_MODELS = "provider returned no models"
_LENGTHS = {"owned_by": 200, "display_name": 512}
MODEL_ID_MAX = 512
#: Model ids in one line of the log.
NAMED = 20


@dataclass(slots=True)
class Outcome:
    """What was written: the rows of the models seen, in listing order, and the diff."""

    rows: list[Model] = field(default_factory=list)
    diff: merge.Diff = field(default_factory=merge.Diff)


def _plain(value: Any) -> Any:
    """Without NUL characters, which PostgreSQL can not store."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, dict):
        return {_plain(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _fits(values: dict[str, Any]) -> dict[str, Any]:
    plain = {column: _plain(value) for column, value in values.items()}
    for column, length in _LENGTHS.items():
        if column in plain:
            plain[column] = plain[column][:length]
    return plain


def usable(models: Iterable[Listed]) -> list[Listed]:
    """Each id once, and only ids that can be stored and asked for."""
    found: dict[str, Listed] = {}
    for model in models:
        if 0 < len(model.model_id) <= MODEL_ID_MAX and model.model_id.isprintable():
            found.setdefault(model.model_id, model)
    return list(found.values())


def apply(provider: Provider, models: list[Listed], now: datetime) -> Outcome:
    """Upsert every listed model in one transaction. Raises Refusal (404 when the provider is gone, else 500)."""
    outcome = Outcome()
    current = ""
    try:
        with transaction.atomic():
            if not Provider.objects.select_for_update().filter(pk=provider.pk).exists():
                raise Refusal(404, "provider not found")
            stored = _stored(provider)
            changed = False
            for model in models:
                current = model.model_id
                changed |= _upsert(provider, model, stored.get(model.model_id), now, outcome)
            if changed:
                changes.record(("models",), Change("model", "", "updated", f"of {provider.name}"), SYSTEM_ACTOR)
    except DatabaseError:
        log.exception("discovery: upsert failed", extra={"attrs": {"provider": provider.name, "model": current}})
        raise Refusal(500, f"failed to upsert model {current} for provider {provider.name}") from None
    _tell_unpriced(provider, outcome.rows)
    return outcome


def _tell_unpriced(provider: Provider, rows: list[Model]) -> None:
    """One line on the enabled models whose traffic is metered as free because nobody knows their price."""
    prices = ("input_price_per_million", "output_price_per_million")
    found = [row.model_id for row in rows if row.enabled and all(getattr(row, price) is None for price in prices)]
    if found:
        attrs = {"provider": provider.name, "count": len(found), "models": found[:NAMED]}
        log.warning("discovery: models with no price", extra={"attrs": attrs})


def _stored(provider: Provider) -> dict[str, Model]:
    try:
        return {row.model_id: row for row in Model.objects.select_for_update().filter(provider=provider)}
    except DatabaseError:
        log.exception("discovery: snapshot failed", extra={"attrs": {"provider": provider.name}})
        raise Refusal(500, f"failed to snapshot models for provider {provider.name}") from None


def _upsert(provider: Provider, model: Listed, row: Model | None, now: datetime, outcome: Outcome) -> bool:
    """Write one model. True when something changed that is routed or displayed by."""
    if row is None:
        fresh = Model(provider=provider, model_id=model.model_id, enabled=True)
        for column, value in _fits(merge.columns(model, fresh, now)).items():
            setattr(fresh, column, value)
        fresh.save(force_insert=True)
        outcome.rows.append(fresh)
        outcome.diff.new(model.model_id)
        return True
    if provider.provider_type == "openrouter":
        model = merge.damp(model, row)
    told, was_on = merge.reported(model, row), row.enabled
    values = _fits(merge.columns(model, row, now))
    touched = [column for column, value in values.items() if getattr(row, column) != value]
    for column in touched:
        setattr(row, column, values[column])
    row.save(update_fields=touched)
    outcome.rows.append(row)
    outcome.diff.seen(model.model_id, was_on, row.enabled, told)
    return not merge.STAMPS.issuperset(touched)


def note(provider: Provider, listing: str, access: str, now: datetime, *, scanned: bool) -> None:
    """Keep the facts of one refresh: two errors (``""`` = well). *scanned* stamps ``last_discovered_at`` too."""
    facts: dict[str, Any] = {
        "last_model_fetch_at": now,
        "last_model_fetch_error": listing,
        "last_availability_at": now,
        "last_availability_error": access,
    }
    if not listing:
        facts |= {"last_discovery_success_at": now}
    if scanned:
        facts["last_discovered_at"] = now
    with transaction.atomic():
        Provider.objects.filter(pk=provider.pk).update(**facts)
        if not listing:
            _mark([provider.pk], stale=False)


def mark_stale(ids: Iterable[Any]) -> None:
    """Mark those of *ids* that have models (there is nothing to keep of the others)."""
    with transaction.atomic():
        _mark(list(ids), stale=True)


def _mark(ids: list[Any], *, stale: bool) -> None:
    """Inside a transaction. The mark is part of what routing reads, so a change of it raises the version."""
    rows = Provider.objects.filter(pk__in=ids, inventory_stale=not stale).annotate(kept=Count("models"))
    if stale:
        rows = rows.filter(kept__gt=0)
    turned = list(rows)
    if not Provider.objects.filter(pk__in=[row.pk for row in turned]).update(inventory_stale=stale):
        return
    changes.record(("providers",), None, SYSTEM_ACTOR)
    for row in turned:
        transaction.on_commit(partial(_tell_mark, row, stale))


def _tell_mark(row: Any, stale: bool) -> None:
    attrs = {"provider": row.name, "provider_id": str(row.pk), "models": row.kept}
    if stale:
        attrs["error"] = row.last_model_fetch_error or row.last_availability_error
        inventory.warning("providers: inventory marked stale", extra={"attrs": attrs})
    else:
        inventory.info("providers: inventory fresh again", extra={"attrs": attrs})


def has_healthy_alternative(provider: Provider) -> bool:
    """Some other enabled provider has models, is not stale, and its latest refresh failed in neither respect."""
    others = Provider.objects.filter(
        enabled=True, inventory_stale=False, last_model_fetch_error="", last_availability_error=""
    ).exclude(pk=provider.pk)
    return others.filter(models__isnull=False).exists()
