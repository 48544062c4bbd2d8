"""Fault playbook: a stream that is no answer, an odd one, or one that breaks; nothing here waits for a clock."""

import asyncio
import json

import pytest

from tests.upstream.behaviours import Behaviour, Wire, head
from tests.upstream.server import (
    DONE,
    completion,
    cut_after,
    delta,
    empty_choices,
    empty_stream,
    error_after,
    events,
    first_event_error,
    gzip,
    half_json,
    html,
    pieces,
    raw,
    reply,
    reset,
    sse,
)
from tests.wire.playbook import (
    BROKEN,
    EMPTY,
    EMPTY_STREAM,
    FAILED,
    FIRST,
    LAST,
    PATIENT,
    PROBE,
    STOPPED,
    Cut,
    Play,
    Stage,
    Whole,
    check_cut,
    check_first,
    check_last,
    check_whole,
    no_answer,
    shown,
    stage,
    text_of,
    trail,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    with stage(tmp_path_factory.mktemp("playbook"), PATIENT) as found:
        yield found


ROLE = delta(role="assistant", content="")
THREE = "tok0 tok1 tok2 "
TOKENS = [sse(delta(content=f"tok{n} ")) for n in range(3)]
STOP = sse(delta(finish="stop"))
LONG = sse(delta(content="z" * 33_600_000))
SSE_HEAD = [("Content-Type", "text/event-stream")]
BOOM = {"message": "boom", "type": "server_error", "code": None}


def sent(data: bytes, length: int | None = None) -> Behaviour:
    """*data* under a Content-Length, right or wrong."""
    return reply(200, data, content_type="text/event-stream", length=length)


def then_reset(*before: bytes) -> Behaviour:
    async def behave(wire: Wire) -> None:
        await wire.write(head(200, SSE_HEAD) + b"".join(before))
        await asyncio.sleep(0.05)  # what was written shall arrive before the reset
        wire.reset()

    return behave


# -- before any output: it moves on, and the last one's client gets an ordinary error


def probed(name: str, how: Behaviour, reason: str) -> Play:
    return no_answer(name, how, reason, PROBE)


def read_error(name: str, how: Behaviour) -> Play:
    return Play(name, how, 200, cause=PROBE, seen=200)


def carried(name: str, how: Behaviour, code: int | None, row: str) -> Play:
    """An error before any output counts as the status it carries, else as a 502 (failover-loop 10.4)."""
    effective, seen = code or 502, code or 200
    return Play(
        name,
        how,
        seen,
        cause=f"upstream status {effective}",
        seen=effective,
        told=effective,
        message=shown(FAILED, seen),
        row=row,
    )


OWN = {"message": "no such tool", "type": "odd", "param": "tools", "code": 400}
PLAYS = [
    carried("first event an error", first_event_error(BOOM), None, "boom"),
    carried("first event a 503", first_event_error({"message": "busy", "code": 503}), 503, "busy"),
    carried("role chunk, then error", events(ROLE, {"error": BOOM}), None, "boom"),
    carried("role chunk, then overloaded", events(ROLE, {"error": {**BOOM, "type": "overloaded_error"}}), 529, "boom"),
    Play("first event a 400", first_event_error(OWN), 400, "provider_error", "alive", "upstream status 400 (alive)",
         400, told=400, message="", row="no such tool", moves=False, body=json.dumps({"error": OWN}).encode()),
    probed("empty choices", empty_choices(), STOPPED),
    probed("role chunk, then a clean end", events(ROLE), STOPPED),
    probed("role chunk, then [DONE]", events(ROLE, DONE), STOPPED),
    probed("only [DONE]", empty_stream(), EMPTY_STREAM),
    probed("no event at all", empty_stream(done=False), EMPTY_STREAM),
    probed("null body", reply(200, b"null"), EMPTY_STREAM),
    probed("empty body", reply(200, b""), EMPTY_STREAM),
    probed("HTML body", html(), EMPTY_STREAM),
    probed("half a JSON body", half_json(), EMPTY_STREAM),
    probed("an answer in one piece", reply(200, completion("from A")), EMPTY_STREAM),
    probed("gzip", gzip(), EMPTY_STREAM),
    read_error("reset after headers", reset(before_headers=False)),
    read_error("role chunk, then reset", then_reset(sse(ROLE))),
    read_error("content length too long", sent(sse(ROLE), 999)),
    read_error("33 MB line", events(LONG)),
]  # fmt: skip


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.id)
def test_the_first_of_two(on: Stage, play):
    """failover-loop 74, failover-loop 76, failover-loop 110"""
    check_first(on, play, True)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.id)
def test_the_last_of_two(on: Stage, play):
    """failover-loop 74, failover-loop 110"""
    check_last(on, play, True)


# -- after output: one error frame, the last event

