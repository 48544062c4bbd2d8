"""Named sets of the failover settings, to be taken over at once (beyond 5)."""

from collections.abc import Mapping
from dataclasses import dataclass

from modelhotel.core import catalogue as known
from modelhotel.core.options import Option

#: What a preset says something about; nothing else is written.
KEYS: tuple[Option[bool] | Option[float] | Option[str], ...] = (
    known.HEDGING_ENABLED,
    known.TTFT_TIMEOUT,
    known.RATE_LIMIT_WAIT_IN_PLACE,
    known.SERVER_ERROR_RETRY_IN_PLACE,
    known.CIRCUIT_BREAKER_COOLDOWN,
    known.CIRCUIT_BREAKER_BACKOFF_MAX,
    known.MIDSTREAM_RECOVERY_DEFAULT,
)


@dataclass(frozen=True, slots=True)
class Preset:
    """*values* are texts by setting key; a key that is not there has its default."""

    name: str
    text: str
    values: Mapping[str, str]


def _preset(name: str, text: str, *values: tuple[Option[bool] | Option[float] | Option[str], str]) -> Preset:
    return Preset(name, text, {option.key: option.default for option in KEYS} | {o.key: value for o, value in values})


PRESETS: Mapping[str, Preset] = {
    preset.name: preset
    for preset in (
        _preset("balanced", "The defaults."),
        _preset(
            "fast",
            "Races a second member when a stream is slow to start.",
            (known.HEDGING_ENABLED, "true"),
            (known.TTFT_TIMEOUT, "15s"),
        ),
        _preset(
            "sticky",
            "Waits and retries on the first choice, which keeps its prompt cache.",
            (known.RATE_LIMIT_WAIT_IN_PLACE, "3s"),
            (known.SERVER_ERROR_RETRY_IN_PLACE, "true"),
        ),
        _preset(
            "resilient",
            "Waits, retries, gives up early on silence, and finishes broken streams with the next member.",
            (known.TTFT_TIMEOUT, "10s"),
            (known.RATE_LIMIT_WAIT_IN_PLACE, "3s"),
            (known.SERVER_ERROR_RETRY_IN_PLACE, "true"),
            (known.CIRCUIT_BREAKER_COOLDOWN, "15s"),
            (known.CIRCUIT_BREAKER_BACKOFF_MAX, "15s"),
            (known.MIDSTREAM_RECOVERY_DEFAULT, "continue"),
        ),
    )
}
