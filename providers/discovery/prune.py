"""Deletes models that discovery switched off and that stayed away for long enough."""

import logging
import uuid
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Coalesce

from modelhotel.core import catalogue, changes, options
from modelhotel.core.actor import SYSTEM as SYSTEM_ACTOR
from modelhotel.core.changes import Change
from modelhotel.core.options import BadValue
from providers import ports
from providers.discovery.journal import flapped
from providers.models import DiscoveryFlap, Model
from providers.verbs import after

log = logging.getLogger("discovery")

AT_ONCE = 500  # rows of one sweep


def prune(
    trusted: Collection[uuid.UUID | str], now: datetime, fresh: Mapping[str, Mapping[str, Any]] | None = None
) -> list[str]:
    """Delete what has been away longer than ``model_prune_days`` at the *trusted* providers (UUIDs), oldest first.

    *fresh*: diffs of this sweep by provider id that are not in the journal yet; what came or went in them stays. Gives
    the provider's own ids of the deleted models, each once. Their rows are taken out of the groups after the commit;
    the sync of these ids is the caller's. Raises what the database raises.
    """
    days = _days()
    if not days or not trusted:
        return []
    kept = {(uuid.UUID(str(owner)), model_id) for owner, diff in (fresh or {}).items() for model_id in flapped(diff)}
    due = _due(trusted, now - timedelta(days=days))
    with transaction.atomic():
        found = due.select_for_update(of=("self",)).values_list("pk", "provider_id", "model_id")
        rows = [row for row in found[: AT_ONCE + len(kept) + 1] if row[1:] not in kept]
        capped, rows = len(rows) > AT_ONCE, rows[:AT_ONCE]
        ids = [row[0] for row in rows]
        # The conditions once more: a provider may have been switched off since they were read.
        due.filter(pk__in=ids).delete()
        spared = set(Model.objects.filter(pk__in=ids).values_list("pk", flat=True))
        gone = [row for row in rows if row[0] not in spared]
        if gone:
            changes.record(("models",), Change("model", "", "deleted", f"{len(gone)} unlisted"), SYSTEM_ACTOR)
            transaction.on_commit(partial(_forget, [str(row[0]) for row in gone]))
    if gone:
        log.info("discovery: unlisted models deleted", extra={"attrs": {"count": len(gone), "days": days}})
    if capped:
        log.warning("discovery: more models to delete than one sweep may", extra={"attrs": {"max": AT_ONCE}})
    return list(dict.fromkeys(row[2] for row in gone))


def _days() -> int:
    """0 = never; a stored value that is none means never too: what it was to say nobody knows."""
    option, values = catalogue.MODEL_PRUNE_DAYS, options.current()
    try:
        option.parse(values.stored.get(option.key, option.default), strict=False)
    except BadValue:  # the settings have warned about it
        return 0
    return values[option]


def _due(trusted: Collection[uuid.UUID | str], before: datetime) -> QuerySet[Model]:
    """The rows to delete, those that were seen longest ago first."""
    moved = DiscoveryFlap.objects.filter(
        provider_id=OuterRef("provider_id"), model_id=OuterRef("model_id"), detected_at__gte=before
    )
    rows = Model.objects.annotate(seen=Coalesce("last_seen_at", "created_at"))
    return rows.order_by("seen", "pk").filter(
        ~Exists(moved),
        provider_id__in=list(trusted),
        provider__enabled=True,
        enabled=False,
        disabled_manually=False,
        manually_enabled_at=None,
        auto_retired_at=None,
        seen__lt=before,
    )


def _forget(ids: list[str]) -> None:
    after("group pruning", lambda: ports.groups.prune_models(ids))
