"""What an error body of a provider says, and the fixed words a client gets instead of it. Pure.

Nothing here changes where a request goes, except :func:`too_long` and :func:`refuses_content` (failover-loop 5.5).
"""

from dataclasses import dataclass

import msgspec

from failover import ratelimit
from failover.ratelimit import RateClass, Reading
from proxy.gone import refusal

MODEL_GONE = "the provider no longer serves this model"
NOT_ENTITLED = "the provider rejected this request for billing or plan reasons"
BAD_REQUEST = "the provider rejected the request payload"
FAILED = "the provider failed to serve this request"
AT_CAPACITY = "the provider is at capacity; retry shortly"
QUOTA_SPENT = "the provider's usage quota is exhausted; retry after it resets"
# Reasons of a 2xx that is no answer (failover-loop 9.1, 10.3).
NO_CHOICES = "provider returned no choices"
NO_CONTENT = "provider returned no content"
NO_RESULTS = "provider returned no results"
ENDED = "the provider ended its stream with an error"
EMPTY_STREAM = "provider returned an empty stream"
STOPPED = "the provider stopped sending its response"
UNDECODABLE = "the provider returned a response the gateway could not decode"
TOO_LARGE = "the provider returned a response larger than the gateway will read"

#: Words of vendors' APIs for what went wrong; any other may be what somebody said.
_NAMES = frozenset(
    (
        *("api_error", "authentication_error", "billing_error", "invalid_request_error", "not_found_error"),
        *("overloaded_error", "permission_error", "rate_limit_error", "request_too_large", "timeout_error"),
        *("insufficient_quota", "internal_error", "rate_limit_exceeded", "server_error", "service_unavailable"),
        *("DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "InternalServerError"),
    )
)
_TOO_LONG_CODES = frozenset(("context_length_exceeded", "exceed_context_size_error"))
_TOO_LONG_TEXTS = (
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "exceeds the context window",
    "exceeds the available context size",
)
_CONTENT_CODES = frozenset(("content_policy_violation", "content_filter", "moderation_blocked", "safety_violation"))
_PAYLOAD = (
    "invalid json request body",
    "invalid_request_error",
    "missing key",
    "unsupported parameter",
    "invalid argument",
)
_SEARCHED = 10_000  # characters of a body that are looked through

_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """*json*: the body is JSON; *stated*: it has a populated ``error`` member. *code*, *type* and *message* are those
    of one object, empty where missing. *text* is the message, else the whole body as text.
    """

    json: bool = False
    stated: bool = False
    code: str = ""
    type: str = ""
    message: str = ""
    text: str = ""
    whole: str = ""


def read(body: bytes) -> ErrorBody:
    """The error that *body* states, whatever its form."""
    whole = body.decode("utf-8", "replace").strip()
    try:
        value = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return ErrorBody(text=whole, whole=whole)
    stated = isinstance(value, dict) and _states(value.get("error"))
    if isinstance(value, list) and value:
        value = value[0]  # Google wraps its errors in an array
    error = value.get("error") if isinstance(value, dict) else None
    source = error if isinstance(error, dict) else value if isinstance(value, dict) else {}
    message = error if isinstance(error, str) else source.get("message")
    if not isinstance(message, str):
        message = source.get("detail")
    words = message if isinstance(message, str) and message.strip() else ""
    return ErrorBody(True, stated, _word(source.get("code")), _word(source.get("type")), words, words or whole, whole)


def ended(error: ErrorBody, status: int | None) -> str:
    """Why a stream broke that its provider ended with *error* after output, as it may be kept.

    The provider's sentence is for the client alone: by then it may quote the answer, which no fence knows.
    """
    name = next((word for word in (error.type, error.code) if word in _NAMES), "")
    told = ", ".join((*((name,) if name else ()), *((f"status {status}",) if status else ())))
    return f"{ENDED} ({told})" if told else ENDED


def _states(error: object) -> bool:
    """Whether an ``error`` member says anything (v1-api 9.4)."""
    return isinstance(error, bool | int | float) or bool(error.strip() if isinstance(error, str) else error)


def _word(value: object) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def too_long(status: int, error: ErrorBody) -> bool:
    """A 400 that says the prompt does not fit the model."""
    if status != 400:
        return False
    if error.code in _TOO_LONG_CODES or error.type in _TOO_LONG_CODES:
        return True
    said = error.message.lower()
    if any(text in said for text in _TOO_LONG_TEXTS):
        return True
    return "input token count" in said and "exceeds the maximum" in said


def refuses_content(error: ErrorBody) -> bool:
    """A content-policy refusal: always the client's answer."""
    return error.code in _CONTENT_CODES or error.type in _CONTENT_CODES


def classify(status: int, error: ErrorBody, model_id: str) -> tuple[str, str]:
    """(error kind, reason for the client) of a non-2xx answer (failover-loop 13.5)."""
    if model_gone(status, error, model_id):
        return "provider_model_gone", MODEL_GONE
    body = error.whole[:_SEARCHED].lower()
    if status == 402 or any(phrase in body for phrase in ratelimit.ENTITLED):
        return "provider_not_entitled", NOT_ENTITLED
    if status == 400 and any(phrase in body for phrase in _PAYLOAD):
        return "provider_bad_request", BAD_REQUEST
    return "provider_error", FAILED


def model_gone(status: int, error: ErrorBody, model_id: str) -> bool:
    """Whether the provider says that it does not serve this very model any more."""
    message, body = error.message[:_SEARCHED], error.whole[:_SEARCHED]
    return refusal.is_gone(model_id, status=status, code=error.code, type=error.type, message=message, body=body)


def of_reading(reading: Reading) -> tuple[str, str]:
    """The same for a 429 that :func:`classify` could not place, by what it said (failover-loop 7.7)."""
    if reading.kind is RateClass.SATURATED:
        return "provider_saturated", AT_CAPACITY
    if reading.kind is RateClass.UNKNOWN:
        return "provider_error", FAILED
    return ("provider_not_entitled", NOT_ENTITLED) if reading.entitled else ("provider_quota_exhausted", QUOTA_SPENT)
