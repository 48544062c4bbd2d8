"""Who is asked, when and how often: order, backoff, the switches, larger context windows, the last one's retry."""

import asyncio
import logging
import time

import pytest

from modelhotel.core import events
from proxy import walk
from tests.pace import slower
from tests.proxy.walk.stage import Stage
from tests.upstream.server import FakeProvider, Hold, after, answer, reply, silence, stall_after, status


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    return stage


def lines(caplog: pytest.LogCaptureFixture, *wanted: str) -> list[tuple[str, dict[str, object]]]:
    """(message, attributes) of the log lines that begin with one of *wanted*, in order."""
    return [(r.message, getattr(r, "attrs", {})) for r in caplog.records if r.message.startswith(wanted)]


async def test_all_failing_is_the_last_ones_status_after_its_one_retry(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 18"""
    provider_a.script(status(503))
    provider_b.script(status(503))
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        provider_c.script(status(503))
        got = await ab.ask()
        assert len(provider_c.calls) == 2
    assert got.said == (503, "the provider failed to serve this request (provider C, upstream HTTP 503)")
    assert [(index, name, code) for index, name, code, _, _ in ab.trail] == [
        (0, "A", 503),
        (1, "B", 503),
        (2, "C", 503),
        (3, "C", 503),
    ]
    assert [ab.fails(name) for name in "ABC"] == [1, 1, 2]
    assert ab.row.failover_attempt == 3


async def test_the_last_ones_retry_that_serves(
    stage: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """failover-loop 19"""
    caplog.set_level(logging.INFO)
    stage.member("A", provider_a.url)
    provider_a.script(status(503), answer("again"))
    got = await stage.ask()
    assert got.json["choices"][0]["message"]["content"] == "again"
    assert stage.trail == [(0, "A", 503, "provider_error", "charge"), (1, "A", 200, None, "success")]
    assert stage.row.attempts is not None and stage.row.attempts[0]["detail"] == "scripted 503"
    assert stage.waits == [pytest.approx(0.75)] and stage.fails("A") == 0
    assert got.header("x-modelhotel-attempts") == "1"
    (line,) = lines(caplog, "proxy: last candidate answered a retryable")
    assert line[1] == {"provider": "A", "provider_id": stage.row.provider_id, "status": 503, "attempt": 1}


async def test_without_its_setting_the_last_one_is_asked_once(stage: Stage, provider_a: FakeProvider):
    """failover-loop 20"""
    stage.set(server_error_retry_enabled="false")
    stage.member("A", provider_a.url)
    provider_a.script(status(503))
    assert (await stage.ask()).status == 503
    assert len(provider_a.calls) == 1


async def test_with_no_budget_left_there_is_no_retry(stage: Stage, provider_a: FakeProvider):
    """failover-loop 21"""
    stage.set(request_timeout="350ms")
    stage.member("A", provider_a.url)
    provider_a.script(after(0.2, status(503)))
    got = await stage.ask()
    assert got.said == (503, "the provider failed to serve this request (provider A, upstream HTTP 503)")
    assert len(provider_a.calls) == 1 and stage.waits == []
    assert stage.row.error_message == "scripted 503", "the body was still read"


async def test_a_direct_request_retries_like_the_last(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(status(500), answer("again"))
    assert (await ab.ask("A/m")).status == 200
    assert len(provider_a.calls) == 2 and not provider_b.calls


@pytest.mark.parametrize(("code", "calls"), [(500, 2), (502, 2), (504, 2), (501, 1), (505, 1), (429, 1), (401, 1)])
async def test_only_transient_statuses_are_repeated(code: int, calls: int, stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url)
    provider_a.script(status(code))
    assert (await stage.ask()).status == code
    assert len(provider_a.calls) == calls


async def test_the_backoff_doubles_with_each_contact(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 22"""
    provider_a.script(status(503))
    provider_b.script(status(503))
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        assert (await ab.ask()).status == 200
    assert ab.waits == [pytest.approx(0.15), pytest.approx(0.25)]


async def test_the_lines_of_a_failover(ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture):
    """part of failover-loop 26a"""
    caplog.set_level(logging.INFO)
    provider_a.script(status(502))
    await ab.ask()
    a_id = ab.row.attempts[0]["provider_id"]  # type: ignore[index]
    b_id = ab.row.attempts[1]["provider_id"]  # type: ignore[index]
    assert lines(caplog, "proxy: routing", "proxy: failover") == [
        (
            "proxy: routing to provider",
            {"endpoint": "chat", "provider": "A", "provider_id": a_id, "model": "m", "total_candidates": 2},
        ),
        (
            "proxy: failover triggered",
            {"attempt": 1, "provider": "A", "provider_id": a_id, "status": 502, "rate_limit_class": "unknown"},
        ),
        ("proxy: failover backoff", {"backoff": "150ms", "attempt": 2}),
        (
            "proxy: failover attempt",
            {"endpoint": "chat", "attempt": 2, "provider": "B", "provider_id": b_id, "model": "m"},
        ),
    ]


# -- what the content of a request may not go on with


@pytest.mark.parametrize(
    "code", ["content_policy_violation", "content_filter", "moderation_blocked", "safety_violation"]
)
async def test_a_content_refusal_never_moves_on(
    code: str, ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 103, v1-api 69b"""
    ab.set(failover_retry_on_statuses="400,5xx", failover_retry_on_errors="refused")
    provider_a.script(status(400, {"error": {"message": "refused", "code": code}}))
    got = await ab.ask()
    assert got.json == {"error": {"message": "refused", "code": code}}
    assert len(provider_a.calls) == 1 and not provider_b.calls and ab.trail[0][4] == "alive"


# -- a prompt that is too long (5.5)

TOO_LONG = {
    "error": {"message": "This model's maximum context length is 8192 tokens.", "code": "context_length_exceeded"}
}


async def test_a_prompt_too_long_goes_to_a_larger_or_unknown_window(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """failover-loop 101, v1-api 69b"""
    caplog.set_level(logging.INFO)
    stage.member("A", provider_a.url, window=8192)
    stage.member("B", provider_b.url, window=8192)
    provider_a.script(status(400, TOO_LONG))
    with FakeProvider() as provider_c, FakeProvider() as provider_d:
        stage.member("C", provider_c.url, window=131072)
        stage.member("D", provider_d.url)
        assert (await stage.ask()).status == 200
        assert stage.trail == [(0, "A", 400, "provider_bad_request", "alive"), (1, "C", 200, None, "success")]
        provider_c.script(status(400, TOO_LONG))
        assert (await stage.ask()).status == 200
        assert [name for _, name, *_ in stage.trail] == ["A", "C", "D"]
    assert not provider_b.calls and stage.fails("A") == 0
    (first, *_) = lines(caplog, "proxy: prompt too long")
    assert first[1] == {"model": "hotel/g", "provider": "A", "attempt": 1, "context_length": 8192}


async def test_a_prompt_too_long_for_everyone_is_the_providers_400(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 101"""
    stage.member("A", provider_a.url, window=8192, key="sk-aaaaaaaaaaaaaaaa1111")
    stage.member("B", provider_b.url, window=8192)
    provider_a.script(status(400, {"error": {**TOO_LONG["error"], "message": "too much for sk-aaaaaaaaaaaaaaaa1111"}}))
    got = await stage.ask()
    assert got.status == 400 and got.json["error"]["message"] == "too much for [redacted]"
    assert not provider_b.calls and len(provider_a.calls) == 1


async def test_where_the_own_window_is_unknown_everyone_qualifies(ab: Stage, provider_a: FakeProvider):
    """part of failover-loop 102"""
    message = "prompt is too long: 212345 tokens > 200000 maximum"
    provider_a.script(status(400, {"error": {"message": message, "type": "invalid_request_error"}}))
    assert (await ab.ask()).status == 200
    assert ab.trail[0] == (0, "A", 400, "provider_bad_request", "alive")


async def test_a_prompt_too_long_stays_where_failover_is_off(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(failover_enabled="false")
    provider_a.script(status(400, TOO_LONG))
    assert (await ab.ask()).status == 400
    assert not provider_b.calls


async def test_a_body_of_ours_for_a_prompt_too_long_has_its_code(ab: Stage, provider_a: FakeProvider):
    body = {"code": "context_length_exceeded", "message": "too long"}
    provider_a.script(reply(400, body))
    got = await ab.ask("A/m")
    assert got.error["code"] == "context_length_exceeded"


# -- the breaker


async def test_a_dead_first_provider_is_asked_exactly_five_times_of_twenty_five(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 1, operations 5, operations 40, operations 41"""
    seen: list[events.Event] = []
    events.subscribe(lambda event: seen.append(event) if event.type.startswith("circuit_breaker.") else None)
    provider_a.script(status(503))
    for _ in range(25):
        assert (await ab.ask()).status == 200
    assert len(provider_a.calls) == 5 and ab.state("A") == "open"
    assert ab.trail == [(-1, "A", None, None, "skipped"), (0, "B", 200, None, "success")]
    # after the cooldown one probe, and recovery closes
    ab.clock.advance(61)
    provider_a.script(answer("from A"))
    assert (await ab.ask()).status == 200
    assert len(provider_a.calls) == 6 and ab.state("A") == "closed"
    assert [event.type for event in seen] == ["circuit_breaker.open", "circuit_breaker.closed"]
    told = seen[0].metadata
    assert (told["provider"], told["model"], told["cause"]) == ("A", "m", "upstream status 503")


async def test_a_skip_is_on_the_trail_before_the_attempts(ab: Stage, provider_a: FakeProvider):
    """failover-loop 95"""
    provider_a.script(status(402))
    await ab.ask()
    await ab.ask()
    assert ab.row.attempts is not None
    assert ab.row.attempts[0]["detail"] == "circuit breaker open" and ab.row.attempts[0]["attempt"] == -1
    assert ab.row.attempts[1]["attempt"] == 0 and ab.row.failover_attempt == 0


async def test_a_failed_probe_opens_again(ab: Stage, provider_a: FakeProvider):
    provider_a.script(status(503))
    for _ in range(5):
        await ab.ask()
    ab.clock.advance(61)
    await ab.ask()
    assert len(provider_a.calls) == 6 and ab.state("A") == "open"


async def test_one_of_many_probes_and_the_others_go_elsewhere(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 107, circuit-breaker 25"""
    provider_a.script(status(402), after(0.2, answer("from A")))
    await ab.ask()
    ab.clock.advance(90_000)
    answers = await asyncio.gather(*(ab.ask() for _ in range(50)))
    texts = [got.json["choices"][0]["message"]["content"] for got in answers]
    assert (texts.count("from A"), texts.count("from B")) == (1, 49)
    skipped = [row for row in ab.rows[1:] if row.attempts and row.attempts[0]["attempt"] == -1]
    assert len(skipped) == 49
    assert all(row.attempts and row.attempts[0]["detail"] == "probe in progress" for row in skipped)
    assert all(
        row.attempts and row.attempts[0]["breaker"] == "skipped" and row.attempts[1]["attempt"] == 0 for row in skipped
    )
    assert ab.state("A") == "closed" and ab.waits == [pytest.approx(0.15)]


async def test_without_a_lease_everyone_probes(ab: Stage, provider_a: FakeProvider):
    """failover-loop 107"""
    ab.set(circuit_breaker_probe_lease="0s")
    provider_a.script(status(402), after(0.05, answer("from A")))
    await ab.ask()
    ab.clock.advance(90_000)
    answers = await asyncio.gather(*(ab.ask() for _ in range(50)))
    assert [got.json["choices"][0]["message"]["content"] for got in answers] == ["from A"] * 50


async def test_the_probes_lease_ends_when_its_client_hangs_up(ab: Stage, provider_a: FakeProvider):
    """failover-loop 107, circuit-breaker 27"""
    provider_a.script(status(402), silence(), answer("from A"))
    await ab.ask()
    ab.clock.advance(90_000)
    first = ab.client()
    running = asyncio.create_task(first.run())
    await provider_a.until(lambda: len(provider_a.calls) == 2)
    first.left.set()
    await running
    assert ab.row.status_code == 499 and ab.state("A") == "half-open"
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from A"


async def test_a_probe_whose_stream_stays_open_for_minutes_locks_nobody_out_for_longer_than_its_lease(
    ab: Stage, provider_a: FakeProvider
):
    """failover-loop 107, circuit-breaker 28a"""
    provider_a.script(status(402), stall_after(2), answer("from A"))
    await ab.ask()
    ab.clock.advance(90_000)
    probe = ab.client(stream=True)
    running = asyncio.create_task(probe.run())
    await probe.until(b"data:")
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from B"  # B's, while the lease runs
    ab.clock.advance(14.9)
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from B"
    ab.clock.advance(0.2)
    assert (await ab.ask()).json["choices"][0]["message"]["content"] == "from A"
    assert ab.state("A") == "closed" and not running.done()
    probe.left.set()
    await running
    assert ab.state("A") == "closed"


async def test_alive_answers_leave_the_tally_of_a_closed_circuit_and_close_a_half_open_one(
    ab: Stage, provider_a: FakeProvider
):
    """failover-loop 108, circuit-breaker 3, circuit-breaker 29"""
    provider_a.script(*[status(500)] * 4, status(422), status(500), status(422))
    for fails in (1, 2, 3, 4, 4):
        await ab.ask()
        assert (ab.state("A"), ab.fails("A")) == ("closed", fails)
    await ab.ask()
    assert ab.state("A") == "open"
    ab.clock.advance(61)
    assert (await ab.ask()).status == 422
    assert ab.state("A") == "closed"


async def test_with_the_breaker_off_nothing_is_read_or_written(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 70"""
    ab.set(circuit_breaker_enabled="false")
    provider_a.script(status(402))
    for _ in range(2):
        assert (await ab.ask()).status == 200
    assert len(provider_a.calls) == 2
    assert [breaker for *_, breaker in ab.trail] == ["disabled", "disabled"]
    assert ab.fails("A") == 0


async def test_a_body_that_can_not_be_built_charges_nobody(ab: Stage, monkeypatch: pytest.MonkeyPatch):
    """circuit-breaker 23"""
    from proxy import outgoing

    def refuse(*args: object, **given: object) -> bytes:
        raise ValueError("no")

    monkeypatch.setattr(outgoing, "build", refuse)
    got = await ab.ask()
    assert got.said == (502, "all providers failed for model hotel/g")
    assert ab.trail == [(0, "A", None, "internal", None), (1, "B", None, "internal", None)]
    assert ab.row.error_kind == "internal" and (ab.fails("A"), ab.fails("B")) == (0, 0)


async def test_the_walk_takes_little_time_of_its_own(ab: Stage):
    """The gateway's share of an unloaded request is a few milliseconds at most."""
    spent = []
    for _ in range(5):
        started = time.perf_counter()
        await ab.ask()
        spent.append(time.perf_counter() - started)
    assert min(spent) < 0.25 * slower()
    assert walk.TOOLS.chance() == 0.5


async def test_a_candidate_that_another_request_probes_costs_no_delay(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """It neither pays a delay nor counts as a contact."""
    provider_b.script(status(402))
    await ab.ask("B/m")
    ab.clock.advance(90_000)
    slow = Hold(status(503))
    provider_a.script(slow)
    provider_b.script(silence())
    with FakeProvider() as provider_c:
        ab.member("C", provider_c.url)
        running = asyncio.create_task(ab.ask())
        await provider_a.until(slow.reached.is_set)
        # B's circuit is free while the first request is resolved and leased when its turn comes
        probe = ab.client("B/m")
        probing = asyncio.create_task(probe.run())
        await provider_b.until(lambda: len(provider_b.calls) == 2)
        slow.release()
        assert (await running).status == 200
        assert ab.trail == [
            (-1, "B", None, None, "skipped"),
            (0, "A", 503, "provider_error", "charge"),
            (1, "C", 200, None, "success"),
        ]
        probe.left.set()
        await probing
    assert ab.waits == [pytest.approx(0.15)]


# -- the lines of an ending (19)


async def test_the_line_of_a_passed_on_error(ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture):
    provider_a.script(status(403))
    await ab.ask("A/m")
    (line,) = lines(caplog, "proxy: upstream non-200")
    assert line[1] == {
        "status": 403,
        "error_kind": "provider_error",
        "model": "A/m",
        "provider": "A",
        "provider_id": ab.row.provider_id,
    }


async def test_the_lines_of_exhaustion(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog: pytest.LogCaptureFixture
):
    provider_a.refuse()
    provider_b.refuse()
    await ab.ask()
    (line,) = lines(caplog, "proxy: all providers exhausted")
    assert line[1] == {
        "model": "hotel/g",
        "provider": "B",
        "error": ab.row.error_message,
        "kind": "provider_error",
        "status": 502,
        "candidates": 2,
        "failover_timeout": "2m",
    }
    await ab.ask("A/m")
    (line,) = lines(caplog, "proxy: provider request failed")
    assert line[1] == {
        "model": "A/m",
        "provider": "A",
        "error": ab.row.error_message,
        "kind": "provider_error",
        "status": 502,
        "request_timeout": "1m",
    }
    tries = lines(caplog, "proxy: transient upstream error, retrying same provider")
    assert [(attrs["attempt"], attrs["try"], attrs["request_written"]) for _, attrs in tries] == [
        (1, 1, False),
        (1, 2, False),
        (2, 1, False),
        (2, 2, False),
        (1, 1, False),
        (1, 2, False),
    ]


async def test_no_line_holds_the_prompt_or_a_key(
    stage: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """operations 10. Every phase logs something and tells something; none of it content."""
    caplog.set_level(logging.DEBUG)
    told: list[object] = []
    events.subscribe(told.append)
    prompt = "a private sentence that must not be logged"
    stage.member("A", provider_a.url, key="sk-aaaaaaaaaaaaaaaa1111")
    for script in (status(500, {"error": {"message": prompt + " sk-aaaaaaaaaaaaaaaa1111"}}), answer(prompt)):
        provider_a.script(script)
        for streams in (False, True):
            await stage.ask(prompt=prompt, stream=streams)
    spoken = caplog.text + repr([getattr(record, "attrs", {}) for record in caplog.records]) + repr(told)
    assert "request.completed" in spoken
    assert "private sentence" not in spoken and "sk-aaaa" not in spoken
