"""The hedged race: several candidates are asked at a time, and the first that shows output serves (failover-loop 12).

A race is a walk that does not wait for one candidate before it asks the next. Its attempts are opened side by side,
each in a task of its own, up to their first token; nothing reaches the client before one of them has won. The winner is
served by the request's own task, as any attempt is; everybody else is abandoned at once.
"""

import asyncio
import logging
import time
from collections import deque
from dataclasses import replace

from failover.resolve import Resolution
from modelhotel.core import durations, logformat
from proxy import walk_log
from proxy.attempt import Attempt
from proxy.exchange import Exchange
from proxy.terminal import Failure
from proxy.tools import Tools
from proxy.trail import Element
from proxy.walk import Walk

log = logging.getLogger("proxy")

SUPERSEDED = ("hedge_superseded", "superseded by the winner while in flight")
"""Error kind and note of an attempt that was still running when the race ended."""
LATE = ("failover_timeout", "still in flight at the failover deadline")
LEFT = ("client_disconnect", "client disconnected while in flight")
STOPPED = ("", "")

_ending: set[asyncio.Task[Failure | None]] = set()
"""Tasks that were cancelled and are not over: the loop itself does not keep them."""


class Schedule:
    """When candidates are launched: one at *start*, one at every multiple of *delay* after it, and one more for each
    attempt that ended without winning. Times in seconds, of one clock. Pure.
    """

    __slots__ = ("_delay", "_owed", "_start", "_tick", "next_tick")

    def __init__(self, start: float, delay: float) -> None:
        self._start = start
        self._delay = delay
        self._tick = 1
        self._owed = 1
        self.next_tick = start + delay

    def ended(self) -> None:
        """An attempt ended without winning: the next candidate need not wait for a tick, and no tick moves."""
        self._owed += 1

    def due(self, now: float) -> bool:
        """Whether a candidate is to be launched at *now*; True counts as its launch. A tick that was missed is not
        made up for: two launches at once are no hedge.
        """
        if now >= self.next_tick:
            self._owed += 1
            while now >= self.next_tick:
                self._tick += 1
                self.next_tick = self._start + self._tick * self._delay
        if not self._owed:
            return False
        self._owed -= 1
        return True


