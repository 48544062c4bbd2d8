"""What every router under ``/api`` shares: strict bodies, one-line errors, the actor of a request."""

from collections.abc import Mapping
from typing import Any, Self, cast

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Schema
from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationInfo, model_validator

from modelhotel.core.actor import Actor
from modelhotel.core.faults import Refusal

INVALID_BODY = "invalid request body"
NOT_FOUND = "not found"
TOO_LARGE = "request body too large"
INTERNAL = "internal error"


class Body(Schema):
    """A JSON body: a field of the wrong JSON type is a 400 ``invalid request body``, unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")

    @model_validator(mode="wrap")
    @classmethod
    def _object(cls, values: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        # The framework reads attributes of whatever it gets: [] or null would pass as an object without members.
        if not isinstance(values, Mapping | Body):
            raise ValueError("not an object")
        return handler(values)

    def given(self) -> dict[str, Any]:
        """Only the members that were in the body."""
        return self.dict(exclude_unset=True)


def actor_of(request: HttpRequest) -> Actor:
    """Who sent the request; set by the authentication of ``/api`` and of the admin site."""
    return cast(Actor, request.actor)  # type: ignore[attr-defined]


def allowed_of(request: HttpRequest) -> frozenset[str] | None:
    """The ids of the providers that whoever asks may know of; None = all."""
    listed = getattr(request, "allowed_providers", None)
    return None if listed is None else frozenset(listed)


def wants_json(request: HttpRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def error(request: HttpRequest, status: int, text: str, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """An error answer: the one line as plain text, or ``{"error": text}`` where JSON is accepted."""
    if wants_json(request):
        return HttpResponse(
            msgspec.json.encode({"error": text}), status=status, content_type="application/json", headers=headers
        )
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8", headers=headers)


def refusal(request: HttpRequest, problem: Refusal) -> HttpResponse:
    """The answer to a Refusal; coded ones are JSON whatever was accepted."""
    if problem.code:
        body = {"code": problem.code, "error": problem.text, **problem.extra}
        return HttpResponse(msgspec.json.encode(body), status=problem.status, content_type="application/json")
    return error(request, problem.status, problem.text, problem.headers)
