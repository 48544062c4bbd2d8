"""Failover groups in the dashboard: the plain list and form."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from failover import grouping, queries, sync, verbs
from failover.breaker import board
from failover.breaker.circuit import State
from failover.members import Members, MembersField, Row
from failover.models import FailoverGroup
from modelhotel.core.faults import Refusal
from modelhotel.core.verbadmin import (
    Button,
    VerbAdmin,
    VerbForm,
    actor_of,
    add_button,
    before_delete,
    column,
    many,
    moment,
    value_column,
)
from providers.models import Model, Provider

TOO_FEW = "At least 2 members must stay active."


def circuits() -> dict[tuple[str, str], str]:
    """(provider id, model id) -> the state of its circuit in words, for those that have one."""
    found: dict[tuple[str, str], str] = {}
    rows: Any = board().status({}, True).get("providers", ())
    for row in rows:
        for circuit in row["circuits"]:
            text = str(circuit["state"])
            if circuit["state"] != State.CLOSED.value:
                text += f" ({circuit['last_cause']})"
            found[row["provider_id"], circuit["model"]] = text
    return found


def rows_of(order: Sequence[str], toggles: Mapping[str, bool]) -> list[Row]:
    """The members *order* as a form or a page shows them."""
    models = {str(row.pk): row for row in Model.objects.filter(pk__in=order).select_related("provider")}
    states = circuits()
    rows = []
    for member in order:
        model = models.get(member)
        if model is None:
            rows.append(Row(member, member, note="model is gone"))
            continue
        note = "" if model.enabled else "Model disabled"
        if not model.provider.enabled:
            note = "Provider disabled"
        state = states.get((str(model.provider_id), model.model_id), "closed")
        label = f"{model.provider.name} / {model.model_id}"
        rows.append(Row(member, label, toggles.get(member, True), note, state))
    return rows


class GroupForm(VerbForm):
    display_model = forms.CharField(
        label="Name",
        required=False,
        strip=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Clients ask for it as hotel/name.",
    )
    display_name = forms.CharField(label="Label", required=False, strip=False, widget=UnfoldAdminTextInputWidget)
    description = forms.CharField(required=False, strip=False, widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}))
    group_enabled = forms.BooleanField(label="Enabled", required=False, widget=UnfoldBooleanSwitchWidget)
    midstream_recovery = forms.TypedChoiceField(
        label="Mid-stream recovery",
        required=False,
        widget=UnfoldAdminSelectWidget,
        choices=[("", "Default"), ("off", "Off"), ("continue", "Continue")],
        empty_value=None,
        help_text="A stream that breaks after its first words is finished by the next member.",
    )
    priority_order = MembersField(label="Members", required=False, help_text="Tried from the top. Two or more.")

    class Meta:
        fields = ("display_model", "display_name", "description", "group_enabled", "midstream_recovery")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        order = grouping.member_ids(self.instance.priority_order)
        flags = grouping.toggles_of(self.instance.entry_enabled)
        off = frozenset(member for member in order if not flags.get(member, True))
        self.initial["priority_order"] = Members(tuple(order), off)
        widget: Any = self.fields["priority_order"].widget
        widget.rows = lambda members: rows_of(members, flags)
        widget.choices = [
            (row["model_uuid"], f"{row['model_id']} · {row['provider_name']}") for row in queries.candidates()
        ]


def _sync(page: "VerbAdmin[Any]", request: HttpRequest, obj: None) -> None:
    result = sync.full()
    quiet = True
    for step in result.created:
        quiet = False
        page.message_user(
            request, f"hotel/{step.name} created with {many(len(step.order), 'member')}", messages.SUCCESS
        )
    for refresh in result.refreshed:
        quiet = False
        text = f"hotel/{refresh.group.name}: {len(refresh.added)} added, {len(refresh.removed)} removed"
        page.message_user(request, text, messages.INFO)
    for gone in result.deleted:
        quiet = False
        page.message_user(request, f"hotel/{gone.group.name} deleted: {gone.reason}", messages.WARNING)
    for prune in result.pruned:
        quiet = False
        text = f"hotel/{prune.group.name}: {many(len(prune.removed), 'deleted model')} taken out"
        page.message_user(request, text, messages.INFO)
    for off in result.disabled:
        quiet = False
        text = f"hotel/{off.group.name} switched off: only {off.effective} of its members can be routed to"
        page.message_user(request, text, messages.WARNING)
    for base, problem in result.errors:
        quiet = False
        page.message_user(request, f"{base}: {problem}", messages.ERROR)
    if quiet:
        page.message_user(request, "Failover groups synced: nothing to change.", messages.SUCCESS)


def _told(page: "VerbAdmin[Any]", request: HttpRequest, cleared: Sequence[Any]) -> None:
    back = sum(done.previous is not State.CLOSED for done in cleared)
    if back:
        page.message_user(request, f"{many(back, 'circuit')} reset, back in rotation.", messages.SUCCESS)
    else:
        page.message_user(request, "Nothing to reset: no circuit is open.", messages.INFO)


def _pairs(group: FailoverGroup) -> list[tuple[str, str]]:
    rows = Model.objects.filter(pk__in=grouping.member_ids(group.priority_order))
    return [(str(provider_id), model_id) for provider_id, model_id in rows.values_list("provider_id", "model_id")]


def _reset_group(page: "VerbAdmin[Any]", request: HttpRequest, group: FailoverGroup) -> None:
    _told(page, request, board().reset_pairs(_pairs(group)))


def _reset_provider(page: "VerbAdmin[Any]", request: HttpRequest, provider: Provider) -> None:
    _told(page, request, board().reset(str(provider.pk)))


def _ask_group(group: FailoverGroup) -> list[str]:
    return [f"Every member of {group} gets traffic again at once, whatever its circuit has learned."]


def _ask_provider(provider: Provider) -> list[str]:
    return [f"Every model of {provider.name} gets traffic again at once, whatever its circuit has learned."]


@admin.register(FailoverGroup)
class FailoverGroupAdmin(VerbAdmin[FailoverGroup]):
    form = GroupForm
    empty_text = "No groups yet. They form by themselves when two providers offer the same model."
    list_display = ("__str__", "display_name", "member_count", "state", "origin", "updated")
    list_filter = ("group_enabled", "auto_created")
    search_fields = ("display_model", "display_name")
    search_help_text = "Name or label"
    ordering = ("display_model",)
    actions = ("enable_selected", "disable_selected")
    object_buttons = (Button("reset", "Reset circuits", _reset_group, icon="restart_alt", ask=_ask_group),)
    list_buttons = (Button("sync", "Sync groups now", _sync, icon="sync"),)
    readonly_fields = ("members", "state", "origin", "created", "updated")

    def get_fieldsets(self, request: HttpRequest, obj: FailoverGroup | None = None) -> Any:
        names = ("display_model", "display_name", "description")
        if obj is None:
            return ((None, {"fields": (*names, "priority_order", "midstream_recovery")}),)
        members = "priority_order" if self.has_change_permission(request, obj) else "members"
        return (
            (None, {"fields": (*names, "group_enabled", members, "midstream_recovery")}),
            ("State", {"fields": ("state", "origin", "created", "updated")}),
        )

    # -- verbs

    def verb_create(self, request: HttpRequest, data: dict[str, Any]) -> FailoverGroup:
        given = verbs.GroupData(
            data["display_model"],
            data["display_name"],
            data["description"],
            data["priority_order"].order,
            data["midstream_recovery"],
        )
        return verbs.create(given, actor_of(request))

    def verb_update(self, request: HttpRequest, obj: FailoverGroup, data: dict[str, Any]) -> FailoverGroup:
        given = dict(data)
        members: Members | None = given.pop("priority_order", None)
        if members is not None:
            self._keep_two(obj, members)
            given["entry_enabled"] = members.toggles
            if list(members.order) != grouping.member_ids(obj.priority_order):
                given["priority_order"] = list(members.order)
        return verbs.update(str(obj.pk), given, actor_of(request))

    @staticmethod
    def _keep_two(group: FailoverGroup, members: Members) -> None:
        """Switching off a member that works needs two others that do. Raises Refusal."""
        flags = grouping.toggles_of(group.entry_enabled)
        was_on = {member for member in grouping.member_ids(group.priority_order) if flags.get(member, True)}
        routable = Model.objects.filter(pk__in=members.order, enabled=True, provider__enabled=True)
        working = {str(pk) for pk in routable.values_list("pk", flat=True)}
        if members.off & was_on & working and len(working - members.off) < grouping.MIN_MEMBERS:
            raise Refusal(400, TOO_FEW, field="priority_order")

    def verb_delete(self, request: HttpRequest, objects: list[FailoverGroup]) -> int:
        for group in objects:
            verbs.delete(str(group.pk), actor_of(request))
        return len(objects)

    # -- actions

    def _switch(self, request: HttpRequest, queryset: "QuerySet[FailoverGroup]", on: bool) -> None:
        actor = actor_of(request)
        done = "enabled" if on else "disabled"
        self.each(request, queryset, lambda row: verbs.update(str(row.pk), {"group_enabled": on}, actor), done)

    @admin.action(description="Enable", permissions=["change"])
    def enable_selected(self, request: HttpRequest, queryset: "QuerySet[FailoverGroup]") -> None:
        self._switch(request, queryset, True)

    @admin.action(description="Disable", permissions=["change"])
    def disable_selected(self, request: HttpRequest, queryset: "QuerySet[FailoverGroup]") -> Any:
        lines = [f"{group} will not answer" for group in queryset]
        if asked := self.question(request, queryset, "disable_selected", "Disable these groups?", lines):
            return asked
        return self._switch(request, queryset, False)

    # -- columns

    created = value_column("created_at", "Created", moment)
    updated = value_column("updated_at", "Changed", moment, order=True)

    @column("Members")
    def member_count(self, group: FailoverGroup) -> int:
        return len(grouping.member_ids(group.priority_order))

    @column(
        "State",
        order="group_enabled",
        colours={"enabled": "success", "disabled": "default", "switched off automatically": "warning"},
    )
    def state(self, group: FailoverGroup) -> str:
        if group.group_enabled:
            return "enabled"
        return "switched off automatically" if group.auto_disabled else "disabled"

    @column("Origin", order="auto_created", colours={"auto": "info", "custom": "default"})
    def origin(self, group: FailoverGroup) -> str:
        return "auto" if group.auto_created else "custom"

    @column("Members")
    def members(self, group: FailoverGroup) -> str:
        flags = grouping.toggles_of(group.entry_enabled)
        rows = rows_of(grouping.member_ids(group.priority_order), flags)
        return render_to_string("failover/members_read.html", {"rows": rows})


def _groups_that_shrink(models: set[str]) -> list[str]:
    lines = []
    for group in queries.all_groups():
        members = grouping.member_ids(group.priority_order)
        gone = len(models & set(members))
        if gone:
            lines.append(f"{group} loses {gone} of its {many(len(members), 'member')}")
    return lines


def _by_provider(providers: Sequence[Provider]) -> list[str]:
    rows = Model.objects.filter(provider__in=[row.pk for row in providers])
    return _groups_that_shrink({str(pk) for pk in rows.values_list("pk", flat=True)})


before_delete("providers.provider", _by_provider)
before_delete("providers.model", lambda models: _groups_that_shrink({str(row.pk) for row in models}))
add_button(
    "providers.provider", Button("reset", "Reset circuits", _reset_provider, icon="restart_alt", ask=_ask_provider)
)
