"""How the requests of the last ten minutes went."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.tally import STEP, WINDOW, Tally
from modelhotel.core.clock import ManualClock


def noted(*outcomes, model="m", tally=None):
    tally = tally or Tally(ManualClock())
    for failed in outcomes:
        tally.note("p", model, failed)
    return tally


@pytest.mark.parametrize(
    ("failed", "well", "erring"),
    [(0, 0, False), (2, 0, False), (3, 0, True), (3, 3, True), (3, 4, False), (50, 50, True), (49, 50, False)],
)
def test_three_errors_that_are_half_of_the_requests_are_too_many(failed, well, erring):
    tally = noted(*[True] * failed, *[False] * well)
    assert tally.erring("p") is erring and not tally.erring("other")


def test_each_model_is_judged_by_its_own_requests():
    tally = noted(True, True)
    noted(True, True, model="n", tally=tally)
    assert not tally.erring("p")
    noted(*[False] * 50, model="busy", tally=tally)
    noted(True, tally=tally)
    assert tally.erring("p"), "a model that answers does not make up for one that does not"


def test_errors_count_for_ten_minutes():
    clock = ManualClock()
    tally = noted(True, True, True, tally=Tally(clock))
    clock.advance(WINDOW - STEP)
    assert tally.erring("p")
    clock.advance(STEP)
    assert not tally.erring("p")


def test_a_provider_that_is_gone_is_forgotten():
    tally = noted(True, True, True)
    tally.keep_only({"p", "q"})
    assert tally.erring("p")
    tally.keep_only({"q"})
    assert not tally.erring("p")


@given(st.lists(st.tuples(st.integers(0, 120), st.booleans()), max_size=60))
def test_the_verdict_is_that_of_the_steps_of_the_last_ten_minutes(moves):
    clock = ManualClock(mono=0.0)
    tally, kept = Tally(clock), deque()
    for wait, failed in moves:
        clock.advance(wait)
        tally.note("p", "m", failed)
        kept.append((clock.monotonic() // STEP, failed))
    recent = [failed for step, failed in kept if step > clock.monotonic() // STEP - WINDOW / STEP]
    assert tally.erring("p") == (sum(recent) >= 3 and sum(recent) * 2 >= len(recent))
