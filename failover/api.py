"""``/api/failover-groups``: success bodies are JSON, errors one line of text, malformed ids and bodies are 400."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema, Status

from failover import queries, sync, verbs
from failover.breaker.api import router as breaker_router
from modelhotel.core.faults import Refusal
from modelhotel.core.text import clip, one_line
from modelhotel.core.webapi import Body, actor_of, hinted, parsed

log = logging.getLogger("failover")

#: A router's own routes come before those of the routers in it, so the order is kept by two inner ones.
router = Router(tags=["failover groups"])
groups = Router()
router.add_router("", breaker_router)
router.add_router("", groups)

_NAME_SHOWN = 128


class EntryOut(Schema):
    model_uuid: str
    model_id: str
    provider_id: str
    provider_name: str
    display_name: str
    enabled: bool
    model_enabled: bool
    provider_enabled: bool
    disabled_manually: bool
    context_length: int | None
    owned_by: str


class GroupOut(Schema):
    id: str
    display_model: str
    display_name: str
    description: str
    group_enabled: bool
    auto_created: bool
    auto_disabled: bool
    midstream_recovery: str | None
    entries: list[EntryOut]
    total_tokens: int
    created_at: str
    updated_at: str


class GroupsOut(Schema):
    groups: list[GroupOut]
    last_synced_at: str | None


class HolderOut(Schema):
    id: str
    display_model: str
    position: int
    total_entries: int


class CandidateOut(Schema):
    model_uuid: str
    model_id: str
    provider_id: str
    provider_name: str
    display_name: str
    context_length: int | None
    owned_by: str


class GroupIn(Body):
    display_model: str | None = None
    display_name: str | None = None
    description: str | None = None
    entry_ids: list[str] | None = None
    midstream_recovery: str | None = None


class GroupPatch(Body):
    display_model: str | None = None
    display_name: str | None = None
    description: str | None = None
    group_enabled: bool | None = None
    priority_order: list[str] | None = None
    entry_enabled: dict[str, bool] | None = None
    midstream_recovery: str | None = None


B = TypeVar("B", bound=Body)


def _parse(request: HttpRequest, schema: type[B]) -> B:
    """The body, read here and not by the framework: a malformed id is reported before a malformed body."""
    try:
        return parsed(request.body, schema)
    except Refusal as problem:
        # The JSON form of an error of these endpoints has one member, so the hint stands in the header only.
        raise Refusal(problem.status, problem.text, headers=hinted(problem.hint)) from None


def _documented(schema: type[Schema]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema.json_schema()}}}}


@contextmanager
def _failing_as(text: str) -> Iterator[None]:
    """What breaks inside is our fault and goes out as the fixed *text*, never as the exception's."""
    try:
        yield
    except Refusal:
        raise
    except Exception:
        log.exception("failover: %s", text)
        raise Refusal(500, text) from None


def _as_it_is(found: object) -> HttpResponse:
    """For thousands of objects: checking each of our own members against the schema would be most of the work."""
    return HttpResponse(msgspec.json.encode(found), content_type="application/json; charset=utf-8")


@groups.get("", response=GroupsOut)
def list_groups(request: HttpRequest) -> HttpResponse:
    with _failing_as("failed to list failover groups"):
        sync.revalidate()
        found = queries.describe(queries.all_groups())
        return _as_it_is({"groups": found, "last_synced_at": sync.last_synced()})


@groups.post("", response={201: GroupOut}, openapi_extra=_documented(GroupIn))
def create_group(request: HttpRequest) -> Status[dict[str, Any]]:
    body = _parse(request, GroupIn)
    data = verbs.GroupData(
        body.display_model or "",
        body.display_name or "",
        body.description or "",
        body.entry_ids or [],
        body.midstream_recovery,
    )
    name = clip(one_line(data.display_model).lower(), _NAME_SHOWN)
    with _failing_as(f'failed to create failover group "{name}"'):
        return Status(201, queries.describe([verbs.create(data, actor_of(request))])[0])


@groups.post("/sync", response=dict[str, Any])
def sync_groups(request: HttpRequest) -> dict[str, Any]:
    with _failing_as("failed to sync failover groups"):
        return sync.full().body()


@groups.get("/candidates", response=list[CandidateOut])
def list_candidates(request: HttpRequest) -> HttpResponse:
    with _failing_as("failed to list model candidates"):
        return _as_it_is(queries.candidates())


@groups.get("/by-model/{model_uuid}", response=HolderOut)
def group_of_model(request: HttpRequest, model_uuid: str) -> dict[str, Any]:
    with _failing_as("failed to load failover group"):
        return queries.holder_of(model_uuid)


@groups.get("/{group_id}", response=GroupOut)
def get_group(request: HttpRequest, group_id: str) -> dict[str, Any]:
    with _failing_as("failed to load failover group"):
        return queries.describe([queries.one_group(group_id)])[0]


@groups.put("/{group_id}", response=GroupOut, openapi_extra=_documented(GroupPatch))
def update_group(request: HttpRequest, group_id: str) -> dict[str, Any]:
    key = verbs.group_id(group_id)
    given = _parse(request, GroupPatch).given()
    with _failing_as(f"failed to update failover group {key}"):
        return queries.describe([verbs.update(group_id, given, actor_of(request))])[0]


@groups.delete("/{group_id}", response={204: None})
def delete_group(request: HttpRequest, group_id: str) -> HttpResponse:
    key = verbs.group_id(group_id)
    with _failing_as(f"failed to delete failover group {key}"):
        verbs.delete(group_id, actor_of(request))
    return HttpResponse(status=204)
