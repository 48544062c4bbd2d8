"""The learned window of one provider: what enters, what a cut leaves, what grows, what is forgotten."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from failover.window import UNCAPPED, Learning, Window

RULES = Learning(grow_after=20, forget_after=600.0)


def window_of(inflight):
    window = Window()
    for _ in range(inflight):
        assert window.enter(None, True)
    return window


def completes(window, clean, now=1.0, times=1):
    """Requests that come, are admitted and end one after the other."""
    for _ in range(times):
        assert window.enter(None, True)
        window.leave()
        window.learn(clean, now, RULES)


@pytest.mark.parametrize(
    ("limit", "ceiling", "inflight", "learned", "room"),
    [
        (0, None, 10_000, True, True),
        (3, None, 2, True, True),
        (3, None, 3, True, False),
        (3, None, 4, True, False),
        (0, 2, 1, True, True),
        (0, 2, 2, True, False),
        (3, 2, 2, True, False),  # the smaller of the two
        (2, 3, 2, True, False),
        (2, 3, 2, False, True),  # the learner is off: the operator's ceiling still holds
        (2, 3, 3, False, False),
    ],
)
def test_the_smaller_of_learned_limit_and_ceiling_counts(limit, ceiling, inflight, learned, room):
    window = Window(limit=limit, inflight=inflight)
    assert window.room(ceiling, learned=learned) is room
    assert window.enter(ceiling, learned) is room
    assert window.inflight == inflight + room


@pytest.mark.parametrize(
    ("inflight", "limit", "after"),
    [
        (3, 0, 3),  # four ran, the fourth was refused and has left
        (0, 0, 1),  # never below one
        (2, 5, 2),
        (5, 3, 3),  # a cut never raises
        (3, 3, 3),
    ],
)
def test_a_cut_leaves_what_still_runs(inflight, limit, after):
    """part of failover-loop 58"""
    window = Window(limit=limit, inflight=inflight, good_runs=7)
    window.cut(100.0, 30.0)
    assert (window.limit, window.good_runs, window.last_cut) == (after, 0, 130.0)


@pytest.mark.parametrize(("inflight", "limit", "after"), [(2, 0, 2), (1, 0, 1), (2, 4, 2), (4, 2, 2)])
def test_remaining_zero_keeps_what_runs_the_answered_request_included(inflight, limit, after):
    """part of failover-loop 61"""
    window = Window(limit=limit, inflight=inflight, good_runs=7)
    window.cap(100.0)
    assert (window.limit, window.good_runs, window.last_cut) == (after, 0, 100.0)


def test_twenty_clean_completions_earn_one_slot_and_a_failure_in_between_starts_anew():
    """part of failover-loop 59"""
    window = window_of(3)
    window.cut(0.0, 0.0)
    for _ in range(3):
        window.leave()
    completes(window, True, times=19)
    assert window.limit == 3
    completes(window, True)
    assert window.limit == 4
    completes(window, True, times=19)
    completes(window, False)
    completes(window, True, times=19)
    assert window.limit == 4


def test_no_number_of_failures_shrinks_a_limit():
    window = Window(limit=3)
    completes(window, False, times=50)
    assert window.limit == 3


@pytest.mark.parametrize(
    ("quiet", "wait", "limit"), [(599.0, 0.0, 3), (600.0, 0.0, UNCAPPED), (600.0, 30.0, 3), (630.0, 30.0, UNCAPPED)]
)
@pytest.mark.parametrize("by", ["admission", "release"])
def test_a_limit_is_forgotten_when_the_quiet_after_the_stated_wait_is_over(quiet, wait, limit, by):
    """part of failover-loop 60"""
    window = window_of(3)
    window.cut(100.0, wait)
    window.good_runs = 19
    now = 100.0 + quiet
    assert window.allowance(now, RULES) == limit
    if by == "admission":
        window.review(now, RULES)
    else:
        window.leave()
        window.learn(False, now, RULES)
    assert window.limit == limit
    if not limit:
        assert window.good_runs == 0


def test_a_clean_answer_after_the_quiet_drops_the_limit_instead_of_raising_it():
    window = Window(limit=3, good_runs=19)
    completes(window, True, now=600.0)
    assert (window.limit, window.good_runs) == (UNCAPPED, 0)


def test_switching_the_learner_off_drops_what_was_learned():
    window = Window(limit=3, good_runs=5, last_cut=100.0)
    off = Learning(enabled=False)
    assert window.allowance(100.0, off) == UNCAPPED and window.limit == 3
    assert window.review(100.0, off)
    assert (window.limit, window.good_runs) == (UNCAPPED, 0)


class Traffic(RuleBasedStateMachine):
    """Any interleaving of requests, endings, busy answers and time, against the count of what was let in."""

    def __init__(self):
        super().__init__()
        self.window, self.now, self.rules, self.ceiling = Window(), 0.0, Learning(grow_after=3, forget_after=60.0), None
        self.running, self.quiet_since, self.clean_in_a_row = 0, 0.0, 0

    def limit(self):
        return min(n for n in (self.window.limit or 10**6, self.ceiling or 10**6))

    @rule()
    def somebody_comes(self):
        self.window.review(self.now, self.rules)
        assert not self.window.limit or self.rules.enabled
        running, limit = self.running, self.limit()
        entered = self.window.enter(self.ceiling, self.rules.enabled)
        assert entered == (running < limit)
        self.running += entered

    @precondition(lambda self: self.running)
    @rule(clean=st.booleans())
    def one_ends(self, clean):
        before = self.window.limit
        self.window.leave()
        self.running -= 1
        self.window.learn(clean, self.now, self.rules)
        if not before or not self.rules.enabled or self.now - self.quiet_since >= self.rules.forget_after:
            assert not self.window.limit
        else:
            self.clean_in_a_row = self.clean_in_a_row + 1 if clean else 0
            grown = self.clean_in_a_row >= self.rules.grow_after
            assert self.window.limit == before + grown
            if grown:
                self.clean_in_a_row = 0

    @precondition(lambda self: self.running)
    @rule()
    def a_client_hangs_up(self):
        before = self.window.limit, self.window.good_runs
        self.window.leave()
        self.running -= 1
        assert (self.window.limit, self.window.good_runs) == before

    @precondition(lambda self: self.running)
    @rule(wait=st.sampled_from([0.0, 2.0, 60.0]))
    def one_is_refused_as_one_too_many(self, wait):
        self.window.leave()
        self.running -= 1
        self.window.learn(False, self.now, self.rules)
        before = self.window.limit
        self.window.cut(self.now, wait)
        assert self.window.limit == min(before or 10**6, max(1, self.running))
        self.quiet_since, self.clean_in_a_row = self.now + wait, 0

    @precondition(lambda self: self.running)
    @rule()
    def an_answer_says_remaining_zero(self):
        before = self.window.limit
        self.window.cap(self.now)
        assert self.window.limit == min(before or 10**6, self.running)
        self.quiet_since, self.clean_in_a_row = self.now, 0

    @rule(seconds=st.sampled_from([0.1, 1.0, 59.0, 60.0, 120.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(ceiling=st.sampled_from([None, 1, 2, 5]))
    def the_operator_sets_a_ceiling(self, ceiling):
        self.ceiling = ceiling

    @rule(
        enabled=st.booleans(), grow_after=st.sampled_from([1, 3, 5]), forget_after=st.sampled_from([30.0, 60.0, 600.0])
    )
    def a_setting_changes(self, enabled, grow_after, forget_after):
        self.rules = Learning(enabled, grow_after, forget_after)

    @invariant()
    def what_was_let_in_is_counted_and_a_limit_is_never_below_one(self):
        assert self.window.inflight == self.running >= 0
        assert self.window.limit >= 0


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


class TestMuchTraffic(Traffic.TestCase):
    settings = settings(max_examples=400, stateful_step_count=40, deadline=None)
    pytestmark = [pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]
