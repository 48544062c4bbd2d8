"""One circuit: what it remembers, and what follows from that at a given moment. Nothing here changes it.

The wait is derived on every question from ``opened_at``, the stamped backoff and pin, and the settings of that moment,
so a changed setting moves the retry instant of circuits that are open already.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from failover.breaker import pins
from failover.breaker.pins import Pin
from failover.breaker.rules import BreakerSettings

#: The model id of the circuit that a quota reading opens by itself, on behalf of the whole account.
ACCOUNT = "(account quota)"


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Moment(NamedTuple):
    """One reading of both clocks: monotonic seconds for rules, wall time for display and quota deadlines."""

    mono: float
    wall: datetime


class Lease(NamedTuple):
    """The right of *holder* to probe first, from the monotonic instant *taken* on."""

    holder: object
    taken: float


@dataclass(slots=True, eq=False)
class Circuit:
    """*opened_at*, *last_charged*, *last_success* and the window starts are monotonic seconds (None = never);
    *backoff* is the wait in seconds that failed probes earned, 0 = none. *last_cause* is one of our fixed phrases.
    *seeded*: opened by a quota reading, not by answers. *opens_429_streak*: openings in a row that a 429 caused.
    """

    model: str
    state: State = State.CLOSED
    seeded: bool = False
    consecutive_fails: int = 0
    failed_probes: int = 0
    backoff: float = 0.0
    pin: Pin | None = None
    opened_at: float | None = None
    opened_wall: datetime | None = None
    lease: Lease | None = None
    last_charged: float | None = None
    last_success: float | None = None
    last_cause: str = ""
    last_status: int = 0
    last_at: datetime | None = None
    opens: int = 0
    open_window_start: float | None = None
    opens_429_streak: int = 0
    open_429_window_start: float | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """How long an open circuit waits and which claims are in force (both may be, the longest governs).

    *backing_off*: the backoff is the one that governs.
    """

    seconds: float
    backed_off: bool = False
    quota_pinned: bool = False
    pin_source: str = ""
    backing_off: bool = False

    @property
    def ms(self) -> int:
        return round(self.seconds * 1000)


NO_WAIT = Wait(0.0)


def unpinned(circuit: Circuit, rules: BreakerSettings) -> tuple[float, bool]:
    """The wait without any pin, and whether it is the backoff. A seeded circuit waits for its pin only."""
    if circuit.seeded:
        return 0.0, False
    base = rules.cooldown
    backed_off = circuit.backoff > base and rules.backoff_max > base
    return (circuit.backoff, True) if backed_off else (base, False)


def wait_of(circuit: Circuit, rules: BreakerSettings) -> Wait:
    """The effective cooldown: the one computation behind enforcement, status, events and log lines."""
    plain, backed_off = unpinned(circuit, rules)
    pin = circuit.pin
    if pin is None or rules.pin_max <= 0:
        return Wait(plain, backed_off, backing_off=backed_off)
    pinned = pins.wait(pin, rules)
    return Wait(max(plain, pinned), backed_off, True, pin.source.value, backed_off and plain >= pinned)


def retry_at(circuit: Circuit, rules: BreakerSettings) -> float | None:
    """Monotonic instant at which an open circuit may be probed; None when it is not open."""
    if circuit.state is not State.OPEN or circuit.opened_at is None:
        return None
    return circuit.opened_at + wait_of(circuit, rules).seconds


def earliest(circuits: Iterable[Circuit], rules: BreakerSettings) -> float | None:
    """The first monotonic instant at which one of them may be probed; None when none is open."""
    return min((at for circuit in circuits if (at := retry_at(circuit, rules)) is not None), default=None)


def retry_wall(circuit: Circuit, rules: BreakerSettings) -> datetime | None:
    """The same instant as wall time."""
    if circuit.state is not State.OPEN or circuit.opened_wall is None:
        return None
    return circuit.opened_wall + timedelta(seconds=wait_of(circuit, rules).seconds)


def blocking(circuit: Circuit, now: float, rules: BreakerSettings) -> bool:
    """Whether it turns group requests away: open and still inside its wait."""
    at = retry_at(circuit, rules)
    return at is not None and now < at


def skips_provider(blocking: Iterable[Circuit], rules: BreakerSettings) -> bool:
    """The provider-wide verdict over the blocking circuits of one provider: enough of its models are dark, or one of
    them waits for a quota of the whole account."""
    dark = list(blocking)
    return len(dark) >= rules.span or any(pins.speaks_for_account(circuit.pin, rules) for circuit in dark)


def all_pinned(circuits: Iterable[Circuit], rules: BreakerSettings) -> bool:
    """Whether every one of them waits on a quota pin."""
    return all(wait_of(circuit, rules).quota_pinned for circuit in circuits)


def reported(circuit: Circuit, now: float, rules: BreakerSettings) -> State:
    """The state as it is shown: an open circuit whose wait is over counts as half-open."""
    if circuit.state is State.OPEN and not blocking(circuit, now, rules):
        return State.HALF_OPEN
    return circuit.state


def leased(circuit: Circuit, now: float, rules: BreakerSettings) -> bool:
    """Whether some request holds the probe right now."""
    lease = circuit.lease
    return circuit.state is State.HALF_OPEN and lease is not None and now < lease.taken + rules.probe_lease
