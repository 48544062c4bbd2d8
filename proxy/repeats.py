"""Whether one candidate is asked again for what it answered, and after which wait (failover-loop 6.2, 6.4). Pure.

Two kinds of answers earn it, each once per candidate: a 429 and a transient 5xx. The candidate in last position is
asked again because nobody else is left, any candidate where a setting says so, because moving away costs its prompt
cache. Waits are seconds.
"""

from enum import StrEnum
from typing import NamedTuple

from failover import backoff
from failover.backoff import Chance
from failover.ratelimit import RateClass
from failover.resolve import Candidate
from modelhotel.core import durations
from proxy.policy import Policy
from proxy.terminal import Failure

#: Statuses the last candidate may repeat, and those that any may where the setting is on.
TRANSIENT = frozenset((500, 502, 503, 504))
IN_PLACE = frozenset((500, 502, 503))


class Why(StrEnum):
    BUSY = "the last candidate is saturated"
    NO_TIME = "the last candidate is saturated, and its wait does not fit"
    SERVER_ERROR = "the last candidate answered a transient 5xx"
    BUSY_IN_PLACE = "a short stated wait"
    SERVER_ERROR_IN_PLACE = "a 5xx, in place"


class Repeat(NamedTuple):
    """*wait* before the candidate is asked again; ``NO_TIME`` asks nobody, the wait is the provider's."""

    why: Why
    wait: float


class Repeats:
    """What is left to one candidate."""

    __slots__ = ("_rate_limit", "_server_error")

    def __init__(self) -> None:
        self._rate_limit = True
        self._server_error = True

    def next(self, failure: Failure, policy: Policy, *, last: bool, room: float, chance: Chance) -> Repeat | None:
        """What *failure* is worth with *room* until the overall deadline; counted as used. None: not again."""
        if not failure.moves_on:
            return None
        if failure.reading is not None:
            found = _after_429(failure, policy, last=last, room=room) if self._rate_limit else None
            self._rate_limit = self._rate_limit and found is None
            return found
        if not failure.http or not self._server_error:
            return None
        found = _after_5xx(failure.status, policy, last=last, room=room, chance=chance)
        self._server_error = found is None
        return found


def _after_429(failure: Failure, policy: Policy, *, last: bool, room: float) -> Repeat | None:
    reading = failure.reading
    assert reading is not None
    if reading.kind is not RateClass.EXHAUSTED and 0 < reading.stated <= policy.wait_in_place and reading.stated < room:
        return Repeat(Why.BUSY_IN_PLACE, reading.stated)
    if not last or reading.kind is not RateClass.SATURATED:
        return None
    wait = min(reading.retry_after, policy.saturation_max_wait)
    return Repeat(Why.BUSY if wait < room else Why.NO_TIME, wait)


def _after_5xx(status: int, policy: Policy, *, last: bool, room: float, chance: Chance) -> Repeat | None:
    if policy.retry_5xx_in_place and status in IN_PLACE:
        wait = backoff.in_place(chance)
        if wait < room:
            return Repeat(Why.SERVER_ERROR_IN_PLACE, wait)
    if last and policy.retry_5xx and status in TRANSIENT and backoff.server_error_fits(room):
        return Repeat(Why.SERVER_ERROR, backoff.server_error(room, chance))
    return None


Line = tuple[str, dict[str, object]]


def log_lines(
    repeat: Repeat, failure: Failure, candidate: Candidate, *, model: str, attempt: int, room: float
) -> list[Line]:
    """What is logged of *repeat*: message and attributes. *model* as the client sent it, *attempt* counts from 1."""
    provider, wait = candidate.provider, durations.short(repeat.wait)
    who: dict[str, object] = {"provider": provider.name, "provider_id": provider.id}
    match repeat.why:
        case Why.BUSY:
            return [
                (
                    "proxy: last candidate saturated, waiting to retry it once",
                    {**who, "retry_after": wait, "attempt": attempt},
                ),
                (
                    "proxy: waiting out provider saturation before final retry",
                    {"model": model, "provider": provider.name, "wait": wait},
                ),
            ]
        case Why.NO_TIME:
            left: dict[str, object] = {"model": model, "retry_after": wait, "remaining": durations.short(room)}
            return [("proxy: no time budget left for saturation retry", left)]
        case Why.BUSY_IN_PLACE:
            return [("proxy: waiting in place for a rate limit", {**who, "wait": wait, "attempt": attempt})]
        case Why.SERVER_ERROR:
            message = "proxy: last candidate answered a retryable server error, retrying it once"
        case Why.SERVER_ERROR_IN_PLACE:
            message = "proxy: retrying a server error in place"
    return [(message, {**who, "status": failure.status, "attempt": attempt})]
