"""The stall watchdog on a clock of its own."""

import pytest

from proxy.stream.sse import Framer
from proxy.stream.watchdog import Watchdog

WINDOW = 30.0


def stalls_at(*arrivals: tuple[float, bytes], window: float = WINDOW) -> float | None:
    """When a stream of these (time, bytes) has stalled; None when each arrival came in time (the last one included)."""
    framer = Framer()
    watchdog = Watchdog(window, 0.0, 0, 0)
    chunks = 0
    deadline = watchdog.deadline(0.0, 0, 0, 0)
    for moment, data in arrivals:
        if moment >= deadline:
            return deadline
        chunks += sum(event.data is not None for event in framer.feed(data))
        deadline = watchdog.deadline(moment, framer.lines, framer.pending, chunks)
    return None


CHUNK = b"data: {}\n\n"


def test_silence_after_ten_chunks_stalls_after_the_window():
    """failover-loop 81"""
    assert stalls_at(*((float(i), CHUNK) for i in range(10)), (100.0, CHUNK)) == 9 + 30


def test_silence_after_fifty_one_chunks_may_last_three_windows():
    """failover-loop 81"""
    assert stalls_at((1.0, CHUNK * 51), (81.0, CHUNK)) is None
    assert stalls_at((1.0, CHUNK * 51), (91.0, CHUNK)) == 91
    assert stalls_at((1.0, CHUNK * 50), (31.0, CHUNK)) == 31


def test_comments_are_activity_but_no_chunks():
    """failover-loop 81"""
    comments = [(1.0 + i * 29, b": ping\n\n") for i in range(25)]
    assert stalls_at((1.0, CHUNK * 30), *comments) is None
    last = comments[-1][0]
    assert stalls_at((1.0, CHUNK * 30), *comments, (last + 31, CHUNK)) == last + 30


def test_a_long_line_at_two_hundred_kib_a_second_arrives():
    """failover-loop 82"""
    line = [(1.0 + i, b"x" * (200 << 10)) for i in range(103)]
    assert stalls_at((0.5, b"data: "), *line, (104.0, b"\n\n")) is None


def test_one_byte_now_and_then_stalls():
    """failover-loop 82"""
    drops = [(5.0 * i, b"x") for i in range(1, 20)]
    assert stalls_at(*drops) == 30


def test_a_slow_line_counts_for_three_windows_only():
    """failover-loop 82"""
    drops = [(20.0 * i, b"x" * 4096) for i in range(1, 20)]
    assert stalls_at(*drops) == 80 + 30


def test_less_than_a_quantum_adds_up():
    drops = [(10.0 * i, b"x" * 2048) for i in range(1, 9)]
    assert stalls_at(*drops) is None


@pytest.mark.parametrize("window", [0.0, -1.0])
def test_no_window_no_stall(window: float):
    assert stalls_at((1.0, CHUNK), (1e9, CHUNK), window=window) is None
