"""What the bench needs from the machine: cores, processes on them, what they use, and the two C programs."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

HERE = Path(__file__).parent
START_SECONDS = 60.0
STOP_SECONDS = 15.0


class BenchFailed(AssertionError):
    """Something did not start, or answered wrongly: there is nothing to compare."""


def compiler() -> str | None:
    return shutil.which("gcc") or shutil.which("cc")


def build(scratch: Path) -> None:
    """Compile mock and loadgen into *scratch*. Raises BenchFailed."""
    gcc = compiler()
    if gcc is None:
        raise BenchFailed("the bench needs gcc for its mock and its load generator (apt-get install gcc libc6-dev)")
    for name in ("mock", "loadgen"):
        made = subprocess.run(
            [gcc, "-O2", "-o", str(scratch / name), str(HERE / f"{name}.c")], capture_output=True, text=True, timeout=60
        )
        if made.returncode:
            raise BenchFailed(made.stderr)


def cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def pair() -> tuple[set[int], set[int]]:
    """(core of the server, core of mock and load); the same one on a machine with one core."""
    found = cores()
    return {found[0]}, {found[1] if len(found) > 1 else found[0]}


def pin(pids: Iterable[int], to: set[int]) -> None:
    """Move every thread of *pids*; what is gone or not ours stays as it is."""
    for pid in pids:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                os.sched_setaffinity(int(thread), to)


def family(pid: int) -> list[int]:
    """*pid* and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(entry))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


def rss(pids: Iterable[int]) -> float:
    """Resident megabytes (10^6 bytes) of all of them; shared pages count once per process."""
    pages = 0
    for pid in pids:
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def freeze(pids: Iterable[int], frozen: bool) -> None:
    """Stop processes, or let them run again: one that idles must not cost those under load anything."""
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)


@contextmanager
def running(argv: list[str], log: Path, to: set[int], env: Mapping[str, str] | None = None) -> Iterator[int]:
    """A process (its pid) on the cores *to* whose family is ended afterwards; it writes to *log*."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(
            argv, env=dict(env) if env else None, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        pin([process.pid], to)
        try:
            yield process.pid
        finally:
            end(process)


def end(process: subprocess.Popen[Any]) -> None:
    freeze(family(process.pid), False)  # who is stopped does not hear SIGTERM
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for pid in family(process.pid):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        process.wait(5)


def _ended(pid: int) -> bool:
    """Whether our child *pid* is over (it is a zombie until it is waited for)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def await_answer(pid: int, port: int, log: Path, path: str = "", seconds: float = START_SECONDS) -> None:
    """Wait until *pid* accepts on *port*, or answers 200 on *path*. Raises BenchFailed with the end of *log*."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not _ended(pid):
        try:
            if path:
                if httpx.get(f"http://127.0.0.1:{port}{path}", timeout=2, trust_env=False).status_code == 200:
                    return
            else:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
        except (OSError, httpx.TransportError):
            pass
        time.sleep(0.01)
    raise BenchFailed(f"nothing answers on port {port}:\n{log.read_text()[-2000:]}")


def load(argv: list[str], to: set[int], seconds: float) -> dict[str, Any]:
    """Run the load generator to its end; what it measured. *seconds* is what it should need."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    pin([process.pid], to)
    try:
        out, _ = process.communicate(timeout=30 + seconds)
    except BaseException:
        process.kill()
        process.wait(5)
        raise
    if process.returncode:
        raise BenchFailed(f"exit code {process.returncode}: {' '.join(argv)}")
    figures: dict[str, Any] = json.loads(out)
    return figures
