"""Heads that come again: what is read by comparison is what the parser would have read."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelhotel.ops import repeat
from modelhotel.ops.cycle import DIRECT
from modelhotel.ops.protocol import MISSES
from tests.shell.test_cycle import _body, _connected, _start, _turn

HEADERS = [(b"host", b"x"), (b"content-length", b"5"), (b"authorization", b"Bearer k")]
HEAD = b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nAuthorization: Bearer k\r\n\r\n"


def _head(length: bytes, path: bytes = b"/v1/chat", *more: bytes) -> bytes:
    lines = [b"POST %b HTTP/1.1" % path, b"Host: x", b"Content-Length: %b" % length, *more, b"Authorization: Bearer k"]
    return b"\r\n".join((*lines, b"", b""))


def test_a_head_is_read_again_with_another_length():
    known = repeat.learn(HEAD + b"hello", HEADERS)
    assert known is not None
    assert known.read(_head(b"12") + b"hello") == ([HEADERS[0], (b"content-length", b"12"), HEADERS[2]], 12, b"hello")
    assert known.read(_head(b"0")) == ([HEADERS[0], (b"content-length", b"0"), HEADERS[2]], 0, b"")
    assert HEADERS[1] == (b"content-length", b"5")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD[:-1],
        _head(b"5", b"/v1/other"),
        _head(b"5", b"/v1/chat", b"X: y"),
        _head(b""),
        _head(b"+5"),
        _head(b"5 "),
        _head(b" 5"),
        _head(b"0x5"),
        _head(b"5, 5"),
        _head(b"12345678901"),
        _head(b"\xb2"),
        HEAD.lower(),
        HEAD.replace(b"\r\n", b"\n"),
        HEAD.replace(b"Bearer k", b"Bearer l"),
        HEAD + b"hello!",
        HEAD + b"hello" + HEAD,
    ],
)
def test_what_is_not_that_head_alone_is_the_parsers(data: bytes):
    known = repeat.learn(HEAD + b"hello", HEADERS)
    assert known is not None and known.read(data) is None


SMUGGLED = b"POST / HTTP/1.1\nHost: x\nContent-Length: 30\n\n\r\nContent-Length: 30\r\nX: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (HEAD[:-2], HEADERS),
        (HEAD, HEADERS[:2]),
        (HEAD, [*HEADERS, (b"x", b"y")]),
        (HEAD, [HEADERS[0], (b"content-length", b"6"), HEADERS[2]]),
        (HEAD, [HEADERS[0], HEADERS[0], HEADERS[2]]),
        (HEAD, [*HEADERS[:2], (b"content-length", b"5")]),
        (HEAD, [*HEADERS[:2], (b"transfer-encoding", b"chunked")]),
        (HEAD, [*HEADERS[:2], (b"expect", b"100-continue")]),
        (HEAD, [*HEADERS[:2], (b"upgrade", b"h2c")]),
        (HEAD.replace(b"Bearer k", b"k" * repeat.LONGEST), HEADERS),
        (b"\r\n" + HEAD, HEADERS),
        (SMUGGLED, [(b"host", b"x"), (b"content-length", b"30")]),
        (SMUGGLED, [(b"host", b"x"), (b"content-length", b"30"), (b"x", b"1")]),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", [(b"host", b"x")]),
    ],
)
def test_what_teaches_nothing(data: bytes, headers: list[tuple[bytes, bytes]]):
    assert repeat.learn(data, headers) is None


class _Server:
    """What an application got from one connection, request by request."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, Any], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        seen = {name: value for name, value in scope.items() if name != "extensions"}
        assert scope["extensions"][DIRECT].scope is scope
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            body += message["body"]
            if not message["more_body"]:
                break
        self.got.append((seen, body))
        await send(_start((b"content-length", b"2")))
        await send(_body(b"ok"))


async def _exchange(
    pieces: list[bytes], *, learning: bool
) -> tuple[list[tuple[dict[str, Any], bytes]], list[bytes], int]:
    server = _Server()
    connection, wire = _connected(server)
    if not learning:
        connection._learn = lambda data: None  # type: ignore[method-assign]
    for piece in pieces:
        if not wire.closed:
            connection.data_received(piece)
        await _turn(5)
    return server.got, wire.writes, connection._heads


def _both(pieces: list[bytes]) -> tuple[int, int]:
    """How many heads were parsed (with and without learning), after both served the same."""
    learned, plain = (asyncio.run(_exchange(pieces, learning=learning)) for learning in (True, False))
    assert learned[:2] == plain[:2]
    return learned[2], plain[2]


