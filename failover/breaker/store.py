"""What circuits that several processes share need of the place where they are kept; the shell has one over Redis."""

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

#: What :meth:`Store.swap` takes for "whatever is there".
ANYTHING = b"*"


class StoreAway(Exception):
    """The store does not answer in time."""


class Store(Protocol):
    """Where the records are. Every method may raise StoreAway, and is called from any thread."""

    def read(self, provider_id: str, models: Collection[str] | None) -> dict[str, bytes]:
        """The records of these models, or of all of the provider."""

    def read_all(self) -> dict[str, dict[str, bytes]]: ...

    def swap(self, provider_id: str, changes: Mapping[str, tuple[bytes | None, bytes | None]]) -> bool:
        """Put the second of each pair where the first is (None = nothing); False, and nothing done, where it is not."""

    def forget(self, provider_id: str) -> None: ...

    def note_reset(self, provider_id: str, models: Collection[str], at: float) -> None:
        """Cleared by hand at the POSIX time *at*."""

    def resets(self) -> dict[tuple[str, str], float]: ...

    def lend(self, provider_id: str, model: str, token: str, seconds: float) -> bool:
        """The probe lease, for *token*; False while somebody else has it. Answers within 50 ms."""

    def give_back(self, provider_id: str, model: str, token: str) -> None: ...


class News(msgspec.Struct, omit_defaults=True):
    """What processes tell each other. Pairs are (provider id, model); *lent* and *free* are of probe leases."""

    changed: list[tuple[str, str]] = []
    lent: list[tuple[str, str]] = []
    free: list[tuple[str, str]] = []
