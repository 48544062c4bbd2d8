"""Traffic through the real product, and the numbers a scrape shows for it, exactly."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from modelhotel.core import metrics
from tests.upstream.server import Hold, answer, empty_choices, empty_stream, silence, status, stream
from tests.wire.house import GROUP, MODEL, House
from tests.wire.product import eventually
from tests.wire.scraping import Numbers, scrape

BROKEN = status(500, {"error": {"message": "boom"}})
REQUESTS = "modelhotel_requests_total"


@pytest.fixture(scope="module", autouse=True)
def _patient(shared_house):
    # Nothing here is to fail for being slow on a busy machine.
    shared_house.settings(request_timeout="5s", ttft_timeout="10s", stream_stall_timeout="10s")


class Count:
    """*before* at the start of a test; what was added is read until the requests are all in."""

    def __init__(self, home: House) -> None:
        self.home = home
        self.before = scrape(home.product)

    def added(self, requests: int) -> Numbers:
        def whole() -> Numbers | None:
            found = scrape(self.home.product).since(self.before)
            return found if sum(found.only(REQUESTS).values()) == requests else None

        found = eventually(whole)
        assert found is not None, scrape(self.home.product).since(self.before).only(REQUESTS)
        return found


@pytest.fixture
def count(home) -> Count:
    return Count(home)


def test_a_served_request_is_counted_with_its_tokens_its_dollars_and_its_time(home, count):
    details = {"prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 7}}
    home.a.script(answer("hi", usage={"prompt_tokens": 100, "completion_tokens": 20, **details}))
    models = home.admin("GET", "/api/models").json()
    model = next(row for row in models if row["provider_id"] == home.ids["Alpha"])
    prices = {"input_price_per_million": 10.0, "output_price_per_million": 50.0}
    home.admin("PATCH", f"/api/models/{model['id']}", json=prices)
    assert home.ask().status_code == 200
    home.admin("PATCH", f"/api/models/{model['id']}", json={"price_customized": False})
    found = count.added(1)
    assert found.only(REQUESTS) == {("", GROUP, "Alpha", "2xx"): 1}
    labels = {"provider": "Alpha", "model": GROUP}
    assert found.only("modelhotel_tokens_total") == {
        ("prompt", GROUP, "Alpha"): 100,
        ("completion", GROUP, "Alpha"): 20,
        ("reasoning", GROUP, "Alpha"): 7,
        ("prompt_cached", GROUP, "Alpha"): 40,
    }
    assert found.of("modelhotel_cost_usd_total", **labels) == pytest.approx(100 * 10e-6 + 20 * 50e-6)
    assert found.of("modelhotel_request_duration_seconds_count", **labels) == 1
    row = home.row()
    assert found.of("modelhotel_request_duration_seconds_sum", **labels) == pytest.approx(row["duration_ms"] / 1000)
    assert not found.only("modelhotel_ttft_seconds_count")
    assert not found.only("modelhotel_failover_attempts_total")


def test_a_model_without_a_price_has_no_dollars_and_a_free_one_has_none_spent(home, count):
    models = home.admin("GET", "/api/models").json()
    beta = next(row for row in models if row["provider_id"] == home.ids["Beta"])
    home.admin("PATCH", f"/api/models/{beta['id']}", json={"input_price_per_million": 0.0})
    home.a.script(BROKEN)
    assert home.ask().headers["x-modelhotel-provider"] == "Beta"
    home.admin("PATCH", f"/api/models/{beta['id']}", json={"price_customized": False})
    count.added(1)
    now = scrape(home.product)
    assert (GROUP, "Beta") in now.only("modelhotel_cost_usd_total")
    assert now.of("modelhotel_cost_usd_total", provider="Beta", model=GROUP) == 0


def test_a_stream_has_a_first_token_and_the_buckets_are_the_documented_ones(home, count):
    home.a.script(stream(["a", "b"]))
    assert "[DONE]" in home.ask(stream=True).text
    found = count.added(1)
    assert found.only("modelhotel_ttft_seconds_count") == {(GROUP, "Alpha"): 1}
    assert found.of("modelhotel_ttft_seconds_sum", provider="Alpha", model=GROUP) == pytest.approx(
        home.row()["ttft_ms"] / 1000
    )
    now = scrape(home.product)
    for name, last in (("modelhotel_ttft_seconds_bucket", 15), ("modelhotel_request_duration_seconds_bucket", 18)):
        bounds = sorted(float(series["le"]) for series in now.series(name, provider="Alpha", model=GROUP))
        every = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 180, 300, 600]
        assert bounds == [*every[:last], float("inf")]


def test_a_failover_counts_the_attempt_behind_the_first_at_the_provider_tried(home, count):
    home.a.script(BROKEN)
    assert home.ask().status_code == 200
    found = count.added(1)
    assert found.only(REQUESTS) == {("", GROUP, "Beta", "2xx"): 1}
    assert found.only("modelhotel_failover_attempts_total") == {(GROUP, "Beta"): 1}
    assert not found.only("modelhotel_failover_exhausted_total")


def test_a_last_members_answer_is_no_exhaustion_and_its_repetition_is_an_attempt(home, count):
    home.a.script(BROKEN)
    home.b.script(status(503))
    assert home.ask().status_code == 503
    found = count.added(1)
    assert found.only(REQUESTS) == {("provider_error", GROUP, "Beta", "5xx"): 1}
    assert found.only("modelhotel_failover_attempts_total") == {(GROUP, "Beta"): 2}
    assert not found.only("modelhotel_failover_exhausted_total")


def test_a_group_whose_members_are_all_unreachable_is_exhausted(home, count):
    home.a.refuse()
    home.b.refuse()
    assert home.ask().status_code == 502
    assert home.ask(f"Alpha/{MODEL}").status_code == 502
    found = count.added(2)
    assert found.only("modelhotel_failover_exhausted_total") == {(MODEL, "all_failed"): 1}
    assert found.only(REQUESTS) == {
        ("provider_error", GROUP, "Beta", "5xx"): 1,
        ("provider_error", f"Alpha/{MODEL}", "Alpha", "5xx"): 1,
    }


def test_a_circuit_that_opens_is_counted_once_and_shows_until_it_is_reset(home, count):
    home.a.script(status(503))
    home.b.script(status(503))
    for name in ("Alpha", "Beta"):
        for _ in range(5):
            assert home.ask(f"{name}/{MODEL}").status_code == 503
    assert home.ask().status_code == 429
    found = count.added(11)
    cause = "upstream status 503"
    assert found.only("modelhotel_circuit_breaker_opens_total") == {
        (cause, MODEL, "Alpha"): 1,
        (cause, MODEL, "Beta"): 1,
    }
    assert found.only("modelhotel_failover_exhausted_total") == {(MODEL, "no_available_provider"): 1}
    assert found.only("modelhotel_failover_attempts_total") == {
        (f"Alpha/{MODEL}", "Alpha"): 5,
        (f"Beta/{MODEL}", "Beta"): 5,
    }
    labels = {"provider": "Alpha", "provider_id": home.ids["Alpha"]}
    assert scrape(home.product).of("modelhotel_circuit_breaker_state", **labels) == 2
    home.admin("POST", "/api/failover-groups/circuit-breaker/reset")
    assert not scrape(home.product).only("modelhotel_circuit_breaker_state")


def test_a_circuit_whose_wait_is_over_shows_half_open_before_anybody_asks(home):
    home.a.script(status(503))
    home.settings(circuit_breaker_cooldown="1s")
    try:
        for _ in range(5):
            home.ask(f"Alpha/{MODEL}")
        labels = {"provider": "Alpha", "provider_id": home.ids["Alpha"]}
        name = "modelhotel_circuit_breaker_state"
        assert scrape(home.product).of(name, **labels) == 2
        assert eventually(lambda: scrape(home.product).of(name, **labels) == 1)
        home.settings(circuit_breaker_enabled="false")
        assert not scrape(home.product).only(name)
    finally:
        home.settings(circuit_breaker_cooldown="60s", circuit_breaker_enabled="true")


def test_a_key_that_may_use_no_member_and_a_provider_that_is_deleted(home, count):
    """operations 81."""
    made = home.admin(
        "POST", "/api/providers", json={"name": "Gamma", "base_url": home.b.url, "api_key": "sk-gamma-0123456789"}
    ).json()
    key = home.admin(
        "POST", "/api/virtual-keys", json={"name": "none of them", "allowed_providers": [made["id"]]}
    ).json()["key"]
    inflight = "modelhotel_provider_inflight"
    assert scrape(home.product).series(inflight, provider="Gamma", provider_id=made["id"])
    body = {"model": GROUP, "messages": []}
    refused = home.http.post("/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"})
    assert refused.status_code == 403
    found = count.added(1)
    assert found.only("modelhotel_failover_exhausted_total") == {(MODEL, "no_allowed_provider"): 1}
    assert found.only(REQUESTS) == {("auth", GROUP, metrics.UNKNOWN, "4xx"): 1}
    home.admin("DELETE", f"/api/providers/{made['id']}")
    assert not scrape(home.product).series(inflight, provider="Gamma")


def test_a_429_and_answers_without_content_are_counted_by_the_providers_own_id(home, count):
    home.a.script(status(429, {"error": {"message": "slow down"}}), empty_choices(), empty_stream(done=False))
    for streaming in (False, False, True):
        home.b.script(stream(["from B"]) if streaming else answer("from B"))
        assert "from B" in home.ask(stream=streaming).text
    found = count.added(3)
    assert found.only("modelhotel_upstream_rate_limit_total") == {("saturated", MODEL, "Alpha"): 1}
    assert found.only("modelhotel_empty_responses_total") == {(MODEL, "Alpha"): 2}
    assert found.only("modelhotel_failover_attempts_total") == {(GROUP, "Beta"): 3}


def test_a_direct_answer_without_choices_is_counted_and_the_fifth_opens_the_circuit(home, count):
    """failover-loop 67"""
    home.a.script(empty_choices())
    for at in range(5):
        found = home.ask(f"Alpha/{MODEL}")
        assert found.status_code == 502
        assert found.json()["error"]["message"].startswith("provider returned no choices")
        assert len(home.a.calls) == at + 1
        assert count.added(at + 1).only("modelhotel_empty_responses_total") == {(MODEL, "Alpha"): at + 1}
    assert home.circuit("Alpha")["state"] == "open"


def test_a_member_that_is_skipped_is_no_attempt(home, count):
    """failover-loop 95"""
    home.a.script(status(402))
    assert home.ask(f"Alpha/{MODEL}").status_code == 402
    assert home.ask().headers["x-modelhotel-provider"] == "Beta"
    assert home.trail() == [(-1, "Alpha", None, None, "skipped"), (0, "Beta", 200, None, "success")]
    assert home.row()["attempts"][0]["detail"] == "circuit breaker open"
    assert not count.added(2).only("modelhotel_failover_attempts_total")


@contextmanager
def leaving(home: House, *, streaming: bool) -> Iterator[None]:
    """A client that hangs up when the block ends."""
    body = {"model": GROUP, "stream": streaming, "messages": []}
    if streaming:
        with home.http.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = response.iter_lines()  # kept: the connection ends with its last reader
            next(lines)
            yield
            lines.close()
        return
    left = threading.Event()

    def ask() -> None:
        with pytest.raises(httpx.ReadTimeout):
            home.http.post("/v1/chat/completions", json=body, timeout=1.0)
        left.set()

    thread = threading.Thread(target=ask)
    thread.start()
    home.a.wait_calls(1)
    yield
    thread.join(5)
    assert left.is_set()


@pytest.mark.parametrize(("streaming", "seen"), [(False, "499"), (True, metrics.UNKNOWN)])
def test_a_client_that_leaves_is_in_flight_and_then_counted_apart(home, count, streaming, seen):
    home.a.script(stream(["x"] * 5000, delay=0.02) if streaming else silence())
    labels = {"provider": "Alpha", "provider_id": home.ids["Alpha"]}
    with leaving(home, streaming=streaming):
        now = scrape(home.product)
        assert now.of("modelhotel_provider_inflight", **labels) == 1
        assert now.of("modelhotel_requests_inflight") == 1
        assert now.of("modelhotel_streams_inflight") == streaming
    found = count.added(1)
    assert found.only(REQUESTS) == {("client_disconnect", GROUP, "Alpha", seen): 1}
    now = scrape(home.product)
    assert now.of("modelhotel_provider_inflight", **labels) == now.of("modelhotel_requests_inflight") == 0
    assert not found.only("modelhotel_failover_exhausted_total")


def test_full_providers_are_counted_as_busy_and_a_freed_slot_is_taken(home, count):
    """failover-loop 62 to 64, over the wire: ceilings of one, set while the gateway runs."""
    holds = {name: Hold(answer("held")) for name in ("Alpha", "Beta")}
    threads = [threading.Thread(target=home.ask, args=(f"{name}/{MODEL}",)) for name in holds]
    try:
        # Off: what other tests' busy answers have taught does not count, the ceilings do.
        home.settings(rate_limit_saturation_max_wait="200ms", inflight_limiter_enabled="false")
        for name, provider in (("Alpha", home.a), ("Beta", home.b)):
            home.admin("PUT", f"/api/providers/{home.ids[name]}", json={"max_in_flight": 1})
            provider.script(holds[name], answer("freed"))
        for thread in threads:
            thread.start()
        home.a.wait_calls(1)
        home.b.wait_calls(1)
        now = scrape(home.product)
        for name in holds:
            labels = {"provider": name, "provider_id": home.ids[name]}
            assert now.of("modelhotel_provider_inflight", **labels) == 1
            assert now.of("modelhotel_provider_inflight_limit", **labels) == 0
        busy = home.ask()
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "2")
        assert busy.json()["error"]["message"] == f"all providers busy for model {GROUP}, retry shortly"
        home.settings(failover_exhaustion_status_429="false")
        assert (home.ask().status_code, len(home.a.calls), len(home.b.calls)) == (502, 1, 1)
        home.settings(rate_limit_saturation_max_wait="10s")
        waiting = threading.Thread(target=home.ask)
        waiting.start()
        holds["Beta"].release()
        waiting.join(10)
        assert [e["provider"] for e in home.row()["attempts"]] == ["Alpha", "Beta", "Beta"]
        assert home.row()["status_code"] == 200
    finally:
        for hold in holds.values():
            hold.release()
        for thread in threads:
            thread.join(10)
        for provider_id in home.ids.values():
            home.admin("PUT", f"/api/providers/{provider_id}", json={"max_in_flight": None})
        keys = ["rate_limit_saturation_max_wait", "failover_exhaustion_status_429", "inflight_limiter_enabled"]
        home.admin("DELETE", "/api/settings", json={"keys": keys})
    found = count.added(5)
    assert found.only("modelhotel_failover_exhausted_total") == {(MODEL, "all_busy"): 2}
    assert found.only("modelhotel_failover_attempts_total") == {(GROUP, "Beta"): 1}


def test_a_learned_limit_is_shown_by_the_gauge_and_the_api(home):
    labels = {"provider": "Alpha", "provider_id": home.ids["Alpha"]}
    home.a.script(status(429, {"error": {"message": "too many concurrent requests"}}))
    try:
        assert home.ask().status_code == 200
        assert scrape(home.product).of("modelhotel_provider_inflight_limit", **labels) == 1
        assert home.admin("GET", f"/api/providers/{home.ids['Alpha']}").json()["inflight_limit"] == 1
    finally:
        home.settings(inflight_limiter_enabled="false")
        assert home.ask().status_code == 200  # drops it
        home.admin("DELETE", "/api/settings", json={"keys": ["inflight_limiter_enabled"]})
    assert scrape(home.product).of("modelhotel_provider_inflight_limit", **labels) == 0
    assert home.admin("GET", f"/api/providers/{home.ids['Alpha']}").json()["inflight_limit"] is None


def test_names_that_strangers_invent_are_one_series(home, count):
    """operations 80, routing 93."""
    for number in range(1000):
        name = ("hotel/{}", "Nobody/{}", "{}")[number % 3].format(f"made-up-{number}")
        assert home.ask(name).status_code == 404
    assert home.http.post("/v1/chat/completions", content=b"no json").status_code == 400
    found = count.added(1001)
    unresolved = {"model": metrics.UNRESOLVED, "provider": metrics.UNKNOWN}
    assert found.only(REQUESTS) == {("validation", metrics.UNRESOLVED, metrics.UNKNOWN, "4xx"): 1001}
    assert scrape(home.product).series("modelhotel_request_duration_seconds_count", **unresolved) == [unresolved]


def test_a_bare_name_and_another_spelling_are_counted_as_what_they_stand_for(home, count):
    assert home.ask(MODEL).status_code == 200
    assert home.ask(GROUP.replace("glm", "GLM")).status_code == 200
    assert count.added(2).only(REQUESTS) == {("", GROUP, "Alpha", "2xx"): 2}


def test_nothing_of_a_request_and_no_key_is_in_a_scrape(home, count):
    """operations 10, as far as metrics go."""
    marker = "marker-5d1f0c77"
    home.a.script(status(400, {"error": {"message": f"{marker} is no good"}}))
    asked = home.http.post(
        "/v1/chat/completions",
        json={"model": GROUP, "user": marker, "messages": [{"role": "user", "content": marker}]},
        headers={"X-Request-Id": marker, "User-Agent": marker},
    )
    assert asked.status_code == 400
    count.added(1)
    text = home.product.api("GET", "/metrics").text
    for secret in (marker, home.key, home.product.token, "wire", "sk-"):
        assert secret not in text


def test_a_test_of_a_model_is_no_request_of_a_client(home, count):
    models = home.admin("GET", "/api/models").json()
    model = next(row for row in models if row["provider_id"] == home.ids["Alpha"])
    assert home.admin("POST", f"/api/models/{model['id']}/test").json()["success"]
    assert home.ask().status_code == 200
    assert count.added(1).only(REQUESTS) == {("", GROUP, "Alpha", "2xx"): 1}


def test_the_control_plane_and_the_process_are_measured_and_v1_is_not_part_of_them(home):
    home.admin("GET", "/api/providers")
    before = scrape(home.product)
    assert home.ask().status_code == 200
    home.admin("GET", "/api/providers")
    found = scrape(home.product).since(before)
    by_view = found.only("django_http_responses_total_by_status_view_method_total")
    assert list(by_view.values()) == [1]
    assert found.of("django_http_requests_before_middlewares_total") == 1
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"):
        assert before.of(name) > 0
    assert before.series("python_info")
