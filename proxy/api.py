"""``/api/virtual-keys``: JSON bodies and answers, errors one line of text. The plain key is in one answer only."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse
from ninja import Router, Schema, Status

from modelhotel.core.clock import rfc3339
from modelhotel.core.faults import Refusal
from modelhotel.core.text import clip, one_line
from modelhotel.core.webapi import Body, actor_of, parsed
from proxy import verbs
from proxy.limits import spend
from proxy.limits.fields import FIELDS, RATES
from proxy.models import VirtualKey

log = logging.getLogger("keys")

router = Router(tags=["virtual keys"])
View = TypeVar("View", bound=Callable[..., Any])


class KeyIn(Body):
    name: str | None = None
    rate_limit_rps: float | None = None
    rate_limit_burst: int | None = None
    rate_limit_tpm: int | None = None
    budget_usd: float | None = None
    budget_period: str | None = None
    allowed_providers: list[str] | None = None
    strip_reasoning: bool | None = None
    owner_user_id: str | None = None


class KeyOut(Schema):
    id: str
    name: str
    key_preview: str
    tokens_used: int
    last_used_at: str | None
    created_at: str
    rate_limit_rps: float | None
    rate_limit_burst: int | None
    rate_limit_tpm: int | None
    budget_usd: float | None
    budget_period: str | None
    budget_spent_usd: float | None
    allowed_providers: list[str] | None
    strip_reasoning: bool
    owner_user_id: str | None
    owner_username: str | None = None


class NewKeyOut(KeyOut):
    key: str


def describe(key: VirtualKey, spent: Mapping[str, float] | None = None) -> dict[str, Any]:
    """The object of every answer; *owner_username* only where there is an owner.

    *spent*: :func:`proxy.limits.spend.of_keys` of several keys, where several are described.
    """
    if spent is None:
        spent = spend.of_keys([key])
    found: dict[str, Any] = {
        "id": str(key.pk),
        "name": key.name,
        "key_preview": key.key_preview,
        "tokens_used": key.tokens_used,
        "last_used_at": rfc3339(key.last_used_at),
        "created_at": rfc3339(key.created_at),
        **{field: getattr(key, field) for field in FIELDS},
        "budget_spent_usd": spent.get(str(key.pk)),
        "allowed_providers": key.allowed_providers,
        "strip_reasoning": key.strip_reasoning,
        "owner_user_id": str(key.owner_user_id) if key.owner_user_id else None,
    }
    if key.owner_user is not None:
        found["owner_username"] = key.owner_user.get_username()
    return found


def describe_all(keys: Iterable[VirtualKey]) -> list[dict[str, Any]]:
    """The objects of a list."""
    found = list(keys)
    spent = spend.of_keys(found)
    return [describe(key, spent) for key in found]


def _given(request: HttpRequest) -> dict[str, Any]:
    """The members of the body, *name* always among them; read here, so that a malformed id is reported first."""
    given = parsed(request.body, KeyIn).given()
    return {**given, "name": given.get("name") or ""}


@contextmanager
def _failing_as(text: str) -> Iterator[None]:
    """What breaks inside is our fault and goes out as the fixed *text*, never as the exception's."""
    try:
        yield
    except Refusal:
        raise
    except Exception:
        log.exception("keys: request failed")
        raise Refusal(500, text) from None


def _route(method: str, path: str, **options: Any) -> Callable[[View], View]:
    return router.api_operation([method], path, exclude_unset=True, **options)


_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": KeyIn.json_schema()}}}
}


@_route("GET", "", response=list[KeyOut])
def list_keys(request: HttpRequest) -> list[dict[str, Any]]:
    with _failing_as("failed to list virtual keys"):
        return describe_all(verbs.visible(actor_of(request)))


@_route("POST", "", response={201: NewKeyOut}, openapi_extra=_BODY)
def create_key(request: HttpRequest) -> Status[dict[str, Any]]:
    given = _given(request)
    with _failing_as(f'failed to create virtual key "{clip(one_line(given["name"]), verbs.NAME_LIMIT)}"'):
        key, plain = verbs.create(given, actor_of(request))
        return Status(201, {**describe(key), "key": plain})


@_route("GET", "/{id}", response=KeyOut)
def get_key(request: HttpRequest, id: str) -> dict[str, Any]:
    with _failing_as("failed to list virtual keys"):
        return describe(verbs.one(id, actor_of(request)))


@_route("PUT", "/{id}", response=KeyOut, openapi_extra=_BODY)
def update_key(request: HttpRequest, id: str) -> dict[str, Any]:
    verbs.key_id(id)
    given = _given(request)
    with _failing_as("failed to update virtual key"):
        # Limits are written anew by every PUT: one that is left out is null from then on (v1-api 5.3).
        return describe(verbs.update(id, {**dict.fromkeys(RATES), **given}, actor_of(request)))


@_route("DELETE", "/{id}", response={204: None})
def delete_key(request: HttpRequest, id: str) -> HttpResponse:
    with _failing_as("failed to delete virtual key"):
        verbs.delete(id, actor_of(request))
    return HttpResponse(status=204)
