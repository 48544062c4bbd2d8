"""Clients that leave, at every phase of a request; and the end of the process."""

import asyncio
import logging

import pytest

from proxy import shutdown
from tests.proxy.walk.stage import Stage
from tests.upstream.server import (
    FakeProvider,
    after,
    answer,
    delta,
    events,
    headers_then_silence,
    silence,
    stall_after,
    status,
)


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    return stage


async def leave_when(stage: Stage, ready, **given):
    """One request whose client hangs up once *ready* (a coroutine function) returns."""
    client = stage.client(**given)
    running = asyncio.create_task(client.run())
    await ready(client)
    client.left.set()
    return await running


async def test_leaving_before_the_headers_cancels_the_upstream_at_once(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """circuit-breaker 20, operations 7. The client's half."""
    provider_a.script(silence())

    async def called(_):
        await provider_a.until(lambda: len(provider_a.calls) == 1)

    got = await leave_when(ab, called)
    provider_a.wait_disconnects(1)
    assert got.status == 0 and not provider_b.calls
    assert (ab.row.status_code, ab.row.error_kind, ab.row.state) == (499, "client_disconnect", "failed")
    assert ab.row.error_message == 'client disconnected during attempt 1 to provider "A"'
    assert ab.trail == [(0, "A", None, "client_disconnect", None)] and ab.fails("A") == 0
    assert ab.row.provider_id is None


async def test_leaving_during_the_backoff_ends_the_request(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog
):
    """failover-loop 24"""
    caplog.set_level(logging.INFO)
    provider_a.script(status(503))
    ab.hold = asyncio.Event()
    await leave_when(ab, lambda _: ab.holding.wait())
    assert (ab.row.status_code, ab.row.error_kind) == (499, "client_disconnect")
    assert not provider_b.calls and ab.trail == [(0, "A", 503, "provider_error", "charge")]
    assert "proxy: client disconnected during failover backoff" in caplog.messages
    assert ab.row.error_message is not None and ab.row.error_message.endswith("; last provider error: scripted 503")


async def test_a_connection_closed_after_a_stall_keeps_the_stall_as_its_cause(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog
):
    """failover-loop 25"""
    caplog.set_level(logging.INFO)
    ab.set(ttft_timeout="50ms")
    ab.member("C", provider_b.url)
    provider_a.script(headers_then_silence())
    ab.hold = asyncio.Event()
    await leave_when(ab, lambda _: ab.holding.wait(), stream=True)
    assert (ab.row.status_code, ab.row.error_kind) == (502, "provider_timeout")
    assert ab.row.error_message is not None and "all 3 providers" not in ab.row.error_message
    assert "proxy: connection closed during failover backoff after provider stall" in caplog.messages
    assert ab.trail == [(0, "A", 200, "provider_timeout", "charge")]


async def test_leaving_during_the_pause_before_a_retry_means_no_retry(stage: Stage, provider_a: FakeProvider):
    stage.member("A", provider_a.url)
    provider_a.script(status(503))
    stage.hold = asyncio.Event()
    await leave_when(stage, lambda _: stage.holding.wait())
    assert stage.row.status_code == 499 and len(provider_a.calls) == 1


async def test_leaving_during_a_transport_retry_ends_the_attempt(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.refuse()
    ab.hold = asyncio.Event()
    await leave_when(ab, lambda _: ab.holding.wait())
    assert ab.row.status_code == 499 and not provider_b.calls and ab.fails("A") == 0


async def test_leaving_while_a_2xx_body_is_read(ab: Stage, provider_a: FakeProvider):
    provider_a.script(headers_then_silence(stream=False))

    async def headers_came(_):
        await provider_a.until(lambda: len(provider_a.calls) == 1)
        await asyncio.sleep(0.05)

    await leave_when(ab, headers_came)
    assert ab.row.status_code == 499
    assert ab.trail == [(0, "A", 200, "client_disconnect", None)] and ab.fails("A") == 0


async def test_leaving_early_in_the_probe_is_the_clients_affair(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 19"""
    provider_a.script(headers_then_silence())

    async def headers_came(_):
        await provider_a.until(lambda: len(provider_a.calls) == 1)
        await asyncio.sleep(0.05)

    await leave_when(ab, headers_came, stream=True)
    assert (ab.row.status_code, ab.row.error_kind) == (499, "client_disconnect")
    assert ab.trail[0][3:] == ("client_disconnect", None) and ab.fails("A") == 0


async def test_leaving_late_in_the_probe_tells_on_the_provider(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 19"""
    ab.set(stream_stall_timeout="40ms")
    provider_a.script(headers_then_silence())

    async def silent(_):
        await provider_a.until(lambda: len(provider_a.calls) == 1)
        await asyncio.sleep(0.05)

    await leave_when(ab, silent, stream=True)
    assert (ab.row.status_code, ab.row.error_kind) == (502, "provider_timeout")
    assert ab.trail == [(0, "A", 200, "provider_timeout", "charge")] and ab.fails("A") == 1
    assert ab.row.error_message is not None
    for word in ('provider "A"', "ttft_timeout 1m", "read timeout"):
        assert word in ab.row.error_message


async def test_leaving_a_running_stream_cancels_the_upstream_and_meters_what_went_out(
    ab: Stage, provider_a: FakeProvider
):
    """failover-loop 84, part of v1-api 44"""
    provider_a.script(stall_after(10))
    await leave_when(ab, lambda client: client.until(b"tok9"), stream=True, prompt="x" * 40)
    provider_a.wait_disconnects(1)
    assert (ab.row.status_code, ab.row.error_kind, ab.row.state) == (0, "client_disconnect", "failed")
    assert ab.trail == [(0, "A", 200, "client_disconnect", None)] and ab.fails("A") == 0
    assert ab.row.tokens_completion == 0
    assert ab.charged == 10 + 13  # 40 bytes of prompt, 50 of "tok0 " to "tok9 ", four bytes a token


async def test_ten_clients_that_leave_do_not_touch_the_circuit(ab: Stage, provider_a: FakeProvider):
    """circuit-breaker 19"""
    provider_a.script(stall_after(1))
    for _ in range(10):
        await leave_when(ab, lambda client: client.until(b"tok0"), stream=True)
    assert ab.state("A") == "closed" and ab.fails("A") == 0


async def test_leaving_during_the_second_attempt_names_the_first_error(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(status(503))
    provider_b.script(silence())

    async def called(_):
        await provider_b.until(lambda: len(provider_b.calls) == 1)

    await leave_when(ab, called)
    assert ab.row.error_message == (
        'client disconnected while retrying provider "B" (attempt 2); last provider error: scripted 503'
    )
    assert ab.row.failover_attempt == 1


async def test_a_client_that_stays_is_not_disturbed_by_the_watch(ab: Stage, provider_a: FakeProvider):
    provider_a.script(after(0.05, answer("late")))
    got = await ab.ask()
    assert got.status == 200 and got.complete


# -- the end of the process


async def test_a_stream_still_running_at_the_end_gets_its_terminal_frame(ab: Stage, provider_a: FakeProvider):
    provider_a.script(stall_after(2))
    client = ab.client(stream=True)
    running = asyncio.create_task(client.run())
    await client.until(b"tok1")
    assert shutdown.running() == 1
    assert shutdown.interrupt_streams() == 1
    got = await running
    assert got.events[-1] == (
        '{"error":{"message":"stream interrupted: gateway restarting","type":"server_error","param":null,'
        '"code":"internal"}}'
    )
    assert (ab.row.status_code, ab.row.error_kind) == (0, "internal")
    assert ab.row.error_message == "request interrupted (server restart)"
    assert ab.trail == [(0, "A", 200, "internal", None)] and ab.fails("A") == 0
    assert shutdown.running() == 0
    provider_a.wait_disconnects(1)


async def test_a_finished_stream_is_no_running_one(ab: Stage, provider_a: FakeProvider):
    provider_a.script(events(delta(content="a"), delta(finish="stop"), b"data: [DONE]\n\n"))
    await ab.ask(stream=True)
    assert shutdown.running() == 0 and shutdown.interrupt_streams() == 0


async def test_a_request_cut_off_by_the_server_charges_nobody_and_keeps_its_trail(ab: Stage, provider_a: FakeProvider):
    provider_a.script(silence())
    running = asyncio.create_task(ab.client().run())
    await provider_a.until(lambda: len(provider_a.calls) == 1)
    running.cancel()
    await running
    provider_a.wait_disconnects(1)
    assert ab.row.error_kind == "internal" and ab.fails("A") == 0
    assert [one["provider"] for one in ab.row.attempts] == ["A"]
