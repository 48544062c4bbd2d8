"""Fault playbook: providers that say nothing, or nothing that counts, until a clock of the gateway ends it."""

import json

import pytest

from tests.upstream.behaviours import LONGEST_SILENCE, Behaviour, Wire, head, http_chunk
from tests.upstream.server import delta, headers_then_silence, silence, sse, stall_after, stream
from tests.wire.playbook import (
    BROKEN,
    FIRST,
    LAST,
    PROBE,
    SHORT,
    TIMED_OUT,
    TRANSPORT,
    Cut,
    Play,
    Stage,
    check_cut,
    check_first,
    check_last,
    events_of,
    stage,
    text_of,
    trail,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    with stage(tmp_path_factory.mktemp("playbook"), SHORT) as found:
        yield found


def for_ever(what: bytes, *before: bytes, content_type: str = "text/event-stream") -> Behaviour:
    """*before*, then *what* again and again; nothing = silence."""

    async def behave(wire: Wire) -> None:
        fields = [("Content-Type", content_type), ("Transfer-Encoding", "chunked")]
        await wire.write(head(200, fields) + b"".join(http_chunk(data) for data in before))
        for _ in range(int(LONGEST_SILENCE / 0.05)):
            if what:
                await wire.write(http_chunk(what))
            await wire.sleep(0.05)

    return behave


ROLE = sse(delta(role="assistant", content=""))
THREE = "tok0 tok1 tok2 "
TOKENS = [sse(delta(content=f"tok{n} ")) for n in range(3)]
LATE = 'provider "Alpha" did not return a response in time on attempt 2'
PING = b": ping\n\n"


def late(name: str, how: Behaviour, cause: str, status: int | None = 200) -> Play:
    return Play(name, how, status, "provider_timeout", cause=cause, seen=status or 0, code="provider_timeout", row=LATE)


PLAIN = [
    Play("silence", silence(), None, "failover_timeout", cause=TRANSPORT, told=504, message=TIMED_OUT,
         code="failover_timeout", row='request timed out while waiting on provider "Alpha" (attempt 2)'),
    late("headers then silence", headers_then_silence(stream=False), BROKEN),
    late("blanks for ever", for_ever(b" \n", content_type="application/json"), BROKEN),
]  # fmt: skip
STREAMS = [
    late("silence", silence(), TRANSPORT, None),
    late("headers then silence", headers_then_silence(), PROBE),
    late("role chunk, then silence", for_ever(b"", ROLE), PROBE),
    late("ping for ever", for_ever(PING), PROBE),
    late("role chunk, then ping for ever", for_ever(PING, ROLE), PROBE),
    late("a line without end", for_ever(b"data: x" * 100), PROBE),
    late("empty choices for ever", for_ever(sse({"choices": []})), PROBE),
]
PLAYS = [pytest.param(play, False, id=f"{play.id}-plain") for play in PLAIN]
PLAYS += [pytest.param(play, True, id=f"{play.id}-stream") for play in STREAMS]


@pytest.mark.parametrize(("play", "streaming"), PLAYS)
def test_the_first_of_two(on: Stage, play, streaming):
    """failover-loop 16, failover-loop 72, failover-loop 114, circuit-breaker 20"""
    check_first(on, play, streaming)
    on.home.a.wait_disconnects(1)


@pytest.mark.parametrize(("play", "streaming"), PLAYS)
def test_the_last_of_two(on: Stage, play, streaming):
    """circuit-breaker 20"""
    check_last(on, play, streaming)
    on.home.a.wait_disconnects(1)


STALLED = "stream stalled: no data for 400ms"
CUTS = [
    Cut("3 chunks, then silence", stall_after(3), THREE, STALLED, "provider_timeout", "stream stalled"),
    Cut("3 chunks, then half a line", for_ever(b"", *TOKENS, b"data: {"), THREE, STALLED, "provider_timeout",
        "stream stalled"),
    Cut("3 chunks, then a byte at a time", for_ever(b"x", *TOKENS, b"data: "), THREE, STALLED, "provider_timeout",
        "stream stalled"),
]  # fmt: skip


@pytest.mark.parametrize("place", [FIRST, LAST])
@pytest.mark.parametrize("play", CUTS, ids=lambda play: play.id)
def test_silence_after_output(on: Stage, play, place):
    """failover-loop 81 to 82"""
    check_cut(on, play, place)
    on.home.a.wait_disconnects(1)


@pytest.fixture
def brief(on: Stage):
    """A tenth of a second an attempt, so a whole one for a stream."""
    on.home.settings(request_timeout="100ms")
    yield on
    on.home.settings(**SHORT)


@pytest.mark.parametrize("place", [FIRST, LAST])
def test_pings_keep_a_stream_alive_until_its_attempt_is_over(brief: Stage, place):
    timed_out = "stream interrupted: upstream request timed out"
    check_cut(brief, Cut("", for_ever(PING, *TOKENS), THREE, timed_out, "failover_timeout"), place)
    brief.home.a.wait_disconnects(1)


def test_two_that_are_silent_use_the_time_up(on: Stage):
    home = on.home
    on.set(silence(), FIRST)
    home.b.script(silence())
    found = home.ask()
    assert (found.status_code, found.json()["error"]["code"]) == (504, "failover_timeout")
    timeout = (None, "failover_timeout", "charge")
    assert trail(on.row()) == [(0, "Alpha", *timeout), (1, "Beta", *timeout)]


def test_a_slow_answer_is_no_silence(on: Stage):
    """Chunks that come within the window, for longer than the window."""
    on.set(stream(["a", "b", "c", "d", "e"], delay=0.15), FIRST)
    assert text_of(on.home.ask(stream=True), True) == "abcde"


def test_more_than_fifty_chunks_earn_a_longer_window(on: Stage):
    """failover-loop 81"""
    on.set(stall_after(51, seconds=0.6), FIRST)
    assert text_of(on.home.ask(stream=True), True).endswith("tok50 ")
    on.set(for_ever(b"", *(sse(delta(content="x")) for _ in range(51))), FIRST)
    *_, last = events_of(on.home.ask(stream=True))
    assert json.loads(last)["error"]["message"] == "stream stalled: no data for 1.2s"
