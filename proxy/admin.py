"""Virtual keys in the dashboard. The text of a new key is on the one page that follows its form, and nowhere else."""

import uuid
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanSwitchWidget

from modelhotel.core import crypto
from modelhotel.core.clock import SYSTEM
from modelhotel.core.verbadmin import VerbAdmin, actor_of, before_delete, column, moment, value_column
from providers.models import Provider
from proxy import verbs
from proxy.limits.fields import FIELDS
from proxy.limits.forms import LimitedForm, allowed, allowed_now, provider_names
from proxy.models import VirtualKey

#: In the session of whoever made keys: id of the key -> its text, encrypted, and when it was made.
NEW_KEYS = "new_keys"
#: Seconds in which the page that shows a new key has to be asked for: a redirect takes less than one.
KEPT = 300
SHOWN = "A new key is shown once. If nobody saved it, delete it and add another one."


class KeyForm(LimitedForm):
    name = forms.CharField(widget=UnfoldAdminTextInputWidget, required=False, strip=False)
    strip_reasoning = forms.BooleanField(
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Answers come without the model's reasoning.",
    )

    class Meta:
        fields = ("name", "allowed_providers", "strip_reasoning", *FIELDS)


@admin.register(VirtualKey)
class VirtualKeyAdmin(VerbAdmin[VirtualKey]):
    form = KeyForm
    secret_fields = frozenset({"key_hash"})
    empty_text = "No keys yet. Clients of /v1 need one."
    list_display = ("name", "key_preview", "providers", "strips", "rates", "budget", "tokens_used", "used", "created")
    search_fields = ("name", "key_preview")
    search_help_text = "Name or preview"
    ordering = ("-created_at", "-id")
    readonly_fields = ("key_preview", "providers", "tokens_used", "used", "created")

    def get_fieldsets(self, request: HttpRequest, obj: VirtualKey | None = None) -> Any:
        may = ("every_provider", "allowed_providers")
        if obj is None:
            return (
                (None, {"fields": ("name", *may, "strip_reasoning")}),
                ("Limits", {"fields": FIELDS}),
            )
        if not self.has_change_permission(request, obj):
            may = ("providers",)  # type: ignore[assignment]
        return (
            (None, {"fields": ("name", *may, "strip_reasoning")}),
            ("Limits", {"fields": FIELDS}),
            ("State", {"fields": ("key_preview", "tokens_used", "used", "created")}),
        )

    # -- verbs

    def verb_create(self, request: HttpRequest, data: dict[str, Any]) -> VirtualKey:
        given = {"name": data["name"], "allowed_providers": allowed(data), "strip_reasoning": data["strip_reasoning"]}
        given |= {name: data[name] for name in FIELDS if name in data}
        key, plain = verbs.create(given, actor_of(request))
        request.plain_key = plain  # type: ignore[attr-defined]
        return key

    def verb_update(self, request: HttpRequest, obj: VirtualKey, data: dict[str, Any]) -> VirtualKey:
        given: dict[str, Any] = {name: data[name] for name in ("name", "strip_reasoning", *FIELDS) if name in data}
        if "every_provider" in data or "allowed_providers" in data:
            given["allowed_providers"] = allowed_now(obj, data)
        return verbs.update(str(obj.pk), given, actor_of(request))

    def verb_delete(self, request: HttpRequest, objects: list[VirtualKey]) -> int:
        for key in objects:
            verbs.delete(str(key.pk), actor_of(request))
        return len(objects)

    # -- the new key, once

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.new_key_view)
        return [path("<uuid:key_id>/new/", view, name="proxy_virtualkey_new"), *super().get_urls()]

    def response_add(self, request: HttpRequest, obj: VirtualKey, post_url_continue: str | None = None) -> HttpResponse:
        """To the page that shows the key: loaded anew, the answer to the form itself would make another one."""
        now = SYSTEM.now().timestamp()
        held = {key: kept for key, kept in request.session.get(NEW_KEYS, {}).items() if now - kept["at"] < KEPT}
        sealed = crypto.pack(request.plain_key)  # type: ignore[attr-defined]
        request.session[NEW_KEYS] = {**held, str(obj.pk): {"sealed": sealed, "at": now}}
        return HttpResponseRedirect(self._address("new", str(obj.pk)))

    def new_key_view(self, request: HttpRequest, key_id: uuid.UUID) -> HttpResponse:
        if request.method != "GET":  # a HEAD would use up the one view and show nothing
            return HttpResponseNotAllowed(["GET"])
        if not self.has_add_permission(request):
            raise PermissionDenied
        plain, row = self._taken(request, str(key_id)), VirtualKey.objects.filter(pk=key_id).first()
        if plain is None or row is None:
            self.message_user(request, SHOWN, messages.WARNING)
            return HttpResponseRedirect(self._address("changelist"))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Your new key",
            "key": row,
            "plain": plain,
            "base": f"{request.scheme}://{request.get_host()}/v1",
        }
        response = TemplateResponse(request, "proxy/new_key.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @staticmethod
    def _taken(request: HttpRequest, key_id: str) -> str | None:
        """The text of the key, out of the session; None when it was taken, is too old or can not be read."""
        held = dict(request.session.get(NEW_KEYS, {}))
        kept = held.pop(key_id, None)
        if kept is None:
            return None
        request.session[NEW_KEYS] = held
        try:
            plain = crypto.unpack(kept["sealed"])
        except crypto.DecryptError:  # the master key was changed in between
            return None
        return plain if SYSTEM.now().timestamp() - kept["at"] < KEPT else None

    # -- columns

    used = value_column("last_used_at", "Last used", moment, order=True)
    created = value_column("created_at", "Created", moment, order=True)

    @column("Providers")
    def providers(self, key: VirtualKey) -> str:
        return provider_names(key.allowed_providers)

    @column("Reasoning", order="strip_reasoning")
    def strips(self, key: VirtualKey) -> str:
        return "stripped" if key.strip_reasoning else "kept"

    @column("Own rates")
    def rates(self, key: VirtualKey) -> str:
        own = (
            (key.rate_limit_rps, "unlimited" if key.rate_limit_rps == 0 else f"{key.rate_limit_rps or 0:g} rps"),
            (key.rate_limit_burst, f"burst {key.rate_limit_burst}"),
            (key.rate_limit_tpm, f"{key.rate_limit_tpm} tpm"),
        )
        return ", ".join(text for value, text in own if value is not None) or "none"

    @column("Budget", order="budget_usd")
    def budget(self, key: VirtualKey) -> str:
        return "none" if key.budget_usd is None else f"${key.budget_usd:.2f} per {key.budget_period}"


def _keys_that_shrink(providers: Sequence[Provider]) -> list[str]:
    gone = {str(row.pk) for row in providers}
    lines = []
    keys: QuerySet[VirtualKey] = VirtualKey.objects.filter(allowed_providers__isnull=False).order_by("name")
    for key in keys:
        listed = set(key.allowed_providers or [])
        if listed & gone:
            left = len(listed - gone)
            lines.append(f"The key {key.name} keeps {left} allowed provider{'' if left == 1 else 's'}")
    return lines


before_delete("providers.provider", _keys_that_shrink)
