"""The circuits of every provider. Not thread-safe by itself: the board calls everything here under its lock."""

from collections.abc import Iterator

from failover.breaker import circuit as facts
from failover.breaker.circuit import Circuit, State
from failover.breaker.rules import BreakerSettings

#: Circuits per provider above which a closed one is dropped for each new one.
CAPACITY = 256


class Circuits:
    """*troubled*: the providers with a circuit that is not closed, and these circuits. The tuples are replaced whole
    and the mapping itself stays the same, so looking something up in it needs no lock.
    """

    def __init__(self) -> None:
        self._all: dict[str, dict[str, Circuit]] = {}
        self.troubled: dict[str, tuple[Circuit, ...]] = {}

    def providers(self) -> tuple[str, ...]:
        return tuple(self._all)

    def of(self, provider_id: str) -> tuple[Circuit, ...]:
        return tuple(self._all.get(provider_id, {}).values())

    def pairs(self) -> Iterator[tuple[str, str]]:
        return ((provider_id, model) for provider_id, by_model in self._all.items() for model in by_model)

    def find(self, provider_id: str, model: str) -> Circuit | None:
        by_model = self._all.get(provider_id)
        return None if by_model is None else by_model.get(model)

    def create(self, provider_id: str, model: str) -> Circuit:
        by_model = self._all.setdefault(provider_id, {})
        if len(by_model) >= CAPACITY:
            closed = [c for c in by_model.values() if c.state is State.CLOSED]
            if closed:
                victim = min(closed, key=lambda c: (-1.0 if c.last_charged is None else c.last_charged, c.model))
                del by_model[victim.model]
        circuit = by_model[model] = Circuit(model)
        return circuit

    def put(self, provider_id: str, circuit: Circuit) -> None:
        """In place of the one of its model."""
        self._all.setdefault(provider_id, {})[circuit.model] = circuit
        self.note(provider_id)

    def drop(self, provider_id: str, model: str) -> None:
        by_model = self._all[provider_id]
        del by_model[model]
        if not by_model:
            del self._all[provider_id]
        self.note(provider_id)

    def forget(self, provider_id: str) -> None:
        self._all.pop(provider_id, None)
        self.troubled.pop(provider_id, None)

    def note(self, provider_id: str) -> None:
        """A circuit of the provider changed its state, came or went."""
        troubled = tuple(c for c in self._all.get(provider_id, {}).values() if c.state is not State.CLOSED)
        if troubled:
            self.troubled[provider_id] = troubled
        else:
            self.troubled.pop(provider_id, None)

    def blocking(self, provider_id: str, now: float, rules: BreakerSettings) -> list[Circuit]:
        return [c for c in self.troubled.get(provider_id, ()) if facts.blocking(c, now, rules)]

    def skipped(self, provider_id: str, now: float, rules: BreakerSettings) -> bool:
        """The provider-wide verdict."""
        return facts.skips_provider(self.blocking(provider_id, now, rules), rules)
