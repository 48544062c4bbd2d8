"""The claims as pure rules: states, what counts, when an alert is told."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.discovery import discrepancies
from providers.discovery.discrepancies import Claimed, Step
from providers.ports import GroupOff

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)


def one(**given: Any) -> Claimed:
    base: dict[str, Any] = {
        "id": "u",
        "model_id": "m",
        "provider_id": "p",
        "provider_name": "P",
        "enabled": False,
        "missing_scans": 0,
        "pinned_at": None,
        "retired_at": None,
        "last_seen": NOW - DAY,
    }
    return Claimed(**{**base, **given})


def off(name: str, age: timedelta) -> GroupOff:
    return GroupOff(name, 3, 1, NOW - age)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, "gone"),
        ({"enabled": True, "missing_scans": 1}, "suspect"),
        ({"enabled": True, "missing_scans": 1, "pinned_at": NOW}, "pinned"),
        ({"retired_at": NOW}, "retired"),
        ({"retired_at": NOW, "last_seen": NOW - 90 * DAY}, "retired"),
        ({"last_seen": NOW - 30 * DAY}, "gone"),
        ({"last_seen": NOW - 30 * DAY - timedelta(seconds=1)}, "stale"),
        ({"last_seen": NOW - 31 * DAY, "flap_window": 1}, "gone"),
        ({"pinned_at": NOW}, "gone"),
    ],
)
def test_a_model_is_in_one_state(given: dict[str, Any], state: str):
    """providers 6.10"""
    assert one(**given).state(NOW) == state


def test_claims_stand_by_provider_and_state_and_every_list_is_there():
    """providers 6.10"""
    found = discrepancies.by_provider(
        [
            one(model_id="b"),
            one(model_id="a"),
            one(provider_id="q", provider_name="A", model_id="x", retired_at=NOW, missing_scans=1),
            one(model_id="c", enabled=True, missing_scans=2, pinned_at=NOW - DAY),
        ],
        NOW,
    )
    assert [(owner["provider_name"], owner["provider_id"]) for owner in found] == [("A", "q"), ("P", "p")]
    assert {state: [item["model_id"] for item in found[1][state]] for state in discrepancies.STATES} == {
        "gone": ["a", "b"],
        "stale": [],
        "suspect": [],
        "retired": [],
        "pinned": ["c"],
    }
    assert found[0]["retired"] == [
        {
            "id": "u",
            "model_id": "x",
            "state": "retired",
            "last_seen_at": "2026-02-28T12:00:00Z",
            "missing_scans": 1,
            "flap_window": 0,
            "flap_since_review": 0,
            "retired_at": "2026-03-01T12:00:00Z",
        }
    ]
    assert found[1]["pinned"][0]["pinned_at"] == "2026-02-28T12:00:00Z"


def test_the_badge_counts_what_is_gone_or_retired_and_groups_that_are_off():
    """providers 6.10"""
    claims = [
        one(),
        one(retired_at=NOW),
        one(last_seen=NOW - 40 * DAY),
        one(enabled=True, missing_scans=1),
        one(enabled=True, missing_scans=1, pinned_at=NOW),
    ]
    assert discrepancies.count(claims, [off("g", DAY)], NOW) == 3


def test_the_oldest_claim_is_dated_by_what_it_is():
    """providers 6.11"""
    gone, retired = one(last_seen=NOW - 5 * DAY), one(last_seen=NOW - 20 * DAY, retired_at=NOW - 6 * DAY)
    assert discrepancies.outstanding([gone], [], NOW).oldest == NOW - 5 * DAY
    assert discrepancies.outstanding([gone, retired], [], NOW).oldest == NOW - 6 * DAY
    assert discrepancies.outstanding([gone, retired], [off("g", 8 * DAY)], NOW).oldest == NOW - 8 * DAY
    uncounted = [one(last_seen=NOW - 40 * DAY), one(enabled=True, missing_scans=1, last_seen=NOW - 9 * DAY)]
    assert discrepancies.outstanding(uncounted, [], NOW).oldest is None


def test_the_alert_names_three_providers_with_most_claims_and_says_how_old():
    """providers 6.11"""
    owners = ["B", "A", "C", "D", "D", "C", "D"]
    claims = [one(provider_name=name, provider_id=name, last_seen=NOW - 9.5 * DAY) for name in owners]
    found = discrepancies.outstanding(claims, [off("g", DAY)], NOW)
    assert found.metadata(7, NOW) == {
        "claim_count": 8,
        "model_claims": 7,
        "group_claims": 1,
        "oldest_age_days": 9,
        "oldest_at": "2026-02-20T00:00:00Z",
        "threshold_days": 7,
        "worst_providers": [
            {"provider": "D", "counted": 3},
            {"provider": "C", "counted": 2},
            {"provider": "A", "counted": 1},
        ],
    }
    assert found.older_than(9, NOW) and not found.older_than(10, NOW)


@pytest.mark.parametrize(
    ("stored", "days"),
    [(None, 7), ("1", 1), ("29", 29), ("30", 29), ("400", 29), ("0", 7), ("-3", 7), ("soon", 7), ("", 7), ("2.5", 7)],
)
def test_a_stored_age_outside_of_the_range_is_put_right(stored: str | None, days: int):
    """providers 6.11"""
    assert discrepancies.threshold(stored) == days


@pytest.mark.parametrize(
    ("level", "number", "crosses", "then"),
    [
        (None, 3, True, Step(3, True)),
        (3, 3, True, Step(3, False)),
        (3, 4, True, Step(4, True)),
        (4, 2, True, Step(2, False)),
        (2, 3, True, Step(3, True)),
        (3, 3, False, Step(None, False)),
        (None, 0, False, Step(None, False)),
    ],
)
def test_a_level_is_told_once(level: int | None, number: int, crosses: bool, then: Step):
    """providers 6.11"""
    assert discrepancies.step(level, number, crosses) == then


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans())))
def test_something_is_told_whenever_there_is_more_than_was_known_and_never_twice(history: list[tuple[int, bool]]):
    level: int | None = None
    for number, crosses in history:
        before, (level, tell) = level, discrepancies.step(level, number, crosses)
        assert level == (number if crosses else None)
        assert tell == (crosses and (before is None or number > before))
