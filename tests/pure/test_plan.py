"""Which sums cover a stretch of time; shares that add up."""

from hypothesis import given
from hypothesis import strategies as st

from requestlogs import plan, shares
from requestlogs.measures import MINUTE, SPANS

MINUTES = st.integers(0, 60 * 24 * 9).map(lambda minute: minute * MINUTE)
STALE = st.lists(
    st.tuples(st.sampled_from(SPANS[1:]), MINUTES).map(lambda each: (each[0], plan.floor(each[1], each[0])))
)


@given(MINUTES, MINUTES, STALE, st.sampled_from(SPANS))
def test_every_minute_is_covered_once_and_never_by_what_is_stale(low, high, stale, longest):
    ranges = plan.cover(low, high, plan.by_span(set(stale)), longest)
    at = low
    for span, first, end in ranges:
        assert first == at and end > first and first % span == end % span == 0 and span <= longest
        assert not {(span, start) for start in range(first, end, span)} & set(stale)
        at = end
    assert at == (high if high > low else low)


def test_what_is_up_to_date_is_taken_in_the_longest_spans():
    day = SPANS[-1]
    assert plan.cover(0, 7 * day, {}) == [(day, 0, 7 * day)]
    assert plan.cover(day - 3600, 2 * day + 360, {}) == [
        (3600, day - 3600, day),
        (day, day, 2 * day),
        (300, 2 * day, 2 * day + 300),
        (60, 2 * day + 300, 2 * day + 360),
    ]
    assert plan.cover(0, day, {day: [0], 3600: [3600]}) == [(3600, 0, 3600), (300, 3600, 7200), (3600, 7200, day)]


@given(st.lists(MINUTES))
def test_runs_hold_each_minute_once_newest_first(minutes):
    runs = plan.runs(minutes)
    assert runs == sorted(runs, reverse=True)
    assert sorted(at for first, end in runs for at in range(first, end, MINUTE)) == sorted(set(minutes))
    assert all(plan.floor(first, 3600) == plan.floor(end - 1, 3600) for first, end in runs)


def test_three_equal_parts_add_to_a_hundred():
    """operations 36"""
    assert shares.percent([7, 7, 7]) == [33.4, 33.3, 33.3]


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=5))
def test_shares_add_to_exactly_a_hundred_and_are_off_by_less_than_one_step(values):
    found = shares.percent(values)
    assert round(sum(found) * 10) == (1000 if sum(values) else 0)
    if sum(values):
        assert all(
            abs(share - value * 100 / sum(values)) < 0.1 + 1e-9 for share, value in zip(found, values, strict=True)
        )
