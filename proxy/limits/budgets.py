"""Dollar budgets of keys and accounts: sums of the request log, kept in memory (v1-api 4.4).

The first look at a subject reads its sum. After that the figure is at most :data:`KEPT` seconds old where other
processes spend too, and is never waited for again.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from modelhotel.core import events
from modelhotel.core.clock import rfc3339
from proxy import answers
from proxy.answers import Answer
from proxy.keys import close_connection
from proxy.limits.caps import Limits
from proxy.limits.episodes import Episode
from proxy.limits.money import DOLLAR, Subject, units
from proxy.limits.period import Span, running
from requestlogs.recorder import RECORDER

#: Seconds for which a sum holds, and for which a request waits for the first one.
KEPT, FIRST = 60.0, 3.0
#: Seconds for the rows of what has ended to get into the log before they are summed.
FLUSH = 1.0
#: The share of a budget that is warned of, in percent.
WARN_AT = 80
WARNING, EXCEEDED = "budget.warning", "budget.exceeded"
log = logging.getLogger("budget")


class Spent:
    """What one subject spent in the running period, against the budget it has now."""

    def __init__(self, subject: Subject, subject_id: str, name: str, limits: Limits) -> None:
        self.subject, self.id, self.name = subject, subject_id, name
        self.budget = 0
        self.period = ""
        self.span = Span(0, 0)
        self.units = 0
        #: Monotonic time of the last sum; below 0 before there was one.
        self.read_at = -1.0
        self.reading: asyncio.Task[None] | None = None
        #: What ended since the sum that is being read was begun.
        self.meanwhile = 0
        self.told: set[str] = set()
        self.episode = Episode({"budget": subject, "name": name})
        self.under(name, limits)

    def under(self, name: str, limits: Limits) -> None:
        """The budget as it is now: another one is judged anew, and told of anew."""
        budget, period = units(limits.budget_usd or 0.0), limits.budget_period or "month"
        self.name = name
        if budget != self.budget:
            self.budget = budget
            self.told.clear()
        if period != self.period:
            self.period = period
            self.span, self.units = Span(0, 0), 0
            self.read_at, self.reading = -1.0, None
            self.told.clear()

    @property
    def exceeded(self) -> bool:
        return self.units >= self.budget

    def message(self) -> str:
        """What a client is told."""
        return (
            f"{self.subject} budget exceeded: ${self.units / DOLLAR:.2f} of ${self.budget / DOLLAR:.2f} "
            f"spent this {self.period}"
        )


class Budgets:
    """Of one process and its event loop. *first*: whether an event of several processes is ours to tell."""

    def __init__(self) -> None:
        self._spent: dict[tuple[Subject, str], Spent] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.first: Callable[[str, float], Awaitable[bool]] | None = None
        self.prepare: Callable[[], None] = _prepare
        self.sum: Callable[[Subject, str, int], int] = _sum
        self.now: Callable[[], float] = time.time

    async def refusal(self, subjects: list[tuple[Subject, str, str, Limits]]) -> Answer | None:
        """*subjects*: (kind, id, name, limits) of each that has a budget, the key first. None: all may spend."""
        found = [self._known(*subject) for subject in subjects]
        for spent in found:
            await self._current(spent)
        over = [spent for spent in found if spent.exceeded]
        moment = time.monotonic()
        for spent in found:
            if not spent.exceeded:
                spent.episode.end(moment)
        if not over:
            return None
        over[0].episode.refuse(moment)
        for spent in over:
            self._tell(spent, EXCEEDED)
        wait = max(math.ceil(max(spent.span.end for spent in over) - self.now()), 1)
        return answers.error(429, over[0].message(), answers.INSUFFICIENT_QUOTA, retry_after=wait)

    def finished(self, subject: Subject, subject_id: str, dollars: float, created_at: float) -> None:
        """A request of the subject ended; *created_at* (POSIX seconds) is its row's. Nothing where nobody asked yet."""
        spent = self._spent.get((subject, subject_id))
        if spent is None or not spent.span.start <= created_at < spent.span.end:
            return
        cost = units(dollars)
        spent.units += cost
        spent.meanwhile += cost
        if spent.read_at >= 0:
            self._warn(spent)

    def _known(self, subject: Subject, subject_id: str, name: str, limits: Limits) -> Spent:
        spent = self._spent.get((subject, subject_id))
        if spent is None:
            spent = self._spent[subject, subject_id] = Spent(subject, subject_id, name, limits)
        else:
            spent.under(name, limits)
        return spent

    # -- sums

    async def _current(self, spent: Spent) -> None:
        """The figure of the period that runs: waited for at first sight, else read again behind the request's back."""
        now, moment = self.now(), time.monotonic()
        first = spent.read_at < 0
        if not first and now >= spent.span.end:
            spent.span, spent.units, spent.meanwhile = running(spent.period, now), 0, 0
            spent.told.clear()
            spent.read_at = moment - KEPT  # zero until it is summed
        elif first and spent.reading is None:
            spent.span, spent.units, spent.meanwhile = running(spent.period, now), 0, 0
        if not first and moment - spent.read_at < KEPT:
            self._warn(spent)
            return
        reading = spent.reading
        if reading is None:
            reading = spent.reading = self._later(self._read(spent, first))
        if first:
            await asyncio.wait((reading,), timeout=FIRST)
            if spent.read_at < 0:
                self._unread(spent, "timeout")

    async def _read(self, spent: Spent, first: bool) -> None:
        span = spent.span
        try:
            await asyncio.to_thread(self.prepare)
            spent.meanwhile = 0
            summed = await asyncio.to_thread(self.sum, spent.subject, spent.id, span.start)
        except Exception as problem:
            if spent.read_at < 0:
                self._unread(spent, type(problem).__name__)
            else:
                spent.read_at = time.monotonic()
                log.warning("budget: sum not read, the last one holds", extra={"attrs": _about(spent, problem)})
        else:
            if spent.span == span:
                spent.units = summed + spent.meanwhile
                spent.read_at = time.monotonic()
                self._know(spent) if first else self._warn(spent)
        finally:
            if spent.reading is asyncio.current_task():
                spent.reading = None

    @staticmethod
    def _unread(spent: Spent, problem: str) -> None:
        """Admitted at zero for one interval."""
        spent.read_at = time.monotonic()
        attrs = {"budget": spent.subject, "name": spent.name, "problem": problem}
        log.warning("budget: sum not read, the cap is not enforced for a minute", extra={"attrs": attrs})

    # -- events

    @staticmethod
    def _know(spent: Spent) -> None:
        """What was passed before anyone looked was told then, by whoever ran before."""
        if spent.units * 100 >= spent.budget * WARN_AT:
            spent.told.add(WARNING)
        if spent.exceeded:
            spent.told.add(EXCEEDED)

    def _warn(self, spent: Spent) -> None:
        if spent.units * 100 >= spent.budget * WARN_AT:
            self._tell(spent, WARNING)

    def _tell(self, spent: Spent, event: str) -> None:
        """Once per subject and period."""
        if event in spent.told:
            return
        spent.told.add(event)
        said = _said(spent, event)
        if self.first is None:
            events.publish(*said)
            return
        name = f"{event}:{spent.subject}:{spent.id}:{spent.span.start}:{spent.budget}"
        self._later(_publish(self.first, name, said, spent.span.end - self.now()))

    def _later(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """*work* as a task that is kept until it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _publish(
    first: Callable[[str, float], Awaitable[bool]], name: str, said: events.Description, seconds: float
) -> None:
    if await first(name, max(seconds, 1.0)):
        events.publish(*said)


def _said(spent: Spent, event: str) -> events.Description:
    end = datetime.fromtimestamp(spent.span.end, UTC)
    who = "virtual key" if spent.subject == "key" else "user"
    dollars, budget = spent.units / DOLLAR, spent.budget / DOLLAR
    text = f'{who} "{spent.name}" has spent ${dollars:.2f} of its ${budget:.2f} {spent.period} budget'
    if event == EXCEEDED:
        text += f"; requests are refused until {end:%Y-%m-%d %H:%M} UTC"
    metadata = {
        "subject": spent.subject,
        "id": spent.id,
        "name": spent.name,
        "spent_usd": dollars,
        "budget_usd": budget,
        "period": spent.period,
        "period_end": rfc3339(end),
    }
    return event, "error" if event == EXCEEDED else "warning", "budget", text, metadata


def _about(spent: Spent, problem: Exception) -> dict[str, str]:
    return {"budget": spent.subject, "name": spent.name, "problem": type(problem).__name__}


def _prepare() -> None:
    """What has ended is in the log from here on, as far as the database takes it in time."""
    try:
        RECORDER.flush(FLUSH)
    finally:
        close_connection()


def _sum(subject: Subject, subject_id: str, start: int) -> int:
    """For a thread that ends: it leaves no connection behind."""
    from proxy.limits import spend  # needs the tables, which are not there when this module is imported

    try:
        return spend.since(subject, subject_id, start)
    finally:
        close_connection()
