"""What a provider's error comes to, by its effective status and its words (failover-loop 5.2, 7, 13.5).

A 429 is read as well: counted whether or not it may move on, and noted where a quota is spent.
"""

import asyncio
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
from providers.keyring import KEYRING
from providers.ports import LastCap
from providers.upstream.interface import Response, UpstreamError
from proxy import reasons, terminal
from proxy.policy import Policy
from proxy.secrecy import Secrets
from proxy.terminal import Failure, Refused

log = logging.getLogger("proxy")

ERROR_KEPT = 16 * 1024
"""Bytes of an error body read to classify it."""
ERROR_FORWARDED = 1024 * 1024
"""Bytes of an error body that may go to the client as it is."""
ERROR_SECONDS = 10.0
"""Longest wait for an error body; what came by then is used."""
PLAIN = (None, b"", b"identity")
"""Content encodings that are none."""


async def read(response: Response, *, until: float) -> Refused:
    """A non-2xx answer, its body as far as it came by the loop time *until*. Every provider's key is known then."""
    await KEYRING.know_all()
    status = response.status
    hidden = status >= 500 or status in (401, 402, 403, 404, 499)
    body, whole = await _body(response, ERROR_KEPT if hidden else ERROR_FORWARDED, until)
    error = reasons.read(body if whole else body[:ERROR_KEPT])
    return Refused(status, status, body, error, whole, response.headers)


async def _body(response: Response, limit: int, until: float) -> tuple[bytes, bool]:
    """(what came of the body, whether that is all)"""
    response.deadline(min(until, asyncio.get_running_loop().time() + ERROR_SECONDS))
    try:
        body, whole = await response.read(limit), True
    except UpstreamError as problem:
        body, whole = problem.partial, False
    # Nobody asked for compression: such bytes are no text that could be shown or kept.
    return (body if response.header(b"content-encoding") in PLAIN else b""), whole


def judge(
    refused: Refused,
    candidate: Candidate,
    policy: Policy,
    board: Board,
    secrets: Secrets,
    *,
    http: bool,
    healed: bool,
    foreign: bool = False,
) -> tuple[Failure, Judgement]:
    """The failure, its *text* being ours, and what the breaker is told.

    *http*: the status came as an HTTP status. *healed*: a 400 in spite of what was done about it; no phrase moves it
    on (6.3.8). *foreign*: in a dialect whose errors the client does not know.
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
    elif reading is not None and (kind == "provider_error" or _names_its_end(kind, reading)):
        kind, reason = reasons.of_reading(reading)
    judgement = verdict.of_status(
        status,
        moves_on=moves_on and not too_long,
        open_on_exhaustion=policy.open_on_exhaustion,
        reading=reading if policy.classify else None,
    )
    as_it_is = status == 429 and not policy.on_rate_limit
    answer = terminal.of_refusal(
        refused, kind, reason, candidate.provider.name, secrets, as_it_is=as_it_is, reading=reading, foreign=foreign
    )
    return Failure(kind, reason, refused.shown, answer, moves_on, http, too_long, reading=reading), judgement


def _names_its_end(kind: str, reading: Reading) -> bool:
    """A 429 in the words of a bill that says when it goes on is a window or a slot, and no bill (7.5)."""
    return kind == "provider_not_entitled" and reading.kind is not RateClass.UNKNOWN and not reading.entitled


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
