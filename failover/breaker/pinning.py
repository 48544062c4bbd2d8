"""What happens to the pin of one circuit while it stays in its state (``circuit-breaker`` 10.4, 10.6, 10.7, 10.11).

A pin only ever grows, except by a release, which takes it away whole and leaves state, counters and backoff alone.
"""

from collections.abc import Iterable
from enum import StrEnum

from failover.breaker import circuit as facts
from failover.breaker import pins
from failover.breaker.circuit import Circuit, Moment
from failover.breaker.pins import Advice, Evidence
from failover.breaker.rules import BreakerSettings


class Cause(StrEnum):
    """Why a pin, or a circuit that consists of one, is gone."""

    RECOVERED = "quota pin released (provider no longer exhausted)"
    BLIND = "quota pin released (quota polling disabled)"
    ELAPSED = "quota pin elapsed"


def lengthen(circuit: Circuit, now: Moment, rules: BreakerSettings, evidence: Evidence) -> None:
    """A late exhausted answer with a longer claim than the one that an open circuit is waiting for."""
    if evidence.hint <= 0 or circuit.opened_at is None or not facts.blocking(circuit, now.mono, rules):
        return
    floor, _ = facts.unpinned(circuit, rules)
    if circuit.pin is not None:
        if circuit.pin.source in pins.MEASURED:
            return
        floor = max(floor, circuit.pin.seconds)
        evidence = evidence._replace(seed=circuit.pin.seed)  # another one could bring the next probe forward
    claim = now.mono - circuit.opened_at + evidence.hint
    circuit.pin = pins.longer(claim, pins.claimed(evidence), floor, rules, evidence) or circuit.pin


def retarget(circuit: Circuit, advice: Advice, now: Moment, rules: BreakerSettings, spread: float) -> bool:
    """A reading says that the quota is spent for longer than an open circuit would wait. True: it waits longer now."""
    left = pins.remaining(advice, now.wall)
    if left <= 0 or circuit.opened_at is None or not facts.blocking(circuit, now.mono, rules):
        return False
    floor = facts.wait_of(circuit, rules).seconds
    pin = pins.longer(now.mono - circuit.opened_at + left, advice.source, floor, rules, Evidence(spread=spread))
    if pin is None:
        return False
    circuit.pin = pin
    circuit.last_cause, circuit.last_at = f"quota pin retargeted ({advice.source})", now.wall
    return True


def release(circuit: Circuit, cause: Cause, now: Moment) -> None:
    circuit.pin = None
    circuit.last_cause, circuit.last_at = cause.value, now.wall


def note_recovery(circuit: Circuit) -> bool:
    """The provider's quota is affirmatively back: its streak ends. True: its pin rested on the quota, release it."""
    circuit.opens_429_streak = 0
    return circuit.pin is not None and circuit.pin.source in pins.FOR_THE_ACCOUNT


def held_dark(circuits: Iterable[Circuit], now: float, rules: BreakerSettings) -> bool:
    """Whether some pin keeps the whole account dark already."""
    return any(facts.blocking(c, now, rules) and pins.speaks_for_account(c.pin, rules) for c in circuits)
