"""Providers and models in the dashboard."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from modelhotel.core import catalogue, options
from modelhotel.core.faults import Refusal
from modelhotel.core.verbadmin import (
    Button,
    VerbAdmin,
    VerbForm,
    actor_of,
    before_delete,
    column,
    many,
    moment,
    value_column,
)
from providers import health, inputs, model_test, model_verbs, ports, queries, verbs
from providers.discovery.scan import SCANNER, Result
from providers.kinds import registry
from providers.models import Model, Provider
from providers.provider_form import ProviderForm, has_reserve

HEALTH_COLOURS = {
    "healthy": "success",
    "recovering": "info",
    "degraded": "warning",
    "unhealthy": "danger",
    "circuit open": "danger",
}
#: Models a confirmation names before it only counts.
_NAMED = 10


def scan(request: HttpRequest, page: "VerbAdmin[Any]", row: Provider) -> None:
    """List a provider's models and tell the outcome; a failure is told, not raised."""
    try:
        result = SCANNER.one(str(row.pk))
    except Refusal as refusal:
        row.refresh_from_db(fields=["last_model_fetch_error"])
        detail = f": {row.last_model_fetch_error}" if row.last_model_fetch_error and refusal.status >= 500 else ""
        page.message_user(request, refusal.text + detail, messages.ERROR)
        return
    page.message_user(request, outcome(result), messages.WARNING if result.failed else messages.SUCCESS)


def outcome(result: Result) -> str:
    """One line about a finished scan: how many models, and how many entries each section of its diff has."""
    if result.error:
        return f"{result.provider}: {result.error}"
    parts = [
        f"{len(items)} {name.replace('_', ' ')}"
        for name, items in result.diff.items()
        if items and isinstance(items, Sequence)
    ]
    return f"{result.provider}: {many(len(result.rows), 'model')} found" + (f" ({', '.join(parts)})" if parts else "")


def _discover(page: "VerbAdmin[Any]", request: HttpRequest, row: Provider) -> None:
    scan(request, page, row)


def _discover_all(page: "VerbAdmin[Any]", request: HttpRequest, row: None) -> None:
    results = SCANNER.every()
    for result in results:
        page.message_user(request, outcome(result), messages.ERROR if result.error else messages.SUCCESS)
    if not results:
        page.message_user(request, "No enabled provider takes part in discovery.", messages.WARNING)


