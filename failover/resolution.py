"""What a resolution asks of the breaker and the keys, and what comes out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from modelhotel.core.metrics import UNRESOLVED
from providers.cache import ModelRow, ProviderRow


class Gate(Protocol):
    """What the breaker says about a pair: *state* is ``free``, ``blocked`` or ``leased``; *retry_at* monotonic."""

    @property
    def state(self) -> str: ...
    @property
    def retry_at(self) -> float | None: ...
    @property
    def pinned(self) -> bool: ...


class Board(Protocol):
    @property
    def calm(self) -> bool:
        """No circuit stands in anybody's way."""

    def gate(self, provider_id: str, model: str) -> Gate: ...


class Keyring(Protocol):
    def held(self, row: ProviderRow) -> tuple[str, float] | None:
        """The key in memory and the monotonic instant at which it must be forgotten."""

    def made_for(self, owner: object) -> dict[str, Any]:
        """Where *owner* keeps what it made of keys in memory; empty again once one of them is forgotten or renewed."""

    def peek(self, row: ProviderRow) -> str | None: ...
    async def fetch(self, row: ProviderRow) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A member that may be asked; *key* is empty for a keyless provider and never shown. *made*: what callers make of
    the key and want to keep, which must not outlive it.
    """

    provider: ProviderRow
    model: ModelRow
    key: str = field(repr=False)
    made: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Skip:
    """A member left out, and why. *retry_at* is monotonic; *on_trail* = it opens the request's attempts trail."""

    provider_id: str
    provider: str
    model_id: str
    reason: str
    retry_at: float | None = None
    pinned: bool = False
    on_trail: bool = False


@dataclass(slots=True, eq=False)
class Resolution:
    """*group* is True for every request that may fail over, bare names included; *label* is the metrics name.

    *ms* holds the parts that took time, *cache_hits* what was answered from memory, both named as in the request log.
    Requests share one: nothing in it is changed once it was handed out.
    *recovers*: whether a broken stream is finished by the next candidate; None = what the setting says.
    """

    requested: str
    label: str
    group: bool
    group_name: str | None
    candidates: list[Candidate]
    skips: list[Skip]
    cache_hits: dict[str, bool]
    ms: dict[str, float]
    recovers: bool | None = None

    @property
    def cache_hit(self) -> bool:
        return self.cache_hits.get("failover", False)


class ResolveError(Exception):
    """No candidate. *message* is for the client, *log_text* for the request row; *kind* is the error kind."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        kind: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
        skips: Sequence[Skip] = (),
        log_text: str = "",
        label: str = UNRESOLVED,
        ms: dict[str, float] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.retry_after = retry_after
        self.skips = list(skips)
        self.log_text = log_text or message
        self.label = label
        self.ms = ms or {}

    def __repr__(self) -> str:
        return f"ResolveError({self.status}, {self.message!r}, code={self.code!r}, kind={self.kind!r})"
