"""Providers that an operator wants switched off on a day (providers 1.5)."""

import logging

from django.db import transaction

from modelhotel.core import changes, events
from modelhotel.core.actor import SYSTEM as SYSTEM_ACTOR
from modelhotel.core.changes import Change
from modelhotel.core.clock import SYSTEM, Clock
from providers import ports
from providers.models import Provider
from providers.verbs import after

log = logging.getLogger("providers")


def disable_due(clock: Clock = SYSTEM) -> list[str]:
    """Switch off every enabled provider whose day has come on this server's calendar; their names.

    The day is cleared in the same statement, so however many processes look, each provider is switched off once.
    """
    today = clock.now().astimezone().date()
    with transaction.atomic():
        due = Provider.objects.filter(enabled=True, scheduled_disable_on__lte=today)
        rows = list(due.select_for_update().order_by("name"))
        if not rows:
            return []
        Provider.objects.filter(pk__in=[row.pk for row in rows]).update(
            enabled=False, scheduled_disable_on=None, updated_at=clock.now()
        )
        for row in rows:
            changes.record(("providers",), Change("provider", str(row.pk), "updated", row.name), SYSTEM_ACTOR)
    for row in rows:
        _tell(row)
    after("full group sync", ports.groups.full_sync)
    return [row.name for row in rows]


def at_start() -> None:
    """What came due while nobody ran; a failure does not stop the start, the next turn tries again."""
    after("scheduled disable", disable_due)


def _tell(row: Provider) -> None:
    attrs = {"provider": row.name, "provider_id": str(row.pk), "day": str(row.scheduled_disable_on)}
    log.info("providers: switched off as scheduled", extra={"attrs": attrs})
    events.publish(
        "provider.scheduled_disable",
        "warning",
        "providers",
        f"{row.name} was switched off as scheduled",
        {"provider": row.name, "provider_id": str(row.pk)},
    )
