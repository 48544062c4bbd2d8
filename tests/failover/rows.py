"""A catalogue and groups in memory, and stand-ins for the breaker and the keys."""

import math
import uuid
from dataclasses import dataclass, field
from typing import Any

from failover.table import RoutingTable, join
from modelhotel.core import catalogue as _settings
from modelhotel.core.crypto import DecryptError
from modelhotel.core.options import REGISTRY, Options
from providers.cache import Catalogue, ModelRow, ProviderRow, SealedKey
from providers.kinds.registry import KINDS

assert _settings.SECTIONS


def uid(text: str) -> str:
    """The same UUID for the same text."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def provider(name: str, at: float, **given: Any) -> ProviderRow:
    values: dict[str, Any] = {
        "id": uid(name),
        "name": name,
        "routing_name": name.replace(" ", "-"),
        "base_url": "https://upstream.test/v1",
        "kind": KINDS["custom"],
        "enabled": True,
        "sealed": SealedKey(name.encode(), b"n", b"s"),
        "created_at": at,
        "inventory_stale": False,
    }
    return ProviderRow(**{**values, **given})


def model(owner: ProviderRow, model_id: str, **given: Any) -> ModelRow:
    values: dict[str, Any] = {
        "id": uid(f"{owner.name}|{model_id}"),
        "provider_id": owner.id,
        "model_id": model_id,
        "enabled": True,
        "name": "",
        "display_name": "",
        "description": "",
        "owned_by": "",
        "modality": "chat",
        "capabilities": {},
        "input_modalities": (),
        "output_modalities": (),
        "context_length": None,
        "max_output_tokens": None,
        "input_price_per_million": None,
        "input_price_per_million_cache_hit": None,
        "output_price_per_million": None,
        "created_at": 1_700_000_000.0,
    }
    return ModelRow(**{**values, **given})


@dataclass
class Stored:
    """A group row."""

    display_model: str
    priority_order: Any
    entry_enabled: Any = field(default_factory=dict)
    group_enabled: bool = True
    display_name: str | None = None
    midstream_recovery: str | None = None


def catalogue(*rows: ProviderRow | ModelRow) -> Catalogue:
    providers = [row for row in rows if isinstance(row, ProviderRow)]
    models = [row for row in rows if isinstance(row, ModelRow)]
    by_model_id: dict[str, tuple[ModelRow, ...]] = {}
    for row in models:
        by_model_id[row.model_id] = (*by_model_id.get(row.model_id, ()), row)
    return Catalogue(
        providers={p.id: p for p in providers},
        by_name={p.name: p for p in providers},
        by_routing_name={p.routing_name: p for p in providers},
        models={m.id: m for m in models},
        by_pair={(m.provider_id, m.model_id): m for m in models},
        by_model_id=by_model_id,
    )


def table(*rows: ProviderRow | ModelRow | Stored) -> RoutingTable:
    stored = [row for row in rows if isinstance(row, Stored)]
    rest = [row for row in rows if not isinstance(row, Stored)]
    return join(catalogue(*rest), ((uid(f"group|{row.display_model}"), row) for row in stored))


def options(**stored: str) -> Options:
    return REGISTRY.values(stored, {})


@dataclass(frozen=True)
class FakeGate:
    state: str = "free"
    retry_at: float | None = None
    pinned: bool = False


class FakeBoard:
    """Gates by provider name; everything else is free."""

    def __init__(self, **gates: FakeGate) -> None:
        self.gates = {uid(name): gate for name, gate in gates.items()}
        self.asked: list[tuple[str, str]] = []

    @property
    def calm(self) -> bool:
        return not self.gates

    def gate(self, provider_id: str, model: str) -> FakeGate:
        self.asked.append((provider_id, model))
        return self.gates.get(provider_id, FakeGate())


class FakeKeys:
    """Keys in memory, except of the providers named: *cold* ones must be fetched, *broken* ones fail to decrypt."""

    def __init__(self, cold: tuple[str, ...] = (), broken: tuple[str, ...] = ()) -> None:
        self.cold, self.broken = cold, broken
        self.fetched: list[str] = []
        self.until = math.inf
        self.made: dict[str, Any] = {}

    def held(self, row: ProviderRow) -> tuple[str, float] | None:
        key = self.peek(row)
        return None if key is None else (key, self.until)

    def made_for(self, owner: object) -> dict[str, Any]:
        return self.made

    def peek(self, row: ProviderRow) -> str | None:
        if row.sealed is None:
            return ""
        return None if row.name in self.cold or row.name in self.broken else f"key of {row.name}"

    async def fetch(self, row: ProviderRow) -> str:
        self.fetched.append(row.name)
        if row.name in self.broken:
            raise DecryptError("decryption failed")
        return f"key of {row.name}"
