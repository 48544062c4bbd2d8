"""Fault playbook: a 200 that is no answer, an odd one, or a broken one; not streaming."""

import json

import pytest

from tests.upstream.behaviours import head
from tests.upstream.server import completion, empty_choices, gzip, half_json, html, pieces, raw, reply, stream
from tests.wire.house import MODEL
from tests.wire.playbook import (
    BROKEN,
    EMPTY,
    FIRST,
    LAST,
    NO_CHOICES,
    PATIENT,
    STOPPED,
    UNDECODABLE,
    UNTRANSLATED,
    Play,
    Stage,
    Whole,
    check_first,
    check_last,
    check_whole,
    no_answer,
    shown,
    stage,
)


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    with stage(tmp_path_factory.mktemp("playbook"), PATIENT) as found:
        yield found


WORDS = "Grüße aus 世界 🌍, " * 8
BODY = json.dumps(completion(WORDS), ensure_ascii=False).encode()
JSON_HEAD = [("Content-Type", "application/json")]


def chunked(data: bytes, size: int) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def undecodable(name: str, how) -> Play:
    return no_answer(name, how, UNDECODABLE, UNTRANSLATED)


def no_choices(name: str, body) -> Play:
    return no_answer(name, reply(200, body), NO_CHOICES, EMPTY)


TOO_LARGE = "the provider returned a response larger than the gateway will read"
PLAYS = [
    no_answer("empty choices", empty_choices(), NO_CHOICES, EMPTY),
    no_choices("null choices", {**completion("x"), "choices": None}),
    no_choices("no choices at all", {"id": "chatcmpl-1", "object": "chat.completion"}),
    no_answer("nothing in the choice", reply(200, completion("", finish=None, usage={"completion_tokens": 0})),
              "provider returned no content", EMPTY),
    undecodable("null body", reply(200, b"null")),
    undecodable("empty body", reply(200, b"")),
    undecodable("HTML body", html()),
    undecodable("half a JSON body", half_json()),
    undecodable("content length too short", reply(200, BODY, length=len(BODY) - 9)),
    undecodable("gzip", gzip()),
    undecodable("a stream nobody asked for", stream(["from A"])),
    no_answer("content length too long", reply(200, BODY[:-9], length=len(BODY)), STOPPED, BROKEN),
    no_answer("half a chunked body", raw(head(200, [*JSON_HEAD, ("Transfer-Encoding", "chunked")]) + b"ff\r\n{"),
              STOPPED, BROKEN),
    Play("33 MB line", reply(200, b'{"choices":"' + b"x" * 33_600_000 + b'"}'), 200, "provider_bad_request", None,
         message=shown(TOO_LARGE), code="provider_bad_request", row=TOO_LARGE, moves=False),
]  # fmt: skip


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.id)
def test_the_first_of_two(on: Stage, play):
    """failover-loop 66, failover-loop 69, failover-loop 71"""
    check_first(on, play, False)


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.id)
def test_the_last_of_two(on: Stage, play):
    """failover-loop 69"""
    check_last(on, play, False)


def test_five_empty_answers_open_the_circuit(on: Stage):
    """circuit-breaker 5"""
    home = on.home
    on.set(empty_choices(), FIRST)
    for calls in range(1, 6):
        assert home.circuit("Alpha")["state"] != "open"
        found = home.ask(f"Alpha/{MODEL}")
        assert (found.status_code, found.json()["error"]["message"]) == (502, shown(NO_CHOICES))
        assert len(home.a.calls) == calls
    circuit = home.circuit("Alpha")
    assert (circuit["state"], circuit["last_cause"], circuit["last_status"]) == ("open", EMPTY, 200)
    assert home.b.calls == []


ODD = [
    Whole("complete JSON, then a broken connection", reply(200, BODY, length=len(BODY) + 9), WORDS),
    Whole("5-byte pieces", pieces(head(200, [*JSON_HEAD, ("Content-Length", str(len(BODY)))]) + BODY, 5), WORDS),
    Whole(
        "5-byte chunks",
        pieces(head(200, [*JSON_HEAD, ("Transfer-Encoding", "chunked")]) + chunked(BODY, 5), 7),
        WORDS,
    ),
    Whole("no length at all", raw(head(200, JSON_HEAD) + BODY), WORDS),
    Whole("BOM", reply(200, b"\xef\xbb\xbf" + BODY), WORDS),
    Whole("blank lines before it", reply(200, b"\r\n \n" * 400 + BODY), WORDS),
    Whole("2 MB line", reply(200, completion("y" * 2_000_000)), "y" * 2_000_000),
    Whole("a bare finish", reply(200, completion("", usage={"completion_tokens": 0})), "", "charge", EMPTY),
    Whole("a filtered answer", reply(200, completion("", finish="content_filter", usage={"completion_tokens": 0})), ""),
]


@pytest.mark.parametrize("place", [FIRST, LAST])
@pytest.mark.parametrize("play", ODD, ids=lambda play: play.id)
def test_odd_but_an_answer(on: Stage, play, place):
    """failover-loop 68, failover-loop 70"""
    check_whole(on, play, place, False)
