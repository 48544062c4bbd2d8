"""The values of this process that are read at a scrape and never counted: circuits, what runs, what waits."""

from collections.abc import Iterator, Mapping

from failover import breaker, windows
from failover.breaker import health as circuits
from failover.breaker.circuit import State
from modelhotel.core import metrics
from modelhotel.core.metrics import UNKNOWN, Gauge
from providers import cache, health
from providers.cache import ProviderRow
from proxy import shutdown
from requestlogs.recorder import RECORDER

#: Label values -> value, per metric name.
Series = dict[tuple[str, ...], float]
Values = dict[str, Series]
_HEALTH = {state: float(number) for number, state in enumerate(health.STATES)}
_STATES = {State.CLOSED: 0.0, State.HALF_OPEN: 1.0, State.OPEN: 2.0}


def read() -> Values:
    """From any thread; a provider that is gone has no series."""
    providers = cache.SNAPSHOT.current.providers
    return {gauge.name: dict(series) for gauge, series in _all(providers)}


def _all(providers: Mapping[str, ProviderRow]) -> Iterator[tuple[Gauge, Series]]:
    def named(provider_id: str) -> tuple[str, str]:
        return provider_id, providers[provider_id].name or UNKNOWN

    running, busy, limits = RECORDER.running(), windows.windows().running(), windows.windows().limits()
    states = breaker.board().states()
    yield metrics.CIRCUIT_STATE, {named(pid): _STATES[state] for pid, state in states.items() if pid in providers}
    yield metrics.PROVIDER_HEALTH, {named(pid): _health(row) for pid, row in providers.items() if row.enabled}
    yield metrics.PROVIDER_INFLIGHT, {named(pid): float(busy.get(pid, 0)) for pid in providers}
    yield metrics.PROVIDER_INFLIGHT_LIMIT, {named(pid): float(limits.get(pid, 0)) for pid in providers}
    reserves = {pid: row.quota_reserve_percent for pid, row in providers.items() if row.quota_reserve_percent}
    yield metrics.QUOTA_RESERVE, {named(pid): percent / 100 for pid, percent in reserves.items()}
    yield metrics.REQUESTS_INFLIGHT, {(): float(len(running))}
    yield metrics.STREAMS_INFLIGHT, {(): float(shutdown.running())}
    yield metrics.ROWS_WAITING, {(): float(RECORDER.queued + RECORDER.spilled)}


def _health(row: ProviderRow) -> float:
    stocked = row.id in cache.SNAPSHOT.current.stocked
    return _HEALTH[health.verdict(row.refresh_failed, row.inventory_stale, stocked, circuits.health(row.id))[0]]


def merge(gauge: Gauge, each: list[Series]) -> Series:
    """The values of several workers as those of the node."""
    merged: Series = {}
    for series in each:
        for labels, value in series.items():
            if labels not in merged:
                merged[labels] = value
            elif gauge.merge == "sum":
                merged[labels] += value
            else:
                merged[labels] = max(merged[labels], value)
    return merged
