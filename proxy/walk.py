"""The sequential walk over a request's candidates, until one served or all were tried (failover-loop 3, 6.2, 13)."""

import asyncio
import logging
import time

from failover import backoff
from failover.ratelimit import RateClass
from failover.resolve import Candidate, Resolution
from modelhotel.core import durations, logformat
from proxy import policy, recovery, terminal
from proxy.attempt import Attempt
from proxy.chat_attempt import Broken
from proxy.exchange import Exchange
from proxy.recovery import Kind
from proxy.repeats import Repeat, Repeats, Why, log_lines
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
        self._policy = policy.of(exchange.opts)
        self._trail = Trail(resolution.skips)
        self._contacted = 0  # candidates, not attempts
        self._attempts = 0
        self._window = _ANYTHING  # after a prompt that was too long: only larger or unknown windows
        self._before = ""  # the text of the failure before the last one
        self._failure: Failure | None = None
        self._last: Element | None = None  # of the attempt whose outcome is the last word so far
        self._served: Attempt | None = None

    async def run(self) -> None:
        draft = self._draft
        try:
            failure = await self._walk()
            if failure is None and self._served is not None and self._served.broken is not None:
                await self._recover(self._served.broken)
        finally:  # also when the server stops
            draft.attempts = self._trail.rows(self._last)
            draft.failover_attempt = max(self._attempts - 1, 0)
        if failure is not None:
            await self._answer(failure)
        # Before the upstream connection is settled: nobody waits for that.
        RECORDER.finish(draft)
        if self._served is not None:
            await self._served.settle()

    async def _walk(self) -> Failure | None:
        """The failure that is the last word; None when the client got its answer."""
        for at, candidate in enumerate(self._candidates):
            if not self._fits(candidate):
                continue
            if at and self._out_of_time():
                return self._timed_out()
            last = not self._may_go_on(at)
            if self._policy.breaking and not last and self._left_to_the_probe(candidate):
                continue
            if self._contacted:
                gone = await self._back_off()
                if gone is not None:
                    return gone
            failure = await self._ask(candidate, last=last)
            if failure is None:
                if self._served is not None:
                    return None
                continue  # the lease was taken meanwhile
            self._contacted += 1
            failure = await self._again(candidate, failure, last=last)
            if failure is None:
                return None
            if failure.kind == "client_disconnect" or self._exchange.gone:
                return failure
            if failure.too_long:
                if not self._looks_for_a_larger_window(candidate, at):
                    return failure
            elif last or not failure.moves_on:
                return failure
            else:
                self._log_triggered(failure)
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

    def _left_to_the_probe(self, candidate: Candidate) -> bool:
        """Another request is probing this candidate, and a later one is left: skip it, without a delay."""
        if self._board.gate(candidate.provider.id, candidate.model.model_id).state != "leased":
            return False
        self._skip(candidate)
        return True

    def _skip(self, candidate: Candidate) -> None:
        attrs = {"provider": candidate.provider.name, "model": candidate.model.model_id}
        log.info("resolve: skipping candidate: probe in progress", extra={"attrs": attrs})
        self._trail.left_to_the_probe(candidate)

    def _looks_for_a_larger_window(self, candidate: Candidate, at: int) -> bool:
        """After a prompt that was too long: True when some candidate behind may still take it (failover-loop 5.5)."""
        self._window = candidate.model.context_length or 0
        if not self._may_go_on_after(at):
            return False
        self._log_too_long()
        return True

    def _may_go_on_after(self, at: int) -> bool:
        """The same as ``_may_go_on`` when the candidate at *at* was counted already."""
        self._contacted -= 1
        try:
            return self._may_go_on(at)
        finally:
            self._contacted += 1

    # -- time

    def _out_of_time(self) -> bool:
        return time.monotonic() >= self._exchange.deadline

    def _timed_out(self) -> Failure:
        attrs = {
            "model": self._exchange.model,
            "attempt": self._attempts,
            "total_candidates": len(self._candidates),
            "deadline": durations.short(self._exchange.deadline - self._draft.arrival),
        }
        log.warning("proxy: overall request deadline exceeded, stopping failover", extra={"attrs": attrs})
        before = self._failure
        return Failure("failover_timeout", before.text if before is not None else "")

    async def _back_off(self) -> Failure | None:
        """The pause before a further contact; a failure when the client left during it."""
        wait = backoff.BETWEEN_CANDIDATES.wait(self._contacted, self._tools.chance)
        attrs = {"backoff": durations.short(wait), "attempt": self._attempts + 1}
        log.info("proxy: failover backoff", extra={"attrs": attrs})
        return await self._pause(wait)

    async def _pause(self, wait: float, *, busy: bool = False) -> Failure | None:
        """A failure when the client left meanwhile. *busy*: the wait is the provider's own."""
        try:
            await self._tools.sleep(wait)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._exchange.gone or task is None:
                raise
            task.uncancel()
            return self._left_in_a_pause(busy)
        return None

    def _left_in_a_pause(self, busy: bool) -> Failure:
        """The client left between two attempts; after a stall of the provider that stays the cause."""
        failure, last = self._failure, self._last
        attrs: dict[str, object] = {
            "model": self._exchange.model,
            "provider": last.candidate.provider.name if last is not None else "",
            "attempt": self._attempts,
        }
        if failure is not None and failure.kind == "provider_timeout":
            attrs |= {"kind": failure.kind, "status": 502}
            log.info("proxy: connection closed during failover backoff after provider stall", extra={"attrs": attrs})
            return failure
        if busy:
            del attrs["attempt"]
            log.info("proxy: client disconnected while waiting out saturation", extra={"attrs": attrs})
        else:
            log.info("proxy: client disconnected during failover backoff", extra={"attrs": attrs})
        self._before = failure.text if failure is not None else ""
        return Failure("client_disconnect", moves_on=False)

    # -- one attempt

    async def _ask(self, candidate: Candidate, *, last: bool) -> Failure | None:
        """None: served, or (nothing is *served* then) the probe lease was taken by another request."""
        attempt = self._enter(candidate, last=last)
        return None if attempt is None else self._note(attempt, await attempt.run())

    def _enter(self, candidate: Candidate, *, last: bool, kind: Kind | None = None) -> Attempt | None:
        """The attempt that may be run now, on the trail; None: the probe lease was taken by another request.

        *kind* makes it where it is none of the endpoint's own.
        """
        exchange, provider, model = self._exchange, candidate.provider, candidate.model
        element = self._trail.peek(candidate)
        kind = kind or exchange.endpoint.attempt
        attempt = kind(exchange, candidate, element, self._policy, self._tools, last=last)
        if self._policy.breaking and not self._board.admit(
            provider.id, model.model_id, attempt, alone=last, direct=not self._resolution.group
        ):
            self._skip(candidate)
            return None
        self._trail.add(element)
        self._attempts += 1
        self._log_start(candidate)
        self._stamp(element)
        return attempt

    def _stamp(self, element: Element) -> None:
        """Row and answer headers name this attempt from here on."""
        candidate, draft = element.candidate, self._draft
        provider, model = candidate.provider, candidate.model
        draft.provider_id, draft.provider_name = provider.id, provider.name
        if self._resolution.group:
            draft.resolved_model_id = model.model_id
        self._exchange.contact(provider.name, model.model_id)
        self._last = element

    def _note(self, attempt: Attempt, failure: Failure | None) -> Failure | None:
        """What came of *attempt*."""
        if failure is None:
            self._served = attempt
        else:
            if self._failure is not None:
                self._before = self._failure.text
            self._failure = failure
        return failure

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

    def _log_start(self, candidate: Candidate) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        if self._attempts == 1:
            provider = candidate.provider
            attrs: dict[str, object] = {
                "endpoint": self._exchange.endpoint.family,
                "provider": provider.name,
                "provider_id": provider.id,
                "model": candidate.model.model_id,
                "total_candidates": len(self._candidates),
            }
            logformat.say(log, "proxy: routing to provider", attrs)
        else:
            attrs = {
                "endpoint": self._exchange.endpoint.family,
                "attempt": self._attempts,
                **_who(candidate),
                "model": candidate.model.model_id,
            }
            log.info("proxy: failover attempt", extra={"attrs": attrs})

    def _log_triggered(self, failure: Failure) -> None:
        last = self._last
        assert last is not None
        attrs = {
            "attempt": last.index + 1,
            **_who(last.candidate),
            "status": failure.status,
            "rate_limit_class": str(failure.reading.kind if failure.reading is not None else RateClass.UNKNOWN),
        }
        log.info("proxy: failover triggered", extra={"attrs": attrs})

    def _log_too_long(self) -> None:
        last = self._last
        assert last is not None
        attrs = {
            "model": self._exchange.model,
            "provider": last.candidate.provider.name,
            "attempt": last.index + 1,
            "context_length": last.candidate.model.context_length,
        }
        log.info("proxy: prompt too long for candidate, trying a larger context window", extra={"attrs": attrs})

    # -- a stream that broke

    async def _recover(self, broken: Broken) -> None:
        """Let candidates that are left finish it; else its failure is the last word (failover-loop 11.4)."""
        self._contacted = len(self._exchange.contacted)
        told = await recovery.finish(self, broken, self._policy.recoveries)
        if told is not None:
            self._stamp(told.attempt.element)
            await told.tell()

    def uncontacted(self) -> list[Candidate]:
        asked = self._exchange.contacted
        return [c for c in self._candidates if (c.provider.name, c.model.model_id) not in asked and self._fits(c)]

    def may_contact(self) -> bool:
        return self._contacted <= self._policy.further and not self._out_of_time()

    async def wait_between(self) -> None:
        await self._tools.sleep(backoff.BETWEEN_CANDIDATES.wait(self._contacted, self._tools.chance))

    async def visit(self, candidate: Candidate, kind: Kind, *, last: bool) -> tuple[Attempt, Failure | None] | None:
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
                attrs: dict[str, object] = {
                    "status": failure.status,
                    "error_kind": failure.kind,
                    "model": exchange.model,
                    **(_who(last.candidate) if last is not None else {}),
                }
                log.warning("proxy: upstream non-200", extra={"attrs": attrs})
        else:
            answer = terminal.exhaustion(
                failure, exchange.model, group=self._resolution.group, busy_429=self._policy.busy_429
            )
            draft.provider_id = None
            number = last.index + 1 if last is not None else 0
            draft.error_message = terminal.row_message(failure, name, number, self._contacted, before=self._before)
            self._log_exhausted(failure, name, answer.status)
        draft.status_code = answer.status
        if not exchange.gone:
            await exchange.say(answer)

    def _log_exhausted(self, failure: Failure, provider: str, status: int) -> None:
        if failure.kind == "client_disconnect":
            return
        exchange = self._exchange
        attrs: dict[str, object] = {
            "model": exchange.model,
            "provider": provider,
            "error": self._draft.error_message,
            "kind": failure.kind,
            "status": status,
        }
        if self._resolution.group:
            attrs["candidates"] = len(self._candidates)
            attrs["failover_timeout"] = durations.short(exchange.deadline - self._draft.arrival)
            log.error("proxy: all providers exhausted", extra={"attrs": attrs})
        else:
            attrs["request_timeout"] = durations.short(exchange.attempt_seconds)
            log.error("proxy: provider request failed", extra={"attrs": attrs})


def _who(candidate: Candidate) -> dict[str, object]:
    return {"provider": candidate.provider.name, "provider_id": candidate.provider.id}
