"""What of the unseen changes is news."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from providers.discovery import feed
from providers.discovery.feed import Entry

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def entry(at: int = 0, owner: str = "p", **diff: Any) -> Entry:
    return Entry(NOW + timedelta(hours=at), "scheduled", owner, owner.upper(), diff)


def moved(model: str, field: str, old: Any, new: Any) -> dict[str, Any]:
    return {"model_id": model, "changes": [{"field": field, "old": old, "new": new}]}


def one(model: str) -> dict[str, Any]:
    return {"model_id": model, "reason": "r"}


def test_a_field_that_is_back_where_it_was_is_no_news():
    """providers 6.10"""
    up = moved("m", "input_price", 1, 2)
    context = moved("m", "context_length", 8, 16)
    found = feed.fold(
        [
            entry(
                0, updated=[{**up, "changes": up["changes"] + context["changes"]}, moved("other", "input_price", 1, 2)]
            ),
            entry(1, updated=[moved("m", "input_price", 2, 3)]),
            entry(2, updated=[moved("m", "input_price", 3, 1)]),
        ],
        set(),
        set(),
    )
    assert [one.diff for one in found] == [{"updated": [context, moved("other", "input_price", 1, 2)]}]


def test_fields_are_followed_per_provider_and_model():
    """providers 6.10"""
    entries = [
        entry(0, updated=[moved("m", "input_price", 1, 2)]),
        entry(1, "q", updated=[moved("m", "input_price", 2, 1)]),
        entry(2, updated=[moved("n", "input_price", 2, 1), moved("m", "output_price", 2, 1)]),
    ]
    assert feed.fold(entries, set(), set()) == entries


def test_what_is_shown_as_a_claim_is_not_told_twice():
    """providers 6.10"""
    off = {"display_model": "g", "effective_count": 1, "reason": "r"}
    found = feed.fold(
        [
            entry(0, disabled=[one("gone")]),
            entry(1, disabled=[one("gone"), one("dismissed")], added=[one("gone")]),
            entry(2, "q", disabled=[one("gone")]),
            entry(3, "", failover_disabled_groups=[off]),
            entry(4, "", failover_disabled_groups=[off, {**off, "display_model": "h"}]),
        ],
        {("p", "gone")},
        {"g"},
    )
    assert [(found.owner, found.diff) for found in found] == [
        ("p", {"disabled": [one("dismissed")], "added": [one("gone")]}),
        ("q", {"disabled": [one("gone")]}),
        ("", {"failover_disabled_groups": [{**off, "display_model": "h"}]}),
    ]


def test_an_entry_with_changed_fields_only_is_told_and_not_counted():
    """providers 6.10"""
    assert not entry(updated=[moved("m", "input_price", 1, 2)]).counts
    assert entry(updated=[moved("m", "input_price", 1, 2)], added=[one("x")]).counts
    assert all(entry(**{section: [{}]}).counts for section in feed.NEWS)


def test_a_shown_entry_names_its_provider_where_there_is_one():
    """providers 6.10"""
    assert entry(added=[one("x")]).shown() == {
        "provider_id": "p",
        "provider_name": "P",
        "source": "scheduled",
        "detected_at": "2026-03-01T12:00:00Z",
        "diff": {"added": [one("x")]},
    }
    assert set(entry(0, "", added=[one("x")]).shown()) == {"provider_name", "source", "detected_at", "diff"}


@given(st.lists(st.sampled_from([None, 1, 2.5, 3]), min_size=2, max_size=6))
def test_a_walk_of_prices_is_told_whole_or_not_at_all(prices: list[float | None]):
    steps = list(itertools.pairwise(prices))
    entries = [entry(at, updated=[moved("m", "input_price", old, new)]) for at, (old, new) in enumerate(steps)]
    assert feed.fold(entries, set(), set()) == ([] if prices[0] == prices[-1] else entries)