@admin.register(Provider)
class ProviderAdmin(VerbAdmin[Provider]):
    form = ProviderForm
    secret_fields = frozenset({"encrypted_key", "key_nonce", "key_salt"})
    empty_text = "No providers yet. Add one, and its models are listed by themselves."
    list_display = ("name", "kind", "base_url", "state", "key", "model_count", "condition", "discovered")
    list_filter = ("enabled", "provider_type")
    search_fields = ("name", "base_url")
    search_help_text = "Name or address"
    ordering = ("-created_at", "-id")
    actions = ("discover_selected", "enable_selected", "disable_selected")
    object_buttons = (
        Button(
            "discover",
            "Discover models",
            _discover,
            icon="travel_explore",
            shown=lambda row: row.enabled and row.autodiscovery_enabled,
        ),
    )
    list_buttons = (Button("discover-all", "Discover all models", _discover_all, icon="travel_explore"),)
    readonly_fields = (
        "key",
        "condition",
        "learned_limit",
        "model_count",
        "discovered",
        "listing_error",
        "used",
        "created",
    )

    def get_fieldsets(self, request: HttpRequest, obj: Provider | None = None) -> Any:
        what = ("name", "provider_type", "base_url")
        state = ("condition", "learned_limit", "model_count", "discovered", "listing_error", "used", "created")
        if obj is None:
            return ((None, {"fields": (*what, "api_key", "max_in_flight")}),)
        flags = ("enabled", "autodiscovery_enabled", "max_in_flight", "circuit_breaker_slow_call_threshold")
        flags += ("scheduled_disable_on", *(("quota_reserve_percent",) if has_reserve(obj) else ()))
        if not self.has_change_permission(request, obj):
            return ((None, {"fields": (*what, "key", *flags)}), ("State", {"fields": state}))
        key = (
            ("api_key", "remove_key")
            if registry.get(obj.provider_type).keyless_allowed and not obj.keyless
            else ("api_key",)
        )
        return ((None, {"fields": (*what, *key, *flags)}), ("State", {"fields": state}))

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Provider]":
        rows: QuerySet[Provider] = super().get_queryset(request).annotate(models_count=Count("models"))
        return rows

    # -- verbs

    def verb_create(self, request: HttpRequest, data: dict[str, Any]) -> Provider:
        given = verbs.ProviderData(
            data["name"], data["base_url"], data["provider_type"], data["api_key"], data["max_in_flight"]
        )
        row = verbs.create(given, actor_of(request))
        if options.current()[catalogue.DISCOVERY_ON_PROVIDER_CREATE]:
            scan(request, self, row)
        return row

    def verb_update(self, request: HttpRequest, obj: Provider, data: dict[str, Any]) -> Provider:
        given = {name: value for name, value in data.items() if name not in ("api_key", "remove_key")}
        if day := given.get("scheduled_disable_on"):
            given["scheduled_disable_on"] = day.isoformat()
        if data.get("api_key"):
            given["api_key"] = data["api_key"]
        if data.get("remove_key"):
            if "api_key" in given:
                raise inputs.refuse("remove_key", "give a new key or remove the key, not both")
            given["api_key"] = ""
        return verbs.update(str(obj.pk), given, actor_of(request)) if given else obj

    def verb_delete(self, request: HttpRequest, objects: list[Provider]) -> int:
        for row in objects:
            verbs.delete(str(row.pk), actor_of(request))
        return len(objects)

    # -- actions

    @admin.action(description="Discover models", permissions=["change"])
    def discover_selected(self, request: HttpRequest, queryset: "QuerySet[Provider]") -> None:
        for row in queryset:
            scan(request, self, row)

    @admin.action(description="Enable", permissions=["change"])
    def enable_selected(self, request: HttpRequest, queryset: "QuerySet[Provider]") -> None:
        actor = actor_of(request)
        self.each(request, queryset, lambda row: verbs.update(str(row.pk), {"enabled": True}, actor), "enabled")

    @admin.action(description="Disable", permissions=["change"])
    def disable_selected(self, request: HttpRequest, queryset: "QuerySet[Provider]") -> Any:
        lines = [f"{row.name}: its {many(row.models_count, 'model')} will not be routed to" for row in queryset]  # type: ignore[attr-defined]
        if asked := self.question(request, queryset, "disable_selected", "Disable these providers?", lines):
            return asked
        actor = actor_of(request)
        return self.each(
            request, queryset, lambda row: verbs.update(str(row.pk), {"enabled": False}, actor), "disabled"
        )

    # -- columns

    @column("Type", order="provider_type")
    def kind(self, row: Provider) -> str:
        return registry.get(row.provider_type).label if row.provider_type in registry.KINDS else row.provider_type

    @column("State", order="enabled", colours={"enabled": "success", "disabled": "default"})
    def state(self, row: Provider) -> str:
        return "enabled" if row.enabled else "disabled"

    @column("Key")
    def key(self, row: Provider) -> str:
        return "none" if row.keyless else queries.masked_key(row)

    @column("Models", order="models_count")
    def model_count(self, row: Provider) -> int:
        return row.models_count  # type: ignore[attr-defined,no-any-return]

    @column("Health", colours=HEALTH_COLOURS)
    def condition(self, row: Provider) -> str:
        circuits = ports.circuits.health(str(row.pk))
        return health.status(row, row.models_count > 0, circuits).replace("_", " ")  # type: ignore[attr-defined]

    @column("Learned limit", empty="none")
    def learned_limit(self, row: Provider) -> str | None:
        limit = ports.inflight_limits().get(str(row.pk))
        return f"{limit} at once" if limit else None

    discovered = value_column("last_discovery_success_at", "Last discovery", moment, order=True)
    used = value_column("last_used_at", "Last used", moment)
    created = value_column("created_at", "Created", moment)

    @column("Listing error", empty="none")
    def listing_error(self, row: Provider) -> str | None:
        return row.last_model_fetch_error or row.last_availability_error or None


class ModelForm(VerbForm):
    display_name = forms.CharField(widget=UnfoldAdminTextInputWidget, required=False, strip=False)
    context_length = forms.IntegerField(required=False, widget=UnfoldAdminIntegerFieldWidget, help_text="Tokens.")
    max_output_tokens = forms.IntegerField(required=False, widget=UnfoldAdminIntegerFieldWidget, help_text="Tokens.")
    input_price_per_million = forms.FloatField(
        label="Input price", required=False, widget=UnfoldAdminDecimalFieldWidget, help_text="$ per million tokens."
    )
    input_price_per_million_cache_hit = forms.FloatField(
        label="Cached input price",
        required=False,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="$ per million tokens.",
    )
    output_price_per_million = forms.FloatField(
        label="Output price", required=False, widget=UnfoldAdminDecimalFieldWidget, help_text="$ per million tokens."
    )
    search_price_per_thousand = forms.FloatField(
        label="Search price",
        required=False,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="$ per thousand search units, of a reranker that bills by them.",
    )
    price_customized = forms.BooleanField(
        label="Prices pinned",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Scans leave pinned prices alone; editing one pins them. Unpinned, the next scan fills them anew.",
    )
    enabled = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget)

    class Meta:
        fields = inputs.MODEL_FIELDS


