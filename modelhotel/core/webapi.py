"""What every router under ``/api`` shares: strict bodies, one-line errors, the actor of a request."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar, cast

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Schema
from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, ValidationInfo, model_validator

from modelhotel.core.actor import Actor
from modelhotel.core.faults import Refusal
from modelhotel.core.text import clip, one_line

INVALID_BODY = "invalid request body"
NOT_FOUND = "not found"
TOO_LARGE = "request body too large"
INTERNAL = "internal error"


#: What is wrong with a member, beside the text that is the same for every body. Clients that read text find it here.
HINT_HEADER = "X-Error-Hint"
NOT_JSON = "the body must be a JSON object"
_NAME_SHOWN = 64


class Body(Schema):
    """A JSON body: a field of the wrong JSON type is a 400 ``invalid request body``, unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")
    #: Members whose ``null`` is the same as their absence.
    null_is_absent: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="wrap")
    @classmethod
    def _object(cls, values: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        # The framework reads attributes of whatever it gets: [] or null would pass as an object without members.
        if not isinstance(values, Mapping | Body):
            raise ValueError("not an object")
        if cls.null_is_absent and isinstance(values, Mapping):
            values = {
                name: value for name, value in values.items() if name not in cls.null_is_absent or value is not None
            }
        return handler(values)

    def given(self) -> dict[str, Any]:
        """Only the members that were in the body."""
        return self.dict(exclude_unset=True)


B = TypeVar("B", bound=Body)


def decoded(raw: bytes) -> Any:
    """JSON as the RFC has it: no NaN, no bytes that are no UTF-8. Raises Refusal."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise invalid(hint=not_json(problem)) from None


def parsed(raw: bytes, schema: type[B]) -> B:
    """Raises Refusal."""
    values = decoded(raw)
    try:
        return schema.model_validate(values)
    except ValidationError as problem:
        raise mistyped(problem.errors(include_url=False, include_context=False)) from None


def invalid(field: str = "", hint: str = NOT_JSON) -> Refusal:
    """``invalid request body``, with the member at fault and what it must be beside it."""
    return Refusal(400, INVALID_BODY, field=field or None, hint=hint)


def hinted(hint: str) -> dict[str, str]:
    """The header that says *hint*; a header holds ASCII, names of members may be anything."""
    return {HINT_HEADER: hint.encode("ascii", "backslashreplace").decode()}


def not_json(problem: BaseException | None) -> str:
    """Says where the JSON ends to be JSON; quotes nothing of the body."""
    where = str(problem).rpartition("(")[2].rstrip(")") if isinstance(problem, msgspec.DecodeError) else ""
    return f"{NOT_JSON}: no JSON at {where}" if where.startswith("byte ") else NOT_JSON


#: pydantic's name of a problem, up to its first ``_`` -> what the member must be.
_WANTED = {
    "string": "a string",
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "an object",
}


def mistyped(problems: Sequence[Mapping[str, Any]], skip: int = 0) -> Refusal:
    """From pydantic's list of what is wrong; *skip*: the parts of each place that stand before the members' names."""
    problem: Mapping[str, Any] = problems[0] if problems else {}
    field = _place(tuple(problem.get("loc", ()))[skip:])
    if not field:
        return invalid()
    kind = str(problem.get("type"))
    if kind == "missing":
        return invalid(field, f"{field} is required")
    wanted = _WANTED.get(kind.partition("_")[0])
    if wanted is None:
        return invalid(field, f"{field} has a value that is not allowed")
    if kind == "string_unicode":
        return invalid(field, f"{field} must be text without lone surrogates")
    return invalid(field, f"{field} must be {wanted}")


def shown(name: str) -> str:
    """A name from a body, short and on one line."""
    return clip(one_line(name), _NAME_SHOWN)


def _place(parts: Iterable[object]) -> str:
    """``entry_ids[0]``."""
    found = ""
    for part in parts:
        if isinstance(part, int):
            found += f"[{part}]"
        elif part != "[key]":
            found += f".{shown(str(part))}" if found else shown(str(part))
    return found


def actor_of(request: HttpRequest) -> Actor:
    """Who sent the request; set by the authentication of ``/api`` and of the admin site."""
    return cast(Actor, request.actor)  # type: ignore[attr-defined]


def allowed_of(request: HttpRequest) -> frozenset[str] | None:
    """The ids of the providers that whoever asks may know of; None = all."""
    listed = getattr(request, "allowed_providers", None)
    return None if listed is None else frozenset(listed)


def wants_json(request: HttpRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def error(
    request: HttpRequest,
    status: int,
    text: str,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, object] | None = None,
) -> HttpResponse:
    """An error answer: the one line as plain text, or ``{"error": text, **more}`` where JSON is accepted."""
    if wants_json(request):
        body = msgspec.json.encode({"error": text, **(more or {})})
        return HttpResponse(body, status=status, content_type="application/json", headers=headers)
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8", headers=headers)


def refusal(request: HttpRequest, problem: Refusal) -> HttpResponse:
    """The answer to a Refusal; coded ones are JSON whatever was accepted."""
    if problem.code:
        body = {"code": problem.code, "error": problem.text, **problem.extra}
        return HttpResponse(msgspec.json.encode(body), status=problem.status, content_type="application/json")
    if not problem.hint:
        return error(request, problem.status, problem.text, problem.headers)
    more = {"field": problem.field, "hint": problem.hint} if problem.field else {"hint": problem.hint}
    return error(request, problem.status, problem.text, {**problem.headers, **hinted(problem.hint)}, more)
