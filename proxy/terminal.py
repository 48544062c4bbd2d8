"""What an attempt failed with, and what client and row get when it is the last word (failover-loop 13). Pure."""

import math
from dataclasses import dataclass, field

from failover import ratelimit
from failover.ratelimit import RateClass, Reading
from proxy import answers, reasons
from proxy.answers import JSON, Answer, Header
from proxy.reasons import ErrorBody
from proxy.secrecy import Secrets

#: Statuses below 500 whose body may carry the operator's account details: it is never shown.
_HIDDEN = frozenset((401, 402, 403, 404, 407, 429, 499))
#: The kind of a provider that is alive and at capacity.
SATURATED = "provider_saturated"
_TIMEOUTS = frozenset(("failover_timeout", "retry_timeout"))
_UNPREFIXED = _TIMEOUTS | {"client_disconnect", "provider_timeout", "hedge_superseded"}


@dataclass(slots=True)
class Failure:
    """One attempt that did not serve.

    *kind* is the error kind, *text* what is kept of the cause, *status* the upstream status behind it (0 = none).
    *answer* is what the client gets when nothing else serves; None = an exhaustion answer. *moves_on*: another
    candidate may be asked. *http*: the status came as an HTTP status. *too_long*: the prompt did not fit. *reading*:
    what a 429 that may move on said.
    """

    kind: str
    text: str = ""
    status: int = 0
    answer: Answer | None = None
    moves_on: bool = True
    http: bool = False
    too_long: bool = False
    hint: str = ""
    reading: Reading | None = None

    @property
    def saturated(self) -> bool:
        """The provider is alive and at capacity."""
        return self.reading is not None and self.reading.kind is RateClass.SATURATED


@dataclass(slots=True)
class Refused:
    """A non-2xx answer, or an error in the first event of a stream. *effective* is the status the rules read,
    *shown* the one that is told; *whole* is False where the body was longer than what was read.
    """

    effective: int
    shown: int
    body: bytes
    error: ErrorBody
    whole: bool = True
    headers: list[Header] = field(default_factory=list)


def told(reason: str, provider: str, status: int) -> str:
    """The message of an error whose cause is a provider's answer."""
    return f"{reason} (provider {provider}, upstream HTTP {status})"


def client_status(status: int) -> int:
    """The status a client gets for an upstream's *status*."""
    return status if 400 <= status <= 599 else 502


def of_refusal(
    refused: Refused,
    kind: str,
    reason: str,
    provider: str,
    secrets: Secrets,
    *,
    as_it_is: bool,
    reading: Reading | None = None,
    foreign: bool = False,
) -> Answer:
    """The answer of failover-loop 13.3. *as_it_is*: a 429 that may not fail over (README decision 47); *reading*: what
    one that may said. *foreign*: the provider's error object is none of the client's dialect, and made anew (39).
    """
    status, error = client_status(refused.effective), refused.error
    if as_it_is:
        headers = tuple(h for h in refused.headers if h[0] == b"retry-after" or b"ratelimit" in h[0])
        if error.json and refused.whole:
            body = _made_anew(refused, kind, status, secrets) if foreign else secrets.mask_json(refused.body)
            return Answer(status, body, (JSON, *headers))
        text = secrets.clean(error.text) or told(reason, provider, refused.shown)
        return Answer(status, answers.envelope(status, text, answers.code_of(kind, status)), (JSON, *headers))
    message = told(reason, provider, refused.shown)
    if 400 <= refused.effective < 500 and refused.effective not in _HIDDEN:
        stated = error.stated or (foreign and bool(error.message))  # Google wraps its errors in an array
        if error.json and stated and refused.whole:
            body = _made_anew(refused, kind, status, secrets) if foreign else secrets.mask_json(refused.body)
            return Answer(status, body, (JSON,))
        if not error.json and refused.whole and error.text:
            message = secrets.clean(error.text)
    return answers.error(status, message, _code(refused, kind, status), retry_after=wait_of(reading))


def _made_anew(refused: Refused, kind: str, status: int, secrets: Secrets) -> bytes:
    """An error object of the provider's in OpenAI's shape, with its message and type."""
    error = refused.error
    message, own_type = secrets.mask(error.message) or reasons.FAILED, secrets.mask(error.type)
    return answers.envelope(status, message, _code(refused, kind, status), own_type=own_type)


