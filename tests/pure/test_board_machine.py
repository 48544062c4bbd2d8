"""A board under any interleaving of requests, outcomes, hang-ups, time, settings, resets and quota readings.

Everything the board says is compared with what follows, in plain sentences, from the facts that its circuits store.
"""

import copy
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from failover import verdict
from failover.breaker.board import Board
from failover.breaker.circuit import State
from failover.breaker.pins import Advice, Source
from failover.breaker.rules import BreakerSettings
from failover.verdict import Judgement, Verdict
from modelhotel.core.clock import ManualClock

MODELS = ("m1", "m2")
MODEL = st.sampled_from(MODELS)
OUTCOME = st.sampled_from(
    [
        verdict.success(),
        verdict.TRANSPORT,
        verdict.of_status(422, moves_on=False, open_on_exhaustion=True),
        verdict.of_status(402, moves_on=True, open_on_exhaustion=True),
        Judgement(Verdict.SATURATED, "upstream status 429 (saturated)", 429, "noop"),
        Judgement(Verdict.EXHAUSTED, "upstream status 429 (exhausted)", 429, "charge", 7200.0, True, True),
        Judgement(Verdict.EXHAUSTED, "upstream status 429 (exhausted)", 429, "charge", 600.0, rate_limited=True),
        Judgement(Verdict.CHARGE, "upstream status 429 (unrecognised)", 429, "charge", rate_limited=True),
    ]
)
CLAIMED, OF_ACCOUNT = (Source.RESPONSE, Source.ACCOUNT), (Source.ACCOUNT, Source.ADVISOR, Source.RESERVE)
#: Longer than any wait, spread included, and any lease that the settings below allow.
FOR_EVER = 400_000.0


