"""The three proofs before a model that is no longer listed is switched off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.discovery import misses
from providers.discovery.misses import Confirmed, Stored, Verdict, judge


def rows(count, start=0, **more):
    return [Stored(f"m{number}", **more) for number in range(start, start + count)]


def ids(stored):
    return frozenset(row.model_id for row in stored)


def seen(*listed, found=(), failed=False):
    return Confirmed(frozenset(listed), frozenset(listed) | frozenset(found), failed)


def test_a_model_is_switched_off_by_its_second_confirmed_miss():
    """part of providers 29. The streak."""
    first = judge([Stored("a"), Stored("b")], seen("b"))
    assert (first.streaks, first.gone, first.trusted) == ({"a": 1}, (), True)
    second = judge([Stored("a", streak=1), Stored("b")], seen("b"))
    assert (second.streaks, second.gone) == ({"a": 0}, ("a",))


def test_what_only_a_confirmation_found_is_no_miss():
    """part of providers 29. Absent in the first listing, present in a later one."""
    verdict = judge([Stored("a", streak=1), Stored("b")], seen("b", found=["a"]))
    assert (verdict.streaks, verdict.gone, verdict.trusted) == ({"a": 0}, (), True)


def test_a_failed_confirmation_moves_nothing():
    """part of providers 31. The verdict."""
    assert judge([Stored("a", streak=1), Stored("b")], seen("b", failed=True)) == Verdict()


@pytest.mark.parametrize(
    ("enabled", "vanished", "suspect"),
    [(20, 12, True), (12, 6, False), (12, 7, True), (5, 5, False), (6, 6, True), (11, 6, True), (100, 50, False)],
)
def test_the_guard_takes_more_than_five_and_more_than_half(enabled, vanished, suspect):
    """part of providers 32. The guard."""
    stored = rows(enabled, streak=1)
    verdict = judge(stored, Confirmed(ids(stored[vanished:]) | {"other"}, ids(stored[vanished:]) | {"other"}))
    assert verdict.suspect is suspect
    assert len(verdict.gone) == (0 if suspect else vanished)
    assert (verdict.missing, verdict.enabled) == (vanished, enabled)
    assert verdict.trusted is not suspect and (not suspect or verdict.streaks == {})


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_provider_that_lists_nothing_at_all_is_suspect(count):
    """part of providers 32. The blackout."""
    verdict = judge(rows(count, streak=1), seen())
    assert (verdict.suspect, verdict.gone, verdict.streaks) == (True, (), {})
    assert (verdict.missing, verdict.enabled) == (count, count)


def test_nothing_stored_is_nothing_missing():
    assert judge([], seen()) == Verdict()
    assert judge([], seen("a")) == Verdict(trusted=True)


def test_the_guard_looks_at_models_without_a_pin_only():
    """part of providers 33. The verdict."""
    stored = [*rows(10, pinned=True), *rows(2, 10, streak=1), *rows(8, 12)]
    found = ids(stored[12:])
    verdict = judge(stored, Confirmed(found, found))
    assert (verdict.suspect, verdict.missing, verdict.enabled) == (False, 2, 10)
    assert verdict.gone == ("m10", "m11")
    assert verdict.streaks == {**{f"m{n}": 1 for n in range(10)}, "m10": 0, "m11": 0}


def test_a_pinned_model_is_counted_and_never_switched_off():
    """part of providers 35. The verdict."""
    for streak in range(5):
        verdict = judge([Stored("a", pinned=True, streak=streak), Stored("b")], seen("b"))
        assert (verdict.streaks, verdict.gone) == ({"a": streak + 1}, ())


def test_an_empty_listing_records_no_miss_even_if_a_later_one_names_something():
    verdict = judge([Stored("a", streak=1), Stored("b", streak=1)], seen(found=["b"]))
    assert verdict == Verdict(streaks={"b": 0})


def test_every_third_suspect_scan_in_a_row_is_told():
    """part of providers 32. Three suspect scans."""
    assert [n for n in range(13) if misses.tells(n)] == [3, 6, 9, 12]


def test_confirmations_come_after_15_and_45_seconds_and_up_to_5_by_chance():
    assert misses.waits(lambda: 0.0) == [15, 45]
    assert misses.waits(lambda: 1.0) == [20, 50]


@given(
    st.lists(
        st.builds(Stored, st.sampled_from("abcdefghijklmnop"), st.booleans(), st.integers(0, 3)),
        unique_by=lambda row: row.model_id,
    ),
    st.frozensets(st.sampled_from("abcdefghijklmnop")),
    st.frozensets(st.sampled_from("abcdefghijklmnop")),
    st.booleans(),
)
def test_whatever_is_switched_off_was_stored_absent_unpinned_and_missed_before(stored, listed, found, failed):
    verdict = judge(stored, Confirmed(listed, listed | found, failed))
    by_id = {row.model_id: row for row in stored}
    for model_id in verdict.gone:
        row = by_id[model_id]
        assert model_id not in listed | found and not row.pinned and row.streak >= 1
        assert verdict.streaks[model_id] == 0
    assert set(verdict.streaks) <= set(by_id)
    assert not (verdict.suspect and (verdict.trusted or verdict.gone or verdict.streaks))
    if failed:
        assert verdict == Verdict()
    assert all(
        verdict.streaks.get(row.model_id, row.streak) == 0 for row in stored if row.model_id in listed | found
    ) or (failed or verdict.suspect)
