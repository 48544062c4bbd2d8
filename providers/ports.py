"""What the providers need from the floors above, as Protocols; the shell fills them in ``modelhotel/wiring.py``.

Until something is filled in, nothing stands behind a port and it answers with "nothing".
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from providers.cache import ProviderRow
from providers.kinds.base import CHAT_PATH
from providers.upstream.interface import Request


@dataclass(frozen=True, slots=True)
class CircuitHealth:
    """What the breaker knows of one provider. *erring*: some model had 3 or more errors making up at least half of
    its requests in the last 10 minutes."""

    provider_open: bool = False
    any_open: bool = False
    half_open: bool = False
    erring: bool = False


@dataclass(frozen=True, slots=True)
class LastCap:
    """The last 429 of a provider that said its quota or balance is spent (failover-loop 7.9).

    *phrase* is the gateway's own word for what it said, empty where a stated wait told; *model* the upstream model
    that drew it; *entitled*: a person must pay or change plan.
    """

    phrase: str
    model: str
    at: datetime
    entitled: bool


@dataclass(frozen=True, slots=True)
class TestRun:
    """One model test, for the request log (key name ``internal``). Times in milliseconds, *started* POSIX seconds."""

    started: float
    provider_id: str
    provider: str
    model_id: str
    status_code: int
    state: str
    duration_ms: float
    response_header_ms: float | None = None
    error: str | None = None
    tokens_prompt: int = 0
    tokens_completion: int = 0
    endpoint_type: str = "chat"
    virtual_key_name: str = "internal"
    attempts: list[dict[str, Any]] | None = field(default=None)

    __test__ = False


@dataclass(frozen=True, slots=True)
class GroupOff:
    """A group that discovery switched off. *routable*: how many of its *members* could be called now."""

    display_model: str
    members: int
    routable: int
    disabled_at: datetime


class Groups(Protocol):
    """Failover groups. Each call is a transaction of its own and publishes its own events; raises on failure."""

    def full_sync(self) -> None:
        """Bring every group in line with the catalogue."""
        ...

    def sync_models(
        self, model_ids: Collection[str], *, stamp: bool = False, revalidate: bool = False
    ) -> Mapping[str, Any]:
        """Sync the auto groups of these upstream model ids. *stamp*: a scan asks, so it counts as the last sync.
        *revalidate*: switch off custom groups that have become too small.

        Gives the sections ``failover_deleted_groups``, ``failover_updated_groups`` and ``failover_disabled_groups``
        of a scan's diff; empty ones left out.
        """
        ...

    def prune_models(self, ids: Collection[str]) -> None:
        """Take these model row ids (UUID text) out of every group."""
        ...

    def revalidate(self) -> None:
        """Switch off the custom groups that have too few members left."""
        ...

    def with_provider(self, provider_id: str) -> list[dict[str, Any]]:
        """The groups that have models of the provider: ``display_model``, ``entries`` of it, ``remaining`` others that
        can be routed to."""
        ...

    def with_model(self, model_uuid: str) -> list[dict[str, Any]]:
        """The same for one model."""
        ...

    def switched_off(self) -> list[GroupOff]:
        """The groups that discovery switched off and nobody switched on since, by name."""
        ...


class Circuits(Protocol):
    def health(self, provider_id: str) -> CircuitHealth: ...

    def last_cap(self, provider_id: str) -> LastCap | None:
        """None when it drew none since the start of this process."""
        ...

    def forget(self, provider_id: str) -> None:
        """The provider is gone: drop its circuits and what else is kept in memory about it."""
        ...


class Keys(Protocol):
    def forget_provider_in_keys(self, provider_id: str) -> None:
        """Take the id out of every key's ``allowed_providers``; inside the caller's transaction."""
        ...

    def keys_naming_provider(self, provider_id: str) -> list[dict[str, Any]]:
        """The keys whose ``allowed_providers`` hold the id: ``name``, and ``only`` when they hold no other."""
        ...


class Users(Protocol):
    def forget_provider_in_users(self, provider_id: str) -> None:
        """Take the id out of every account's ``allowed_providers``; inside the caller's transaction."""
        ...


class Logs(Protocol):
    def provider_tokens(self) -> Mapping[str, int]:
        """Provider id -> prompt and completion tokens over the request log."""
        ...

    def orphan_logs(self, provider_id: str) -> None:
        """Set ``provider_id`` of its rows to null; inside the caller's transaction."""
        ...

    def record_test(self, run: TestRun) -> None:
        """Write one finished row; never raises."""
        ...


