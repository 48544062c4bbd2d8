"""What only the native client promises: its pool, its flow control, its timers, and that nothing is left behind."""

import asyncio
import os
import time
from typing import Any

import pytest

from providers.upstream import wire
from providers.upstream.interface import IDLE_PER_HOST, FaultKind, UpstreamError
from providers.upstream.native import NativeClient
from tests.upstream import rig
from tests.upstream.rig import FixedResolver, chat, fault, fetch, run, send
from tests.upstream.server import Unreachable as Hole
from tests.upstream.server import after, answer, events, http_chunk, raw, reply, silence, stall_after

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request) -> str:
    return request.param


def native(work: Any, loop: str, resolver: Any = None, **options: Any) -> Any:
    """Run ``work(client)``; afterwards no connection is left in the client."""

    async def whole() -> Any:
        client = NativeClient(resolver or FixedResolver(), **options)
        try:
            return await work(client)
        finally:
            await client.aclose()
            assert not client._pool.live and not client._pool.resting
            await rig.nothing_runs()

    return run(whole, loop)


# ---------------------------------------------------------------- a body that is at hand


@pytest.mark.parametrize(("limit", "expected"), [(2, b"ok"), (1, None)])
def test_a_body_that_came_with_its_head_needs_no_wait_and_frees_its_connection(limit, expected, loop, provider_a):
    provider_a.script(raw(OK, close=False))

    async def work(c):
        response = await send(c, chat(provider_a.url))
        assert response.at_hand(limit) == expected
        assert (response._connection is None) is (expected is not None)
        assert list(c._pool.resting) == ([] if expected is None else list(c._pool.live))
        response.close()

    native(work, loop)


def test_a_body_that_is_not_whole_is_not_at_hand_and_is_told_by_reading_it(loop, provider_a):
    provider_a.script(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"))

    async def work(c):
        response = await send(c, chat(provider_a.url))
        assert response.at_hand(1 << 20) is None
        with pytest.raises(UpstreamError) as problem:
            await response.read(1 << 20)
        assert problem.value.kind is FaultKind.RESET and problem.value.partial == b"ab"

    native(work, loop)


# ---------------------------------------------------------------- the pool


def test_the_connection_used_last_is_used_next(loop, provider_a):
    provider_a.script(after(0.05, answer("x")))

    async def work(c):
        await asyncio.gather(*(fetch(c, chat(provider_a.url)) for _ in range(3)))
        last = list(c._pool.resting)[-1]
        response = await send(c, chat(provider_a.url))
        assert response._connection is last
        await response.read(1 << 20)

    native(work, loop)
    assert provider_a.accepted == 3


def test_at_most_twenty_connections_of_a_host_rest(loop, provider_a):
    provider_a.script(after(0.2, answer("x")))

    async def work(c):
        await asyncio.gather(*(fetch(c, chat(provider_a.url)) for _ in range(IDLE_PER_HOST + 5)))
        await provider_a.until(lambda: provider_a.connections == IDLE_PER_HOST)
        assert len(c._pool.resting) == IDLE_PER_HOST == len(c._pool.live)

    native(work, loop)
    assert provider_a.accepted == IDLE_PER_HOST + 5


def test_the_longest_resting_one_makes_room_when_the_pool_is_full(loop, provider_a, provider_b, monkeypatch):
    monkeypatch.setattr("providers.upstream.pool.IDLE_TOTAL", 1)

    async def work(c):
        await fetch(c, chat(provider_a.url))
        await fetch(c, chat(provider_b.url))
        await provider_a.until(lambda: provider_a.connections == 0)
        assert provider_b.connections == 1 and len(c._pool.resting) == 1

    native(work, loop)


def test_a_resting_connection_expires(loop, provider_a, monkeypatch):
    monkeypatch.setattr(wire, "IDLE_SECONDS", 0.1)

    async def work(c):
        start = time.monotonic()
        await fetch(c, chat(provider_a.url))
        await provider_a.until(lambda: provider_a.connections == 0)
        assert time.monotonic() - start > 0.05
        assert not c._pool.live and not c._pool.resting

    native(work, loop)


def test_a_connection_that_says_more_than_it_was_asked_is_not_used_again(loop, provider_a):
    async def work(c):
        provider_a.script(raw(OK + OK, close=False))
        assert await fetch(c, chat(provider_a.url)) == (200, b"ok")
        provider_a.script(raw(OK, close=False))
        assert await fetch(c, chat(provider_a.url)) == (200, b"ok")
        return provider_a.accepted

    assert native(work, loop) == 2


def test_unasked_bytes_on_a_resting_connection_end_it(loop, provider_a):
    async def late(w):
        await w.write(OK)
        await asyncio.sleep(0.05)
        await w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")

    provider_a.script(late, raw(OK, close=False))

    async def work(c):
        await fetch(c, chat(provider_a.url))
        await provider_a.until(lambda: provider_a.connections == 0)
        assert await fetch(c, chat(provider_a.url)) == (200, b"ok")

    native(work, loop)


def test_trailers_do_not_reach_the_next_answer(loop, provider_a):
    first = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Late: 1\r\n\r\n"
    provider_a.script(raw(first, close=False), raw(OK, close=False))

    async def work(c):
        await fetch(c, chat(provider_a.url))
        response = await send(c, chat(provider_a.url))
        assert response.header(b"x-late") is None and await response.read(10) == b"ok"

    native(work, loop)
    assert provider_a.accepted == 1


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"t" * 400_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"e" * 400_000,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 60_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"v" * 150_000 + b"\r\nContent-Length: 0\r\n\r\n",
    ],
    ids=["trailer", "extension", "many", "whole"],
)
def test_endless_heads_extensions_and_trailers_are_cut(loop, provider_a, data):
    provider_a.script(raw(data, close=False))
    problem = native(lambda c: fault(c, chat(provider_a.url)), loop)
    assert problem.kind is FaultKind.PROTOCOL


