"""What the API and the pages read about failover groups; each call is a constant number of queries."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from failover import grouping, naming, ports
from failover.models import FailoverGroup
from failover.verbs import group_id
from modelhotel.core.clock import SYSTEM, Clock, rfc3339
from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from providers.models import Model

log = logging.getLogger("failover")

TOKEN_WINDOW = timedelta(days=30)
#: Above this many members all rows are read: a database bounds the parameters of one query (SQLite: 32,766).
_MAX_IN = 5_000
#: Totals that took longer than this to sum up, in seconds, are kept for as many times that long, a minute at most.
_SLOW, _KEPT_TIMES, _KEPT_MOST = 0.5, 50, 60.0

_COLUMNS = (
    "id",
    "model_id",
    "provider_id",
    "provider__name",
    "display_name",
    "enabled",
    "provider__enabled",
    "disabled_manually",
    "context_length",
    "owned_by",
)


def all_groups() -> list[FailoverGroup]:
    """Every group by name; by code point, whatever the database's collation is."""
    return sorted(FailoverGroup.objects.all(), key=lambda group: group.display_model)


def one_group(target: str) -> FailoverGroup:
    """Raises Refusal."""
    group = FailoverGroup.objects.filter(pk=group_id(target)).first()
    if group is None:
        raise Refusal(404, "failover group not found")
    return group


def describe(groups: Iterable[FailoverGroup], clock: Clock = SYSTEM, *, totals: bool = True) -> list[dict[str, Any]]:
    """The group objects of the API (routing A9.2): two queries, however many groups. Without *totals* they are 0."""
    groups = list(groups)
    members = {member for group in groups for member in grouping.member_ids(group.priority_order)}
    rows = _member_rows(members)
    tokens = _tokens(clock) if totals else {}
    return [_describe(group, rows, tokens) for group in groups]


def holder_of(target: str) -> dict[str, Any]:
    """The first group, by name, that lists a model, and where. Raises Refusal."""
    value = parse_uuid(target)
    if value is None:
        raise Refusal(400, "invalid model UUID")
    for group in all_groups():
        members = grouping.member_ids(group.priority_order)
        if str(value) in members:
            return {
                "id": str(group.id),
                "display_model": group.display_model,
                "position": members.index(str(value)) + 1,
                "total_entries": len(members),
            }
    raise Refusal(404, "model not in any failover group")


def candidates() -> list[dict[str, Any]]:
    """Every enabled model of an enabled provider, by model id, then provider name."""
    rows = Model.objects.filter(enabled=True, provider__enabled=True).order_by().values(*_COLUMNS)
    return [
        {
            "model_uuid": str(row["id"]),
            "model_id": row["model_id"],
            "provider_id": str(row["provider_id"]),
            "provider_name": row["provider__name"],
            "display_name": row["display_name"],
            "context_length": row["context_length"],
            "owned_by": row["owned_by"],
        }
        for row in sorted(rows, key=lambda row: (row["model_id"], row["provider__name"]))
    ]


def _member_rows(members: set[str]) -> dict[str, dict[str, Any]]:
    rows = Model.objects.order_by()
    if len(members) <= _MAX_IN:
        rows = rows.filter(pk__in=members)
    return {str(row["id"]): row for row in rows.values(*_COLUMNS)}


@dataclass(slots=True)
class _Totals:
    """Token totals that cost enough to be kept until the monotonic instant *until*: every board asks for them."""

    found: Mapping[str, int] = field(default_factory=dict)
    until: float = float("-inf")


_totals = _Totals()


def _tokens(clock: Clock) -> Mapping[str, int]:
    began = clock.monotonic()
    if began < _totals.until:
        return _totals.found
    try:
        found = ports.requested_tokens(clock.now() - TOKEN_WINDOW)
    except Exception:
        log.exception("failover: token totals unavailable")
        return {}
    now = clock.monotonic()
    if now - began > _SLOW:
        _totals.found, _totals.until = found, now + min(_KEPT_MOST, (now - began) * _KEPT_TIMES)
    return found


def _describe(group: FailoverGroup, rows: Mapping[str, dict[str, Any]], tokens: Mapping[str, int]) -> dict[str, Any]:
    flags = grouping.toggles_of(group.entry_enabled)
    members = grouping.member_ids(group.priority_order)
    name = group.display_model
    total = tokens.get(naming.requested(name), 0)
    if "/" not in name:
        total += tokens.get(name, 0)
    return {
        "id": str(group.id),
        "display_model": name,
        "display_name": group.display_name or "",
        "description": group.description,
        "group_enabled": group.group_enabled,
        "auto_created": group.auto_created,
        "auto_disabled": group.auto_disabled,
        "entries": [_entry(rows[member], flags.get(member, True)) for member in members if member in rows],
        "total_tokens": total,
        "created_at": rfc3339(group.created_at),
        "updated_at": rfc3339(group.updated_at),
    }


def _entry(row: Mapping[str, Any], on: bool) -> dict[str, Any]:
    return {
        "model_uuid": str(row["id"]),
        "model_id": row["model_id"],
        "provider_id": str(row["provider_id"]),
        "provider_name": row["provider__name"],
        "display_name": row["display_name"],
        "enabled": on,
        "model_enabled": row["enabled"],
        "provider_enabled": row["provider__enabled"],
        "disabled_manually": row["disabled_manually"],
        "context_length": row["context_length"],
        "owned_by": row["owned_by"],
    }
