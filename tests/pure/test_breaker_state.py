"""The table of one circuit, walked pair by pair, and the waits derived from it."""

import ast
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from failover import verdict
from failover.breaker import circuit as facts
from failover.breaker import state as machine
from failover.breaker.circuit import Circuit, Moment, State
from failover.breaker.rules import BreakerSettings
from failover.breaker.state import Event

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
RULES = BreakerSettings()
CLOSED, OPEN, HALF = State.CLOSED, State.OPEN, State.HALF_OPEN


def at(seconds):
    return Moment(1000.0 + seconds, START + timedelta(seconds=seconds))


def circuit_in(state, fails=3):
    """A circuit brought into *state* by events alone, with history in every field."""
    circuit = Circuit("m")
    for _ in range(fails):
        machine.advance(circuit, Event.CHARGE, at(0), RULES)
    if state is not CLOSED:
        machine.advance(circuit, Event.EXHAUSTED, at(0), RULES)
        machine.advance(circuit, Event.DUE, at(60), RULES)
        machine.advance(circuit, Event.CHARGE, at(61), RULES)
    if state is HALF:
        machine.advance(circuit, Event.DUE, at(200), RULES)
        assert machine.take_lease(circuit, "someone", 1200.0, RULES)
    assert circuit.state is state
    return circuit


def shown(circuit):
    return (circuit.state, circuit.consecutive_fails, circuit.failed_probes, circuit.backoff, circuit.opens)


#: (state, event) -> state, consecutive fails, failed probes, backoff and opens afterwards.
WANTED = {
    (CLOSED, Event.CHARGE): (CLOSED, 4, 0, 0, 0),
    (CLOSED, Event.LIMIT): (OPEN, 4, 0, 0, 1),
    (CLOSED, Event.EXHAUSTED): (OPEN, 5, 0, 0, 1),
    (CLOSED, Event.STILL_SPENT): (OPEN, 5, 0, 0, 1),
    (CLOSED, Event.SUCCESS): (CLOSED, 0, 0, 0, 0),
    (CLOSED, Event.ALIVE): (CLOSED, 3, 0, 0, 0),
    (CLOSED, Event.SATURATED): (CLOSED, 3, 0, 0, 0),
    (CLOSED, Event.NOOP): (CLOSED, 3, 0, 0, 0),
    (CLOSED, Event.DUE): (CLOSED, 3, 0, 0, 0),
    (CLOSED, Event.SEED): (OPEN, 3, 0, 0, 0),
    (OPEN, Event.CHARGE): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.LIMIT): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.EXHAUSTED): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.STILL_SPENT): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.SUCCESS): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.ALIVE): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.SATURATED): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.NOOP): (OPEN, 5, 1, 120, 2),
    (OPEN, Event.DUE): (HALF, 5, 1, 120, 2),
    (OPEN, Event.SEED): (OPEN, 5, 1, 120, 2),
    (HALF, Event.CHARGE): (OPEN, 5, 2, 240, 3),
    (HALF, Event.LIMIT): (OPEN, 5, 2, 240, 3),
    (HALF, Event.EXHAUSTED): (OPEN, 5, 2, 240, 3),
    (HALF, Event.STILL_SPENT): (OPEN, 5, 1, 120, 3),
    (HALF, Event.SUCCESS): (CLOSED, 0, 0, 0, 2),
    (HALF, Event.ALIVE): (CLOSED, 0, 0, 0, 2),
    (HALF, Event.SATURATED): (HALF, 5, 1, 120, 2),
    (HALF, Event.NOOP): (HALF, 5, 1, 120, 2),
    (HALF, Event.DUE): (HALF, 5, 1, 120, 2),
    (HALF, Event.SEED): (OPEN, 5, 1, 120, 2),
}


def test_the_table_knows_every_pair_and_nothing_else():
    assert set(machine.TABLE) == set(WANTED) == set(product(State, Event))


@pytest.mark.parametrize(("state", "event"), list(WANTED))
def test_each_pair_moves_as_the_table_says(state, event):
    circuit = circuit_in(state)
    opened = circuit.opened_at
    move = machine.advance(circuit, event, at(300), RULES)
    wanted = WANTED[state, event]
    assert shown(circuit) == wanted
    assert (move is None) == (wanted[0] is state)
    if move is not None:
        assert (move.before, move.after, move.event) == (state, wanted[0], event)
    opens_now = wanted[0] is OPEN and (state is not OPEN or event is Event.SEED)
    assert circuit.opened_at == (1300.0 if opens_now else opened)
    assert (circuit.lease is not None) == (circuit.state is HALF and state is HALF)


@pytest.mark.parametrize(
    ("judgement", "cause", "charged", "served"),
    [
        (verdict.stalled(200), "stream stalled", True, False),
        (
            verdict.of_status(402, moves_on=True, open_on_exhaustion=True),
            "upstream status 402 (exhausted)",
            True,
            False,
        ),
        (verdict.success(), "success", True, True),
        (verdict.of_status(422, moves_on=False, open_on_exhaustion=True), "upstream status 422 (alive)", True, False),
        (verdict.Judgement(verdict.Verdict.SATURATED, "upstream status 429 (saturated)", 429), None, False, False),
        (verdict.NONE, "", False, False),
    ],
)
@pytest.mark.parametrize("state", list(State))
def test_a_verdict_is_noted_in_every_state(state, judgement, cause, charged, served):
    """A no-op notes nothing; a saturated one does not touch the order of eviction; only a success is a success."""
    circuit = circuit_in(state)
    machine.land(circuit, judgement, at(400), RULES)
    if judgement is verdict.NONE:
        assert (circuit.last_cause, circuit.last_at) == ("", None)
    else:
        assert circuit.last_cause == (cause or "upstream status 429 (saturated)")
        assert (circuit.last_status, circuit.last_at) == (judgement.status, at(400).wall)
    assert circuit.last_charged == (1400.0 if charged else None)
    assert circuit.last_success == (1400.0 if served else None)


