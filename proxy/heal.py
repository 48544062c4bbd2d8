"""The self-heal of one attempt: a 400 teaches, and the same candidate is asked again without what it named (6.3)."""

import logging
import time
from typing import Protocol

from failover.resolve import Candidate
from providers.upstream.interface import Request
from proxy import reasons
from proxy.exchange import Exchange
from proxy.repairs import NOTHING, Learned, Repair, Taught
from proxy.terminal import Refused

log = logging.getLogger("proxy")

ROUNDS = 2
"""Re-issues of an attempt, where its dialect says nothing else."""
ROOM = 0.1
"""Seconds before the overall deadline at which no round is started any more."""


class Teacher(Protocol):
    """What an attempt makes of a refusal, in the dialect it speaks just then."""

    def rounds(self) -> int:
        """How many re-issues there may be."""
        ...

    def turns(self, refused: Refused, sent: bytes) -> bool:
        """True: the attempt speaks another dialect from here on, and the request is sent once more in it."""
        ...

    def lesson(self, refused: Refused, sent: bytes) -> Taught:
        """What the refusal of the body *sent* teaches."""
        ...

    def build(self, repair: Repair) -> Request: ...


class Heal:
    """*request* is the refused one and was built with *repair*."""

    def __init__(
        self,
        exchange: Exchange,
        candidate: Candidate,
        learned: Learned,
        repair: Repair | None,
        request: Request,
        teacher: Teacher,
    ) -> None:
        self._exchange = exchange
        self._provider = candidate.provider
        self._model_id = candidate.model.model_id
        self._learned = learned
        self._at_first = self._applied = repair or NOTHING
        self._body = request.body
        self._teacher = teacher
        self.rounds = 0

    def learn(self, refused: Refused) -> Request | None:
        """Learn from a refusal. The request of the next round; None when there is none."""
        if self._teacher.turns(refused, self._body):
            request = self._teacher.build(self._applied)
            self._body = request.body
            return request
        taught, later = self._taught(refused)
        if not taught:
            return None
        if self._learned.learn(self._provider.id, self._model_id, later):
            attrs = {
                "provider": self._provider.name,
                "model": self._model_id,
                "rejected": sorted(later.rejected),
                "renames": dict(later.renames),
            }
            log.info("proxy: learned rejected params from upstream 400", extra={"attrs": attrs})
        if self.rounds >= self._teacher.rounds() or not taught - self._applied:
            return None
        if self._exchange.deadline - time.monotonic() < ROOM:
            return None
        self._applied |= taught | (self._learned.of(self._provider.id, self._model_id) or NOTHING)
        request = self._teacher.build(self._applied)
        if request.body == self._body:  # it names what the request did not have
            return None
        self._body = request.body
        self.rounds += 1
        return request

    def _taught(self, refused: Refused) -> Taught:
        if refused.effective != 400 or reasons.too_long(400, refused.error) or reasons.refuses_content(refused.error):
            return Taught(NOTHING, NOTHING)
        return self._teacher.lesson(refused, self._body)

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
