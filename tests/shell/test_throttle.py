"""Five failures are free, then the wait doubles; nobody is locked for ever."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from modelhotel.core.clock import ManualClock
from modelhotel.core.throttle import FREE, HARD_LIMIT, MAX_WAIT, SWEEP_ABOVE, Throttle


def test_the_wait_after_each_failure(clock):
    """operations 69, providers 81"""
    throttle = Throttle(clock)
    waits = []
    for _ in range(16):
        throttle.failed("ip:a")
        waits.append(throttle.wait("ip:a"))
        clock.advance(waits[-1])
    assert waits == [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert throttle.wait("ip:a") == 0


def test_the_rest_of_a_wait_is_rounded_up(clock):
    throttle = Throttle(clock)
    for _ in range(FREE + 2):
        throttle.failed("ip:a")
    clock.advance(1.25)
    assert throttle.wait("ip:a") == 1
    clock.advance(0.75)
    assert throttle.wait("ip:a") == 0


def test_another_key_is_unaffected_and_the_longest_wait_of_several_counts(clock):
    """operations 69"""
    throttle = Throttle(clock)
    for _ in range(FREE + 3):
        throttle.failed("ip:a")
    assert throttle.wait("ip:b", "user:b") == 0
    assert throttle.wait("ip:b", "ip:a") == 4


def test_a_success_forgets(clock):
    """providers 81"""
    throttle = Throttle(clock)
    for _ in range(FREE + 1):
        throttle.failed("ip:a", "user:x")
    throttle.succeeded("ip:a", "user:x")
    assert throttle.wait("ip:a", "user:x") == 0
    throttle.failed("ip:a")
    assert throttle.wait("ip:a") == 0


def test_above_the_limit_the_keys_whose_lock_is_over_are_swept(clock):
    throttle = Throttle(clock)
    for _ in range(FREE + 9):
        throttle.failed("ip:locked")
    for number in range(SWEEP_ABOVE):
        throttle.failed(f"ip:{number}")
    assert len(throttle) <= 2
    assert throttle.wait("ip:locked") == 256


def test_locked_keys_of_many_addresses_do_not_fill_the_memory(clock):
    throttle = Throttle(clock)
    for number in range(HARD_LIMIT + 10):
        for _ in range(FREE + 1):
            throttle.failed(f"ip:{number}")
    assert len(throttle) <= HARD_LIMIT


def test_failures_from_many_threads_are_all_counted():
    throttle = Throttle(ManualClock())

    def fail():
        for _ in range(50):
            throttle.failed("ip:a")

    threads = [threading.Thread(target=fail) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    throttle.failed("ip:a")
    assert throttle._tallies["ip:a"].failures == 201


@given(st.lists(st.sampled_from(["fail", "succeed", "wait"]), max_size=60), st.floats(0, 400))
def test_no_wait_is_ever_longer_than_five_minutes(steps, pause):
    clock = ManualClock()
    throttle = Throttle(clock)
    for step in steps:
        if step == "fail":
            throttle.failed("k")
        elif step == "succeed":
            throttle.succeeded("k")
        else:
            clock.advance(pause)
        assert 0 <= throttle.wait("k") <= MAX_WAIT
