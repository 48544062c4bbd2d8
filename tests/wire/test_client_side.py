"""What clients put on the wire besides well-formed requests: the server answers, or refuses in a bounded way."""

import contextlib
import json
import socket
import time

import pytest

from tests.upstream.spoken import PROMPT
from tests.wire.house import GROUP

HELLO = {"model": GROUP, "messages": [{"role": "user", "content": PROMPT}]}
OFFER = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQ"]


def request(home, body: bytes, *fields: str, key: str = "", version: str = "1.1", sized: bool = True) -> bytes:
    lines = [f"POST /v1/chat/completions HTTP/{version}", "Host: hotel", f"Authorization: Bearer {key or home.key}"]
    lines += [*fields, *([f"Content-Length: {len(body)}"] if sized else [])]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def hello() -> bytes:
    return json.dumps(HELLO).encode()


def chunked(body: bytes, *trailers: str) -> bytes:
    return b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, "".join(f"{line}\r\n" for line in trailers).encode())


def connect(home) -> socket.socket:
    host, port = home.product.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def talk(home, data: bytes, answers: int = 1, seconds: float = 5.0) -> bytes:
    """Everything that comes back until *answers* status lines with their bodies are there, or the end."""
    found = b""
    with connect(home) as sock, contextlib.suppress(ConnectionError):
        with contextlib.suppress(ConnectionError):
            sock.sendall(data)
        deadline = time.monotonic() + seconds
        while found.count(b"HTTP/1.1 ") < answers or not found.endswith((b"}", b"0\r\n\r\n", b"large", b"received.")):
            sock.settimeout(max(deadline - time.monotonic(), 0.01))
            piece = sock.recv(65536)
            if not piece:
                break
            found += piece
    return found


def statuses(found: bytes) -> list[int]:
    return [int(part[:3]) for part in found.split(b"HTTP/1.1 ")[1:]]


def test_requests_of_one_connection_are_answered_in_turn(home):
    found = talk(home, request(home, hello()) * 3, answers=3)
    assert statuses(found) == [200, 200, 200]


def test_an_unread_body_does_not_spoil_the_next_request(home):
    """The refused body is read past, and the connection goes on."""
    large = request(home, b" " * 60_000_000)
    assert statuses(talk(home, large + request(home, hello()), answers=2)) == [413, 200]


@pytest.mark.parametrize("trailer", ["Authorization: Bearer sk-wrong", "X-Request-Id: late"])
def test_a_trailer_is_no_header(home, trailer):
    sent = request(home, b"", "Transfer-Encoding: chunked", sized=False) + chunked(hello(), trailer)
    found = talk(home, sent + request(home, hello()), answers=2)
    assert statuses(found) == [200, 200]
    assert b"x-request-id: late" not in found


@pytest.mark.parametrize("size", [70_000, 250_000, 5_000_000])
def test_a_head_without_end_is_refused_before_it_costs_anything(home, size):
    assert statuses(talk(home, request(home, hello(), "X-Long: " + "a" * size))) == [431]
    assert home.ask().status_code == 200


def test_blank_lines_without_end_are_refused(home):
    assert statuses(talk(home, b"\r\n" * 100_000)) == [431]


def test_a_head_of_ordinary_size_passes(home):
    assert statuses(talk(home, request(home, hello(), "X-Long: " + "a" * 60_000))) == [200]


def test_an_offer_of_http_2_is_passed_over_and_costs_no_body(home):
    """Java's HTTP client offers h2c with its first request on a plain connection."""
    found = talk(home, request(home, hello(), *OFFER) + request(home, hello()), answers=2)
    assert statuses(found) == [200, 200]
    assert [call.json["messages"] for call in home.a.calls] == [HELLO["messages"]] * 2


def test_the_body_may_follow_the_offer_later(home):
    head, _, body = request(home, hello(), *OFFER).partition(b"\r\n\r\n")
    with connect(home) as sock:
        sock.sendall(head + b"\r\n\r\n")
        time.sleep(0.1)
        sock.sendall(body)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")


def test_an_offer_with_a_chunked_body_is_passed_over_too(home):
    sent = request(home, b"", "Transfer-Encoding: chunked", *OFFER, sized=False) + chunked(hello())
    assert statuses(talk(home, sent + request(home, hello()), answers=2)) == [200, 200]


def test_nobody_is_tunnelled(home):
    assert statuses(talk(home, b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n")) == [400]


@pytest.mark.parametrize("fields", [["Transfer-Encoding: chunked"], ["Content-Length: 5"]])
def test_two_lengths_are_refused(home, fields):
    assert statuses(talk(home, request(home, hello(), *fields))) == [400]
    assert home.a.calls == []


def test_a_client_may_wait_before_it_sends_its_body(home):
    head, _, body = request(home, hello(), "Expect: 100-continue").partition(b"\r\n\r\n")
    with connect(home) as sock:
        sock.sendall(head + b"\r\n\r\n")
        assert sock.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(body)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    wrong = request(home, hello(), "Expect: 100-continue", key="sk-wrong").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    assert statuses(talk(home, wrong)) == [401]


@pytest.mark.parametrize("size", [1, 5_000_000])
def test_who_is_refused_while_sending_may_finish_and_read_why(home, size):
    """part of v1-api 5"""
    head, _, body = request(home, b" " * size, key="sk-wrong").partition(b"\r\n\r\n")
    with connect(home) as sock:
        sock.sendall(head + b"\r\n\r\n")
        time.sleep(0.1)
        sock.sendall(body)
        found = sock.recv(65536)
        assert statuses(found) == [401] and b"connection: close" in found
        assert sock.recv(65536) == b""


def test_an_old_client_is_answered_and_let_go(home):
    found = talk(home, request(home, hello(), version="1.0"))
    assert statuses(found) == [200] and b"connection: close" in found
