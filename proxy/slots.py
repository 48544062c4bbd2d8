"""Waiting for a slot with one of several full providers (failover-loop 8.5)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from failover.resolve import Candidate
from failover.windows import Windows


async def first_free(
    busy: Sequence[Candidate],
    choose: Callable[[Sequence[Candidate]], Candidate | None],
    windows: Windows,
    sleep: Callable[[float], Awaitable[None]],
    seconds: float,
) -> Candidate | None:
    """The one of *busy* that *choose* picks of them as soon as it picks one; None when *seconds* passed before.

    It is asked at once, after every slot that frees and when the time is over. A slot it finds is not taken yet: the
    caller takes it before anything else can run, that is, before its next await.
    """
    with windows.waiting([candidate.provider for candidate in busy]) as waiter:
        timer = asyncio.ensure_future(sleep(seconds))
        timer.add_done_callback(lambda _: waiter.woken.set())
        try:
            while True:
                waiter.woken.clear()
                found = choose(busy)
                if found is not None or timer.done():
                    return found
                await waiter.woken.wait()
        finally:
            timer.cancel()
