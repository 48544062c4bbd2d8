"""Fault playbook: clients that leave, at every phase of a request; streaming and not.

Whenever they leave, the upstream call ends at once, nobody else is asked, exactly one row tells it, and the circuit
hears of it only where the provider had been silent for too long.
"""

import json
import socket
import time

import pytest

from tests.upstream.server import (
    FakeProvider,
    after,
    answer,
    headers_then_silence,
    reset,
    silence,
    stall_after,
    status,
    stream,
)
from tests.wire.house import GROUP, MODEL, House
from tests.wire.playbook import FIRST, LAST, PATIENT, PROBE, Stage, check_circuit, stage, trail
from tests.wire.product import eventually

pytestmark = pytest.mark.slow

STREAMING = pytest.mark.parametrize("streaming", [False, True], ids=["plain", "stream"])
PROMPT = "four" * 10


@pytest.fixture(scope="module")
def on(tmp_path_factory):
    with stage(tmp_path_factory.mktemp("playbook"), PATIENT) as found:
        yield found


class Caller:
    """A client on a plain socket, so that it can leave whenever it likes."""

    def __init__(self, home: House, streaming: bool = False, model: str = GROUP) -> None:
        host, port = home.product.url.removeprefix("http://").split(":")
        said = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "stream": streaming}
        body = json.dumps(said).encode()
        lines = ["POST /v1/chat/completions HTTP/1.1", "Host: hotel", f"Authorization: Bearer {home.key}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
        self.sock = socket.create_connection((host, int(port)), timeout=10)
        self.sock.sendall("\r\n".join(lines).encode() + body)

    def read_until(self, mark: bytes) -> bytes:
        found = b""
        while mark not in found:
            piece = self.sock.recv(65536)
            assert piece, found
            found += piece
        return found

    def leave(self) -> None:
        self.sock.close()


class Scene:
    """One caller on a prepared stage, and the row it leaves."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.home = stage, stage.home
        self.before = ""

    def set(self, how, place: str = FIRST) -> None:
        self.stage.set(how, place)
        self.before = self.home.row()["id"]

    def row(self) -> dict:
        """The one row of this scene."""
        row = self.stage.row(self.before)
        entries = self.home.admin("GET", "/api/logs/cursor?limit=2").json()["entries"]
        assert [one["id"] for one in entries] == [row["id"], self.before]
        return row


@pytest.fixture
def scene(on: Stage) -> Scene:
    on.home.fresh()
    on.home.ask()  # a row to tell the next one from
    return Scene(on)


def ended(row: dict) -> tuple:
    return row["state"], row["status_code"], row["error_kind"], row["provider_name"]


LEFT = ("failed", 499, "client_disconnect", "")


@STREAMING
def test_before_the_headers(scene: Scene, streaming):
    home = scene.home
    scene.set(silence())
    caller = Caller(home, streaming)
    home.a.wait_calls(1)
    caller.leave()
    home.a.wait_disconnects(1)
    row = scene.row()
    assert ended(row) == LEFT
    assert row["error_message"] == 'client disconnected during attempt 1 to provider "Alpha"'
    assert trail(row) == [(0, "Alpha", None, "client_disconnect", None)]
    assert home.b.calls == []
    check_circuit(home, 0, "")


@STREAMING
def test_while_the_last_one_is_asked(scene: Scene, streaming):
    home = scene.home
    scene.set(silence(), LAST)
    caller = Caller(home, streaming)
    home.a.wait_calls(1)
    caller.leave()
    home.a.wait_disconnects(1)
    row = scene.row()
    assert ended(row) == LEFT
    assert row["error_message"] == (
        'client disconnected while retrying provider "Alpha" (attempt 2); last provider error: scripted 404'
    )
    assert trail(row) == [(0, "Beta", 404, "provider_error", "noop"), (1, "Alpha", None, "client_disconnect", None)]
    check_circuit(home, 0, "")


@STREAMING
def test_during_the_backoff(three: Scene, streaming):
    """failover-loop 24"""
    home, gamma = three.home, three.gamma
    # The third contact waits for 200 ms at least; the client is watched after 50.
    home.a.script(after(0.06, status(503)))
    gamma.script(status(503))
    caller = Caller(home, streaming)
    gamma.wait_for(lambda: bool(gamma.calls) and gamma.calls[0].done)
    caller.leave()
    row = three.row()
    assert ended(row) == LEFT
    refused = (503, "provider_error", "charge")
    assert trail(row) == [(0, "Alpha", *refused), (1, "Gamma", *refused)]
    assert home.b.calls == []
    check_circuit(home, 1, "upstream status 503", 503)


def test_during_the_backoff_after_a_stall(three: Scene):
    """failover-loop 25"""
    home, gamma = three.home, three.gamma
    home.a.script(status(404))
    gamma.script(headers_then_silence())
    home.settings(ttft_timeout="150ms")
    try:
        caller = Caller(home, True)
        gamma.wait_disconnects(1)
        caller.leave()
        row = three.row()
    finally:
        home.settings(ttft_timeout=PATIENT["ttft_timeout"])
    assert ended(row) == ("failed", 502, "provider_timeout", "")
    assert 'provider "Gamma"' in row["error_message"] and "all " not in row["error_message"]
    assert trail(row)[-1] == (1, "Gamma", 200, "provider_timeout", "charge")
    assert home.b.calls == []


@STREAMING
def test_during_the_pause_before_the_last_ones_retry(scene: Scene, streaming):
    home = scene.home
    scene.set(after(0.06, status(503)), LAST)
    caller = Caller(home, streaming)
    home.a.wait_for(lambda: bool(home.a.calls) and home.a.calls[0].done)
    caller.leave()
    row = scene.row()
    assert ended(row) == LEFT
    assert trail(row)[1:] == [(1, "Alpha", 503, "provider_error", "charge")]
    assert len(home.a.calls) == 1
    check_circuit(home, 1, "upstream status 503", 503)


@STREAMING
def test_between_two_tries(scene: Scene, streaming):
    home = scene.home
    scene.set(reset())
    caller = Caller(home, streaming)
    # The wait before the third try is 200 ms at least.
    home.a.wait_calls(2)
    caller.leave()
    row = scene.row()
    assert ended(row) == LEFT
    assert trail(row) == [(0, "Alpha", None, "client_disconnect", None)]
    assert (len(home.a.calls), home.b.calls) == (2, [])
    check_circuit(home, 0, "")


def test_while_an_answer_is_read(scene: Scene):
    home = scene.home
    scene.set(headers_then_silence(stream=False))
    caller = Caller(home)
    home.a.wait_calls(1)
    time.sleep(0.2)  # the headers arrive
    caller.leave()
    home.a.wait_disconnects(1)
    row = scene.row()
    assert ended(row) == LEFT
    assert trail(row) == [(0, "Alpha", 200, "client_disconnect", None)]
    assert home.b.calls == []
    check_circuit(home, 0, "")


def test_early_in_the_wait_for_the_first_token(scene: Scene):
    """circuit-breaker 19 to 20"""
    home = scene.home
    scene.set(headers_then_silence())
    caller = Caller(home, True)
    home.a.wait_calls(1)
    time.sleep(0.2)  # the headers arrive
    caller.leave()
    home.a.wait_disconnects(1)
    row = scene.row()
    assert ended(row) == LEFT
    assert trail(row) == [(0, "Alpha", 200, "client_disconnect", None)]
    check_circuit(home, 0, "")


def test_late_in_the_wait_for_the_first_token(scene: Scene):
    """circuit-breaker 19"""
    home = scene.home
    scene.set(headers_then_silence())
    home.settings(stream_stall_timeout="200ms")
    try:
        caller = Caller(home, True)
        home.a.wait_calls(1)
        time.sleep(0.3)
        caller.leave()
        row = scene.row()
    finally:
        home.settings(stream_stall_timeout=PATIENT["stream_stall_timeout"])
    assert ended(row) == ("failed", 502, "provider_timeout", "")
    assert trail(row) == [(0, "Alpha", 200, "provider_timeout", "charge")]
    for word in ('provider "Alpha"', "ttft_timeout", "read timeout"):
        assert word in row["error_message"]
    assert home.b.calls == []
    check_circuit(home, 1, PROBE, 200)


def used(home: House) -> int:
    keys = home.admin("GET", "/api/virtual-keys").json()
    return int(next(one for one in keys if one["name"] == "wire")["tokens_used"])


@pytest.mark.parametrize("quiet", [True, False], ids=["silent", "running"])
def test_in_the_middle_of_a_stream(scene: Scene, quiet):
    """failover-loop 84"""
    home = scene.home
    words = [f"tok{n} " for n in range(10)]
    scene.set(stall_after(10) if quiet else stream([*words, *["x"] * 2000], delay=0.01))
    before = settled(home)
    caller = Caller(home, True)
    caller.read_until(b"tok9")
    caller.leave()
    home.a.wait_disconnects(1)
    row = scene.row()
    assert ended(row) == ("failed", 0, "client_disconnect", "Alpha")
    assert trail(row) == [(0, "Alpha", 200, "client_disconnect", None)]
    assert home.b.calls == []
    check_circuit(home, 0, "")
    # 40 bytes of prompt and at least 50 of answer, four bytes a token.
    assert eventually(lambda: used(home) >= before + 10 + 13)


def settled(home: House) -> int:
    """The key's tokens once the counting of earlier requests is over."""
    last = -1
    for _ in range(50):
        if (now := used(home)) == last:
            return now
        last = now
        time.sleep(0.3)
    raise AssertionError("the counter never rests")


def test_ten_that_leave_do_not_touch_the_circuit(scene: Scene):
    """circuit-breaker 19"""
    home = scene.home
    scene.set(stall_after(1))
    callers = [Caller(home, True) for _ in range(10)]
    for caller in callers:
        caller.read_until(b"tok0")
        caller.leave()
    home.a.wait_disconnects(10)
    check_circuit(home, 0, "")
    home.a.script(answer("from A"))
    assert home.ask().headers["x-modelhotel-provider"] == "Alpha"


def test_after_the_whole_answer_it_counts(scene: Scene):
    home = scene.home
    scene.set(answer("from A"))
    caller = Caller(home)
    caller.read_until(b"from A")
    caller.leave()
    assert ended(scene.row()) == ("completed", 200, None, "Alpha")
    check_circuit(home, 0, "success")


class Three(Scene):
    gamma: FakeProvider


@pytest.fixture(scope="module")
def gamma(on: Stage):
    """A third member, between the other two."""
    home = on.home
    with FakeProvider(models=[MODEL]) as provider:
        made = home.admin(
            "POST",
            "/api/providers",
            json={"name": "Gamma", "base_url": provider.url, "api_key": "sk-gamma-0123456789abcdef"},
        )
        home.admin("POST", f"/api/providers/{made.json()['id']}/discover")
        home.group = home.admin("GET", "/api/failover-groups").json()["groups"][0]
        yield provider


@pytest.fixture
def three(on: Stage, gamma: FakeProvider):
    home = on.home
    home.fresh()
    home.ask()
    found = Three(on)
    found.set(answer("from A"))
    found.gamma = gamma
    gamma.forget()
    home.order("Alpha", "Gamma", "Beta")
    yield found
    on.forget()
