"""Reading the request log: filters, order, pages. Malformed filters are ignored, never an error."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import BooleanField, Case, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import NullIf
from django.utils.dateparse import parse_datetime

from modelhotel.core.actor import Actor
from modelhotel.core.clock import rfc3339
from modelhotel.core.ids import parse_uuid
from providers.models import Provider
from requestlogs import ports
from requestlogs.columns import COLUMNS
from requestlogs.models import RequestLog

ENDPOINTS = frozenset({"chat", "messages", "responses", "embeddings", "rerank", "image", "tts", "stt"})
STATES = frozenset({"pending", "streaming", "completed", "failed"})
#: In the words of the partial index, not as parameters: SQLite would read the whole table.
_RUNNING = RawSQL("""("request_logs"."state" IN ('pending', 'streaming'))""", (), BooleanField())
Rows = QuerySet[RequestLog]


def clamp(text: str | None, default: int, low: int, high: int) -> int:
    try:
        value = int(text) if text else default
    except ValueError:
        value = default
    return min(max(value, low), high)


def visible_to(actor: Actor) -> Rows:
    """Everything for administrators and viewers; a user's own rows, in the SQL, so that totals are theirs too."""
    rows = RequestLog.objects.all()
    return rows if actor.role != "user" else rows.filter(owner_user_id=actor.user_id)


def _status(rows: Rows, text: str) -> Rows:
    if text == "0":
        return rows.filter(Q(status_code=0) | Q(status_code__isnull=True))
    if len(text) == 3 and text[1:].lower() == "xx" and text[0] in "2345":
        low = int(text[0]) * 100
        return rows.filter(status_code__gte=low, status_code__lt=low + 100)
    code = _code(text)
    return rows if code is None else rows.filter(status_code=code)


def _code(text: str) -> int | None:
    """A status code; None for what can be none (and would not fit its column)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 4 else None


def _attempt(rows: Rows, provider_id: uuid.UUID | None, status: int | None) -> Rows:
    """Some attempt matches; both given: the same one."""
    wanted: dict[str, object] = {}
    if provider_id:
        wanted["provider_id"] = str(provider_id)
    if status:
        wanted["status"] = status
    if not wanted:
        return rows
    if connection.vendor == "postgresql":
        return rows.filter(attempts__contains=[wanted])
    checks = " AND ".join(f"json_extract(value, '$.{name}') = %s" for name in wanted)
    found = RawSQL(
        f'EXISTS (SELECT 1 FROM json_each("request_logs"."attempts") WHERE {checks})', tuple(wanted.values())
    )
    return rows.annotate(attempt_found=found).filter(attempt_found=True)


def moment(text: str | None) -> datetime | None:
    try:
        value = parse_datetime(text.replace(" ", "+")) if text else None
        # Near the ends of the calendar an offset leads out of it.
        return value.astimezone(UTC) if value is not None and value.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def filtered(rows: Rows, query: Mapping[str, str], actor: Actor) -> Rows:
    """*query* as ``GET /api/logs`` takes it."""
    query = {name: value for name, value in query.items() if "\0" not in value}  # no row holds one; PostgreSQL refuses
    if model := query.get("model_id"):
        rows = rows.filter(Q(model_id__icontains=model) | Q(resolved_model_id__icontains=model))
    for name in ("provider_id", "virtual_key_id", "owner_user_id"):
        value = parse_uuid(query.get(name))
        if value and (name != "owner_user_id" or actor.role in ("admin", "viewer")):
            rows = rows.filter(**{name: value})
    if address := query.get("client_ip"):
        rows = rows.filter(client_ip=address)
    if status := query.get("status_code"):
        rows = _status(rows, status)
    if query.get("endpoint_type") in ENDPOINTS:
        rows = rows.filter(endpoint_type=query["endpoint_type"])
    if query.get("state") == "running":
        rows = rows.filter(_RUNNING)
    elif query.get("state") in STATES:
        rows = rows.filter(state=query["state"])
    if start := moment(query.get("from")):
        rows = rows.filter(created_at__gte=start)
    if end := moment(query.get("to")):
        rows = rows.filter(created_at__lt=end)
    attempt_provider = parse_uuid(query.get("attempt_provider_id"))
    return _attempt(rows, attempt_provider, _code(query.get("attempt_status", "")))


def _provider_name() -> Subquery:
    return Subquery(Provider.objects.filter(pk=OuterRef("provider_id")).values("name")[:1])


def _sort_value(sort_by: str) -> Any:
    simple = {"model": "model_id", "status": "status_code", "ip": "client_ip"}
    positive = {
        "tps": "tokens_per_second",
        "ttft": "ttft_ms",
        "response_header_ms": "response_header_ms",
        "duration": "duration_ms",
        "overhead": "proxy_overhead_ms",
    }
    if sort_by in simple:
        return F(simple[sort_by])
    if sort_by in positive:
        return NullIf(F(positive[sort_by]), Value(0.0))
    if sort_by == "tokens":
        return NullIf(F("tokens_prompt") + F("tokens_completion"), Value(0))
    if sort_by == "provider":
        return _provider_name()
    if sort_by == "key":
        live = When(virtual_key_id__in=ports.live_key_ids(), then=F("virtual_key_name"))
        return Case(live, default=Value(None))
    return None


def ordered(rows: Rows, sort_by: str, sort_dir: str) -> Rows:
    """Rows without a value last in either direction; equal values newest first, then by id."""
    value = _sort_value(sort_by)
    if value is None:
        return rows.order_by("created_at", "id") if sort_dir == "asc" else rows.order_by("-created_at", "-id")
    rows = rows.annotate(sort_value=value)
    first = F("sort_value").asc(nulls_last=True) if sort_dir == "asc" else F("sort_value").desc(nulls_last=True)
    return rows.order_by(first, "-created_at", "-id")


_IDS = ("id", "provider_id", "virtual_key_id", "owner_user_id")
_SHAPED = {*_IDS, "created_at", "cost_usd", "heartbeat_at"}
_PLAIN = tuple(name for name in COLUMNS if name not in _SHAPED)


def entries(rows: list[RequestLog]) -> list[dict[str, object]]:
    """What the API shows of *rows*: every column, the provider's name, whether the key is gone."""
    provider_ids = {row.provider_id for row in rows if row.provider_id}
    names = dict(Provider.objects.filter(pk__in=provider_ids).values_list("pk", "name")) if provider_ids else {}
    key_ids = {row.virtual_key_id for row in rows if row.virtual_key_id}
    live = set(ports.live_key_ids()) & key_ids if key_ids else set()
    found = []
    for row in rows:
        entry: dict[str, object] = {name: getattr(row, name) for name in _PLAIN}
        for name in _IDS:
            value = getattr(row, name)
            entry[name] = str(value) if value else None
        entry["created_at"] = rfc3339(row.created_at, milliseconds=True)
        entry["cost_usd"] = None if row.cost_usd is None else float(row.cost_usd)
        entry["provider_name"] = names.get(row.provider_id, "Deleted") if row.provider_id else ""
        entry["virtual_key_deleted"] = row.virtual_key_id is not None and row.virtual_key_id not in live
        found.append(entry)
    return found
