"""How a provider is doing, derived from what is stored and what the breaker knows. Pure."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

#: From best to worst.
HEALTHY, RECOVERING, DEGRADED, UNHEALTHY, CIRCUIT_OPEN = STATES = (
    "healthy",
    "recovering",
    "degraded",
    "unhealthy",
    "circuit_open",
)


class Facts(Protocol):
    last_model_fetch_at: datetime | None
    last_model_fetch_error: str
    last_availability_at: datetime | None
    last_availability_error: str
    inventory_stale: bool


class Circuits(Protocol):
    """The breaker's part: ``providers.ports.CircuitHealth``."""

    @property
    def provider_open(self) -> bool: ...
    @property
    def any_open(self) -> bool: ...
    @property
    def half_open(self) -> bool: ...
    @property
    def erring(self) -> bool: ...


def refresh_failed(facts: Facts) -> bool:
    """The latest refresh failed: its listing, or whether it lets us in."""
    return bool(last_error(facts))


def last_error(facts: Facts) -> str:
    """The error that is set, the listing's before the availability's; empty when the latest refresh went well."""
    return facts.last_model_fetch_error or facts.last_availability_error


def status(facts: Facts, has_models: bool, circuits: Circuits) -> str:
    """One of STATES."""
    return explained(facts, has_models, circuits)[0]


def explained(facts: Facts, has_models: bool, circuits: Circuits) -> tuple[str, str]:
    """:func:`verdict` of a stored provider."""
    return verdict(refresh_failed(facts), facts.inventory_stale, has_models, circuits)


def verdict(failed: bool, stale: bool, has_models: bool, circuits: Circuits) -> tuple[str, str]:
    """One of STATES and the reason in a few words (``""`` for a healthy one); the first that holds.

    *failed*: the latest refresh failed. *stale*: its inventory is marked.
    """
    if circuits.provider_open:
        return CIRCUIT_OPEN, "the circuit breaker skips this provider"
    if failed and not has_models:
        return UNHEALTHY, "latest refresh failed, no models known"
    if failed:
        return DEGRADED, "latest refresh failed, previous models still available"
    if stale:
        return DEGRADED, "the list of models is stale"
    if circuits.erring:
        return DEGRADED, "a model fails often"
    if circuits.half_open and not circuits.any_open:
        return RECOVERING, "a circuit is being probed"
    return HEALTHY, ""


def last_checked(facts: Facts) -> datetime | None:
    """The later of the two instants."""
    return max((at for at in (facts.last_model_fetch_at, facts.last_availability_at) if at), default=None)


def summary(states: Iterable[str]) -> dict[str, object]:
    """How many providers are how; what recovers counts as degraded, an open circuit as unhealthy."""
    found = Counter({RECOVERING: DEGRADED, CIRCUIT_OPEN: UNHEALTHY}.get(state, state) for state in states)
    total = found.total()
    overall = DEGRADED
    if total and found[HEALTHY] == total:
        overall = HEALTHY
    elif total and found[UNHEALTHY] == total:
        overall = UNHEALTHY
    counts = {state: found[state] for state in (HEALTHY, DEGRADED, UNHEALTHY)}
    return {"total": total, **counts, "overall_status": overall}
