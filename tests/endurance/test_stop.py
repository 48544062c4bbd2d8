"""A stop while streams run: they finish, or end properly when the time is over, and every row is written."""

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from modelhotel.ops import serving
from requestlogs.recorder import INTERRUPTED
from tests.endurance.load import Clients, Reply
from tests.endurance.rows import rows, times
from tests.upstream.server import Wire, delta, http_chunk, sse, stream
from tests.wire.house import GROUP, House, house
from tests.wire.product import REDIS, Product, fresh_postgres

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

STREAMS = 20
#: About two seconds: shorter than what a stop grants.
SHORT = stream([f"{n} " for n in range(40)], delay=0.05)
#: A minute: longer.
LONG = stream([f"{n} " for n in range(600)], delay=0.1)
WORDS = "".join(f"{n} " for n in range(40))
ONE, SEVERAL = "one process on SQLite", "two workers on PostgreSQL and Redis"
several = pytest.param(SEVERAL, marks=[pytest.mark.postgres, pytest.mark.redis])


@contextmanager
def running(kind: str, path: Path) -> Iterator[tuple[House, dict[str, object]]]:
    """The house, and what starts the product once more on the same data."""
    with ExitStack() as stack:
        if kind == ONE:
            yield stack.enter_context(house(path)), {}
            return
        url = stack.enter_context(fresh_postgres())
        env = {"DATABASE_URL": url, "REDIS_URL": REDIS, "MASTER_KEY": "m" * 40, "ADMIN_TOKEN": "t0ken"}
        yield stack.enter_context(house(path, env, args=("--workers", "2"))), {"env": env}


def begin(home: House, clients: Clients, behaviour, count: int = STREAMS):
    home.a.script(behaviour)
    return clients.begin(count, home.product.url, home.key, model=GROUP).flowing()


def states(home: House, again: dict[str, object], path: Path, replies: list[Reply]) -> list[tuple[object, ...]]:
    """What the log of the next start says of each request."""
    with Product(path, **{"token": home.product.token, **again}) as product:
        written = rows(product)
    assert set(times(written).values()) == {1}
    found = {row["request_hash"]: row for row in written}
    told = [found[reply.id] for reply in replies]
    return [(row["state"], row["status_code"], row["error_kind"], row["error_message"]) for row in told]


@pytest.mark.parametrize("kind", [ONE, several])
def test_streams_that_run_finish_and_new_calls_are_refused(kind: str, tmp_path: Path):
    """operations 76."""
    with running(kind, tmp_path) as (home, again), Clients() as clients:
        streams = begin(home, clients, SHORT)
        home.product.process.send_signal(signal.SIGTERM)
        home.product.wait_for_output("serve: stopping")
        refused = []
        while home.product.process.poll() is None:
            with contextlib.suppress(httpx.TransportError):  # at the end of the drain the socket is closed
                answer = httpx.get(f"{home.product.url}/v1/models", headers=home.http.headers, verify=False)
                refused.append((answer.status_code, answer.text))
        assert home.product.exit_code() == 0
        replies = streams.done()
        assert [(reply.whole, reply.text) for reply in replies] == [(True, WORDS)] * STREAMS
        # Whoever asked before the workers had begun to drain was served.
        drained = [text for code, text in refused if code == 503]
        assert drained
        assert all('"message":"DRAINING"' in text for text in drained)
        assert {code for code, _ in refused} <= {200, 503}
        assert states(home, again, tmp_path, replies) == [("completed", 200, None, None)] * STREAMS


@pytest.mark.parametrize("kind", [ONE, several])
def test_a_stream_without_end_is_cut_with_an_error_frame_and_a_marked_row(kind: str, tmp_path: Path):
    """operations 77."""
    with running(kind, tmp_path) as (home, again), Clients() as clients:
        streams = begin(home, clients, LONG)
        began = time.monotonic()
        home.product.process.send_signal(signal.SIGTERM)
        assert home.product.exit_code() == 0
        assert serving.STREAMS - 1 < time.monotonic() - began < serving.DRAIN + 20
        replies = streams.done()
        for reply in replies:
            assert (reply.status, reply.error) == (200, "")
            assert '"error":' in reply.events[-1]
            assert [event for event in reply.events if '"error":' in event or event == "[DONE]"] == [reply.events[-1]]
        assert states(home, again, tmp_path, replies) == [("failed", 0, "internal", INTERRUPTED)] * STREAMS


@pytest.mark.parametrize("kind", [ONE, several])
def test_a_second_signal_ends_at_once_and_the_next_start_marks_the_rows(kind: str, tmp_path: Path):
    """operations 17."""
    with running(kind, tmp_path) as (home, again), Clients() as clients:
        streams = begin(home, clients, LONG)
        time.sleep(0.6)  # the rows of what runs are written every 200 ms
        home.product.process.send_signal(signal.SIGTERM)
        home.product.wait_for_output("serve: stopping")
        began = time.monotonic()
        assert home.product.stop(signal.SIGTERM, 5) == serving.SECOND_SIGNAL
        assert time.monotonic() - began < serving.STREAMS - 2
        replies = streams.done()
        ended = [reply.events[-1] for reply in replies if not reply.error]
        assert ended == [], f"{time.monotonic() - began:.1f} s after the second signal"
        assert states(home, again, tmp_path, replies) == [("failed", None, "internal", INTERRUPTED)] * STREAMS


async def endless(wire: Wire) -> None:
    """A stream as fast as it is taken."""
    piece = http_chunk(sse(delta(content="x" * 60_000)))
    await wire.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        await wire.write(piece)
        await asyncio.sleep(0)


def test_a_client_that_reads_nothing_does_not_hold_the_stop_up(tmp_path: Path):
    with house(tmp_path) as home, contextlib.ExitStack() as stack:
        home.a.script(endless)
        body = json.dumps({"model": GROUP, "stream": True, "messages": []})
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {home.key}\r\n"
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", urlsplit(home.product.url).port))
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        home.a.wait_calls(3)
        time.sleep(1.5)  # until every buffer between the provider and the clients is full
        assert not any(call.done for call in home.a.calls)
        began = time.monotonic()
        assert home.product.stop(seconds=serving.BUDGET) == 0
        assert time.monotonic() - began < serving.DRAIN + 20
        with Product(tmp_path, token=home.product.token) as product:
            found = rows(product)
    told = [(row["state"], row["status_code"], row["error_kind"], row["error_message"]) for row in found]
    assert told == [("failed", 0, "internal", INTERRUPTED)] * 3
