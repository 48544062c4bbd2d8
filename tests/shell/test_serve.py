"""How ``manage.py serve`` ends (operations.md 13), at the socket and at the exit code."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from modelhotel.ops import serving
from tests.wire.product import Product, eventually


class Small(Product):
    """The server of ``serving_app`` with the budgets given (seconds)."""

    def __init__(self, data_dir: Path, streams: float = 30.0, drain: float = 40.0, budget: float = 50.0) -> None:
        self.budgets = [str(streams), str(drain), str(budget)]
        super().__init__(data_dir, {"DJANGO_SETTINGS_MODULE": "modelhotel.settings"})

    def _command(self, server: str, args: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "tests.shell.serving_app", *self.budgets]

    def steps(self) -> list[str]:
        return [line.strip() for line in self.output.splitlines() if line.strip() in ("drain", "halt", "cut", "stop")]


class Call(threading.Thread):
    """A request in a thread of its own; *text* and *status* once it is over, *error* when it broke."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.text = ""
        self.status = 0
        self.error = ""
        self.begun = threading.Event()
        self.start()
        assert self.begun.wait(5)

    def run(self) -> None:
        try:
            with httpx.stream("GET", self.url, timeout=15, trust_env=False, verify=False) as answer:
                self.status = answer.status_code
                self.begun.set()
                for part in answer.iter_text():
                    self.text += part
        except httpx.TransportError as problem:
            self.error = type(problem).__name__
            self.begun.set()

    def done(self) -> "Call":
        self.join(15)
        assert not self.is_alive()
        return self


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_with_code_0(tmp_path: Path, number: int):
    with Small(tmp_path) as server:
        assert server.stop(number) == 0
        assert server.steps() == ["drain", "halt", "stop"]


def test_running_requests_finish_while_new_ones_are_told_that_it_is_draining(tmp_path: Path):
    """operations 76."""
    with Small(tmp_path) as server:
        call = Call(f"{server.url}/v1/slow/2.5")
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_output("halt")
        refused = eventually(lambda: (r := server.get("/v1/slow/0")).status_code == 503 and r, 2)
        assert refused.json() == {"error": {"message": "DRAINING", "type": "server_error", "param": None, "code": None}}
        health = server.get("/health")
        assert (health.status_code, health.text) == (503, "DRAINING")
        assert server.get("/healthz").status_code == 200
        assert server.exit_code() == 0
        assert (call.done().status, call.text, call.error) == (200, "late", "")
        with pytest.raises(httpx.ConnectError):
            server.get("/healthz")


def test_a_stream_that_outlives_its_budget_gets_its_terminal_frame(tmp_path: Path):
    """operations 77."""
    with Small(tmp_path, streams=0.3, drain=3.0) as server:
        call = Call(f"{server.url}/v1/stream")
        assert server.stop() == 0
        assert call.done().error == ""
        assert call.text.endswith("data: chunk\n\ndata: terminal\n\n")


def test_event_streams_end_first_and_hold_nothing_up(tmp_path: Path):
    """operations 51."""
    with Small(tmp_path) as server:
        calls = [Call(f"{server.url}/api/events") for _ in range(50)]
        assert server.stop() == 0
        assert {(call.done().text, call.error) for call in calls} == {(": connected\n\n", "")}


def test_what_does_not_end_is_cut_and_the_code_is_still_0(tmp_path: Path):
    with Small(tmp_path, streams=0.1, drain=0.3) as server:
        call = Call(f"{server.url}/v1/stuck")
        assert server.stop() == 0
        assert call.done().error == "RemoteProtocolError"
        assert server.steps() == ["drain", "halt", "cut", "stop"]


def test_a_second_signal_ends_at_once(tmp_path: Path):
    with Small(tmp_path) as server:
        Call(f"{server.url}/v1/stuck")
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_output("halt")
        assert server.stop(signal.SIGTERM) == serving.SECOND_SIGNAL
        assert "stop" not in server.steps()


def test_a_process_never_outlives_its_budget(tmp_path: Path):
    with Small(tmp_path, streams=9.0, drain=10.0, budget=0.4) as server:
        Call(f"{server.url}/v1/stuck")
        assert server.stop() == 1


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "http://127.0.0.1:"), ("0.0.0.0", "http://127.0.0.1:"), ("::1", "http://[::1]:")]
)
def test_the_address_shown_can_be_opened(host: str, shown: str):
    with serving.bind(host, 0, None) as sock:
        assert serving.address(sock).startswith(shown)


def test_a_port_in_use_is_known_before_anything_starts():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        serving.bind("127.0.0.1", taken.getsockname()[1], None)


def test_a_unix_socket_replaces_a_stale_one(tmp_path: Path):
    path = str(tmp_path / "mh.sock")
    for _ in range(2):
        with serving.bind("", 0, path) as sock:
            assert serving.address(sock) == f"unix:{path}"


# -- several workers

WORKER = """
import os, signal, sys, time
stop = []
signal.signal(signal.SIGTERM, lambda *a: stop.append(1) if {polite} else None)
open(os.path.join({here!r}, str(os.getpid())), "w").close()
while not stop:
    time.sleep(0.01)
sys.exit({code})
"""
SUPERVISE = """
import socket, sys
from modelhotel.ops.supervisor import Supervisor
sock = socket.socket()
sys.exit(Supervisor([sys.executable, "-c", {worker!r}], sock, 2, {{}}).run())
"""


class Supervised(Product):
    def __init__(self, data_dir: Path, polite: bool = True, code: int = 0) -> None:
        worker = WORKER.format(here=str(data_dir), polite=polite, code=code)
        self.script = SUPERVISE.format(worker=worker)
        super().__init__(data_dir, wait=False)

    def _command(self, server: str, args: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-c", self.script]

    def workers(self) -> set[int]:
        return {int(file.name) for file in self.data_dir.iterdir() if file.name.isdigit() and _alive(int(file.name))}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _until(check: Callable[[], bool]) -> None:
    assert eventually(check)


@pytest.mark.parametrize(("code", "whole"), [(0, 0), (3, 1)])
def test_workers_end_together_and_their_codes_count(tmp_path: Path, code: int, whole: int):
    with Supervised(tmp_path, code=code) as node:
        _until(lambda: len(node.workers()) == 2)
        assert node.stop() == whole
        assert node.workers() == set()


def test_a_worker_that_died_is_replaced(tmp_path: Path):
    with Supervised(tmp_path) as node:
        _until(lambda: len(node.workers()) == 2)
        killed = min(node.workers())
        os.kill(killed, signal.SIGKILL)
        _until(lambda: len(node.workers() - {killed}) == 2)
        assert node.stop() == 0


def test_a_second_signal_ends_stubborn_workers(tmp_path: Path):
    with Supervised(tmp_path, polite=False) as node:
        _until(lambda: len(node.workers()) == 2)
        node.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert node.stop() == serving.SECOND_SIGNAL
        assert node.workers() == set()
