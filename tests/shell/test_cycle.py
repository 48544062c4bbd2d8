"""Answers on the wire: one write for a head with its body, streams at once, the rules uvicorn holds too."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from modelhotel.ops import protocol
from modelhotel.ops.cycle import DIRECT
from modelhotel.ops.protocol import PIPELINE, PIPELINE_MOST, Connection
from proxy import exchange

App = Callable[[Any, Any, Any], Awaitable[None]]


def _start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def _body(data: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


class Wire(asyncio.Transport):
    """A transport that keeps what is written, one entry per write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def writelines(self, pieces: Any) -> None:
        self.writes.append(b"".join(pieces))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.writes.append(b"EOF")

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def _connected(app: App, keep_alive: float = 75) -> tuple[Connection, Wire]:
    config = uvicorn.Config(app, log_config=None, server_header=False, date_header=False, lifespan="off")
    config.load()
    config.timeout_keep_alive = keep_alive  # type: ignore[assignment]
    state = uvicorn.server.ServerState()
    wire = Wire()
    connection = Connection(config=config, server_state=state, app_state={}, _loop=asyncio.get_running_loop())
    connection.connection_made(wire)
    return connection, wire


async def _turn(turns: int = 20) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def _served(app: App, *requests: bytes, turns: int = 20, keep_alive: float = 75) -> tuple[Connection, Wire]:
    connection, wire = _connected(app, keep_alive)
    for request in requests:
        connection.data_received(request)
    await _turn(turns)
    return connection, wire


GET = b"GET /v1/models?a=b%20c HTTP/1.1\r\nHost: x\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"


def _answers(*messages: dict[str, Any]) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


def test_a_head_with_a_length_is_written_together_with_its_body():
    app = _answers(_start((b"content-length", b"2"), (b"content-type", b"text/plain")), _body(b"ok"))
    _, wire = asyncio.run(_served(app, GET))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok"]
    assert not wire.closed


def test_a_large_body_is_one_write_too():
    body = b"x" * 100_000
    _, wire = asyncio.run(_served(_answers(_start((b"content-length", b"100000")), _body(body)), GET))
    assert len(wire.writes) == 1
    assert wire.writes[0].endswith(body)


def test_the_head_of_a_stream_does_not_wait_for_its_first_chunk():
    seen: list[list[bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start())
        await asyncio.sleep(0)
        seen.append(list(wire_of[0].writes))
        await send(_body(b"one", more=True))
        await send(_body(b""))

    wire_of: list[Wire] = []

    async def run() -> Wire:
        connection, wire = _connected(app)
        wire_of.append(wire)
        connection.data_received(GET)
        await _turn()
        return wire

    wire = asyncio.run(run())
    assert seen == [[b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]]
    assert wire.writes[1:] == [b"3\r\none\r\n", b"0\r\n\r\n"]


def test_a_first_chunk_that_comes_at_once_goes_with_its_head():
    _, wire = asyncio.run(_served(_answers(_start(), _body(b"one", more=True), _body(b"")), GET))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n", b"0\r\n\r\n"]


def test_head_gets_no_body_and_keeps_the_length():
    _, wire = asyncio.run(_served(_answers(_start((b"content-length", b"5")), _body(b"12345")), HEAD))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"]


def test_204_has_neither_length_nor_body():
    _, wire = asyncio.run(_served(_answers(_start(status=204), _body(b"")), GET))
    assert wire.writes == [b"HTTP/1.1 204 No Content\r\n\r\n"]


def test_close_ends_the_connection():
    app = _answers(_start((b"connection", b"close"), (b"content-length", b"0")), _body(b""))
    _, wire = asyncio.run(_served(app, GET))
    assert wire.closed
    old = b"GET / HTTP/1.0\r\n\r\n"
    _, wire = asyncio.run(_served(_answers(_start((b"content-length", b"0")), _body(b"")), old))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"]
    assert wire.closed


@pytest.mark.parametrize(
    "pair", [(b"x-bad", b"a\r\nset-cookie: b"), (b"x bad", b"a"), (b"content-type", b"text/plain\n")]
)
def test_a_header_that_would_break_out_of_its_line_is_a_500(pair):
    _, wire = asyncio.run(_served(_answers(_start(pair, (b"content-length", b"0")), _body(b"")), GET))
    assert wire.writes[0].startswith(b"HTTP/1.1 500 ")
    assert b"set-cookie" not in wire.writes[0]


@pytest.mark.parametrize(
    "messages",
    [
        (_start((b"content-length", b"5")), _body(b"123")),
        (_start((b"content-length", b"1")), _body(b"123")),
    ],
    ids=["shorter", "longer"],
)
def test_a_body_of_another_length_ends_the_connection(messages):
    _, wire = asyncio.run(_served(_answers(*messages), GET))
    assert wire.closed


def test_an_answer_that_stops_before_its_body_sends_nothing():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start((b"content-length", b"5")))
        raise ValueError

    _, wire = asyncio.run(_served(app, GET))
    assert wire.writes == []
    assert wire.closed