def wait_of(reading: Reading | None) -> int | None:
    """The ``Retry-After`` of a saturated answer, whole seconds and at least one; None for every other."""
    if reading is None or reading.kind is not RateClass.SATURATED:
        return None
    return max(math.ceil(reading.retry_after), 1)


def _code(refused: Refused, kind: str, status: int) -> str:
    if reasons.too_long(refused.effective, refused.error):
        return "context_length_exceeded"
    if status == 400 and reasons.refuses_content(refused.error):
        return "content_policy_violation"
    return answers.code_of(kind, status)


def no_answer(reason: str, provider: str, status: int, kind: str) -> Answer:
    """A 2xx that holds no answer: 502 (failover-loop 9)."""
    return answers.error(502, told(reason, provider, status), answers.code_of(kind, 502))


def exhaustion(failure: Failure, model: str, *, group: bool, busy_429: bool) -> Answer:
    """Nothing was served and no provider's answer is passed on (failover-loop 13.1). *model* as the client sent it;
    *busy_429*: providers that are busy answer with 429, not 502.
    """
    kind, retry_after = failure.kind, None
    if kind in _TIMEOUTS:
        status, message = 504, f"request timed out for model {model}"
    elif kind == "client_disconnect":
        status, message = 499, "client disconnected"
    elif kind == SATURATED:
        busy = "all providers busy" if group else "provider busy"
        status, message = 502, f"{busy} for model {model}, retry shortly"
        if busy_429:
            status, retry_after = 429, wait_of(failure.reading) or math.ceil(ratelimit.DEFAULT_WAIT)
    elif group:
        status, message = 502, f"all providers failed for model {model}"
    else:
        status, message = 502, f"provider request failed for model {model}"
    return answers.error(status, message, answers.code_of(kind, status), retry_after=retry_after)


def full() -> Failure:
    """The provider was at its in-flight limit and not asked (failover-loop 8.5)."""
    return Failure(SATURATED, reading=ratelimit.busy())


def row_message(failure: Failure, provider: str, attempt: int, contacted: int, *, before: str = "") -> str:
    """The row's message of an exhausted request (failover-loop 13.7).

    *attempt* counts from 1, *contacted* the candidates asked or found full; *before*: the text of an earlier failure.
    """
    text = _cause(failure, provider, attempt, before)
    if failure.hint:
        text += f"; {failure.hint}"
    known = failure.text or before
    if known and known not in text:
        text += f"; last provider error: {known}"
    if contacted > 1 and failure.kind not in _UNPREFIXED:
        said = "busy" if failure.kind == SATURATED else "failed"
        text = f"all {contacted} providers {said}; last error: {text}"
    return text


def _cause(failure: Failure, provider: str, attempt: int, before: str) -> str:
    kind = failure.kind
    if kind == "client_disconnect":
        if before:
            return f'client disconnected while retrying provider "{provider}" (attempt {attempt})'
        return f'client disconnected during attempt {attempt} to provider "{provider}"'
    if kind == "provider_timeout":
        return f'provider "{provider}" did not return a response in time on attempt {attempt}'
    if kind == "failover_timeout":
        return f'request timed out while waiting on provider "{provider}" (attempt {attempt})'
    if kind == "internal":
        return f"internal error on attempt {attempt}: {failure.text}"
    if kind == "provider_model_gone":
        return f'provider "{provider}" no longer serves this model (attempt {attempt})'
    if kind == "provider_not_entitled":
        return f'provider "{provider}" rejected the request for billing or plan reasons on attempt {attempt}'
    if kind == SATURATED:
        return f'provider "{provider}" is busy (rate limited at capacity) on attempt {attempt}'
    if kind == "provider_quota_exhausted":
        return f'provider "{provider}" has spent its usage quota on attempt {attempt}'
    if kind == "provider_bad_request":
        return f'provider "{provider}" rejected the request payload on attempt {attempt}'
    if failure.status and failure.http:
        return f'provider "{provider}" returned HTTP {failure.status} on attempt {attempt}'
    return f'provider "{provider}" failed on attempt {attempt}: {failure.text}'
