import re

from prometheus_client import REGISTRY

from modelhotel.core import metrics
from modelhotel.presets import PRESETS
from providers.kinds import registry
from tests import docs


def test_the_settings_table_is_what_the_catalogue_says():
    assert docs.PAGE.read_text() == docs.page(), "run: python -m tests.docs"


def test_the_metrics_table_is_what_the_catalogue_says_and_queries_name_what_exists():
    text = docs.METRICS.read_text()
    assert text == docs.metrics_page(), "run: python -m tests.docs"
    known = {docs._metric(metric)[0] for metric in (*metrics.COUNTED, *metrics.GAUGES)}
    named = {re.sub("_bucket$", "", name) for name in re.findall(r"modelhotel_[a-z_]+", text)}
    assert named == known


def test_every_metric_of_ours_is_in_the_catalogue():
    counted = {metric._name for metric in metrics.COUNTED}
    gauges = {gauge.name for gauge in metrics.GAUGES}
    ours = {family.name for family in REGISTRY.collect() if family.name.startswith("modelhotel_")}
    assert ours - gauges == counted


def test_the_table_of_presets_is_what_they_write():
    text = docs.PAGE.read_text()
    assert "| Key | " + " | ".join(f"`{name}`" for name in PRESETS) + " |" in text
    for key in next(iter(PRESETS.values())).values:
        row = " | ".join(f"`{preset.values[key]}`" for preset in PRESETS.values())
        assert f"| `{key}` | {row} |" in text


def test_the_page_of_provider_types_has_a_row_for_each():
    text = (docs.PAGE.parent / "provider-types.md").read_text()
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    shown = {kind: (label, address, key.startswith("optional")) for kind, label, address, key in rows}
    assert len(rows) == len(shown) == len(registry.KINDS)
    for kind in registry.KINDS.values():
        label, address, optional = shown[kind.type]
        assert (label, optional) == (kind.label, kind.keyless_allowed)
        assert address.startswith(f"`{kind.default_base_url}`" if kind.default_base_url else "yours")
