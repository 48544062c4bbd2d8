"""Several hundred scripted answers, asked of the native client and of httpx: framing, status, head, body, end, reuse.

The clients must agree on status, headers, body, kind of fault, whether the request was written, and on what becomes of
the connection. Where they do not, ``STAYS`` names the case, what each makes of it, and who is right by RFC 9112; a
case that is listed and does not differ fails as well as one that differs and is not listed.
"""

import gzip
from collections.abc import Iterator
from dataclasses import replace

import pytest

from providers.upstream.httpx_client import HttpxClient
from providers.upstream.interface import FaultKind
from providers.upstream.native import NativeClient
from tests.upstream.scripted import End, Script, Seen, ask_all, differences, said, told

LENGTH = b"Content-Length: 2\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
OK = b"2\r\nok\r\n0\r\n\r\n"
HANGS = 1.5  # seconds for an answer that never ends
EDGE = 100 * 1024


def head(status: int = 200, headers: bytes = b"", body: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"HTTP/%b %d Reason\r\n%b\r\n%b" % (version, status, headers, body)


PLAIN = head(200, LENGTH, b"ok")

Cases = Iterator[tuple[str, Script]]


def statuses() -> Cases:
    for status in (200, 201, 204, 205, 206, 299, 301, 304, 400, 404, 413, 429, 500, 503, 599, 600, 999):
        bodyless = status in (204, 304)
        yield f"{status} length 0", said(head(status, b"Content-Length: 0\r\n"))
        yield f"{status} length", said(head(status, LENGTH, b"" if bodyless else b"ok"))
        yield f"{status} chunked", said(head(status, CHUNKED, b"" if bodyless else OK))
        yield f"{status} neither", said(head(status), end=End.OPEN if bodyless else End.EOF)
        yield f"{status} with a body behind", said(head(status, LENGTH, b"okay"), end=End.EOF)
    for status in (100, 101, 102, 103, 199):
        yield f"{status} and the end", said(head(status), end=End.EOF)
        yield f"{status} with a length", said(head(status, LENGTH, b"ok"), end=End.EOF)


def lengths() -> Cases:
    values = (
        b"+2",
        b"-2",
        b" 2",
        b"2 ",
        b"\t2",
        b"02",
        b"0x2",
        b"2.0",
        b"",
        b"2;a",
        b"9" * 23,
        b"2_0",
        b"\xb2",
        b"two",
    )
    for value in values:
        yield f"length {value!r}", said(head(200, b"Content-Length:" + value + b"\r\n", b"ok"), end=End.EOF)
    yield "length twice", said(head(200, LENGTH * 2, b"ok"))
    yield "length as a list", said(head(200, b"Content-Length: 2, 2\r\n", b"ok"))
    yield "two lengths", said(head(200, LENGTH + b"Content-Length: 3\r\n", b"oka"))
    yield "chunked and length", said(head(200, CHUNKED + LENGTH, OK))
    yield "length and chunked", said(head(200, LENGTH + CHUNKED, OK))
    yield "chunked and length and the end", said(head(200, CHUNKED + LENGTH, OK), end=End.EOF)


def codings() -> Cases:
    for value in (b"CHUNKED", b" chunked ", b"\tchunked", b"gzip, chunked", b"chunked, chunked"):
        yield f"coding {value!r}", said(head(200, b"Transfer-Encoding:" + value + b"\r\n", OK))
    for value in (b"gzip", b"identity", b"xchunked", b"chunked, gzip", b"chunked;q=1", b""):
        yield f"coding {value!r}", said(head(200, b"Transfer-Encoding:" + value + b"\r\n", b"ok"), end=End.EOF)
    yield "coding twice", said(head(200, CHUNKED * 2, OK))
    yield "two codings", said(head(200, b"Transfer-Encoding: gzip\r\n" + CHUNKED, OK))
    yield "two codings cut", said(head(200, b"Transfer-Encoding: gzip\r\n" + CHUNKED, b"2\r\nok\r\n"), end=End.EOF)
    packed = gzip.compress(b"ok", mtime=0)
    yield (
        "gzip nobody asked for",
        said(head(200, b"Content-Encoding: gzip\r\nContent-Length: %d\r\n" % len(packed), packed)),
    )


def chunks() -> Cases:
    whole = {
        "extension": b"2;a=b\r\nok\r\n0;c\r\n\r\n",
        "quoted extension": b'2;a="x y"\r\nok\r\n0\r\n\r\n',
        "extension after a blank": b"2 ;a\r\nok\r\n0\r\n\r\n",
        "long extension": b"2;" + b"e" * 30_000 + b"\r\nok\r\n0\r\n\r\n",
        "leading zeros": b"0002\r\nok\r\n000\r\n\r\n",
        "upper case": b"A\r\n0123456789\r\n0\r\n\r\n",
        "no data": b"0\r\n\r\n",
        "one byte each": b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n",
        "trailer": b"2\r\nok\r\n0\r\nX: y\r\nZ: \r\n\r\n",
        "trailer with a coding": b"2\r\nok\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "trailer with a status": b"2\r\nok\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n",
        "trailer with a length": b"2\r\nok\r\n0\r\nContent-Length: 5\r\n\r\n",
        "trailer with close": b"2\r\nok\r\n0\r\nConnection: close\r\n\r\n",
        "blank after the size": b"2 \r\nok\r\n0\r\n\r\n",
    }
    for name, body in whole.items():
        yield f"chunk: {name}", said(head(200, CHUNKED, body))
    broken = {
        "0x": b"0x2\r\nok\r\n0\r\n\r\n",
        "negative": b"-2\r\nok\r\n0\r\n\r\n",
        "no size": b"\r\nok\r\n0\r\n\r\n",
        "no hexadecimal": b"zz\r\nok\r\n0\r\n\r\n",
        "too much data": b"2\r\nokXX0\r\n\r\n",
        "huge size": b"F" * 16 + b"\r\nok\r\n0\r\n\r\n",
        "size over 64 bits": b"F" * 17 + b"\r\nok\r\n0\r\n\r\n",
        "bare LF": b"2\nok\n0\n\n",
        "bare LF after the size": b"2\nok\r\n0\r\n\r\n",
        "bare LF after the data": b"2\r\nok\n0\r\n\r\n",
        "bare LF after a trailer": b"2\r\nok\r\n0\r\nX: y\n\n",
        "bare LF after an extension": b"2;a\nok\r\n0\r\n\r\n",
        "bare CR": b"2\rok\r0\r\r",
        "control in an extension": b"2;a\x01\r\nok\r\n0\r\n\r\n",
        "odd byte in an extension": b"2;\xff\r\nok\r\n0\r\n\r\n",
        "extension without a name": b"2;\r\nok\r\n0\r\n\r\n",
        "trailer that is none": b"2\r\nok\r\n0\r\nnonsense\r\n\r\n",
    }
    for name, body in broken.items():
        yield f"chunk: {name}", said(head(200, CHUNKED, body), end=End.EOF)


def fields() -> Cases:
    lines = {
        "folded": b"X: a\r\n b\r\n",
        "folded with a tab": b"X: a\r\n\tb\r\n",
        "folded first": b" X: a\r\n",
        "bare LF": b"X: a\nY: b\r\n",
        "CR in the value": b"X: a\rb\r\n",
        "CR CR LF": b"X: a\r\r\n",
        "NUL in the value": b"X: a\0b\r\n",
        "latin-1 in the value": b"X: \xe4\xff\r\n",
        "control in the value": b"X: a\x01b\r\n",
        "DEL in the value": b"X: a\x7fb\r\n",
        "tabs": b"X:\ta\tb\t\r\n",
        "blanks behind": b"X: a  \t \r\n",
        "blank before the colon": b"X : a\r\n",
        "no name": b": a\r\n",
        "no colon": b"nonsense\r\n",
        "every letter of a token": b"X-!#$%&'*+.^_`|~9: a\r\n",
        "bracket in the name": b"X(: a\r\n",
        "at sign in the name": b"X@y: a\r\n",
        "latin-1 in the name": b"X\xe4: a\r\n",
        "NUL in the name": b"X\0: a\r\n",
        "long name": b"N" * 5000 + b": a\r\n",
        "empty value": b"X:\r\n",
        "quotes": b'X: "a;b", c\r\n',
        "twice": b"X: 1\r\nx: 2\r\n",
        "cookies": b"Set-Cookie: a\r\nSet-Cookie: b\r\n",
        "upgrade offered": b"Upgrade: h2c\r\n",
        "upgrade and connection": b"Upgrade: h2c\r\nConnection: upgrade\r\n",
        "location": b"Location: http://127.0.0.1:1/\r\n",
        "large": b"X: " + b"v" * 90_000 + b"\r\n",
        "many": b"A: b\r\n" * 3000,
        "proxy-connection": b"Proxy-Connection: close\r\n",
    }
    for name, line in lines.items():
        yield f"field: {name}", said(head(200, line + LENGTH, b"ok"))
    yield "field: folded length", said(head(200, b"Content-Length:\r\n 2\r\n", b"ok"))
    for size in (60_000, 90_000, EDGE - 60, EDGE + 400, EDGE + 60_000, 300_000):
        data = head(200, b"X: " + b"v" * size + b"\r\n" + LENGTH, b"ok")
        yield f"head of {size}", said(data)
        yield f"head of {size} in two", said(data[: size - 5], data[size - 5 :])


def connections() -> Cases:
    values = (b"close", b"keep-alive", b"Close", b"CLOSE", b" close ", b"keep-alive, close", b"close, keep-alive", b"x")
    for value in (*values, b"x, close", b"closed", b"upgrade", b""):
        line = b"Connection:" + value + b"\r\n"
        yield f"connection {value!r}", said(head(200, line + LENGTH, b"ok"))
        yield f"connection {value!r} chunked", said(head(200, line + CHUNKED, OK))
        yield f"connection {value!r} in HTTP/1.0", said(head(200, line + LENGTH, b"ok", b"1.0"))
        yield f"connection {value!r} to the end", said(head(200, line, b"ok"), end=End.EOF)
    yield "connection twice", said(head(200, b"Connection: keep-alive\r\nConnection: close\r\n" + LENGTH, b"ok"))
    yield "HTTP/1.0", said(head(200, LENGTH, b"ok", b"1.0"))
    yield "HTTP/1.0 to the end", said(head(200, b"", b"ok", b"1.0"), end=End.EOF)
    yield "HTTP/1.0 chunked", said(head(200, CHUNKED, OK, b"1.0"), end=End.EOF)
    for version in (b"1.2", b"2.0", b"0.9", b"3", b"1.", b"11.1", b"1.10", b"2"):
        yield f"HTTP/{version.decode()}", said(head(200, LENGTH, b"ok", version))


def first_lines() -> Cases:
    lines = {
        "no reason": b"HTTP/1.1 200 ",
        "no blank": b"HTTP/1.1 200",
        "two blanks": b"HTTP/1.1  200 OK",
        "tab": b"HTTP/1.1\t200 OK",
        "two digits": b"HTTP/1.1 20 OK",
        "four digits": b"HTTP/1.1 2000 OK",
        "status 000": b"HTTP/1.1 000 OK",
        "status 099": b"HTTP/1.1 099 OK",
        "signed": b"HTTP/1.1 +20 OK",
        "lower case": b"http/1.1 200 OK",
        "blank in front": b" HTTP/1.1 200 OK",
        "latin-1 reason": b"HTTP/1.1 200 \xe4",
        "NUL in the reason": b"HTTP/1.1 200 a\0",
        "CR in the reason": b"HTTP/1.1 200 a\rb",
        "long reason": b"HTTP/1.1 200 " + b"r" * 70_000,
        "radio": b"ICY 200 OK",
        "a request": b"GET / HTTP/1.1",
        "mail": b"220 mail.example ESMTP",
        "other scheme": b"HTTPS/1.1 200 OK",
    }
    for name, line in lines.items():
        yield f"line: {name}", said(line + b"\r\n" + LENGTH + b"\r\nok")
    for name, text in {"CRLF": b"\r\n", "two CRLF": b"\r\n" * 2, "LF": b"\n", "blank": b" ", "NUL": b"\0"}.items():
        yield f"before the line: {name}", said(text + PLAIN)
    yield "before the line: byte order mark", said(b"\xef\xbb\xbf" + PLAIN)
    yield "LF everywhere", said(PLAIN.replace(b"\r\n", b"\n"))
    yield "CR everywhere", said(PLAIN.replace(b"\r\n", b"\r"), seconds=HANGS)
    yield "TLS alert", said(b"\x15\x03\x03\x00\x02\x02\x28\r\n\r\n")


def behind() -> Cases:
    """Bytes behind the answer, at once and late: the next request must get its own answer."""
    for name, junk in {
        "CRLF": b"\r\n",
        "a byte": b"x",
        "NUL": b"\0",
        "an answer": head(200, LENGTH, b"no"),
        "a 103": head(103, b"Link: x\r\n"),
        "half an answer": head(200, LENGTH, b"n"),
    }.items():
        yield f"length, then {name}", said(PLAIN + junk)
        yield f"length, late {name}", said(PLAIN, junk)
        yield f"chunked, then {name}", said(head(200, CHUNKED, OK + junk))
        yield f"chunked, late {name}", said(head(200, CHUNKED, OK), junk)
        yield f"204, then {name}", said(head(204) + junk)
        yield f"304, late {name}", said(head(304, b"ETag: x\r\n"), junk)


def interims() -> Cases:
    for name, first in {
        "100": head(100),
        "103": head(103, b"Link: a\r\n"),
        "100 and 103": head(100) + head(103, b"X: 1\r\n"),
        "102 with length": head(102, LENGTH),
        "100 chunked": head(100, CHUNKED),
        "199": head(199),
        "300 of them": head(100) * 300,
        "100 and close": head(100, b"Connection: close\r\n"),
        "100 in HTTP/1.0": head(100, version=b"1.0"),
        "200 KB of them": head(103, b"Link: " + b"v" * 10_000 + b"\r\n") * 20,
    }.items():
        yield f"interim {name}", said(first + PLAIN)
        yield f"interim {name}, then the answer", said(first, PLAIN)
        yield f"interim {name}, then chunks", said(first, head(200, CHUNKED), OK)
        yield f"interim {name}, then the end", said(first, end=End.EOF)


def ends() -> Cases:
    parts = {
        "nothing": b"",
        "half a line": b"HTTP/1.1 2",
        "a line": b"HTTP/1.1 200 OK\r\n",
        "half a head": b"HTTP/1.1 200 OK\r\nX: a\r\n",
        "head": head(200, LENGTH),
        "half a body": head(200, LENGTH, b"o"),
        "body": PLAIN,
        "head without length": head(),
        "body without length": head(200, b"", b"ok"),
        "chunked head": head(200, CHUNKED),
        "half a chunk": head(200, CHUNKED, b"2\r\no"),
        "a chunk": head(200, CHUNKED, b"2\r\nok\r\n"),
        "last chunk": head(200, CHUNKED, b"2\r\nok\r\n0\r\n"),
        "all chunks": head(200, CHUNKED, OK),
        "interim": head(100),
        "half an interim": head(100)[:-2],
        "204": head(204),
        "HTTP/1.0 half": head(200, b"Connection: keep-alive\r\n" + LENGTH, b"o", b"1.0"),
    }
    for name, data in parts.items():
        for end in (End.EOF, End.RESET):
            yield f"{name}, {end}", said(data, end=end)
    for name in ("nothing", "half a line", "half a head", "head", "half a body", "half a chunk", "interim"):
        yield f"{name}, silence", said(parts[name], seconds=HANGS)


def bodies() -> Cases:
    for size in (0, 1, 2, 1000, 65_535, 65_536, 65_537, 300_000, 1_200_000):
        body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        yield f"body of {size}", said(head(200, b"Content-Length: %d\r\n" % size, body))
        framed = b"".join(b"%x\r\n%b\r\n" % (len(body[i : i + 4096]), body[i : i + 4096]) for i in range(0, size, 4096))
        yield f"body of {size} chunked", said(head(200, CHUNKED, framed + b"0\r\n\r\n"))
        yield f"body of {size} to the end", said(head(200, b"", body), end=End.EOF)


TABLES = (statuses, lengths, codings, chunks, fields, connections, first_lines, behind, interims, ends, bodies)
CASES = {case: script for table in TABLES for case, script in table()}

_INTERIM_ODD = ("100 and close", "100 in HTTP/1.0", "200 KB of them")

STAYS: list[tuple[str, str, str, tuple[str, ...]]] = [
    # (what the native client makes of it, what httpx makes of it, who is right, the cases)
    (
        "protocol",
        "200 whole same",
        "6.3: both lengths ought to be an error, it may be an attempt to split the answer; h11 lets the coding win",
        ("chunked and length", "length and chunked"),
    ),
    (
        "protocol",
        "200 whole new",
        "6.3: as above, with a server that closes",
        ("chunked and length and the end",),
    ),
    (
        "protocol",
        "200 whole same",
        "6.3 allows a list of equal lengths; llhttp has no leave for it, and no provider was seen to send one",
        ("length twice", "length as a list"),
    ),
    (
        "protocol",
        "200 whole same",
        "5.2: a gateway may discard an answer with a folded line; h11 unfolds it",
        ("field: folded", "field: folded with a tab", "field: folded length"),
    ),
    (
        "protocol",
        "200 whole same",
        "2.2: a bare LF may be taken for a line end, and need not; RFC 9110 5.5: controls are invalid in a value",
        ("field: bare LF", "LF everywhere", "field: control in the value", "field: DEL in the value"),
    ),
    (
        "protocol",
        "header_timeout",
        "2.2: a bare CR is no line end; h11 waits for one, llhttp says so at once",
        ("CR everywhere",),
    ),
    (
        "protocol",
        "200 whole same",
        "100 KiB are the limit of all that comes before a body; h11 looks only at a head that came in parts, and at"
        " each interim one by itself",
        (
            f"head of {EDGE + 400}",
            *(f"interim 200 KB of them{more}" for more in ("", ", then the answer", ", then chunks")),
        ),
    ),
    (
        "protocol",
        "reset",
        "the same: over the limit before the server closes; 6.3: an interim answer has no body, so what follows is no"
        " HTTP, where h11 still waits for more of it",
        ("interim 200 KB of them, then the end", "100 with a length", "102 with a length", "103 with a length"),
    ),
    (
        "protocol",
        "200 whole same",
        "no HTTP/1.2 exists and an HTTP/1.0 server must not send 100 (RFC 9110 15.2); llhttp takes nothing after close",
        (
            "HTTP/1.2",
            *(f"interim {n}{more}" for n in _INTERIM_ODD[:2] for more in ("", ", then the answer", ", then chunks")),
        ),
    ),
    (
        "200 whole same",
        "protocol",
        "6.3: the last coding is chunked, so the frame is clear; nobody asked for another one, and like"
        " Content-Encoding it is not undone; h11 knows chunked only",
        ("coding b'gzip, chunked'", "coding b'chunked, chunked'", "coding twice", "two codings"),
    ),
    (
        "200 whole new",
        "protocol",
        "6.3: the last coding is not chunked, so the end of the connection ends the body; h11 knows chunked only",
        tuple(f"coding {v!r}" for v in (b"gzip", b"identity", b"xchunked", b"chunked, gzip", b"chunked;q=1")),
    ),
    (
        "200 reset new",
        "protocol",
        "the same, cut: the last coding is chunked and no last chunk came",
        ("two codings cut",),
    ),
    (
        "200 protocol new",
        "200 whole same",
        "6.5.1: a length is forbidden in a trailer; 7.1: no blank belongs after a chunk size. h11 ignores both",
        ("chunk: trailer with a length", "chunk: blank after the size"),
    ),
    (
        "200 protocol new",
        "200 whole new",
        "7.1.1: an extension is a token or a quoted string; a line ends with CRLF. h11 ignores what is in an extension",
        (
            "chunk: bare LF after a trailer",
            "chunk: control in an extension",
            "chunk: odd byte in an extension",
            "chunk: extension without a name",
        ),
    ),
    (
        "200 protocol new",
        "200 reset new",
        "both refuse; llhttp at the byte that is wrong, h11 when the connection has ended",
        ("chunk: size over 64 bits", "chunk: bare LF", "chunk: bare CR"),
    ),
    (
        "200 whole new",
        "200 whole same",
        "a connection may always be given up: llhttp honours Proxy-Connection and a trailer, and keeps no HTTP/2.0",
        ("chunk: trailer with close", "field: proxy-connection", "HTTP/2.0"),
    ),
    (
        "200 whole same",
        "200 whole new",
        "9.3: HTTP/1.0 with keep-alive persists, which h11 does not do; llhttp looks for close only in HTTP/1.1, so a"
        " server that says both closes and is found closed",
        tuple(f"connection {v!r} in HTTP/1.0" for v in (b"keep-alive", b"keep-alive, close", b"close, keep-alive")),
    ),
    (
        "200 whole same",
        "200 whole new",
        "2.2: an empty line is no message; llhttp skips it, h11 would take it for the next answer, so we drop it",
        ("length, then CRLF", "chunked, then CRLF"),
    ),
    ("204 whole same", "204 whole new", "the same without a body", ("204, then CRLF",)),
    (
        "200 whole same",
        "protocol",
        "2.2: as lenient as a server should be with an empty line in front; nobody reads the reason",
        ("before the line: CRLF", "before the line: two CRLF", "before the line: LF", "line: NUL in the reason"),
    ),
]


def short(seen: Seen) -> str:
    got = seen.fault or "whole"
    return f"{seen.status} {got} {seen.then}" if seen.status else got


LISTED = {case: (ours, theirs) for ours, theirs, _, cases in STAYS for case in cases}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_answer_means_the_same_to_both_or_is_listed_with_its_reason(table):
    cases = dict(table())
    found = differences(cases)
    unlisted = {case: pair for case, pair in found.items() if case not in LISTED}
    assert not unlisted, told(unlisted)
    listed = {case: pair for case, pair in LISTED.items() if case in cases}
    assert {case: (short(ours), short(theirs)) for case, (ours, theirs) in found.items()} == listed


def test_the_table_holds_hundreds_of_answers_and_lists_none_that_is_not_there():
    assert len(CASES) == sum(len(list(table())) for table in TABLES) > 400
    assert LISTED.keys() <= CASES.keys()


@pytest.fixture(scope="module")
def ours() -> dict[str, Seen]:
    return ask_all(NativeClient, CASES)


def test_no_answer_makes_the_next_request_fail_or_get_another_answer(ours):
    assert {seen.then for seen in ours.values()} == {"same", "new"}
    assert {seen.fault for seen in ours.values()} == {"", *map(str, _KINDS)}
    assert all(seen.written for seen in ours.values() if seen.fault)


_KINDS = (FaultKind.RESET, FaultKind.PROTOCOL, FaultKind.HEADER_TIMEOUT, FaultKind.BODY_TIMEOUT)


def test_reading_whole_and_chunk_by_chunk_is_the_same_and_so_are_the_event_loops(ours):
    whole = ask_all(NativeClient, CASES, whole=True)
    assert {case: (str(a), str(whole[case])) for case, a in ours.items() if a != whole[case]} == {}
    uvloop = ask_all(NativeClient, CASES, loop="uvloop")
    assert {case: (str(a), str(uvloop[case])) for case, a in ours.items() if a != uvloop[case]} == {}


def test_what_arrived_before_a_fault_is_the_same_in_both_ways_of_reading():
    broken = {case: script for case, script in CASES.items() if case.partition(",")[0] in _CUT}
    found = differences(broken, whole=True)
    assert len(broken) >= 12 and not found, told(found)


_CUT = ("half a body", "half a chunk", "a chunk", "last chunk", "body without length", "HTTP/1.0 half")


def test_the_answer_to_head_ends_with_its_head():
    """The native client gives the connection up: its parser would wait for the body that the head announces."""
    asked = {case: replace(script, steps=_heads(script)) for case, script in CASES.items() if _good(case, script)}
    ours, theirs = ask_all(NativeClient, asked, method="HEAD"), ask_all(HttpxClient, asked, method="HEAD")
    assert len(asked) > 60
    for case in asked:
        assert replace(ours[case], then="") == replace(theirs[case], then=""), case
        assert (ours[case].then, ours[case].body, ours[case].fault) == ("new", b"", "")
        assert theirs[case].then in ("same", "new")


def _good(case: str, script: Script) -> bool:
    return len(script.steps) == 1 and not case.endswith("the end") and case not in LISTED and case.startswith(_GOOD)


_GOOD = ("200", "201", "204", "206", "301", "304", "404", "503", "connection", "body of", "HTTP/1.0", "interim 1")


def _heads(script: Script) -> tuple[bytes, ...]:
    """The script without the body of its last head."""
    data = script.steps[0]
    start = data.rindex(b"HTTP/1.")
    return (data[: data.index(b"\r\n\r\n", start) + 4],)


SPLIT = {
    "length": head(200, b"X-A: 1\r\n" + LENGTH, b"ok"),
    "extension and trailer": head(200, CHUNKED, b"2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n"),
    "interim": head(103, b"Link: x\r\n") + PLAIN,
    "no content": head(204, b"ETag: x\r\n"),
}


@pytest.mark.parametrize("name", SPLIT)
def test_where_an_answer_is_split_changes_nothing(name):
    """Its bytes, and that the connection is used again."""
    data = SPLIT[name]
    cases = {str(at): said(data[:at], data[at:]) for at in range(1, len(data))}
    found = ask_all(NativeClient, cases)
    assert len({str(seen) for seen in found.values()}) == 1 and found["1"].then == "same" and not found["1"].fault
    few = {at: script for at, script in cases.items() if int(at) % 3 == 0}
    both = differences(few)
    assert not both, told(both)


@pytest.mark.parametrize("name", SPLIT)
def test_a_cut_at_any_byte_is_an_interruption_and_never_a_shorter_answer(name):
    data = SPLIT[name]
    found = ask_all(NativeClient, {str(at): said(data[:at], end=End.EOF) for at in range(len(data))})
    assert {(seen.fault, seen.written, seen.then) for seen in found.values()} == {("reset", True, "new")}
