"""Targets run with many inputs: each within its time, all of them within their memory, and none may raise."""

import gc
import signal
import sys
import time
import traceback
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from tests.fuzz.mutate import Mutator
from tests.fuzz.registry import TARGETS, Target

SECONDS_PER_INPUT = 1.0
"""CPU time of one input of at most 8 KiB; it usually takes a ten thousandth of it."""
GROWTH = 48 * 1024 * 1024
"""Bytes by which one run of a target, or all turns of all of them, may let the process grow."""
LARGE = 256 * 1024
"""Bytes of the inputs that show what one input costs."""
LARGE_SECONDS = 4.0
FACTOR = 120
"""Bytes of memory at most for one byte of a large input: decoded JSON takes 64 for two bytes ``[]``."""
DIFFERENT = 20
"""Findings of one target after which it is left."""
_BATCH = 512
"""Inputs between two looks at the clock."""
_WARM = 2048
"""Inputs after which a process that goes on growing does so for good."""


class TooSlow(BaseException):
    """One input took longer than it may. No Exception, so that nothing takes it for a broken input."""


@dataclass
class Finding:
    """*where*: file and line of the product, or of the check that failed."""

    target: str
    what: str
    where: str
    data: bytes


@dataclass
class Outcome:
    """What became of one target. *seconds* of CPU time, *grown* bytes."""

    target: str
    inputs: int = 0
    seconds: float = 0.0
    grown: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, more: "Outcome") -> list[Finding]:
        """Another run of the same target; the findings that are new."""
        self.inputs += more.inputs
        self.seconds += more.seconds
        self.grown = max(self.grown, more.grown)
        known = {(found.what, found.where) for found in self.findings}
        new = [found for found in more.findings if (found.what, found.where) not in known]
        self.findings += new
        return new


@contextmanager
def _watched() -> Iterator[None]:
    """CPU time is watched with a signal, which reaches regular expressions and loops alike."""

    def late(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, late)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def try_one(name: str, data: bytes, seconds: float | None = None) -> Finding | None:
    """The fault that *data* shows; only inside :func:`_watched`."""
    allowed = SECONDS_PER_INPUT if seconds is None else seconds
    signal.setitimer(signal.ITIMER_VIRTUAL, allowed)
    try:
        TARGETS[name].run(data)
    except TooSlow as problem:
        return Finding(name, f"over {allowed:g} s", _place(problem), data)
    except Exception as problem:
        return Finding(name, type(problem).__name__, _place(problem), data)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def _place(problem: BaseException) -> str:
    frames = traceback.extract_tb(problem.__traceback__)
    root = str(Path(__file__).resolve().parents[2]) + "/"
    ours = [frame for frame in frames if frame.filename.startswith(root) and "engine.py" not in frame.filename]
    frame = ours[-1] if ours else frames[-1]
    return f"{frame.filename.removeprefix(root)}:{frame.lineno}"


def run(name: str, inputs: int, *, number: int = 0, until: float = float("inf")) -> Outcome:
    """*inputs* changed seeds of a target; *number* makes other ones of it. Ends early at *until* (monotonic)."""
    target = TARGETS[name]
    made = Mutator(target.seeds, number)
    outcome = Outcome(name)
    places: set[str] = set()
    before = 0
    start = time.process_time()
    with _watched():
        for at in range(inputs):
            if at % _BATCH == 0 and time.monotonic() >= until:
                break
            if at == min(_WARM, inputs // 2):
                before = resident()
            data = made.next() if at >= len(target.seeds) else target.seeds[at]
            found = try_one(name, data)
            outcome.inputs += 1
            if found is None:
                if at % 64 == 0:
                    made.keep(data)
            elif found.where not in places:
                places.add(found.where)
                outcome.findings.append(found)
                if len(places) >= DIFFERENT:
                    break
    outcome.seconds = time.process_time() - start
    if before:
        gc.collect()
        outcome.grown = max(resident() - before, 0)
        if outcome.grown > GROWTH:
            outcome.findings.append(grew(name, outcome.grown))
    return outcome


def grew(name: str, size: int) -> Finding:
    return Finding(name, f"grew by {size >> 10} KiB", name, b"")


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * 4096


def large(target: Target) -> Iterator[bytes]:
    """Each seed made large in the ways that cost most."""
    for seed in target.seeds[:3]:
        times = LARGE // (len(seed) + 1)
        yield seed * times
        for mark in (b"[", b":", b'"', b"\n\n"):
            at = seed.find(mark)
            if at >= 0:
                yield seed[: at + len(mark)] + (seed[at + len(mark) : at + 60] or b" ") * (LARGE // 60) + seed[at:]
        middle = len(seed) // 2
        for filler in (b" ", b"[", b'{"":', b"\r", b"<think></think>", b"_thoughtsig_YQ", b"a ", b"\\u0000", b"1"):
            yield seed[:middle] + filler * (LARGE // len(filler)) + seed[middle:]


def run_large(name: str) -> Outcome:
    """What large inputs cost: time and memory stay within a factor of their size."""
    outcome = Outcome(name)
    start = time.process_time()
    places: set[str] = set()
    with _watched():
        for data in large(TARGETS[name]):
            tracemalloc.start()
            try:
                found = try_one(name, data, LARGE_SECONDS)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            outcome.inputs += 1
            if found is None and peak > FACTOR * len(data) + LARGE:
                found = Finding(name, f"{peak // len(data)} bytes per byte", name, data)
            if found is not None and found.where not in places:
                places.add(found.where)
                outcome.findings.append(found)
    outcome.seconds = time.process_time() - start
    return outcome


def tell(finding: Finding) -> None:
    """Print a finding with enough of its input to see it."""
    shown = finding.data if len(finding.data) <= 2000 else finding.data[:1000] + b"..." + finding.data[-200:]
    print(f"{finding.target}: {finding.what} at {finding.where}\n    {shown!r}", file=sys.stderr, flush=True)
