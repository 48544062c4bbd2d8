"""Every change of a model by an operator."""

import logging
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from modelhotel.core import changes
from modelhotel.core.actor import Actor
from modelhotel.core.changes import Change
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from providers import inputs, ports
from providers.models import Model

log = logging.getLogger("providers")

BULK_MAX = 10_000
_CHUNK = 500
_PRICES = (
    "input_price_per_million",
    "input_price_per_million_cache_hit",
    "output_price_per_million",
    "search_price_per_thousand",
)


def parse_id(text: str, problem: str = "invalid model ID") -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise Refusal(400, problem) from None


def update_model(model_id: str, given: dict[str, Any], actor: Actor, clock: Clock = SYSTEM) -> Model:
    """Change some fields of the model row *model_id* (UUID text). Raises Refusal."""
    identity = parse_id(model_id)
    wanted = inputs.model_changes(given)
    with transaction.atomic():
        row = Model.objects.select_for_update(of=("self",)).filter(pk=identity).first()
        if row is None:
            raise Refusal(404, "model not found")
        values = _values(wanted, clock)
        for field, value in values.items():
            setattr(row, field, value)
        row.save(update_fields=list(values))
        changes.record(("models",), Change("model", str(row.pk), "updated", row.model_id), actor)
    return row


def _values(wanted: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """The columns to write for a checked edit."""
    values = dict(wanted)
    if "display_name" in wanted:
        values["display_name_customized"] = wanted["display_name"] != ""
    if any(field in wanted for field in _PRICES):
        values["price_customized"] = True
    if wanted.get("price_customized") is False:
        # Unpinning forgets what was pinned and wins over prices of the same edit; the next scan fills them again.
        values.update(dict.fromkeys(_PRICES), price_customized=False)
    if "enabled" in wanted:
        off = not wanted["enabled"]
        values["disabled_manually"] = off
        values["manually_enabled_at"] = None if off else clock.now()
        values["auto_retired_at"] = values["discovery_dismissed_at"] = None
    return values


def delete_models(ids: Sequence[str], actor: Actor) -> int:
    """Remove these model rows (UUID text); ids without a row are no error. How many there were. Raises Refusal."""
    if not ids:
        raise Refusal(400, "ids must not be empty")
    if len(ids) > BULK_MAX:
        raise Refusal(400, f"too many ids (max {BULK_MAX})")
    return _delete(list(dict.fromkeys(parse_id(text, f"invalid model ID: {text}") for text in ids)), actor)


def delete_model(model_id: str, actor: Actor) -> None:
    """Remove one model row; one that is not there is no error. Raises Refusal for a malformed id."""
    _delete([parse_id(model_id)], actor)


def _delete(identities: list[uuid.UUID], actor: Actor) -> int:
    with transaction.atomic():
        rows: list[tuple[uuid.UUID, str]] = []
        for at in range(0, len(identities), _CHUNK):
            chunk = Model.objects.filter(pk__in=identities[at : at + _CHUNK])
            rows += chunk.values_list("pk", "model_id")
            chunk.delete()
        if rows:
            one = str(rows[0][0]) if len(rows) == 1 else ""
            name = rows[0][1] if len(rows) == 1 else f"{len(rows)} models"
            changes.record(("models",), Change("model", one, "deleted", name), actor)
            transaction.on_commit(lambda: _deleted([str(pk) for pk, _ in rows], {model_id for _, model_id in rows}))
    return len(rows)


def _deleted(ids: list[str], model_ids: Iterable[str]) -> None:
    for what, run in (
        ("group sync", lambda: ports.groups.sync_models(sorted(model_ids))),
        ("group pruning", lambda: ports.groups.prune_models(ids)),
    ):
        try:
            run()
        except Exception:
            log.exception("providers: effect of a change failed", extra={"attrs": {"effect": what}})
