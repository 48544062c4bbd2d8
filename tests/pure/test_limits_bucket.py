"""The token bucket alone: a table, laws, and a machine that is compared with an account of every token."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.limits import bucket as pure
from proxy.limits.bucket import Bucket


def test_it_starts_full_and_never_holds_more():
    bucket = Bucket(2.0, 3, 0.0)
    assert [bucket.take(0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert bucket.take(0.0) == 0.5
    bucket.settle(1000.0)
    assert bucket.tokens == 3.0


@pytest.mark.parametrize(
    ("rate", "capacity", "taken", "later", "wait"),
    [
        (1.0, 1, 1, 0.0, 1.0),
        (10.0, 1, 1, 0.0, 0.1),
        (10.0, 1, 2, 0.0, 0.2),
        (10.0, 1, 1, 0.04, 0.06),
        (10.0, 1, 1, 0.1, 0.0),
        (0.5, 2, 2, 1.0, 1.0),
        (10.0, 20, 20, 1.0, 0.0),
    ],
)
def test_the_wait_is_until_the_token_is_there(rate, capacity, taken, later, wait):
    """part of v1-api 30, part of v1-api 31"""
    bucket = Bucket(rate, capacity, 5.0)
    for _ in range(taken):
        bucket.take(5.0)
    assert bucket.take(5.0 + later) == pytest.approx(wait)


def test_what_was_given_back_costs_nothing():
    """part of v1-api 33"""
    bucket = Bucket(1.0, 1, 0.0)
    bucket.take(0.0)
    for _ in range(10):
        assert bucket.take(0.0) == 1.0
        bucket.give_back(0.0)
    assert bucket.take(1.0) == 0.0


def test_giving_back_never_fills_beyond_the_capacity_and_pays_a_debt():
    bucket = Bucket(1.0, 2, 0.0)
    bucket.give_back(0.0, 5.0)
    assert bucket.tokens == 2.0
    bucket.spend(0.0, 12.0)
    bucket.give_back(0.0)
    assert bucket.tokens == -9.0


def test_a_debt_is_taken_in_full_and_refills():
    """part of v1-api 35. tpm 100, one answer of 1000 tokens."""
    bucket = Bucket(100 / 60, 100, 0.0)
    assert bucket.take(0.0) == 0.0
    bucket.spend(0.0, 1000.0)
    bucket.give_back(0.0)
    assert bucket.tokens == -900.0
    wait = bucket.take(0.0)
    assert pure.retry_after_of_tokens(wait) == 541
    bucket.give_back(0.0)
    assert bucket.take(541.0) == 0.0


@pytest.mark.parametrize(
    ("spent", "rate", "capacity", "left"),
    [
        (20, 10.0, 500, 0.0),
        (20, 1000.0, 20, 0.0),
        (0, 10.0, 5, 5.0),
        (12, 10.0, 5, 5.0),
        (18, 10.0, 5, 2.0),
        (0, 1.0, 30, 20.0),
    ],
)
def test_other_limits_keep_what_was_spent(spent, rate, capacity, left):
    """part of v1-api 34"""
    bucket = Bucket(10.0, 20, 0.0)
    bucket.spend(0.0, spent)
    bucket.change(rate, capacity, 0.0)
    assert (bucket.tokens, bucket.rate, bucket.capacity) == (left, rate, capacity)
    bucket.settle(0.001)
    assert bucket.tokens == pytest.approx(min(left + rate * 0.001, capacity))


def test_the_time_before_a_change_counts_at_the_old_rate():
    bucket = Bucket(1.0, 100, 0.0)
    bucket.spend(0.0, 100)
    bucket.change(50.0, 100, 10.0)
    assert bucket.tokens == 10.0


def test_only_a_full_bucket_may_be_forgotten():
    bucket = Bucket(1.0, 10, 0.0)
    assert bucket.full(0.0)
    bucket.take(0.0)
    assert not bucket.full(0.5) and bucket.full(1.0)


@pytest.mark.parametrize(
    ("wait", "rate", "tokens"), [(0.01, 1, 1), (0.999, 1, 1), (1.0, 2, 1), (1.5, 2, 2), (60.0, 61, 60)]
)
def test_retry_after_in_whole_seconds(wait, rate, tokens):
    assert (pure.retry_after_of_rate(wait), pure.retry_after_of_tokens(wait)) == (rate, tokens)


def test_a_tiny_rate_waits_long_and_not_for_ever():
    bucket = Bucket(5e-324, 1, 0.0)
    bucket.take(0.0)
    assert pure.retry_after_of_rate(bucket.take(0.0)) == pure.LONGEST_WAIT + 1


def test_a_clock_that_stands_or_goes_back_adds_nothing():
    bucket = Bucket(10.0, 5, 100.0)
    bucket.spend(100.0, 5)
    bucket.settle(50.0)
    assert (bucket.tokens, bucket.at) == (0.0, 100.0)


_rates = st.floats(0.01, 1000)
_capacities = st.integers(1, 500)


@settings(max_examples=50)
@given(_rates, _capacities, st.lists(st.floats(0, 3), min_size=1, max_size=60))
def test_never_more_go_through_than_the_burst_and_what_came_in(rate, capacity, pauses):
    bucket, now, through = Bucket(rate, capacity, 0.0), 0.0, 0
    for pause in pauses:
        now += pause
        if bucket.take(now) == 0.0:
            through += 1
        else:
            bucket.give_back(now)
    assert through <= capacity + rate * now + 1e-6


@settings(max_examples=50)
@given(_rates, _capacities, st.integers(1, 100))
def test_whoever_obeys_retry_after_is_served(rate, capacity, spent):
    bucket = Bucket(rate, capacity, 0.0)
    bucket.spend(0.0, capacity + spent)
    for told in (pure.retry_after_of_rate, pure.retry_after_of_tokens):
        wait = bucket.take(0.0)
        bucket.give_back(0.0)
        later = Bucket(rate, capacity, 0.0)
        later.tokens = bucket.tokens
        assert later.take(float(told(wait))) <= 1e-6


class Accounts(RuleBasedStateMachine):
    """Every token is accounted for; the wait that is told is the one it takes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.rate, self.capacity = 5.0, 10
        self.bucket = Bucket(self.rate, self.capacity, 0.0)
        self.expected = 10.0
        self.taken = 0

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds):
        self.now += seconds
        self.expected = min(self.expected + seconds * self.rate, float(self.capacity))

    @rule()
    def take(self):
        wait = self.bucket.take(self.now)
        self.expected -= 1.0
        self.taken += 1
        assert wait == pytest.approx(max(-self.expected, 0.0) / self.rate, abs=1e-6)

    @precondition(lambda self: self.taken)
    @rule()
    def give_back(self):
        self.taken -= 1
        self.bucket.give_back(self.now)
        self.expected = min(self.expected + 1.0, float(self.capacity))

    @rule(amount=st.floats(0, 2000))
    def spend(self, amount):
        self.bucket.spend(self.now, amount)
        self.expected -= amount

    @rule(rate=_rates, capacity=_capacities)
    def change(self, rate, capacity):
        self.bucket.change(rate, capacity, self.now)
        assert self.bucket.tokens <= self.expected + 1e-6, "a change must not fill it"
        self.rate, self.capacity = rate, capacity
        self.expected = min(self.expected, float(capacity))

    @invariant()
    def balanced(self):
        self.bucket.settle(self.now)
        assert self.bucket.tokens == pytest.approx(self.expected, rel=1e-9, abs=1e-6)
        assert self.bucket.tokens <= self.capacity and math.isfinite(self.bucket.tokens)


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(max_examples=40, stateful_step_count=30)
