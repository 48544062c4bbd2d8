"""Periods, caps and what is refused as a limit: without a server, a database or a clock."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelhotel.core.faults import Refusal
from modelhotel.core.limitbounds import PERIODS
from proxy.limits import caps, fields
from proxy.limits.caps import Cap, Limits, Rules
from proxy.limits.money import DOLLAR, units
from proxy.limits.period import running


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("period", "now", "start", "end"),
    [
        ("day", "2026-03-29T02:30", "2026-03-29T00:00", "2026-03-30T00:00"),
        ("week", "2026-11-29T23:59:59", "2026-11-23T00:00", "2026-11-30T00:00"),
        ("week", "2026-11-30T00:00", "2026-11-30T00:00", "2026-12-07T00:00"),
        ("month", "2026-12-31T23:59:59", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("month", "2028-02-29T12:00", "2028-02-01T00:00", "2028-03-01T00:00"),
        ("month", "2026-01-31T12:00", "2026-01-01T00:00", "2026-02-01T00:00"),
    ],
)
def test_periods_are_those_of_the_calendar_in_utc(period, now, start, end):
    """part of v1-api 38"""
    assert running(period, at(now)) == (at(start), at(end))


@settings(max_examples=60)
@given(st.sampled_from(PERIODS), st.integers(0, 4_000_000_000))
def test_periods_touch_and_contain_their_moment(period, now):
    start, end = running(period, now)
    assert start <= now < end and start % 60 == 0
    assert running(period, end).start == end and running(period, start - 1).end == start


RULES = Rules(Cap(30.0, 60), True, 10.0, 20, 0, 0.2)


@pytest.mark.parametrize(
    ("own", "cap"),
    [
        (Limits(), (10.0, 20)),
        (Limits(rps=5.0), (5.0, 20)),
        (Limits(burst=3), (10.0, 3)),
        (Limits(rps=2.5, burst=7), (2.5, 7)),
        (Limits(rps=0.0, burst=7), (0.0, 7)),
    ],
)
def test_rate_and_burst_of_a_key_fall_back_each_for_itself(own, cap):
    found = RULES.of_key(own)
    assert (found.rate, found.capacity) == cap
    assert found.unlimited == (cap[0] == 0)


@pytest.mark.parametrize(
    ("own", "cap"),
    [
        (None, None),
        (Limits(), None),
        (Limits(burst=3), None),
        (Limits(rps=0.0), None),
        (Limits(rps=4.0), (4.0, 20)),
        (Limits(rps=4.0, burst=9), (4.0, 9)),
    ],
)
def test_an_account_has_a_rate_only_of_its_own(own, cap):
    found = RULES.of_owner(own)
    assert cap == (None if found is None else (found.rate, found.capacity))


def test_tokens_per_minute_of_a_key_fall_back_and_those_of_an_account_do_not():
    rules = Rules(None, True, 10.0, 20, 600, 0.2)
    assert rules.tokens_of_key(Limits()) == Cap(10.0, 600)
    assert rules.tokens_of_key(Limits(tpm=60)) == Cap(1.0, 60)
    assert RULES.tokens_of_key(Limits()) is None
    assert rules.tokens_of_owner(Limits()) is None and rules.tokens_of_owner(None) is None
    assert rules.tokens_of_owner(Limits(tpm=60)) == Cap(1.0, 60)


@pytest.mark.parametrize(
    ("cap", "count", "share"),
    [
        (Cap(10.0, 20), 1, (10.0, 20)),
        (Cap(10.0, 20), 0, (10.0, 20)),
        (Cap(10.0, 20), 4, (2.5, 5)),
        (Cap(1.0, 3), 2, (0.5, 1)),
        (Cap(1.0, 1), 3, (1 / 3, 1)),
        (Cap(0.0, 20), 4, (0.0, 20)),
    ],
)
def test_the_share_of_a_process_that_is_on_its_own(cap, count, share):
    """v1-api 4.6"""
    found = cap.share(count)
    assert (found.rate, found.capacity) == share


@pytest.mark.parametrize(
    ("rate", "burst", "tokens", "shown"),
    [
        (10.0, 20, 19.0, (b"10", b"19", b"20")),
        (2.5, 4, 3.99, (b"2.5", b"3", b"4")),
        (1.0, 1, -5.0, (b"1", b"0", b"1")),
        (0.0, 20, 1_000_000, (b"1000000", b"1000000", b"1000000")),
        (0.0001, 1, 0.5, (b"0.0001", b"0", b"1")),
        (1e-9, 1, 1, (b"0.000000001", b"1", b"1")),
        (10_000.0, 10_000, 1, (b"10000", b"1", b"10000")),
    ],
)
def test_the_three_numbers(rate, burst, tokens, shown):
    names = (b"x-ratelimit-limit", b"x-ratelimit-remaining", b"x-ratelimit-burst")
    assert caps.shown(Cap(rate, burst), tokens) == tuple(zip(names, shown, strict=True))


FULL = {
    "rate_limit_rps": 5.0,
    "rate_limit_burst": 10,
    "rate_limit_tpm": 100,
    "budget_usd": 25.0,
    "budget_period": "month",
}
NULL = dict.fromkeys(FULL)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rate_limit_rps": -0.1}, "rate_limit_rps must be >= 0"),
        ({"rate_limit_rps": 10000.5}, "rate_limit_rps must be <= 10000"),
        ({"rate_limit_rps": float("inf")}, "rate_limit_rps must be <= 10000"),
        ({"rate_limit_rps": float("nan")}, "rate_limit_rps must be >= 0"),
        ({"rate_limit_burst": 0}, "rate_limit_burst must be >= 1 (use null to fall back to global settings)"),
        ({"rate_limit_burst": 10001}, "rate_limit_burst must be <= 10000"),
        ({"rate_limit_tpm": 0}, "rate_limit_tpm must be >= 1 (use null for no cap / global default)"),
        ({"rate_limit_tpm": 100000001}, "rate_limit_tpm must be <= 100000000"),
        ({"budget_usd": 5.0}, "budget_usd and budget_period go together: set both or neither"),
        ({"budget_period": "day"}, "budget_usd and budget_period go together: set both or neither"),
        ({"budget_usd": 0.0, "budget_period": "day"}, "budget_usd must be > 0 (use null for no budget)"),
        ({"budget_usd": -1.0, "budget_period": "day"}, "budget_usd must be > 0 (use null for no budget)"),
        ({"budget_usd": 10000000.01, "budget_period": "day"}, "budget_usd must be <= 10000000"),
        ({"budget_usd": 5.0, "budget_period": "year"}, 'budget_period must be one of day, week, month; got "year"'),
        ({"budget_usd": 5.0, "budget_period": ""}, 'budget_period must be one of day, week, month; got ""'),
    ],
)
def test_what_is_no_limit_is_refused(given, said):
    """part of v1-api 12, part of v1-api 14"""
    with pytest.raises(Refusal) as refused:
        fields.merged(given, NULL)
    assert (refused.value.status, refused.value.text) == (400, said)


@pytest.mark.parametrize(
    ("given", "now", "then"),
    [
        ({}, FULL, FULL),
        ({}, NULL, NULL),
        ({}, {}, NULL),
        ({"rate_limit_rps": 0}, FULL, {**FULL, "rate_limit_rps": 0}),
        ({"rate_limit_tpm": None}, FULL, {**FULL, "rate_limit_tpm": None}),
        ({"budget_usd": 30.0}, FULL, {**FULL, "budget_usd": 30.0}),
        ({"budget_period": "day"}, FULL, {**FULL, "budget_period": "day"}),
        ({"budget_usd": None}, FULL, {**FULL, "budget_usd": None, "budget_period": None}),
        ({"budget_period": None}, FULL, {**FULL, "budget_usd": None, "budget_period": None}),
        ({"budget_usd": None, "budget_period": None}, FULL, {**FULL, "budget_usd": None, "budget_period": None}),
    ],
)
def test_what_is_left_out_stays(given, now, then):
    assert fields.merged(given, now) == then


def test_sums_of_money_are_exact():
    assert sum(units(0.1) for _ in range(10)) == units(1.0) == DOLLAR
    assert units(24.99) + units(1.0) == units(25.99)
