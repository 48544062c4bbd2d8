"""What the limiter needs of a store that several processes share; ``modelhotel/ops/limit_store.py`` is one."""

from collections.abc import Sequence
from typing import Protocol

from proxy.limits.buckets import Ask, Taken


class Shared(Protocol):
    """Nothing raises for the store's sake and nothing takes longer than a few milliseconds."""

    @property
    def processes(self) -> int:
        """How many processes share the buckets, as last known; at least 1."""
        ...

    async def take(self, asks: Sequence[Ask], longest: float) -> Taken | None:
        """``buckets.take`` for all processes together; None where it can not be known in time."""
        ...

    async def spend(self, asks: Sequence[Ask], amount: float) -> bool:
        """``buckets.spend`` for all processes together; False where it did not happen."""
        ...

    async def clear(self, kinds: Sequence[str]) -> None:
        """Buckets whose ids begin with one of *kinds* start fresh: once, whoever of the processes asks for it."""
        ...

    async def first(self, name: str, seconds: float) -> bool:
        """Whether nobody has said *name* in the last *seconds*; True where that can not be known."""
        ...

    async def aclose(self) -> None:
        """Before the event loop ends."""
        ...
