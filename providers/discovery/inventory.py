"""What a refresh leaves of a provider's health: its two errors, its stamps, and whether its models are old news."""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Count

from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM as SYSTEM_ACTOR
from providers.models import Provider

log = logging.getLogger("providers")


def note(provider: Provider, listing: str, access: str, now: datetime, *, scanned: bool) -> None:
    """Keep the facts of one refresh: two errors (``""`` = well). *scanned* moves ``last_discovered_at`` too.

    A provider that is well in both respects is fresh at once; whether a failed one is stale depends on the others
    (:func:`after_single`, :func:`after_sweep`).
    """
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
    failed = bool(listing or access)
    with transaction.atomic():
        turned = _of_other_mind(provider, failed)
        Provider.objects.filter(pk=provider.pk).update(**facts)
        freshened = not failed and _mark([provider.pk], stale=False)
        if turned and not freshened:
            changes.record(("providers",), None, SYSTEM_ACTOR)  # the snapshot knows who failed


def stamp(provider: Provider, now: datetime) -> None:
    """A scan was attempted and its models could not be written: nothing is known but when."""
    Provider.objects.filter(pk=provider.pk).update(last_discovered_at=now)


def after_single(ids: Iterable[Any]) -> None:
    """These providers failed a refresh of their own: stale as soon as some other provider is healthy."""
    _judge(list(ids), _some_healthy())


def after_sweep(failed: Mapping[str, bool]) -> None:
    """*failed* of every provider of one sweep. An outage of all of them is more likely ours: then nobody is marked."""
    _judge([provider_id for provider_id, bad in failed.items() if bad], not all(failed.values()))


def _judge(ids: list[Any], others_well: bool) -> None:
    with transaction.atomic():
        if others_well:
            _mark(ids, stale=True)
        else:  # whose key is refused may still have listed its models just now
            _mark(ids, stale=False, last_model_fetch_error="")


def _of_other_mind(provider: Provider, failed: bool) -> bool:
    errors = Provider.objects.filter(pk=provider.pk).values_list("last_model_fetch_error", "last_availability_error")
    before = errors.first()
    return before is not None and any(before) != failed


def _mark(ids: list[Any], *, stale: bool, **those: Any) -> bool:
    """Inside a transaction. True when one turned: it is part of what routing reads, so the version is raised.

    Only those with models become stale: there is nothing to keep of the others.
    """
    rows = Provider.objects.filter(pk__in=ids, inventory_stale=not stale, **those).annotate(kept=Count("models"))
    if stale:
        rows = rows.filter(kept__gt=0)
    turned = list(rows)
    if not Provider.objects.filter(pk__in=[row.pk for row in turned]).update(inventory_stale=stale):
        return False
    changes.record(("providers",), None, SYSTEM_ACTOR)
    for row in turned:
        transaction.on_commit(partial(_tell, row, stale))
    return True


def _tell(row: Any, stale: bool) -> None:
    attrs = {"provider": row.name, "provider_id": str(row.pk), "models": row.kept}
    if stale:
        attrs["error"] = row.last_model_fetch_error or row.last_availability_error
        log.warning("providers: inventory marked stale", extra={"attrs": attrs})
    else:
        log.info("providers: inventory fresh again", extra={"attrs": attrs})


def _some_healthy() -> bool:
    """Some enabled provider has models, is not stale, and its latest refresh failed in neither respect."""
    rows = Provider.objects.filter(
        enabled=True, inventory_stale=False, last_model_fetch_error="", last_availability_error=""
    )
    return rows.filter(models__isnull=False).exists()
