"""The journal of what sweeps changed. Scans that an operator asked for are not part of it."""

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import transaction

from providers.models import DiscoveryChange, DiscoveryFlap, Provider

log = logging.getLogger("discovery")

Source = Literal["scheduled", "startup"]
KEEP_SEEN = timedelta(days=30)
#: Sections of a diff that say that a model came or went.
FLAPPING = ("added", "reenabled", "disabled")
_BATCH = 500


def flapped(diff: Mapping[str, Any]) -> Iterator[str]:
    """The provider's own ids of the models that came or went in *diff*; one that did both is given twice."""
    for section in FLAPPING:
        for entry in diff.get(section, ()):
            yield entry["model_id"]


def record(source: Source, provider: Provider | None, diff: Mapping[str, Any], now: datetime) -> bool:
    """Write what one sweep changed at *provider* (None: at the groups of the run). False when *diff* is empty.

    Of a provider that was deleted meanwhile its name stays. Raises what the database raises.
    """
    if not diff:
        return False
    name = provider.name if provider else ""
    with transaction.atomic():
        if provider is not None:
            provider = Provider.objects.select_for_update().filter(pk=provider.pk).first()
        row = DiscoveryChange.objects.create(
            detected_at=now, source=source, provider=provider, provider_name=name, diff=dict(diff)
        )
        if provider is not None:
            DiscoveryFlap.objects.bulk_create(
                (
                    DiscoveryFlap(change=row, provider=provider, model_id=model_id, detected_at=now)
                    for model_id in flapped(diff)
                ),
                batch_size=_BATCH,
            )
    return True


def retain(now: datetime) -> int:
    """Delete acknowledged entries older than 30 days; what nobody has seen stays. How many went."""
    _, counts = DiscoveryChange.objects.filter(seen=True, detected_at__lt=now - KEEP_SEEN).delete()
    gone = counts.get(DiscoveryChange._meta.label, 0)
    if gone:
        log.info("discovery: old journal entries deleted", extra={"attrs": {"count": gone}})
    return gone
