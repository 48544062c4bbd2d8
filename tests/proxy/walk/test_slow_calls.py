"""Answers that come, but too late to count as health (circuit-breaker 13)."""

import pytest

from tests.proxy.walk.stage import Stage
from tests.upstream.server import FakeProvider, after, answer, events, status, stream

LIMIT = "80ms"
LATE = 0.12


@pytest.fixture
def a(stage: Stage, provider_a: FakeProvider) -> Stage:
    stage.member("A", provider_a.url)
    stage.set(circuit_breaker_slow_call_threshold=LIMIT, circuit_breaker_threshold="2")
    return stage


async def test_slow_answers_are_delivered_and_open_the_circuit(a: Stage, provider_a: FakeProvider):
    """circuit-breaker 71"""
    provider_a.script(after(LATE, answer("late")), after(LATE, answer("late")))
    for _ in range(2):
        got = await a.ask()
        assert (got.status, got.json["choices"][0]["message"]["content"]) == (200, "late")
        assert a.trail == [(0, "A", 200, None, "charge")]
        assert (a.row.state, a.row.error_kind) == ("completed", None)
    assert a.cause("A") == ("slow call", 200) and a.served("A")
    assert (await a.ask()).status == 429, "its circuit is open"


async def test_an_answer_in_time_forgives_what_slow_ones_left(a: Stage, provider_a: FakeProvider):
    provider_a.script(after(LATE, answer("late")), answer("soon"), after(LATE, answer("late")))
    for verdict in ("charge", "success", "charge"):
        await a.ask()
        assert a.trail[0][4] == verdict
    assert a.fails("A") == 1


async def test_of_a_stream_the_first_token_counts(a: Stage, provider_a: FakeProvider):
    """circuit-breaker 71"""
    provider_a.script(stream("abcdef", delay=0.03), after(LATE, stream("ab")))
    await a.ask(stream=True)
    assert a.row.duration_ms > 80 and a.trail[0][4] == "success"
    await a.ask(stream=True)
    assert a.trail[0][4] == "charge" and a.cause("A")[0] == "slow call"


async def test_without_a_probe_the_first_event_counts(a: Stage, provider_a: FakeProvider):
    a.set(ttft_timeout="0s")
    provider_a.script(stream("abcdef", delay=0.03), after(LATE, events({"choices": [{"delta": {"content": "x"}}]})))
    await a.ask(stream=True)
    assert a.row.duration_ms > 80 and a.trail[0][4] == "success"
    await a.ask(stream=True)
    assert a.trail[0][4] == "charge"


async def test_a_slow_refusal_is_slow_and_a_slow_404_says_nothing(a: Stage, provider_a: FakeProvider):
    provider_a.script(after(LATE, status(422)), after(LATE, status(404)))
    assert (await a.ask(model="A/m")).status == 422
    assert a.trail == [(0, "A", 422, "provider_error", "charge")]
    assert (await a.ask(model="A/m")).status == 404
    assert a.trail[0][4] == "noop" and a.fails("A") == 1
    assert not a.served("A")


@pytest.mark.parametrize(
    ("own", "general", "charged"), [(0.0, LIMIT, 0), (0.08, "0s", 1), (None, "0s", 0), (60.0, LIMIT, 0)]
)
async def test_a_providers_own_threshold_wins(
    stage: Stage, provider_a: FakeProvider, own: float | None, general: str, charged: int
):
    stage.member("A", provider_a.url, slow_call=own)
    stage.set(circuit_breaker_slow_call_threshold=general)
    provider_a.script(after(LATE, answer("late")))
    await stage.ask()
    assert stage.fails("A") == charged
