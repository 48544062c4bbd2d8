"""Reading the members of foreign listings, and asking for several things at once. Pure but for the asking."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from providers.kinds.base import ListingError

S = TypeVar("S")
T = TypeVar("T")
#: USD per million tokens: a hundred times what an operator may enter. What is above is no price, and costs that are
#: reckoned with it would end as infinite.
DEAREST = 100_000.0
#: No listing of a vendor has as many pages; a server that never ends its own is left there.
PAGES = 100


def member(entry: dict[str, Any], name: str) -> dict[str, Any]:
    """The object *name*, else an empty one."""
    value = entry.get(name)
    return value if isinstance(value, dict) else {}


def price(value: Any, factor: float = 1.0) -> float | None:
    """USD per million tokens out of a number or numeric text; None when empty, unreadable, negative or absurd."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        found = float(value) * factor
    except (ValueError, OverflowError):
        return None
    # Nine digits: 0.00000015 a token is 0.15 a million, not 0.15000000000000002.
    return round(found, 9) if 0 <= found <= DEAREST else None


def flags(**found: Any) -> dict[str, bool]:
    """The capabilities that are exactly True."""
    return {name: True for name, value in found.items() if value is True}


async def access(asked: Awaitable[Any]) -> str:
    """What a call that needs the key says about it: ``""`` when it is let in, else why not."""
    try:
        await asked
    except ListingError as problem:
        return str(problem) if problem.status in (0, 401, 403) else ""
    return ""


async def at_most(width: int, items: Iterable[S], call: Callable[[S], Awaitable[T]]) -> list[T]:
    """What *call* gives for each item, in order, *width* at a time. The first that raises ends the others."""
    slots = asyncio.Semaphore(width)

    async def one(item: S) -> T:
        async with slots:
            return await call(item)

    tasks = [asyncio.create_task(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
