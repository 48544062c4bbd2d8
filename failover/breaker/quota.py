"""What a pass over the quota readings does to the circuits of a provider (``circuit-breaker`` 10.4 to 10.8).

Everything here runs under the board's lock and gives back what is to be told after it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from failover.breaker import circuit as facts
from failover.breaker import pinning, pins, report
from failover.breaker import state as machine
from failover.breaker.circuit import ACCOUNT, Circuit, Moment, State
from failover.breaker.circuits import Circuits
from failover.breaker.pinning import Cause
from failover.breaker.pins import Advice, Evidence
from failover.breaker.report import PinNote, Report
from failover.breaker.rules import BreakerSettings
from failover.breaker.state import Event, Move

Told = list[Report | PinNote]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass, with one reading of the settings and of the clock; *chance* yields [0, 1)."""

    circuits: Circuits
    rules: BreakerSettings
    now: Moment
    chance: Callable[[], float]

    def retarget(self, provider_id: str, advice: Advice) -> Told:
        """Open circuits wait until the quota is back, where they would not have waited as long."""
        return [
            PinNote.of(provider_id, circuit, report.RETARGETED, self.rules)
            for circuit in self.circuits.troubled.get(provider_id, ())
            if pinning.retarget(circuit, advice, self.now, self.rules, self.chance())
        ]

    def seed(self, provider_id: str, advice: Advice) -> Told:
        """Open a circuit for the account itself, unless the provider is held dark for its account already."""
        now, rules = self.now, self.rules
        if pinning.held_dark(self.circuits.of(provider_id), now.mono, rules):
            return []
        left = pins.remaining(advice, now.wall)
        pin = pins.longer(left, advice.source, rules.cooldown, rules, Evidence(spread=self.chance()))
        if pin is None:
            return []
        circuit = self.circuits.find(provider_id, ACCOUNT) or self.circuits.create(provider_id, ACCOUNT)
        return [self._moved(provider_id, circuit, machine.seed(circuit, pin, now, rules))]

    def recover(self, provider_id: str) -> Told:
        """The quota is affirmatively back: pins that rest on it go, claims of single answers stay."""
        found = [circuit for circuit in self.circuits.of(provider_id) if pinning.note_recovery(circuit)]
        return self._release(provider_id, found, Cause.RECOVERED)

    def blind(self, provider_id: str) -> Told:
        """Nobody reads the quota any more, so nobody would notice that it is back: every pin goes."""
        found = [circuit for circuit in self.circuits.of(provider_id) if circuit.pin is not None]
        return self._release(provider_id, found, Cause.BLIND)

    def sweep(self, provider_id: str) -> Told:
        """The circuit of the account goes when its pin has run out or pinning is switched off."""
        circuit = self.circuits.find(provider_id, ACCOUNT)
        if circuit is None or not circuit.seeded or facts.blocking(circuit, self.now.mono, self.rules):
            return []
        pinning.release(circuit, Cause.ELAPSED, self.now)
        return [self._removed(provider_id, circuit)]

    def _release(self, provider_id: str, circuits: list[Circuit], cause: Cause) -> Told:
        told: Told = []
        for circuit in circuits:
            pinning.release(circuit, cause, self.now)
            removed = self._removed(provider_id, circuit) if circuit.seeded else None
            state = State.CLOSED if removed else facts.reported(circuit, self.now.mono, self.rules)
            told.append(PinNote.of(provider_id, circuit, f"circuit-breaker: {cause}", self.rules, state))
            told += [removed] if removed else []
        return told

    def _removed(self, provider_id: str, circuit: Circuit) -> Report:
        self.circuits.drop(provider_id, circuit.model)
        return self._moved(provider_id, circuit, Move(circuit.state, State.CLOSED, Event.SEED))

    def _moved(self, provider_id: str, circuit: Circuit, move: Move) -> Report:
        self.circuits.note(provider_id)
        skipped = self.circuits.skipped(provider_id, self.now.mono, self.rules)
        return Report.of(provider_id, circuit, move, self.now, self.rules, provider_open=skipped)
