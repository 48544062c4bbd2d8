"""A request of ``/v1`` whose client leaves, or whose server stops, at every await: one row, no lease, no connection.

The request runs in process against real upstreams, again and again: ended at its first suspension, its second, and so
on until it runs through.
"""

import asyncio
import gc
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from failover.breaker.circuit import State
from failover.verdict import Judgement, Verdict
from providers.upstream import select
from proxy import passthrough, walk
from proxy.recovery import PREFILL
from proxy.tools import Tools
from requestlogs.draft import Draft
from requestlogs.recorder import RECORDER
from tests.proxy.asgi import Client
from tests.proxy.walk.stage import Stage
from tests.upstream import rig
from tests.upstream.behaviours import head
from tests.upstream.rig import CancelAt
from tests.upstream.server import (
    DONE,
    Behaviour,
    FakeProvider,
    Wire,
    after,
    completion,
    delta,
    headers_then_silence,
    http_chunk,
    reply,
    reset,
    silence,
    sse,
    status,
    stream,
    vectors,
)

pytestmark = pytest.mark.slow

CHARGE = Judgement(Verdict.CHARGE, "scripted", 503, "charge")
FINAL = {"completed", "failed"}


async def echo(wire: Wire) -> None:
    """Names the prompt it answers, whole or as a stream of several pieces."""
    prompt = wire.request.json["messages"][0]["content"]
    if not wire.request.streaming:
        await reply(200, completion(f"for {prompt}"))(wire)
        return
    await wire.write(head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]))
    for event in (delta(role="assistant"), delta(content="for "), delta(content=prompt), delta(finish="stop")):
        await wire.write(http_chunk(sse(event)))
        await wire.sleep(0.003)
    await wire.write(http_chunk(DONE))
    await wire.sleep(0.003)
    await wire.write(b"0\r\n\r\n")


async def breaks(wire: Wire) -> None:
    """A stream that ends behind its first word."""
    await wire.write(head(200, [("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")]))
    for event in (delta(role="assistant"), delta(content="for ")):
        await wire.write(http_chunk(sse(event)))
        await wire.sleep(0.003)
    wire.close_after = True


def finishes(refuses: bool) -> Behaviour:
    """Goes on with the stream that broke; *refuses*: only says the whole of it."""

    async def behave(wire: Wire) -> None:
        first, *said = wire.request.json["messages"]
        if said and refuses:
            await status(400)(wire)
        elif said:
            await stream([" ", first["content"]], delay=0.003)(wire)
        else:
            await echo(wire)

    return behave


class Suspending(Client):
    """A client whose server waits in every ``receive``, after the head, and for room before every piece of a body."""

    async def receive(self) -> dict[str, Any]:
        await asyncio.sleep(0)
        return await super().receive()

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(0)
        await super().send(message)
        if message["type"] == "http.response.start":
            await asyncio.sleep(0)


def asks(stage: Stage, prompt: str, stream: bool) -> Suspending:
    plain = stage.client(prompt=prompt, stream=stream, seed=1)
    return Suspending(plain.scope, plain.pieces)


def on_probation(stage: Stage) -> None:
    """Both circuits are half-open, so that every attempt holds a lease; nothing was learned."""
    walk.TOOLS.learned._repairs.clear()
    stage.board.reset()
    for name in "AB":
        for _ in range(5):
            stage.board.record(_id(name), "m", CHARGE)
    stage.clock.advance(90_000)


def _id(name: str) -> str:
    return f"00000000-0000-4000-8000-{ord(name):012d}"


def check_trail(stage: Stage, asked: set[str]) -> None:
    """Who was cut off is not charged, and whoever was *asked* stands on the trail: nobody after the one cut off."""
    trail = RECORDER._finished[-1].attempts or []
    assert asked <= {element["provider"] for element in trail}
    gone = [element for element in trail if element.get("error_kind") == "client_disconnect"]
    for element in gone:
        assert element is trail[-1] or element.get("hedged") or trail[-1].get("hedged")
        verdicts = [e["breaker"] for e in trail if e["provider"] == element["provider"] and "breaker" in e]
        circuit = stage.board._circuits.find(element["provider_id"], "m")
        assert circuit is not None
        if not verdicts:
            assert circuit.state is not State.CLOSED and circuit.failed_probes == 0