def test_messages_out_of_order_are_errors():
    problems: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in (_body(b""), _start((b"content-length", b"0")), _start(), _body(b""), _body(b"")):
            try:
                await send(message)
            except RuntimeError as problem:
                problems.append(str(problem))

    asyncio.run(_served(app, GET))
    assert len(problems) == 3


def test_pipelined_requests_are_answered_in_order():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"].encode()
        if path == b"/a":
            await asyncio.sleep(0.01)
        await send(_start((b"content-length", b"2")))
        await send(_body(path))

    async def run() -> Wire:
        _, wire = await _served(app, b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.05)
        return wire

    wire = asyncio.run(run())
    assert [write[-2:] for write in wire.writes] == [b"/a", b"/b"]


def test_a_request_body_in_pieces_and_its_scope():
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message["body"]
            more = message["more_body"]
        got.extend((scope["method"], scope["path"], scope["raw_path"], scope["query_string"], body))
        await send(_start((b"content-length", b"0")))
        await send(_body(b""))

    head = b"POST /a%20b?q=1 HTTP/1.1\r\nContent-Length: 6\r\n\r\n"
    asyncio.run(_served(app, head + b"abc", b"def"))
    assert got == ["POST", "/a b", b"/a%20b", b"q=1", b"abcdef"]


def test_a_connection_rests_only_so_long():
    async def run(rest: float) -> bool:
        app = _answers(_start((b"content-length", b"0")), _body(b""))
        connection, wire = await _served(app, GET, keep_alive=0.05)
        await asyncio.sleep(0.03)
        connection.data_received(GET)  # the clock starts anew with this answer's end
        await asyncio.sleep(rest)
        return wire.closed

    assert not asyncio.run(run(0.03))
    assert asyncio.run(run(0.2))


def test_a_request_in_hand_is_no_rest():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/slow":
            await asyncio.sleep(0.1)
        await send(_start((b"content-length", b"0")))
        await send(_body(b""))

    async def run() -> tuple[int, bool]:
        connection, wire = await _served(app, GET, keep_alive=0.03)
        connection.data_received(b"GET /slow HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(30):
            while len(wire.writes) < 2:
                await asyncio.sleep(0.001)
        return len(wire.writes), wire.closed

    assert asyncio.run(run()) == (2, False)


def test_a_piece_of_a_running_stream_can_be_written_in_the_turn_it_came():
    ready: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        direct = scope["extensions"][DIRECT]
        ready.append(direct.ready())
        await send(_start())
        ready.append(direct.ready())  # the head is not out yet
        await send(_body(b"one", more=True))
        ready.append(direct.ready())
        direct.write_now(b"two!")
        connection_of[0].flow.pause_writing()
        ready.append(direct.ready())  # the client does not read
        connection_of[0].flow.resume_writing()
        await send(_body(b""))
        ready.append(direct.ready())

    connection_of: list[Connection] = []

    async def run() -> Wire:
        connection, wire = _connected(app)
        connection_of.append(connection)
        connection.data_received(GET)
        await _turn()
        return wire

    wire = asyncio.run(run())
    assert ready == [False, False, True, False, False]
    assert wire.writes[1:] == [b"4\r\ntwo!\r\n", b"0\r\n\r\n"]
    assert exchange.DIRECT == DIRECT


def test_a_body_of_known_length_is_no_running_stream():
    ready: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start((b"content-length", b"4")))
        await send(_body(b"ab", more=True))
        ready.append(scope["extensions"][DIRECT].ready())
        await send(_body(b"cd"))

    asyncio.run(_served(app, GET))
    assert ready == [False]


OLD = b"GET / HTTP/1.0\r\n\r\n"


