"""A circuit on its way to another process and back, and two versions of one made one."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from failover.breaker import record
from failover.breaker.circuit import Circuit, Lease, Moment, State
from failover.breaker.pins import Pin, Source

WALL = datetime(2026, 11, 30, 12, tzinfo=UTC)
NOW = Moment(5000.0, WALL)

instants = st.none() | st.integers(-(10**8), 5 * 10**6).map(lambda ms: ms / 1000)
walls = st.none() | st.integers(0, 10**7).map(lambda ms: WALL - timedelta(milliseconds=ms))
seconds = st.floats(0, 1e7)
circuits = st.builds(
    Circuit,
    st.just("m"),
    state=st.sampled_from(State),
    seeded=st.booleans(),
    consecutive_fails=st.integers(0, 100),
    failed_probes=st.integers(0, 10**6),
    backoff=seconds,
    pin=st.none() | st.builds(Pin, seconds, st.sampled_from(Source), st.floats(0, 1, exclude_max=True)),
    opened_at=instants,
    last_charged=instants,
    last_success=instants,
    last_cause=st.text(max_size=20),
    last_status=st.integers(0, 599),
    last_at=walls,
    opens=st.integers(0, 1000),
    open_window_start=instants,
    opens_429_streak=st.integers(0, 10),
    open_429_window_start=instants,
)


def known(circuit: Circuit) -> tuple[object, ...]:
    """What a record carries of *circuit*, instants in whole milliseconds."""

    def rounded(at: float | None) -> int | None:
        return None if at is None else round(at * 1000)

    plain = (
        circuit.state,
        circuit.seeded,
        circuit.consecutive_fails,
        circuit.failed_probes,
        circuit.backoff,
        circuit.pin,
    )
    times = (circuit.opened_at, circuit.last_charged, circuit.last_success, circuit.open_window_start)
    rest = (circuit.last_cause, circuit.last_status, circuit.last_at, circuit.opens, circuit.opens_429_streak)
    return (*plain, *map(rounded, times), rounded(circuit.open_429_window_start), *rest)


@given(circuits)
def test_nothing_is_lost_on_the_way(circuit: Circuit):
    assert known(record.decode("m", record.encode(circuit, NOW), NOW)) == known(circuit)


@given(circuits, st.floats(0, 1e6), st.integers(0, 10**9))
def test_what_nobody_changed_has_the_same_bytes_for_every_process(circuit: Circuit, mono: float, later: int):
    elsewhere = Moment(mono, WALL + timedelta(microseconds=later))
    data = record.encode(circuit, NOW)
    assert record.encode(record.decode("m", data, elsewhere), elsewhere) == data


@given(circuits)
def test_an_instant_means_the_same_moment_to_a_process_with_another_clock(circuit: Circuit):
    elsewhere = Moment(20.0, WALL + timedelta(seconds=3))
    found = record.decode("m", record.encode(circuit, NOW), elsewhere)
    if circuit.opened_at is None:
        assert found.opened_at is None and found.opened_wall is None
    else:
        assert found.opened_at == pytest.approx(20.0 - 3 - (5000.0 - circuit.opened_at), abs=0.002)
        assert found.opened_wall == pytest.approx(
            WALL - timedelta(seconds=5000.0 - circuit.opened_at), abs=timedelta(milliseconds=2)
        )


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b'["open"]', b"\xff", b'["ajar",false,0,0,0,null,null,null,null,"",0,null,0,null,0,null]'],
)
def test_what_no_version_wrote_is_refused(data: bytes):
    with pytest.raises(msgspec.MsgspecError):
        record.decode("m", data, NOW)


def made(state: State = State.CLOSED, **more: object) -> Circuit:
    return Circuit("m", state=state, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mine", "theirs", "wins"),
    [
        (made(State.OPEN, opened_at=1.0), made(), "mine"),
        (made(), made(State.OPEN, opened_at=1.0), "theirs"),
        (made(State.OPEN, opened_at=1.0), made(State.HALF_OPEN, opened_at=9.0), "mine"),
        (made(State.HALF_OPEN, opened_at=1.0), made(), "mine"),
        (made(State.OPEN, opened_at=1.0), made(State.OPEN, opened_at=2.0), "theirs"),
        (made(State.OPEN, opened_at=2.0), made(State.OPEN, opened_at=1.0), "mine"),
        (made(), made(), "theirs"),
    ],
)
def test_the_more_degraded_state_wins_then_the_later_opening(mine: Circuit, theirs: Circuit, wins: str):
    """part of circuit-breaker 79"""
    assert record.merged(mine, theirs) is {"mine": mine, "theirs": theirs}[wins]


def test_counts_take_the_larger_and_the_latest_success_stays():
    """part of circuit-breaker 79"""
    mine = made(consecutive_fails=3, failed_probes=1, last_success=7.0)
    theirs = made(consecutive_fails=2, failed_probes=4, last_success=5.0, last_charged=1.0)
    found = record.merged(mine, theirs)
    assert (found.consecutive_fails, found.failed_probes, found.last_success, found.last_charged) == (3, 4, 7.0, 1.0)


def test_a_lease_goes_on_in_a_fresh_version_of_the_same_opening_only():
    lease = Lease("someone", 10.0)
    for fresh, kept in (
        (made(State.HALF_OPEN, opened_at=1.0), True),
        (made(State.OPEN, opened_at=1.004), True),
        (made(State.OPEN, opened_at=30.0), False),
        (made(), False),
    ):
        record.keep_notes(fresh, made(State.HALF_OPEN, opened_at=1.0, lease=lease))
        assert (fresh.lease is lease) is kept


def test_newer_notes_of_this_process_go_on():
    replica = made(last_cause="success", last_at=WALL, last_success=9.0)
    fresh = made(last_cause="upstream status 503", last_status=503, last_at=WALL - timedelta(seconds=1))
    record.keep_notes(fresh, replica)
    assert (fresh.last_cause, fresh.last_status, fresh.last_success) == ("success", 0, 9.0)


def test_only_versions_with_a_verdict_since_the_reset_are_united():
    old, new = Circuit("m", last_charged=5.0, consecutive_fails=4), Circuit("m", last_charged=9.0, consecutive_fails=1)
    assert record.united(old, new, 7.0) is new and record.united(new, old, 7.0) is new
    assert (
        record.united(old, old, 7.0) is record.united(None, old, 7.0) is record.united(Circuit("m"), None, 7.0) is None
    )
    both = record.united(old, new, 5.0)
    assert both is not None and both.consecutive_fails == 4
