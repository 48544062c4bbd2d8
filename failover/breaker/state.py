"""The state machine of one circuit, and the only code that moves it.

A circuit is *closed* (served), *open* (left alone until its wait is over) or *half-open* (being probed). What reaches
it is an :class:`Event`: the verdict of a finished attempt, or ``DUE``, a request that asks for the pair once the wait
is over. :data:`TABLE` names for each (state, event) the next state and what is done on the way:

- Charges are counted while closed; the one that reaches the threshold arrives as ``LIMIT``. An alive verdict leaves
  the tally alone: one client's bad requests must not hide an outage.
- An open circuit is deaf. Results of requests sent earlier are noted, never acted on, also when the wait is over but
  nobody has asked: only ``DUE`` leads out, so time alone changes nothing that is stored. The one exception is a longer
  claim of a spent quota, which lengthens the wait.
- Half-open, the first word decides for everyone: success or alive closes, charge or exhausted reopens with a longer
  wait. Saturated and no-op say nothing about health; the next request probes again. A circuit that waits for a claimed
  quota and is told once more that it is spent (``STILL_SPENT``) waits on without counting a failed probe.
- A verdict is judged by the state it meets when it lands, not by the one its request was sent in.
- ``SEED`` opens a circuit on the word of a quota reading; it counts for nothing.

The probe lease is an instant that expires, not a slot that must be given back. Instants are monotonic seconds; wall
times are kept beside them for display and for quota deadlines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from failover import backoff
from failover.breaker import circuit as facts
from failover.breaker import pinning, pins
from failover.breaker.circuit import Circuit, Lease, Moment, State
from failover.breaker.pins import NO_EVIDENCE, Evidence, Pin
from failover.breaker.rules import BreakerSettings
from failover.verdict import Judgement, Verdict

#: Opens of one circuit are counted inside a window of this length, in seconds, that begins with the first one.
OPENS_WINDOW = 24 * 3600.0
#: From this many openings by a 429 in a row on, the backoff may grow to the ceiling of the pins.
ESCALATES_AT = 3


class Event(StrEnum):
    CHARGE = "charge"
    LIMIT = "charge that reaches the threshold"
    EXHAUSTED = "exhausted"
    SUCCESS = "success"
    ALIVE = "alive"
    SATURATED = "saturated"
    NOOP = "no-op"
    STILL_SPENT = "exhausted once more, under a pin that an answer claimed"
    DUE = "asked for after its wait"
    SEED = "opened by a quota reading"


@dataclass(frozen=True, slots=True)
class Move:
    """A change of state, caused by *event*."""

    before: State
    after: State
    event: Event


Action = Callable[[Circuit, Moment, BreakerSettings, Evidence], None]


def _count(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    circuit.consecutive_fails += 1


def _fill(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    circuit.consecutive_fails = rules.threshold


def _forgive(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    circuit.consecutive_fails = 0


def _probe_failed(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    circuit.failed_probes += 1


def _begin(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    circuit.opened_at, circuit.opened_wall = now
    circuit.lease = None


def _note_streak(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    if not evidence.rate_limited:
        circuit.opens_429_streak = 0
        return
    start = circuit.open_429_window_start
    if not circuit.opens_429_streak or start is None or now.mono - start > OPENS_WINDOW:
        circuit.open_429_window_start, circuit.opens_429_streak = now.mono, 0
    circuit.opens_429_streak += 1


def _stamp(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    """The waits of this opening: first the backoff, then the pin, which has to be longer."""
    ceiling = rules.backoff_max
    if ceiling > 0 and circuit.opens_429_streak >= ESCALATES_AT:
        ceiling = max(ceiling, rules.pin_max)
    circuit.backoff = backoff.probe(rules.cooldown, circuit.failed_probes, ceiling)
    unpinned, _ = facts.unpinned(circuit, rules)
    circuit.pin = pins.at_open(evidence, now.wall, unpinned, rules)


def _note_opening(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    start = circuit.open_window_start
    if start is None or now.mono - start > OPENS_WINDOW:
        circuit.open_window_start, circuit.opens = now.mono, 0
    circuit.opens += 1


def _lengthen(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    pinning.lengthen(circuit, now, rules, evidence)


def _heal(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    circuit.consecutive_fails = circuit.failed_probes = circuit.opens_429_streak = 0
    circuit.backoff = 0.0
    circuit.pin = circuit.lease = None


class Step(NamedTuple):
    after: State
    actions: tuple[Action, ...] = ()


_OPEN = (_begin, _note_streak, _stamp, _note_opening)
_STAY_CLOSED = Step(State.CLOSED)
_STAY_OPEN = Step(State.OPEN)
_STAY_HALF_OPEN = Step(State.HALF_OPEN)
_OPEN_AT_ONCE = Step(State.OPEN, (_fill, *_OPEN))
_LENGTHEN = Step(State.OPEN, (_lengthen,))
_REOPEN = Step(State.OPEN, (_fill, _probe_failed, *_OPEN))
_CLOSE = Step(State.CLOSED, (_heal,))
_SEED = Step(State.OPEN, (_begin,))

TABLE: dict[tuple[State, Event], Step] = {
    (State.CLOSED, Event.CHARGE): Step(State.CLOSED, (_count,)),
    (State.CLOSED, Event.LIMIT): Step(State.OPEN, (_count, *_OPEN)),
    (State.CLOSED, Event.EXHAUSTED): _OPEN_AT_ONCE,
    (State.CLOSED, Event.STILL_SPENT): _OPEN_AT_ONCE,
    (State.CLOSED, Event.SUCCESS): Step(State.CLOSED, (_forgive,)),
    (State.CLOSED, Event.ALIVE): _STAY_CLOSED,
    (State.CLOSED, Event.SATURATED): _STAY_CLOSED,
    (State.CLOSED, Event.NOOP): _STAY_CLOSED,
    (State.CLOSED, Event.DUE): _STAY_CLOSED,
    (State.CLOSED, Event.SEED): _SEED,
    (State.OPEN, Event.CHARGE): _STAY_OPEN,
    (State.OPEN, Event.LIMIT): _STAY_OPEN,
    (State.OPEN, Event.EXHAUSTED): _LENGTHEN,
    (State.OPEN, Event.STILL_SPENT): _LENGTHEN,
    (State.OPEN, Event.SUCCESS): _STAY_OPEN,
    (State.OPEN, Event.ALIVE): _STAY_OPEN,
    (State.OPEN, Event.SATURATED): _STAY_OPEN,
    (State.OPEN, Event.NOOP): _STAY_OPEN,
    (State.OPEN, Event.DUE): Step(State.HALF_OPEN),
    (State.OPEN, Event.SEED): _SEED,
    (State.HALF_OPEN, Event.CHARGE): _REOPEN,
    (State.HALF_OPEN, Event.LIMIT): _REOPEN,
    (State.HALF_OPEN, Event.EXHAUSTED): _REOPEN,
    (State.HALF_OPEN, Event.STILL_SPENT): _OPEN_AT_ONCE,
    (State.HALF_OPEN, Event.SUCCESS): _CLOSE,
    (State.HALF_OPEN, Event.ALIVE): _CLOSE,
    (State.HALF_OPEN, Event.SATURATED): _STAY_HALF_OPEN,
    (State.HALF_OPEN, Event.NOOP): _STAY_HALF_OPEN,
    (State.HALF_OPEN, Event.DUE): _STAY_HALF_OPEN,
    (State.HALF_OPEN, Event.SEED): _SEED,
}

_EVENT_OF: dict[Verdict, Event] = {
    Verdict.CHARGE: Event.CHARGE,
    Verdict.EXHAUSTED: Event.EXHAUSTED,
    Verdict.SUCCESS: Event.SUCCESS,
    Verdict.ALIVE: Event.ALIVE,
    Verdict.SATURATED: Event.SATURATED,
    Verdict.NOOP: Event.NOOP,
}


def advance(
    circuit: Circuit, event: Event, now: Moment, rules: BreakerSettings, evidence: Evidence = NO_EVIDENCE
) -> Move | None:
    """Apply one event; the Move when the state changed."""
    before = circuit.state
    step = TABLE[before, event]
    for act in step.actions:
        act(circuit, now, rules, evidence)
    circuit.state = step.after
    return None if step.after is before else Move(before, step.after, event)


def land(
    circuit: Circuit, judgement: Judgement, now: Moment, rules: BreakerSettings, evidence: Evidence = NO_EVIDENCE
) -> Move | None:
    """A verdict arrives: noted whatever the state (unless it is a no-op), then judged by the state it meets."""
    event = _EVENT_OF[judgement.verdict]
    if event is Event.CHARGE and circuit.consecutive_fails + 1 >= rules.threshold:
        event = Event.LIMIT
    elif event is Event.EXHAUSTED and circuit.state is State.HALF_OPEN and pins.waits_on_claim(circuit.pin, rules):
        event = Event.STILL_SPENT
    if event is not Event.NOOP:
        circuit.last_cause, circuit.last_status, circuit.last_at = judgement.cause, judgement.status, now.wall
        if event is not Event.SATURATED:
            circuit.last_charged = now.mono
        if event is Event.SUCCESS or judgement.served:
            circuit.last_success = now.mono
    return advance(circuit, event, now, rules, evidence)


def seed(circuit: Circuit, pin: Pin, now: Moment, rules: BreakerSettings) -> Move:
    """A quota reading opens *circuit*, which stands for the whole account, for as long as *pin* says."""
    circuit.seeded, circuit.pin = True, pin
    circuit.last_cause, circuit.last_at = f"quota pin seeded ({pin.source})", now.wall
    return advance(circuit, Event.SEED, now, rules) or Move(circuit.state, circuit.state, Event.SEED)


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
    if circuit.state is not State.OPEN or facts.blocking(circuit, now.mono, rules):
        return None
    return advance(circuit, Event.DUE, now, rules)


def take_lease(circuit: Circuit, holder: object, now: float, rules: BreakerSettings) -> bool:
    """Give *holder* the probe lease of a half-open circuit. False: another request holds it."""
    if facts.leased(circuit, now, rules):
        return circuit.lease is not None and circuit.lease.holder is holder
    if circuit.state is State.HALF_OPEN and rules.probe_lease > 0:
        circuit.lease = Lease(holder, now)
    return True


def end_lease(circuit: Circuit, holder: object) -> None:
    """The attempt of *holder* is over; nothing happens when the lease is not its own."""
    if circuit.lease is not None and circuit.lease.holder is holder:
        circuit.lease = None