def test_http_1_0_gets_no_chunks_and_the_end_of_the_connection_ends_the_body():
    _, wire = asyncio.run(_served(_answers(_start(), _body(b"one", more=True), _body(b"two")), OLD))
    assert b"".join(wire.writes) == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nonetwo"
    assert wire.closed


def test_a_head_that_was_refused_says_nothing_about_the_500():
    messages = _start((b"content-length", b"9"), (b"x-bad", b"a\nb")), _body(b"123456789")
    _, wire = asyncio.run(_served(_answers(*messages), GET))
    assert wire.writes[0].startswith(b"HTTP/1.1 500 ")
    assert wire.writes[0].endswith(b"\r\n\r\nInternal Server Error")
    assert wire.closed


def _seen(first: list[bytes], told: list[str], *messages: dict[str, Any]) -> App:
    """Sends *messages* for the first path, then waits for its client's end; notes the paths it was asked for."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        first.append(scope["raw_path"])
        for message in messages:
            await send(message)
        while (await receive())["type"] != "http.disconnect":
            pass
        told.append(scope["path"])

    return app


GARBAGE = b"\x00\x01 nonsense\r\n\r\n"


@pytest.mark.parametrize("messages", [(), (_start(), _body(b"one", more=True))], ids=["not begun", "running"])
def test_garbage_behind_a_request_cuts_its_answer_and_writes_nothing_into_it(messages):
    told: list[str] = []

    async def run() -> Wire:
        connection, wire = await _served(_seen([], told, *messages), GET)
        connection.data_received(GARBAGE)
        for _ in range(5):
            await asyncio.sleep(0)
        return wire

    wire = asyncio.run(run())
    assert b"400" not in b"".join(wire.writes)
    assert wire.closed
    assert told == ["/v1/models"]


def test_a_request_whose_own_body_is_no_http_is_told_so():
    told: list[str] = []
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def run() -> Wire:
        connection, wire = await _served(_seen([], told), head)
        connection.data_received(b"zz\r\n")
        for _ in range(5):
            await asyncio.sleep(0)
        return wire

    wire = asyncio.run(run())
    assert wire.writes[0].startswith(b"HTTP/1.1 400 ")
    assert told == ["/"]


def test_a_running_request_learns_that_its_client_left_though_another_one_waits_behind_it():
    paths: list[bytes] = []
    told: list[str] = []

    async def run() -> None:
        connection, _ = await _served(_seen(paths, told), GET, GET.replace(b"models", b"other"))
        connection.connection_lost(None)
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(run())
    assert told == ["/v1/models"]
    assert paths == [b"/v1/models"]


def test_few_requests_wait_behind_a_slow_one_and_a_flood_ends_the_connection():
    paths: list[bytes] = []

    async def run(count: int) -> tuple[bool, bool]:
        connection, wire = await _served(_seen(paths, []), GET)
        connection.data_received(GET * count)
        return connection.flow.read_paused, wire.closed

    assert asyncio.run(run(PIPELINE - 1)) == (False, False)
    assert asyncio.run(run(PIPELINE)) == (True, False)
    assert asyncio.run(run(PIPELINE_MOST + 1))[1]
    assert set(paths) == {b"/v1/models"}
    assert len(paths) == 3


def test_requests_that_waited_are_read_on_only_when_few_are_left():
    gate = asyncio.Event()
    paused: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await gate.wait()
        paused.append(connection_of[0].flow.read_paused)
        await send(_start((b"content-length", b"0")))
        await send(_body(b""))

    connection_of: list[Connection] = []

    async def run() -> None:
        connection, _ = await _served(app, GET)
        connection_of.append(connection)
        connection.data_received(GET * (PIPELINE + 2))
        gate.set()
        for _ in range(200):
            await asyncio.sleep(0)

    asyncio.run(run())
    assert paused == [True] * 3 + [False] * PIPELINE


def test_nothing_is_written_to_a_connection_that_is_closing():
    ready: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(_start())
        await send(_body(b"one", more=True))
        connection_of[0].transport.close()  # the word of its end comes a turn later
        ready.append(scope["extensions"][DIRECT].ready())
        await send(_body(b"two"))

    connection_of: list[Connection] = []

    async def run() -> Wire:
        connection, wire = await _served(app, GET, turns=0)
        connection_of.append(connection)
        for _ in range(5):
            await asyncio.sleep(0)
        return wire

    wire = asyncio.run(run())
    assert ready == [False]
    assert b"two" not in b"".join(wire.writes)


def test_an_answered_request_is_gone_without_the_collector():
    cycles: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        cycles.append(weakref.ref(scope["extensions"][DIRECT]))
        await send(_start((b"content-length", b"2")))
        await send(_body(b"ok"))

    async def run() -> None:
        gc.disable()
        try:
            connection, _ = await _served(app, GET, turns=50)
            connection.data_received(GET)  # the connection keeps the last one
            await _turn(50)
            assert [ref() is None for ref in cycles] == [True, False]
        finally:
            gc.enable()

    asyncio.run(run())


def test_a_whole_answer_can_be_given_in_one_call():
    told: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        direct = scope["extensions"][DIRECT]
        told.append(direct.whole(200, [(b"x-a", b"1")], b"ok"))
        told.append(direct.whole(200, [(b"x-a", b"1")], b"no"))

    _, wire = asyncio.run(_served(app, GET))
    assert told == [True, False]
    assert wire.writes == [b"HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nok"]


@pytest.mark.parametrize(
    ("request_head", "status"),
    [(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n", 200), (GET, 204), (GET, 304)],
    ids=["HEAD", "204", "304"],
)
def test_no_whole_answer_where_there_is_no_body(request_head: bytes, status: int):
    told: list[bool] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        told.append(scope["extensions"][DIRECT].whole(status, [], b""))

    _, wire = asyncio.run(_served(app, request_head))
    assert told == [False]
    assert wire.writes[0].startswith(b"HTTP/1.1 500 "), "the application answered nothing"


@pytest.mark.parametrize("name", [b"content-length", b"Transfer-Encoding", b"connection"])
def test_a_whole_answer_is_framed_by_the_server(name: bytes):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(RuntimeError, match="framed by the server"):
            scope["extensions"][DIRECT].whole(200, [(name, b"2")], b"ok")
        assert scope["extensions"][DIRECT].whole(200, [(b"x-a", b"1")], b"ok")

    _, wire = asyncio.run(_served(app, GET))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\nx-a: 1\r\ncontent-length: 2\r\n\r\nok"]


def test_a_whole_answer_on_the_last_request_of_a_connection_says_so():
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["extensions"][DIRECT].whole(200, [], b"o" * 20_000)

    _, wire = asyncio.run(_served(app, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    assert b"".join(wire.writes) == (
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 20000\r\n\r\n" + b"o" * 20_000
    )


def test_no_whole_answer_to_who_does_not_read_or_is_gone():
    told: list[bool] = []

    async def run() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            direct = scope["extensions"][DIRECT]
            connection.flow.pause_writing()
            told.append(direct.whole(200, [(b"x-a", b"1")], b"ok"))
            connection.flow.resume_writing()
            wire.close()
            told.append(direct.whole(200, [(b"x-a", b"1")], b"ok"))

        connection, wire = _connected(app)
        connection.data_received(GET)
        await _turn()
        assert wire.writes == []

    asyncio.run(run())
    assert told == [False, False]


@pytest.mark.parametrize("cut", [None, 3], ids=["at once", "in pieces"])
def test_receive_gives_the_body_once_and_then_waits_for_the_end(cut):
    got: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        got.append(await receive())
        waiting = asyncio.ensure_future(receive())
        await asyncio.sleep(0)
        got.append(waiting.done())
        await send(_start((b"content-length", b"0")))
        await send(_body(b""))
        got.append(await waiting)

    head = b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"
    asyncio.run(_served(app, *((head + b"abc",) if cut is None else (head, b"abc"))))
    whole = {"type": "http.request", "body": b"abc", "more_body": False}
    assert got == [whole, False, {"type": "http.disconnect"}]


def test_behind_a_last_answer_the_body_is_read_past_and_nothing_else_is_served(monkeypatch):
    monkeypatch.setattr(protocol, "LINGER_SECONDS", 0.03)
    app = _answers(_start((b"connection", b"close"), (b"content-length", b"2"), status=401), _body(b"no"))

    async def work() -> tuple[list[bytes], bool, bool]:
        connection, wire = await _served(app, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
        for data in (b"ab", b"c" + GET, b"\0 no request"):
            connection.data_received(data)
            await _turn()
        before = wire.closed
        await asyncio.sleep(0.05)
        return wire.writes, before, wire.closed

    writes, before, behind = asyncio.run(work())
    assert writes == [b"HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno", b"EOF"]
    assert (before, behind) == (False, True)
