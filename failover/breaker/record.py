"""A circuit as the store of several processes keeps it, and which of two versions of one is right. Pure.

Monotonic instants mean nothing to another process, so a record holds POSIX milliseconds; *now* is both clocks of the
process that reads or writes it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from failover.breaker.circuit import Circuit, Moment, State
from failover.breaker.pins import Pin, Source

#: Seconds by which an instant may differ after it went through a record.
_SAME = 0.01
#: What no clock shows and no circuit waits is no record of ours: an instant after 2199, a wait of more than ten years.
Instant = Annotated[int, Meta(ge=0, lt=7_258_118_400_000)]
Seconds = Annotated[float, Meta(ge=0, le=3650 * 86_400)]
_RANK = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}


class Record(msgspec.Struct, array_like=True, frozen=True):
    """The members of a Circuit in this order; the model is the record's name in the store. No lease: that is the
    store's own, with an end of its own.
    """

    state: State
    seeded: bool
    consecutive_fails: int
    failed_probes: int
    backoff: Seconds
    pin: tuple[Seconds, Source, float] | None
    opened_at: Instant | None
    last_charged: Instant | None
    last_success: Instant | None
    last_cause: str
    last_status: int
    last_at: Instant | None
    opens: int
    open_window_start: Instant | None
    opens_429_streak: int
    open_429_window_start: Instant | None


_decode = msgspec.json.Decoder(Record).decode
_encode = msgspec.json.Encoder().encode


def _to_wall(now: Moment) -> Callable[[float | None], int | None]:
    offset = now.wall.timestamp() - now.mono
    return lambda mono: None if mono is None else round((mono + offset) * 1000)


def encode(circuit: Circuit, now: Moment) -> bytes:
    """What is decoded and encoded with the same *now* gives the same bytes, so a change shows in them."""
    wall = _to_wall(now)
    return _encode(
        Record(
            circuit.state,
            circuit.seeded,
            circuit.consecutive_fails,
            circuit.failed_probes,
            circuit.backoff,
            None if circuit.pin is None else (circuit.pin.seconds, circuit.pin.source, circuit.pin.seed),
            wall(circuit.opened_at),
            wall(circuit.last_charged),
            wall(circuit.last_success),
            circuit.last_cause,
            circuit.last_status,
            None if circuit.last_at is None else round(circuit.last_at.timestamp() * 1000),
            circuit.opens,
            wall(circuit.open_window_start),
            circuit.opens_429_streak,
            wall(circuit.open_429_window_start),
        )
    )


def decode(model: str, data: bytes, now: Moment) -> Circuit:
    """Raises msgspec.DecodeError for what no version of ours wrote."""
    found = _decode(data)
    offset = now.mono - now.wall.timestamp()

    def mono(milliseconds: int | None) -> float | None:
        return None if milliseconds is None else milliseconds / 1000 + offset

    return Circuit(
        model,
        state=found.state,
        seeded=found.seeded,
        consecutive_fails=found.consecutive_fails,
        failed_probes=found.failed_probes,
        backoff=found.backoff,
        pin=None if found.pin is None else Pin(*found.pin),
        opened_at=mono(found.opened_at),
        opened_wall=_wall(found.opened_at),
        last_charged=mono(found.last_charged),
        last_success=mono(found.last_success),
        last_cause=found.last_cause,
        last_status=found.last_status,
        last_at=_wall(found.last_at),
        opens=found.opens,
        open_window_start=mono(found.open_window_start),
        opens_429_streak=found.opens_429_streak,
        open_429_window_start=mono(found.open_429_window_start),
    )


def _wall(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def united(mine: Circuit | None, theirs: Circuit | None, reset_at: float) -> Circuit | None:
    """What is left of both; a version without a verdict since the reset by hand at that monotonic instant is void."""
    own, other = (one if one and (one.last_charged or 0.0) >= reset_at else None for one in (mine, theirs))
    return merged(own, other) if own and other else own or other


def merged(mine: Circuit, theirs: Circuit) -> Circuit:
    """What a process that was cut off makes of its own circuit and the store's (circuit-breaker 22.6).

    The more degraded state wins, of equal ones the one that opened later; counts take the larger.
    """
    if mine.state is theirs.state:
        first = mine if (mine.opened_at or 0.0) > (theirs.opened_at or 0.0) else theirs
    else:
        first = max(mine, theirs, key=lambda circuit: _RANK[circuit.state])
    other = theirs if first is mine else mine
    first.consecutive_fails = max(first.consecutive_fails, other.consecutive_fails)
    first.failed_probes = max(first.failed_probes, other.failed_probes)
    first.last_success = _later(first.last_success, other.last_success)
    first.last_charged = _later(first.last_charged, other.last_charged)
    return first


def _later(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def keep_notes(fresh: Circuit, replica: Circuit) -> None:
    """*fresh* comes from the store: what this process noted since goes on in it, and so does a lease it knows of."""
    if replica.last_at is not None and (fresh.last_at is None or replica.last_at > fresh.last_at):
        fresh.last_cause, fresh.last_status, fresh.last_at = replica.last_cause, replica.last_status, replica.last_at
    fresh.last_success = _later(fresh.last_success, replica.last_success)
    fresh.last_charged = _later(fresh.last_charged, replica.last_charged)
    # This process may be ahead: it is half-open here already, and the store hears of it in a moment.
    same_opening = fresh.opened_at is not None and abs(fresh.opened_at - (replica.opened_at or 0.0)) < _SAME
    if fresh.state is State.HALF_OPEN or (same_opening and replica.state is State.HALF_OPEN):
        fresh.lease = replica.lease
