"""When an answer moves on: the switches of routing B4, and groups in which nobody is left to be asked."""

import asyncio

import pytest

from tests.proxy.walk.stage import Stage
from tests.upstream.server import FakeProvider, answer, empty_choices, first_event_error, silence, status


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    return stage


# -- the switches (routing B4)


async def test_failover_switched_off_tries_the_first_only(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(failover_enabled="false")
    provider_a.script(status(403))
    assert (await ab.ask()).status == 403
    assert not provider_b.calls


async def test_one_further_candidate_gives_the_backups_error(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(failover_max_attempts="1")
    provider_a.script(status(401))
    provider_b.script(status(403))
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        assert (await ab.ask()).status == 403
        assert not provider_c.calls


async def test_the_last_allowed_candidate_is_in_last_position(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(failover_max_attempts="0", failover_enabled="false")
    provider_a.script(status(503), answer("again"))
    assert (await ab.ask()).status == 200
    assert len(provider_a.calls) == 2 and not provider_b.calls


async def test_a_status_list_replaces_the_set(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    ab.set(failover_retry_on_statuses="404")
    provider_a.script(status(503))
    assert (await ab.ask()).status == 503
    assert not provider_b.calls and ab.trail[0][4] == "alive"
    provider_a.script(status(404))
    assert (await ab.ask()).status == 200


async def test_a_phrase_moves_a_400_on_and_charges_nothing(ab: Stage, provider_a: FakeProvider):
    provider_a.script(status(400, {"error": {"message": "Upstream request failed"}}))
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", 400, "provider_error", "alive") and ab.fails("A") == 0


async def test_a_phrase_that_moved_on_is_forwarded_by_the_last(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url)
    provider_a.script(status(400, {"error": {"message": "Upstream request failed"}}))
    got = await stage.ask()
    assert got.status == 400 and got.json == {"error": {"message": "Upstream request failed"}}


async def test_one_further_candidate_is_the_first_that_is_not_skipped(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """routing 77"""
    ab.set(failover_max_attempts="1")
    provider_a.script(status(500))
    provider_b.script(status(500, {"error": {"message": "b"}}), status(500, {"error": {"message": "b"}}), status(402))
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        got = await ab.ask()
        assert got.said == (500, "the provider failed to serve this request (provider B, upstream HTTP 500)")
        assert len(provider_b.calls) == 2 and not provider_c.calls  # B is in last position: one repetition
        await ab.ask("B/m")
        assert ab.state("B") == "open"
        assert (await ab.ask()).header("x-modelhotel-provider") == "C"
        assert ab.trail == [
            (-1, "B", None, None, "skipped"),
            (0, "A", 500, "provider_error", "charge"),
            (1, "C", 200, None, "success"),
        ]


@pytest.mark.parametrize(
    ("statuses", "code", "message", "moves_on"),
    [
        ("", 400, "Upstream request failed", True),
        ("", 400, "Invalid value for temperature", False),
        ("", 422, "The model 'gpt-9' was not found", True),
        ("", 404, "route unknown", True),
        ("5xx", 404, "route unknown", False),
        ("5xx", 404, "model x deprecated", True),
    ],
)
async def test_a_status_or_a_phrase_moves_an_error_on(
    statuses: str,
    code: int,
    message: str,
    moves_on: bool,
    ab: Stage,
    provider_a: FakeProvider,
    provider_b: FakeProvider,
):
    """routing 78"""
    if statuses:
        ab.set(failover_retry_on_statuses=statuses)
    provider_a.script(status(code, {"error": {"message": message}}))
    got = await ab.ask()
    assert got.status == (200 if moves_on else code)
    assert len(provider_a.calls) == 1 and len(provider_b.calls) == moves_on


async def test_a_status_taken_out_of_the_list_is_returned(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """routing 79. The texts of refused values: tests/shell/test_settings_api.py."""
    ab.set(failover_retry_on_statuses="408,5xx")
    provider_a.script(status(429))
    assert (await ab.ask()).status == 429
    assert not provider_b.calls
    for code in (408, 503):
        provider_a.script(status(code))
        assert (await ab.ask()).status == 200
        assert ab.trail[0][2] == code and ab.trail[1][1] == "B"


async def test_a_2xx_without_an_answer_counts_as_the_status_it_stands_for(ab: Stage, provider_a: FakeProvider):
    """routing 80"""
    provider_a.script(empty_choices())
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from B"
    assert ab.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]
    provider_a.script(first_event_error({"code": 429}))
    got = await ab.ask(stream=True)
    assert b"from B" in got.body and got.complete
    assert [(name, code) for _, name, code, _, _ in ab.trail] == [("A", 429), ("B", 200)]


async def test_a_list_without_5xx_stops_answers_and_not_broken_connections(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """routing 80a"""
    ab.set(failover_retry_on_statuses="429")
    provider_a.script(empty_choices())
    got = await ab.ask()
    assert got.said == (502, "provider returned no choices (provider A, upstream HTTP 200)")
    assert not provider_b.calls and ab.fails("A") == 1
    provider_a.refuse()
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from B"


# -- nobody left


async def test_a_dark_group_says_when_to_come_back(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """part of failover-loop 93. Without pins."""
    ab.set(circuit_breaker_cooldown="5m", circuit_breaker_threshold="1", server_error_retry_enabled="false")
    provider_a.script(status(503))
    provider_b.script(status(503))
    await ab.ask()
    got = await ab.ask()
    assert got.said == (
        429,
        "no available provider for hotel/g: A/m: circuit breaker open; B/m: circuit breaker open",
    )
    assert got.header("retry-after") == "60" and got.error["code"] == "rate_limit_exceeded"
    assert (ab.row.error_kind, ab.row.status_code) == ("provider_saturated", 429)
    assert ab.trail == [(-1, "A", None, None, "skipped"), (-1, "B", None, None, "skipped")]
    assert len(provider_a.calls) == len(provider_b.calls) == 1


async def test_a_group_whose_entries_are_all_off_reaches_nobody(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 94"""
    stage.member("A", provider_a.url, on=False)
    stage.member("B", provider_b.url, on=False)
    got = await stage.ask()
    assert got.said == (502, "no available provider for hotel/g: A/m: entry disabled; B/m: entry disabled")
    assert got.header("retry-after") is None
    assert stage.row.attempts is None and not provider_a.calls and not provider_b.calls


async def test_a_key_that_can_not_be_read_charges_nobody(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """circuit-breaker 23. Neither a closed circuit nor a half-open one."""
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    provider_a.script(status(500), status(402), silence())
    await stage.ask()
    stage.member("A", provider_a.url, model="other", grouped=False, broken_key=True)
    assert (await stage.ask()).header("x-modelhotel-provider") == "B"
    assert (stage.state("A"), stage.fails("A")) == ("closed", 1)
    assert stage.trail == [(0, "B", 200, None, "success")]

    stage.member("A", provider_a.url, model="other", grouped=False)
    await stage.ask()
    stage.clock.advance(90_000)
    probe = stage.client()
    running = asyncio.create_task(probe.run())
    await provider_a.until(lambda: len(provider_a.calls) == 3)
    probe.left.set()
    await running
    stage.member("A", provider_a.url, model="other", grouped=False, broken_key=True)
    assert (await stage.ask()).header("x-modelhotel-provider") == "B"
    assert stage.state("A") == "half-open" and len(provider_a.calls) == 3
