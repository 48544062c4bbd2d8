"""Answers nobody wrote down: well-formed ones of every shape, and what is left of them after bytes were changed.

Well-formed answers must mean the same to the native client and to httpx in every respect. Of a damaged one the native
client may make less than httpx, never more: it is refused, or it is what httpx sees, or ``lenient`` says why not.
"""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from providers.upstream.httpx_client import HttpxClient
from providers.upstream.native import NativeClient
from tests.upstream.scripted import End, Script, Seen, ask_all, told

pytestmark = pytest.mark.slow

BATCH = 40  # answers asked at once
PROFILE = settings(
    max_examples=6,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)

TOKEN = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.!#$%&'*+^`|~", min_size=1, max_size=20)
VALUE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=40)
RESERVED = ("content-length", "transfer-encoding", "connection", "proxy-connection", "upgrade", "keep-alive")
FIELD = st.tuples(
    TOKEN.filter(lambda name: name.lower() not in RESERVED), VALUE, st.sampled_from(["", " ", "\t", "  "])
)
REASON = st.sampled_from(["OK", "", "Not Found", "A longer reason; with marks"])


def line(name: str, value: str, blank: str) -> bytes:
    return f"{name}:{blank}{value}\r\n".encode("latin-1")


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    out, at = b"", 0
    while at < len(body):
        size = draw(st.integers(1, max(1, len(body) - at)))
        form = draw(st.sampled_from([b"%x", b"%X", b"0%x"]))
        extension = draw(st.sampled_from([b"", b"", b";a=b", b';a="q"', b" ;a"]))
        out += form % size + extension + b"\r\n" + body[at : at + size] + b"\r\n"
        at += size
    trailer = draw(st.sampled_from([b"", b"", b"X-Sum: 1\r\n", b"Expires: never\r\nX: \r\n"]))
    return out + b"0\r\n" + trailer + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, bool]:
    """(the bytes of a whole answer, whether the end of the connection is its end)"""
    interim = draw(
        st.sampled_from([b"", b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nLink: a\r\n\r\n"])
    )
    status = draw(st.sampled_from([200, 200, 200, 201, 204, 206, 302, 304, 400, 404, 429, 500, 503, 599]))
    fields = [line(*field) for field in draw(st.lists(FIELD, max_size=6))]
    body = draw(st.binary(max_size=300))
    framing = draw(st.sampled_from(["length", "chunked", "neither"]))
    if status in (204, 304):
        body, framing = b"", draw(st.sampled_from(["neither", "length"]))
    if framing == "length":
        fields.append(b"Content-Length: %d\r\n" % len(body))
    elif framing == "chunked":
        fields.append(b"Transfer-Encoding: chunked\r\n")
        body = draw(chunked(body))
    if draw(st.booleans()):
        fields.append(draw(st.sampled_from([b"Connection: close\r\n", b"Connection: keep-alive\r\n"])))
    head = f"HTTP/1.1 {status} {draw(REASON)}\r\n".encode() + b"".join(draw(st.permutations(fields)))
    return interim + head + b"\r\n" + body, framing == "neither" and status not in (204, 304)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """A whole answer, in up to four pieces, sometimes cut short."""
    data, to_the_end = draw(answers())
    end = End.EOF if to_the_end else draw(st.sampled_from([End.OPEN, End.OPEN, End.EOF]))
    if draw(st.integers(0, 3)) == 0:
        data, end = data[: draw(st.integers(0, len(data)))], End.EOF
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
    steps = tuple(data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True))
    return Script(steps, end)


@st.composite
def damaged(draw: st.DrawFn) -> Script:
    """An answer with bytes changed, lost, doubled or put in; the connection is closed behind it."""
    data = bytearray(draw(answers())[0])
    odd = st.sampled_from(
        [b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b";", b"\0", b"\x7f", b"\xff", b"0", b"f", b"-", b","]
    )
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        change = draw(st.integers(0, 3))
        if change == 0:
            data[at : at + 1] = draw(odd)
        elif change == 1:
            del data[at : at + draw(st.integers(1, 6))]
        elif change == 2:
            data[at:at] = data[at : at + draw(st.integers(1, 12))]
        else:
            data[at:at] = draw(odd)
    return Script((bytes(data),), End.EOF)


def batch(found: list[Script]) -> dict[str, Script]:
    return {f"{n} {script.end} {b'|'.join(script.steps)!r}": script for n, script in enumerate(found)}


@PROFILE
@given(st.lists(scripts(), min_size=BATCH, max_size=BATCH))
def test_well_formed_answers_of_any_shape_mean_the_same(found):
    cases = batch(found)
    ours, theirs = ask_all(NativeClient, cases), ask_all(HttpxClient, cases)
    different = {case: (ours[case], theirs[case]) for case in cases if ours[case] != theirs[case]}
    assert not different, told(different)


@PROFILE
@given(st.lists(damaged(), min_size=BATCH, max_size=BATCH))
def test_of_damaged_answers_the_native_client_makes_less_and_never_more(found):
    cases = batch(found)
    ours, theirs = ask_all(NativeClient, cases), ask_all(HttpxClient, cases)
    assert {seen.then for seen in ours.values()} <= {"new"}
    wrong = {}
    for case, script in cases.items():
        mine, other = ours[case], theirs[case]
        if not (mine.fault or same(mine, other) or lenient(script.steps[0])):
            wrong[case] = (mine, other)
    assert not wrong, told(wrong)


def same(ours: Seen, theirs: Seen) -> bool:
    return replace(ours, then="") == replace(theirs, then="")


LENIENT: dict[str, Callable[[bytes], object]] = {
    "other codings than chunked are framed by RFC 9112 6.3 and not undone; h11 knows chunked only": lambda data: (
        len(found := re.findall(rb"\n[Tt]ransfer-[Ee]ncoding:[ \t]*([^\r]*)", data)) > 1
        or any(value.strip().lower() != b"chunked" for value in found)
    ),
    "empty lines in front are skipped (2.2), behind an interim answer too": lambda data: (
        data[:1] in (b"\r", b"\n") or re.match(rb"HTTP/1\.1 1\d\d [^\0]*?\r\n\r\n[\r\n]", data)
    ),
    "nobody reads the reason": lambda data: re.match(rb"HTTP/1\.1 \d{3} [^\r\n]*\0", data),
}


def lenient(data: bytes) -> bool:
    """One of the ways in which the native client takes what httpx refuses; ``test_answers.STAYS`` has them too."""
    return any(applies(data) for applies in LENIENT.values())
