"""The native client against httpx: the same bytes of a server must mean the same to both.

Every case is one scripted answer on a path of its own; both clients ask for all of them over real sockets.
"""

import asyncio
import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from providers.upstream.httpx_client import HttpxClient
from providers.upstream.interface import FaultKind, Request, UpstreamError
from providers.upstream.native import NativeClient
from tests.upstream.rig import FixedResolver, run, send
from tests.upstream.server import Behaviour, FakeProvider, Wire, raw

AT_ONCE = 24
SMALL = b'{"ok":true}'
BIG = bytes(range(256)) * 300


def chunked(body: bytes, size: int, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return framed + b"0\r\n" + trailer + b"\r\n"


def whole(status: int, headers: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %d Reason Phrase\r\n%b\r\n%b" % (status, headers, body)


def framings(body: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """(name, framing header, framed body)"""
    yield "length", b"Content-Length: %d\r\n" % len(body), body
    for size in (1, 7) if len(body) < 100 else (999, 70_000):
        yield f"chunked by {size}", b"Transfer-Encoding: chunked\r\n", chunked(body, size)
    size = 5 if len(body) < 100 else 4096
    yield "extensions", b"transfer-encoding: Chunked\r\n", chunked(body, size, b";a=b")
    yield "trailer", b"Transfer-Encoding: chunked\r\n", chunked(body, size, trailer=b"X-Sum: 1\r\nY: 2\r\n")
    yield "to the end", b"", body


def answers() -> Iterator[tuple[str, bytes]]:
    """Whole answers, good ones."""
    extra = b"Content-Type: application/json\r\nX-Two: a\r\nX-Two: b\r\nX-Empty:\r\nX-Blanks:  a b \r\n"
    for status, body, keep in itertools.product((200, 201, 302, 404, 429, 503), (b"", b"x", SMALL, BIG), (0, 1)):
        for name, header, framed in framings(body):
            close = b"" if keep else b"Connection: close\r\n"
            yield f"{status} {len(body)} {name} {keep}", whole(status, extra + header + close, framed)
    for status in (204, 304):
        yield f"{status}", whole(status, b"ETag: x\r\n", b"")
        yield f"{status} with length", whole(status, b"Content-Length: 5\r\n", b"")
    plain = whole(200, b"Content-Length: 2\r\n", b"ok")
    yield "100", whole(100, b"", b"") + plain
    yield "103 twice", whole(103, b"Link: a\r\n", b"") * 2 + plain
    yield "http/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"
    yield "http/1.0 to the end", b"HTTP/1.0 200 OK\r\n\r\nok"
    yield "no reason", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"
    yield "more than promised", whole(200, b"Content-Length: 2\r\n", b"okay")
    yield "second answer", plain + plain
    yield "large head", whole(200, b"X: " + b"h" * 60_000 + b"\r\nContent-Length: 2\r\n", b"ok")


def broken() -> Iterator[tuple[str, bytes]]:
    """Answers that end too early, at every byte, and what is no HTTP."""
    for name, header, framed in framings(SMALL):
        data = whole(200, header + b"X: 1\r\n", framed)
        for cut in range(len(data)):
            yield f"{name} cut at {cut}", data[:cut]
    yield "huge head", whole(200, b"X: " + b"h" * 300_000 + b"\r\nContent-Length: 2\r\n", b"ok")
    yield "endless head", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 50_000
    yield "garbage", b"\x00\x01\x02\x03\r\n\r\n"
    yield "text", b"hello, who is there?\r\n\r\n"
    yield "smtp", b"220 mail.example ESMTP\r\n\r\n"
    yield "tls alert", b"\x15\x03\x03\x00\x02\x02\x28\r\n\r\n"
    yield "bad version", b"HTTPS/1.1 200 OK\r\n\r\n"
    yield "bad status", b"HTTP/1.1 abc OK\r\n\r\n"
    yield "bad length", whole(200, b"Content-Length: two\r\n", b"ok")
    yield "two lengths", whole(200, b"Content-Length: 2\r\nContent-Length: 3\r\n", b"oka")
    yield "bad chunk size", whole(200, b"Transfer-Encoding: chunked\r\n", b"zz\r\nok\r\n0\r\n\r\n")
    yield "bad chunk end", whole(200, b"Transfer-Encoding: chunked\r\n", b"2\r\nokXX0\r\n\r\n")
    yield "header without colon", whole(200, b"Nonsense\r\nContent-Length: 2\r\n", b"ok")
    yield "request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def fresh(client: Any, request: Request) -> Any:
    """Ask again as callers do where a pooled connection turns out to be closed behind the client's back."""
    while True:
        try:
            return await send(client, request, seconds=10)
        except UpstreamError as problem:
            if problem.kind is not FaultKind.RESET or problem.dial_ms > 0:
                raise


async def outcome(client: Any, url: str, method: str = "POST") -> tuple[Any, ...]:
    """Everything a caller can see: status, headers, body; or the kind of the fault and what came before it."""
    got = b""
    response = None
    request = Request(method, url, [], b"{}" if method == "POST" else b"")
    try:
        response = await fresh(client, request)
        while data := await response.chunk():
            got += data
    except UpstreamError as problem:
        seen = (response.status, exposed(response)) if response else ()
        return (problem.kind, problem.request_written, *seen, got)
    finally:
        if response:
            response.close()
    return (response.status, exposed(response), got)


def exposed(response: Any) -> list[tuple[bytes, bytes]]:
    """The headers; h11 lower-cases the coding, which nobody reads."""
    return [(k, v.lower() if k == b"transfer-encoding" else v) for k, v in response.headers]


def compare(cases: dict[str, Behaviour], method: str = "POST") -> dict[str, tuple[Any, ...]]:
    """Ask both clients for every case and return what they agree on; a disagreement fails."""
    with FakeProvider() as p:
        paths = {f"/v1/{n}": name for n, name in enumerate(cases)}
        for path, name in paths.items():
            p.route(method, path, cases[name])

        async def ask(make: Any) -> dict[str, Any]:
            client = make(FixedResolver())
            gate = asyncio.Semaphore(AT_ONCE)

            async def one(path: str) -> Any:
                async with gate:
                    return await outcome(client, p.origin + path, method)

            try:
                return dict(zip(paths, await asyncio.gather(*map(one, paths)), strict=True))
            finally:
                await client.aclose()

        ours, theirs = run(lambda: ask(NativeClient)), run(lambda: ask(HttpxClient))
    different = {paths[path]: (ours[path], theirs[path]) for path in paths if ours[path] != theirs[path]}
    shown = [f"{k}:\n  native {str(a)[:300]}\n  httpx  {str(b)[:300]}" for k, (a, b) in different.items()]
    assert not different, f"{len(different)} differ\n" + "\n".join(shown[:12])
    return {paths[path]: found for path, found in ours.items()}


def test_good_answers_are_the_same():
    cases = dict(answers())
    found = compare({name: raw(data) for name, data in cases.items()})
    assert len(found) > 250 and all(isinstance(result[0], int) for result in found.values())
    assert found["200 11 chunked by 7 1"][2] == SMALL


def test_broken_answers_break_the_same_way():
    cases = dict(broken())
    found = compare({name: raw(data) for name, data in cases.items()})
    assert len(found) > 300
    assert {str(result[0]) for result in found.values()} == {"reset", "protocol", "200"}


@pytest.mark.parametrize("framing", range(3), ids=["length", "chunked", "to the end"])
def test_an_answer_split_at_any_byte_is_the_same_answer(framing):
    _, header, framed = list(framings(SMALL))[(0, 2, -1)[framing]]
    data = whole(200, b"X-A: 1\r\n" + header, framed)

    def split(at: int) -> Behaviour:
        async def behave(wire: Wire) -> None:
            await wire.write(data[:at])
            await asyncio.sleep(0.002)
            await wire.write(data[at:])
            wire.close_after = True

        return behave

    found = compare({str(at): split(at) for at in range(1, len(data))})
    assert {str(result) for result in found.values()} == {str(found["1"])} and found["1"][2] == SMALL


def test_answers_to_head_and_get_are_the_same():
    cases = {name: raw(data) for name, data in itertools.islice(answers(), 60)}
    heads = {name: raw(data.split(b"\r\n\r\n")[0] + b"\r\n\r\n") for name, data in itertools.islice(answers(), 60)}
    assert all(result[2] == b"" for result in compare(heads, "HEAD").values())
    compare(cases, "GET")


def test_resets_are_the_same():
    def cut(data: bytes) -> Behaviour:
        async def behave(wire: Wire) -> None:
            await wire.write(data)
            await asyncio.sleep(0.1)
            wire.reset()

        return behave

    head = whole(200, b"Content-Length: 9\r\n", b"")
    found = compare({str(n): cut(data) for n, data in enumerate((head, head + b"abc", head[:20], head + b"x" * 9))})
    assert [str(result[0]) for result in found.values()] == ["reset", "reset", "reset", "200"]


@pytest.mark.parametrize("seed", range(4))
def test_mangled_answers_never_hang_and_never_leak(seed):
    """Random bytes changed, lost and doubled: the parsers may disagree, but there is an answer or a fault."""
    chance = random.Random(seed)
    samples = [data for _, data in answers() if len(data) < 2000]
    cases = {}
    for n in range(150):
        data = bytearray(chance.choice(samples))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            change = chance.randrange(3)
            if change == 0:
                data[at] = chance.randrange(256)
            elif change == 1:
                del data[at : at + chance.randint(1, 8)]
            else:
                data[at:at] = data[at : at + chance.randint(1, 8)]
            data = data or bytearray(b"x")
        cases[str(n)] = bytes(data)
    with FakeProvider() as p:
        for name, data in cases.items():
            p.route("POST", f"/{name}", raw(data))

        async def ask() -> list[Any]:
            client = NativeClient(FixedResolver())
            try:
                found = [await outcome(client, f"{p.origin}/{name}") for name in cases]
                assert len(client._pool.live) == len(client._pool.resting)
                return found
            finally:
                await client.aclose()

        found = run(ask)
    assert all(str(result[0]) in ("reset", "protocol") or isinstance(result[0], int) for result in found)
    assert any(result[0] == 200 for result in found)
