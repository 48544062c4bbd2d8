import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover import backoff

never = lambda: 0.0  # noqa: E731
almost = lambda: math.nextafter(1.0, 0.0)  # noqa: E731


def test_failed_probes_double_the_wait_up_to_the_ceiling():
    """circuit-breaker 35. 2, 4, 8, then 15 minutes; no failed probe has earned nothing."""
    assert [backoff.probe(60, n, 900) for n in range(7)] == [0, 120, 240, 480, 900, 900, 900]


def test_ten_thousand_failed_probes_wait_exactly_the_ceiling():
    """circuit-breaker 37"""
    assert backoff.probe(60, 10_000, 900) == 900
    assert backoff.probe(1e-9, 10**9, 8760 * 3600.0) == 8760 * 3600.0


@given(st.floats(0.001, 3.2e7), st.integers(0, 10**12), st.floats(0, 3.2e7))
def test_the_probe_backoff_never_overflows_and_never_passes_its_ceiling(base, failed, ceiling):
    wait = backoff.probe(base, failed, ceiling)
    assert 0 <= wait <= ceiling
    assert backoff.probe(base, failed + 1, ceiling) >= wait


def test_the_wait_between_candidates_doubles_from_a_tenth_to_two_seconds():
    waits = [backoff.BETWEEN_CANDIDATES.wait(k, never) for k in range(1, 9)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0])


def test_the_wait_before_a_transport_retry_is_capped_at_half_a_second():
    waits = [backoff.TRANSPORT_RETRY.wait(t, never) for t in (1, 2, 3, 4)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.5])
    assert backoff.TRANSPORT_RETRIES == 2


@pytest.mark.parametrize("schedule", [backoff.BETWEEN_CANDIDATES, backoff.TRANSPORT_RETRY])
def test_jitter_adds_up_to_a_tenth_of_a_second(schedule):
    for nth in (1, 2, 5, 10**6):
        plain = schedule.wait(nth, never)
        assert plain < schedule.wait(nth, lambda: 0.5) < schedule.wait(nth, almost) <= plain + 0.1


@pytest.mark.parametrize(("room", "fits"), [(1.099, False), (1.1, True), (120, True), (0, False), (-3, False)])
def test_the_last_candidate_is_repeated_only_with_room_for_it(room, fits):
    assert backoff.server_error_fits(room) is fits


def test_the_repetition_of_a_server_error_waits_half_a_second_to_one_within_the_room():
    assert backoff.server_error(10, never) == 0.5
    assert 0.99 < backoff.server_error(10, almost) <= 1.0
    assert backoff.server_error(0.3, almost) == 0.3
    assert backoff.server_error(-1, never) == 0
