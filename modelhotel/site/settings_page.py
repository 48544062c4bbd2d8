"""The settings page: one form over the catalogue; only what was changed is sent to the verb."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse

from modelhotel import settings_verbs
from modelhotel.accounts import audit
from modelhotel.core import catalogue
from modelhotel.core.faults import Refusal
from modelhotel.core.options import REGISTRY, Option, show_duration
from modelhotel.core.verbadmin import actor_of, many

VIEW, CHANGE = "modelhotel.view_setting", "modelhotel.change_setting"
#: What has to be typed before everything is reset (operations 2.3).
WORD = "RESET"
#: Switch -> beginnings of the keys that say nothing while it is off; their controls are disabled, not hidden.
SWITCHES = {"circuit_breaker_enabled": "circuit_breaker_", "failover_enabled": "failover_max_attempts"}


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as the page draws it. *text* is what the field holds: what was typed when that was refused.

    *switch* is the key of the switch that makes it moot while off.
    """

    option: Option[Any]
    text: str
    effective: str
    default: str
    stored: bool
    fixed_by: str
    hint: str
    error: str = ""
    switch: str = ""
    moot: bool = False

    @property
    def on(self) -> bool:
        return self.text == "true"

    @property
    def default_words(self) -> str:
        return in_words(self.option, self.default)

    @property
    def effective_words(self) -> str:
        return in_words(self.option, self.effective)


def hint(option: Option[Any]) -> str:
    """The range in the setting's own form, and what its zero means."""
    parts = []
    if option.kind == "duration":
        low, high = option.minimum or 0.0, option.maximum
        if high is not None:
            parts.append(f"{'above' if option.positive else 'from'} {show_duration(low)} to {show_duration(high)}")
    elif option.minimum is not None and option.maximum is not None:
        parts.append(f"from {option.minimum:g} to {option.maximum:g}" + (f" {option.unit}" if option.unit else ""))
    if option.kind == "csv":
        parts.append("separated by commas")
    if option.zero_word:
        zero = "empty or 0s" if option.tokens and "" in option.tokens else "0s" if option.kind == "duration" else "0"
        parts.append(f"{zero} = {option.zero_word}")
    return ", ".join(parts)


def switch_of(key: str) -> str:
    return next((switch for switch, start in SWITCHES.items() if key.startswith(start) and key != switch), "")


def rows(typed: Mapping[str, str], errors: Mapping[str, str]) -> list[Row]:
    """Every setting, in the order of the catalogue. Raises Refusal(500)."""
    found = []
    entries = settings_verbs.catalogue()
    texts = {entry["key"]: typed.get(entry["key"], entry["effective"]) for entry in entries}
    for entry in entries:
        option = REGISTRY.options[entry["key"]]
        switch = switch_of(option.key)
        found.append(
            Row(
                option=option,
                text=texts[option.key],
                effective=entry["effective"],
                default=entry["default"],
                stored=entry["stored"] is not None,
                fixed_by=entry["forced_by"] or "",
                hint=hint(option),
                error=errors.get(option.key, ""),
                switch=switch,
                moot=texts.get(switch) == "false",
            )
        )
    return found


def sections(found: list[Row]) -> list[dict[str, Any]]:
    """By section, in the order of the page, and in it by group."""
    answer = []
    for section in catalogue.SECTIONS:
        inside = [row for row in found if row.option.section == section and row.option.in_form]
        names = list(dict.fromkeys(row.option.group for row in inside))
        groups = [(name, [row for row in inside if row.option.group == name]) for name in names]
        answer.append({"title": section, "groups": groups, "stored": any(row.stored for row in inside)})
    return answer


def typed(data: QueryDict) -> dict[str, str]:
    """Key -> text of the settings whose field differs from what the page showed.

    Compared with what was shown, not with what is stored now: another operator's change in between stays.
    """
    found = {}
    for key in data.getlist("shown"):
        option = REGISTRY.options.get(key)
        was, text = data.get(f"was-{key}", ""), data.get(key, "").strip()
        if option is not None and option.kind == "bool":
            text = "true" if key in data else "false"
        if text != was:
            found[key] = text
    return found


