"""Accounts in the dashboard: who may sign in, as what, and what their keys may use."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminEmailInputWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)
from unfold.widgets import UnfoldAdminPasswordWidget as PasswordWidget

from modelhotel.accounts import grants, sessions, users
from modelhotel.core.verbadmin import Button, VerbAdmin, actor_of, before_delete, column, many, moment, value_column
from modelhotel.models import User
from proxy.limits.fields import FIELDS
from proxy.limits.forms import LimitedForm, allowed, allowed_now, provider_names
from proxy.models import VirtualKey

ROLES = {"admin": "Administrator", "viewer": "Viewer", "user": "User"}
_ABOUT = ("display_name", "email", "role", "grants", "enabled")


class UserForm(LimitedForm):
    username = forms.CharField(label="User name", widget=UnfoldAdminTextInputWidget, required=False, strip=False)
    display_name = forms.CharField(widget=UnfoldAdminTextInputWidget, required=False)
    email = forms.CharField(label="E-mail", widget=UnfoldAdminEmailInputWidget, required=False)
    role = forms.ChoiceField(
        choices=[
            ("user", "User: what is granted below"),
            ("viewer", "Viewer: sees everything, changes nothing"),
            ("admin", "Administrator: everything"),
        ],
        widget=UnfoldAdminSelectWidget,
    )
    grants = forms.MultipleChoiceField(
        choices=[(name, grant.label) for name, grant in grants.GRANTS.items()],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="Of a user, by /api. The pages are for administrators and viewers.",
    )
    enabled = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Off: no sign-in, and its keys are refused.",
    )
    password = forms.CharField(
        required=False,
        strip=False,
        widget=PasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text="At least 8 characters. A new one ends the sessions of the account; empty keeps what is there.",
    )

    class Meta:
        fields = ("username", *_ABOUT, "password", "allowed_providers", *FIELDS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.instance._state.adding:
            self.initial["role"] = self.instance.actor.role
            self.initial["grants"] = sorted(grants.of(self.instance))
            self.initial["enabled"] = self.instance.is_active
            self.initial["password"] = ""


def _sign_out(page: VerbAdmin[Any], request: HttpRequest, user: User) -> None:
    ended = sessions.revoke(sessions.of_account(user))
    messages.success(request, f"{many(ended, 'session')} of {user.username} ended.")


@admin.register(User)
class UserAdmin(VerbAdmin[User]):
    form = UserForm
    secret_fields = frozenset({"password"})
    empty_text = "No accounts yet: the admin token signs in without one."
    list_display = ("username", "display_name", "email", "role_name", "granted", "providers", "status", "signed_in")
    search_fields = ("username", "display_name", "email")
    search_help_text = "Name or e-mail"
    ordering = ("username",)
    readonly_fields = ("role_name", "granted", "providers", "signed_in", "made")
    object_buttons = (Button("sign-out", "End its sessions", _sign_out, "logout"),)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        found: QuerySet[User] = super().get_queryset(request)
        return found.prefetch_related(*grants.READ)

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        may = ("every_provider", "allowed_providers")
        if obj is not None and not self.has_change_permission(request, obj):
            seen = ("username", "display_name", "email", "role_name", "granted", "providers")
            return (
                (None, {"fields": seen}),
                ("Limits", {"fields": FIELDS}),
                ("State", {"fields": ("signed_in", "made")}),
            )
        sections: list[Any] = [
            (None, {"fields": ("username", "password", *_ABOUT)}),
            ("What its keys may use", {"fields": (*may, *FIELDS)}),
        ]
        if obj is not None:
            sections.append(("State", {"fields": ("signed_in", "made")}))
        return sections

    # -- verbs

    def verb_create(self, request: HttpRequest, data: dict[str, Any]) -> User:
        given = {name: value for name, value in data.items() if name not in ("every_provider", "allowed_providers")}
        return users.create({**given, "allowed_providers": allowed(data)}, actor_of(request))

    def verb_update(self, request: HttpRequest, obj: User, data: dict[str, Any]) -> User:
        password = data.pop("password", "")
        if password:
            users.checked_password(password)
        given = {name: value for name, value in data.items() if name not in ("every_provider", "allowed_providers")}
        if "every_provider" in data or "allowed_providers" in data:
            given["allowed_providers"] = allowed_now(obj, data)
        actor = actor_of(request)
        changed = users.update(str(obj.pk), given, actor) if given else obj
        if password:
            users.set_password(changed, password, actor)
        return changed

    def verb_delete(self, request: HttpRequest, objects: list[User]) -> int:
        with transaction.atomic():  # all or none: one of them may be the own one
            for user in objects:
                users.delete(str(user.pk), actor_of(request))
        return len(objects)

    # -- columns

    signed_in = value_column("last_login", "Last sign-in", moment, order=True)
    made = value_column("date_joined", "Created", moment, order=True)

    @column("Role")
    def role_name(self, user: User) -> str:
        return ROLES[user.actor.role]

    @column("Grants", empty="-")
    def granted(self, user: User) -> str | None:
        return ", ".join(sorted(grants.of(user))) or None

    @column("Providers")
    def providers(self, user: User) -> str:
        return provider_names(user.allowed_providers)

    @column("Status", order="is_active", colours={"enabled": "success", "disabled": "danger"})
    def status(self, user: User) -> tuple[str, str]:
        word = "enabled" if user.is_active else "disabled"
        return word, word.capitalize()


def _keys_without_owner(objects: Sequence[User]) -> list[str]:
    rows = VirtualKey.objects.filter(owner_user__in=[user.pk for user in objects]).order_by("name")
    return [f"The key {key.name} keeps working, without an owner" for key in rows]


before_delete("modelhotel.user", _keys_without_owner)
