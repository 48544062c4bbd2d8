"""Work on a large body beside the event loop.

Reading and translating costs by the number of elements: a body within the limit can hold a million messages, and what
takes seconds on the loop stops every stream of the process. Two threads are enough: they share one interpreter.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

LARGE = 1024 * 1024
"""Bytes of a body from which on it pays to change threads."""

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = ThreadPoolExecutor(2, "bodies")


async def by_size(size: int, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """:func:`run` for a body of *size* bytes that is large, else *work* here and now."""
    return await run(work, *args, **named) if size > LARGE else work(*args, **named)


async def run(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """What *work* returns or raises. One that nobody waits for any more runs to its end."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(work, *args, **named))
