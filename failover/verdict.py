"""What one finished attempt says about a circuit. Pure; the table is ``circuit-breaker`` section 3.

A :class:`Judgement` carries the verdict, the fixed cause phrase, the upstream status behind it (0 = none) and the word
of the attempts trail. Text of a provider never enters a cause.
"""

from dataclasses import dataclass
from enum import StrEnum

from failover.ratelimit import RateClass, Reading

#: What a 402 claims: spent until someone pays. Seconds.
PAYMENT_HINT = 90 * 24 * 3600.0

#: The effective status of an error in the first event of a stream that carries none.
FIRST_EVENT_STATUS = 502

#: Silence, in seconds, after which a client that leaves tells on the provider, where the stall watchdog is off.
SILENCE_FLOOR = 30.0


class Verdict(StrEnum):
    CHARGE = "charge"
    EXHAUSTED = "exhausted"  # opens the circuit on this one answer
    SATURATED = "saturated"  # busy: only remembered
    SUCCESS = "success"
    ALIVE = "alive"  # a health signal, not a serve
    NOOP = "noop"


@dataclass(frozen=True, slots=True)
class Judgement:
    """*trail* is the ``breaker`` member of the trail element; empty = the element has none. *pin_hint*: how long, in
    seconds, an exhausted answer claims to stay so; 0 = it does not say. *account*: it refused the whole account.
    *rate_limited*: a 429 that counts for the escalation of circuit-breaker 9.3. *retry_after*: the wait, in seconds,
    that a saturated answer asked for. *served*: the client got its answer, although it is charged.
    """

    verdict: Verdict
    cause: str = ""
    status: int = 0
    trail: str = ""
    pin_hint: float = 0.0
    account: bool = False
    rate_limited: bool = False
    retry_after: float = 0.0
    served: bool = False


NONE = Judgement(Verdict.NOOP)
"""No verdict and no word on the trail: client left, internal fault, hedge lost."""

BLOCKED = Judgement(Verdict.NOOP, trail="noop")
"""The provider's safety filter refused the prompt: nobody's fault but the prompt's."""

TRANSPORT = Judgement(Verdict.CHARGE, "upstream request failed", 0, "charge")
"""No response: DNS, dial, TLS, reset, no headers in time, a deadline of ours. Once per attempt, after its retries."""


_SUCCESS = Judgement(Verdict.SUCCESS, "success", 0, "success")


def success(status: int = 0) -> Judgement:
    return _SUCCESS


def probe_failed(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "TTFT probe failed", status, "charge")


def stalled(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "stream stalled", status, "charge")


def broken(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "response failed after headers", status, "charge")


def empty(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "response completed without delivering content", status, "charge")


def slow(status: int, *, served: bool) -> Judgement:
    """An answer that would have been a success (*served*) or alive, but took longer than the threshold (13)."""
    return Judgement(Verdict.CHARGE, "slow call", status, "charge", served=served)


def passed_without_body(status: int) -> Judgement:
    """A 204 or 205 of an endpoint whose answers pass through: neither good nor bad (failover-loop 18)."""
    return Judgement(Verdict.NOOP, "", status, "noop")


def undecodable(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "upstream body could not be translated", status, "charge")


def client_left_early(silence: float, stall_timeout: float, status: int) -> Judgement:
    """The client went before the first output frame of a stream, *silence* seconds into the attempt.

    After little silence that is the client's affair. After at least *stall_timeout* it is the provider's stall: the
    usual cause is a reverse proxy that cuts the idle connection behind it.
    """
    return probe_failed(status) if silence >= (stall_timeout or SILENCE_FLOOR) else NONE


def of_status(status: int, *, moves_on: bool, open_on_exhaustion: bool, reading: Reading | None = None) -> Judgement:
    """The verdict of a non-2xx answer by its effective *status*. *reading* is that of a 429 that was classified.

    *moves_on*: this answer may fail over, by its status or by a phrase in its text, whether or not a candidate is
    left. One that may not (taken out of the list, ``failover_on_rate_limit`` off, a content-policy refusal) is alive.
    What moves on for another reason than health, a 400 or 422 by a phrase or a prompt too long, is alive either way.
    """
    phrase = f"upstream status {status}"
    if not moves_on:
        return Judgement(Verdict.ALIVE, f"{phrase} (alive)", status, "alive")
    if status in (404, 499):
        return Judgement(Verdict.NOOP, trail="noop")
    if status == 402:
        if open_on_exhaustion:
            return Judgement(Verdict.EXHAUSTED, f"{phrase} (exhausted)", status, "charge", PAYMENT_HINT)
        return Judgement(Verdict.CHARGE, f"{phrase} (payment required, not opened by setting)", status, "charge")
    if reading is not None:
        return _of_reading(reading, open_on_exhaustion)
    if status >= 500 or status in (401, 403, 429):
        return Judgement(Verdict.CHARGE, phrase, status, "charge")
    return Judgement(Verdict.ALIVE, f"{phrase} (alive)", status, "alive")


def _of_reading(reading: Reading, open_on_exhaustion: bool) -> Judgement:
    """A 429 that may fail over, by what it said."""
    phrase = "upstream status 429"
    if reading.kind is RateClass.SATURATED:
        return Judgement(Verdict.SATURATED, f"{phrase} (saturated)", 429, "noop", retry_after=reading.retry_after)
    if reading.kind is RateClass.UNKNOWN:
        return Judgement(Verdict.CHARGE, f"{phrase} (unrecognised)", 429, "charge", rate_limited=True)
    if not open_on_exhaustion:
        cause = f"{phrase} (exhausted, not opened by setting)"
        return Judgement(Verdict.CHARGE, cause, 429, "charge", rate_limited=True)
    cause = f"{phrase} (exhausted)"
    return Judgement(Verdict.EXHAUSTED, cause, 429, "charge", reading.pin_hint, reading.account, rate_limited=True)
