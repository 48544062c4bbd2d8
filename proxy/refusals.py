"""What a provider's error comes to, by its effective status and its words (failover-loop 5.2, 7, 13.5).

A 429 is read as well: counted whether or not it may move on, and noted where a quota is spent.
"""

import logging
import time
from datetime import UTC, datetime

from failover import ratelimit, verdict
from failover.breaker.board import Board
from failover.caps import CAPS
from failover.ratelimit import RateClass, Reading
from failover.resolve import Candidate
from failover.verdict import Judgement
from modelhotel.core import durations, metrics
from providers.ports import LastCap
from proxy import reasons, terminal
from proxy.policy import Policy
from proxy.secrecy import Secrets
from proxy.terminal import Failure, Refused

log = logging.getLogger("proxy")


def judge(
    refused: Refused, candidate: Candidate, policy: Policy, board: Board, secrets: Secrets, *, http: bool, healed: bool
) -> tuple[Failure, Judgement]:
    """The failure, its *text* being ours, and what the breaker is told.

    *http*: the status came as an HTTP status. *healed*: a 400 in spite of what was done about it; no phrase moves it
    on (6.3.8).
    """
    status, error = refused.effective, refused.error
    too_long = reasons.too_long(status, error)
    refuses = reasons.refuses_content(error)
    by_status = policy.by_status(status) and not refuses
    by_phrase = not (refuses or too_long or healed) and policy.by_phrase(
        status, f"{error.code} {error.message or error.text}"
    )
    moves_on = by_status or by_phrase
    reading = _rate_limit(refused, candidate, policy, board, moves_on=moves_on) if status == 429 else None
    kind, reason = reasons.classify(status, error, candidate.model.model_id)
    if too_long:
        kind, reason = "provider_bad_request", reasons.BAD_REQUEST
    elif reading is not None and kind == "provider_error":
        kind, reason = reasons.of_reading(reading)
    judgement = verdict.of_status(
        status,
        moves_on=moves_on and not too_long,
        open_on_exhaustion=policy.open_on_exhaustion,
        reading=reading if policy.classify else None,
    )
    as_it_is = status == 429 and not policy.on_rate_limit
    answer = terminal.of_refusal(
        refused, kind, reason, candidate.provider.name, secrets, as_it_is=as_it_is, reading=reading
    )
    return Failure(kind, reason, refused.shown, answer, moves_on, http, too_long, reading=reading), judgement


def _rate_limit(
    refused: Refused, candidate: Candidate, policy: Policy, board: Board, *, moves_on: bool
) -> Reading | None:
    """What a 429 says; None for one that may not move on (7.8)."""
    provider, model, now = candidate.provider, candidate.model.model_id, time.time()
    if policy.classify:
        reading = ratelimit.read(refused.body, refused.headers, now=now, ceiling=policy.saturation_max_wait)
    else:
        reading = ratelimit.unread(refused.headers, now=now)
    if reading.kind is RateClass.UNKNOWN and moves_on and _served_lately(candidate, policy, board):
        reading = ratelimit.busy()
    if reading.kind is RateClass.EXHAUSTED:
        CAPS.note(provider.id, LastCap(reading.phrase, model, datetime.fromtimestamp(now, UTC), reading.entitled))
    metrics.count(metrics.RATE_LIMITED, provider.name, model, reading.kind)
    if not moves_on:
        return None
    if reading.kind is RateClass.SATURATED and policy.breaking:
        waits = {"retry_after": durations.short(reading.retry_after), "provider": provider.name}
        attrs = {**waits, "provider_id": provider.id, "model": model}
        log.info("proxy: 429 classified saturated, circuit breaker not charged", extra={"attrs": attrs})
    return reading


def _served_lately(candidate: Candidate, policy: Policy, board: Board) -> bool:
    """What can not be read is taken for busy where the same model has just delivered an answer (7.2)."""
    if not (policy.classify and policy.breaking and policy.recent_success > 0):
        return False
    return board.served_within(candidate.provider.id, candidate.model.model_id, policy.recent_success)
