"""Errors in Anthropic's shape (v1-api 9.2, 9.7). Pure."""

from http import HTTPStatus

import msgspec

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
#: Types of Anthropic's own; what else a provider calls its error is ``api_error``.
KNOWN = frozenset((*_TYPES.values(), "invalid_request_error", "api_error", "timeout_error", "billing_error"))

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def error_type(status: int) -> str:
    """The ``type`` of an error with *status*."""
    return _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")


def dress(status: int, body: bytes) -> bytes:
    """*body*, an error of any shape, in Anthropic's; one that has it already stays as it is.

    The message is that of an OpenAI error, else the body as text, else the standard phrase of *status*.
    """
    error = _stated(body)
    if error is None:
        return body
    return envelope(error_type(status), error or body.decode("utf-8", "replace").strip() or _phrase(status))


def _stated(body: bytes) -> str | None:
    """The message of the error that *body* states, empty where it states none; None: it has Anthropic's shape."""
    try:
        value = _decode(body)
    except (ValueError, RecursionError):
        return ""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, str):
        return error.strip()
    if not isinstance(error, dict):
        return ""
    message = error.get("message")
    if value.get("type") == "error" and isinstance(message, str) and isinstance(error.get("type"), str):
        return None
    return message.strip() if isinstance(message, str) else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def envelope(kind: str, message: str) -> bytes:
    """The error object as JSON."""
    return _encode({"type": "error", "error": {"type": kind, "message": message}})


def frame(message: str, kind: str = "api_error") -> bytes:
    """The last event of a stream that broke."""
    return b"event: error\ndata: %b\n\n" % envelope(kind, message)
