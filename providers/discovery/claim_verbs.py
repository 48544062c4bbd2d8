"""What an operator answers to claims: let it rest, or give a model back to discovery."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.db.models import Q

from modelhotel.core import changes
from modelhotel.core.actor import Actor
from modelhotel.core.changes import Change
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from providers.model_verbs import BULK_MAX, parse_id
from providers.models import Model

NO_MATCH = "no matching models"
_CHUNK = 500


def dismiss(provider_id: str, model_ids: Sequence[str], actor: Actor, clock: Clock = SYSTEM) -> dict[str, Any]:
    """Claims of these models (the provider's own ids) are settled until the next sighting. Raises Refusal.

    Only models that are off, and not by hand, have any. *updated*: those that were not dismissed before.
    """
    off = Q(enabled=False, disabled_manually=False)
    with transaction.atomic():
        rows = _locked(provider_id, model_ids, off)
        fresh = [row for row in rows if row.discovery_dismissed_at is None]
        _write(fresh, actor, discovery_dismissed_at=clock.now())
    return {"dismissed": [row.model_id for row in rows], "updated": len(fresh)}


def unpin(provider_id: str, model_ids: Sequence[str], actor: Actor) -> dict[str, Any]:
    """What an operator switched on may be switched off by discovery again, after two more misses. Raises Refusal."""
    with transaction.atomic():
        rows = _locked(provider_id, model_ids, Q(manually_enabled_at__isnull=False))
        _write(rows, actor, manually_enabled_at=None, missing_scans=0)
    return {"unpinned": [row.model_id for row in rows]}


def _locked(provider_id: str, model_ids: Sequence[str], which: Q) -> list[Model]:
    """The rows asked for, in the order they were asked for."""
    owner = parse_id(provider_id, "invalid provider ID")
    wanted = list(dict.fromkeys(model_ids))
    if not wanted:
        raise Refusal(400, "model_ids must not be empty")
    if len(wanted) > BULK_MAX:
        raise Refusal(400, f"too many ids (max {BULK_MAX})")
    found = _rows(owner, wanted, which)
    if not found:
        raise Refusal(404, NO_MATCH)
    return [found[model_id] for model_id in wanted if model_id in found]


def _rows(owner: uuid.UUID, wanted: Sequence[str], which: Q) -> dict[str, Model]:
    # A NUL is in no stored id, and PostgreSQL takes none in a query.
    storable = [model_id for model_id in wanted if "\x00" not in model_id]
    rows = Model.objects.select_for_update(of=("self",)).filter(which, provider_id=owner).order_by("pk")
    found: dict[str, Model] = {}
    for at in range(0, len(storable), _CHUNK):
        found.update((row.model_id, row) for row in rows.filter(model_id__in=storable[at : at + _CHUNK]))
    return found


def _write(rows: Sequence[Model], actor: Actor, **values: Any) -> None:
    if not rows:
        return
    for at in range(0, len(rows), _CHUNK):
        Model.objects.filter(pk__in=[row.pk for row in rows[at : at + _CHUNK]]).update(**values)
    one = rows[0] if len(rows) == 1 else None
    changed = Change("model", str(one.pk) if one else "", "updated", one.model_id if one else f"{len(rows)} claims")
    # Nothing that requests are routed by: no snapshot has to be rebuilt.
    changes.record((), changed, actor)
