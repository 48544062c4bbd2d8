"""A connection whose client does not go on is ended; one that waits for us, or rests, is not."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from modelhotel.ops.protocol import Connection
from tests.shell.test_cycle import _body, _connected, _start, _turn

HEAD = b"POST /v1/chat HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\n\r\n"
SLOW = b"HTTP/1.1 408 Request Timeout\r\n"


async def _app(scope: Any, receive: Any, send: Any) -> None:
    message: dict[str, Any] = {"type": "", "more_body": True}
    while message["type"] != "http.disconnect" and message["more_body"]:
        message = await receive()
    if message["type"] == "http.request":
        await send(_start((b"content-length", b"2")))
        await send(_body(b"ok"))


async def _busy(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and is not done."""
    await receive()
    await asyncio.Event().wait()


async def _early(scope: Any, receive: Any, send: Any) -> None:
    """Answers before the body is there, and goes on."""
    await send(_start())
    await send({"type": "http.response.body", "body": b"x", "more_body": True})
    await asyncio.Event().wait()


def _outcome(pieces: Sequence[bytes | None], app: Any = _app) -> tuple[bool, bytes]:
    """(*closed*, *what was written*). A None among *pieces* is a look of the connection's clock."""

    async def run() -> tuple[bool, bytes]:
        connection, wire = _connected(app)
        assert isinstance(connection, Connection)
        for piece in pieces:
            if piece is None:
                connection._watch()
            else:
                connection.data_received(piece)
            await _turn(5)
        if connection._look is not None:
            connection._look.cancel()
        return wire.closed, b"".join(wire.writes)

    return asyncio.run(run())


@pytest.mark.parametrize("before", [[], [HEAD + b"abcd"], [HEAD + b"abcd"] * 3])
@pytest.mark.parametrize("part", [HEAD[:3], HEAD[:-2], HEAD + b"ab"])
def test_a_request_that_does_not_go_on_is_ended(before: list[bytes], part: bytes):
    assert _outcome([*before, None, part, None])[0] is False
    closed, written = _outcome([*before, None, part, None, None])
    assert closed and written.count(SLOW) == 1 and written.count(b"ok") == len(before)


def test_a_head_that_drips_is_ended_too():
    closed, written = _outcome([HEAD[:3], None, HEAD[3:9], None])
    assert closed and written.startswith(SLOW)


def test_a_body_that_comes_slowly_is_waited_for():
    closed, written = _outcome([HEAD, None, b"a", None, b"b", None, b"c", None, b"d", None])
    assert not closed and written.endswith(b"ok")


def test_a_connection_on_which_nothing_ever_came_is_closed_without_a_word():
    assert _outcome([None, None]) == (True, b"")


@pytest.mark.parametrize(
    ("pieces", "app"),
    [
        ([HEAD + b"abcd"], _app),
        ([HEAD + b"abcd", HEAD + b"abcd", HEAD + b"abcd"], _app),
        ([HEAD + b"abcd"], _busy),
        ([HEAD + b"abcd" + HEAD[:9]], _busy),
        ([HEAD + b"abcd" + HEAD], _busy),
        ([HEAD], _early),
    ],
)
def test_whoever_waits_for_us_or_rests_is_left_alone(pieces: list[bytes], app: Any):
    closed, written = _outcome([*pieces, None, None, None, None], app)
    assert not closed and SLOW not in written