def test_lowering_the_threshold_opens_only_at_the_next_charge():
    circuit = circuit_in(CLOSED, fails=4)
    low = replace(RULES, threshold=2)
    assert machine.land(circuit, verdict.success(), at(1), low) is None
    circuit = circuit_in(CLOSED, fails=4)
    assert machine.land(circuit, verdict.stalled(200), at(1), low) is not None
    assert circuit.consecutive_fails == 5


def test_an_open_circuit_leaves_only_when_its_wait_is_over_and_someone_asks():
    circuit = Circuit("m")
    machine.advance(circuit, Event.EXHAUSTED, at(0), RULES)
    assert machine.ask(circuit, at(59.999), RULES) is None
    assert facts.reported(circuit, at(59.999).mono, RULES) is OPEN
    assert facts.reported(circuit, at(60).mono, RULES) is HALF
    assert circuit.state is OPEN
    assert machine.ask(circuit, at(60), RULES) is not None
    assert circuit.state is HALF
    assert machine.ask(circuit, at(61), RULES) is None


def test_asking_a_closed_circuit_changes_nothing():
    circuit = circuit_in(CLOSED)
    assert machine.ask(circuit, at(500), RULES) is None
    assert circuit.state is CLOSED


@pytest.mark.parametrize(
    ("backoff", "base", "ceiling", "wait", "backed_off"),
    [
        (0, 60, 900, 60, False),
        (120, 60, 900, 120, True),
        (900, 60, 0, 60, False),  # switched off: stops governing at once
        (900, 1200, 3600, 1200, False),  # the base grew past it
        (60, 60, 60, 60, False),  # a ceiling at the base adds nothing
        (900, 60, 300, 900, True),  # a lower ceiling that is still above the base applies from the next open
        (900, 60, 60, 60, False),
    ],
)
def test_the_effective_cooldown(backoff, base, ceiling, wait, backed_off):
    """circuit-breaker 39"""
    rules = replace(RULES, cooldown=base, backoff_max=ceiling)
    found = facts.wait_of(Circuit("m", backoff=backoff), rules)
    assert (found.seconds, found.backed_off, found.ms) == (wait, backed_off, wait * 1000)


def test_a_lease_has_one_holder_and_ends_by_itself():
    circuit = circuit_in(OPEN)
    machine.advance(circuit, Event.DUE, at(200), RULES)
    assert machine.take_lease(circuit, "a", 1200.0, RULES)
    assert not machine.take_lease(circuit, "b", 1214.9, RULES)
    assert machine.take_lease(circuit, "a", 1214.9, RULES), "its own"
    assert facts.leased(circuit, 1214.9, RULES)
    assert not facts.leased(circuit, 1215.0, RULES), "counted from its taking, not prolonged by its holder"
    assert machine.take_lease(circuit, "b", 1215.0, RULES)
    machine.end_lease(circuit, "a")
    assert facts.leased(circuit, 1216.0, RULES), "a late release of the former holder"
    machine.end_lease(circuit, "b")
    assert not facts.leased(circuit, 1216.0, RULES)


def test_without_a_lease_time_everyone_is_admitted():
    circuit = circuit_in(OPEN)
    machine.advance(circuit, Event.DUE, at(200), RULES)
    off = replace(RULES, probe_lease=0)
    assert all(machine.take_lease(circuit, holder, 1200.0, off) for holder in "abc")
    assert circuit.lease is None


@pytest.mark.parametrize("state", [CLOSED, OPEN])
def test_only_a_half_open_circuit_gives_out_a_lease(state):
    circuit = circuit_in(state)
    assert machine.take_lease(circuit, "a", 1062.0, RULES)
    assert circuit.lease is None


def test_opens_are_counted_in_windows_of_a_day():
    circuit = Circuit("m")
    seen = []
    for hours in (0, 1, 24, 24.1, 25, 49):
        machine.advance(circuit, Event.EXHAUSTED, at(hours * 3600), RULES)
        seen.append(circuit.opens)
        machine.advance(circuit, Event.DUE, at(hours * 3600 + 60), RULES)
        machine.advance(circuit, Event.SUCCESS, at(hours * 3600 + 61), RULES)
    assert seen == [1, 2, 3, 1, 2, 1]


def test_no_other_module_assigns_the_state():
    writers = []
    for path in Path(machine.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr == "state" and isinstance(node.ctx, ast.Store):
                writers.append(path.name)
    assert writers == ["state.py"]


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("fails", [0, 1])
def test_confirming_a_success_is_landing_it_where_nothing_is_to_forgive(state, fails):
    quick, slow = circuit_in(state, fails), circuit_in(state, fails)
    moment = at(5)
    taken = machine.confirm(quick, verdict.success(200), moment.mono, moment.wall)
    assert taken is (state is State.CLOSED and fails == 0)
    if taken:
        assert machine.land(slow, verdict.success(200), at(5), BreakerSettings()) is None
    # Lease objects aside, every field of the two is the same.
    for field in fields(Circuit):
        if field.name != "lease":
            assert getattr(quick, field.name) == getattr(slow, field.name), field.name
