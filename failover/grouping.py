"""What a sync has to do, as a plan. Pure: rows and groups in, changes out; the verbs carry them out.

The steps build on one another (a group that was just deleted is not pruned), so each is a function over the groups as
the step before left them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from failover import naming
from modelhotel.core.ids import canonical_uuid

ONE_LEFT = "only 1 enabled provider (need 2+ for failover)"
NONE_LEFT = "no enabled providers found"
TOO_FEW = "fewer than 2 routable members (need 2+ for failover)"
#: Rows that make a group, and routable members that keep a custom one on.
MIN_MEMBERS = 2


@dataclass(frozen=True, slots=True)
class ModelFact:
    """A model row as sync sees it. *routable*: it and its provider are enabled. *provider_created*: POSIX time."""

    id: str
    model_id: str
    provider_name: str
    provider_created: float
    routable: bool


@dataclass(frozen=True, slots=True)
class GroupFact:
    """A group as stored; *order* and *toggles* are the raw JSON columns."""

    id: str
    name: str
    order: Any
    toggles: Any
    enabled: bool
    auto: bool
    stamped: bool = False

    @property
    def members(self) -> list[str]:
        return member_ids(self.order)


@dataclass(frozen=True, slots=True)
class Create:
    """A new auto group, every toggle on."""

    name: str
    order: list[str]


@dataclass(frozen=True, slots=True)
class Refresh:
    """An auto group that is to be written: members, toggles, on, no stamps."""

    group: GroupFact
    order: list[str]
    toggles: dict[str, bool]
    added: list[str]
    removed: list[str]


@dataclass(frozen=True, slots=True)
class Delete:
    """An auto group without its two rows; *providers* are the names of the providers that are left."""

    group: GroupFact
    left: int
    providers: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        return ONE_LEFT if self.left else NONE_LEFT


@dataclass(frozen=True, slots=True)
class Prune:
    group: GroupFact
    order: list[str]
    toggles: dict[str, bool]
    removed: list[str]


@dataclass(frozen=True, slots=True)
class Disable:
    group: GroupFact
    effective: int


BaseStep = Create | Refresh | Delete


def member_ids(stored: object) -> list[str]:
    """The usable ids of a stored ``priority_order``: canonical, each once, first place wins."""
    items = stored if isinstance(stored, list) else []
    return list(dict.fromkeys(value for item in items if (value := canonical_uuid(item))))


def unusable(stored: object) -> bool:
    """True when a stored ``priority_order`` (edited by hand) holds something that is no id."""
    return not isinstance(stored, list) or any(canonical_uuid(item) is None for item in stored)


def toggles_of(stored: object) -> dict[str, bool]:
    """The usable part of a stored ``entry_enabled``; a missing key means on."""
    items = stored.items() if isinstance(stored, dict) else ()
    return {value: flag for key, flag in items if (value := canonical_uuid(key)) and isinstance(flag, bool)}


def by_base(rows: Iterable[ModelFact]) -> dict[str, list[ModelFact]]:
    """The routable rows by base name in read order; strings compare by code point, which is UTF-8's byte order."""
    found: dict[str, list[ModelFact]] = {}
    routable = (row for row in rows if row.routable)
    for row in sorted(routable, key=lambda row: (row.model_id, row.provider_created, row.id)):
        if base := naming.base(row.model_id):
            found.setdefault(base, []).append(row)
    return found


def merge(stored: Sequence[str], current: Sequence[str]) -> list[str]:
    """What is still there keeps its stored place, what is new comes after it in read order."""
    present = set(current)
    kept = [member for member in stored if member in present]
    known = set(kept)
    return kept + [member for member in current if member not in known]


def refresh(group: GroupFact, current: Sequence[str]) -> Refresh | None:
    """None when the row holds all of this already."""
    stored = group.members
    order = merge(stored, current)
    present, before = set(order), set(stored)
    toggles = {member: flag for member, flag in toggles_of(group.toggles).items() if member in present}
    if group.order == order and group.toggles == toggles and group.enabled and not group.stamped:
        return None
    added = [member for member in order if member not in before]
    removed = [member for member in stored if member not in present]
    return Refresh(group, order, toggles, added, removed)


def one_base(
    base: str, rows: Sequence[ModelFact], group: GroupFact | None, *, name_providers: bool = True
) -> BaseStep | None:
    """Create, refresh or delete the auto group of one base name; a custom group of that name is left alone."""
    if group is not None and not group.auto:
        return None
    if len(rows) >= MIN_MEMBERS:
        current = [row.id for row in rows]
        return Create(base, current) if group is None else refresh(group, current)
    if group is None:
        return None
    return Delete(group, len(rows), [row.provider_name for row in rows] if name_providers else [])


def all_bases(rows: Iterable[ModelFact], groups: Iterable[GroupFact]) -> list[tuple[str, BaseStep]]:
    """Steps 3 and 4 of a full sync, in order: (base name, what to do)."""
    named = {group.name: group for group in groups}
    bases = by_base(rows)
    steps = [(base, one_base(base, found, named.get(base))) for base, found in bases.items()]
    for name, group in sorted(named.items()):
        if group.auto and name not in bases:
            steps.append((name, Delete(group, 0)))
    return [(base, step) for base, step in steps if step is not None]


def applied(
    groups: Mapping[str, GroupFact], step: BaseStep | Prune | Disable, new_id: str = ""
) -> dict[str, GroupFact]:
    """*groups* by name as *step* leaves them."""
    after = dict(groups)
    if isinstance(step, Create):
        after[step.name] = GroupFact(new_id, step.name, step.order, {}, True, True)
    elif isinstance(step, Refresh):
        after[step.group.name] = replace(
            step.group, order=step.order, toggles=step.toggles, enabled=True, stamped=False
        )
    elif isinstance(step, Prune):
        after[step.group.name] = replace(step.group, order=step.order, toggles=step.toggles)
    elif isinstance(step, Disable):
        after[step.group.name] = replace(step.group, enabled=False, stamped=True)
    else:
        del after[step.group.name]
    return after


def prunes(groups: Iterable[GroupFact], existing: Collection[str]) -> list[Prune]:
    """Ids that are neither a model row nor a group (*existing*) leave; the switch and its stamps are not touched."""
    found: list[Prune] = []
    for group in sorted(groups, key=lambda group: group.name):
        order, toggles = group.members, toggles_of(group.toggles)
        kept = [member for member in order if member in existing]
        gone = [member for member in [*order, *toggles] if member not in existing]
        if gone:
            left = {member: flag for member, flag in toggles.items() if member in existing}
            found.append(Prune(group, kept, left, list(dict.fromkeys(gone))))
    return found


def disables(groups: Iterable[GroupFact], routable: Collection[str]) -> list[Disable]:
    """Custom groups that are on with fewer than two structurally routable members. Nothing is ever switched on."""
    found: list[Disable] = []
    for group in sorted(groups, key=lambda group: group.name):
        if group.enabled and not group.auto:
            effective = sum(member in routable for member in group.members)
            if effective < MIN_MEMBERS:
                found.append(Disable(group, effective))
    return found
