"""Noticing that a provider changed the shape of its quota answer. It tells people, and nothing that routes."""

import logging

from django.db import transaction

from modelhotel.core import catalogue, events, options
from providers import ports
from providers.models import Provider
from providers.quota import shapes
from providers.quota.shapes import Paths

log = logging.getLogger("quota")

EVENT = "quota.schema_drift"
_KEY = "_quota_schema_{}"


def watch(provider: Provider, kind: str, seen: Paths) -> None:
    """A fetch brought an answer with the paths *seen*. Call it once per fetch, outside of a transaction; never raises.

    What is kept is under a key that no API writes; the candidate is kept there too, so that it does not matter which
    process fetches next.
    """
    if not seen or not options.current()[catalogue.QUOTA_REFRESH_INTERVAL_MIN]:
        return
    key = _KEY.format(provider.pk)
    try:
        with transaction.atomic():
            # Also the turn of two fetches at once, and nothing is kept of a provider that is gone.
            if not Provider.objects.select_for_update().filter(pk=provider.pk).exists():
                return
            note, change = shapes.compare(ports.notes.load_note(key), seen)
            if note is not None:
                ports.notes.store_note(key, note)
    except Exception as problem:
        attrs = {"error": type(problem).__name__, "provider": provider.name}
        log.warning("quota: shape of the answer not compared", extra={"attrs": attrs})
        return
    if change is not None:
        _tell(provider, kind, change)


def forget(provider_id: str) -> None:
    """The provider is gone, or of another type now; inside the caller's transaction."""
    ports.notes.drop_note(_KEY.format(provider_id))


def _tell(provider: Provider, kind: str, change: shapes.Change) -> None:
    facts = {
        "provider_id": str(provider.pk),
        "provider": provider.name,
        "provider_type": provider.provider_type,
        "kind": kind,
        "added": change.added,
        "removed": change.removed,
    }
    log.warning("quota: shape of the answer changed", extra={"attrs": facts})
    events.publish(
        EVENT, "warning", "quota", f"Provider {provider.name} changed the shape of its quota response", facts
    )
