"""All circuits of this process: who is asked, who is left alone, who may probe.

The event loop asks and records, API threads reset. One plain lock guards the circuits and nothing slow happens under
it: what has to be told is read under the lock and told after it. A provider without an open circuit costs its callers
one dict lookup and no lock.

The board does not ask whether the breaker is enabled before it gates, admits or records: a request reads that flag
once, at its start, and leaves the board alone when it is off. What people see (:meth:`Board.status`,
:meth:`Board.provider_open`, :meth:`Board.health`) follows the flag of the moment.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from failover.breaker import circuit as facts
from failover.breaker import report, view
from failover.breaker import state as machine
from failover.breaker.circuit import Circuit, Moment, State
from failover.breaker.circuits import Circuits
from failover.breaker.pins import Advice, Evidence
from failover.breaker.quota import Pass, Told
from failover.breaker.report import PinNote, Report
from failover.breaker.rules import BreakerSettings
from failover.breaker.state import Event, Move
from failover.verdict import Judgement, Verdict
from modelhotel.core.clock import Clock
from providers.ports import CircuitHealth


@dataclass(frozen=True, slots=True)
class Gate:
    """What stands before a pair. *retry_at* is the monotonic instant at which a blocked request would get through;
    *pinned*: every circuit behind the block waits on a quota pin. ``leased``: another request is probing.
    """

    state: Literal["free", "blocked", "leased"]
    retry_at: float | None = None
    pinned: bool = False


FREE = Gate("free")
_LEASED = Gate("leased")


@dataclass(frozen=True, slots=True)
class Reset:
    """One circuit that was cleared by hand; *previous* is its reported state just before."""

    provider_id: str
    model: str
    previous: State


def _nobody(provider_id: str) -> None:
    return None


class Board:
    """*settings* is asked at the moment of each decision; *name_of* maps a provider id to its current name; *chance*
    yields [0, 1); *opened* is told the provider of every circuit that opened on answers, and must return at once.
    """

    def __init__(
        self,
        clock: Clock,
        settings: Callable[[], BreakerSettings],
        name_of: Callable[[str], str],
        chance: Callable[[], float] = random.random,
        opened: Callable[[str], None] = _nobody,
    ) -> None:
        self.clock = clock
        self.settings = settings
        self.name_of = name_of
        self.chance = chance
        self.opened = opened
        self._circuits = Circuits()
        self._troubled = self._circuits.troubled
        self._advice: Mapping[str, Advice] = {}
        self._lock = threading.Lock()

    @property
    def calm(self) -> bool:
        """No circuit stands in anybody's way."""
        return not self._troubled

    def gate(self, provider_id: str, model: str) -> Gate:
        """What a group request meets at resolution. Changes nothing."""
        if provider_id not in self._troubled:
            return FREE
        rules, now = self.settings(), self.clock.monotonic()
        with self._lock:
            blocking = self._circuits.blocking(provider_id, now, rules)
            own = self._circuits.find(provider_id, model)
            if own is not None and facts.blocking(own, now, rules):
                return Gate("blocked", facts.retry_at(own, rules), facts.wait_of(own, rules).quota_pinned)
            if facts.skips_provider(blocking, rules):
                return Gate("blocked", facts.earliest(blocking, rules), facts.all_pinned(blocking, rules))
            return _LEASED if own is not None and facts.leased(own, now, rules) else FREE

    def admit(self, provider_id: str, model: str, holder: object, *, alone: bool, direct: bool = False) -> bool:
        """Ask for the pair right before an attempt's first try; *holder* is the attempt.

        Moves a circuit whose wait is over to half-open and takes the probe lease when it is free. False only when
        another request holds the lease and this one is neither *direct* nor *alone* (no later candidate left): skip
        it as ``probe in progress``. A circuit that is blocking admits: it opened after this request was resolved, or
        the request is direct.
        """
        if provider_id not in self._troubled:
            return True
        rules, now = self.settings(), self._moment()
        with self._lock:
            circuit = self._circuits.find(provider_id, model)
            if circuit is None:
                return True
            told = self._ask(circuit, provider_id, now, rules)
            taken = machine.take_lease(circuit, holder, now.mono, rules)
        self._tell_all(told)
        return taken or alone or direct

    def release(self, provider_id: str, model: str, holder: object) -> None:
        """The attempt of *holder* is over, whatever came of it: its lease ends. Any number of times, lease or not."""
        if provider_id not in self._troubled:
            return
        with self._lock:
            circuit = self._circuits.find(provider_id, model)
            if circuit is not None:
                machine.end_lease(circuit, holder)

    def record(self, provider_id: str, model: str, judgement: Judgement) -> None:
        """Apply the verdict of one finished attempt against the state it meets now.

        Logs ``proxy: recording circuit breaker failure`` or ``... exhaustion`` as well, so callers need not. The
        lease is not its business: callers release it when the attempt ends.
        """
        if judgement.verdict is Verdict.NOOP:
            return
        if judgement.verdict is Verdict.SUCCESS and provider_id not in self._troubled:
            circuit = self._circuits.find(provider_id, model)
            if circuit is not None and machine.confirm(circuit, judgement, self.clock.monotonic(), self.clock.now()):
                return
        rules, now = self.settings(), self._moment()
        with self._lock:
            told = self._land(provider_id, model, judgement, now, rules)
        self._tell_recording(provider_id, model, judgement)
        self._tell_all(told)

    def _tell_recording(self, provider_id: str, model: str, judgement: Judgement) -> None:
        if judgement.verdict in (Verdict.CHARGE, Verdict.EXHAUSTED):
            report.tell_recording(provider_id, self._name(provider_id), model, judgement)

    def served_within(self, provider_id: str, model: str, seconds: float) -> bool:
        """Whether the pair delivered an answer in the last *seconds*; an alive verdict is no answer."""
        circuit = self._circuits.find(provider_id, model)
        served = circuit.last_success if circuit is not None else None
        return served is not None and self.clock.monotonic() - served <= seconds

    def provider_open(self, provider_id: str) -> bool:
        """The provider-wide verdict: is it skipped for every model? Derived from the circuits on each call."""
        if provider_id not in self._troubled:
            return False
        rules, now = self.settings(), self.clock.monotonic()
        with self._lock:
            return rules.enabled and self._circuits.skipped(provider_id, now, rules)

    def health(self, provider_id: str) -> CircuitHealth:
        """What the circuits say about a provider's health; nothing while the breaker is switched off."""
        if provider_id not in self._troubled:
            return CircuitHealth()
        rules, now = self.settings(), self.clock.monotonic()
        if not rules.enabled:
            return CircuitHealth()
        with self._lock:
            states = {facts.reported(c, now, rules) for c in self._troubled.get(provider_id, ())}
            skipped = self._circuits.skipped(provider_id, now, rules)
        return CircuitHealth(skipped, any_open=State.OPEN in states, half_open=State.HALF_OPEN in states)

    def state_of(self, provider_id: str) -> State:
        """The reported state of the provider's most degraded circuit."""
        rules, now = self.settings(), self.clock.monotonic()
        with self._lock:
            return view.worst(self._troubled.get(provider_id, ()), now, rules)

    def states(self) -> dict[str, State]:
        """:meth:`state_of` for every provider that has circuits; nothing while the breaker is switched off."""
        return {pid: self.state_of(pid) for pid in self._circuits.providers()} if self.settings().enabled else {}

    def status(self, members: Mapping[str, str], detail: bool) -> dict[str, object]:
        """The body of the status API. *members*: id and name of every provider that is in some group."""
        rules, now = self.settings(), self.clock.monotonic()
        worst = dict.fromkeys(members, State.CLOSED)
        rows: list[view.Row] = []
        for provider_id in self._circuits.providers() if rules.enabled else ():
            with self._lock:
                circuits = self._circuits.of(provider_id)
                if not circuits:
                    continue
                worst[provider_id] = view.worst(circuits, now, rules)
                if detail:
                    rows.append(view.row(provider_id, circuits, now, rules))
        names = {row["provider_id"]: members.get(row["provider_id"]) or self._name(row["provider_id"]) for row in rows}
        return view.body(worst.values(), rows, names)

    def reset(self, provider_id: str | None = None, model: str | None = None) -> list[Reset]:
        """Clear by hand: one circuit, all of one provider, or (without arguments) everything. What was cleared."""
        with self._lock:
            if provider_id is None:
                pairs = list(self._circuits.pairs())
            elif model is None:
                pairs = [(provider_id, circuit.model) for circuit in self._circuits.of(provider_id)]
            else:
                pairs = [(provider_id, model)]
        return self.reset_pairs(pairs)

    def reset_pairs(self, pairs: Iterable[tuple[str, str]]) -> list[Reset]:
        """Clear exactly these (provider id, model) circuits, with counts, backoff, pin and lease; no event."""
        rules, now = self.settings(), self._moment()
        cleared: list[Reset] = []
        with self._lock:
            for provider_id, model in pairs:
                cleared += self._clear(provider_id, (model,), now, rules)
        self._tell_resets(cleared)
        return cleared

    def _tell_resets(self, cleared: Iterable[Reset]) -> None:
        for done in cleared:
            report.tell_reset(done.provider_id, done.model, done.previous)

    def forget(self, provider_id: str) -> None:
        """The provider is deleted: its circuits go without a word."""
        with self._lock:
            self._circuits.forget(provider_id)

    def keep_only(self, provider_ids: Collection[str]) -> None:
        """Forget every provider that is not among *provider_ids*."""
        with self._lock:
            gone = [pid for pid in self._circuits.providers() if pid not in provider_ids]
        for pid in gone:
            self.forget(pid)

    def take_advice(self, advice: Mapping[str, Advice], recovered: Collection[str]) -> None:
        """What a pass over the quota readings found: who is spent until when, and who is affirmatively not.

        Open circuits wait longer where a reading says so, a spent account that nothing keeps dark gets a circuit of
        its own, and the pins of the recovered are released.
        """
        rules = self.settings()
        if not rules.enabled:
            self._advice = advice
            return
        step = Pass(self._circuits, rules, self._moment(), self.chance)
        self._for_each(advice, lambda pid: step.retarget(pid, advice[pid]))
        self._advice = advice
        self._for_each((pid for pid in advice if self.name_of(pid)), lambda pid: step.seed(pid, advice[pid]))
        self._for_each(recovered, step.recover)
        self._for_each(tuple(self._troubled), step.sweep)

    def drop_advice(self) -> None:
        """The readings can not be had: nobody is pinned on their word from now on; pins in force stay."""
        self._advice = {}

    def release_pins(self) -> int:
        """The quota is not read any more: drop the advice and every pin; how many there were."""
        self.drop_advice()
        step = Pass(self._circuits, self.settings(), self._moment(), self.chance)
        told = self._for_each(self._circuits.providers(), step.blind)
        return sum(isinstance(one, PinNote) for one in told)

    def _for_each(self, provider_ids: Iterable[str], change: Callable[[str], Told]) -> Told:
        """Apply *change* to one provider after the other, each under the lock, and tell about it after it."""
        everything: Told = []
        for provider_id in provider_ids:
            with self._lock:
                told = change(provider_id)
            self._tell_all(told)
            everything += told
        return everything

    def _moment(self) -> Moment:
        return Moment(self.clock.monotonic(), self.clock.now())

    def _name(self, provider_id: str) -> str:
        return self.name_of(provider_id) or provider_id

    def _tell_all(self, told: Told) -> None:
        for one in told:
            if isinstance(one, PinNote):
                report.tell_pin(one)
                continue
            report.tell(one, self._name(one.provider_id))
            if one.move.after is State.OPEN and one.move.event is not Event.SEED:
                self.opened(one.provider_id)

    # Everything below runs under the lock.

    def _land(self, provider_id: str, model: str, judgement: Judgement, now: Moment, rules: BreakerSettings) -> Told:
        """A verdict meets its circuit; what is to be told of it."""
        circuit = self._circuits.find(provider_id, model)
        if circuit is None:
            if not self.name_of(provider_id):
                return []  # deleted while the attempt ran: nothing of it comes back
            circuit = self._circuits.create(provider_id, model)
        pin = circuit.pin
        move = machine.land(circuit, judgement, now, rules, self._evidence(provider_id, judgement))
        if move is not None:
            return [self._moved(provider_id, circuit, move, now, rules)]
        return [] if circuit.pin is pin else [PinNote.of(provider_id, circuit, report.LONGER_CLAIM, rules)]

    def _ask(self, circuit: Circuit, provider_id: str, now: Moment, rules: BreakerSettings) -> Told:
        """A request is about to contact the pair."""
        move = machine.ask(circuit, now, rules)
        return [self._moved(provider_id, circuit, move, now, rules)] if move else []

    def _clear(self, provider_id: str, models: Iterable[str], now: Moment, rules: BreakerSettings) -> list[Reset]:
        cleared: list[Reset] = []
        for model in models:
            circuit = self._circuits.find(provider_id, model)
            if circuit is not None:
                cleared.append(Reset(provider_id, model, facts.reported(circuit, now.mono, rules)))
                self._circuits.drop(provider_id, model)
        return cleared

    def _evidence(self, provider_id: str, judgement: Judgement) -> Evidence:
        return Evidence(
            judgement.rate_limited,
            judgement.pin_hint,
            judgement.account,
            self._advice.get(provider_id),
            self.chance(),
            self.chance(),
        )

    def _moved(self, provider_id: str, circuit: Circuit, move: Move, now: Moment, rules: BreakerSettings) -> Report:
        """A circuit changed its state: keep the index right and read what is told about it."""
        self._circuits.note(provider_id)
        skipped = self._circuits.skipped(provider_id, now.mono, rules)
        return Report.of(provider_id, circuit, move, now, rules, provider_open=skipped)
