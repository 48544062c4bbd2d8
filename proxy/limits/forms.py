"""What the forms of keys and of accounts have in common: the providers they may use, and their limits."""

from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldBooleanSwitchWidget,
)

from modelhotel.core.limitbounds import PERIODS
from modelhotel.core.verbadmin import VerbForm
from providers.cache import SNAPSHOT
from providers.models import Provider


class LimitedForm(VerbForm):
    every_provider = forms.BooleanField(
        label="Every provider",
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        help_text="Also those that are added later. Off: only the ones chosen here.",
    )
    allowed_providers = forms.MultipleChoiceField(
        label="Allowed providers", required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget
    )
    rate_limit_rps = forms.FloatField(
        label="Requests per second",
        required=False,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="0 is unlimited. Empty, here and below: as the settings say.",
    )
    rate_limit_burst = forms.IntegerField(
        label="Burst",
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Requests at once after a quiet time.",
    )
    rate_limit_tpm = forms.IntegerField(
        label="Tokens per minute",
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Prompt and completion together.",
    )
    budget_usd = forms.FloatField(
        label="Budget",
        required=False,
        widget=UnfoldAdminDecimalFieldWidget,
        help_text="Dollars in a period, at the prices of the models. Requests beyond it are refused. Empty: none.",
    )
    budget_period = forms.ChoiceField(
        label="Budget period",
        required=False,
        choices=[("", "No budget"), *((name, f"Per {name}, UTC") for name in PERIODS)],
        widget=UnfoldAdminSelectWidget,
    )

    def clean_budget_period(self) -> str | None:
        return self.cleaned_data["budget_period"] or None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rows = Provider.objects.order_by("name").values_list("pk", "name")
        self.fields["allowed_providers"].choices = [(str(pk), name) for pk, name in rows]  # type: ignore[attr-defined]
        if not self.instance._state.adding:
            self.initial["every_provider"] = self.instance.allowed_providers is None


def provider_names(listed: list[str] | None) -> str:
    """A list of allowed providers as a column shows it; those that are gone are left out."""
    if listed is None:
        return "every provider"
    known = SNAPSHOT.current.providers
    return ", ".join(sorted(known[item].name for item in listed if item in known)) or "none"


def allowed(data: dict[str, Any]) -> list[str] | None:
    """None = every provider; the verb refuses an empty list."""
    return None if data["every_provider"] else data["allowed_providers"]


def allowed_now(obj: Any, data: dict[str, Any]) -> list[str] | None:
    """The same for *obj* once what changed of the two fields is applied."""
    shown = {"every_provider": obj.allowed_providers is None, "allowed_providers": obj.allowed_providers or []}
    return allowed({**shown, **data})