class NoAnswer(ValueError):
    """A 200 that is no answer to what was asked; the text names no content."""


class ChatCall(NamedTuple):
    """A chat request of our own, and what makes a chat completion of the body of a 200 (raises NoAnswer)."""

    request: Request
    read: Callable[[bytes], bytes]


#: (provider, upstream model id, output modalities, members without ``model``, key) -> the call, in the dialect and with
#: the body rewriting that traffic gets.
BuildChat = Callable[[ProviderRow, str, tuple[str, ...], dict[str, msgspec.Raw], str], ChatCall]


class Notes(Protocol):
    """Internal rows of the settings table. All raise what the database raises."""

    def load_note(self, key: str) -> str | None: ...

    def store_note(self, key: str, value: str) -> None: ...

    def drop_note(self, key: str) -> None: ...


#: Provider id -> the in-flight limit that was learned, of the providers that have one (failover-loop 8).
InflightLimits = Callable[[], Mapping[str, int]]

#: Judge the stored quota readings anew, for the circuits (circuit-breaker 11.2); never raises.
JudgeQuotas = Callable[[], None]


class _Nothing:
    """Stands behind every port that nothing has been put behind."""

    def full_sync(self) -> None:
        return None

    def sync_models(
        self, model_ids: Collection[str], *, stamp: bool = False, revalidate: bool = False
    ) -> Mapping[str, Any]:
        return {}

    def prune_models(self, ids: Collection[str]) -> None:
        return None

    def revalidate(self) -> None:
        return None

    def with_provider(self, provider_id: str) -> list[dict[str, Any]]:
        return []

    def with_model(self, model_uuid: str) -> list[dict[str, Any]]:
        return []

    def switched_off(self) -> list[GroupOff]:
        return []

    def keys_naming_provider(self, provider_id: str) -> list[dict[str, Any]]:
        return []

    def health(self, provider_id: str) -> CircuitHealth:
        return CircuitHealth()

    def last_cap(self, provider_id: str) -> LastCap | None:
        return None

    def forget(self, provider_id: str) -> None:
        return None

    def forget_provider_in_keys(self, provider_id: str) -> None:
        return None

    def forget_provider_in_users(self, provider_id: str) -> None:
        return None

    def provider_tokens(self) -> Mapping[str, int]:
        return {}

    def orphan_logs(self, provider_id: str) -> None:
        return None

    def record_test(self, run: TestRun) -> None:
        return None

    def load_note(self, key: str) -> str | None:
        return None

    def store_note(self, key: str, value: str) -> None:
        return None

    def drop_note(self, key: str) -> None:
        return None


def plain_chat(
    provider: ProviderRow, model_id: str, outputs: tuple[str, ...], body: dict[str, msgspec.Raw], key: str
) -> ChatCall:
    """Model, injection and strip list only: what is enough for a body of our own making to an OpenAI-like server."""
    kind, out = provider.kind, {**body, "model": msgspec.Raw(msgspec.json.encode(model_id))}
    kind.inject(out, model_id)
    content = msgspec.json.encode({name: value for name, value in out.items() if name not in kind.strip})
    return ChatCall(Request("POST", kind.url(provider.base_url, CHAT_PATH), kind.headers(key), content), bytes)


def no_limits() -> Mapping[str, int]:
    return {}


def no_judgement() -> None:
    return None


_nothing = _Nothing()
groups: Groups = _nothing
circuits: Circuits = _nothing
keys: Keys = _nothing
users: Users = _nothing
logs: Logs = _nothing
notes: Notes = _nothing
build_chat: BuildChat = plain_chat
inflight_limits: InflightLimits = no_limits
judge_quotas: JudgeQuotas = no_judgement


KNOWN = (
    "groups",
    "circuits",
    "keys",
    "users",
    "logs",
    "build_chat",
    "inflight_limits",
    "judge_quotas",
    "notes",
)


def configure(**given: Any) -> None:
    """Fill some of :data:`KNOWN`."""
    if unknown := set(given) - set(KNOWN):
        raise TypeError(f"no such port: {', '.join(sorted(unknown))}")
    globals().update(given)


def reset() -> None:
    """Nothing behind any port (tests)."""
    configure(
        groups=_nothing,
        circuits=_nothing,
        keys=_nothing,
        users=_nothing,
        logs=_nothing,
        notes=_nothing,
        build_chat=plain_chat,
        inflight_limits=no_limits,
        judge_quotas=no_judgement,
    )
