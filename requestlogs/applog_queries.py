"""Reading the app log: filters, order, counts. Malformed filters are ignored, never an error."""

from collections.abc import Mapping

from django.db.models import Case, Count, F, QuerySet, Value, When

from modelhotel.core.clock import rfc3339
from requestlogs import applog
from requestlogs.models import AppLog
from requestlogs.queries import moment
from requestlogs.shared import Shared

#: Seconds the counts are answered from memory: they read the whole table.
COUNT_SECONDS = 5.0
Rows = QuerySet[AppLog]


def filtered(rows: Rows, query: Mapping[str, str]) -> Rows:
    """*query*: level, source, search (part of the message), from (inclusive), to (exclusive)."""
    query = {name: value for name, value in query.items() if "\0" not in value}  # no row holds one; PostgreSQL refuses
    if query.get("level") in applog.LEVELS:
        rows = rows.filter(level=query["level"])
    if source := query.get("source"):
        rows = rows.filter(source=source)
    if search := query.get("search"):
        rows = rows.filter(message__icontains=search)
    if start := moment(query.get("from")):
        rows = rows.filter(timestamp__gte=start)
    if end := moment(query.get("to")):
        rows = rows.filter(timestamp__lt=end)
    return rows


#: By what it means, not by its letters.
_SEVERITY = Case(*(When(level=word, then=Value(at)) for at, word in enumerate(applog.LEVELS)), default=Value(-1))


def ordered(rows: Rows, sort_by: str, sort_dir: str) -> Rows:
    """*sort_by*: time, level, source or message; equal values newest first, then by id."""
    values = {"level": _SEVERITY, "source": F("source"), "message": F("message")}
    if sort_by not in values:
        return rows.order_by("timestamp", "id") if sort_dir == "asc" else rows.order_by("-timestamp", "-id")
    rows = rows.annotate(sort_value=values[sort_by])
    return rows.order_by("sort_value" if sort_dir == "asc" else "-sort_value", "-timestamp", "-id")


def entries(rows: list[AppLog]) -> list[dict[str, object]]:
    return [
        {
            "id": str(row.id),
            "timestamp": rfc3339(row.timestamp, milliseconds=True),
            "level": row.level,
            "source": row.source,
            "message": row.message,
            "node": row.node,
            "created_at": rfc3339(row.created_at, milliseconds=True),
        }
        for row in rows
    ]


Counts = tuple[dict[str, int], dict[str, int]]
_counts: Shared[Counts] = Shared(COUNT_SECONDS)


def counts() -> Counts:
    """How many lines there are of each level and of each source, at most :data:`COUNT_SECONDS` old."""
    return _counts.get("", _count)


def forget_counts() -> None:
    _counts.forget()


def _count() -> Counts:
    rows = AppLog.objects.order_by()
    levels = dict(rows.values_list("level").annotate(count=Count("pk")))
    sources = dict(rows.values_list("source").annotate(count=Count("pk")))
    return {word: levels.get(word, 0) for word in applog.LEVELS}, dict(sorted(sources.items()))
