"""Fault playbook: what a provider answers instead of 200, and providers that cannot be reached; streaming and not."""

import pytest

from tests.upstream.server import answer, hang_up, raw, reset
from tests.wire.playbook import (
    FIRST,
    PATIENT,
    REFUSED,
    UNRESOLVABLE,
    UNTRUSTED,
    Stage,
    check_circuit,
    check_first,
    check_last,
    check_only,
    forwarded,
    refusal,
    stage,
    text_of,
    trail,
    unreached,
)


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    with stage(tmp_path_factory.mktemp("playbook"), PATIENT) as found:
        yield found


PLAYS = [
    refusal(500, again=True),
    refusal(503, again=True),
    refusal(401),
    refusal(403),
    refusal(404, word="noop"),
    forwarded(400),
    forwarded(408),
    forwarded(422),
    refusal(429),
    refusal(499, word="noop"),
    refusal(501),
    refusal(529),
    unreached("connection refused", REFUSED, None),
    unreached("unresolvable name", UNRESOLVABLE, None),
    unreached("TLS failure", UNTRUSTED, None),
    unreached("reset before headers", reset(), 3),
    unreached("closed before headers", hang_up(), 3),
    unreached("no HTTP at all", raw(b"HTTP/1.1 two hundred\r\n\r\n"), 1),
]


@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.id)
def test_the_first_of_two(on: Stage, play, streaming):
    """failover-loop 1 to 4, failover-loop 7, failover-loop 13, circuit-breaker 21"""
    check_first(on, play, streaming)


@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("play", PLAYS, ids=lambda play: play.id)
def test_the_last_of_two(on: Stage, play, streaming):
    """failover-loop 3"""
    check_last(on, play, streaming)


ONLY = [play for play in PLAYS if play.id in ("501", "529", "connection refused")]


@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("play", ONLY, ids=lambda play: play.id)
def test_the_only_one(on: Stage, play, streaming):
    """failover-loop 8 to 9, failover-loop 15"""
    check_only(on, play, streaming)


@pytest.mark.parametrize("streaming", [False, True], ids=["plain", "stream"])
def test_a_reset_that_heals_leaves_no_trace(on: Stage, streaming):
    """failover-loop 12, circuit-breaker 21"""
    on.set(reset(), FIRST)
    on.home.a.script(reset(), reset(), answer("from A"))
    assert text_of(on.home.ask(stream=streaming), streaming) == "from A"
    assert trail(on.row()) == [(0, "Alpha", 200, None, "success")]
    assert len(on.home.a.calls) == 3
    check_circuit(on.home, 0, "success")