def check_rows(client: Client, mode: str) -> None:
    """Exactly one row, in a final state that fits what the client got."""
    assert not RECORDER._running and len(RECORDER._finished) == 1
    row = RECORDER._finished.pop()
    answer = client.answer
    assert row.state in FINAL and row.finished
    assert all(element.get("duration_ms") is not None for element in row.attempts or [])
    if row.state == "completed":
        assert answer.complete and answer.status == 200 and b"for " in answer.body
        assert (row.status_code, row.error_kind) == (200, None)
    elif mode == "both":
        assert row.error_kind in ("client_disconnect", "internal") and row.status_code in (0, 499, 500)
    elif mode == "stop":
        assert row.error_kind == "internal" and row.status_code == (0 if answer.status == 200 else 500)
    else:
        assert row.error_kind == "client_disconnect" and row.status_code == (0 if answer.status else 499)
        last = [e.get("error_kind") for e in row.attempts or []][-1:]
        assert last in ([], ["client_disconnect"], ["provider_error"], ["provider_saturated"])


async def check_rest(stage: Stage, providers: tuple[FakeProvider, ...]) -> None:
    """No lease, no slot, no task, no connection but those that rest in the pool."""
    for name in "AB":
        circuit = stage.board._circuits.find(_id(name), "m")
        assert circuit is None or circuit.lease is None, f"the lease of {name} is held"
    assert not any(stage.windows.running().values()) and not stage.windows._waiting, stage.running
    await rig.nothing_runs()
    pool: Any = select.data_plane()._pool  # type: ignore[attr-defined]
    for _ in range(1000):
        if pool.live == set(pool.resting) and sum(p.connections for p in providers) == len(pool.resting):
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{len(pool.live)} live, {len(pool.resting)} resting, {[p.connections for p in providers]}")


def _ends(client: Client, mode: str) -> dict[str, Any]:
    """What ends the request: the server, the client, or the client and then the server while that is dealt with."""
    if mode == "stop":
        return {}
    if mode == "leave":
        return {"act": client.left.set}

    def both() -> None:
        task = asyncio.current_task()
        if client.left.is_set() and task is not None:
            task.cancel()
        client.left.set()

    return {"act": both, "times": 2}


async def every_step(stage: Stage, providers: tuple[FakeProvider, ...], stream: bool, mode: str, late: bool) -> int:
    step = 0
    while True:
        step += 1
        on_probation(stage)
        before = [len(provider.calls) for provider in providers]
        client = asks(stage, f"first {step}", stream)
        ended = CancelAt(client.run(), step, late=late, **_ends(client, mode))
        with suppress(asyncio.CancelledError) if mode == "both" else nullcontext():
            await asyncio.ensure_future(_await(ended))
        await check_rest(stage, providers)
        check_trail(stage, {n for n, p, had in zip("AB", providers, before, strict=True) if len(p.calls) > had})
        check_rows(client, mode)
        if ended.steps < step:
            assert b"first" in client.answer.body
            return step - 1
        later = asks(stage, f"second {step}", stream)
        await later.run()
        text = later.answer.body
        assert later.answer.complete and f"second {step}".encode() in text and b"first" not in text
        await check_rest(stage, providers)
        check_rows(later, mode)


async def picky(wire: Wire) -> None:
    """Takes no ``seed``."""
    await (status(400, {"error": {"message": "no 'seed' here"}}) if "seed" in wire.request.json else echo)(wire)


FIRST = {
    "first serves": echo,
    "first refuses": status(503),
    "first refuses a parameter": picky,
    "first resets": reset(),
    "first stops in the body": headers_then_silence(seconds=0.003),
}


RACED = {
    "first is silent": silence(),
    "first sends headers only": headers_then_silence(),
    "first refuses meanwhile": after(0.11, status(503)),
}
ENDS = ["leave early", "leave late", "stop early", "stop late", "both early"]


async def _await(work: Any) -> Any:
    return await work


async def through(stage: Stage, providers: tuple[FakeProvider, ...], stream: bool, end: str) -> int:
    """How many awaits a request was ended at."""
    mode, _, when = end.partition(" ")
    for name, provider in zip("AB", providers, strict=True):
        stage.member(name, provider.url)
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    steps = await every_step(stage, providers, stream, mode, when == "late")
    gc.collect()
    assert not complaints
    return steps


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_request_ended_at_any_await_leaves_one_row_and_nothing_else(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, stream, first, end, monkeypatch
):
    """failover-loop 107, circuit-breaker 27"""
    monkeypatch.setattr(walk, "TOOLS", Tools(sleep=lambda _: asyncio.sleep(0.002), chance=lambda: 0.5))
    provider_a.script(FIRST[first])
    provider_b.script(echo)
    assert await through(stage, (provider_a, provider_b), stream, end) >= (6 if stream else 4)


