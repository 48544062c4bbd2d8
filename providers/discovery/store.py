"""The database side of a scan: the models it saw, and what it says of those it did not."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import DatabaseError, transaction
from django.db.models import F

from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM as SYSTEM_ACTOR
from modelhotel.core.changes import Change
from modelhotel.core.faults import Refusal
from providers.discovery import merge, misses
from providers.kinds.base import Listed
from providers.models import Model, Provider

log = logging.getLogger("discovery")

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
    stamped: list[Any] = field(default_factory=list)  # ids of the rows of which nothing but the sighting is new


def _plain(value: Any) -> Any:
    """Without what a database, or whoever reads it later, chokes on: NUL, and halves of surrogate pairs."""
    if isinstance(value, str):
        return value.replace("\x00", "").encode(errors="ignore").decode()
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
            _stamp(outcome.stamped, now)
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
    if touched == ["last_seen_at"]:
        outcome.stamped.append(row.pk)
    else:
        row.save(update_fields=touched)
    outcome.rows.append(row)
    outcome.diff.seen(model.model_id, was_on, row.enabled, told)
    return not merge.STAMPS.issuperset(touched)


#: Rows that one statement stamps; a database bounds the parameters of a query (SQLite: 32,766).
_STAMPED_AT_ONCE = 5_000


def _stamp(ids: list[Any], now: datetime) -> None:
    """One statement for many rows: of ten thousand models that are listed again nothing changes but this."""
    for start in range(0, len(ids), _STAMPED_AT_ONCE):
        Model.objects.filter(pk__in=ids[start : start + _STAMPED_AT_ONCE]).update(last_seen_at=now)


def enabled_ids(provider: Provider) -> frozenset[str]:
    """The model ids that are on: those that a listing should name."""
    return frozenset(Model.objects.filter(provider=provider, enabled=True).values_list("model_id", flat=True))


def offered() -> list[str]:
    """Every model id of an enabled provider, each once."""
    return list(Model.objects.filter(provider__enabled=True).order_by().values_list("model_id", flat=True).distinct())


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of the absent models of one scan. *suspect_scans*: how many in a row, this one included."""

    verdict: misses.Verdict = field(default_factory=misses.Verdict)
    suspect_scans: int = 0


def record_misses(provider: Provider, known: frozenset[str], confirmed: misses.Confirmed, began: datetime) -> Recorded:
    """Judge the models of *known* (on when the scan began) and write the verdict, all of it or nothing.

    What another scan saw, or an operator switched off, since *began* is left alone, and so is a provider that takes no
    part in discovery any more. Raises DatabaseError.
    """
    with transaction.atomic():
        taking_part = Provider.objects.filter(pk=provider.pk, enabled=True, autodiscovery_enabled=True)
        if not taking_part.select_for_update().exists():
            return Recorded()
        on = Model.objects.select_for_update().filter(provider=provider, enabled=True)
        rows = {
            row.model_id: row
            for row in on.only("model_id", "manually_enabled_at", "missing_scans", "last_seen_at").order_by("model_id")
            if row.model_id in known and not _seen_since(row, confirmed, began)
        }
        facts = [
            misses.Stored(row.model_id, row.manually_enabled_at is not None, row.missing_scans) for row in rows.values()
        ]
        verdict = misses.judge(facts, confirmed)
        _write_verdict(provider, rows, verdict)
        return Recorded(verdict, _count_suspect(provider, verdict))


def _seen_since(row: Model, confirmed: misses.Confirmed, began: datetime) -> bool:
    found = row.model_id in confirmed.found
    return not found and row.last_seen_at is not None and row.last_seen_at > began


def _write_verdict(provider: Provider, rows: dict[str, Model], verdict: misses.Verdict) -> None:
    for model_id, streak in verdict.streaks.items():
        row = rows[model_id]
        row.missing_scans = streak
        row.enabled = model_id not in verdict.gone
    touched = [rows[model_id] for model_id in verdict.streaks]
    Model.objects.bulk_update(touched, ["missing_scans", "enabled"], batch_size=500)
    if verdict.gone:
        changes.record(("models",), Change("model", "", "updated", f"of {provider.name}"), SYSTEM_ACTOR)


def _count_suspect(provider: Provider, verdict: misses.Verdict) -> int:
    row = Provider.objects.filter(pk=provider.pk)
    if verdict.suspect:
        row.update(suspect_scans=F("suspect_scans") + 1)
    elif verdict.trusted:
        row.filter(suspect_scans__gt=0).update(suspect_scans=0)
    return row.values_list("suspect_scans", flat=True).get()
