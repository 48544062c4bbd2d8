"""Gemini's thought signatures, carried in the ids of tool calls where a dialect has no other place (v1-api 12.5). Pure.

Messages has none and neither has Responses. Without the signature Gemini refuses the next turn.
"""

import base64
import re

_MARK = "_thoughtsig_"
MARK = _MARK.encode()
_TRIES = 8
"""Marks that are tried from the end: more of them stand in no signature, and each costs the length of the id."""
_ENCODED = re.compile(r"[A-Za-z0-9_-]+")


def of(extra: object) -> str:
    """The signature in the ``extra_content`` of a tool call; empty where there is none."""
    google = extra.get("google") if isinstance(extra, dict) else None
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    return signature if isinstance(signature, str) else ""


def extra(signature: str) -> dict[str, dict[str, str]]:
    """The ``extra_content`` of a tool call with *signature*."""
    return {"google": {"thought_signature": signature}}


def join(call_id: str, signature: str) -> str:
    """The id that carries *signature*; *call_id* itself where there is none."""
    if not signature:
        return call_id
    return call_id + _MARK + base64.urlsafe_b64encode(signature.encode()).decode().rstrip("=")


def split(call_id: str) -> tuple[str, str]:
    """(*id*, *signature*): the last mark with a decodable rest divides them. Without one, the id itself and ``""``."""
    at = len(call_id)
    for _ in range(_TRIES):
        at = call_id.rfind(_MARK, 0, at)
        if at < 0:
            break
        signature = _decoded(call_id[at + len(_MARK) :])
        if signature:
            return call_id[:at], signature
    return call_id, ""


def _decoded(rest: str) -> str:
    """The signature that *rest* stands for; empty where :func:`join` would not have written it."""
    if not _ENCODED.fullmatch(rest):
        return ""
    try:
        signature = base64.urlsafe_b64decode(rest + "=" * (-len(rest) % 4)).decode()
    except ValueError:
        return ""
    return signature if join("", signature) == _MARK + rest else ""
