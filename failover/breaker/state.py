"""One circuit: the health record of one (provider, upstream model) pair, and the only code that moves it.

A circuit is *closed* (served), *open* (left alone until its wait is over) or *half-open* (being probed). What reaches
it is an :class:`Event`: the verdict of a finished attempt, or ``DUE``, a request that asks for the pair once the wait
is over. :data:`TABLE` names for each (state, event) the next state and what is done on the way:

- Charges are counted while closed; the one that reaches the threshold arrives as ``LIMIT``. An alive verdict leaves
  the tally alone: one client's bad requests must not hide an outage.
- An open circuit is deaf. Results of requests sent earlier are noted, never acted on, also when the wait is over but
  nobody has asked: only ``DUE`` leads out, so time alone changes nothing that is stored.
- Half-open, the first word decides for everyone: success or alive closes, charge or exhausted reopens with a longer
  wait. Saturated and no-op say nothing about health; the next request probes again.
- A verdict is judged by the state it meets when it lands, not by the one its request was sent in.

The wait is derived on every question from ``opened_at``, the stamped backoff and the settings of that moment, so a
changed setting moves the retry instant of circuits that are open already. The probe lease is an instant that expires,
not a slot that must be given back. Instants are monotonic seconds; wall times are kept beside them for display only.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from failover import backoff
from failover.breaker.rules import BreakerSettings
from failover.verdict import Judgement, Verdict

#: Opens of one circuit are counted inside a window of this length, in seconds, that begins with the first one.
OPENS_WINDOW = 24 * 3600.0


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Event(StrEnum):
    CHARGE = "charge"
    LIMIT = "charge that reaches the threshold"
    EXHAUSTED = "exhausted"
    SUCCESS = "success"
    ALIVE = "alive"
    SATURATED = "saturated"
    NOOP = "no-op"
    DUE = "asked for after its wait"


class Moment(NamedTuple):
    """One reading of both clocks: monotonic seconds for rules, wall time for display."""

    mono: float
    wall: datetime


class Lease(NamedTuple):
    """The right of *holder* to probe first, from the monotonic instant *taken* on."""

    holder: object
    taken: float


@dataclass(slots=True, eq=False)
class Circuit:
    """*opened_at*, *last_charged*, *last_success* and *open_window_start* are monotonic seconds (None = never);
    *backoff* is the wait in seconds that failed probes earned, 0 = none. *last_cause* is one of our fixed phrases.
    """

    model: str
    state: State = State.CLOSED
    consecutive_fails: int = 0
    failed_probes: int = 0
    backoff: float = 0.0
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


@dataclass(frozen=True, slots=True)
class Wait:
    """How long an open circuit waits and which claims are in force (both may be, the longest governs)."""

    seconds: float
    backed_off: bool = False
    quota_pinned: bool = False
    pin_source: str = ""

    @property
    def ms(self) -> int:
        return round(self.seconds * 1000)


NO_WAIT = Wait(0.0)


@dataclass(frozen=True, slots=True)
class Move:
    """A change of state, caused by *event*."""

    before: State
    after: State
    event: Event


Action = Callable[[Circuit, Moment, BreakerSettings], None]


def _count(circuit: Circuit, now: Moment, rules: BreakerSettings) -> None:
    circuit.consecutive_fails += 1


def _fill(circuit: Circuit, now: Moment, rules: BreakerSettings) -> None:
    circuit.consecutive_fails = rules.threshold


def _forgive(circuit: Circuit, now: Moment, rules: BreakerSettings) -> None:
    circuit.consecutive_fails = 0


def _probe_failed(circuit: Circuit, now: Moment, rules: BreakerSettings) -> None:
    circuit.failed_probes += 1


def _open(circuit: Circuit, now: Moment, rules: BreakerSettings) -> None:
    circuit.opened_at, circuit.opened_wall = now
    circuit.backoff = backoff.probe(rules.cooldown, circuit.failed_probes, rules.backoff_max)
    circuit.lease = None
    start = circuit.open_window_start
    if start is None or now.mono - start > OPENS_WINDOW:
        circuit.open_window_start, circuit.opens = now.mono, 0
    circuit.opens += 1


def _heal(circuit: Circuit, now: Moment, rules: BreakerSettings) -> None:
    circuit.consecutive_fails = circuit.failed_probes = 0
    circuit.backoff = 0.0
    circuit.lease = None


class Step(NamedTuple):
    after: State
    actions: tuple[Action, ...] = ()


_STAY_OPEN = Step(State.OPEN)
_STAY_HALF_OPEN = Step(State.HALF_OPEN)
_STAY_CLOSED = Step(State.CLOSED)
_REOPEN = Step(State.OPEN, (_fill, _probe_failed, _open))
_CLOSE = Step(State.CLOSED, (_heal,))

TABLE: dict[tuple[State, Event], Step] = {
    (State.CLOSED, Event.CHARGE): Step(State.CLOSED, (_count,)),
    (State.CLOSED, Event.LIMIT): Step(State.OPEN, (_count, _open)),
    (State.CLOSED, Event.EXHAUSTED): Step(State.OPEN, (_fill, _open)),
    (State.CLOSED, Event.SUCCESS): Step(State.CLOSED, (_forgive,)),
    (State.CLOSED, Event.ALIVE): _STAY_CLOSED,
    (State.CLOSED, Event.SATURATED): _STAY_CLOSED,
    (State.CLOSED, Event.NOOP): _STAY_CLOSED,
    (State.CLOSED, Event.DUE): _STAY_CLOSED,
    (State.OPEN, Event.CHARGE): _STAY_OPEN,
    (State.OPEN, Event.LIMIT): _STAY_OPEN,
    (State.OPEN, Event.EXHAUSTED): _STAY_OPEN,
    (State.OPEN, Event.SUCCESS): _STAY_OPEN,
    (State.OPEN, Event.ALIVE): _STAY_OPEN,
    (State.OPEN, Event.SATURATED): _STAY_OPEN,
    (State.OPEN, Event.NOOP): _STAY_OPEN,
    (State.OPEN, Event.DUE): Step(State.HALF_OPEN),
    (State.HALF_OPEN, Event.CHARGE): _REOPEN,
    (State.HALF_OPEN, Event.LIMIT): _REOPEN,
    (State.HALF_OPEN, Event.EXHAUSTED): _REOPEN,
    (State.HALF_OPEN, Event.SUCCESS): _CLOSE,
    (State.HALF_OPEN, Event.ALIVE): _CLOSE,
    (State.HALF_OPEN, Event.SATURATED): _STAY_HALF_OPEN,
    (State.HALF_OPEN, Event.NOOP): _STAY_HALF_OPEN,
    (State.HALF_OPEN, Event.DUE): _STAY_HALF_OPEN,
}

_EVENT_OF: dict[Verdict, Event] = {
    Verdict.CHARGE: Event.CHARGE,
    Verdict.EXHAUSTED: Event.EXHAUSTED,
    Verdict.SUCCESS: Event.SUCCESS,
    Verdict.ALIVE: Event.ALIVE,
    Verdict.SATURATED: Event.SATURATED,
    Verdict.NOOP: Event.NOOP,
}


def advance(circuit: Circuit, event: Event, now: Moment, rules: BreakerSettings) -> Move | None:
    """Apply one event; the Move when the state changed."""
    before = circuit.state
    step = TABLE[before, event]
    for act in step.actions:
        act(circuit, now, rules)
    circuit.state = step.after
    return None if step.after is before else Move(before, step.after, event)


def land(circuit: Circuit, judgement: Judgement, now: Moment, rules: BreakerSettings) -> Move | None:
    """A verdict arrives: noted whatever the state (unless it is a no-op), then judged by the state it meets."""
    event = _EVENT_OF[judgement.verdict]
    if event is Event.CHARGE and circuit.consecutive_fails + 1 >= rules.threshold:
        event = Event.LIMIT
    if event is not Event.NOOP:
        circuit.last_cause, circuit.last_status, circuit.last_at = judgement.cause, judgement.status, now.wall
        if event is not Event.SATURATED:
            circuit.last_charged = now.mono
        if event is Event.SUCCESS:
            circuit.last_success = now.mono
    return advance(circuit, event, now, rules)


def confirm(circuit: Circuit, judgement: Judgement, mono: float, wall: datetime) -> bool:
    """One more success of a circuit that has nothing to forgive: noted, as ``land`` would. False: ask ``land``.

    The everyday case, and the only one that needs no lock: whatever else happens to the circuit at this moment, these
    are the notes of a verdict that landed.
    """
    if circuit.state is not State.CLOSED or circuit.consecutive_fails:
        return False
    circuit.last_cause, circuit.last_status, circuit.last_at = judgement.cause, judgement.status, wall
    circuit.last_charged = circuit.last_success = mono
    return True


def ask(circuit: Circuit, now: Moment, rules: BreakerSettings) -> Move | None:
    """A request is about to contact the pair: an open circuit whose wait is over becomes half-open."""
    if circuit.state is not State.OPEN or blocking(circuit, now.mono, rules):
        return None
    return advance(circuit, Event.DUE, now, rules)


def take_lease(circuit: Circuit, holder: object, now: float, rules: BreakerSettings) -> bool:
    """Give *holder* the probe lease of a half-open circuit. False: another request holds it."""
    if leased(circuit, now, rules):
        return circuit.lease is not None and circuit.lease.holder is holder
    if circuit.state is State.HALF_OPEN and rules.probe_lease > 0:
        circuit.lease = Lease(holder, now)
    return True


def end_lease(circuit: Circuit, holder: object) -> None:
    """The attempt of *holder* is over; nothing happens when the lease is not its own."""
    if circuit.lease is not None and circuit.lease.holder is holder:
        circuit.lease = None


def leased(circuit: Circuit, now: float, rules: BreakerSettings) -> bool:
    """Whether some request holds the probe right now."""
    lease = circuit.lease
    return circuit.state is State.HALF_OPEN and lease is not None and now < lease.taken + rules.probe_lease


def wait_of(circuit: Circuit, rules: BreakerSettings) -> Wait:
    """The effective cooldown: the one computation behind enforcement, status, events and log lines."""
    base = rules.cooldown
    backed_off = circuit.backoff > base and rules.backoff_max > base
    return Wait(circuit.backoff if backed_off else base, backed_off)


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


def reported(circuit: Circuit, now: float, rules: BreakerSettings) -> State:
    """The state as it is shown: an open circuit whose wait is over counts as half-open."""
    if circuit.state is State.OPEN and not blocking(circuit, now, rules):
        return State.HALF_OPEN
    return circuit.state
