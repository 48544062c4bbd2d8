"""The catalogs that ship with the product: what a vendor's listing and models.dev leave out or have wrong.

A file holds its sources and one row per model; a row holds overrides, no copies: what it leaves out is looked up
elsewhere. Files are read at the first use; a test reads them all, so a malformed one never reaches a server.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from providers.kinds.base import Kind, Listed, stub

DIRECTORY = Path(__file__).with_name("catalogs")
FLAGS = ("streaming", "reasoning", "tool_calling", "structured_output", "vision")
_NUMBERS = (
    "context_length",
    "max_output_tokens",
    "input_price_per_million",
    "input_price_per_million_cache_hit",
    "output_price_per_million",
)
_MODALITIES = ("modality", "input_modalities", "output_modalities")
#: What stands for "not said" where modalities are read as text or as JSON.
_UNSAID: tuple[Any, ...] = ("", "[]", "{}", "null", (), [], {}, None)


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One model. Limits in tokens, prices in USD per million tokens; None and empty = nothing to say."""

    model_id: str
    display_name: str = ""
    description: str = ""
    context_length: int | None = None
    max_output_tokens: int | None = None
    modality: str = ""
    input_modalities: tuple[str, ...] = ()
    output_modalities: tuple[str, ...] = ()
    streaming: bool | None = None
    reasoning: bool = False
    tool_calling: bool = False
    structured_output: bool = False
    vision: bool = False
    input_price_per_million: float | None = None
    input_price_per_million_cache_hit: float | None = None
    output_price_per_million: float | None = None
    #: Told as ``params.free_tier``: it costs nothing within the limits of the vendor.
    free_tier: bool = False

    @property
    def free(self) -> bool:
        return self.input_price_per_million == 0 == self.output_price_per_million


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """*sources*: the pages it was compiled from; *compiled*: the day of that, ``YYYY-MM-DD``."""

    sources: tuple[str, ...]
    compiled: str
    rows: tuple[Row, ...] = ()
    #: Of the lists that hold nothing but ids.
    ids: tuple[str, ...] = ()


Rows = Mapping[str, Row]


@cache
def load(name: str) -> File:
    """Raises OSError, msgspec.ValidationError."""
    return msgspec.json.decode((DIRECTORY / f"{name}.json").read_bytes(), type=File)


@cache
def rows(name: str) -> Rows:
    """The rows of a catalog by lower-case id; none for the name ``""``."""
    return {row.model_id.lower(): row for row in load(name).rows} if name else {}


def ids(name: str) -> tuple[str, ...]:
    """A list of plain ids."""
    return load(name).ids


def alone(kind: Kind, known: Rows) -> list[Listed]:
    """The catalog where it stands in for a listing."""
    return [_made(kind, row) for row in known.values()]


def merge(kind: Kind, known: Rows, models: list[Listed], *, adds: bool) -> list[Listed]:
    """*models* with what the catalog fills, in their order; then, where it *adds*, the models it has beside them."""
    found = [_filled(kind, known, model) for model in models]
    if not adds:
        return found
    listed = {model.model_id.lower() for model in models}
    return found + [_made(kind, row) for name, row in known.items() if name not in listed]


def free(known: Rows, models: Iterable[Listed]) -> list[Listed]:
    """Those of *models* that cost nothing."""
    return [model for model in models if (row := known.get(model.model_id.lower())) is not None and row.free]


def _filled(kind: Kind, known: Rows, model: Listed) -> Listed:
    names = (name.lower() for name in kind.catalog_ids(model.model_id))
    row = next((known[name] for name in names if name in known), None)
    return model if row is None else fill(model, row)


def _made(kind: Kind, row: Row) -> Listed:
    bare = stub(row.model_id, kind.catalog_owner)
    return fill(bare if row.streaming is not False else replace(bare, capabilities={}), row)


def fill(model: Listed, row: Row) -> Listed:
    """*model* with what it does not say itself out of *row*; flags are joined."""
    found: dict[str, Any] = {name: getattr(row, name) for name in _NUMBERS if getattr(model, name) is None}
    found |= {name: getattr(row, name) for name in _MODALITIES if getattr(model, name) in _UNSAID}
    if model.display_name in ("", model.model_id):
        found["display_name"] = row.display_name or model.display_name
    if not model.description:
        found["description"] = row.description
    if row.free_tier:
        found["params"] = {"free_tier": True, **model.params}
    found["capabilities"] = model.capabilities | {flag: True for flag in FLAGS if getattr(row, flag)}
    return replace(model, **found)
