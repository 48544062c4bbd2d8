"""The candidates of a request that found their providers full, and the wait for a slot (failover-loop 8.5)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from failover.resolve import Candidate
from failover.windows import Windows
from proxy.trail import Element


class Full:
    """*learned*: whether learned limits count for this request. *leased*: whether another request is
    probing the candidate; None = nobody probes.
    """

    __slots__ = ("_learned", "_leased", "_windows", "elements")

    def __init__(self, windows: Windows, *, learned: bool, leased: Callable[[Candidate], bool] | None) -> None:
        self._windows = windows
        self._learned = learned
        self._leased = leased
        #: In the order in which they were skipped, each with its place on the trail.
        self.elements: list[Element] = []

    async def first_free(
        self, among: Iterable[Candidate], sleep: Callable[[float], Awaitable[None]], seconds: float
    ) -> Candidate | None:
        """The first in order of *among* that has room, as soon as one has; None when *seconds* passed before.

        They are looked at at once, after every slot that frees and when the time is over. The slot is not taken yet:
        the caller takes it before anything else can run, that is, before its next await.
        """
        waiting = list(dict.fromkeys(among))
        with self._windows.waiting([candidate.provider for candidate in waiting]) as waiter:
            timer = asyncio.ensure_future(sleep(seconds))
            timer.add_done_callback(lambda _: waiter.woken.set())
            try:
                while True:
                    waiter.woken.clear()
                    found = self._choose(waiting)
                    if found is not None or timer.done():
                        return found
                    await waiter.woken.wait()
            finally:
                timer.cancel()

    def _choose(self, waiting: list[Candidate]) -> Candidate | None:
        """One that another request is probing only where there is no other with room."""
        free = [candidate for candidate in waiting if self._windows.room(candidate.provider, self._learned)]
        leased = self._leased
        calm = free if leased is None else [candidate for candidate in free if not leased(candidate)]
        return next(iter(calm or free), None)
