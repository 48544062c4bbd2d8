"""What a finished draft adds to the metrics, and what it must not."""

import logging
import threading

import pytest
from prometheus_client import REGISTRY

from modelhotel.core import metrics
from requestlogs import counting
from requestlogs.draft import Draft
from requestlogs.recorder import Recorder

GROUP, MODEL = "hotel/counted", "upstream-id"


def attempt(index, provider="P", **more):
    return {"attempt": index, "provider": provider, "model": MODEL, "duration_ms": 1.0, **more}


def draft(label=GROUP, **fields):
    made = Draft("chat", label=label, state="completed", status_code=200, duration_ms=30.0)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Counted:
    """What one draft added, by metric and labels."""

    def __init__(self):
        self.before = self._all()

    @staticmethod
    def _all():
        names = {metric._name for metric in metrics.COUNTED}
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in REGISTRY.collect()
            if family.name in names
            for sample in family.samples
        }

    def added(self, name):
        """Label values in the order of their names -> value; series that are new with 0 as well."""
        return {
            tuple(value for _, value in key[1:]): value - self.before.get(key, 0.0)
            for key, value in self._all().items()
            if key[0] == name and (key not in self.before or value != self.before[key])
        }


@pytest.fixture
def counted():
    return Counted()


@pytest.mark.parametrize(
    ("status", "word"),
    [
        *(
            (200, "2xx"),
            (204, "2xx"),
            (302, "3xx"),
            (404, "4xx"),
            (498, "4xx"),
            (499, "499"),
            (500, "5xx"),
            (599, "5xx"),
        ),
        *((0, "unknown"), (None, "unknown"), (101, "unknown"), (600, "unknown")),
    ],
)
def test_the_class_of_a_status(status, word):
    assert counting.status_class(status) == word


@pytest.mark.parametrize(
    ("cost", "series"),
    [(None, {}), (0.0, {("hotel/cost-0", "P"): 0.0}), (0.25, {("hotel/cost-1", "P"): 0.25}), (-1.0, {})],
)
def test_only_what_has_a_price_has_dollars(counted, cost, series):
    label = next(iter(series))[0] if series else "hotel/cost-none"
    counting.add([draft(label, provider_name="P", cost_usd=cost)])
    assert counted.added("modelhotel_cost_usd_total") == series


@pytest.mark.parametrize(
    ("streaming", "ttft", "count"), [(True, 12.0, 1), (True, 0.0, 0), (True, None, 0), (False, 5.0, 0)]
)
def test_a_first_token_is_a_streams_and_was_measured(counted, streaming, ttft, count):
    counting.add([draft(provider_name="P", streaming=streaming, ttft_ms=ttft)])
    assert sum(counted.added("modelhotel_ttft_seconds_count").values()) == count


def test_skips_are_no_attempts(counted):
    trail = [
        {"attempt": -1, "provider": "Skipped", "model": MODEL, "breaker": "skipped", "duration_ms": 0},
        attempt(0, "First", status=503),
        attempt(1, "Second", status=503),
        attempt(2, "Second", status=500),
        attempt(3, "Third", status=200),
    ]
    counting.add([draft(provider_name="Third", attempts=trail)])
    assert counted.added("modelhotel_failover_attempts_total") == {(GROUP, "Second"): 2, (GROUP, "Third"): 1}


