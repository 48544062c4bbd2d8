"""The way back to the client, and learning that it left."""

import asyncio
import time

import pytest

from modelhotel.core import options
from proxy.endpoints import CHAT
from proxy.exchange import WATCH_AFTER, Exchange, header_text
from proxy.keys import KeyRow
from requestlogs.draft import Draft
from tests.proxy.asgi import client


def exchange_of(sender, **given):
    sender.scope.update(given)
    sender.taken = len(sender.pieces)  # the body was read
    key = KeyRow("id", "app", "hash", None, False, None, False)
    base = [(b"x-request-id", b"r1")]
    return Exchange(
        sender.scope,
        sender.receive,
        sender.send,
        draft=Draft("chat"),
        opts=options.current(),
        key=key,
        headers=base,
        endpoint=CHAT,
    )


@pytest.fixture
def sender():
    return client("POST", "/v1/chat/completions")


async def test_a_whole_answer_goes_out_with_its_length(sender):
    exchange = exchange_of(sender)
    await exchange.answer(201, b'{"a":1}')
    answer = sender.answer
    assert (answer.status, answer.body, answer.complete, exchange.committed) == (201, b'{"a":1}', True, True)
    assert answer.header("content-type") == "application/json"
    assert (answer.header("content-length"), answer.header("x-request-id")) == ("7", "r1")


@pytest.mark.parametrize("status", [204, 205])
async def test_some_successes_have_no_body(sender, status):
    await exchange_of(sender).answer(status, b"ignored")
    assert (sender.answer.status, sender.answer.body, sender.answer.complete) == (status, b"", True)
    assert sender.answer.header("content-type") is None
    assert sender.answer.header("content-length") is None


async def test_a_stream_is_never_buffered_and_never_sized(sender):
    exchange = exchange_of(sender)
    await exchange.start_stream()
    assert exchange.streaming
    await exchange.write(b"data: 1\n\n")
    assert sender.answer.pieces == [b"data: 1\n\n"]
    await exchange.end()
    answer = sender.answer
    assert not exchange.streaming
    assert answer.complete
    assert answer.header("content-type") == "text/event-stream"
    assert (answer.header("cache-control"), answer.header("x-accel-buffering")) == ("no-cache", "no")
    assert answer.header("connection") == "keep-alive"
    assert answer.header("content-length") is None


@pytest.mark.parametrize("version", ["1.0", "2"])
async def test_keep_alive_is_a_word_of_http_1_1(sender, version):
    await exchange_of(sender, http_version=version).start_stream()
    assert sender.answer.header("connection") is None


async def test_the_answer_names_who_answered_last_and_how_many_were_asked(sender):
    """v1-api 69c"""
    exchange = exchange_of(sender)
    exchange.contact("A", "m1")
    exchange.contact("B", "z-ai/m2")
    exchange.contact("B", "z-ai/m2")
    await exchange.answer(200, b"{}")
    answer = sender.answer
    assert answer.header("x-modelhotel-provider") == "B"
    assert answer.header("x-modelhotel-model") == "z-ai/m2"
    assert answer.header("x-modelhotel-attempts") == "2"
    assert float(answer.header("x-modelhotel-overhead-ms")) == pytest.approx(exchange.overhead_ms, abs=0.001)


async def test_the_overhead_ends_when_the_first_candidate_is_asked(sender):
    exchange = exchange_of(sender)
    exchange.contact("A", "m")
    first = exchange.overhead_ms
    await asyncio.sleep(0.01)
    exchange.contact("B", "m")
    assert exchange.overhead_ms == first


@pytest.mark.parametrize(
    ("text", "value"),
    [("My Box", b"My Box"), ("Größe", b"Gr%C3%B6%C3%9Fe"), ("a\r\nb", b"a%0D%0Ab"), ("50%", b"50%25")],
)
def test_a_name_is_safe_as_a_header_value(text, value):
    assert header_text(text) == value


async def watched(sender, work):
    """Run *work(exchange)* under the watch, as the application does."""
    exchange = exchange_of(sender)
    exchange.watch()
    try:
        await work(exchange)
    finally:
        exchange.unwatch()
    return exchange


async def test_a_client_that_leaves_cancels_the_work_at_once(sender):
    moments = []

    async def work(exchange):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            moments.append(time.monotonic())
            assert exchange.gone
            asyncio.current_task().uncancel()

    started = time.monotonic()
    asyncio.get_running_loop().call_later(0.1, sender.left.set)
    exchange = await watched(sender, work)
    assert exchange.gone
    assert 0.09 < moments[0] - started < 5.0


async def test_a_client_that_left_early_is_noticed_when_the_watch_begins(sender):
    async def work(exchange):
        sender.left.set()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(10)
        asyncio.current_task().uncancel()

    started = time.monotonic()
    assert (await watched(sender, work)).gone
    assert WATCH_AFTER <= time.monotonic() - started < 5.0


async def test_a_handler_is_told_instead_of_the_task_being_cancelled(sender):
    told = asyncio.Event()

    async def work(exchange):
        exchange.on_gone = told.set
        sender.left.set()
        async with asyncio.timeout(5):
            await told.wait()

    assert (await watched(sender, work)).gone


async def test_a_fast_answer_never_waits_in_receive(sender, monkeypatch):
    async def receive():
        raise AssertionError("receive was called")

    sender.receive = receive

    async def work(exchange):
        await exchange.answer(200, b"{}")

    exchange = await watched(sender, work)
    await asyncio.sleep(WATCH_AFTER * 2)
    assert not exchange.gone


async def test_the_end_of_an_answer_is_not_taken_for_a_client_that_left(sender):
    async def work(exchange):
        await asyncio.sleep(WATCH_AFTER * 2)
        await exchange.answer(200, b"{}")
        await asyncio.sleep(0.05)

    assert not (await watched(sender, work)).gone
    assert len(asyncio.all_tasks()) == 1


async def test_nothing_is_left_behind_by_a_watch_that_ends(sender):
    async def work(exchange):
        await asyncio.sleep(WATCH_AFTER * 2)

    exchange = await watched(sender, work)
    exchange.unwatch()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1
    sender.left.set()
    await asyncio.sleep(0)
    assert not exchange.gone
