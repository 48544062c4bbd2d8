"""Every metric of the product: names, labels and buckets (operations 14), filled by the rooms that know the numbers.

Labels come from the configuration only (providers, models, groups) or from fixed words of ours, never from a client's
text. With several workers prometheus_client keeps the numbers in files of a directory that the supervisor made, and
whichever worker is asked sums them up; it reads the directory's name when it is imported.
"""

import logging
from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import prometheus_client
from prometheus_client import Counter, Histogram

#: The environment variable that names the directory shared by the workers of a node; absent with one process.
DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
#: What an empty provider, model, cause or group is called.
UNKNOWN = "unknown"
#: The model of a request whose name did not resolve (README decision 19).
UNRESOLVED = "unresolved"
log = logging.getLogger("metrics")

# The instants at which series were made would double the size of an answer and are summed up by nobody.
prometheus_client.disable_created_metrics()


class Timings(Histogram):
    """A histogram that takes many values at the price of one: one addition for each bucket they fall into."""

    def observe_all(self, amounts: Collection[float]) -> None:
        self._sum.inc(sum(amounts))
        bounds = self._upper_bounds
        for bucket, count in Tally(bisect_left(bounds, amount) for amount in amounts).items():
            self._buckets[bucket].inc(count)


#: Seconds.
_FIRST_TOKEN = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
_DURATION = (*_FIRST_TOKEN, 180.0, 300.0, 600.0)

REQUESTS = Counter(
    "modelhotel_requests_total",
    "Finished requests, by the provider asked last and the model asked for; error_kind is empty on success.",
    ("provider", "model", "status_class", "error_kind"),
)
DURATION = Timings(
    "modelhotel_request_duration_seconds",
    "From the arrival of a request to the end of its answer.",
    ("provider", "model"),
    buckets=_DURATION,
)
TTFT = Timings(
    "modelhotel_ttft_seconds",
    "From the arrival of a streaming request to its first token.",
    ("provider", "model"),
    buckets=_FIRST_TOKEN,
)
TOKENS = Counter(
    "modelhotel_tokens_total",
    "Tokens as providers reported them; reasoning is a share of completion, prompt_cached of prompt.",
    ("provider", "model", "kind"),
)
COST = Counter(
    "modelhotel_cost_usd_total",
    "Dollars at the models' prices; a model without a price has no series.",
    ("provider", "model"),
)
FAILOVER_ATTEMPTS = Counter(
    "modelhotel_failover_attempts_total",
    "Attempts after a request's first that contacted a provider, by the provider tried.",
    ("model", "provider"),
)
FAILOVER_EXHAUSTED = Counter(
    "modelhotel_failover_exhausted_total",
    "Group requests that no member served.",
    ("group", "reason"),
)
RATE_LIMITED = Counter(
    "modelhotel_upstream_rate_limit_total",
    "429 answers of providers; model is the provider's own id.",
    ("provider", "model", "class"),
)
CIRCUIT_OPENS = Counter(
    "modelhotel_circuit_breaker_opens_total",
    "Circuits that opened; model is the provider's own id.",
    ("provider", "model", "cause"),
)
EMPTY_RESPONSES = Counter(
    "modelhotel_empty_responses_total",
    "2xx answers without choices or content and streams without any event; model is the provider's own id.",
    ("provider", "model"),
)
REROUTES = Counter(
    "modelhotel_responses_reroute_total",
    "Chat requests sent to /v1/responses; model is the provider's own id, mode is learned, preemptive or param_retry.",
    ("provider", "model", "mode"),
)
RETIREMENT_PROBES = Counter(
    "modelhotel_retirement_probes_total",
    "Own requests to models that their provider refused by name; model is the provider's own id, verdict is refused, "
    "served or inconclusive.",
    ("provider", "model", "verdict"),
)
ROWS_LOST = Counter(
    "modelhotel_request_rows_lost_total",
    "Request-log rows that could be neither written nor kept.",
)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A value that is read at the scrape. *merge* is what several workers' values become."""

    name: str
    help: str
    labels: Sequence[str] = ()
    merge: Literal["sum", "max"] = "sum"


CIRCUIT_STATE = Gauge(
    "modelhotel_circuit_breaker_state",
    "The provider's most degraded circuit: 0 closed, 1 half-open, 2 open; only providers with circuits.",
    ("provider_id", "provider"),
    "max",
)
PROVIDER_HEALTH = Gauge(
    "modelhotel_provider_health",
    "0 healthy, 1 recovering, 2 degraded, 3 unhealthy, 4 skipped by the circuit breaker; only enabled providers.",
    ("provider_id", "provider"),
    "max",
)
PROVIDER_INFLIGHT = Gauge(
    "modelhotel_provider_inflight",
    "Requests that are with the provider now.",
    ("provider_id", "provider"),
)
PROVIDER_INFLIGHT_LIMIT = Gauge(
    "modelhotel_provider_inflight_limit",
    "Requests the provider takes at once, as learned from its busy answers; 0 = no limit learned.",
    ("provider_id", "provider"),
)
QUOTA_USED = Gauge(
    "modelhotel_provider_quota_used_ratio",
    "The share of a quota window that is used up, as the provider last said: 1 = spent, more = overage.",
    ("provider_id", "provider", "window"),
    "max",
)
QUOTA_RESETS = Gauge(
    "modelhotel_provider_quota_resets_at_seconds",
    "When a quota window begins anew, in seconds since 1970; only windows with a date.",
    ("provider_id", "provider", "window"),
    "max",
)
QUOTA_RESERVE = Gauge(
    "modelhotel_provider_quota_reserve_ratio",
    "The share of a quota's longest window that the operator keeps; only providers with a reserve.",
    ("provider_id", "provider"),
    "max",
)
REQUESTS_INFLIGHT = Gauge("modelhotel_requests_inflight", "Requests under /v1 that are being served now.")
STREAMS_INFLIGHT = Gauge("modelhotel_streams_inflight", "Committed streams that are running now.")
ROWS_WAITING = Gauge(
    "modelhotel_request_rows_waiting", "Request-log rows that wait for the database, in memory and in files."
)

GAUGES = (
    CIRCUIT_STATE,
    PROVIDER_HEALTH,
    PROVIDER_INFLIGHT,
    PROVIDER_INFLIGHT_LIMIT,
    QUOTA_USED,
    QUOTA_RESETS,
    QUOTA_RESERVE,
    REQUESTS_INFLIGHT,
    STREAMS_INFLIGHT,
    ROWS_WAITING,
)
COUNTED: tuple[Counter | Histogram, ...] = (
    REQUESTS,
    DURATION,
    TTFT,
    TOKENS,
    COST,
    FAILOVER_ATTEMPTS,
    FAILOVER_EXHAUSTED,
    RATE_LIMITED,
    CIRCUIT_OPENS,
    EMPTY_RESPONSES,
    REROUTES,
    RETIREMENT_PROBES,
    ROWS_LOST,
)


@lru_cache(maxsize=4096)
def of(metric: Counter, *labels: str) -> Counter:
    """The series of *metric* with *labels*; a label must not be empty where empty means nothing."""
    return metric.labels(*labels)


@lru_cache(maxsize=4096)
def timings_of(metric: Timings, *labels: str) -> Timings:
    return metric.labels(*labels)


def count(metric: Counter, *labels: str) -> None:
    """One more, an empty label being unknown. Never raises: counting must not change what is counted."""
    guarded(lambda: of(metric, *(label or UNKNOWN for label in labels)).inc())


def guarded(act: Callable[[], object]) -> None:
    """Do what must not fail its caller."""
    try:
        act()
    except Exception:
        log.exception("metrics: not counted")
