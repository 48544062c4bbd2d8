"""A provider's 429 as one request meets it: read, counted, and noted where a quota is spent (failover-loop 7)."""

import time
from datetime import UTC, datetime

from failover import ratelimit
from failover.breaker.board import Board
from failover.caps import CAPS
from failover.ratelimit import RateClass, Reading
from failover.resolve import Candidate
from modelhotel.core import metrics
from providers.ports import LastCap
from proxy.policy import Policy
from proxy.terminal import Refused


def read(refused: Refused, candidate: Candidate, policy: Policy, board: Board, *, moves_on: bool) -> Reading:
    """What the 429 says. One that may not move on is read too, to be counted and noted (7.8)."""
    now = time.time()
    if policy.classify:
        reading = ratelimit.read(refused.body, refused.headers, now=now, ceiling=policy.saturation_max_wait)
    else:
        reading = ratelimit.unread(refused.headers, now=now)
    provider, model = candidate.provider, candidate.model.model_id
    if policy.classify and moves_on and reading.kind is RateClass.UNKNOWN and policy.breaking:
        window = policy.recent_success
        if window > 0 and board.served_within(provider.id, model, window):
            reading = ratelimit.busy()
    if reading.kind is RateClass.EXHAUSTED:
        CAPS.note(provider.id, LastCap(reading.phrase, model, datetime.fromtimestamp(now, UTC), reading.entitled))
    metrics.count(metrics.RATE_LIMITED, provider.name, model, reading.kind)
    return reading