FAILED = {"state": "failed", "status_code": 502, "error_kind": "provider_error"}
SKIP = {"attempt": -1, "provider": "P", "model": MODEL}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({}, "", id="served"),
        pytest.param({**FAILED, "attempts": [SKIP]}, "no_available_provider", id="every circuit open"),
        pytest.param({**FAILED, "attempts": None}, "no_available_provider", id="every member disabled"),
        pytest.param({**FAILED, "error_kind": "provider_saturated"}, "no_available_provider", id="429 of the breaker"),
        pytest.param({**FAILED, "error_kind": "auth", "status_code": 403}, "no_allowed_provider", id="allow-list"),
        pytest.param({**FAILED, "attempts": [attempt(0)]}, "all_failed", id="all failed"),
        pytest.param(
            {**FAILED, "error_kind": "failover_timeout", "attempts": [attempt(0)]}, "all_failed", id="deadline"
        ),
        pytest.param({**FAILED, "error_kind": "provider_saturated", "attempts": [attempt(0)]}, "all_busy", id="busy"),
        pytest.param({**FAILED, "provider_id": "p", "attempts": [attempt(0)]}, "", id="passed through"),
        pytest.param({**FAILED, "error_kind": "client_disconnect", "attempts": [attempt(0)]}, "", id="client left"),
        pytest.param({**FAILED, "label": "P/direct"}, "", id="direct"),
        pytest.param({**FAILED, "label": metrics.UNRESOLVED}, "", id="unresolved"),
        pytest.param({**FAILED, "label": "bare-Name", "attempts": [attempt(0)]}, "all_failed", id="bare list"),
    ],
)
def test_why_a_group_was_exhausted(counted, fields, reason):
    made = draft(**fields)
    assert counting.exhausted(made) == reason
    counting.add([made])
    group = made.label.removeprefix("hotel/").lower()
    assert counted.added("modelhotel_failover_exhausted_total") == ({(group, reason): 1} if reason else {})


def test_what_is_no_clients_is_not_counted(counted):
    counting.add([draft("")])
    assert counted._all() == counted.before


def test_a_draft_that_can_not_be_counted_is_written_all_the_same(caplog):
    recorder = Recorder()
    bad = draft(attempts=[{"broken": True}] * 2, request_hash="0" * 16)
    recorder.start(bad)
    with caplog.at_level(logging.ERROR, "metrics"):
        recorder.finish(bad)
        recorder.count()
    assert recorder.queued == 1
    assert "not counted" in caplog.text


def test_counting_from_several_threads_counts_every_request_once_and_keeps_its_row(counted):
    recorder = Recorder()
    for _ in range(2000):
        recorder.finish(draft("hotel/threads", provider_name="P"))
    threads = [threading.Thread(target=recorder.count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.queued == 2000
    assert counted.added("modelhotel_requests_total") == {("", "hotel/threads", "P", "2xx"): 2000}


def test_many_like_requests_add_up_to_what_each_of_them_would(counted):
    spent = [0.5, 12.0, 30.0, 30.0, 999_999.0]
    counting.add(
        [
            draft("hotel/sum", provider_name="P", duration_ms=ms, streaming=ms > 1, ttft_ms=ms, tokens_prompt=3)
            for ms in spent
        ]
    )
    assert counted.added("modelhotel_request_duration_seconds_count") == {("hotel/sum", "P"): 5}
    assert counted.added("modelhotel_request_duration_seconds_sum")[("hotel/sum", "P")] == pytest.approx(
        sum(spent) / 1e3
    )
    buckets = counted.added("modelhotel_request_duration_seconds_bucket")
    assert [buckets[(le, "hotel/sum", "P")] for le in ("0.005", "0.01", "0.025", "0.05", "600.0", "+Inf")] == [
        1,
        1,
        2,
        4,
        4,
        5,
    ]
    assert counted.added("modelhotel_ttft_seconds_count") == {("hotel/sum", "P"): 4}
    assert counted.added("modelhotel_tokens_total") == {("prompt", "hotel/sum", "P"): 15}


def test_a_value_on_the_edge_of_a_bucket_is_inside():
    one, all_of_them = (
        metrics.timings_of(metrics.DURATION, "edge", "a"),
        metrics.timings_of(metrics.DURATION, "edge", "b"),
    )
    edges = [*metrics.DURATION._upper_bounds[:-1], 0.0, 1e9]
    for value in edges:
        one.observe(value)
    all_of_them.observe_all(edges)
    assert [bucket.get() for bucket in one._buckets] == [bucket.get() for bucket in all_of_them._buckets]
    assert one._sum.get() == pytest.approx(all_of_them._sum.get())
