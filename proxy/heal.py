"""The self-heal of one attempt: a 400 teaches, and the same candidate is asked again without what it named (6.3)."""

import logging
import time
from collections.abc import Callable

from failover.resolve import Candidate
from providers.upstream.interface import Request
from proxy import reasons, repairs
from proxy.dialects import jsonmode
from proxy.exchange import Exchange
from proxy.repairs import NOTHING, Learned, Repair
from proxy.terminal import Refused

log = logging.getLogger("proxy")

ROUNDS = 2
"""Re-issues of an attempt."""
ROOM = 0.1
"""Seconds before the overall deadline at which no round is started any more."""


class Heal:
    """*request* is the refused one and was built with *repair*; *build* makes that of a round."""

    def __init__(
        self,
        exchange: Exchange,
        candidate: Candidate,
        learned: Learned,
        repair: Repair | None,
        request: Request,
        build: Callable[[Repair], Request],
    ) -> None:
        self._exchange = exchange
        self._provider = candidate.provider
        self._model_id = candidate.model.model_id
        self._learned = learned
        self._at_first = self._applied = repair or NOTHING
        self._body = request.body
        self._build = build
        self.rounds = 0

    def learn(self, refused: Refused) -> Request | None:
        """Learn from a 400. The request of the next round; None when there is none."""
        taught = self._taught(refused)
        if not taught:
            return None
        if self._learned.learn(self._provider.id, self._model_id, taught):
            attrs = {
                "provider": self._provider.name,
                "model": self._model_id,
                "rejected": sorted(taught.rejected),
                "renames": dict(taught.renames),
            }
            log.info("proxy: learned rejected params from upstream 400", extra={"attrs": attrs})
        if self.rounds == ROUNDS or not taught - self._applied:
            return None
        if self._exchange.deadline - time.monotonic() < ROOM:
            return None
        self._applied |= self._learned.of(self._provider.id, self._model_id) or taught
        request = self._build(self._applied)
        if request.body == self._body:  # it names what the request did not have
            return None
        self._body = request.body
        self.rounds += 1
        return request

    def _taught(self, refused: Refused) -> Repair:
        if reasons.too_long(refused.effective, refused.error) or reasons.refuses_content(refused.error):
            return NOTHING
        sent_schema = self._provider.kind.takes_json_schema and jsonmode.wants_schema(self._exchange.body)
        return repairs.lesson(repairs.said(refused.body), sent_schema=sent_schema)

    def seconds(self) -> float:
        """The time of a round that starts now."""
        return min(self._exchange.attempt_seconds, self._exchange.deadline - time.monotonic())

    def failed(self, text: str) -> None:
        """A round brought no answer; *text* of the fault, masked."""
        attrs = {"provider": self._provider.name, "model": self._model_id, "round": self.rounds, "error": text}
        log.warning("proxy: auto-retry request failed", extra={"attrs": attrs})

    def succeeded(self) -> None:
        """A round was answered with a 2xx."""
        added = self._applied - self._at_first
        attrs = {
            "model": self._model_id,
            "rounds": self.rounds,
            "rejected_params": sorted(added.rejected),
            "renamed_params": dict(added.renames),
        }
        log.info("proxy: auto-retry succeeded", extra={"attrs": attrs})
