"""What an operator may do to failover groups. Every check refuses before anything is changed.

The page, the API and the commands call these; automatic maintenance is in :mod:`failover.sync`.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError

from failover import grouping, naming
from failover.locks import exclusive
from failover.models import FailoverGroup
from modelhotel.core import changes
from modelhotel.core.actor import Actor
from modelhotel.core.changes import Action, Change
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from modelhotel.core.text import clip, one_line
from providers.models import Model

MAX_ENTRIES = 100
#: Characters of a malformed id that an answer repeats.
_SHOWN = 200
FIELDS = ("display_model", "display_name", "description", "group_enabled", "priority_order", "entry_enabled")
_COLUMNS = (
    "display_model",
    "display_name",
    "description",
    "priority_order",
    "entry_enabled",
    "group_enabled",
    "midstream_recovery",
    "auto_created",
    "auto_disabled_at",
    "floor_disabled_at",
)


@dataclass(frozen=True, slots=True)
class GroupData:
    """A new custom group as the operator gave it; *entry_ids* in priority order."""

    display_model: str
    display_name: str = ""
    description: str = ""
    entry_ids: Sequence[str] = field(default_factory=list)
    midstream_recovery: str | None = None


def group_id(text: str) -> uuid.UUID:
    """Raises Refusal."""
    value = parse_uuid(text)
    if value is None:
        raise Refusal(400, "invalid failover group ID")
    return value


def create(data: GroupData, actor: Actor, clock: Clock = SYSTEM) -> FailoverGroup:
    """A custom group, on, every toggle on. Raises Refusal."""
    name = naming.group_name(data.display_model)
    label = naming.display_name(data.display_name)
    about = naming.description(data.description)
    if len(data.entry_ids) < grouping.MIN_MEMBERS:
        raise Refusal(400, "at least 2 entries required for failover group", field="priority_order")
    if len(data.entry_ids) > MAX_ENTRIES:
        raise Refusal(400, f"entry_ids must have at most {MAX_ENTRIES} entries", field="priority_order")
    order = _distinct(data.entry_ids, "entry_id")
    taken = Refusal(
        409,
        f"A failover group for '{name}' already exists (auto-created from shared model). "
        "Edit the existing group instead.",
        field="display_model",
    )
    try:
        with exclusive():
            _known(data.entry_ids, order, set(), "entry_id")
            if FailoverGroup.objects.filter(display_model=name).exists():
                raise taken
            recovery = naming.midstream_recovery(data.midstream_recovery)
            group = FailoverGroup.objects.create(
                display_model=name,
                display_name=label,
                description=about,
                priority_order=order,
                midstream_recovery=recovery,
                updated_at=clock.now(),
            )
            _record(group, "created", actor)
    except IntegrityError:
        raise taken from None
    return group


def update(target: str, given: Mapping[str, Any], actor: Actor, clock: Clock = SYSTEM) -> FailoverGroup:
    """Change the fields of *given*, nothing else. Raises Refusal.

    Names in :data:`FIELDS`, where None counts as absent, and ``midstream_recovery``, where it does not.
    """
    key = group_id(target)
    wanted = {name: value for name, value in given.items() if name in FIELDS and value is not None}
    name = ""
    try:
        with exclusive():
            group = FailoverGroup.objects.select_for_update().filter(pk=key).first()
            if group is None:
                raise Refusal(404, "failover group not found")
            before = _columns(group)
            if "display_model" in wanted:
                name = _rename(group, wanted["display_model"])
            if "display_name" in wanted:
                group.display_name = naming.display_name(wanted["display_name"])
            if "description" in wanted:
                group.description = naming.description(wanted["description"])
            if not wanted.keys().isdisjoint(("group_enabled", "priority_order", "entry_enabled")):
                _switch(group, wanted, clock.now())
            if "midstream_recovery" in given:
                group.midstream_recovery = naming.midstream_recovery(given["midstream_recovery"])
            if _columns(group) != before:
                group.updated_at = clock.now()
                group.save()
                _record(group, "updated", actor)
    except IntegrityError:
        raise _taken(name) from None
    return group


def delete(target: str, actor: Actor) -> None:
    """Deleting what is not there is fine. Raises Refusal for a malformed id."""
    key = group_id(target)
    with exclusive():
        group = FailoverGroup.objects.select_for_update().filter(pk=key).first()
        if group is not None:
            _record(group, "deleted", actor)
            group.delete()


def _record(group: FailoverGroup, action: Action, actor: Actor) -> None:
    changes.record(["groups"], Change("failover_group", str(group.pk), action, group.display_model), actor)


def _columns(group: FailoverGroup) -> list[Any]:
    return [getattr(group, name) for name in _COLUMNS]


def _taken(name: str) -> Refusal:
    text = f"A failover group for '{name}' already exists. Choose a different name."
    return Refusal(409, text, field="display_model")


def _rename(group: FailoverGroup, text: str) -> str:
    """An auto group that gets another name is the operator's from then on, or the next sync would delete it."""
    name = naming.group_name(text)
    if name != group.display_model:
        if FailoverGroup.objects.filter(display_model=name).exists():
            raise _taken(name)
        group.display_model = name
        group.auto_created = False
    return name


