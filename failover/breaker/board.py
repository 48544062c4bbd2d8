"""All circuits of this process: who is asked, who is left alone, who may probe.

The event loop asks and records, API threads reset. One plain lock guards the circuits and nothing slow happens under
it: what has to be told is read under the lock and told after it. A provider without an open circuit costs its callers
one dict lookup and no lock.

The board does not ask whether the breaker is enabled before it gates, admits or records: a request reads that flag
once, at its start, and leaves the board alone when it is off. What people see (:meth:`Board.status`,
:meth:`Board.provider_open`, :meth:`Board.health`) follows the flag of the moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from failover.breaker import report, view
from failover.breaker import state as machine
from failover.breaker.report import Report
from failover.breaker.rules import BreakerSettings
from failover.breaker.state import Circuit, Moment, Move, State
from failover.verdict import Judgement, Verdict
from modelhotel.core.clock import Clock
from providers.ports import CircuitHealth

#: Circuits per provider above which a closed one is dropped for each new one.
CAPACITY = 256


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


class Board:
    """*settings* is asked at the moment of each decision; *name_of* maps a provider id to its current name."""

    def __init__(self, clock: Clock, settings: Callable[[], BreakerSettings], name_of: Callable[[str], str]) -> None:
        self.clock = clock
        self.settings = settings
        self.name_of = name_of
        self._circuits: dict[str, dict[str, Circuit]] = {}
        # Providers with a circuit that is not closed, and these circuits; replaced whole, so readers need no lock.
        self._troubled: dict[str, tuple[Circuit, ...]] = {}
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
            blocking = self._blocking(provider_id, now, rules)
            own = self._find(provider_id, model)
            if own is not None and machine.blocking(own, now, rules):
                return Gate("blocked", machine.retry_at(own, rules))
            if len(blocking) >= rules.span:
                return Gate("blocked", machine.earliest(blocking, rules))
            return _LEASED if own is not None and machine.leased(own, now, rules) else FREE

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
            circuit = self._find(provider_id, model)
            if circuit is None:
                return True
            move = machine.ask(circuit, now, rules)
            told = self._moved(provider_id, circuit, move, now, rules) if move else None
            taken = machine.take_lease(circuit, holder, now.mono, rules)
        self._tell(told)
        return taken or alone or direct

    def release(self, provider_id: str, model: str, holder: object) -> None:
        """The attempt of *holder* is over, whatever came of it: its lease ends. Any number of times, lease or not."""
        if provider_id not in self._troubled:
            return
        with self._lock:
            circuit = self._find(provider_id, model)
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
            circuit = self._find(provider_id, model)
            if circuit is not None and machine.confirm(circuit, judgement, self.clock.monotonic(), self.clock.now()):
                return
        rules, now = self.settings(), self._moment()
        with self._lock:
            circuit = self._find(provider_id, model)
            if circuit is None:
                if not self.name_of(provider_id):
                    return  # deleted while the attempt ran: nothing of it comes back
                circuit = self._create(provider_id, model)
            move = machine.land(circuit, judgement, now, rules)
            told = self._moved(provider_id, circuit, move, now, rules) if move else None
        if judgement.verdict in (Verdict.CHARGE, Verdict.EXHAUSTED):
            report.tell_recording(provider_id, self._name(provider_id), model, judgement)
        self._tell(told)

    def provider_open(self, provider_id: str) -> bool:
        """The provider-wide verdict: is it skipped for every model? Derived from the circuits on each call."""
        if provider_id not in self._troubled:
            return False
        rules, now = self.settings(), self.clock.monotonic()
        with self._lock:
            return rules.enabled and self._skipped(provider_id, now, rules)

    def health(self, provider_id: str) -> CircuitHealth:
        """What the circuits say about a provider's health; nothing while the breaker is switched off."""
        if provider_id not in self._troubled:
            return CircuitHealth()
        rules, now = self.settings(), self.clock.monotonic()
        if not rules.enabled:
            return CircuitHealth()
        with self._lock:
            states = {machine.reported(c, now, rules) for c in self._troubled.get(provider_id, ())}
            skipped = self._skipped(provider_id, now, rules)
        return CircuitHealth(skipped, any_open=State.OPEN in states, half_open=State.HALF_OPEN in states)

    def state_of(self, provider_id: str) -> State:
        """The reported state of the provider's most degraded circuit."""
        rules, now = self.settings(), self.clock.monotonic()
        with self._lock:
            return view.worst(self._troubled.get(provider_id, ()), now, rules)

    def states(self) -> dict[str, State]:
        """:meth:`state_of` for every provider that has circuits; nothing while the breaker is switched off."""
        return {pid: self.state_of(pid) for pid in tuple(self._circuits)} if self.settings().enabled else {}

    def status(self, members: Mapping[str, str], detail: bool) -> dict[str, object]:
        """The body of the status API. *members*: id and name of every provider that is in some group."""
        rules, now = self.settings(), self.clock.monotonic()
        worst = dict.fromkeys(members, State.CLOSED)
        rows: list[view.Row] = []
        for provider_id in tuple(self._circuits) if rules.enabled else ():
            with self._lock:
                circuits = tuple(self._circuits.get(provider_id, {}).values())
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
                pairs = [(pid, name) for pid, by_model in self._circuits.items() for name in by_model]
            elif model is None:
                pairs = [(provider_id, name) for name in self._circuits.get(provider_id, ())]
            else:
                pairs = [(provider_id, model)]
        return self.reset_pairs(pairs)

    def reset_pairs(self, pairs: Iterable[tuple[str, str]]) -> list[Reset]:
        """Clear exactly these (provider id, model) circuits, with counts, backoff and lease; no event."""
        rules, now = self.settings(), self.clock.monotonic()
        cleared: list[Reset] = []
        with self._lock:
            for provider_id, model in pairs:
                circuit = self._find(provider_id, model)
                if circuit is not None:
                    cleared.append(Reset(provider_id, model, machine.reported(circuit, now, rules)))
                    self._drop(provider_id, model)
        for done in cleared:
            report.tell_reset(done.provider_id, done.model, done.previous)
        return cleared

    def forget(self, provider_id: str) -> None:
        """The provider is deleted: its circuits go without a word."""
        with self._lock:
            self._circuits.pop(provider_id, None)
            self._troubled.pop(provider_id, None)

    def keep_only(self, provider_ids: Collection[str]) -> None:
        """Forget every provider that is not among *provider_ids*."""
        with self._lock:
            gone = [pid for pid in self._circuits if pid not in provider_ids]
        for pid in gone:
            self.forget(pid)

    def _moment(self) -> Moment:
        return Moment(self.clock.monotonic(), self.clock.now())

    def _name(self, provider_id: str) -> str:
        return self.name_of(provider_id) or provider_id

    def _tell(self, told: Report | None) -> None:
        if told is not None:
            report.tell(told, self._name(told.provider_id))

    # Everything below runs under the lock.

    def _find(self, provider_id: str, model: str) -> Circuit | None:
        by_model = self._circuits.get(provider_id)
        return None if by_model is None else by_model.get(model)

    def _create(self, provider_id: str, model: str) -> Circuit:
        by_model = self._circuits.setdefault(provider_id, {})
        if len(by_model) >= CAPACITY:
            closed = [c for c in by_model.values() if c.state is State.CLOSED]
            if closed:
                victim = min(closed, key=lambda c: (-1.0 if c.last_charged is None else c.last_charged, c.model))
                del by_model[victim.model]
        circuit = by_model[model] = Circuit(model)
        return circuit

    def _drop(self, provider_id: str, model: str) -> None:
        by_model = self._circuits[provider_id]
        del by_model[model]
        if not by_model:
            del self._circuits[provider_id]
        self._note_troubled(provider_id)

    def _note_troubled(self, provider_id: str) -> None:
        circuits = self._circuits.get(provider_id, {}).values()
        troubled = tuple(c for c in circuits if c.state is not State.CLOSED)
        if troubled:
            self._troubled[provider_id] = troubled
        else:
            self._troubled.pop(provider_id, None)

    def _moved(self, provider_id: str, circuit: Circuit, move: Move, now: Moment, rules: BreakerSettings) -> Report:
        """A circuit changed its state: keep the index right and read what is told about it."""
        self._note_troubled(provider_id)
        return Report(
            provider_id=provider_id,
            model=circuit.model,
            move=move,
            cause=circuit.last_cause,
            status=circuit.last_status,
            consecutive_fails=circuit.consecutive_fails,
            failed_probes=circuit.failed_probes,
            wait=machine.NO_WAIT if move.after is State.CLOSED else machine.wait_of(circuit, rules),
            retry_at=machine.retry_wall(circuit, rules),
            provider_open=self._skipped(provider_id, now.mono, rules),
            opens=circuit.opens,
            at=now.wall,
        )

    def _blocking(self, provider_id: str, now: float, rules: BreakerSettings) -> list[Circuit]:
        return [c for c in self._troubled.get(provider_id, ()) if machine.blocking(c, now, rules)]

    def _skipped(self, provider_id: str, now: float, rules: BreakerSettings) -> bool:
        """The provider-wide verdict: enough distinct models of it are dark."""
        return len(self._blocking(provider_id, now, rules)) >= rules.span
