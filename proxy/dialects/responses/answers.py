"""What a provider's Response object says of its end: usage, finish reason, error. Pure."""

from typing import Any

from proxy import usage as usages
from proxy.answers import error_type
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.responses import raws
from proxy.dialects.responses.raws import Raw
from proxy.usage import Usage

UNSTATED = "the provider reported an error"

#: HTTP status that an error code or type stands for; any other is the provider's fault.
_STATUS = {
    **dict.fromkeys(("rate_limit_exceeded", "rate_limit_error", "insufficient_quota", "tokens", "requests"), 429),
    **dict.fromkeys(("server_is_overloaded", "slow_down", "overloaded_error"), 503),
    **dict.fromkeys(("invalid_api_key", "authentication_error"), 401),
    "permission_error": 403,
    **dict.fromkeys(("model_not_found", "not_found_error"), 404),
    **dict.fromkeys(
        (
            "invalid_request_error",
            "context_length_exceeded",
            "content_policy_violation",
            "invalid_prompt",
            "bio_policy",
            "invalid_image",
            "invalid_image_format",
            "invalid_base64_image",
            "invalid_image_url",
            "invalid_image_mode",
            "image_too_large",
            "image_too_small",
            "image_parse_error",
            "image_content_policy_violation",
            "image_file_too_large",
            "unsupported_image_media_type",
            "empty_image_file",
        ),
        400,
    ),
}
_CONTENT = frozenset(("content_policy_violation", "invalid_prompt", "bio_policy", "image_content_policy_violation"))


def chat_usage(raw: Raw | None) -> Members | None:
    """The ``usage`` of a Response object as chat has it, its numbers as they came; None where there is none."""
    usage = raws.members(raw)
    if not usage:
        return None
    found: Members = {}
    for ours, theirs in (
        ("prompt_tokens", "input_tokens"),
        ("completion_tokens", "output_tokens"),
        ("total_tokens", "total_tokens"),
        ("prompt_tokens_details", "input_tokens_details"),
        ("completion_tokens_details", "output_tokens_details"),
    ):
        if raws.value(usage.get(theirs)) is not None:  # an unreadable count costs only itself
            found[ours] = usage[theirs]
    if "total_tokens" not in found and (read := usages.read(raws.json(found))) is not None:
        found["total_tokens"] = raws.json(read.total)
    return found or None


def read_usage(raw: Raw | None) -> Usage | None:
    """The same, read."""
    found = chat_usage(raw)
    return None if found is None else usages.read(raws.json(found))


def incomplete_reason(response: Members) -> str:
    """Why the response is incomplete; empty when it is not."""
    if raws.text(response.get("status")) != "incomplete":
        return ""
    details = raws.members(response.get("incomplete_details")) or {}
    return raws.text(details.get("reason"))


def finish_reason(response: Members, *, calls: bool) -> str:
    """The ``finish_reason`` of a finished response; *calls*: there was a function call (v1-api 16)."""
    if calls:
        return "tool_calls"
    return "length" if incomplete_reason(response) == "max_output_tokens" else "stop"


def failed(error: object, usage: Usage | None = None) -> Untranslatable:
    """A whole answer that is a failed response and cost *usage*; of its error only the code is told."""
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, str) and code in _STATUS:
        return Untranslatable(f"the response failed: {code}", blocked=code in _CONTENT, usage=usage)
    return Untranslatable("the response failed", usage=usage)


def error_chunk(payload: bytes) -> bytes:
    """``response.failed`` or ``error`` as a chat error frame, its status where the probe looks for it."""
    event = raws.value(payload)
    event = event if isinstance(event, dict) else {}
    response = event.get("response")
    error = response.get("error") if isinstance(response, dict) else None
    error = error or event.get("error") or event
    if isinstance(error, str):
        error = {"message": error}
    error = error if isinstance(error, dict) else {}
    code, message, kind = error.get("code"), error.get("message"), error.get("type")
    kind = kind if isinstance(kind, str) and kind != "error" else ""
    status = _status(code, kind, event, error)
    shown: dict[str, Any] = {
        "error": {
            "message": message if isinstance(message, str) and message else UNSTATED,
            "type": kind or error_type(status or 500),
            "param": error["param"] if isinstance(error.get("param"), str) else None,
            "code": code if isinstance(code, str) else None,
        }
    }
    if status:
        shown["status"] = status
    return raws.encode(shown)


def _status(code: object, kind: str, event: dict[str, Any], error: dict[str, Any]) -> int:
    for value in (code, error.get("status"), error.get("status_code"), event.get("status"), event.get("status_code")):
        if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
            return value
    by_code = _STATUS.get(code, 0) if isinstance(code, str) else 0
    return by_code or _STATUS.get(kind, 0)
