"""Claims from the database: what the dashboard is shown, and the alert about those that wait for too long."""

import logging
from datetime import datetime
from typing import Any

from django.db.models import Count, IntegerField, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce

from modelhotel.core import catalogue, events, options
from providers import ports
from providers.discovery import discrepancies
from providers.discovery.discrepancies import WINDOW, Claimed
from providers.models import DiscoveryFlap, Model

log = logging.getLogger("discovery")

LEVEL = "_discovery_claim_level"


def claimed(now: datetime, reviewed: datetime | None = None) -> list[Claimed]:
    """The model rows under consideration; one query. *reviewed*: count what came or went since then, too."""
    considered = Q(enabled=False, discovery_dismissed_at=None) | Q(enabled=True, missing_scans__gt=0)
    rows = (
        Model.objects.filter(considered, provider__enabled=True, disabled_manually=False)
        .annotate(
            seen=Coalesce("last_seen_at", "created_at"),
            flaps=_flaps(now - WINDOW),
            since=_flaps(reviewed) if reviewed else Value(0),
        )
        .order_by()
    )
    found = rows.values_list(
        "id",
        "model_id",
        "provider_id",
        "provider__name",
        "enabled",
        "missing_scans",
        "manually_enabled_at",
        "auto_retired_at",
        "seen",
        "flaps",
        "since",
    )
    return [Claimed(str(id), model_id, str(provider_id), *rest) for id, model_id, provider_id, *rest in found]


def _flaps(since: datetime) -> Coalesce:
    """How often the model of the outer row came or went since then; one look into the index per row."""
    rows = DiscoveryFlap.objects.filter(
        provider_id=OuterRef("provider_id"), model_id=OuterRef("model_id"), detected_at__gte=since
    )
    number = rows.order_by().values("provider_id").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(number, output_field=IntegerField()), 0)


def alert(now: datetime) -> bool:
    """Tell of claims that wait longer than ``discovery_claim_alert_days``, once per level. True when it told.

    Raises what the database raises.
    """
    days = discrepancies.threshold(options.current().stored.get(catalogue.DISCOVERY_CLAIM_ALERT_DAYS.key))
    found = discrepancies.outstanding(claimed(now), ports.groups.switched_off(), now)
    stored = ports.notes.load_note(LEVEL) or ""
    level = int(stored) if stored.isdigit() else None
    step = discrepancies.step(level, found.count, found.older_than(days, now))
    if step.level != level:
        ports.notes.store_note(LEVEL, "" if step.level is None else str(step.level))
    if step.tell:
        _publish(found, days, now)
    return step.tell


def _publish(found: discrepancies.Outstanding, days: int, now: datetime) -> None:
    metadata: dict[str, Any] = found.metadata(days, now)
    age = metadata["oldest_age_days"]
    text = f"{found.count} model discrepancies wait for an answer, the oldest for {age} days"
    log.warning("discovery: claims outstanding", extra={"attrs": {"count": found.count, "oldest_age_days": age}})
    events.publish("discovery.claims_outstanding", "warning", "discovery", text, metadata)
