"""The breaker's part of a provider's health (``circuit-breaker`` 21.4), in the shape of the providers' port."""

from dataclasses import replace

from failover import windows
from failover.breaker import board
from failover.caps import CAPS
from failover.tally import TALLY
from providers.ports import CircuitHealth, LastCap


def health(provider_id: str) -> CircuitHealth:
    """What the circuits of one provider say right now (nothing while the breaker is off), and its latest requests."""
    circuits = board().health(provider_id)
    return replace(circuits, erring=True) if TALLY.erring(provider_id) else circuits


def last_cap(provider_id: str) -> LastCap | None:
    """The last 429 that said its quota or balance is spent."""
    return CAPS.last(provider_id)


def forget(provider_id: str) -> None:
    """The provider is deleted: its circuits, its in-flight window and its cap note are discarded."""
    board().forget(provider_id)
    windows.windows().forget(provider_id)
    CAPS.forget(provider_id)
    TALLY.forget(provider_id)
