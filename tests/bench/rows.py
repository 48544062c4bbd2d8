"""The loads of the bench, and how one of them is put on one side."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.bench import machine
from tests.bench.peers import Side

PACE = 20  # ms between the chunks of a paced stream
PACED_CHUNKS = 50
SLOW_SECONDS = 2.5  # at least, of a side that gives few answers per second
SLOW_WARMUP = 1.0


@dataclass(frozen=True)
class Load:
    """Flags of the load generator. *seconds* of a paced load hold at least one whole stream."""

    name: str
    clients: int
    flags: tuple[str, ...] = ()
    ramp: float = 0.0
    warmup: float = 0.3
    seconds: float = 1.5

    @property
    def paced(self) -> bool:
        return "-i" in self.flags


_PACED = ("-s", "-n", str(PACED_CHUNKS), "-i", str(PACE))
LOADS = (
    Load("plain-1", 1),
    Load("plain-16", 16),
    Load("plain-64", 64),
    Load("body-16", 16, ("-b", "100000")),
    Load("stream-1", 1, ("-s",)),
    Load("stream-16", 16, ("-s",)),
    # The ramp spreads the streams over their own length, so that chunks come evenly and not in bursts.
    Load("paced-200", 200, _PACED, ramp=1.0, seconds=2.0),
    Load("paced-500", 500, _PACED, ramp=1.0, seconds=2.0),
)
#: A load by its name.
BY_NAME = {load.name: load for load in LOADS}


def scaled(load: Load, factor: float) -> Load:
    """The same for another length of run; a paced load keeps the length of one stream."""
    shortest = PACE * PACED_CHUNKS / 1000 if load.paced else 0.0
    return replace(load, seconds=max(shortest, load.seconds * factor))


def put(load: Load, side: Side, pids: Iterable[int], scratch: Path, to: set[int]) -> dict[str, Any]:
    """Load *side* from the cores *to*; what the generator says, CPU time being that of *pids*."""
    if side.slow:
        load = replace(load, warmup=SLOW_WARMUP, seconds=max(SLOW_SECONDS, load.seconds))
    argv = [str(scratch / "loadgen"), "-p", str(side.port), "-m", side.model, "-k", side.key]
    argv += ["-c", str(load.clients), "-w", str(load.warmup), "-d", str(load.seconds), "-r", str(load.ramp)]
    argv += [*load.flags, "-P", ",".join(map(str, pids))]
    argv += ["-H", side.header] if side.header else []
    return machine.load(argv, to, load.ramp + load.warmup + load.seconds)


def wrong(figures: dict[str, Any]) -> int:
    """Answers that were not what was asked for, connections that failed, streams that did not come to their end."""
    return int(figures["bad"] + figures["failures"] + figures["cut"])
