"""What both clients promise (providers/upstream/interface.py), over real sockets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from providers.upstream.interface import FaultKind, Request, UpstreamError
from providers.upstream.proxies import Proxies
from tests.upstream import rig
from tests.upstream.rig import CLIENTS, FixedResolver, chat, fault, fetch, run, send
from tests.upstream.server import (
    FakeProvider,
    Unreachable,
    after,
    answer,
    cut_after,
    gzip,
    hang_up,
    headers_then_silence,
    pieces,
    raw,
    redirect,
    reply,
    reset,
    silence,
    stall_after,
    status,
    stream,
    wrong_length,
)

PAIRS = [("native", "asyncio"), ("native", "uvloop"), ("httpx", "asyncio"), ("httpx", "uvloop")]


@pytest.fixture(params=PAIRS, ids=lambda pair: "-".join(pair))
def client(request):
    """Runs ``work(client)`` with each client on each loop; fails when a connection or task is left."""
    kind, loop = request.param

    def go(work: Any, resolver: Any = None, **options: Any) -> Any:
        async def whole() -> Any:
            made = CLIENTS[kind](resolver or FixedResolver(), **options)
            try:
                return await work(made)
            finally:
                await made.aclose()
                await rig.nothing_runs()

        return run(whole, loop)

    go.kind = kind
    return go


def test_exactly_the_given_headers_are_sent(client, provider_a):
    async def work(c):
        await fetch(c, chat(provider_a.url + "/x?q=1 ".strip(), authorization="Bearer sk-1", Content_Type="a/b"))

    client(lambda c: fetch(c, Request("POST", provider_a.url + "/chat/completions?q=1", [(b"X-A", b"1")], b"{}")))
    client(lambda c: fetch(c, Request("GET", provider_a.url + "/models", [(b"Accept", b"a/b")])))
    client(lambda c: fetch(c, Request("POST", provider_a.url + "/chat/completions", [])))
    post, get, empty = provider_a.requests
    host = f"127.0.0.1:{provider_a.port}"
    assert post.headers == {"host": host, "content-length": "2", "accept-encoding": "identity", "x-a": "1"}
    assert post.target == "/v1/chat/completions?q=1" and post.body == b"{}"
    assert get.headers == {"host": host, "accept-encoding": "identity", "accept": "a/b"}
    assert empty.headers["content-length"] == "0"


def test_a_second_request_reuses_the_connection_and_dials_nothing(client, provider_a):
    async def work(c):
        first = await send(c, chat(provider_a.url))
        await first.read(1 << 20)
        second = await send(c, chat(provider_a.url))
        await second.read(1 << 20)
        return first.dial_ms, second.dial_ms

    first, second = client(work)
    assert first > 0 and second == 0 and provider_a.accepted == 1


def test_what_was_taken_as_chunks_does_not_count_against_the_limit_of_the_rest(client, provider_a):
    provider_a.script(stream(["x" * 6000, "y" * 6000]))

    async def work(c):
        response = await send(c, chat(provider_a.url, b'{"stream":true}'))
        taken = b""
        while b"[DONE]" not in taken:
            taken += await response.chunk()
        rest = await response.read(64)
        second = await send(c, chat(provider_a.url))
        await second.read(1 << 20)
        return len(taken) > 12_000, rest, second.dial_ms

    assert client(work) == (True, b"", 0) and provider_a.accepted == 1


def test_an_answer_that_was_not_read_to_its_end_costs_its_connection(client, provider_a):
    provider_a.script(stall_after(1), answer("x"))

    async def work(c):
        response = await send(c, chat(provider_a.url))
        assert b"tok0" in await response.chunk()
        response.close()
        response.close()
        assert await response.chunk() == b""
        assert (await fetch(c, chat(provider_a.url)))[0] == 200

    client(work)
    provider_a.wait_disconnects(1)
    assert provider_a.accepted == 2


def test_chunks_arrive_while_the_stream_goes_on(client, provider_a):
    provider_a.script(stream(["a", "b", "c"], delay=0.05))

    async def work(c):
        response = await send(c, chat(provider_a.url, b'{"stream":true}'))
        assert response.header(b"content-type") == b"text/event-stream" and response.header(b"nope") is None
        got = []
        while data := await response.chunk():
            got.append(data)
        assert await response.chunk() == b""
        return got

    got = client(work)
    assert len(got) > 3 and b"".join(got).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (reset(), FaultKind.RESET),
        (reset(before_headers=False), FaultKind.RESET),
        (hang_up(), FaultKind.RESET),
        (cut_after(2), FaultKind.RESET),
        (wrong_length(5), FaultKind.RESET),
        (raw(b"HTTP/1.1 200 OK\r\nContent-"), FaultKind.RESET),
        (raw(b"garbage\r\n\r\n"), FaultKind.PROTOCOL),
        (raw(b"\x16\x03\x01 not http at all"), FaultKind.PROTOCOL),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), FaultKind.PROTOCOL),
        (raw(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000), FaultKind.PROTOCOL),
    ],
    ids=range(10),
)
def test_a_broken_exchange_says_how_it_broke(client, provider_a, step, kind):
    provider_a.script(step)
    problem = client(lambda c: fault(c, chat(provider_a.url)))
    assert problem.kind is kind and problem.request_written


def test_what_arrived_before_the_break_is_handed_over_first(client, provider_a):
    provider_a.script(cut_after(2))

    async def work(c):
        problem = await fault(c, chat(provider_a.url))
        response = await send(c, chat(provider_a.url))
        got = b""
        with pytest.raises(UpstreamError) as broken:
            while data := await response.chunk():
                got += data
        assert broken.value.kind is FaultKind.RESET
        return problem.partial, got

    partial, got = client(work)
    assert partial == got and b"tok0" in got and b"tok1" in got


def test_a_refused_connect_wrote_nothing(client, provider_a):
    provider_a.refuse()
    problem = client(lambda c: fault(c, chat(provider_a.url)))
    assert problem.kind is FaultKind.REFUSED and not problem.request_written
    assert "connection refused" in str(problem)


def test_a_dial_ends_with_the_deadline(client):
    with Unreachable() as hole:
        problem = client(lambda c: fault(c, chat(hole.url), seconds=0.2))
    assert problem.kind is FaultKind.DIAL_TIMEOUT and not problem.request_written and problem.dial_ms >= 150


@pytest.mark.parametrize("times", [{"header_timeout": 0.15}, {"seconds": 0.15}], ids=["headers", "deadline"])
def test_silence_ends_with_the_header_timeout_or_the_deadline(client, provider_a, times):
    provider_a.script(silence())
    problem = client(lambda c: fault(c, chat(provider_a.url), **times))
    assert problem.kind is FaultKind.HEADER_TIMEOUT and problem.request_written
    provider_a.wait_disconnects(1)


def test_a_silent_body_ends_with_the_deadline(client, provider_a):
    provider_a.script(headers_then_silence())
    problem = client(lambda c: fault(c, chat(provider_a.url), seconds=0.2))
    assert problem.kind is FaultKind.BODY_TIMEOUT
    provider_a.wait_disconnects(1)


def test_the_deadline_of_a_pending_chunk_can_be_moved_both_ways(client, provider_a):
    provider_a.script(stall_after(1, 0.4), stall_after(1))

    async def work(c):
        loop = asyncio.get_running_loop()
        response = await send(c, chat(provider_a.url), seconds=0.2)
        await response.chunk()
        pending = asyncio.ensure_future(response.chunk())
        await asyncio.sleep(0.05)
        response.deadline(None)
        assert b"stop" in await pending
        response.close()
        response = await send(c, chat(provider_a.url))
        await response.chunk()
        pending = asyncio.ensure_future(response.chunk())
        await asyncio.sleep(0.05)
        response.deadline(loop.time() + 0.05)
        start = loop.time()
        with pytest.raises(UpstreamError) as late:
            await pending
        assert late.value.kind is FaultKind.BODY_TIMEOUT and loop.time() - start < 1

    client(work)


def test_a_slow_reader_is_not_a_silent_upstream(client, provider_a):
    provider_a.script(stream(["a"]))

    async def work(c):
        loop = asyncio.get_running_loop()
        response = await send(c, chat(provider_a.url, b'{"stream":true}'))
        response.deadline(loop.time() + 0.05)
        await asyncio.sleep(0.15)
        response.deadline(loop.time() + 5)
        return await response.read(1 << 20)

    assert client(work).endswith(b"[DONE]\n\n")


def test_a_body_over_the_limit_is_cut_and_kept_as_partial(client, provider_a):
    provider_a.script(reply(200, b"x" * 100_000))
    problem = client(lambda c: fault(c, chat(provider_a.url), limit=1000))
    assert problem.kind is FaultKind.TOO_LARGE and problem.partial == b"x" * 1000
    assert client(lambda c: fetch(c, chat(provider_a.url), limit=100_000)) == (200, b"x" * 100_000)


def test_redirects_are_answers_and_bodies_stay_as_they_are(client, provider_a, provider_b):
    provider_a.script(redirect(provider_b.url))
    assert client(lambda c: fetch(c, chat(provider_a.url))) == (302, b"")
    assert provider_b.requests == []
    provider_a.script(gzip())
    assert client(lambda c: fetch(c, chat(provider_a.url)))[1][:2] == b"\x1f\x8b"


def test_interim_answers_are_skipped(client, provider_a):
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    provider_a.script(raw(early + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", close=False))

    async def work(c):
        response = await send(c, chat(provider_a.url))
        assert (response.status, response.header(b"link")) == (200, None)
        assert await response.read(10) == b"ok"
        await fetch(c, chat(provider_a.url))

    client(work)
    assert provider_a.accepted == 1


def test_head_no_content_and_not_modified_have_no_body(client, provider_a):
    provider_a.route("HEAD", "/v1/x", raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", close=False))
    assert client(lambda c: fetch(c, Request("HEAD", provider_a.url + "/x", []))) == (200, b"")
    for code in (204, 304):
        provider_a.script(raw(b"HTTP/1.1 %d X\r\n\r\n" % code, close=False))

        async def work(c):
            return [await fetch(c, chat(provider_a.url)) for _ in range(2)]

        before = provider_a.accepted
        assert client(work) == [(code, b"")] * 2 and provider_a.accepted == before + 1


@pytest.mark.parametrize(
    "request_",
    [
        Request("POST", "http://127.0.0.1:1/", [(b"X-Key", b"a\r\nX-Other: b")]),
        Request("POST", "http://127.0.0.1:1/", [(b"X-Key\n", b"a")]),
        Request("POST", "http://127.0.0.1:1/", [(b"X-Key", b"a\0b")]),
        Request("GET /x HTTP/1.1\r\n", "http://127.0.0.1:1/", []),
        Request("GET", "http://127.0.0.1:1/a\r\nb", []),
        Request("GET", "ftp://127.0.0.1/", []),
        Request("GET", "/relative", []),
        Request("GET", "http://user:sk-secret@127.0.0.1/", []),
    ],
    ids=range(8),
)
def test_what_can_not_be_written_as_http_is_refused_before_the_dial(client, request_):
    resolver = FixedResolver()

    async def work(c):
        with pytest.raises(ValueError) as refused:
            await send(c, request_)
        return str(refused.value)

    assert "secret" not in client(work, resolver) and resolver.asked == []


def test_error_texts_hold_host_and_port_and_nothing_else_of_the_request(client, provider_a):
    steps = (reset(), raw(b"sk-secret garbage\r\n\r\n"), wrong_length(9), headers_then_silence())
    for step in steps:
        provider_a.script(step)
        request = Request(
            "POST", provider_a.url + "/chat/completions?key=sk-secret", [(b"Authorization", b"Bearer sk-secret")], b"p"
        )
        problem = client(lambda c, request=request: fault(c, request, seconds=0.3))
        assert "secret" not in str(problem) + repr(problem) and str(problem).startswith("127.0.0.1:")


def test_only_the_address_of_the_resolver_is_dialled_and_the_host_header_keeps_the_name(client, provider_a):
    resolver = FixedResolver({"api.example.test": [("127.0.0.1", provider_a.port)]})
    url = "http://api.example.test/v1"
    assert client(lambda c: fetch(c, chat(url)), resolver)[0] == 200
    assert provider_a.calls[0].headers["host"] == "api.example.test" and resolver.asked == [("api.example.test", 80)]


def test_the_next_address_is_tried_when_one_refuses(client, provider_a, provider_b):
    provider_b.refuse()
    names = {"api.example.test": [("127.0.0.1", provider_b.port), ("127.0.0.1", provider_a.port)]}
    assert client(lambda c: fetch(c, chat("http://api.example.test/v1")), FixedResolver(names))[0] == 200
    assert len(provider_a.calls) == 1


def test_what_the_guard_says_is_passed_on(client):
    resolver = FixedResolver({"inside.test": []})
    forbidden = client(lambda c: fault(c, chat("http://inside.test/v1")), resolver)
    unknown = client(lambda c: fault(c, chat("http://unknown.test/v1")), resolver)
    assert (forbidden.kind, forbidden.request_written) == (FaultKind.FORBIDDEN, False)
    assert (unknown.kind, unknown.request_written) == (FaultKind.DNS, False)


def test_a_stale_pooled_connection_is_an_interruption_after_writing(client, provider_a):
    provider_a.script(answer("x"), hang_up(), answer("y"))

    async def work(c):
        await fetch(c, chat(provider_a.url))
        problem = await fault(c, chat(provider_a.url))
        assert (problem.kind, problem.request_written, problem.dial_ms) == (FaultKind.RESET, True, 0)
        assert (await fetch(c, chat(provider_a.url)))[0] == 200

    client(work)


def test_a_connection_the_server_closed_while_it_rested_is_not_used(client, provider_a):
    async def work(c):
        await fetch(c, chat(provider_a.url))
        provider_a.drop_connections()
        await asyncio.sleep(0.05)
        assert (await fetch(c, chat(provider_a.url)))[0] == 200

    client(work)
    assert provider_a.accepted == 2


def test_cancelling_tells_the_upstream_at_once(client, provider_a):
    provider_a.script(silence(), headers_then_silence())

    async def work(c):
        for count in (1, 2):
            task = asyncio.ensure_future(fetch(c, chat(provider_a.url)))
            await provider_a.until(lambda count=count: len(provider_a.calls) == count)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await provider_a.until(lambda count=count: provider_a.disconnects == count)

    client(work)


def test_a_large_body_arrives_whole(client, provider_a):
    body = bytes(range(256)) * 20_000
    client(lambda c: fetch(c, chat(provider_a.url, body)))
    assert provider_a.requests[0].body == body


def test_many_exchanges_at_once_do_not_mix(client, provider_a):
    for n in range(40):
        provider_a.route("POST", f"/v1/{n}", after(0.01 * (n % 5), reply(200, f"answer {n}" * (n + 1))))

    async def work(c):
        async def one(n: int) -> bool:
            request = Request("POST", f"{provider_a.url}/{n}", [], b"x" * n)
            return (await fetch(c, request)) == (200, (f"answer {n}" * (n + 1)).encode())

        return await asyncio.gather(*(one(n % 40) for n in range(120)))

    assert all(client(work))


# ---------------------------------------------------------------- TLS


async def _at_server(c: Any, serve: Any, **times: float) -> UpstreamError:
    """The fault of an https request to a server that does *serve*."""
    writers: list[asyncio.StreamWriter] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        serve(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        return await fault(c, chat(f"https://127.0.0.1:{port}/v1"), **times)
    finally:
        server.close()
        for writer in writers:
            writer.close()


def test_tls_names_and_checks_the_host(client, tmp_path: Path):
    server, trusting = rig.certificate(tmp_path, "api.example.test")
    names: list[str] = []
    server.sni_callback = lambda sock, name, context: names.append(name)
    with FakeProvider(tls=server) as p:
        resolver = FixedResolver({host: [("127.0.0.1", p.port)] for host in ("api.example.test", "other.test")})

        async def work(c):
            assert (await fetch(c, chat("https://api.example.test/v1")))[0] == 200
            assert (await fetch(c, chat("https://api.example.test/v1")))[0] == 200
            return await fault(c, chat("https://other.test/v1"))

        problem = client(work, resolver, tls=trusting)
        assert problem.kind is FaultKind.TLS and not problem.request_written and problem.dial_ms > 0
        assert names == ["api.example.test", "other.test"] and len(p.calls) == 2


def test_an_untrusted_certificate_and_a_server_without_tls_are_tls_faults(client, tmp_path: Path):
    server, _ = rig.certificate(tmp_path, "127.0.0.1")
    with FakeProvider(tls=server) as p:
        problem = client(lambda c: fault(c, chat(p.url)))
        assert problem.kind is FaultKind.TLS and "not trusted" in str(problem) and p.calls == []

    def plain(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    problem = client(lambda c: _at_server(c, plain))
    assert (problem.kind, problem.request_written) == (FaultKind.TLS, False)


def test_a_silent_handshake_ends_with_the_deadline(client):
    problem = client(lambda c: _at_server(c, lambda writer: None, seconds=0.3))
    assert (problem.kind, problem.request_written) == (FaultKind.DIAL_TIMEOUT, False)


# ---------------------------------------------------------------- proxies


def test_a_proxy_of_the_environment_is_used_only_when_trusted(client, provider_a):
    """providers 76"""

    async def work(c):
        async with rig.TunnelProxy() as proxy:
            direct = await fetch(c, chat(provider_a.url))
            raw_env = {"HTTP_PROXY": f"http://user:p%40ss@127.0.0.1:{proxy.port}", "NO_PROXY": "localhost"}
            through = CLIENTS[client.kind](FixedResolver(), proxies=Proxies(raw_env))
            try:
                return direct, await fetch(through, chat("http://api.example.test/v1")), proxy.seen
            finally:
                await through.aclose()

    direct, proxied, seen = client(work)
    assert direct[0] == 200 and len(provider_a.calls) == 1
    assert proxied == (200, b"via proxy") and len(seen) == 1
    assert seen[0].startswith("POST http://api.example.test/v1/chat/completions HTTP/1.1\r\n")
    assert "proxy-authorization: basic dxnlcjpwqhnz\r\n" in seen[0].lower()


def test_https_goes_through_a_tunnel_and_tls_reaches_the_upstream(client, tmp_path: Path):
    """providers 76"""
    server, trusting = rig.certificate(tmp_path, "api.example.test")
    with FakeProvider(tls=server) as p:

        async def work(c):
            async with rig.TunnelProxy() as proxy:
                through = CLIENTS[client.kind](
                    FixedResolver(), proxies=Proxies({"https_proxy": proxy.url}), tls=trusting
                )
                try:
                    url = f"https://api.example.test:{p.port}/v1"
                    return [await fetch(through, chat(url)) for _ in range(2)], proxy.seen
                finally:
                    await through.aclose()

        answers, seen = client(work)
        assert [code for code, _ in answers] == [200, 200] and len(p.calls) == 2 and p.accepted == 1
        assert len(seen) == 1 and seen[0].startswith(f"CONNECT api.example.test:{p.port} HTTP/1.1\r\n")


def test_a_proxy_that_refuses_the_tunnel_is_a_refused_connect(client):
    async def work(c):
        async with rig.TunnelProxy(refuse=407) as proxy:
            through = CLIENTS[client.kind](FixedResolver(), proxies=Proxies({"HTTPS_PROXY": proxy.url}))
            try:
                return await fault(through, chat("https://api.example.test/v1"))
            finally:
                await through.aclose()

    problem = client(work)
    assert problem.kind is FaultKind.REFUSED and not problem.request_written


def test_bytes_one_at_a_time_are_one_answer(client, provider_a):
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nTrailer: t\r\n\r\n"
    provider_a.script(pieces(data, 1, 0.0005, close=False))

    async def work(c):
        return [await fetch(c, chat(provider_a.url)) for _ in range(2)]

    assert client(work) == [(200, b"abcdefg")] * 2 and provider_a.accepted == 1


def test_error_statuses_are_answers(client, provider_a):
    provider_a.script(status(503, "busy", headers={"Retry-After": "3"}))

    async def work(c):
        response = await send(c, chat(provider_a.url))
        return response.status, response.header(b"retry-after"), await response.read(100)

    assert client(work) == (503, b"3", b"busy")
