"""What the API and the pages read about failover groups; each call is a constant number of queries."""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import CharField
from django.db.models.functions import Cast

from failover import grouping, naming, ports
from failover.models import FailoverGroup
from failover.verbs import group_id
from modelhotel.core.clock import SYSTEM, Clock, rfc3339
from modelhotel.core.faults import Refusal
from modelhotel.core.ids import hyphened, parse_uuid
from providers.models import Model, Provider

log = logging.getLogger("failover")

TOKEN_WINDOW = timedelta(days=30)
#: Above this many members all rows are read: a database bounds the parameters of one query (SQLite: 32,766).
_MAX_IN = 5_000
#: Totals that took longer than this to sum up, in seconds, are kept for as many times that long, a minute at most.
_SLOW, _KEPT_TIMES, _KEPT_MOST = 0.5, 50, 60.0

#: What a candidate says of itself, of what a member does.
_CANDIDATE = (
    *("model_uuid", "model_id", "provider_id", "provider_name"),
    *("display_name", "context_length", "owned_by"),
)
_COLUMNS = ("model_id", "display_name", "enabled", "disabled_manually", "context_length", "owned_by")


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
    """The group objects of the API (routing A9.2): a few queries, however many groups. Without *totals* they are 0."""
    pairs = [(group, grouping.member_ids(group.priority_order)) for group in groups]
    known = _entries({member for _, members in pairs for member in members})
    tokens = _tokens(clock) if totals else {}
    return [_describe(group, members, known, tokens) for group, members in pairs]


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
    found = [row for row in _entries(None).values() if row["model_enabled"] and row["provider_enabled"]]
    return sorted(
        ({name: row[name] for name in _CANDIDATE} for row in found),
        key=lambda row: (row["model_id"], row["provider_name"]),
    )


def _entries(members: Collection[str] | None) -> dict[str, dict[str, Any]]:
    """Id of a model -> what the API says of it as a member, its toggle on; of all models for None.

    For thousands of rows, making UUID objects and joining the provider to each row would be most of the work: ids stay
    text, which one database writes without hyphens.
    """
    providers = {
        pk.hex: (str(pk), name, enabled) for pk, name, enabled in Provider.objects.values_list("pk", "name", "enabled")
    }
    rows = Model.objects.order_by()
    if members is not None and len(members) <= _MAX_IN:
        rows = rows.filter(pk__in=members)
    texts = Cast("pk", CharField()), Cast("provider_id", CharField())
    found = {}
    for model_id, display_name, enabled, by_hand, context, owner, pk, provider in rows.values_list(*_COLUMNS, *texts):
        provider_id, provider_name, provider_enabled = providers[provider.replace("-", "")]
        member = hyphened(pk)
        found[member] = {
            "model_uuid": member,
            "model_id": model_id,
            "provider_id": provider_id,
            "provider_name": provider_name,
            "display_name": display_name,
            "enabled": True,
            "model_enabled": enabled,
            "provider_enabled": provider_enabled,
            "disabled_manually": by_hand,
            "context_length": context,
            "owned_by": owner,
        }
    return found


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


def _describe(
    group: FailoverGroup, members: list[str], known: Mapping[str, dict[str, Any]], tokens: Mapping[str, int]
) -> dict[str, Any]:
    flags = grouping.toggles_of(group.entry_enabled)
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
        "midstream_recovery": group.midstream_recovery,
        "entries": [
            known[member] if flags.get(member, True) else {**known[member], "enabled": False}
            for member in members
            if member in known
        ],
        "total_tokens": total,
        "created_at": rfc3339(group.created_at),
        "updated_at": rfc3339(group.updated_at),
    }
