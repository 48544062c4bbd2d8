"""Status and reset of circuits under ``/api/failover-groups``; mounted in front of the routes with a group id.

Circuits, groups and catalogue are in memory, so every answer is computed when it is asked for: no cache, no query.
Resets are allowed for everyone who may write, also for declared groups: circuits are runtime health, not
configuration, and leave neither an audit row nor an event.
"""

from collections.abc import Iterator

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from failover import table
from failover.breaker import board, view
from failover.breaker.board import Reset
from failover.breaker.circuit import State
from failover.table import Group
from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid

BAD_PROVIDER = "invalid provider ID"
BAD_GROUP = "invalid failover group ID"
NO_GROUP = "failover group not found"

router = Router(tags=["failover groups"])


def _json(body: object) -> HttpResponse:
    return HttpResponse(msgspec.json.encode(body), content_type="application/json")


def _id(text: str, problem: str) -> str:
    value = parse_uuid(text)
    if value is None:
        raise Refusal(400, problem)
    return str(value)


def _members() -> dict[str, str]:
    """Id and name of every provider that is in some group, enabled or not."""
    groups = table.SNAPSHOT.current.groups.values()
    return {e.provider.id: e.provider.name for group in groups for e in group.entries if e.provider}


def _group(group_id: str) -> Group:
    for group in table.SNAPSHOT.current.groups.values():
        if group.id == group_id:
            return group
    raise Refusal(404, NO_GROUP)


def _pairs(group: Group) -> Iterator[tuple[str, str]]:
    return ((entry.model.provider_id, entry.model.model_id) for entry in group.entries if entry.model)


def _counts(cleared: list[Reset]) -> dict[str, int]:
    """*recovered*: those that were not healthy."""
    return {"cleared": len(cleared), "recovered": sum(done.previous is not State.CLOSED for done in cleared)}


@router.get("/circuit-breaker-status", summary="State of the circuits, by provider")
def circuit_breaker_status(request: HttpRequest, detail: str = "") -> HttpResponse:
    """Providers counted by their most degraded circuit; ``detail=1`` adds every circuit."""
    return _json(board().status(_members(), detail == "1"))


@router.post("/circuit-breaker/reset", summary="Clear every circuit")
def reset_all(request: HttpRequest) -> HttpResponse:
    return _json(_counts(board().reset()))


@router.post("/circuit-breaker/{provider_id}/reset", summary="Clear the circuits of one provider, or one model's")
def reset_provider(request: HttpRequest, provider_id: str, model: str = "") -> HttpResponse:
    """A provider that does not exist answers like one without circuits."""
    found = _id(provider_id, BAD_PROVIDER)
    cleared = board().reset(found, model or None)
    previous = view.worst_of(done.previous for done in cleared)
    body = {"provider_id": found, "previous_state": previous.value, "reset": previous is not State.CLOSED}
    return _json({**body, "model": model} if model else body)


@router.post("/{group_id}/circuit-breaker/reset", summary="Clear the circuits of a group's entries")
def reset_group(request: HttpRequest, group_id: str) -> HttpResponse:
    """The pairs of its entries, toggled on or not; other models of those providers stay as they are."""
    group = _group(_id(group_id, BAD_GROUP))
    pairs = list(_pairs(group))
    cleared = _counts(board().reset_pairs(pairs))
    return _json({"group_id": group.id, "display_model": group.name, "entries": len(pairs), **cleared})
