"""When a hedged race launches: at once, on ticks counted from the start, and when an attempt ended without winning."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelhotel.core import options
from proxy import policy
from proxy.hedge import Schedule


def launches(schedule: Schedule, now: float) -> int:
    """How many launches are due at *now*; they are made."""
    return next(count for count in range(1000) if not schedule.due(now))


#: What happens: "." = the clock is looked at, "x" = an attempt ended without winning; the launches that follow.
PLAYS = [
    pytest.param(1.0, [(0.0, ".", 1)], id="the first candidate at once"),
    pytest.param(1.0, [(0.0, ".", 1), (0.9, ".", 0), (1.0, ".", 1), (1.9, ".", 0), (2.0, ".", 1)], id="one per tick"),
    pytest.param(
        1.0, [(0.0, ".", 1), (0.2, "x", 1), (0.9, ".", 0), (1.0, ".", 1), (1.2, ".", 0)], id="a failure moves no tick"
    ),
    pytest.param(1.0, [(0.0, ".", 1), (1.0, "x", 2)], id="a failure and a tick at the same moment"),
    pytest.param(
        1.0, [(0.0, ".", 1), (3.7, ".", 1), (3.9, ".", 0), (4.0, ".", 1)], id="missed ticks are not made up for"
    ),
    pytest.param(0.1, [(0.0, ".", 1), (0.0, "x", 1), (0.05, "x", 1), (0.1, ".", 1)], id="failures wait for nothing"),
]


@pytest.mark.parametrize(("delay", "play"), PLAYS)
def test_what_is_launched_when(delay, play):
    """failover-loop 12.2"""
    schedule = Schedule(0.0, delay)
    for now, what, expected in play:
        if what == "x":
            schedule.ended()
        assert launches(schedule, now) == expected, now


def test_the_next_tick_is_told():
    schedule = Schedule(5.0, 2.0)
    assert schedule.next_tick == 7.0
    schedule.due(7.5)
    assert schedule.next_tick == 9.0


@pytest.mark.parametrize(
    ("stored", "delay"),
    [
        ({}, 0.0),
        ({"hedge_delay": "1s"}, 0.0),
        ({"hedging_enabled": "true"}, 4.0),
        ({"hedging_enabled": "true", "hedge_delay": "250ms"}, 0.25),
        ({"hedging_enabled": "true", "hedge_delay": "10ms"}, 0.1),
        ({"hedging_enabled": "true", "hedge_delay": "0s"}, 0.1),
    ],
)
def test_the_delay_is_floored_when_it_is_read(stored, delay):
    """settings 69, failover-loop 88"""
    assert policy.of(options.REGISTRY.values(stored, {})).hedge == delay


steps = st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=60)


@settings(max_examples=200)
@given(st.floats(0, 1e6), st.floats(0.1, 20), steps)
def test_no_tick_launches_twice_and_none_that_was_looked_at_is_lost(start, delay, plays):
    """One launch at the start, one per end, and one for every look that finds a new tick behind it."""
    schedule, now, ends, made, looked, grid = Schedule(start, delay), start, 0, 0, 0, 0
    for wait, ended in plays:
        now += wait
        if ended:
            schedule.ended()
            ends += 1
        passed = now >= schedule.next_tick
        made += launches(schedule, now)
        looked += passed
        assert made == 1 + ends + looked
        assert now < schedule.next_tick <= now + delay + 1e-6
        on_grid = (schedule.next_tick - start) / delay
        assert math.isclose(on_grid, round(on_grid), abs_tol=1e-4)
        assert round(on_grid) > grid or not passed
        grid = round(on_grid)


@given(st.floats(0.1, 2), st.floats(0, 60))
def test_whoever_looks_at_every_tick_launches_once_per_delay(delay, until):
    schedule, made = Schedule(0.0, delay), []
    now = 0.0
    while now <= until:
        made += [now] * launches(schedule, now)
        now = schedule.next_tick
    assert len(made) == int(until / delay) + 1 or math.isclose(until / delay, round(until / delay))
    assert all(later - earlier >= delay - 1e-9 for earlier, later in itertools.pairwise(made))