def page(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    if not request.user.has_perm(CHANGE if request.method == "POST" else VIEW):
        raise PermissionDenied
    if request.method != "POST":
        return _draw(request)
    try:
        return _post(request)
    except Refusal as refusal:
        messages.error(request, refusal.text)
        return _back(request, refusal.status)


def _post(request: HttpRequest) -> HttpResponse:
    if "reset" in request.POST:
        return _reset(request, [request.POST["reset"]])
    if "reset-section" in request.POST:
        return _reset_section(request, request.POST["reset-section"])
    if "reset-all" in request.POST:
        return _reset_all(request)
    return _save(request)


def _save(request: HttpRequest) -> HttpResponse:
    wanted = typed(request.POST)
    errors: dict[str, str] = {}
    for key, text in wanted.items():
        try:
            settings_verbs.check_update({key: text})
        except Refusal as refusal:
            errors[key] = refusal.text
    if errors:
        audit.of_request(request, 400, next(iter(errors)))
        return _draw(request, wanted, errors)
    if not wanted:
        messages.info(request, "Nothing was changed.")
        return _back(request, 200)
    settings_verbs.update(wanted, actor_of(request))
    for key, text in wanted.items():
        messages.success(request, f"{REGISTRY.options[key].label} updated: {in_words(REGISTRY.options[key], text)}.")
    return _back(request, 200, next(iter(wanted)) if len(wanted) == 1 else "")


def in_words(option: Option[Any], text: str) -> str:
    if option.kind == "bool":
        return "on" if text == "true" else "off"
    if option.zero_word and text in ("", "0", "0s"):
        return option.zero_word
    return text or "empty"


def _reset(request: HttpRequest, keys: list[str]) -> HttpResponse:
    gone = settings_verbs.reset(keys, actor_of(request))
    messages.success(request, f"{many(len(gone), 'setting')} back to default." if gone else "Nothing was stored.")
    return _back(request, 200, keys[0] if len(keys) == 1 else "")


def _reset_section(request: HttpRequest, section: str) -> HttpResponse:
    held = [row for row in rows({}, {}) if row.option.section == section and row.stored]
    if "confirmed" in request.POST or not held:
        return _reset(request, [row.option.key for row in held]) if held else _back(request, 200)
    return _ask(request, f"Reset the section {section}?", held, [("reset-section", section)])


def _reset_all(request: HttpRequest) -> HttpResponse:
    if request.POST.get("word", "").strip() == WORD:
        return _reset(request, [])
    if "confirmed" in request.POST:
        messages.error(request, f"Nothing was reset: type {WORD} to reset all settings.")
        return _back(request, 400)
    held = [row for row in rows({}, {}) if row.stored]
    return _ask(request, "Reset all settings?", held, [("reset-all", "yes")], word=WORD)


def _ask(
    request: HttpRequest, title: str, held: list[Row], hidden: list[tuple[str, str]], word: str = ""
) -> HttpResponse:
    lines = [f"{row.option.label}: {row.effective_words} → {row.default_words}" for row in held]
    context = {
        **admin.site.each_context(request),
        "title": title,
        "lines": lines or ["Every setting is at its default already."],
        "hidden": [*hidden, ("confirmed", "yes")],
        "word": word,
        "back": reverse("admin:settings"),
    }
    return TemplateResponse(request, "modelhotel/question.html", context)


def _back(request: HttpRequest, status: int, key: str = "") -> HttpResponse:
    audit.of_request(request, status, key)
    return HttpResponseRedirect(reverse("admin:settings"))


def _draw(request: HttpRequest, texts: Mapping[str, str] = {}, errors: Mapping[str, str] = {}) -> HttpResponse:
    found = rows(texts, errors)
    about = settings_verbs.read_only()
    context = {
        **admin.site.each_context(request),
        "title": "Settings",
        "sections": sections(found),
        "refused": len(errors),
        "any_stored": any(row.stored for row in found),
        "may_change": request.user.has_perm(CHANGE),
        "exports": [
            ("JSON logs", about["log_export_json"] == "true", "LOG_FORMAT=json"),
            ("Prometheus metrics", about["log_export_metrics"] == "true", "METRICS_TOKEN=<a long random text>"),
            ("OpenTelemetry logs", False, ""),
        ],
        "version": about["app_version"],
    }
    return TemplateResponse(request, "modelhotel/settings.html", context)
