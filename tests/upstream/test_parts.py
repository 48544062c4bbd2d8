"""The small parts under the clients: URLs, headers, proxies of the environment, the race of addresses."""

import asyncio
import socket
import ssl

import pytest

from providers.upstream.dial import connect_first, dial_fault, interleave
from providers.upstream.interface import FaultKind, Steady, UpstreamError
from providers.upstream.proxies import Proxies, Proxy
from providers.upstream.target import encode_headers, parse
from tests.upstream.rig import open_files, run
from tests.upstream.server import FakeProvider, Unreachable


@pytest.mark.parametrize(
    ("url", "opening", "origin"),
    [
        ("http://a.test/v1/x", "GET /v1/x HTTP/1.1\r\nHost: a.test\r\n", ("http", "a.test", 80)),
        ("https://A.Test", "GET / HTTP/1.1\r\nHost: a.test\r\n", ("https", "a.test", 443)),
        ("https://a.test:443/x", "GET /x HTTP/1.1\r\nHost: a.test\r\n", ("https", "a.test", 443)),
        ("https://a.test:84/x?b=c%20d&e", "GET /x?b=c%20d&e HTTP/1.1\r\nHost: a.test:84\r\n", ("https", "a.test", 84)),
        ("http://[::1]:9/x#frag", "GET /x HTTP/1.1\r\nHost: [::1]:9\r\n", ("http", "::1", 9)),
        ("http://bü.test/ü", "GET /%C3%BC HTTP/1.1\r\nHost: xn--b-eha.test\r\n", ("http", "xn--b-eha.test", 80)),
        ("http://a.test./v1", "GET /v1 HTTP/1.1\r\nHost: a.test\r\n", ("http", "a.test", 80)),
    ],
)  # fmt: skip
def test_a_url_becomes_a_request_line_and_an_origin(url, opening, origin):
    target = parse(url)
    assert target.opening("GET") == opening.encode() + b"Accept-Encoding: identity\r\n"
    assert target.origin == origin


def test_a_request_to_a_proxy_names_the_whole_url():
    line = parse("http://a.test:81/v1?x=1").opening("POST", absolute=True)
    assert line.startswith(b"POST http://a.test:81/v1?x=1 HTTP/1.1\r\nHost: a.test:81\r\n")


@pytest.mark.parametrize("url", ["", "a.test", "file:///etc/passwd", "http://", "http://u:p@a.test", "http://a .test"])
def test_other_urls_are_refused(url):
    with pytest.raises(ValueError):
        parse(url)


def test_header_lines_can_not_be_broken_out_of():
    assert encode_headers([(b"A", b"1"), (b"B", b"")]) == b"A: 1\r\nB: \r\n"
    for name, value in ((b"A", b"x\r\nB: y"), (b"A", b"x\n"), (b"A\r", b"x"), (b"A", b"x\0")):
        with pytest.raises(ValueError):
            encode_headers([(name, value)])


def test_steady_headers_are_written_as_any_others_each_time():
    headers = Steady(((b"A", b"1"), (b"B", b"")))
    assert [encode_headers(headers) for _ in range(2)] == [b"A: 1\r\nB: \r\n"] * 2
    broken = Steady(((b"A", b"x\n"),))
    for _ in range(2):
        with pytest.raises(ValueError):
            encode_headers(broken)


def test_proxies_are_read_from_either_case_and_no_proxy_wins():
    proxies = Proxies(
        {"HTTPS_PROXY": "http://proxy.test:3128", "http_proxy": "proxy2.test", "NO_PROXY": "inside.test,10.0.0.1"}
    )
    assert proxies.of("https", "api.test", 443) == Proxy("proxy.test", 3128)
    assert proxies.of("http", "api.test", 80) == Proxy("proxy2.test", 80)
    assert proxies.of("https", "inside.test", 443) is None and proxies.of("https", "a.inside.test", 443) is None
    assert proxies.of("http", "10.0.0.1", 80) is None
    assert Proxies({}).of("http", "api.test", 80) is None and not Proxies().active
    assert Proxies({"HTTP_PROXY": "http://p", "no_proxy": "*"}).of("http", "api.test", 80) is None


def test_a_proxy_of_another_kind_is_an_error_and_not_a_direct_way():
    with pytest.raises(UpstreamError) as refused:
        Proxies({"HTTPS_PROXY": "socks5://user:secret@p:1"}).of("https", "api.test", 443)
    assert refused.value.kind is FaultKind.REFUSED and "secret" not in str(refused.value)


def test_address_families_take_turns():
    six, four = socket.AF_INET6, socket.AF_INET
    given = [(six, "a"), (six, "b"), (six, "c"), (four, "d"), (four, "e")]
    assert interleave(given) == [(six, "a"), (four, "d"), (six, "b"), (four, "e"), (six, "c")]
    assert interleave([]) == []


def test_a_slow_address_is_overtaken_by_the_next():
    with Unreachable() as hole, FakeProvider() as p:

        async def work():
            before = open_files()
            loop = asyncio.get_running_loop()
            start = loop.time()
            ways = [(socket.AF_INET, ("127.0.0.1", hole.port)), (socket.AF_INET, ("127.0.0.1", p.port))]
            with await connect_first(ways) as sock:
                assert sock.getpeername()[1] == p.port
            assert 0.2 < loop.time() - start < 3
            await asyncio.sleep(0)
            return open_files() - before

        # The server's end may still be open in this process; the overtaken socket may not.
        assert run(work) <= 1


def test_the_first_error_is_told_when_every_address_fails():
    with FakeProvider() as a, FakeProvider() as b:
        a.refuse()
        b.refuse()
        ways = [(socket.AF_INET, ("127.0.0.1", port)) for port in (a.port, b.port)]
        with pytest.raises(ConnectionRefusedError):
            run(lambda: connect_first(ways))


@pytest.mark.parametrize(
    ("problem", "handshake", "kind", "text"),
    [
        (ConnectionRefusedError(), False, FaultKind.REFUSED, "h:1: connection refused"),
        (OSError(113, "No route to host"), False, FaultKind.REFUSED, "h:1: connect failed EHOSTUNREACH"),
        (TimeoutError(110, "timed out"), False, FaultKind.DIAL_TIMEOUT, "h:1: connect timed out"),
        (ssl.SSLError("boom"), True, FaultKind.TLS, "h:1: TLS handshake failed"),
        (ConnectionResetError(), True, FaultKind.TLS, "h:1: TLS handshake failed"),
    ],
)
def test_dial_errors_are_mapped_once(problem, handshake, kind, text):
    assert dial_fault(problem, "h:1", handshake=handshake) == (kind, text)
