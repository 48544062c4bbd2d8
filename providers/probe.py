"""Which self-hosted server answers at an address: asked before one is stored.

The body decides, never the status alone: LM Studio answers unknown routes with 200 and an ``error`` object.
"""

import json
from dataclasses import dataclass
from typing import Any

from modelhotel.core.faults import Refusal
from providers.control import exchange
from providers.kinds.base import Kind
from providers.kinds.koboldcpp import is_koboldcpp
from providers.upstream.interface import Client, UpstreamError

SECONDS = 5.0
LIMIT_BYTES = 1024 * 1024
_LMSTUDIO_MARKS = frozenset({"compatibility_type", "max_context_length", "publisher", "arch", "type"})


@dataclass(frozen=True, slots=True)
class Found:
    """*reached*: any HTTP answer came. *family* is a provider type, ``""`` when none was recognised."""

    reached: bool
    family: str = ""
    version: str = ""


def _object(payload: Any) -> dict[str, Any]:
    return payload if isinstance(payload, dict) and "error" not in payload else {}


def is_lmstudio(payload: Any) -> bool:
    data = _object(payload).get("data")
    if not isinstance(data, list):
        return False
    return not data or (isinstance(data[0], dict) and not _LMSTUDIO_MARKS.isdisjoint(data[0]))


def is_ollama(payload: Any) -> bool:
    return isinstance(_object(payload).get("models"), list)


#: In this order: KoboldCpp imitates Ollama, so it is asked for its own name first.
_QUESTIONS = (
    ("/api/extra/version", "koboldcpp", is_koboldcpp),
    ("/api/v0/models", "lmstudio", is_lmstudio),
    ("/api/tags", "ollama", is_ollama),
)


async def identify(http: Client, kind: Kind, base_url: str, key: str) -> Found:
    """Three GETs, each at most 5 s. Never raises."""
    reached = False
    for path, family, matches in _QUESTIONS:
        try:
            answer = await exchange(
                http, "GET", kind.origin(base_url) + path, kind.headers(key), seconds=SECONDS, limit=LIMIT_BYTES
            )
        except UpstreamError:
            continue
        reached = True
        try:
            payload = json.loads(answer.body) if answer.status == 200 else None
        except (ValueError, RecursionError):
            continue
        if matches(payload):
            version = payload.get("version") if family == "koboldcpp" and payload else None
            return Found(True, family, version if isinstance(version, str) else "")
    return Found(reached)


def judge(found: Found, kind: Kind) -> None:
    """Raises the coded Refusal when it is not a server of *kind*."""
    extra: dict[str, object] = {"expected": kind.type}
    if not found.reached:
        text, code = "could not reach a server at this address", "provider_unreachable"
    elif not found.family:
        text = f"the server at this address did not answer as {kind.type}"
        code = "provider_type_unconfirmed"
    elif found.family != kind.type:
        text = f"the server at this address reports {found.family}, not {kind.type}"
        code = "provider_type_mismatch"
        extra["detected"] = found.family
        if found.version:
            extra["detected_version"] = found.version
    else:
        return
    raise Refusal(400, text, code=code, extra=extra, field="base_url")
