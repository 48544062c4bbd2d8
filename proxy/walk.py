"""The sequential walk over a request's candidates, until one served or all were tried (failover-loop 3, 6.2, 13)."""

import asyncio
import logging
import time

from failover import backoff
from failover.resolve import Candidate, Resolution
from proxy import recovery, terminal, walk_log
from proxy.attempt import Attempt
from proxy.chat_attempt import Broken
from proxy.exchange import Exchange
from proxy.recovery import Kind
from proxy.repeats import Repeat, Repeats, Why, log_lines
from proxy.slots import Full
from proxy.terminal import Failure
from proxy.tools import Tools
from proxy.trail import Element, Trail
from requestlogs.recorder import RECORDER

log = logging.getLogger("proxy")

TOOLS = Tools()
_ANYTHING = -1
"""The context window asked for when any will do."""


class Walk:
    """One request's walk. Candidates are asked in their order; what one answers only ever leaves others out."""

    __slots__ = (
        "_attempts",
        "_before",
        "_board",
        "_candidates",
        "_contacted",
        "_draft",
        "_exchange",
        "_failure",
        "_full",
        "_last",
        "_policy",
        "_resolution",
        "_served",
        "_tools",
        "_trail",
        "_window",
    )

    def __init__(self, exchange: Exchange, resolution: Resolution, tools: Tools) -> None:
        self._exchange = exchange
        self._draft = exchange.draft
        self._resolution = resolution
        self._candidates = resolution.candidates
        self._tools = tools
        self._board = tools.board()
        self._policy = exchange.policy
        self._trail = Trail(resolution.skips)
        self._contacted = 0  # candidates, not attempts
        self._attempts = 0
        self._window = _ANYTHING  # after a prompt that was too long: only larger or unknown windows
        self._before = ""  # the text of the failure before the last one
        self._failure: Failure | None = None
        self._full: Full | None = None  # the candidates that were, if some were
        self._last: Element | None = None  # of the attempt whose outcome is the last word so far
        self._served: Attempt | None = None

    async def run(self) -> None:
        draft = self._draft
        try:
            try:
                failure = await self._walk()
                if failure is None and self._served is not None and self._served.broken is not None:
                    await self._recover(self._served.broken)
            finally:  # also when the server stops
                draft.attempts = self._trail.rows(self._last)
            if failure is not None:
                await self._answer(failure)
            # Before the upstream connection is settled: nobody waits for that.
            RECORDER.finish(draft)
            if self._served is not None and self._served.settling is not None:
                await self._served.settle()
        finally:
            if self._served is not None:
                self._served.leave()

    async def _walk(self) -> Failure | None:
        """The failure that is the last word; None when the client got its answer."""
        paused = False  # before the contact that comes next
        for at, candidate in enumerate(self._candidates):
            if self._window != _ANYTHING and not self._fits(candidate):
                continue
            if at and self._out_of_time():
                return self._timed_out()
            last = not self._may_go_on(at)
            if self._passed_over(candidate, last):
                continue
            if self._contacted and not paused:
                gone = await self._back_off()
                if gone is not None:
                    return gone
                paused = True
            attempt = self._enter(candidate, last=last)
            failure = None if attempt is None else self._note(attempt, await attempt.run())
            if failure is None:
                if attempt is not None:
                    return None
                if self._policy.further:
                    continue  # the provider is full, or the lease was taken meanwhile
                break
            self._contacted += 1
            paused = False
            failure = await self._again(candidate, failure, last=last)
            if failure is None:
                return None
            if failure.kind == "client_disconnect" or self._exchange.gone:
                return failure
            if failure.too_long:
                if not self._looks_for_a_larger_window(candidate, at):
                    return failure
            elif not failure.moves_on or (last and self._full is None):
                return failure
            elif not last:
                walk_log.triggered(self._last, failure)
        if self._full is not None:
            return await self._wait_for_a_slot(self._full)
        return self._failure or Failure("internal", "no candidate could be asked")

    # -- who may be asked

    def _fits(self, candidate: Candidate) -> bool:
        size = candidate.model.context_length
        return self._window == _ANYTHING or size is None or size > self._window

    def _may_go_on(self, at: int) -> bool:
        """Whether a candidate behind *at* may be contacted once the one at *at* was."""
        if at + 1 >= len(self._candidates) or not self._resolution.group or self._contacted >= self._policy.further:
            return False
        return self._window == _ANYTHING or any(self._fits(candidate) for candidate in self._candidates[at + 1 :])

    def _passed_over(self, candidate: Candidate, last: bool) -> bool:
        """Skip it without a delay: its provider is full, or another request is probing it and a later one is left."""
        if self._contacted and not self._room(candidate):
            self._skip_full(candidate)
            return True
        # Nobody is probing anything while no circuit is in trouble.
        return self._policy.breaking and not last and not self._board.calm and self._left_to_the_probe(candidate)

    def _left_to_the_probe(self, candidate: Candidate) -> bool:
        """Another request is probing it; one whose provider is full besides is skipped for that."""
        if not self._leased(candidate) or not self._room(candidate):
            return False
        self._skip(candidate)
        return True

    def _leased(self, candidate: Candidate) -> bool:
        return self._board.gate(candidate.provider.id, candidate.model.model_id).state == "leased"

    def _skip(self, candidate: Candidate) -> None:
        walk_log.left_to_the_probe(candidate)
        self._trail.left_to_the_probe(candidate)

    def _looks_for_a_larger_window(self, candidate: Candidate, at: int) -> bool:
        """After a prompt that was too long: True when some candidate behind may still take it (failover-loop 5.5)."""
        self._window = candidate.model.context_length or 0
        if not self._may_go_on_after(at):
            return False
        walk_log.too_long(self._exchange.model, self._last)
        return True

    def _may_go_on_after(self, at: int) -> bool:
        """The same as ``_may_go_on`` when the candidate at *at* was counted already."""
        self._contacted -= 1
        try:
            return self._may_go_on(at)
        finally:
            self._contacted += 1

    # -- full providers (failover-loop 8.5)

    def _room(self, candidate: Candidate) -> bool:
        return self._tools.windows().room(candidate.provider, self._policy.learning)

    def _skip_full(self, candidate: Candidate) -> None:
        """Go on without a request and without a delay."""
        walk_log.full(candidate)
        breaking = self._policy.breaking
        if self._full is None:
            leased = self._leased if breaking else None
            self._full = Full(self._tools.windows(), learned=self._policy.learning, leased=leased)
        element = self._trail.full(candidate, "noop" if breaking else "disabled")
        self._full.elements.append(element)
        self._attempts += 1
        self._name(element)
        self._failed(terminal.full())

    async def _wait_for_a_slot(self, full: Full) -> Failure | None:
        """Nobody is left but those that were full: ask the first that has room again."""
        self._full = None
        waiting = [element.candidate for element in full.elements if self._may_still_ask(element.candidate)]
        if not waiting:
            return self._failure
        if self._out_of_time():
            return self._timed_out()
        wait = min(self._policy.saturation_max_wait, self._exchange.deadline - time.monotonic())
        try:
            candidate = await full.first_free(waiting, self._tools.sleep, wait)
        except asyncio.CancelledError:
            if not self._client_left():
                raise
            return self._left_in_a_pause(busy=True)
        if candidate is not None and not self._out_of_time():
            return await self._ask_freed(candidate)
        self._name(full.elements[-1])
        self._failed(terminal.full())
        return self._failure

    def _may_still_ask(self, candidate: Candidate) -> bool:
        """The prompt fits, and no more candidates are contacted than are allowed."""
        known = (candidate.provider.name, candidate.model.model_id) in self._exchange.contacted
        return self._fits(candidate) and (known or self._contacted <= self._policy.further)

    async def _ask_freed(self, candidate: Candidate) -> Failure | None:
        """The attempt that was waited for. Failing over ends the request, unless it stands in last position."""
        last = not self._may_go_on(self._candidates.index(candidate))
        walk_log.freed(candidate, self._attempts + 1)
        failure = await self._ask(candidate, last=True)
        if failure is None:
            return None
        self._contacted += 1
        failure = await self._again(candidate, failure, last=last)
        if failure is not None and failure.moves_on and not last:
            failure.answer = None
        return failure

    # -- time

    def _out_of_time(self) -> bool:
        return time.monotonic() >= self._exchange.deadline

    def _timed_out(self) -> Failure:
        walk_log.out_of_time(self._exchange, self._attempts, len(self._candidates))
        before = self._failure
        return Failure("failover_timeout", before.text if before is not None else "")

    async def _back_off(self) -> Failure | None:
        """The pause before a further contact; a failure when the client left during it."""
        wait = backoff.BETWEEN_CANDIDATES.wait(self._contacted, self._tools.chance)
        walk_log.backoff(wait, self._attempts + 1)
        return await self._pause(wait)

    async def _pause(self, wait: float, *, busy: bool = False) -> Failure | None:
        """A failure when the client left meanwhile. *busy*: the wait is the provider's own."""
        try:
            await self._tools.sleep(wait)
        except asyncio.CancelledError:
            if not self._client_left():
                raise
            return self._left_in_a_pause(busy)
        return None

    def _client_left(self) -> bool:
        """Whether the cancellation that is being handled is the client's leaving; then it is dealt with."""
        task = asyncio.current_task()
        if not self._exchange.gone or task is None:
            return False
        task.uncancel()
        return True

    def _left_in_a_pause(self, busy: bool) -> Failure:
        """The client left between two attempts; before a backoff, a stall of the provider stays the cause."""
        failure = self._failure
        stalled = failure is not None and failure.kind == "provider_timeout" and not busy
        walk_log.client_left(self._exchange.model, self._last, self._attempts, stalled=stalled, busy=busy)
        if failure is not None and stalled:
            return failure
        if failure is not None:
            self._before = failure.text or self._before
        return Failure("client_disconnect", moves_on=False)

    # -- one attempt

    async def _ask(self, candidate: Candidate, *, last: bool) -> Failure | None:
        """None: served, or (nothing is *served* then) not admitted: full, or probed by another request."""
        attempt = self._enter(candidate, last=last)
        return None if attempt is None else self._note(attempt, await attempt.run())

    def _enter(self, candidate: Candidate, *, last: bool, kind: Kind | None = None) -> Attempt | None:
        """The attempt that may be run now, on the trail; None: its provider is full, or another request probes it.

        *kind* makes it where it is none of the endpoint's own.
        """
        exchange, provider, model = self._exchange, candidate.provider, candidate.model
        element = self._trail.peek(candidate)
        kind = kind or exchange.endpoint.attempt
        attempt = kind(exchange, candidate, element, self._policy, self._tools, last=last and self._full is None)
        if not attempt.enter():
            self._skip_full(candidate)
            return None
        if self._policy.breaking and not self._board.admit(
            provider.id, model.model_id, attempt, alone=last, direct=not self._resolution.group
        ):
            attempt.leave(None)
            self._skip(candidate)
            return None
        self._trail.add(element)
        self._attempts += 1
        walk_log.asked(self._exchange, candidate, self._attempts, len(self._candidates))
        self._stamp(element)
        return attempt

    def _stamp(self, element: Element) -> None:
        """Row and answer headers name this attempt from here on."""
        candidate = element.candidate
        self._exchange.contact(candidate.provider.name, candidate.model.model_id)
        self._name(element)

    def _name(self, element: Element) -> None:
        """The row names this attempt from here on."""
        candidate, draft = element.candidate, self._draft
        draft.provider_id, draft.provider_name = candidate.provider.id, candidate.provider.name
        if self._resolution.group:
            draft.resolved_model_id = candidate.model.model_id
        draft.failover_attempt = element.index
        self._last = element

    def _note(self, attempt: Attempt, failure: Failure | None) -> Failure | None:
        """What came of *attempt*."""
        if failure is None:
            self._served = attempt
        else:
            self._failed(failure)
        return failure

    def _failed(self, failure: Failure) -> None:
        """This is the cause of everything until something else is."""
        if self._failure is not None:
            self._before = self._failure.text or self._before
        self._failure = failure

    async def _again(self, candidate: Candidate, failure: Failure, *, last: bool) -> Failure | None:
        """Ask the same candidate again while what it answered is worth a repetition; what came of it in the end."""
        repeats = Repeats()
        while (repeat := self._worth(repeats, candidate, failure, last=last)) is not None:
            if repeat.why is Why.NO_TIME:
                failure.kind, failure.answer = terminal.SATURATED, None
                return failure
            gone = await self._pause(repeat.wait, busy=repeat.why in (Why.BUSY, Why.BUSY_IN_PLACE))
            if gone is not None:
                return gone
            again = await self._ask(candidate, last=last)
            if again is None:
                return None if self._served is not None else failure  # not admitted: its answer stands
            failure = again
        return failure

    def _worth(self, repeats: Repeats, candidate: Candidate, failure: Failure, *, last: bool) -> Repeat | None:
        """Whether and when the same candidate is asked again for *failure* (failover-loop 6.2, 6.4)."""
        room = self._exchange.deadline - time.monotonic()
        repeat = repeats.next(failure, self._policy, last=last, room=room, chance=self._tools.chance)
        if repeat is not None:
            model, attempt = self._exchange.model, self._attempts
            for message, attrs in log_lines(repeat, failure, candidate, model=model, attempt=attempt, room=room):
                log.info(message, extra={"attrs": attrs})
        return repeat

    # -- a stream that broke

    async def _recover(self, broken: Broken) -> None:
        """Let candidates that are left finish it; else its failure is the last word (failover-loop 11.4)."""
        asked = self._exchange.contacted
        self._contacted = len(asked)
        left = [c for c in self._candidates if (c.provider.name, c.model.model_id) not in asked and self._fits(c)]
        told = await recovery.finish(broken, left, self._policy.recoveries, self._visit)
        if told is not None:
            self._name(told.attempt.element)
            await told.tell()

    async def _visit(self, candidate: Candidate, kind: Kind, last: bool) -> tuple[Attempt, Failure | None] | None:
        if self._contacted > self._policy.further or self._out_of_time():
            return None
        if not self._room(candidate):
            self._skip_full(candidate)
            return None
        await self._tools.sleep(backoff.BETWEEN_CANDIDATES.wait(self._contacted, self._tools.chance))
        attempt = self._enter(candidate, last=last, kind=kind)
        if attempt is None:
            return None
        self._contacted += 1
        self._attempts = attempt.element.index + 1  # behind a race there may be more on the trail
        return attempt, self._note(attempt, await attempt.run())

    # -- the last word

    async def _answer(self, failure: Failure) -> None:
        """Row and client get *failure*."""
        exchange, draft, last = self._exchange, self._draft, self._last
        name = last.candidate.provider.name if last is not None else ""
        if failure.saturated and self._resolution.group:
            failure.kind, failure.answer = terminal.SATURATED, None
        draft.state, draft.error_kind = "failed", failure.kind
        if failure.answer is not None and not exchange.gone:
            answer = failure.answer
            draft.error_message = failure.text
            if failure.status:
                walk_log.non_200(exchange.model, failure, last)
        else:
            answer = terminal.exhaustion(
                failure, exchange.model, group=self._resolution.group, busy_429=self._policy.busy_429
            )
            draft.provider_id = None
            draft.failover_attempt = max(self._attempts - 1, 0)
            number = last.index + 1 if last is not None else 0
            draft.error_message = terminal.row_message(
                failure, name, number, self._trail.candidates, before=self._before
            )
            if failure.kind != "client_disconnect":
                walk_log.exhausted(exchange, len(self._candidates), name, answer.status)
        draft.status_code = answer.status
        if not exchange.gone:
            await exchange.say(answer)