def _shown(text: str) -> str:
    """What the client sent, as part of a one-line answer."""
    return clip(one_line(text), _SHOWN)


def _distinct(given: Sequence[str], word: str) -> list[str]:
    """The ids in canonical form. Compared as UUIDs, so letter case hides no duplicate."""
    found: dict[str, None] = {}
    for text in given:
        value = parse_uuid(text)
        if value is None:
            raise Refusal(400, f"invalid {word}: {_shown(text)}", field="priority_order")
        if str(value) in found:
            raise Refusal(400, f"duplicate {word}: {_shown(text)}", field="priority_order")
        found[str(value)] = None
    return list(found)


def _known(given: Sequence[str], order: Sequence[str], members: Collection[str], word: str) -> None:
    """Each id is a model row or one of *members* already."""
    rows = {str(pk) for pk in Model.objects.filter(pk__in=order).values_list("pk", flat=True)}
    for text, member in zip(given, order, strict=True):
        if member not in rows and member not in members:
            raise Refusal(400, f"unknown {word}: {text}", field="priority_order")


def _switch(group: FailoverGroup, wanted: Mapping[str, Any], now: datetime) -> None:
    """Members, toggles and the master switch, judged by the state they lead to."""
    toggles = wanted.get("entry_enabled")
    if toggles is not None and len(toggles) > MAX_ENTRIES:
        raise Refusal(400, "invalid entry_enabled", field="entry_enabled")
    if "priority_order" in wanted:
        group.priority_order = _new_order(group, wanted["priority_order"])
    order = grouping.member_ids(group.priority_order)
    if toggles is not None or "priority_order" in wanted:
        flags = grouping.toggles_of(group.entry_enabled if toggles is None else toggles)
        group.entry_enabled = {member: flags[member] for member in order if member in flags}
    flags = grouping.toggles_of(group.entry_enabled)
    on = [member for member in order if flags.get(member, True)]
    was_on = group.group_enabled
    group.group_enabled = wanted.get("group_enabled", was_on)
    if group.group_enabled and not on:
        text = "at least one entry must be enabled for an active failover group"
        raise Refusal(400, text, field="entry_enabled")
    routable = Model.objects.filter(pk__in=on, enabled=True, provider__enabled=True)
    if group.group_enabled and not was_on and routable.count() < grouping.MIN_MEMBERS:
        text = "a failover group needs at least 2 enabled members (model and provider enabled) to be active"
        raise Refusal(400, text, field="group_enabled")
    if "group_enabled" in wanted:
        cascade = not group.group_enabled and toggles is not None and routable.count() < grouping.MIN_MEMBERS
        group.auto_disabled_at = None
        # Sent twice, the same cascade is no second change.
        group.floor_disabled_at = ((not was_on and group.floor_disabled_at) or now) if cascade else None


def _new_order(group: FailoverGroup, given: Sequence[str]) -> list[str]:
    if not given:
        raise Refusal(400, "priority_order must not be empty", field="priority_order")
    if len(given) > MAX_ENTRIES:
        raise Refusal(400, f"priority_order holds at most {MAX_ENTRIES} entries", field="priority_order")
    order = _distinct(given, "priority_order entry")
    _known(given, order, grouping.member_ids(group.priority_order), "priority_order entry")
    return order