class Race(Walk):
    """See the module's docstring."""

    __slots__ = ("_arrived", "_running", "_schedule", "_stall", "_turn")

    def __init__(self, exchange: Exchange, resolution: Resolution, tools: Tools) -> None:
        super().__init__(exchange, resolution, tools)
        self._schedule = Schedule(time.monotonic(), self._policy.hedge)
        self._running: dict[asyncio.Task[Failure | None], Attempt] = {}
        self._arrived: deque[asyncio.Task[Failure | None]] = deque()  # results, in the order in which they came
        self._turn = 0  # candidates whose turn has come
        self._stall: tuple[Element, Failure] | None = None

    async def _walk(self) -> Failure | None:
        try:
            won = await self._decided()
        except asyncio.CancelledError:
            if not self._client_left():
                raise
            won = self._left()
        finally:
            self._call_off(*STOPPED)
        if won is None:
            return await self._nobody_won()
        return won if isinstance(won, Failure) else await self._serve(won)

    async def _decided(self) -> Attempt | Failure | None:
        """The winner, whose first token is there; or why there is none, None where every attempt failed. Nobody else
        runs any more.
        """
        while True:
            while self._arrived:
                task = self._arrived.popleft()
                attempt, failure = self._running.pop(task), task.result()
                if failure is None:
                    self._call_off(*SUPERSEDED)
                    return attempt
                self._lost(attempt, failure)
                if not (failure.moves_on or failure.too_long):
                    self._call_off(*SUPERSEDED)
                    return failure
                self._make_up_for(failure)
            if self._attempts and self._out_of_time():
                return self._late()
            self._launch()
            if not self._running:
                return None
            await self._something()

    async def _something(self) -> None:
        """Wait for a result, the next tick or the end of the request's time, whichever is first."""
        until = self._exchange.deadline
        if self._more:
            until = min(until, self._schedule.next_tick)
        wait = max(until - time.monotonic(), 0.0)
        await asyncio.wait(self._running, timeout=wait, return_when=asyncio.FIRST_COMPLETED)

    # -- launching

    def _launch(self) -> None:
        while self._more and self._schedule.due(time.monotonic()):
            attempt = self._next()
            if attempt is None:
                return
            self._contacted += 1
            attempt.element.hedged = True
            task = asyncio.get_running_loop().create_task(attempt.open())
            self._running[task] = attempt
            task.add_done_callback(self._over)

    @property
    def _more(self) -> bool:
        """Whether candidates are left that were not launched."""
        return self._turn < len(self._candidates) and self._contacted <= self._policy.further

    def _next(self) -> Attempt | None:
        """The next candidate that may be asked, admitted. One that may not loses its turn to the one behind it."""
        while self._more:
            at, candidate = self._turn, self._candidates[self._turn]
            self._turn += 1
            if not self._fits(candidate):
                continue
            last = not self._may_go_on(at)
            if self._policy.breaking and not last and self._left_to_the_probe(candidate):
                continue
            attempt = self._enter(candidate, last=last)
            if attempt is not None:
                return attempt
        return None

    def _over(self, task: asyncio.Task[Failure | None]) -> None:
        _ending.discard(task)
        if task in self._running:
            self._arrived.append(task)

    # -- how it ends

    def _lost(self, attempt: Attempt, failure: Failure) -> None:
        """It ended without winning."""
        self._note(attempt, failure)
        self._stamp(attempt.element)
        if failure.kind == "provider_timeout":
            self._stall = attempt.element, failure
        if failure.too_long:
            self._window = max(self._window, attempt.element.candidate.model.context_length or 0)

    def _make_up_for(self, failure: Failure) -> None:
        """The next candidate is asked at once."""
        self._schedule.ended()
        if failure.too_long and any(self._fits(candidate) for candidate in self._candidates[self._turn :]):
            walk_log.too_long(self._exchange.model, self._last)
        elif self._more:
            walk_log.triggered(self._last, failure)

    def _call_off(self, kind: str, note: str) -> None:
        """Abandon whoever still runs, and every result that was not looked at. What failed keeps its own verdict."""
        running, self._running = self._running, {}
        for task, attempt in running.items():
            attempt.abandon(kind, note)
            if task.cancel():
                _ending.add(task)

    async def _serve(self, winner: Attempt) -> Failure | None:
        element = winner.element
        self._stamp(element)
        attrs: dict[str, object] = {"provider": element.candidate.provider.name, "attempt": element.index}
        if winner.ttft_ms is not None:
            attrs["true_ttft_ms"] = round(winner.ttft_ms, 1)
        logformat.say(log, "proxy: hedge winner", attrs)
        return self._note(winner, await winner.run(opened=True))

    async def _nobody_won(self) -> Failure | None:
        """Every attempt failed: the result that arrived last is the last word, once no busy provider is worth a wait.

        A group that is merely busy must not fail sooner than it would without a race (failover-loop 12.4).
        """
        failure = self._failure
        if self._full is not None:
            failure = await self._wait_for_a_slot(self._full)
        elif failure is None or self._last is None:
            failure = Failure("internal", "no candidate could be asked")
        elif failure.saturated:
            failure = await self._again(self._last.candidate, failure, last=True)
        if failure is not None and failure.moves_on:
            failure.answer = None
        return failure

    def _late(self) -> Failure:
        self._name_who_still_runs()
        self._call_off(*LATE)
        attrs = {
            "model": self._exchange.model,
            "launched": self._contacted,
            "deadline": durations.short(self._exchange.deadline - self._draft.arrival),
        }
        log.warning("proxy: overall request deadline exceeded during hedged streaming", extra={"attrs": attrs})
        return Failure("failover_timeout", self._failure.text if self._failure is not None else "")

    def _name_who_still_runs(self) -> None:
        """The row's message names the attempt that was launched last of those that are cut off."""
        if self._running:
            self._stamp(next(reversed(self._running.values())).element)

    def _left(self) -> Failure:
        """The client left; after a stall of some provider that stays the cause (failover-loop 12.4, 17)."""
        for task in self._arrived:
            failure = None if task.cancelled() else task.result()
            if failure is not None:
                self._lost(self._running.pop(task), failure)
        self._name_who_still_runs()
        self._call_off(*LEFT)
        if self._stall is not None:
            element, failure = self._stall
            self._stamp(element)
            return replace(failure, answer=None)
        self._before = self._failure.text if self._failure is not None else ""
        return Failure("client_disconnect", moves_on=False)