REPEATED = {
    "first is busy": status(429, headers={"Retry-After": "1"}),
    "first fails again": status(500),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("first", REPEATED)
async def test_a_request_that_asks_again_in_place_leaves_one_row_and_nothing_else(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, first, end, monkeypatch
):
    """Issue 5, cancellation at every await: the wait in place, and the attempts before and after it."""
    monkeypatch.setattr(walk, "TOOLS", Tools(sleep=lambda _: asyncio.sleep(0.002), chance=lambda: 0.5))
    stage.set(rate_limit_wait_in_place="3s", server_error_retry_in_place="true")
    provider_a.script(REPEATED[first])
    provider_b.script(echo)
    assert await through(stage, (provider_a, provider_b), False, end) >= 6
    assert len(provider_a.calls) > len(provider_b.calls)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("first", RACED)
async def test_a_race_ended_at_any_await_leaves_one_row_and_nothing_else(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, first, end
):
    stage.set(hedging_enabled="true", hedge_delay="0s")
    provider_a.script(RACED[first])
    provider_b.script(echo)
    assert await through(stage, (provider_a, provider_b), True, end) >= 6


async def ended_at(step: int, client: Client, end: str) -> tuple[Draft, bool]:
    """The row of a request that is ended at its *step*-th await, and whether it had fewer."""
    mode, _, when = end.partition(" ")
    ended = CancelAt(client.run(), step, late=when == "late", **_ends(client, mode))
    with suppress(asyncio.CancelledError) if mode == "both" else nullcontext():
        await asyncio.ensure_future(_await(ended))
    row = RECORDER._finished.pop()
    assert row.state in FINAL and row.finished and not RECORDER._running and not RECORDER._finished
    return row, ended.steps < step


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("frees", [True, False], ids=["a slot frees", "nothing frees"])
async def test_a_request_ended_while_it_waits_for_a_slot_leaves_none_behind(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, frees, end, monkeypatch
):
    stage.member("A", provider_a.url, most=1)
    stage.member("B", provider_b.url, most=1)
    taken: list[Any] = []

    async def sleep(_: float) -> None:
        await asyncio.sleep(0.002)
        if frees and taken:
            stage.windows.release(taken.pop(), None)
            await asyncio.sleep(0.05)

    monkeypatch.setattr(walk, "TOOLS", Tools(sleep=sleep, chance=lambda: 0.5))
    provider_a.script(echo)
    step, through_it = 0, False
    while not through_it:
        step += 1
        taken += [stage.fill("B"), stage.fill("A")]
        row, through_it = await ended_at(step, asks(stage, f"first {step}", False), end)
        while taken:
            stage.windows.release(taken.pop(), None)
        await check_rest(stage, (provider_a, provider_b))
    assert step > 4 and (row.state, row.status_code) == (("completed", 200) if frees else ("failed", 429))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("buffered", [passthrough.BUFFERED, 5], ids=["read first", "relayed"])
async def test_an_answer_passed_through_and_ended_at_any_await_leaves_one_row_and_nothing_else(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, buffered, end, monkeypatch
):
    monkeypatch.setattr(walk, "TOOLS", Tools(sleep=lambda _: asyncio.sleep(0.002), chance=lambda: 0.5))
    monkeypatch.setattr(passthrough, "BUFFERED", buffered)
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    provider_a.script(status(503))
    provider_b.script(vectors())
    step, through_it = 0, False
    while not through_it:
        step += 1
        on_probation(stage)
        plain = stage.embedding_client()
        row, through_it = await ended_at(step, Suspending(plain.scope, plain.pieces), end)
        await check_rest(stage, (provider_a, provider_b))
    assert step > 6 and (row.state, row.status_code) == ("completed", 200)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("refuses", [False, True], ids=["prefill", "splice"])
async def test_a_recovery_ended_at_any_await_leaves_one_row_and_nothing_else(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider, refuses, end, monkeypatch
):
    """part of beyond 1"""
    monkeypatch.setattr(walk, "TOOLS", Tools(sleep=lambda _: asyncio.sleep(0.002), chance=lambda: 0.5))
    monkeypatch.setattr(PREFILL, "works", lambda *_: True)  # so that it is refused every time
    stage.recovery = "continue"
    provider_a.script(breaks)
    provider_b.script(finishes(refuses))
    assert await through(stage, (provider_a, provider_b), True, end) >= 8