class Traffic(RuleBasedStateMachine):
    """*running*: the requests that were let in, each the holder of its own lease, and the model it asks."""

    def __init__(self):
        super().__init__()
        self.clock, self.rules = ManualClock(), BreakerSettings(threshold=1)
        self.board = Board(self.clock, lambda: self.rules, lambda pid: pid, lambda: 0.99)
        self.running = []

    # -- what follows from the stored facts

    def circuits(self):
        return self.board._circuits.of("p")

    def circuit(self, model):
        return self.board._circuits.find("p", model)

    def pinned(self, circuit):
        return circuit.pin is not None and self.rules.pin_max > 0

    def wait(self, circuit):
        wait = self.rules.cooldown
        if circuit.backoff > wait < self.rules.backoff_max:
            wait = circuit.backoff
        if circuit.seeded:
            wait = 0.0
        if not self.pinned(circuit):
            return wait
        stated = circuit.pin.seconds
        if circuit.pin.source in CLAIMED and self.rules.pin_probe:
            stated = min(stated, self.rules.pin_probe * (1 + 0.05 * circuit.pin.seed))
        return max(wait, stated)

    def dark(self, circuit):
        now = self.clock.monotonic()
        return circuit.state is State.OPEN and now < circuit.opened_at + self.wait(circuit)

    def skipped(self):
        dark = [circuit for circuit in self.circuits() if self.dark(circuit)]
        account = any(self.pinned(circuit) and circuit.pin.source in OF_ACCOUNT for circuit in dark)
        return account or len(dark) >= self.rules.span

    def leased(self, circuit):
        now, lease = self.clock.monotonic(), circuit.lease
        return circuit.state is State.HALF_OPEN and lease is not None and now < lease.taken + self.rules.probe_lease

    def expected(self, model):
        circuit = self.circuit(model)
        if self.skipped() or (circuit is not None and self.dark(circuit)):
            return "blocked"
        return "leased" if circuit is not None and self.leased(circuit) else "free"

    # -- what can happen

    @rule(model=MODEL, alone=st.booleans())
    def a_group_request_comes(self, model, alone):
        gate = self.board.gate("p", model).state
        assert gate == self.expected(model)
        if gate == "free" or (gate == "leased" and alone):
            self.asks(model, alone=alone, direct=False)

    @rule(model=MODEL)
    def a_direct_request_comes(self, model):
        self.asks(model, alone=False, direct=True)

    def asks(self, model, *, alone, direct):
        circuit, holder = self.circuit(model), object()
        due = circuit is not None and circuit.state is State.OPEN and not self.dark(circuit)
        taken = circuit is not None and self.leased(circuit)
        assert self.board.admit("p", model, holder, alone=alone, direct=direct) is (not taken or alone or direct)
        self.running.append((model, holder))
        if due:
            assert circuit.state is State.HALF_OPEN
            assert (circuit.lease is not None and circuit.lease.holder is holder) is (self.rules.probe_lease > 0)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0), outcome=OUTCOME)
    def one_ends(self, which, outcome):
        model, holder = self.running.pop(which % len(self.running))
        self.board.record("p", model, outcome)
        self.board.release("p", model, holder)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0))
    def a_client_hangs_up(self, which):
        model, holder = self.running.pop(which % len(self.running))
        circuit = self.circuit(model)
        before = copy.copy(circuit)
        self.board.record("p", model, verdict.NONE)
        self.board.release("p", model, holder)
        if before is not None and before.lease is not None and before.lease.holder is holder:
            before.lease = None
        assert self.circuit(model) is circuit
        assert circuit is None or all(getattr(circuit, name) == getattr(before, name) for name in circuit.__slots__)

    @precondition(lambda self: any(self.dark(circuit) for circuit in self.circuits()))
    @rule()
    def the_first_wait_is_over(self):
        over = min(circuit.opened_at + self.wait(circuit) for circuit in self.circuits() if self.dark(circuit))
        self.clock.advance(over - self.clock.monotonic() + 1e-3)

    @rule(seconds=st.sampled_from([0.1, 14.9, 15.0, 60.0, 119.0, 900.0, 3700.0, 90_000.0]))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule(
        changed=st.one_of(
            st.fixed_dictionaries({"threshold": st.integers(1, 5), "span": st.integers(1, 4)}),
            st.fixed_dictionaries({"cooldown": st.sampled_from([30.0, 60.0, 1200.0])}),
            st.fixed_dictionaries({"probe_lease": st.sampled_from([0.0, 15.0, 600.0])}),
            st.fixed_dictionaries({"backoff_max": st.sampled_from([0.0, 60.0, 900.0])}),
            st.fixed_dictionaries({"pin_max": st.sampled_from([0.0, 3600.0, 86_400.0])}),
            st.fixed_dictionaries({"pin_probe": st.sampled_from([0.0, 3600.0])}),
            st.fixed_dictionaries({"enabled": st.booleans()}),
        )
    )
    def a_setting_changes(self, changed):
        self.rules = replace(self.rules, **changed)

    @rule(model=st.sampled_from([None, *MODELS]))
    def an_operator_resets(self, model):
        self.board.reset("p", model)
        assert all(c.model != model for c in self.circuits()) if model else not self.circuits()

    @rule(seconds=st.sampled_from([-60.0, 30.0, 7200.0, 200_000.0]), source=st.sampled_from(["advisor", "reserve"]))
    def the_quota_reads_spent(self, seconds, source):
        self.board.take_advice({"p": Advice(self.clock.now() + timedelta(seconds=seconds), Source(source))}, [])

    @rule()
    def the_quota_reads_well(self):
        self.board.take_advice({}, ["p"])

    @rule()
    def nobody_reads_the_quota_any_more(self):
        self.board.release_pins()

    # -- what must hold

    @invariant()
    def every_verdict_is_what_follows_from_the_circuits(self):
        for model in MODELS:
            assert self.board.gate("p", model).state == self.expected(model)
        assert self.board.provider_open("p") is (self.rules.enabled and self.skipped())

    @invariant()
    def the_status_counts_each_provider_once(self):
        counts = self.board.status({"p": "p", "q": "q"}, False)
        states = {"open": 2 if any(self.dark(c) for c in self.circuits()) else 0}
        states["half_open"] = any(c.state is not State.CLOSED and not self.dark(c) for c in self.circuits())
        worst = next((name for name in ("open", "half_open") if states[name]), "closed") if self.rules.enabled else ""
        assert counts == {"closed": 1 + (worst not in ("open", "half_open"))} | {
            name: int(worst == name) for name in ("half_open", "open")
        }

    @invariant()
    def no_lease_outlives_its_request(self):
        holders = [holder for _, holder in self.running]
        for circuit in self.circuits():
            assert circuit.lease is None or circuit.lease.holder in holders
            assert circuit.lease is None or circuit.state is State.HALF_OPEN

    @invariant()
    def nothing_counts_below_zero(self):
        for c in self.circuits():
            assert min(c.consecutive_fails, c.failed_probes, c.backoff, c.opens, c.opens_429_streak) >= 0
            assert c.state is State.OPEN or not c.seeded

    def teardown(self):
        """No wedge: whatever happened, and though nobody of those that run ever ends."""
        self.rules = replace(self.rules, enabled=True)
        self.clock.advance(FOR_EVER)
        self.board.take_advice({}, [])
        for model in MODELS:
            assert self.board.gate("p", model).state == "free"
            assert self.board.admit("p", model, object(), alone=False)
            self.board.record("p", model, verdict.success())
        assert self.board.state_of("p") is State.CLOSED


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)


class TestMuchTraffic(Traffic.TestCase):
    settings = settings(max_examples=300, stateful_step_count=25, deadline=None)
    pytestmark = [pytest.mark.slow, pytest.mark.timeout(180, func_only=True)]
