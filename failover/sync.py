"""Automatic maintenance of groups: full sync, sync of single base names, pruning, revalidation.

Each runs in one transaction under :func:`failover.locks.exclusive`, reads all groups under row locks and all model
rows in one query, and writes one row per changed group. Publishes one ``config.changed`` when it changed something.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import transaction

from failover import grouping, naming, ports
from failover.grouping import Create, Delete, Disable, GroupFact, ModelFact, Prune, Refresh
from failover.locks import exclusive
from failover.models import FailoverGroup
from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM as SYSTEM_ACTOR
from modelhotel.core.changes import Action, Change
from modelhotel.core.clock import SYSTEM, Clock, rfc3339
from modelhotel.core.ids import parse_uuid, uuid4_text
from modelhotel.core.snapshots import json_of, rows_of
from modelhotel.core.text import one_line
from providers.cache import canonical, instant
from providers.models import Model

if TYPE_CHECKING:
    from django.db.models import QuerySet

log = logging.getLogger("failover")

LAST_SYNCED = "failover_last_synced_at"
#: Above this many members all rows are read: a database bounds the parameters of one query (SQLite: 32,766).
_MAX_IN = 5_000

Step = Create | Refresh | Delete | Prune | Disable


@dataclass(slots=True)
class SyncResult:
    """What a sync did (or, on a dry run, would do). *errors* are (base name, text); *auto_groups* present after it."""

    created: list[Create] = field(default_factory=list)
    refreshed: list[Refresh] = field(default_factory=list)
    deleted: list[Delete] = field(default_factory=list)
    pruned: list[Prune] = field(default_factory=list)
    disabled: list[Disable] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    auto_groups: int = 0
    dry_run: bool = False

    def note(self, step: Step) -> None:
        lists: dict[type, list[Any]] = {
            Create: self.created,
            Refresh: self.refreshed,
            Delete: self.deleted,
            Prune: self.pruned,
            Disable: self.disabled,
        }
        lists[type(step)].append(step)

    def deleted_groups(self) -> list[dict[str, object]]:
        return [
            {
                "display_model": step.group.name,
                "reason": step.reason,
                "provider_count": step.left,
                "provider_names": step.providers,
            }
            for step in self.deleted
        ]

    def updated_groups(self) -> list[dict[str, object]]:
        """Membership changes in list order; a new group reports all members as added. For diffs of a scan."""
        found: list[dict[str, object]] = [
            {"display_model": create.name, "added_model_ids": create.order} for create in self.created
        ]
        for step in self.refreshed:
            lists = {"removed_model_ids": step.removed, "added_model_ids": step.added}
            if step.removed or step.added:
                found.append({"display_model": step.group.name, **{key: ids for key, ids in lists.items() if ids}})
        return found

    def disabled_groups(self) -> list[dict[str, object]]:
        return [
            {"display_model": step.group.name, "effective_count": step.effective, "reason": grouping.TOO_FEW}
            for step in self.disabled
        ]

    def diff(self) -> dict[str, list[dict[str, object]]]:
        """The group part of a discovery diff; empty lists left out."""
        parts = {
            "failover_deleted_groups": self.deleted_groups(),
            "failover_updated_groups": self.updated_groups(),
            "failover_disabled_groups": self.disabled_groups(),
        }
        return {key: items for key, items in parts.items() if items}

    def body(self) -> dict[str, object]:
        """The answer of ``POST /api/failover-groups/sync``."""
        body: dict[str, object] = {"deleted_groups": self.deleted_groups() or None}
        if self.pruned:
            body["purged_entries"] = [
                {"group_display_model": step.group.name, "pruned_model_ids": step.removed} for step in self.pruned
            ]
        if self.disabled:
            body["disabled_groups"] = self.disabled_groups()
        if self.errors:
            body["sync_errors"] = [f"{base}: {text}" for base, text in self.errors]
        if self.dry_run:
            body["dry_run"] = True
        return body


def full(*, dry_run: bool = False, stamp: bool = True, clock: Clock = SYSTEM) -> SyncResult:
    """Bring every group in line with the model rows (routing A6.1). A dry run reads, computes and writes nothing."""
    if dry_run:
        run = _Run(clock, dry=True)
        run.all_bases()
        return run.finish()
    with exclusive():
        run = _Run(clock)
        run.all_bases()
        result = run.finish()
    if stamp:
        stamp_synced(clock)
    return result


def models(
    model_ids: Iterable[str], *, stamp: bool = False, revalidate: bool = False, clock: Clock = SYSTEM
) -> SyncResult:
    """Sync the base names of these provider-side model ids and touch no other group (routing A6.2)."""
    bases = dict.fromkeys(base for model_id in model_ids if (base := naming.base(model_id)))
    with exclusive():
        run = _Run(clock)
        run.some_bases(bases)
        if revalidate:
            run.revalidate()
        result = run.finish()
    if stamp:
        stamp_synced(clock)
    return result


def prune(model_uuids: Iterable[str], *, clock: Clock = SYSTEM) -> SyncResult:
    """Take the ids of deleted models out of the groups that hold them, then revalidate the custom ones among these."""
    asked = {str(value) for item in model_uuids if (value := parse_uuid(item))}
    with exclusive():
        run = _Run(clock)
        run.prune_ids(asked - {row.id for row in run.rows})
        return run.finish()


def revalidate(*, clock: Clock = SYSTEM) -> SyncResult:
    """Switch off custom groups with fewer than two routable members. Looks first, locks only when there is one.

    A failure counts as "nobody to switch off": an error must never be taken for a group without members.
    """
    try:
        if not _some_to_disable():
            return SyncResult()
        with exclusive():
            run = _Run(clock)
            run.revalidate()
            return run.finish()
    except Exception:
        log.exception("failover: revalidation failed, no group was switched off")
        return SyncResult()


def _some_to_disable() -> bool:
    """Whether a custom group that is on has too few routable members; reads only what that takes."""
    custom = [fact(group) for group in FailoverGroup.objects.filter(group_enabled=True, auto_created=False)]
    if not custom:
        return False
    rows = Model.objects.filter(enabled=True, provider__enabled=True).order_by()
    members = {member for group in custom for member in group.members}
    if len(members) <= _MAX_IN:
        rows = rows.filter(pk__in=members)
    return bool(grouping.disables(custom, {str(pk) for pk in rows.values_list("pk", flat=True)}))


def stamp_synced(clock: Clock = SYSTEM) -> None:
    """Remember when groups were last synced; never fails the caller."""
    try:
        with transaction.atomic():
            ports.store_note(LAST_SYNCED, rfc3339(clock.now()) or "")
    except Exception as problem:
        attrs = {"error": one_line(str(problem))}
        log.error("failover: the time of the sync could not be stored", extra={"attrs": attrs})


def last_synced() -> str | None:
    return ports.load_note(LAST_SYNCED)


def fact(group: FailoverGroup) -> GroupFact:
    stamped = group.auto_disabled_at is not None or group.floor_disabled_at is not None
    return GroupFact(
        str(group.id),
        group.display_model,
        group.priority_order,
        group.entry_enabled,
        group.group_enabled,
        group.auto_created,
        stamped,
    )


_FACTS = (
    "id",
    "display_model",
    "priority_order",
    "entry_enabled",
    "group_enabled",
    "auto_created",
    "auto_disabled_at",
    "floor_disabled_at",
)


def read_groups(query: "QuerySet[FailoverGroup]") -> dict[str, GroupFact]:
    """The groups of *query* by name; one query."""
    return {
        name: GroupFact(
            canonical(id), name, json_of(order), json_of(toggles), bool(on), bool(auto), bool(disabled or floor)
        )
        for id, name, order, toggles, on, auto, disabled, floor in rows_of(query, *_FACTS)
    }


def read_rows() -> list[ModelFact]:
    """Every model row; one query."""
    columns = ("id", "model_id", "enabled", "provider__name", "provider__enabled", "provider__created_at")
    return [
        ModelFact(canonical(id), model_id, provider, instant(created), bool(enabled and provider_enabled))
        for id, model_id, enabled, provider, provider_enabled, created in rows_of(Model.objects.order_by(), *columns)
    ]


class _Run:
    """One maintenance run: the groups as the steps so far left them, and what was done."""

    def __init__(self, clock: Clock, dry: bool = False) -> None:
        self.now = clock.now()
        self.result = SyncResult(dry_run=dry)
        # Locked before the model rows are read: an edit committed while this waited is part of what is merged.
        stored = FailoverGroup.objects.order_by("display_model")
        self.groups = read_groups(stored if dry else stored.select_for_update())
        self.rows = read_rows()

    def all_bases(self) -> None:
        for base, step in grouping.all_bases(self.rows, self.groups.values()):
            self._guarded(base, step)
        self._prune(self.groups.values(), {row.id for row in self.rows} | {g.id for g in self.groups.values()})
        self.revalidate()

    def some_bases(self, bases: Iterable[str]) -> None:
        found = grouping.by_base(self.rows)
        for base in bases:
            step = grouping.one_base(base, found.get(base, []), self.groups.get(base), name_providers=False)
            if step is not None:
                self._guarded(base, step)

    def prune_ids(self, gone: Collection[str]) -> None:
        holders = [group for group in self.groups.values() if not set(gone).isdisjoint(group.members)]
        held = {member for group in holders for member in [*group.members, *grouping.toggles_of(group.toggles)]}
        self._prune(holders, held - set(gone))
        names = {group.name for group in holders}
        self.revalidate(lambda group: group.name in names)

    def _prune(self, groups: Iterable[GroupFact], existing: Collection[str]) -> None:
        for step in grouping.prunes(groups, existing):
            self._guarded(step.group.name, step)

    def revalidate(self, wanted: Callable[[GroupFact], bool] = lambda group: True) -> None:
        routable = {row.id for row in self.rows if row.routable}
        for step in grouping.disables(filter(wanted, self.groups.values()), routable):
            self._guarded(step.group.name, step)

    def _guarded(self, base: str, step: Step) -> None:
        """Carry out one step in a savepoint of its own: the failure of one base is recorded, the others go on."""
        new_id = uuid4_text()
        if not self.result.dry_run:
            try:
                with transaction.atomic():
                    self._write(step, new_id)
            except Exception as problem:
                text = one_line(str(problem)) or type(problem).__name__
                log.error("failover: group could not be synced", extra={"attrs": {"model": base, "error": text}})
                self.result.errors.append((base, text))
                return
        self.groups = grouping.applied(self.groups, step, new_id)
        self.result.note(step)

    def _write(self, step: Step, new_id: str) -> None:
        if isinstance(step, Create):
            FailoverGroup.objects.create(
                id=new_id,
                display_model=step.name,
                priority_order=step.order,
                auto_created=True,
                updated_at=self.now,
            )
            return
        row = FailoverGroup.objects.filter(pk=step.group.id)
        if isinstance(step, Delete):
            row.delete()
        elif isinstance(step, Disable):
            row.update(group_enabled=False, auto_disabled_at=self.now, updated_at=self.now)
        elif isinstance(step, Prune):
            row.update(priority_order=step.order, entry_enabled=step.toggles, updated_at=self.now)
        else:
            row.update(
                priority_order=step.order,
                entry_enabled=step.toggles,
                group_enabled=True,
                auto_disabled_at=None,
                floor_disabled_at=None,
                updated_at=self.now,
            )

    def finish(self) -> SyncResult:
        result = self.result
        result.auto_groups = sum(group.auto for group in self.groups.values())
        touched = {
            step.name: _change(self.groups[step.name], "created") for step in result.created if step.name in self.groups
        }
        changed: list[Refresh | Prune | Disable] = [*result.refreshed, *result.pruned, *result.disabled]
        for step in changed:
            touched.setdefault(step.group.name, _change(step.group, "updated"))
        for gone in result.deleted:
            touched[gone.group.name] = _change(gone.group, "deleted")
        if touched and not result.dry_run:
            several = Change("failover_group", "", "updated")
            change = next(iter(touched.values())) if len(touched) == 1 else several
            changes.record(["groups"], change, SYSTEM_ACTOR)
        return result


def _change(group: GroupFact, action: Action) -> Change:
    return Change("failover_group", group.id, action, group.name)