def _test(page: "VerbAdmin[Any]", request: HttpRequest, row: Model) -> None:
    answer = model_test.run(str(row.pk), allow_disabled=True)
    took = f"{answer['duration_ms']:.0f} ms"
    if answer["success"]:
        page.message_user(request, f"{row.model_id} answered in {took}: {answer['response']}", messages.SUCCESS)
    else:
        page.message_user(request, f"{row.model_id} failed after {took}: {answer['error']}", messages.ERROR)


@admin.register(Model)
class ModelAdmin(VerbAdmin[Model]):
    form = ModelForm
    empty_text = "No models yet. They appear when a provider's models are discovered."
    list_display = (
        "model_id",
        "display_name",
        "provider",
        "state",
        "modality",
        "context",
        "max_output",
        "price_in",
        "price_out",
    )
    list_filter = ("enabled", "provider", "modality")
    list_select_related = ("provider",)
    search_fields = ("model_id", "name", "display_name")
    search_help_text = "Model id or name"
    ordering = ("model_id", "id")
    actions = ("enable_selected", "disable_selected")
    object_buttons = (Button("test", "Test the model", _test, icon="play_arrow"),)
    readonly_fields = ("model_id", "provider", "modality", "features", "state", "found", "seen", "about")
    fieldsets = (
        (None, {"fields": ("model_id", "provider", "state", "modality", "features", "about")}),
        ("What clients see", {"fields": ("display_name", "context_length", "max_output_tokens", "enabled")}),
        (
            "Prices",
            {
                "fields": (
                    "input_price_per_million",
                    "input_price_per_million_cache_hit",
                    "output_price_per_million",
                    "search_price_per_thousand",
                    "price_customized",
                )
            },
        ),
        ("Seen", {"fields": ("found", "seen")}),
    )

    def verb_update(self, request: HttpRequest, obj: Model, data: dict[str, Any]) -> Model:
        for name, value in data.items():
            if value is None:
                raise inputs.refuse(name, "a value can be changed here, not removed")
        return model_verbs.update_model(str(obj.pk), data, actor_of(request))

    def verb_delete(self, request: HttpRequest, objects: list[Model]) -> int:
        return model_verbs.delete_models([str(row.pk) for row in objects], actor_of(request))

    def _switch(self, request: HttpRequest, queryset: "QuerySet[Model]", on: bool) -> None:
        actor = actor_of(request)
        done = "enabled" if on else "disabled"
        self.each(request, queryset, lambda row: model_verbs.update_model(str(row.pk), {"enabled": on}, actor), done)

    @admin.action(description="Enable", permissions=["change"])
    def enable_selected(self, request: HttpRequest, queryset: "QuerySet[Model]") -> None:
        self._switch(request, queryset, True)

    @admin.action(description="Disable", permissions=["change"])
    def disable_selected(self, request: HttpRequest, queryset: "QuerySet[Model]") -> Any:
        lines = [f"{row.provider.name} / {row.model_id}" for row in queryset[: _NAMED + 1]]
        if len(lines) > _NAMED:
            lines = [*lines[:_NAMED], f"and {queryset.count() - _NAMED} more"]
        if asked := self.question(request, queryset, "disable_selected", "Disable these models?", lines):
            return asked
        return self._switch(request, queryset, False)

    @column(
        "State",
        order="enabled",
        colours={
            "enabled": "success",
            "provider disabled": "warning",
            "disabled by operator": "default",
            "disabled by discovery": "warning",
            "refused by provider": "warning",
        },
    )
    def state(self, row: Model) -> str:
        if not row.enabled:
            if row.disabled_manually:
                return "disabled by operator"
            return "disabled by discovery" if row.auto_retired_at is None else "refused by provider"
        return "enabled" if row.provider.enabled else "provider disabled"

    context = value_column("context_length", "Context", order=True)
    max_output = value_column("max_output_tokens", "Max out", order=True)
    price_in = value_column("input_price_per_million", "In $/M", order=True)
    price_out = value_column("output_price_per_million", "Out $/M", order=True)
    found = value_column("created_at", "Discovered", moment)
    seen = value_column("last_seen_at", "Last seen", moment)

    @column("Capabilities")
    def features(self, row: Model) -> str:
        able = [name.replace("_", " ") for name, on in sorted(row.capabilities.items()) if on is True]
        return ", ".join(able)

    @column("Description")
    def about(self, row: Model) -> str:
        return row.description


def _models_that_go(providers: Sequence[Provider]) -> list[str]:
    rows = Model.objects.filter(provider__in=[row.pk for row in providers])
    count = rows.count()
    if not count:
        return []
    named = list(rows.order_by("model_id").values_list("model_id", flat=True)[:_NAMED])
    more = f" and {count - len(named)} more" if count > len(named) else ""
    return [f"{many(count, 'model')}: {', '.join(named)}{more}", "Its requests stay in the log, without its name"]


before_delete("providers.provider", _models_that_go)
