"""What a listed model changes in its stored row, and how that is told. Pure.

A limit that the provider stated in this scan (``Listed.live``) overwrites the stored one; one from a catalog or from
models.dev only fills what is unknown.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from providers.kinds.base import Listed

PRICES = {
    "input_price_per_million": "input_price",
    "output_price_per_million": "output_price",
    "input_price_per_million_cache_hit": "input_price_cache",
}
LIMITS = ("context_length", "max_output_tokens")
NOTICED = 0.07  # share of the larger value below which a number counts as the same
_SINGLE_PRECISION = 1e-6


class Row(Protocol):
    """The stored row, or anything with its columns."""

    enabled: bool
    disabled_manually: bool
    display_name_customized: bool
    price_customized: bool
    context_length: int | None
    max_output_tokens: int | None
    input_price_per_million: float | None
    input_price_per_million_cache_hit: float | None
    output_price_per_million: float | None
    auto_retired_at: datetime | None


def _apart(old: float, new: float) -> float:
    """Relative difference, 0 to 1, of the larger of both."""
    larger = max(abs(old), abs(new))
    return abs(old - new) / larger if larger else 0.0


def damp(model: Listed, row: Row) -> Listed:
    """OpenRouter's prices drift with its routing: a price within 7 % of the stored one is the stored one."""
    kept: dict[str, Any] = {}
    for field in PRICES:
        old, new = getattr(row, field), getattr(model, field)
        if old is not None and new is not None and _apart(old, new) <= NOTICED:
            kept[field] = old
    return replace(model, **kept) if kept else model


def columns(model: Listed, row: Row, now: datetime) -> dict[str, Any]:
    """The columns of *row* after a sighting of *model*; stamps included."""
    found: dict[str, Any] = {
        "name": model.name,
        "description": model.description,
        "capabilities": model.capabilities,
        "params": model.params,
        "modality": model.modality,
        "input_modalities": list(model.input_modalities),
        "output_modalities": list(model.output_modalities),
        "owned_by": model.owned_by,
        "missing_scans": 0,
        "manually_enabled_at": None,
        "last_seen_at": now,
    }
    if not row.display_name_customized:
        found["display_name"] = model.display_name
    for field in LIMITS:
        value = getattr(model, field)
        if value is not None and (field in model.live or getattr(row, field) is None):
            found[field] = value
    for field in PRICES:
        value = getattr(model, field)
        if value is not None and (not row.price_customized or getattr(row, field) is None):
            found[field] = value
    if not row.disabled_manually and row.auto_retired_at is None:
        found["enabled"] = True
    if row.auto_retired_at is None:
        found["discovery_dismissed_at"] = None
    return found


#: Columns whose change nobody routes or displays by: no snapshot is rebuilt for them.
STAMPS = frozenset({"missing_scans", "manually_enabled_at", "last_seen_at", "discovery_dismissed_at"})


def reported(model: Listed, row: Row) -> list[dict[str, Any]]:
    """The changes worth telling, as ``{"field", "old", "new"}``. *row* as it was before the write."""
    told: list[dict[str, Any]] = []
    for field, name in PRICES.items():
        old, new = getattr(row, field), getattr(model, field)
        if new is None or (old is not None and (row.price_customized or _apart(old, new) < _SINGLE_PRECISION)):
            continue
        told.append({"field": name, "old": old, "new": new})
    old, new = row.context_length, model.context_length
    if new is not None and (old is None or ("context_length" in model.live and _apart(old, new) > NOTICED)):
        told.append({"field": "context_length", "old": old, "new": new})
    return told


def disabled(model_ids: Iterable[str]) -> dict[str, Any]:
    """The section of a diff that only sweeps have."""
    return {"disabled": [{"model_id": model_id, "reason": "not_listed"} for model_id in model_ids]}


class Diff:
    """Collects what a scan changed; ``sections`` gives it without the empty ones."""

    def __init__(self) -> None:
        self.added: list[dict[str, Any]] = []
        self.reenabled: list[dict[str, Any]] = []
        self.updated: list[dict[str, Any]] = []

    def new(self, model_id: str) -> None:
        self.added.append({"model_id": model_id, "reason": "new_model"})

    def seen(self, model_id: str, was_on: bool, is_on: bool, changes: list[dict[str, Any]]) -> None:
        """A stored model: *was_on* before the write, *is_on* after it. One that stays off is not told at all."""
        if not is_on:
            return
        if not was_on:
            self.reenabled.append({"model_id": model_id, "reason": "reappeared"})
        if changes:
            self.updated.append({"model_id": model_id, "changes": changes})

    def sections(self, groups: Mapping[str, Any] | None = None) -> dict[str, Any]:
        own = {
            "added": self.added,
            "reenabled": self.reenabled,
            "updated": self.updated,
            **(groups or {}),
        }
        return {name: value for name, value in own.items() if value}
