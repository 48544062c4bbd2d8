"""A board with a clock that stands still, settings that can be changed, and everything it told."""

from dataclasses import replace
from datetime import timedelta

import pytest

from failover import verdict
from failover.breaker.board import Board
from failover.breaker.pins import Advice, Source
from failover.breaker.rules import BreakerSettings
from failover.verdict import Judgement, Verdict

A, B = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
NAMES = {A: "Aurora", B: "Borealis"}

SUCCESS = verdict.success(200)
SATURATED = Judgement(Verdict.SATURATED, "upstream status 429 (saturated)", 429, "noop")
NOOP = verdict.NONE
#: Opens on one answer and claims nothing about how long: no pin.
SPENT = Judgement(Verdict.EXHAUSTED, "upstream status 429 (exhausted)", 429, "charge", rate_limited=True)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def status(code, *, moves_on=True, opens=True):
    return verdict.of_status(code, moves_on=moves_on, open_on_exhaustion=opens)


def spent(hint=0.0, *, account=False, code=429):
    """An exhausted answer that claims to stay so for *hint* seconds."""
    cause = f"upstream status {code} (exhausted)"
    return Judgement(Verdict.EXHAUSTED, cause, code, "charge", hint, account, rate_limited=code == 429)


def charge_429(cause="upstream status 429 (unrecognised)"):
    return Judgement(Verdict.CHARGE, cause, 429, "charge", rate_limited=True)


def alive(code=400):
    return status(code, moves_on=False)


class Bench(Board):
    """The board under test, with short words for what happens to it."""

    def __init__(self, clock):
        self.rules = BreakerSettings()
        self.reads = 0
        self.drawn = 0.0
        self.asked = []
        super().__init__(
            clock, self._settings, lambda pid: NAMES.get(pid, ""), chance=lambda: self.drawn, opened=self.asked.append
        )

    def _settings(self):
        self.reads += 1
        return self.rules

    def set(self, **changes):
        self.rules = replace(self.rules, **changes)

    def say(self, *judgements, provider=A, model="m"):
        for judgement in judgements:
            self.record(provider, model, judgement)

    def open(self, provider=A, model="m"):
        self.say(SPENT, provider=provider, model=model)
        assert self.gate(provider, model).state == "blocked"

    def ask(self, holder="someone", *, provider=A, model="m", alone=False, direct=False):
        return self.admit(provider, model, holder, alone=alone, direct=direct)

    def fail_probe(self, judgement=None):
        assert self.ask("probe")
        self.say(judgement or status(503))
        self.release(A, "m", "probe")

    def advise(self, seconds, *, provider=A, source="advisor", recovered=()):
        """A pass over the readings found *provider* spent for so many more seconds (None: found nobody spent)."""
        deadline = None if seconds is None else self.clock.now() + timedelta(seconds=seconds)
        self.take_advice({} if deadline is None else {provider: Advice(deadline, Source(source))}, recovered)

    def wait(self, model="m", provider=A):
        """Seconds that the open circuit waits in all; None when it is not open."""
        ms = (self.circuit(model, provider) or {}).get("cooldown_ms")
        return None if ms is None else ms / 1000

    def row(self, provider=A):
        rows = self.status({}, True).get("providers", [])
        return next((row for row in rows if row["provider_id"] == provider), None)

    def circuit(self, model="m", provider=A):
        row = self.row(provider)
        return next((c for c in row["circuits"] if c["model"] == model), None) if row else None


@pytest.fixture
def board(clock):
    return Bench(clock)
