"""The settings the breaker goes by, read together so that one decision never mixes two states of them."""

from dataclasses import dataclass

from modelhotel.core import catalogue
from modelhotel.core.options import Options


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    """Durations in seconds. *span*: blocking circuits that sideline a whole provider; *backoff_max* 0 = no backoff;
    *probe_lease* 0 = everyone may probe; *pin_max* 0 = no quota pins; *pin_probe* 0 = a claimed pin runs its length.
    """

    enabled: bool = True
    threshold: int = 5
    span: int = 2
    cooldown: float = 60.0
    probe_lease: float = 15.0
    backoff_max: float = 900.0
    pin_max: float = 86_400.0
    pin_probe: float = 3600.0


def of_options(values: Options) -> BreakerSettings:
    return BreakerSettings(
        enabled=values[catalogue.CIRCUIT_BREAKER_ENABLED],
        threshold=values[catalogue.CIRCUIT_BREAKER_THRESHOLD],
        span=values[catalogue.CIRCUIT_BREAKER_SPAN_MODELS],
        cooldown=values[catalogue.CIRCUIT_BREAKER_COOLDOWN],
        probe_lease=values[catalogue.CIRCUIT_BREAKER_PROBE_LEASE],
        backoff_max=values[catalogue.CIRCUIT_BREAKER_BACKOFF_MAX],
        pin_max=values[catalogue.CIRCUIT_BREAKER_QUOTA_PIN_MAX],
        pin_probe=values[catalogue.CIRCUIT_BREAKER_PIN_PROBE_INTERVAL],
    )
