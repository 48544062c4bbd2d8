"""``/api/settings``."""

from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel import settings_verbs
from modelhotel.core import webapi
from modelhotel.core.faults import Refusal
from modelhotel.presets import PRESETS

router = Router(tags=["settings"])
_VALUES: msgspec.json.Decoder[dict[str, str]] = msgspec.json.Decoder(dict[str, str])


class _Reset(msgspec.Struct):
    keys: list[str]


class _Preset(msgspec.Struct):
    name: str


_RESET = msgspec.json.Decoder(_Reset)
_PRESET = msgspec.json.Decoder(_Preset)


def _body(request: HttpRequest, decoder: "msgspec.json.Decoder[Any]") -> Any:
    """The whole body, in its own order of keys. Raises Refusal(400)."""
    try:
        return decoder.decode(request.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Refusal(400, webapi.INVALID_BODY) from None


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
    settings_verbs.update(_body(request, _VALUES), webapi.actor_of(request))
    return settings_verbs.settings_map()


@router.delete("", response=dict[str, str], summary="Reset settings", openapi_extra=_json_body(_OF_KEYS))
def reset_settings(request: HttpRequest) -> dict[str, str]:
    settings_verbs.reset(_body(request, _RESET).keys, webapi.actor_of(request))
    return settings_verbs.settings_map()


_OF_NAME = {"type": "object", "required": ["name"], "properties": {"name": {"enum": list(PRESETS)}}}


@router.post(
    "/preset",
    response=dict[str, Any],
    summary="Put a named set of the failover settings in force; dryRun=1 only tells what would change",
    openapi_extra=_json_body(_OF_NAME),
)
def apply_preset(request: HttpRequest, dryRun: str = "") -> dict[str, Any]:
    name = _body(request, _PRESET).name
    dry = dryRun == "1"
    changes = settings_verbs.preset(name, webapi.actor_of(request), dry_run=dry)
    return {"name": name, "applied": not dry, "changes": changes}


@router.get("/catalogue", summary="Every setting with its bounds, its default and the value in force")
def read_catalogue(request: HttpRequest) -> HttpResponse:
    found = {"settings": settings_verbs.catalogue()}
    return HttpResponse(msgspec.json.encode(found), content_type="application/json")
