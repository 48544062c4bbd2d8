"""The model list, a page at a time: filters, sort orders and the cursor between pages."""

import base64
import binascii
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Case, F, IntegerField, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Cast, Coalesce, Lower, NullIf

from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from providers import queries
from providers.discovery.classify import ORDER
from providers.models import Model

LIMIT_DEFAULT, LIMIT_MAX = 50, 200
CAPABILITIES = frozenset(
    {
        "streaming",
        "vision",
        "video_input",
        "audio_input",
        "reasoning",
        "tool_calling",
        "parallel_tool_calls",
        "structured_output",
        "pdf_upload",
    }
)
_STATUS = Case(
    When(Q(enabled=True, provider__enabled=True), then=Value(0)),
    When(Q(enabled=True), then=Value(1)),
    default=Value(2),
    output_field=IntegerField(),
)
#: sort_by -> the expression rows are ordered by; never null, so that a page boundary is one comparison.
SORTS: dict[str, Any] = {
    "name": Lower(Coalesce(NullIf(F("display_name"), Value("")), F("model_id"))),
    "discovered": F("created_at"),
    "context": Coalesce(F("context_length"), Value(0)),
    "output": Coalesce(F("max_output_tokens"), Value(0)),
    "provider": Lower(F("provider__name")),
    "status": _STATUS,
}
_NUMERIC = frozenset({"context", "output", "status"})


@dataclass(frozen=True, slots=True)
class Asked:
    """The query of one page, as sent; words that mean nothing fall back to the defaults."""

    limit: str = ""
    direction: str = ""
    sort_by: str = ""
    sort_dir: str = ""
    search: str = ""
    provider_id: str = ""
    provider_enabled: str = ""
    enabled: str = ""
    capabilities: str = ""
    outputs: str = ""
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    sort_by: str
    value: Any
    id: str = field(default="")


def encode(cursor: Cursor) -> str:
    value = cursor.value.isoformat() if isinstance(cursor.value, datetime) else cursor.value
    body = json.dumps({"sort_by": cursor.sort_by, cursor.sort_by: value, "id": cursor.id}, separators=(",", ":"))
    return base64.urlsafe_b64encode(body.encode()).decode()


def decode(text: str) -> Cursor:
    """Raises Refusal."""
    try:
        body = json.loads(base64.urlsafe_b64decode(text.encode()))
        sort_by, value, identity = body["sort_by"], body[body["sort_by"]], parse_uuid(body["id"])
        if sort_by not in SORTS or identity is None:
            raise ValueError(sort_by)
        if sort_by == "discovered":
            value = datetime.fromisoformat(value)
            if value.tzinfo is None:
                raise ValueError("a time without zone")
        elif type(value) is not (int if sort_by in _NUMERIC else str) or "\x00" in str(value):
            raise ValueError("a value of another type")
    except (ValueError, TypeError, KeyError, binascii.Error, RecursionError, OverflowError):
        raise Refusal(400, "invalid cursor") from None
    return Cursor(sort_by, value, str(identity))


def _words(text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def _flag(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


def filtered(asked: Asked) -> "QuerySet[Model]":
    """The rows that match everything but the cursor."""
    rows = Model.objects.select_related("provider")
    if search := asked.search.replace("\x00", ""):
        rows = rows.filter(
            Q(model_id__icontains=search) | Q(name__icontains=search) | Q(display_name__icontains=search)
        )
    if asked.provider_id:
        ids = [found for word in _words(asked.provider_id) if (found := parse_uuid(word))]
        if ids:
            rows = rows.filter(provider_id__in=ids)
    for value, column in ((asked.provider_enabled, "provider__enabled"), (asked.enabled, "enabled")):
        if (flag := _flag(value)) is not None:
            rows = rows.filter(**{column: flag})
    for word in _words(asked.capabilities):
        rows = rows.filter(**{f"capabilities__{word}": True}) if word in CAPABILITIES else rows.none()
    if outputs := [word for word in _words(asked.outputs) if word in ORDER]:
        rows = rows.annotate(outputs_text=Cast("output_modalities", TextField()))
        for word in outputs:
            # No JSON containment on SQLite; both databases print the list with quoted words.
            rows = rows.filter(outputs_text__contains=f'"{word}"')
    return rows


def _beyond(rows: "QuerySet[Any]", cursor: Cursor, upwards: bool) -> "QuerySet[Any]":
    word = "gt" if upwards else "lt"
    return rows.filter(
        Q(**{f"sort_value__{word}": cursor.value}) | Q(**{"sort_value": cursor.value, f"id__{word}": cursor.id})
    )


def page(asked: Asked, allowed: Collection[str] | None = None) -> dict[str, Any]:
    """One page with its totals and cursors. *allowed*: the providers whoever asks may know of, None = all.

    Raises Refusal for an unreadable cursor.
    """
    cursor = decode(asked.cursor) if asked.cursor else None
    sort_by = cursor.sort_by if cursor else (asked.sort_by if asked.sort_by in SORTS else "name")
    limit = int(asked.limit) if asked.limit.isascii() and asked.limit.isdigit() and len(asked.limit) < 4 else 0
    limit = limit if 1 <= limit <= LIMIT_MAX else LIMIT_DEFAULT
    matching = filtered(asked)
    if allowed is not None:
        matching = matching.filter(provider_id__in=allowed)
    rows: QuerySet[Any] = matching.annotate(sort_value=SORTS[sort_by])
    backwards = cursor is not None and asked.direction == "before"
    upwards = (asked.sort_dir != "desc") != backwards
    if cursor:
        rows = _beyond(rows, cursor, upwards)
    sign = "" if upwards else "-"
    found = list(rows.order_by(f"{sign}sort_value", f"{sign}id")[: limit + 1])
    more, found = len(found) > limit, found[:limit]
    if backwards:
        found.reverse()
    has_before, has_after = (more, True) if backwards else (cursor is not None, more)
    edges = [Cursor(sort_by, row.sort_value, str(row.pk)) for row in (found[:1] + found[-1:])]
    return {
        "entries": [queries.model_object(row) for row in found],
        **_totals(matching),
        "has_before": has_before,
        "has_after": has_after,
        "next_cursor": encode(edges[-1]) if edges and has_after else None,
        "prev_cursor": encode(edges[0]) if edges and has_before else None,
    }


def _totals(rows: "QuerySet[Model]") -> dict[str, int]:
    return {
        "total": rows.count(),
        "enabled_total": rows.filter(enabled=True, provider__enabled=True).count(),
        "parked_total": rows.filter(provider__enabled=False).count(),
        "disabled_total": rows.filter(enabled=False).count(),
    }
