"""What the dashboard is told of discovery: claims, the feed of unseen changes, the numbers of the badge."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Func, JSONField, QuerySet

from providers import ports
from providers.discovery import discrepancies, feed
from providers.discovery.claims import claimed
from providers.discovery.discrepancies import WINDOW, Claimed
from providers.discovery.feed import Entry
from providers.models import DiscoveryChange, Model
from providers.ports import GroupOff

REVIEWED = "_discovery_reviewed_at"
_CHUNK = 500


def read(now: datetime, *, review: bool = False, keep: bool = False, brief: bool = False) -> dict[str, Any]:
    """The answer of ``GET /api/discovery/status``.

    *review*: count what came or went since the last review, and with *keep* remember that there was one now. *brief*:
    the two numbers only. Raises what the database raises.
    """
    since = (_reviewed() or now - WINDOW) if review else None
    claims, groups = claimed(now, since), ports.groups.switched_off()
    news = _fold(_counted() if brief else map(_entry, _unseen()), claims, groups)
    if review and keep:
        ports.notes.store_note(REVIEWED, now.isoformat())
    numbers = {
        "claim_count": discrepancies.count(claims, groups, now),
        "informational_unseen": sum(entry.counts for entry in news),
    }
    if brief:
        return numbers
    return {
        "claims": discrepancies.by_provider(claims, now),
        "group_claims": [discrepancies.group_item(group) for group in groups],
        "informational": [entry.shown() for entry in reversed(news)],
        **numbers,
    }


def acknowledge() -> dict[str, Any]:
    """Mark the unseen entries seen and give exactly these, newest first; *count* is what came in meanwhile."""
    with transaction.atomic():
        rows = list(_unseen().select_for_update(of=("self",)))
        for at in range(0, len(rows), _CHUNK):
            DiscoveryChange.objects.filter(pk__in=[row.pk for row in rows[at : at + _CHUNK]]).update(seen=True)
    return {"entries": [_entry(row).shown() for row in reversed(rows)], "count": _unseen().count()}


def _reviewed() -> datetime | None:
    try:
        return datetime.fromisoformat(ports.notes.load_note(REVIEWED) or "")
    except ValueError:
        return None


def _unseen() -> QuerySet[DiscoveryChange]:
    """Oldest first."""
    return DiscoveryChange.objects.filter(seen=False).order_by("detected_at", "pk")


def _entry(row: DiscoveryChange) -> Entry:
    owner = str(row.provider_id) if row.provider_id else ""
    return Entry(row.detected_at, row.source, owner, row.provider_name, row.diff)


class _News(Func):
    """A diff without its changed fields, which are most of it."""

    output_field = JSONField()

    def as_sqlite(self, compiler: Any, connection: Any, **more: Any) -> Any:
        return self.as_sql(compiler, connection, template="JSON_REMOVE(%(expressions)s, '$.updated')", **more)

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s - 'updated')", **more)


def _counted() -> Iterator[Entry]:
    """The unseen entries that are counted, without what is not: what every open page asks for once in a minute."""
    rows = _unseen().filter(diff__has_any_keys=feed.NEWS).annotate(news=_News("diff"))
    for at, source, owner, name, news in rows.values_list(
        "detected_at", "source", "provider_id", "provider_name", "news"
    ):
        yield Entry(at, source, str(owner) if owner else "", name, news)


def _fold(entries: Iterable[Entry], claims: Iterable[Claimed], groups: Iterable[GroupOff]) -> list[Entry]:
    off = {(one.provider_id, one.model_id) for one in claims if not one.enabled}
    return feed.fold(entries, off | _dismissed(), {group.display_model for group in groups})


def _dismissed() -> set[tuple[str, str]]:
    """Models whose claim somebody saw and settled: that they went is no news any more."""
    rows = Model.objects.filter(enabled=False).exclude(discovery_dismissed_at=None).order_by()
    return {(str(owner), model_id) for owner, model_id in rows.values_list("provider_id", "model_id")}
