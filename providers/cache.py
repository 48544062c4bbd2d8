"""The provider catalogue in memory: what the hot path reads instead of the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from modelhotel.core import durations, snapshots
from modelhotel.core.snapshots import Snapshot
from providers import health
from providers.kinds.base import Kind

if TYPE_CHECKING:
    from providers.models import Provider


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A provider key at rest; hashable, so that it can be the cache key of its plaintext."""

    ciphertext: bytes
    nonce: bytes
    salt: bytes

    def __hash__(self) -> int:
        # Asked for with every request; a nonce is never used twice.
        return hash(self.nonce)


@dataclass(frozen=True, slots=True, eq=False)
class ProviderRow:
    """*id* is canonical UUID text. *sealed* None = keyless. *created_at* is a POSIX time. *max_in_flight* None = no
    ceiling. *slow_call*: seconds from which an answer is slow, 0 = none is, None = the setting says. *refresh_failed*:
    its models could not be listed, or its key was refused, when that was tried last.
    """

    id: str
    name: str
    routing_name: str
    base_url: str
    kind: Kind
    enabled: bool
    sealed: SealedKey | None
    created_at: float
    inventory_stale: bool
    max_in_flight: int | None = None
    quota_reserve_percent: int = 0
    slow_call: float | None = None
    refresh_failed: bool = False


class ModelRow(msgspec.Struct, frozen=True, eq=False, gc=False):
    """*id* is the model UUID as text, *model_id* the provider's own id. *created_at* is a POSIX time.

    Thousands of them come and go with every change, in no cycle: the collector, which halts everything, never looks.
    """

    id: str
    provider_id: str
    model_id: str
    enabled: bool
    name: str
    display_name: str
    description: str
    owned_by: str
    modality: str
    capabilities: Mapping[str, object]
    input_modalities: tuple[str, ...]
    output_modalities: tuple[str, ...]
    context_length: int | None
    max_output_tokens: int | None
    input_price_per_million: float | None
    input_price_per_million_cache_hit: float | None
    output_price_per_million: float | None
    created_at: float
    search_price_per_thousand: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """Every provider and model row, enabled or not, by each way they are asked for.

    *stocked*: ids of the providers that have models.
    """

    providers: Mapping[str, ProviderRow] = field(default_factory=dict)
    by_name: Mapping[str, ProviderRow] = field(default_factory=dict)
    by_routing_name: Mapping[str, ProviderRow] = field(default_factory=dict)
    models: Mapping[str, ModelRow] = field(default_factory=dict)
    by_pair: Mapping[tuple[str, str], ModelRow] = field(default_factory=dict)
    by_model_id: Mapping[str, tuple[ModelRow, ...]] = field(default_factory=dict)
    stocked: frozenset[str] = frozenset()

    def provider(self, reference: str) -> ProviderRow | None:
        """By exact name, else by routing name (blanks as hyphens). Case-sensitive."""
        return self.by_name.get(reference) or self.by_routing_name.get(reference)


def row_of(p: "Provider") -> ProviderRow:
    """The row as the hot path sees it."""
    from providers.kinds import registry

    sealed = None
    if p.encrypted_key is not None:
        sealed = SealedKey(bytes(p.encrypted_key), bytes(p.key_nonce or b""), bytes(p.key_salt or b""))
    return ProviderRow(
        id=str(p.id),
        name=p.name,
        routing_name=p.routing_name,
        base_url=p.base_url,
        kind=registry.get(p.provider_type),
        enabled=p.enabled,
        sealed=sealed,
        created_at=p.created_at.timestamp(),
        inventory_stale=p.inventory_stale,
        max_in_flight=p.max_in_flight,
        quota_reserve_percent=p.quota_reserve_percent,
        slow_call=_seconds(p.circuit_breaker_slow_call_threshold),
        refresh_failed=health.refresh_failed(p),
    )


def _seconds(text: str | None) -> float | None:
    return None if text is None else durations.parse(text)


#: The columns of a model row, in the order of the fields of :class:`ModelRow`.
COLUMNS = (
    "id",
    "provider_id",
    "model_id",
    "enabled",
    "name",
    "display_name",
    "description",
    "owned_by",
    "modality",
    "capabilities",
    "input_modalities",
    "output_modalities",
    "context_length",
    "max_output_tokens",
    "input_price_per_million",
    "input_price_per_million_cache_hit",
    "output_price_per_million",
    "created_at",
    "search_price_per_thousand",
)
#: Most models say one of a few things about themselves: read once, and shared by their rows.
_SHARED = 4096


def canonical(value: Any) -> str:
    """A UUID as a driver gives it, as canonical text."""
    text = value if isinstance(value, str) else value.hex
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def instant(value: datetime) -> float:
    """A time as a driver gives it, as POSIX time; SQLite's have no zone and are in UTC."""
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()


_provider_id = lru_cache(_SHARED)(canonical)


@lru_cache(_SHARED)
def _object(text: str) -> Mapping[str, object]:
    found = snapshots.json_of(text)
    return found if isinstance(found, dict) else {}


@lru_cache(_SHARED)
def _words(text: str) -> tuple[str, ...]:
    found = snapshots.json_of(text)
    return tuple(word for word in found if isinstance(word, str)) if isinstance(found, list) else ()


def _model(raw: tuple[Any, ...]) -> ModelRow:
    """The row of what :data:`COLUMNS` hold."""
    identity, provider, model_id, enabled, *texts, can, inputs, outputs = raw[:12]
    *numbers, created, search = raw[12:]
    values: list[Any] = [canonical(identity), _provider_id(provider), model_id, bool(enabled), *texts]
    values += [_object(can), _words(inputs), _words(outputs), *numbers, instant(created), search]
    return ModelRow(*values)


def build() -> Catalogue:
    """Read all rows; two queries."""
    from providers.models import Model, Provider

    providers = {str(p.id): row_of(p) for p in Provider.objects.all()}
    models: dict[str, ModelRow] = {}
    by_pair: dict[tuple[str, str], ModelRow] = {}
    by_model_id: dict[str, tuple[ModelRow, ...]] = {}
    for raw in snapshots.rows_of(Model.objects.all(), *COLUMNS):
        row = models[canonical(raw[0])] = _model(raw)
        by_pair[row.provider_id, row.model_id] = row
        by_model_id[row.model_id] = (*by_model_id.get(row.model_id, ()), row)
    return Catalogue(
        providers=providers,
        by_name={p.name: p for p in providers.values()},
        by_routing_name={p.routing_name: p for p in providers.values()},
        models=models,
        by_pair=by_pair,
        by_model_id=by_model_id,
        stocked=frozenset(provider_id for provider_id, _ in by_pair),
    )


SNAPSHOT: Snapshot[Catalogue] = Snapshot("catalogue", ("providers", "models"), build, Catalogue)