def _request(body: bytes, *more: bytes) -> bytes:
    return _head(b"%d" % len(body), b"/v1/chat", *more) + body


def test_from_the_third_request_of_a_connection_on_heads_are_not_parsed():
    assert _both([_request(b"x" * n) for n in (1, 22, 333, 4444, 0, 5)]) == (2, 6)


def test_a_body_may_come_in_pieces_behind_its_head():
    pieces = [
        _request(b"a"),
        _request(b"b"),
        _head(b"10"),
        b"01234",
        b"56",
        b"789",
        _head(b"3"),
        b"abc",
        _request(b"z"),
    ]
    assert _both(pieces) == (2, 5)


def test_what_comes_behind_the_body_is_the_next_request():
    end = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    assert _both([_request(b"a"), _request(b"b"), _head(b"4"), b"0123" + end, _request(b"c"), _request(b"d")]) == (4, 6)


def test_after_another_head_the_parser_reads_on():
    other = _request(b"b", b"X-Other: 1")
    assert _both([_request(b"a"), _request(b"a"), other, _request(b"a"), other, other, other]) == (5, 7)


def test_a_connection_whose_heads_differ_is_not_learned_from_for_long():
    """As of a proxy that asks for many clients."""
    mixed = [_request(b"a", b"X-Client: %d" % n) for n in range(2 + MISSES)]
    same = _request(b"a", b"X-Client: x")
    assert _both([*mixed, same, same, same]) == (5 + MISSES, 5 + MISSES)
    assert _both([*mixed[:-2], same, same, same]) == (1 + MISSES, 3 + MISSES)


def test_a_head_that_ends_the_connection_is_not_learned():
    closing = _request(b"x", b"Connection: close")
    assert _both([_request(b"a"), closing, closing]) == (2, 2)


def test_the_next_heads_headers_are_not_taken_for_those_before():
    """Two requests in one piece, the second of which has not said all it wants to say."""
    cut = b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
    rest = b"Authorization: Bearer k\r\n\r\nc"
    assert _both([_request(b"a"), _request(b"b") + cut, rest, _request(b"d"), _request(b"e")])[1] == 5


def test_what_a_head_was_learned_for_ends_with_the_next_request():
    """One that waits for a 100 comes in between, its beginning behind the request that was learned."""
    waits = _request(b"w", b"Expect: 100-continue")
    for cut in (4, 60, len(waits) - 1):
        assert (
            _both([_request(b"a"), _request(b"b") + waits[:cut], waits[cut:], _request(b"c"), _request(b"d")])[1] == 5
        )


def test_a_client_that_leaves_within_a_body_is_gone():
    async def run() -> list[str]:
        told: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            message = {"more_body": True, "type": ""}
            while message["type"] != "http.disconnect" and message["more_body"]:
                message = await receive()
            told.append(message["type"])
            if message["type"] == "http.request":
                await send(_start((b"content-length", b"0")))
                await send(_body(b""))

        connection, _ = _connected(app)
        for piece in (_request(b"a"), _request(b"b"), _head(b"9"), b"1234"):
            connection.data_received(piece)
            await _turn(5)
        connection.connection_lost(None)
        await _turn(5)
        return told

    assert asyncio.run(run()) == ["http.request", "http.request", "http.disconnect"]


BODIES = st.one_of(
    st.binary(max_size=40), st.sampled_from([HEAD, HEAD + b"hello", b"\r\n\r\n", b"Content-Length: 5\r\n"])
)
MORE = st.sampled_from([(), (), (), (b"X: 1",), (b"Connection: close",), (b"Expect: 100-continue",)])


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    wire = b""
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["post", "post", "post", "get", "chunked", "bad"]))
        if kind == "post":
            wire += _request(draw(BODIES), *draw(MORE))
        elif kind == "get":
            wire += b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
        elif kind == "chunked":
            wire += b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        else:
            wire += draw(st.sampled_from([b"PO", b"\r\n", b"NO\r\n\r\n", _head(b"+1"), _head(b"-1") + b"x"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(wire)), max_size=6)))
    at = draw(st.booleans())
    pieces = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True) if a != b]
    if at:  # as a client sends: heads and bodies apart
        pieces = [part for piece in pieces for part in _apart(piece)]
    return pieces


def _apart(piece: bytes) -> list[bytes]:
    parts = piece.replace(b"\r\n\r\n", b"\r\n\r\n\0").split(b"\0")
    return [part for part in parts if part]


@given(conversations())
def test_a_connection_that_learns_serves_what_one_that_parses_serves(pieces: list[bytes]):
    _both(pieces)