CUT_OFF = "stream failed: upstream connection error"
TRUNCATED = "stream truncated: upstream closed before a finish_reason"
LIMIT = "stream failed: a frame exceeded the gateway's 32 MiB line limit"
CUTS = [
    Cut("3 chunks, then cut", cut_after(3), THREE, CUT_OFF),
    Cut("3 chunks, then reset", cut_after(3, reset=True), THREE, CUT_OFF),
    Cut("content length too long", sent(b"".join(TOKENS), 9999), THREE, CUT_OFF),
    Cut("content length too short", sent(b"".join([*TOKENS, STOP, DONE]), len(b"".join(TOKENS))), THREE, TRUNCATED),
    Cut("3 chunks, then a clean end", cut_after(3, clean=True), THREE, TRUNCATED),
    Cut("3 chunks, then an error", error_after(3, BOOM), THREE, "boom", own=True),
    Cut("3 chunks, then an error and [DONE]", events(*TOKENS, {"error": BOOM}, DONE), THREE, "boom", own=True),
    Cut("half an event, then a clean end", events(b'data: {"choices":[{"del'), "", TRUNCATED),
    Cut("a broken event, then a clean end", events(*TOKENS, b"data: {oops\n\n"), THREE, TRUNCATED),
    Cut("null event, then a clean end", events(b"data: null\n\n"), "", TRUNCATED),
    Cut("33 MB line", events(*TOKENS, LONG, STOP, DONE), THREE, LIMIT),
]


@pytest.mark.parametrize("place", [FIRST, LAST])
@pytest.mark.parametrize("play", CUTS, ids=lambda play: play.id)
def test_broken_after_output(on: Stage, play, place):
    """failover-loop 77, failover-loop 83, failover-loop 109"""
    check_cut(on, play, place)


@pytest.mark.parametrize("how", [cut_after(3), cut_after(3, clean=True)], ids=["cut", "a clean end"])
def test_three_such_calls_open_the_circuit_at_a_threshold_of_three(on: Stage, how):
    """failover-loop 83"""
    home = on.home
    home.settings(circuit_breaker_threshold="3")
    try:
        on.set(how, FIRST)
        for calls in (1, 2, 3):
            assert home.circuit("Alpha")["state"] != "open"
            assert "[DONE]" not in home.ask(stream=True).text
            assert (len(home.a.calls), home.circuit("Alpha")["last_cause"]) == (calls, BROKEN)
        assert home.circuit("Alpha")["state"] == "open"
        assert text_of(home.ask(stream=True), True) == "from B"
        assert trail(on.row()) == [(-1, "Alpha", None, None, "skipped"), (0, "Beta", 200, None, "success")]
        assert len(home.a.calls) == 3
    finally:
        home.admin("DELETE", "/api/settings", json={"keys": ["circuit_breaker_threshold"]})


# -- odd, but all of it arrives

WORDS = ["Grüße ", "aus 世界 ", "🌍", "\nund\r\nmehr"]
TEXT = "".join(WORDS)
USUAL = [json.dumps(delta(content=word), ensure_ascii=False).encode() for word in WORDS]
FINISH = json.dumps(delta(finish="stop")).encode()
SPREAD = [json.dumps(delta(content=word), ensure_ascii=False, indent=1).encode() for word in WORDS]


def lines(*payloads: bytes, end: bytes = b"\n", space: bytes = b" ") -> bytes:
    return b"".join(b"data:" + space + payload + end * 2 for payload in payloads)


WHOLE = lines(*USUAL, FINISH, b"[DONE]")
PING = b": ping\n\n"
ODD = [
    Whole("no [DONE]", sent(lines(*USUAL, FINISH)), TEXT),
    Whole("no finish_reason, but [DONE]", sent(lines(*USUAL, b"[DONE]")), TEXT),
    Whole("complete, then a broken connection", sent(WHOLE, len(WHOLE) + 9), TEXT),
    Whole("no length at all", raw(head(200, SSE_HEAD) + WHOLE), TEXT),
    Whole("one broken event in the middle", sent(lines(*USUAL[:2], b'{"choices":[{"oops', *USUAL[2:], FINISH)), TEXT),
    Whole("pings between", sent(PING.join([b"", *(lines(one) for one in USUAL), lines(FINISH, b"[DONE]")])), TEXT),
    Whole("CRLF", sent(lines(*USUAL, FINISH, b"[DONE]", end=b"\r\n")), TEXT),
    Whole("CR", sent(lines(*USUAL, FINISH, b"[DONE]", end=b"\r")), TEXT),
    Whole("BOM", sent(b"\xef\xbb\xbf" + WHOLE), TEXT),
    Whole("no space after the colon", sent(lines(*USUAL, FINISH, b"[DONE]", space=b"")), TEXT),
    Whole("no blank line at the end", sent(lines(*USUAL, FINISH).rstrip(b"\n")), TEXT),
    Whole(
        "multi-line data",
        sent(lines(*(one.replace(b"\n", b"\ndata: ") for one in SPREAD), FINISH, b"[DONE]")),
        TEXT,
    ),
    Whole("5-byte pieces", pieces(head(200, SSE_HEAD) + WHOLE, 5), TEXT),
    Whole("5-byte pieces, CRLF", pieces(head(200, SSE_HEAD) + WHOLE.replace(b"\n", b"\r\n"), 5), TEXT),
    Whole("2 MB line", events(delta(content="y" * 2_000_000), STOP, DONE), "y" * 2_000_000),
    Whole("wrong content type", reply(200, WHOLE), TEXT),
    Whole("a bare finish", events(ROLE, STOP, DONE), "", "charge", EMPTY),
    Whole("a filtered answer", events(ROLE, delta(finish="content_filter"), DONE), ""),
]


@pytest.mark.parametrize("place", [FIRST, LAST])
@pytest.mark.parametrize("play", ODD, ids=lambda play: play.id)
def test_odd_but_an_answer(on: Stage, play, place):
    """failover-loop 73, failover-loop 83, failover-loop 109, circuit-breaker 8"""
    check_whole(on, play, place, True)
