"""``python -m tests.docs`` writes the tables of docs/configuration.md and docs/metrics.md from the catalogues."""

from pathlib import Path

from prometheus_client import Histogram
from prometheus_client.utils import floatToGoString

from modelhotel.core import catalogue, metrics
from modelhotel.core.options import REGISTRY, show_duration

PAGE = Path(__file__).resolve().parent.parent / "docs" / "configuration.md"
START, END = "<!-- settings: made by python -m tests.docs -->", "<!-- end of settings -->"


def _allowed(option) -> str:
    if option.choices:
        return ", ".join(f"`{word}`" for word in option.choices)
    if option.minimum is None and option.maximum is None:
        return ""
    if option.kind == "duration":
        return (
            f"{'above ' if option.positive else ''}{show_duration(option.minimum)} to {show_duration(option.maximum)}"
        )
    return f"{option.minimum:g} to {option.maximum:.10g}"


def table() -> str:
    lines = []
    for section in catalogue.SECTIONS:
        lines += [f"\n### {section}\n", "| key | kind | default | allowed | what it does |", "|---|---|---|---|---|"]
        for option in REGISTRY.options.values():
            if option.section == section:
                fixed = f" Fixed by `{option.env}`." if option.env else ""
                if option.env_default:
                    fixed += f" `{option.env_default}` is its default."
                if option.kill_switch:
                    fixed += f" Off while `{option.kill_switch}` is false."
                default = f"`{option.default}`" if option.default else "empty"
                text = f"{option.help} {option.notice}".rstrip() + fixed
                lines.append(f"| `{option.key}` | {option.kind} | {default} | {_allowed(option)} | {text} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    return before + START + "\n" + table() + "\n" + END + rest.partition(END)[2]


METRICS = PAGE.with_name("metrics.md")
METRICS_START, METRICS_END = "<!-- metrics: made by python -m tests.docs -->", "<!-- end of metrics -->"


def _metric(metric) -> tuple[str, str, str, str]:
    """(name, type, labels, meaning)"""
    if isinstance(metric, metrics.Gauge):
        return metric.name, "gauge", _words(metric.labels), metric.help
    name, labels, help_text = metric._name, _words(metric._labelnames), metric._documentation
    if not isinstance(metric, Histogram):
        return f"{name}_total", "counter", labels, help_text
    bounds = " ".join(f"{bound:g}" for bound in metric._upper_bounds if floatToGoString(bound) != "+Inf")
    return name, "histogram", labels, f"{help_text} Buckets in seconds: {bounds}."


def _words(labels) -> str:
    return ", ".join(f"`{label}`" for label in labels)


def metrics_table() -> str:
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in (*metrics.COUNTED, *metrics.GAUGES):
        name, kind, labels, meaning = _metric(metric)
        lines.append(f"| `{name}` | {kind} | {labels} | {meaning} |")
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    before, _, rest = METRICS.read_text().partition(METRICS_START)
    return before + METRICS_START + "\n\n" + metrics_table() + "\n" + METRICS_END + rest.partition(METRICS_END)[2]


if __name__ == "__main__":
    PAGE.write_text(page())
    METRICS.write_text(metrics_page())
