"""What a sighting changes in the stored row, and what is told about it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from providers import health
from providers.discovery import merge
from providers.kinds.base import Listed
from providers.ports import CircuitHealth

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Row:
    enabled: bool = True
    disabled_manually: bool = False
    display_name_customized: bool = False
    price_customized: bool = False
    context_length: int | None = None
    max_output_tokens: int | None = None
    input_price_per_million: float | None = None
    input_price_per_million_cache_hit: float | None = None
    output_price_per_million: float | None = None
    auto_retired_at: datetime | None = None


LIVE = frozenset({"context_length", "max_output_tokens"})
NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("stored", "listed", "live", "written", "told"),
    [
        (128000, 200000, NONE, None, False),
        (128000, 200000, LIVE, 200000, True),
        (128000, 131072, LIVE, 131072, False),
        (None, 200000, NONE, 200000, True),
        (128000, None, LIVE, None, False),
    ],
)
def test_a_live_context_wins_and_small_moves_are_not_told(
    stored: int | None, listed: int | None, live: frozenset[str], written: int | None, told: bool
):
    """part of providers 40. The columns and what is told."""
    row, model = Row(context_length=stored), Listed("m", context_length=listed, live=live)
    assert merge.columns(model, row, NOW).get("context_length") == written
    assert bool(merge.reported(model, row)) is told


@pytest.mark.parametrize(
    ("stored", "listed", "pinned", "written", "told"),
    [
        (2.5, 2.0, False, 2.0, True),
        (2.5, 2.0, True, None, False),
        (2.5, None, False, None, False),
        (None, 2.0, True, 2.0, True),
        (None, 0.0, False, 0.0, True),
        (0.1, 0.1 + 1e-9, False, 0.1 + 1e-9, False),
    ],
)
def test_a_pinned_price_stays(stored: float | None, listed: float | None, pinned: bool, written: Any, told: bool):
    """part of providers 41. The columns and what is told."""
    row = Row(input_price_per_million=stored, price_customized=pinned)
    model = Listed("m", input_price_per_million=listed)
    assert merge.columns(model, row, NOW).get("input_price_per_million") == written
    changes = merge.reported(model, row)
    assert changes == ([{"field": "input_price", "old": stored, "new": listed}] if told else [])


def test_a_custom_display_name_stays():
    """part of providers 43. The columns and what is told."""
    model = Listed("m", display_name="Theirs")
    assert "display_name" not in merge.columns(model, Row(display_name_customized=True), NOW)
    assert merge.columns(model, Row(), NOW)["display_name"] == "Theirs"


@pytest.mark.parametrize(
    ("row", "on", "dismissed"),
    [
        (Row(enabled=False), True, True),
        (Row(enabled=False, disabled_manually=True), None, True),
        (Row(enabled=False, auto_retired_at=NOW), None, False),
    ],
)
def test_a_sighting_turns_on_only_what_discovery_turned_off(row: Row, on: bool | None, dismissed: bool):
    """part of providers 34. The columns and what is told."""
    values = merge.columns(Listed("m"), row, NOW)
    assert values.get("enabled") is on
    assert ("discovery_dismissed_at" in values) is dismissed
    assert (values["missing_scans"], values["manually_enabled_at"], values["last_seen_at"]) == (0, None, NOW)


def test_small_price_moves_are_damped():
    """part of providers 42. The columns and what is told."""
    row = Row(input_price_per_million=1.0, output_price_per_million=1.0)
    damped = merge.damp(Listed("m", input_price_per_million=1.05, output_price_per_million=1.2), row)
    assert (damped.input_price_per_million, damped.output_price_per_million) == (1.0, 1.2)
    assert (
        merge.damp(Listed("m", input_price_per_million=0.0), Row(input_price_per_million=0.0)).input_price_per_million
        == 0
    )


def test_a_model_that_stays_off_is_not_told_at_all():
    diff = merge.Diff()
    diff.seen("off", False, False, [{"field": "context_length", "old": 1, "new": 2}])
    diff.seen("back", False, True, [])
    diff.new("fresh")
    assert diff.sections({"failover_updated_groups": []}) == {
        "added": [{"model_id": "fresh", "reason": "new_model"}],
        "reenabled": [{"model_id": "back", "reason": "reappeared"}],
    }
    assert merge.Diff().sections() == {}


# ---------------------------------------------------------------- health


@dataclass
class Facts:
    last_model_fetch_at: datetime | None = None
    last_model_fetch_error: str = ""
    last_availability_at: datetime | None = None
    last_availability_error: str = ""
    inventory_stale: bool = False


@pytest.mark.parametrize(
    ("facts", "has_models", "circuits", "expected"),
    [
        (Facts(), False, CircuitHealth(), "healthy"),
        (Facts(last_model_fetch_error="x"), False, CircuitHealth(), "unhealthy"),
        (Facts(last_model_fetch_error="x"), True, CircuitHealth(), "degraded"),
        (Facts(last_availability_error="x"), True, CircuitHealth(), "degraded"),
        (Facts(inventory_stale=True), True, CircuitHealth(), "degraded"),
        (Facts(), True, CircuitHealth(erring=True), "degraded"),
        (Facts(), True, CircuitHealth(half_open=True), "recovering"),
        (Facts(), True, CircuitHealth(half_open=True, any_open=True), "healthy"),
        (Facts(last_model_fetch_error="x"), False, CircuitHealth(provider_open=True), "circuit_open"),
    ],
)
def test_the_first_rule_that_holds_is_the_health(
    facts: Facts, has_models: bool, circuits: CircuitHealth, expected: str
):
    assert health.status(facts, has_models, circuits) == expected


def test_last_checked_is_the_later_instant():
    """part of circuit-breaker 76a"""
    later = datetime(2026, 1, 2, tzinfo=UTC)
    assert health.last_checked(Facts()) is None
    assert health.last_checked(Facts(last_model_fetch_at=NOW, last_availability_at=later)) == later
