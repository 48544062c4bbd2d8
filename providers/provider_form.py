"""The plain form of a provider in the list of Django's admin."""

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from modelhotel.core.verbadmin import VerbForm
from providers import inputs
from providers.kinds import registry
from providers.models import Provider
from providers.quota.windows import RESERVED


class KindSelect(UnfoldAdminSelectWidget):  # type: ignore[misc]
    """Each type carries its usual address, which the page's script offers."""

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option: dict[str, Any] = super().create_option(name, value, *args, **kwargs)
        if kind := registry.KINDS.get(str(value)):
            option["attrs"]["data-address"] = kind.default_base_url
            option["attrs"]["data-hint"] = kind.base_url_hint
        return option

    class Media:
        js = ("modelhotel/provider.js",)


class ProviderForm(VerbForm):
    name = forms.CharField(widget=UnfoldAdminTextInputWidget, required=False, strip=False)
    provider_type = forms.ChoiceField(label="Type", widget=KindSelect, choices=[])
    base_url = forms.CharField(label="Base URL", widget=UnfoldAdminTextInputWidget, required=False)
    api_key = forms.CharField(
        label="API key",
        required=False,
        strip=False,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
    )
    remove_key = forms.BooleanField(
        label="Remove the key",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="For providers that answer without one.",
    )
    enabled = forms.BooleanField(required=False, widget=UnfoldBooleanSwitchWidget)
    autodiscovery_enabled = forms.BooleanField(
        label="Discovery",
        required=False,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Whether its models may be listed anew.",
    )

    max_in_flight = forms.IntegerField(
        label="Most requests at once",
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Empty: no ceiling. What the provider's busy answers teach is kept below it.",
    )

    circuit_breaker_slow_call_threshold = forms.CharField(
        label="Slow answer after",
        required=False,
        empty_value=None,
        widget=UnfoldAdminTextInputWidget,
        help_text=(
            "A duration such as 60s; an answer that takes longer is charged to its circuit. 0s: never. "
            "Empty: Slow Call Threshold of the settings."
        ),
    )

    scheduled_disable_on = forms.DateField(
        label="Switch off on",
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"type": "date"}),
        help_text="At the start of that day on the gateway's clock, once. Empty: it stays on.",
    )
    quota_reserve_percent = forms.TypedChoiceField(
        label="Quota reserve",
        coerce=int,
        choices=[(percent, f"{percent} %") for percent in sorted(inputs.RESERVES)],
        widget=UnfoldAdminSelectWidget,
    )

    class Meta:
        fields = (
            "name",
            "provider_type",
            "base_url",
            "enabled",
            "autodiscovery_enabled",
            "max_in_flight",
            "circuit_breaker_slow_call_threshold",
            "scheduled_disable_on",
            "quota_reserve_percent",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = [(kind.type, kind.label) for kind in registry.KINDS.values()]
        stored = self.instance.provider_type
        kinds: Any = self.fields["provider_type"]
        kinds.choices = known if not stored or stored in dict(known) else [*known, (stored, stored)]
        self.fields["base_url"].help_text = "Choosing a type offers its usual address, where it has one."
        self.fields["name"].help_text = "Clients ask for its models as name/model, blanks as hyphens."
        if self.instance.masked_key:
            self.fields["api_key"].help_text = f"Stored: {self.instance.masked_key}. Leave empty to keep it."
        else:
            self.fields["api_key"].help_text = "Stored encrypted and never shown again."
        if not has_reserve(self.instance):
            del self.fields["quota_reserve_percent"]
        elif window := RESERVED.get(stored):
            text = f"Share of the {window} window that is kept for use outside of the gateway."
            self.fields["quota_reserve_percent"].help_text = text
        else:
            self.fields["quota_reserve_percent"].help_text = "Without effect for this type. Choose 0 % to clear it."


def has_reserve(row: Provider) -> bool:
    """Whether a form shows the reserve: the type reads it, or a value of another type waits to be cleared."""
    return row.provider_type in RESERVED or bool(row.quota_reserve_percent)
