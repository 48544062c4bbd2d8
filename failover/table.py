"""The routing table: every group joined with the catalogue, made once per change and read by every request."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import msgspec

from failover.grouping import member_ids, toggles_of, unusable
from failover.naming import CONTINUE
from modelhotel.core import snapshots
from modelhotel.core.snapshots import Snapshot
from providers import cache
from providers.cache import Catalogue, ModelRow, ProviderRow

log = logging.getLogger("failover")

ENTRY_DISABLED = "entry disabled"
MODEL_NOT_FOUND = "model not found"
MODEL_DISABLED = "model disabled"
PROVIDER_NOT_FOUND = "provider not found"
PROVIDER_DISABLED = "provider disabled"


class Entry(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One member of a candidate list. *fault* is why it can not be asked whoever asks; empty = fully routable."""

    id: str
    on: bool
    model: ModelRow | None
    provider: ProviderRow | None
    fault: str = ""

    @property
    def shown(self) -> str:
        """``provider/model id``; what is left of it when a row is gone."""
        if self.model is None:
            return self.id
        return f"{self.provider.name}/{self.model.model_id}" if self.provider else self.model.model_id


class Live(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A fully routable entry and its place in the list."""

    position: int
    provider: ProviderRow
    model: ModelRow


class Group(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One row of failover groups, joined. *name* is what follows ``hotel/``.

    *recovers*: whether a broken stream is finished by the next candidate; None = what the setting says.
    """

    id: str
    name: str
    display_name: str
    enabled: bool
    entries: tuple[Entry, ...]
    live: tuple[Live, ...]
    created_at: float = 0.0
    #: Every entry that is toggled on can be asked, so a resolution has nothing to tell about any of them.
    calm: bool = False
    recovers: bool | None = None


class GroupRecord(Protocol):
    """The columns that routing reads; a ``FailoverGroup`` row has them."""

    @property
    def display_model(self) -> str: ...
    @property
    def display_name(self) -> str | None: ...
    @property
    def priority_order(self) -> object: ...
    @property
    def entry_enabled(self) -> object: ...
    @property
    def group_enabled(self) -> bool: ...
    @property
    def midstream_recovery(self) -> str | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class RoutingTable:
    """Immutable; a request keeps the one it started with. *ready* is False before the first build."""

    catalogue: Catalogue = field(default_factory=Catalogue)
    groups: Mapping[str, Group] = field(default_factory=dict)
    ready: bool = False
    # Filled as names are asked for; holds names of existing model rows only, so clients can not make it grow.
    _bare: dict[str, tuple[Live, ...]] = field(default_factory=dict)

    def bare(self, name: str) -> tuple[Live, ...]:
        """Every enabled row with exactly this id on an enabled provider: fresh inventories first, then oldest."""
        found = self._bare.get(name)
        if found is None:
            found = _bare_entries(self.catalogue, name)
            if found:
                self._bare[name] = found
        return found


def _bare_entries(catalogue: Catalogue, name: str) -> tuple[Live, ...]:
    pairs = [
        (provider, model)
        for model in catalogue.by_model_id.get(name, ())
        if model.enabled and (provider := catalogue.providers.get(model.provider_id)) is not None and provider.enabled
    ]
    pairs.sort(key=lambda pair: (pair[0].inventory_stale, pair[0].created_at, pair[0].id))
    return tuple(Live(at, provider, model) for at, (provider, model) in enumerate(pairs))


def _entry(catalogue: Catalogue, member: str, on: bool) -> Entry:
    model = catalogue.models.get(member)
    provider = catalogue.providers.get(model.provider_id) if model else None
    if not on:
        fault = ENTRY_DISABLED
    elif model is None:
        fault = MODEL_NOT_FOUND
    elif not model.enabled:
        fault = MODEL_DISABLED
    elif provider is None:
        fault = PROVIDER_NOT_FOUND
    else:
        fault = "" if provider.enabled else PROVIDER_DISABLED
    return Entry(member, on, model, provider, fault)


def _group(catalogue: Catalogue, group_id: str, row: GroupRecord) -> Group:
    flags, stored = toggles_of(row.entry_enabled), row.priority_order
    members = member_ids(stored)
    # Looked at again only where something was left out.
    if (not isinstance(stored, list) or len(stored) != len(members)) and unusable(stored):
        log.warning("failover: unusable entries ignored", extra={"attrs": {"group": row.display_model}})
    entries = tuple(_entry(catalogue, member, flags.get(member, True)) for member in members)
    live = tuple(
        Live(at, entry.provider, entry.model)
        for at, entry in enumerate(entries)
        if not entry.fault and entry.provider is not None and entry.model is not None
    )
    calm = bool(live) and row.group_enabled and not any(entry.on and entry.fault for entry in entries)
    recovers = None if row.midstream_recovery is None else row.midstream_recovery == CONTINUE
    return Group(
        group_id,
        row.display_model,
        row.display_name or "",
        row.group_enabled,
        entries,
        live,
        calm=calm,
        recovers=recovers,
    )


def join(catalogue: Catalogue, rows: Iterable[tuple[str, GroupRecord]]) -> RoutingTable:
    """The table of *catalogue* and group rows given as (group id, row). Pure."""
    groups = {row.display_model: _group(catalogue, group_id, row) for group_id, row in rows}
    return RoutingTable(catalogue, groups, ready=True)


class _Stored(NamedTuple):
    """The columns of a group that routing reads, as :class:`GroupRecord` names them."""

    display_model: str
    display_name: str | None
    priority_order: object
    entry_enabled: object
    group_enabled: bool
    midstream_recovery: str | None


def _stored(name: str, shown: str | None, order: Any, toggles: Any, on: Any, recovery: str | None) -> _Stored:
    """The row of what a driver gives; JSON is text."""
    return _Stored(name, shown, snapshots.json_of(order), snapshots.json_of(toggles), bool(on), recovery)


def build() -> RoutingTable:
    """From the database: the groups, and the catalogue as it is in memory or, where that is behind, as it is now."""
    from failover.models import FailoverGroup

    if cache.SNAPSHOT.behind(snapshots.read_versions()):
        cache.SNAPSHOT.refresh()
    rows = snapshots.rows_of(FailoverGroup.objects.all(), "id", *_Stored._fields)
    return join(cache.SNAPSHOT.current, ((cache.canonical(raw[0]), _stored(*raw[1:])) for raw in rows))


SNAPSHOT: Snapshot[RoutingTable] = Snapshot("routing", ("providers", "models", "groups"), build, RoutingTable)
