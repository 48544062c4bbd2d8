"""Any sequence of verdicts, requests and time against a model of one circuit written as plain sentences."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from failover.breaker import circuit as facts
from failover.breaker import state as machine
from failover.breaker.circuit import Circuit, Moment
from failover.breaker.rules import BreakerSettings
from failover.verdict import Judgement, Verdict

START = datetime(2026, 1, 1, tzinfo=UTC)


class OneCircuit(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now, self.rules, self.circuit = 0.0, BreakerSettings(threshold=3), Circuit("m")
        self.state, self.fails, self.probes, self.earned, self.opened = "closed", 0, 0, 0.0, None
        self.holder, self.taken, self.last = None, None, ""

    def moment(self):
        return Moment(self.now, START + timedelta(seconds=self.now))

    # --- the model ---

    def wait(self):
        governs = self.earned > self.rules.cooldown and self.rules.backoff_max > self.rules.cooldown
        return self.earned if governs else self.rules.cooldown

    def waiting(self):
        return self.state == "open" and self.now < self.opened + self.wait()

    def held(self):
        return self.holder is not None and self.now < self.taken + self.rules.probe_lease

    def to_open(self):
        earned = self.rules.cooldown
        for _ in range(self.probes):
            earned = min(earned * 2, self.rules.backoff_max)
        self.earned = min(earned, self.rules.backoff_max) if self.probes else 0.0
        self.state, self.opened, self.holder = "open", self.now, None

    def expect(self, judgement):
        kind = judgement.verdict
        if kind is not Verdict.NOOP:
            self.last = judgement.cause
        if self.state == "closed":
            if kind is Verdict.CHARGE:
                self.fails += 1
                if self.fails >= self.rules.threshold:
                    self.to_open()
            elif kind is Verdict.EXHAUSTED:
                self.fails = self.rules.threshold
                self.to_open()
            elif kind is Verdict.SUCCESS:
                self.fails = 0
        elif self.state == "half-open":
            if kind in (Verdict.CHARGE, Verdict.EXHAUSTED):
                self.fails, self.probes = self.rules.threshold, self.probes + 1
                self.to_open()
            elif kind in (Verdict.SUCCESS, Verdict.ALIVE):
                self.state, self.fails, self.probes, self.earned, self.holder = "closed", 0, 0, 0.0, None

    # --- what can happen ---

    @rule(kind=st.sampled_from(list(Verdict)))
    def verdict_lands(self, kind):
        judgement = Judgement(kind, f"phrase {kind}", 503)
        before = self.state
        self.expect(judgement)
        move = machine.land(self.circuit, judgement, self.moment(), self.rules)
        assert (move is not None) == (before != self.state)

    @rule(holder=st.sampled_from("abc"))
    def somebody_asks(self, holder):
        if self.state == "open" and not self.waiting():
            self.state = "half-open"
        machine.ask(self.circuit, self.moment(), self.rules)
        taken = machine.take_lease(self.circuit, holder, self.now, self.rules)
        assert taken == (not self.held() or self.holder == holder)
        if self.state == "half-open" and not self.held() and self.rules.probe_lease:
            self.holder, self.taken = holder, self.now

    @rule(holder=st.sampled_from("abc"))
    def somebody_ends(self, holder):
        machine.end_lease(self.circuit, holder)
        if self.holder == holder:
            self.holder = None

    @rule(seconds=st.sampled_from([0.5, 14.5, 30.0, 60.0, 400.0, 90_000.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(
        threshold=st.integers(1, 5),
        cooldown=st.sampled_from([30.0, 60.0, 1200.0]),
        ceiling=st.sampled_from([0.0, 60.0, 900.0, 3600.0]),
        lease=st.sampled_from([0.0, 15.0, 600.0]),
    )
    def settings_change(self, threshold, cooldown, ceiling, lease):
        self.rules = replace(self.rules, threshold=threshold, cooldown=cooldown, backoff_max=ceiling, probe_lease=lease)

    # --- what must hold ---

    @invariant()
    def both_agree(self):
        circuit = self.circuit
        found = (circuit.state, circuit.consecutive_fails, circuit.failed_probes, circuit.backoff, circuit.last_cause)
        assert found == (self.state, self.fails, self.probes, self.earned, self.last)
        assert facts.blocking(circuit, self.now, self.rules) == self.waiting()
        assert facts.leased(circuit, self.now, self.rules) == (self.state == "half-open" and self.held())

    @invariant()
    def a_closed_circuit_claims_nothing(self):
        if self.circuit.state == "closed":
            assert self.circuit.failed_probes == self.circuit.backoff == 0
            assert facts.retry_at(self.circuit, self.rules) is None
            assert not facts.wait_of(self.circuit, self.rules).backed_off

    @invariant()
    def only_a_half_open_circuit_has_a_lease(self):
        assert self.circuit.lease is None or self.circuit.state == "half-open"


TestOneCircuit = OneCircuit.TestCase
TestOneCircuit.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
