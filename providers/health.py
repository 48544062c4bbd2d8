"""How a provider is doing, derived from what is stored and what the breaker knows. Pure."""

from datetime import datetime
from typing import Protocol

from providers.ports import CircuitHealth


class Facts(Protocol):
    last_model_fetch_at: datetime | None
    last_model_fetch_error: str
    last_availability_at: datetime | None
    last_availability_error: str
    inventory_stale: bool


def status(facts: Facts, has_models: bool, circuits: CircuitHealth) -> str:
    """``circuit_open``, ``unhealthy``, ``degraded``, ``recovering`` or ``healthy``; the first that holds."""
    failed = bool(facts.last_model_fetch_error or facts.last_availability_error)
    if circuits.provider_open:
        return "circuit_open"
    if failed and not has_models:
        return "unhealthy"
    if facts.inventory_stale or failed or circuits.erring:
        return "degraded"
    if circuits.half_open and not circuits.any_open:
        return "recovering"
    return "healthy"


def last_checked(facts: Facts) -> datetime | None:
    """The later of the two instants."""
    return max((at for at in (facts.last_model_fetch_at, facts.last_availability_at) if at), default=None)
