"""Several worker processes behind one socket: starts them, replaces one that died, stops them together."""

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

from modelhotel.ops.serving import BUDGET, SECOND_SIGNAL

_TURN = 0.1
#: A worker that dies within _YOUNG seconds after its start is replaced _PAUSE seconds later, others at once.
_YOUNG, _PAUSE = 5.0, 1.0
log = logging.getLogger("supervisor")


class Supervisor:
    """*command* starts one worker, which inherits *sock* (its number is appended to the command) and *environ*.

    *died* is told the process id of each that has ended before its time.
    """

    def __init__(
        self,
        command: Sequence[str],
        sock: socket.socket,
        workers: int,
        environ: dict[str, str],
        died: Callable[[int], object] = lambda pid: None,
    ) -> None:
        self._command = [*command, str(sock.fileno())]
        self._sock = sock
        self._workers = workers
        self._environ = environ
        self._died = died
        self._children: list[subprocess.Popen[bytes]] = []
        self._born: dict[int, float] = {}
        self._due: list[float] = []
        self._signals = 0

    def _spawn(self) -> None:
        # A session of its own: Ctrl-C goes to the whole group, and a worker takes a second signal as "at once".
        child = subprocess.Popen(
            self._command, pass_fds=[self._sock.fileno()], env=self._environ, start_new_session=True
        )
        self._children.append(child)
        self._born[child.pid] = time.monotonic()

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    def run(self) -> int:
        """The exit code of the whole: 0 when every worker ended with 0."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signal)
        for _ in range(self._workers):
            self._spawn()
        while not self._signals:
            time.sleep(_TURN)
            self._replace()
        return self._stop()

    def _replace(self) -> None:
        now = time.monotonic()
        for child in [child for child in self._children if child.poll() is not None]:
            log.error("supervisor: worker died", extra={"attrs": {"pid": child.pid, "code": child.returncode}})
            self._children.remove(child)
            self._bury(child.pid)
            self._due.append(now if now - self._born.pop(child.pid) >= _YOUNG else now + _PAUSE)
        for due in [due for due in self._due if due <= now]:
            self._due.remove(due)
            self._spawn()

    def _bury(self, pid: int) -> None:
        try:
            self._died(pid)
        except Exception:
            log.exception("supervisor: what a dead worker left could not be put in order")

    def _stop(self) -> int:
        self._sock.close()
        self._tell(signal.SIGTERM)
        deadline = time.monotonic() + BUDGET
        while any(child.poll() is None for child in self._children):
            if self._signals > 1 or time.monotonic() > deadline:
                self._tell(signal.SIGKILL)
                for child in self._children:
                    child.wait()
                return SECOND_SIGNAL if self._signals > 1 else 1
            time.sleep(_TURN)
        return 0 if all(child.returncode == 0 for child in self._children) else 1

    def _tell(self, number: int) -> None:
        for child in self._children:
            if child.poll() is None:
                child.send_signal(number)


def command() -> list[str]:
    """How a worker is started: this very command line's interpreter and manage.py."""
    return [sys.executable, os.path.abspath(sys.argv[0]), "serve", "--worker"]
