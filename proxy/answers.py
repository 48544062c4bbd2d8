"""Every text the gateway itself says to a client of /v1, in OpenAI's error shape. Pure.

``{"error": {"message", "type", "param", "code"}}``: always these four members, ``code`` and ``param`` a string or
null (v1-api 9.1). The type follows from the status alone, the code from the cause.
"""

from dataclasses import dataclass

import msgspec

Header = tuple[bytes, bytes]

JSON = (b"content-type", b"application/json")

#: Codes of refusals that never reached a candidate.
INVALID_API_KEY = "invalid_api_key"
MODEL_NOT_FOUND = "model_not_found"
PERMISSION_DENIED = "permission_denied"
MISSING_PARAMETER = "missing_required_parameter"
INVALID_VALUE = "invalid_value"
INVALID_BODY = "invalid_request_body"
TOO_LARGE = "request_too_large"
UNKNOWN_URL = "unknown_url"
METHOD_NOT_SUPPORTED = "method_not_supported"
INTERNAL_ERROR = "internal_error"
RATE_LIMITED = "rate_limit_exceeded"
INSUFFICIENT_QUOTA = "insufficient_quota"

_CODE_OF_KIND = {
    "provider_saturated": RATE_LIMITED,
    "provider_quota_exhausted": INSUFFICIENT_QUOTA,
    "provider_not_entitled": INSUFFICIENT_QUOTA,
    "provider_model_gone": MODEL_NOT_FOUND,
    "auth": PERMISSION_DENIED,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: *headers* come on top of those every answer of the request carries."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()


def error_type(status: int) -> str:
    """The ``type`` of an error with *status*."""
    if status == 401:
        return "authentication_error"
    if status == 403:
        return "permission_error"
    if status == 404:
        return "not_found_error"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def code_of(kind: str, status: int) -> str:
    """The ``code`` of an answer that an attempt or the walk ended with, from its ``error_kind``."""
    if kind == "internal" and status == 500:
        return INTERNAL_ERROR
    return _CODE_OF_KIND.get(kind, kind)


def envelope(status: int, message: str, code: str | None, param: str | None = None, *, own_type: str = "") -> bytes:
    """The error object as JSON; *own_type* is what a provider calls it."""
    told = {"message": message, "type": own_type or error_type(status), "param": param, "code": code}
    return msgspec.json.encode({"error": told})


def error(
    status: int, message: str, code: str | None, param: str | None = None, *, retry_after: int | None = None
) -> Answer:
    """The error object as a whole answer; *retry_after* in seconds."""
    headers: tuple[Header, ...] = (JSON,)
    if retry_after is not None:
        headers = (JSON, (b"retry-after", str(retry_after).encode()))
    return Answer(status, envelope(status, message, code, param), headers)


def stream_error(message: str, kind: str) -> bytes:
    """The last event of a stream that broke: one SSE frame, nothing after it (v1-api 9.7)."""
    return b"data: " + envelope(500, message, code_of(kind, 0)) + b"\n\n"