def test_switching_protocols_is_refused(loop, provider_a):
    provider_a.script(raw(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", close=False))
    assert native(lambda c: fault(c, chat(provider_a.url)), loop).kind is FaultKind.PROTOCOL


# ---------------------------------------------------------------- flow control


def test_a_reader_that_waits_makes_the_upstream_wait(loop, provider_a):
    """A 64 MB stream that nobody reads is not buffered; it arrives whole once somebody does."""
    piece, count = b"x" * 65536, 1000
    sent: list[int] = []

    async def flood(w):
        await w.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(count):
            sent.append(n)
            await w.write(http_chunk(piece))
        await w.write(b"0\r\n\r\n")

    provider_a.script(flood)

    async def work(c):
        response = await send(c, chat(provider_a.url), seconds=20)
        await asyncio.sleep(0.3)
        assert response._connection.buffered <= wire.HIGH_WATER + 2 * 262_144
        assert len(sent) < count / 2
        total = 0
        while data := await response.chunk():
            total += len(data)
        return total

    assert native(work, loop) == len(piece) * count
    assert provider_a.accepted == 1


def test_read_gathers_more_than_the_high_water_mark(loop, provider_a):
    body = os.urandom(3 << 20)
    provider_a.script(reply(200, body))
    assert native(lambda c: fetch(c, chat(provider_a.url)), loop) == (200, body)


def test_an_answer_before_the_whole_request_was_sent_is_an_answer(loop):
    async def work(c):
        writers = []

        async def serve(reader, writer):
            writers.append(writer)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")

        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=4096)
        try:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            assert await fetch(c, chat(url, b"x" * (64 << 20))) == (413, b"big")
            assert not c._pool.resting
        finally:
            server.close()
            for writer in writers:
                writer.close()

    native(work, loop)


def test_the_header_timeout_counts_from_the_end_of_the_upload(loop):
    async def work(c):
        writers = []

        async def serve(reader, writer):
            writers.append(writer)
            await asyncio.sleep(0.4)  # nothing is read: the upload stands still
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
            writer.write(OK)

        server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=4096)
        try:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            body = b"x" * (32 << 20)
            assert await fetch(c, chat(url, body), header_timeout=0.3, seconds=15) == (200, b"ok")
        finally:
            server.close()
            for writer in writers:
                writer.close()

    native(work, loop)


# ---------------------------------------------------------------- timers, closing


def test_a_stream_whose_deadline_moves_with_every_chunk_makes_no_timer_per_chunk(provider_a):
    provider_a.script(events(*({"n": n} for n in range(300)), delay=0.001))

    async def work():
        loop = asyncio.get_running_loop()
        made: list[float] = []
        real = loop.call_at
        client = NativeClient(FixedResolver())
        try:
            await fetch(client, chat(provider_a.url))
            loop.call_at = lambda when, *args, **more: (made.append(when), real(when, *args, **more))[1]  # type: ignore[method-assign]
            response = await send(client, chat(provider_a.url))
            chunks = 0
            while await response.chunk():
                chunks += 1
                response.deadline(loop.time() + 30)
            return chunks, len(made)
        finally:
            await client.aclose()

    chunks, timers = run(work)
    assert chunks > 50 and timers <= 4


