"""The answer to a scrape: what was counted, what is read now, and the process itself; of all workers of the node."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import REGISTRY, CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from failover import windows
from modelhotel.core import metrics
from modelhotel.ops import gauges, quota_gauges, workers
from modelhotel.ops.gauges import Values
from requestlogs.recorder import RECORDER

_CPU = "process_cpu_seconds"
#: Of several processes these are not sums.
_FOLDS = {"process_start_time_seconds": min, "process_max_fds": max}


class Gauges(Collector):
    """*others* are the values of the other workers, *quotas* gives those of the database."""

    def __init__(self, others: Iterable[Values] = (), quotas: Callable[[], Values] = quota_gauges.READER.read) -> None:
        self._others = tuple(others)
        self._quotas = quotas

    def describe(self) -> Iterable[Metric]:
        """Nothing is read when this is registered."""
        return [GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels) for gauge in metrics.GAUGES]

    def collect(self) -> Iterable[Metric]:
        each = [{**gauges.read(), **self._quotas()}, *self._others]
        for gauge in metrics.GAUGES:
            family = GaugeMetricFamily(gauge.name, gauge.help, labels=gauge.labels)
            for labels, value in gauges.merge(gauge, [values.get(gauge.name, {}) for values in each]).items():
                family.add_metric(labels, value)
            yield family


class Processes(Collector):
    """The process metrics of several workers and their supervisor as those of one program."""

    def __init__(self, pids: Iterable[int], supervisor: int) -> None:
        self._pids = (*pids, supervisor)
        self._supervisor = supervisor

    def collect(self) -> Iterable[Metric]:
        while True:
            gone = _time_of_the_dead(self._supervisor)
            found = self._summed()
            # A worker that is waited for in between would be missing, or counted twice.
            if gone == _time_of_the_dead(self._supervisor):
                break
        if _CPU in found:
            value = found[_CPU].samples[0].value + gone
            found[_CPU] = CounterMetricFamily(_CPU, found[_CPU].documentation, value=value)
        return found.values()

    def _summed(self) -> dict[str, Metric]:
        values: dict[str, list[float]] = {}
        families: dict[str, Metric] = {}
        for pid in self._pids:
            for family in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                families[family.name] = family
                values.setdefault(family.name, []).append(family.samples[0].value)
        return {
            name: GaugeMetricFamily(name, family.documentation, value=_FOLDS.get(name, sum)(values[name]))
            for name, family in families.items()
        }


def _time_of_the_dead(pid: int) -> float:
    """Processor seconds of the children that *pid* has waited for."""
    try:
        parts = Path(f"/proc/{pid}/stat").read_bytes().split(b")")[-1].split()
    except OSError:
        return 0.0
    return (int(parts[13]) + int(parts[14])) / os.sysconf("SC_CLK_TCK")


def render() -> bytes:
    """The Prometheus text format, version 0.0.4. Blocking, for the quota figures by seconds; touches no event loop."""
    RECORDER.count()
    found = workers.directory()
    if found is None:
        return generate_latest(_alone())
    # Not while the directory is held: the database may take its time.
    quotas = quota_gauges.READER.read()
    with workers.held(found):
        return generate_latest(_together(found, quotas))


def inflight_limits() -> dict[str, int]:
    """The learned in-flight limit of every provider that has one, the limits of this node's workers added up."""
    found = workers.directory()
    each = [windows.windows().limits()]
    for values in workers.others(found).values() if found is not None else ():
        series = values.get(metrics.PROVIDER_INFLIGHT_LIMIT.name, {})
        each.append({provider_id: int(limit) for (provider_id, _), limit in series.items() if limit})
    summed: Counter[str] = Counter()
    for limits in each:
        summed.update(limits)
    return dict(summed)


_gauges: Gauges | None = None


def _alone() -> CollectorRegistry:
    global _gauges
    if _gauges is None:
        _gauges = Gauges()
        REGISTRY.register(_gauges)
    return REGISTRY


def _together(found: Path, quotas: Values) -> CollectorRegistry:
    registry = CollectorRegistry()
    others = workers.others(found)
    MultiProcessCollector(registry, str(found))
    registry.register(Gauges(others.values(), lambda: quotas))
    registry.register(Processes((os.getpid(), *others), os.getppid()))
    PlatformCollector(registry)
    return registry


def publish() -> None:
    """Tell the other workers what this one has; nothing in a process that serves alone."""
    found = workers.directory()
    if found is None:
        return
    RECORDER.count()
    # A full disk makes what the others show of this worker old, and nothing else.
    with contextlib.suppress(OSError):
        workers.publish(found, gauges.read())
