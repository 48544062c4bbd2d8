"""Which groups lean on a provider or on a model: said before it is switched off or deleted."""

from collections.abc import Set
from typing import Any

from failover import grouping
from failover.models import FailoverGroup
from providers.models import Model
from providers.ports import GroupOff


def of_provider(provider_id: str) -> list[dict[str, Any]]:
    """By name; *remaining* are the members of other providers that can be routed to."""
    return of_models({str(pk) for pk in Model.objects.filter(provider_id=provider_id).values_list("pk", flat=True)})


def of_models(own: Set[str]) -> list[dict[str, Any]]:
    """The same for some models; *remaining* are all others."""
    found = []
    for group in FailoverGroup.objects.order_by("display_model"):
        members = grouping.member_ids(group.priority_order)
        if mine := own & set(members):
            toggles = grouping.toggles_of(group.entry_enabled)
            others = [member for member in members if member not in own and toggles.get(member, True)]
            found.append((group.display_model, len(mine), others))
    asked = {member for _, _, others in found for member in others}
    routable = _routable(asked)
    return [
        {"display_model": name, "entries": entries, "remaining": sum(one in routable for one in others)}
        for name, entries, others in found
    ]


def switched_off() -> list[GroupOff]:
    """The custom groups that maintenance switched off for want of members, by name."""
    off = FailoverGroup.objects.filter(group_enabled=False).exclude(auto_disabled_at=None).order_by("display_model")
    groups = [(group, grouping.member_ids(group.priority_order)) for group in off]
    routable = _routable({member for _, members in groups for member in members})
    return [
        GroupOff(group.display_model, len(members), sum(one in routable for one in members), group.auto_disabled_at)
        for group, members in groups
        if group.auto_disabled_at is not None
    ]


def _routable(asked: Set[str]) -> set[str]:
    rows = Model.objects.filter(pk__in=asked, enabled=True, provider__enabled=True).order_by()
    return {str(pk) for pk in rows.values_list("pk", flat=True)}
