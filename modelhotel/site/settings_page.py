"""The settings page: drawn from the catalogue; its script saves each setting by itself through the API."""

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse

from modelhotel import settings_verbs
from modelhotel.core import catalogue
from modelhotel.core.options import REGISTRY, BadValue, Option, show_duration
from modelhotel.presets import PRESETS
from modelhotel.site import pages

VIEW, CHANGE = "modelhotel.view_setting", "modelhotel.change_setting"
#: Switch -> beginnings of the keys that say nothing while it is off; their controls are disabled, not hidden.
SWITCHES = {
    "circuit_breaker_enabled": ("circuit_breaker_",),
    "failover_enabled": ("failover_max_attempts",),
    "hedging_enabled": ("hedge_",),
    "rate_limit_classify_enabled": (
        "rate_limit_saturation_",
        "rate_limit_recent_",
        "circuit_breaker_open_on_exhaustion",
    ),
    "inflight_limiter_enabled": ("inflight_",),
    "rate_limit_enabled": ("rate_limit_rps", "rate_limit_burst"),
    "rate_limit_ip_enabled": ("rate_limit_ip_",),
}
#: Groups of the section with two columns that stand in the right one.
RIGHT = ("Hedging", "Adaptive Concurrency", "Mid-stream Recovery")
#: Accents to pick from; the first is the site's own.
ACCENTS = (
    ("Orange", ""),
    ("Red", "#c62828"),
    ("Pink", "#c2185b"),
    ("Purple", "#7b3fbf"),
    ("Indigo", "#4753c9"),
    ("Blue", "#1d63c9"),
    ("Cyan", "#0e7490"),
    ("Teal", "#0f766e"),
    ("Green", "#2e7d32"),
    ("Slate", "#4b5b70"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as the page draws it. *switches* are the keys of those that make it moot while off."""

    option: Option[Any]
    effective: str
    default: str
    stored: bool
    fixed_by: str
    hint: str
    switches: list[str] = field(default_factory=list)
    moot: bool = False

    @property
    def on(self) -> bool:
        return self.effective == "true"

    @property
    def default_words(self) -> str:
        return in_words(self.option, self.default)

    @property
    def number(self) -> float:
        """Where the slider stands: the value in force, seconds for a duration; the browser keeps it within its ends."""
        try:
            return float(self.option.parse(self.effective, strict=False))
        except BadValue:
            return 0.0

    @property
    def form(self) -> dict[str, Any]:
        """What the script has to know of it."""
        return {
            "key": self.option.key,
            "kind": self.option.kind,
            "label": self.option.label,
            "effective": self.effective,
            "default": self.default,
            "stored": self.stored,
            "fixed": bool(self.fixed_by),
            "switches": self.switches,
            "zero": self.option.zero_word,
            "tokens": dict(self.option.tokens or {}),
        }


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


def in_words(option: Option[Any], text: str) -> str:
    if option.kind == "bool":
        return "on" if text == "true" else "off"
    if option.zero_word and text in ("", "0", "0s"):
        return option.zero_word
    return text or "empty"


def switches_of(key: str) -> list[str]:
    return [switch for switch, starts in SWITCHES.items() if key.startswith(starts) and key != switch]


def rows() -> list[Row]:
    """Every setting, in the order of the catalogue. Raises Refusal(500)."""
    entries = settings_verbs.catalogue()
    texts = {entry["key"]: entry["effective"] for entry in entries}
    found = []
    for entry in entries:
        option = REGISTRY.options[entry["key"]]
        switches = switches_of(option.key)
        found.append(
            Row(
                option=option,
                effective=entry["effective"],
                default=entry["default"],
                stored=entry["stored"] is not None,
                fixed_by=entry["forced_by"] or "",
                hint=hint(option),
                switches=switches,
                moot=any(texts.get(switch) == "false" for switch in switches),
            )
        )
    return found


def sections(found: list[Row]) -> list[dict[str, Any]]:
    """By section, in the order of the page, and in it by column and group."""
    answer = []
    for section in catalogue.SECTIONS:
        inside = [row for row in found if row.option.section == section and row.option.in_form]
        names = list(dict.fromkeys(row.option.group for row in inside))
        groups = [(name, [row for row in inside if row.option.group == name]) for name in names]
        answer.append({"title": section, "columns": _columns(groups)})
    return answer


def _columns(groups: list[tuple[str, list[Row]]]) -> list[list[tuple[str, list[Row]]]]:
    """One column where nothing is grouped, else two."""
    if len(groups) < 2:
        return [groups]
    left = [group for group in groups if group[0] not in RIGHT]
    right = [group for group in groups if group[0] in RIGHT]
    return [left, right] if right else [groups[:1], groups[1:]]


def page(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, VIEW):
        return refused
    found = rows()
    about = settings_verbs.read_only()
    context = {
        "title": "Settings",
        "sections": sections(found),
        "settings": [row.form for row in found if row.option.in_form],
        "may_change": request.user.has_perm(CHANGE),
        "exports": [
            ("JSON logs", about["log_export_json"] == "true", "LOG_FORMAT=json"),
            ("Prometheus metrics", about["log_export_metrics"] == "true", "METRICS_TOKEN=<a long random text>"),
            ("OpenTelemetry logs", False, ""),
        ],
        "accents": ACCENTS,
        "discovery": catalogue.DISCOVERY,
        "storage": catalogue.STORAGE,
        "breaker": catalogue.BREAKER,
        "presets": list(PRESETS.values()),
        "preset_values": {preset.name: dict(preset.values) for preset in PRESETS.values()},
    }
    return pages.draw(request, "settings", context)