def test_closing_the_client_ends_what_runs(loop, provider_a):
    provider_a.script(silence(), stall_after(1))

    async def work():
        client = NativeClient(FixedResolver())
        waiting = asyncio.ensure_future(fault(client, chat(provider_a.url)))
        await provider_a.until(lambda: len(provider_a.calls) == 1)
        response = await send(client, chat(provider_a.url))
        await response.chunk()
        reading = asyncio.ensure_future(response.chunk())
        await asyncio.sleep(0.02)
        await client.aclose()
        assert (await waiting).kind is FaultKind.RESET
        with pytest.raises(UpstreamError):
            await reading
        await provider_a.until(lambda: provider_a.connections == 0)

    run(work, loop)


def test_closing_a_response_tells_whoever_waits_for_its_next_chunk(loop, provider_a):
    provider_a.script(stall_after(1))

    async def work(c):
        response = await send(c, chat(provider_a.url))
        await response.chunk()
        reading = asyncio.ensure_future(response.chunk())
        await asyncio.sleep(0.02)
        response.close()
        with pytest.raises(UpstreamError) as told:
            await reading
        return told.value.kind

    assert native(work, loop) is FaultKind.RESET


def test_a_client_that_was_closed_pools_nothing(loop, provider_a):
    async def work(c):
        await c.aclose()
        assert (await fetch(c, chat(provider_a.url)))[0] == 200
        assert not c._pool.resting

    native(work, loop)


async def _until(condition: Any) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not in time")


def test_cancelling_a_dial_that_never_ends_leaves_nothing_behind(loop):
    with Hole() as hole:

        async def work(c):
            before = rig.open_files()
            task = asyncio.ensure_future(fetch(c, chat(hole.url)))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await _until(lambda: rig.open_files() <= before)

        native(work, loop)


# ---------------------------------------------------------------- sifting


def test_what_is_sifted_does_not_wake_the_reader_and_the_rest_does(loop, provider_a):
    provider_a.script(events(*[f"word {n}" for n in range(12)], "stop", "four", delay=0.03))
    sifted: list[bytes] = []

    def sift(data: bytes) -> bool:
        if b"stop" in data:
            return False
        sifted.append(data)
        return True

    async def work(c):
        response = await send(c, chat(provider_a.url))
        woken: list[bytes] = []
        while data := await response.chunk(sift if b"stop" not in b"".join(woken) else None):
            woken.append(data)
        return woken

    woken = native(work, loop)
    assert sifted and b"stop" in b"".join(woken) and b"four" in b"".join(woken)
    # What came while nobody waited yet is read as ever; nothing is read twice, nothing is lost.
    assert sorted(b"".join(sifted + woken).split(b"\n\n")) == sorted(
        [*(b"data: word %d" % n for n in range(12)), b"data: stop", b"data: four", b""]
    )


def test_the_end_of_a_body_always_wakes_its_reader(loop, provider_a):
    provider_a.script(events("one", "two", delay=0.02))
    sifted: list[bytes] = []

    async def work(c):
        response = await send(c, chat(provider_a.url))
        rest = b""
        while data := await response.chunk(lambda piece: not sifted.append(piece)):
            rest += data
        return rest

    rest = native(work, loop)
    assert b"one" in b"".join(sifted) + rest and b"two" in b"".join(sifted) + rest


def test_a_reader_that_does_not_wait_is_not_passed_by(loop, provider_a):
    provider_a.script(events("one", "two", "three", delay=0.02))
    sifted: list[bytes] = []

    async def work(c):
        response = await send(c, chat(provider_a.url))
        first = await response.chunk(lambda piece: bool(sifted.append(piece)))
        await asyncio.sleep(0.2)  # everything arrives while nobody waits
        before = len(sifted)
        rest = b""
        while data := await response.chunk(lambda piece: bool(sifted.append(piece))):
            rest += data
        return first, before, rest

    first, before, rest = native(work, loop)
    assert before <= 1
    assert b"one" in first and b"three" in first + rest


def test_silence_ends_a_sifted_stream_at_its_moved_deadline(loop, provider_a):
    provider_a.script(stall_after(3))

    async def work(c):
        response = await send(c, chat(provider_a.url))
        now = asyncio.get_running_loop().time

        def sift(data: bytes) -> bool:
            response.deadline(now() + 0.1)
            return True

        response.deadline(now() + 5)
        with pytest.raises(UpstreamError) as caught:
            while await response.chunk(sift):
                response.deadline(now() + 0.1)
        return caught.value.kind

    assert native(work, loop) is FaultKind.BODY_TIMEOUT
