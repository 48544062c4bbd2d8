"""``/api/settings``."""

from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel import settings_verbs
from modelhotel.core import webapi
from modelhotel.presets import PRESETS

router = Router(tags=["settings"])


class _Reset(webapi.Body):
    keys: list[str]


class _Preset(webapi.Body):
    name: str


def _values(request: HttpRequest) -> dict[str, str]:
    """The whole body, in its own order of keys. Raises Refusal(400)."""
    values = webapi.decoded(request.body)
    if not isinstance(values, dict):
        raise webapi.invalid()
    for key, value in values.items():
        if not isinstance(value, str):
            name = webapi.shown(key)
            raise webapi.invalid(name, f"{name} must be a string: settings are sent in quotes")
    return values


def _json_body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


_OF_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_OF_KEYS = {
    "type": "object",
    "required": ["keys"],
    "properties": {"keys": {"type": "array", "items": {"type": "string"}}},
}


@router.get("", response=dict[str, str], summary="Stored settings and the read-only keys")
def read_settings(request: HttpRequest) -> dict[str, str]:
    return settings_verbs.settings_map()


@router.put("", response=dict[str, str], summary="Change settings", openapi_extra=_json_body(_OF_STRINGS))
def change_settings(request: HttpRequest) -> dict[str, str]:
    settings_verbs.update(_values(request), webapi.actor_of(request))
    return settings_verbs.settings_map()


@router.delete("", response=dict[str, str], summary="Reset settings", openapi_extra=_json_body(_OF_KEYS))
def reset_settings(request: HttpRequest) -> dict[str, str]:
    settings_verbs.reset(webapi.parsed(request.body, _Reset).keys, webapi.actor_of(request))
    return settings_verbs.settings_map()


_OF_NAME = {"type": "object", "required": ["name"], "properties": {"name": {"enum": list(PRESETS)}}}


@router.post(
    "/preset",
    response=dict[str, Any],
    summary="Put a named set of the failover settings in force; dryRun=1 only tells what would change",
    openapi_extra=_json_body(_OF_NAME),
)
def apply_preset(request: HttpRequest, dryRun: str = "") -> dict[str, Any]:
    name = webapi.parsed(request.body, _Preset).name
    dry = dryRun == "1"
    changes = settings_verbs.preset(name, webapi.actor_of(request), dry_run=dry)
    return {"name": name, "applied": not dry, "changes": changes}


@router.get("/catalogue", summary="Every setting with its bounds, its default and the value in force")
def read_catalogue(request: HttpRequest) -> HttpResponse:
    found = {"settings": settings_verbs.catalogue()}
    return HttpResponse(msgspec.json.encode(found), content_type="application/json")
