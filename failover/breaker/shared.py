"""Circuits that several processes share (``circuit-breaker`` 22).

Every process decides by a replica in its own memory, without asking anybody. What changes a circuit goes to the store
by a thread of its own: it reads the version that is there, judges by it, and writes only if nobody else wrote
meanwhile; else it reads and judges again. So each transition is made once, by one process, and that one tells of it.
The others hear that something changed and read it again.

A store that does not answer costs nobody anything: the process goes on with its replica alone and counts for itself,
and once the store is back the two are made one again.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import msgspec

from failover.breaker import circuit as facts
from failover.breaker import record
from failover.breaker import state as machine
from failover.breaker.board import Board, Reset
from failover.breaker.circuit import Circuit, Lease, Moment, State
from failover.breaker.quota import Told
from failover.breaker.rules import BreakerSettings
from failover.breaker.store import ANYTHING, News, Store, StoreAway
from failover.verdict import Judgement, Verdict

log = logging.getLogger("circuit-breaker")

#: How often a change is judged anew because another process was faster.
TRIES = 50
#: Seconds between two deliveries of plain successes.
NOTES = 0.5
#: Seconds between two attempts to reach a store that went away.
RETRY = 0.5
_JOIN = 5.0

Change = Callable[[Moment, BreakerSettings], Told]


class SharedBoard(Board):
    """See the module's docstring. *send* brings News to the other processes and must return at once."""

    def __init__(self, *args: Any, store: Store, send: Callable[[News], None], **more: Any) -> None:
        super().__init__(*args, **more)
        self._store = store
        self._send = send
        self._near = False
        self._told_away = False
        # Held from a look into the store to what comes of it here, so that no older look undoes a newer one. No
        # request ever waits for it.
        self._looking = threading.Lock()
        self._work: deque[Callable[[], object]] = deque()
        self._stale: set[tuple[str, str]] = set()
        self._behind = False
        self._served: set[tuple[str, str]] = set()
        self._unsaid: dict[tuple[str, str], float] = {}  # resets that the store has not heard of: POSIX time
        self._leases: dict[tuple[str, str], tuple[object, str]] = {}
        self._noted_at = 0.0
        self._tried_at = float("-inf")
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    # -- life

    def start(self) -> None:
        """Take over what the store holds, and keep up with it from now on."""
        self._guarded_turn()
        self._thread = threading.Thread(target=self._run, name="circuits", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Deliver what waits, and end."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_JOIN)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(NOTES / 2)
            self._wake.clear()
            self._guarded_turn()
        self._guarded_turn()

    def _guarded_turn(self) -> None:
        try:
            self.turn()
        except Exception:
            log.exception("circuit-breaker: turn failed")

    def turn(self) -> None:
        """Do what waits: of the thread, or of a test."""
        now = self.clock.monotonic()
        if not self._near and now - self._tried_at >= RETRY:
            self._tried_at = now
            self._join_in()
        while self._work:
            self._work.popleft()()
        self._read_again()
        if now - self._noted_at >= NOTES or self._stopping:
            self._noted_at = now
            self._deliver_notes()

    def _later(self, work: Callable[[], object]) -> None:
        self._work.append(work)
        self._wake.set()

    # -- the hot path

    def record(self, provider_id: str, model: str, judgement: Judgement) -> None:
        if judgement.verdict is Verdict.NOOP:
            return
        if judgement.verdict is Verdict.SUCCESS and provider_id not in self._troubled:
            circuit = self._circuits.find(provider_id, model)
            if circuit is not None and machine.confirm(circuit, judgement, self.clock.monotonic(), self.clock.now()):
                self._served.add((provider_id, model))
                return
        if not self._near:
            super().record(provider_id, model, judgement)
            return
        self._tell_recording(provider_id, model, judgement)
        self._later(lambda: self._change(provider_id, (model,), self._landing(provider_id, model, judgement)))

    def _landing(self, provider_id: str, model: str, judgement: Judgement) -> Change:
        return lambda now, rules: self._land(provider_id, model, judgement, now, rules)

    def admit(self, provider_id: str, model: str, holder: object, *, alone: bool, direct: bool = False) -> bool:
        if not self._near or provider_id not in self._troubled:
            return super().admit(provider_id, model, holder, alone=alone, direct=direct)
        rules, now = self.settings(), self._moment()
        with self._lock:
            circuit = self._circuits.find(provider_id, model)
            if circuit is None or facts.blocking(circuit, now.mono, rules) or circuit.state is State.CLOSED:
                return True
            if machine.ask(circuit, now, rules) is not None:
                self._circuits.note(provider_id)
                self._later(lambda: self._change(provider_id, (model,), self._asking(provider_id, model)))
        return self._take_lease(provider_id, model, holder, rules, now) or alone or direct

    def _asking(self, provider_id: str, model: str) -> Change:
        def change(now: Moment, rules: BreakerSettings) -> Told:
            circuit = self._circuits.find(provider_id, model)
            return [] if circuit is None else self._ask(circuit, provider_id, now, rules)

        return change

    def _take_lease(self, provider_id: str, model: str, holder: object, rules: BreakerSettings, now: Moment) -> bool:
        """Ask the store for the probe: the only question that a request waits for, and only half-open."""
        pair = (provider_id, model)
        if rules.probe_lease <= 0 or (pair in self._leases and self._leases[pair][0] is holder):
            return True
        token = secrets.token_hex(8)
        try:
            taken = self._store.lend(provider_id, model, token, rules.probe_lease)
        except StoreAway:
            self._away()
            return super().admit(provider_id, model, holder, alone=False)
        if taken:
            self._leases[pair] = holder, token
            self._send(News(lent=[pair]))
        if taken or pair not in self._leases:  # else this process knows better whose it is
            self._mark_lent(provider_id, model, holder if taken else None, now.mono)
        return taken

    def _mark_lent(self, provider_id: str, model: str, holder: object, taken: float) -> None:
        with self._lock:
            circuit = self._circuits.find(provider_id, model)
            if circuit is not None and circuit.state is State.HALF_OPEN:
                circuit.lease = Lease(holder, taken)

    def release(self, provider_id: str, model: str, holder: object) -> None:
        super().release(provider_id, model, holder)
        pair = (provider_id, model)
        if pair in self._leases and self._leases[pair][0] is holder:
            token = self._leases.pop(pair)[1]
            self._later(lambda: self._give_back(provider_id, model, token))

    def _give_back(self, provider_id: str, model: str, token: str) -> None:
        try:
            self._store.give_back(provider_id, model, token)
        except StoreAway:
            self._away()  # it runs out by itself
        else:
            self._send(News(free=[(provider_id, model)]))

    # -- from other threads

    def reset_pairs(self, pairs: Iterable[tuple[str, str]]) -> list[Reset]:
        by_provider: dict[str, list[str]] = {}
        for provider_id, model in pairs:
            by_provider.setdefault(provider_id, []).append(model)
        cleared: list[Reset] = []
        for provider_id, models in by_provider.items():
            cleared += self._reset_of(provider_id, models)
        return cleared

    def _reset_of(self, provider_id: str, models: list[str]) -> list[Reset]:
        found: list[Reset] = []

        def change(now: Moment, rules: BreakerSettings) -> Told:
            found[:] = self._clear(provider_id, models, now, rules)
            return []

        if self._shared(provider_id, models, change) is None:
            self._note_resets(provider_id, models)
            return super().reset_pairs([(provider_id, model) for model in models])
        self._note_resets(provider_id, models)
        self._tell_resets(found)
        return found

    def _note_resets(self, provider_id: str, models: list[str]) -> None:
        """For those who can not hear of it; the store itself hears of it when it is back."""
        at = self.clock.now().timestamp()
        self._unsaid |= {(provider_id, model): at for model in models}
        if not self._near:
            return
        try:
            self._say_resets()
        except StoreAway:
            self._away()

    def _say_resets(self) -> None:
        """Raises StoreAway."""
        for (provider_id, model), at in tuple(self._unsaid.items()):
            self._store.note_reset(provider_id, (model,), at)
            self._unsaid.pop((provider_id, model), None)

    def forget(self, provider_id: str) -> None:
        super().forget(provider_id)
        self._later(lambda: self._forget(provider_id))

    def _forget(self, provider_id: str) -> None:
        try:
            self._store.forget(provider_id)
        except StoreAway:
            self._away()

    def _for_each(self, provider_ids: Iterable[str], change: Callable[[str], Told]) -> Told:
        everything: Told = []
        for provider_id in provider_ids:
            told = self._shared(provider_id, None, _of_provider(provider_id, change))
            everything += super()._for_each([provider_id], change) if told is None else told
        return everything

    # -- the store

    def _shared(self, provider_id: str, models: Collection[str] | None, change: Change) -> Told | None:
        """Apply *change* to the circuits of these models as they are in the store, and tell what came of it.

        None, and nothing done, where the store does not answer.
        """
        if not self._near:
            return None
        try:
            with self._looking:
                told = self._committed(provider_id, models, change)
        except StoreAway:
            self._away()
            return None
        self._tell_all(told)
        return told

    def _change(self, provider_id: str, models: Collection[str], change: Change) -> None:
        """The same; where the store does not answer, to the replica."""
        if self._shared(provider_id, models, change) is None:
            rules, now = self.settings(), self._moment()
            with self._lock:
                told = change(now, rules)
            self._tell_all(told)

    def _committed(self, provider_id: str, models: Collection[str] | None, change: Change) -> Told:
        """Raises StoreAway as long as nothing was changed. A store that goes later leaves the replica ahead of it, as
        any other change does that is made without it.
        """
        told: Told | None = None
        try:
            for _ in range(TRIES):
                old = self._store.read(provider_id, models)
                rules, now = self.settings(), self._moment()
                with self._lock:
                    self._take_over(provider_id, models, old, now)
                    had = {circuit.model for circuit in self._circuits.of(provider_id)}
                    told = change(now, rules)
                    changes = self._changes(provider_id, models, old, had, now)
                if not changes:
                    return told
                if self._store.swap(provider_id, changes):
                    self._send(News(changed=[(provider_id, model) for model in changes]))
                    return told
            raise StoreAway
        except StoreAway:
            if told is None:
                raise
            self._away()
            return told

    def _take_over(
        self, provider_id: str, models: Collection[str] | None, found: Mapping[str, bytes], now: Moment
    ) -> None:
        """Make the replica what the store says. Under the lock."""
        mine = {circuit.model: circuit for circuit in self._circuits.of(provider_id)}
        for model in models if models is not None else {*mine, *found}:
            fresh = _readable(model, found.get(model), now)
            replica = mine.get(model)
            if fresh is None:
                if replica is not None:
                    self._circuits.drop(provider_id, model)
                continue
            if replica is not None:
                record.keep_notes(fresh, replica)
            self._circuits.put(provider_id, fresh)

    def _changes(
        self,
        provider_id: str,
        models: Collection[str] | None,
        old: Mapping[str, bytes],
        had: Collection[str],
        now: Moment,
    ) -> dict[str, tuple[bytes | None, bytes | None]]:
        """What has to be written: of these models, of circuits that are new and of those that had to make room."""
        changes: dict[str, tuple[bytes | None, bytes | None]] = {}
        there = {circuit.model: circuit for circuit in self._circuits.of(provider_id)}
        for model, circuit in there.items():
            if models is None or model in models or model not in had:
                new = record.encode(circuit, now)
                if new != old.get(model):
                    changes[model] = old.get(model), new
        for model in had:
            if model not in there:
                changes[model] = old.get(model, ANYTHING), None
        return changes

    def _away(self) -> None:
        """The store does not answer: from here on alone."""
        if self._near or not self._told_away:
            self._near, self._told_away = False, True
            log.warning("circuit-breaker: shared store unreachable, using local state")

    def _join_in(self) -> None:
        """Make the replica and the store one; from then on the store leads."""
        try:
            self._say_resets()
            with self._looking:
                stored, resets = self._store.read_all(), self._store.resets()
                for provider_id in {*stored, *self._circuits.providers()}:
                    self._unite(provider_id, stored.get(provider_id, {}), resets)
        except StoreAway:
            self._away()
            return
        self._near = True
        if self._told_away:
            self._told_away = False
            log.info("circuit-breaker: shared store back")

    def _unite(self, provider_id: str, found: Mapping[str, bytes], resets: Mapping[tuple[str, str], float]) -> None:
        """Raises StoreAway."""
        now = self._moment()
        offset = now.wall.timestamp() - now.mono
        cleared: list[str] = []
        with self._lock:
            mine = {circuit.model: circuit for circuit in self._circuits.of(provider_id)}
            for model in {*mine, *found}:
                reset_at = resets.get((provider_id, model), 0.0) - offset
                kept = record.united(mine.get(model), _readable(model, found.get(model), now), reset_at)
                if kept is not None:
                    self._circuits.put(provider_id, kept)
                    continue
                cleared.append(model)
                if model in mine:
                    self._circuits.drop(provider_id, model)
            changes = self._changes(provider_id, None, found, [one for one in cleared if one in found], now)
        if changes and not self._store.swap(provider_id, changes):
            raise StoreAway  # another one was faster: all over again
        if changes:
            self._send(News(changed=[(provider_id, model) for model in changes]))

    # -- what others tell

    def hear(self, news: News) -> None:
        """From another process; of any thread, and returns at once."""
        now = self.clock.monotonic()
        for provider_id, model in news.lent:
            self._mark_lent(provider_id, model, None, now)
        with self._lock:
            for provider_id, model in news.free:
                circuit = self._circuits.find(provider_id, model)
                if circuit is not None and circuit.lease is not None and circuit.lease.holder is None:
                    circuit.lease = None
        if news.changed:
            self._stale.update(news.changed)
            self._wake.set()

    def catch_up(self) -> None:
        """News may have been missed: read everything again. Of any thread, and returns at once."""
        self._behind = True
        self._wake.set()

    def _read_again(self) -> None:
        """Read what others have changed."""
        if self._behind:
            self._behind = False
            self._read_everything()
        by_provider: dict[str, list[str]] = {}
        while self._stale:
            provider_id, model = self._stale.pop()
            by_provider.setdefault(provider_id, []).append(model)
        for provider_id, models in by_provider.items() if self._near else ():
            try:
                with self._looking:
                    found = self._store.read(provider_id, models)
                    with self._lock:
                        self._take_over(provider_id, models, found, self._moment())
            except StoreAway:
                self._away()
                return

    def _read_everything(self) -> None:
        if not self._near:
            return  # joining in does more than that
        try:
            with self._looking:
                stored = self._store.read_all()
                with self._lock:
                    for provider_id in {*stored, *self._circuits.providers()}:
                        self._take_over(provider_id, None, stored.get(provider_id, {}), self._moment())
        except StoreAway:
            self._away()

    def _deliver_notes(self) -> None:
        """Plain successes since the last time: others only have to know that there were some."""
        while self._near and self._served:
            provider_id, model = self._served.pop()
            self._shared(provider_id, (model,), lambda now, rules: [])


def _of_provider(provider_id: str, change: Callable[[str], Told]) -> Change:
    return lambda now, rules: change(provider_id)


def _readable(model: str, data: bytes | None, now: Moment) -> Circuit | None:
    if data is None:
        return None
    try:
        return record.decode(model, data, now)
    except msgspec.MsgspecError:
        log.warning("circuit-breaker: unreadable record in the shared store ignored", extra={"attrs": {"model": model}})
        return None
