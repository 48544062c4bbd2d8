"""The status of circuits as JSON members. Reading never moves a state; times are RFC 3339 in UTC with milliseconds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from failover.breaker import circuit as facts
from failover.breaker.circuit import Circuit, State
from failover.breaker.rules import BreakerSettings
from modelhotel.core.clock import rfc3339

Row = dict[str, Any]

_RANK = {State.CLOSED: 0, State.HALF_OPEN: 1, State.OPEN: 2}


def worst(circuits: Iterable[Circuit], now: float, rules: BreakerSettings) -> State:
    """The most degraded reported state; closed for none."""
    return worst_of(facts.reported(circuit, now, rules) for circuit in circuits)


def worst_of(states: Iterable[State]) -> State:
    return max(states, key=_RANK.__getitem__, default=State.CLOSED)


def _badness(circuit: Circuit, now: float, rules: BreakerSettings) -> tuple[int, float, int]:
    state = facts.reported(circuit, now, rules)
    at = facts.retry_at(circuit, rules) if state is State.OPEN else None
    return _RANK[state], at or 0.0, circuit.consecutive_fails


def most_degraded(circuits: Iterable[Circuit], now: float, rules: BreakerSettings) -> Circuit:
    """Open before half-open before closed, then the later retry, then more failures, then the smaller model id."""
    return max(sorted(circuits, key=lambda c: c.model), key=lambda c: _badness(c, now, rules))


def _condition(circuit: Circuit, now: float, rules: BreakerSettings) -> Row:
    """The members a circuit and its provider's row share; what is false or zero is left out."""
    state = facts.reported(circuit, now, rules)
    wait = facts.wait_of(circuit, rules)
    found: Row = {"state": state.value, "consecutive_fails": circuit.consecutive_fails}
    if state is not State.CLOSED:
        found["opened_at"] = rfc3339(circuit.opened_wall, milliseconds=True)
    if state is State.OPEN:
        found["cooldown_ms"] = wait.ms
        found["next_retry_at"] = rfc3339(facts.retry_wall(circuit, rules), milliseconds=True)
    if wait.quota_pinned:
        found |= {"quota_pinned": True, "pin_source": wait.pin_source}
    if wait.backed_off:
        found["backed_off"] = True
    if circuit.failed_probes:
        found["failed_probes"] = circuit.failed_probes
    return found


def _circuit(circuit: Circuit, now: float, rules: BreakerSettings) -> Row:
    found = {"model": circuit.model, **_condition(circuit, now, rules), "last_cause": circuit.last_cause}
    if circuit.last_status:
        found["last_status"] = circuit.last_status
    found["last_at"] = rfc3339(circuit.last_at, milliseconds=True)
    if facts.leased(circuit, now, rules):
        found["probing"] = True
    return found


def row(provider_id: str, circuits: Sequence[Circuit], now: float, rules: BreakerSettings) -> Row:
    """One provider with at least one circuit; its name is added by :func:`body`."""
    dark = [c for c in circuits if facts.blocking(c, now, rules)]
    found: Row = {"provider_id": provider_id, "provider_name": ""}
    found |= _condition(most_degraded(circuits, now, rules), now, rules)
    found.pop("quota_pinned", None)
    if any(facts.wait_of(c, rules).quota_pinned for c in dark):
        found["quota_pinned"] = True
    found["provider_open"] = facts.skips_provider(dark, rules)
    if dark:
        found["open_models"] = sorted(c.model for c in dark)
    found["circuits"] = [_circuit(c, now, rules) for c in sorted(circuits, key=lambda c: c.model)]
    return found


def body(states: Iterable[State], rows: Sequence[Row], names: Mapping[str, str]) -> Row:
    """The whole answer: how many providers are in which state, and their rows by name where there are any."""
    all_states = list(states)
    found: Row = {
        "closed": all_states.count(State.CLOSED),
        "half_open": all_states.count(State.HALF_OPEN),
        "open": all_states.count(State.OPEN),
    }
    if rows:
        named = [{**r, "provider_name": names[r["provider_id"]]} for r in rows]
        found["providers"] = sorted(named, key=lambda r: (r["provider_name"], r["provider_id"]))
    return found
