"""``python -m tests.fuzz [--inputs N] [--only NAME ...] [--seconds S] [--seed K] [--atheris] [--large] [--write]``

Runs every target of the registry with N inputs made of its seeds, by turns and in this process, prints what it
finds and exits with 1 where that is anything. ``--only`` takes the beginning of a name, ``--seconds`` bounds the whole
run. ``--atheris`` makes the inputs by the coverage of the code (`pip install atheris`; it has wheels for Linux and no
Python newer than its last release, so the project does not require it). ``--large`` adds the inputs of 256 KiB that
bound time and memory, ``--write`` writes the results into docs/fuzzing.md.
"""

import argparse
import re
import subprocess
import sys
import time
from typing import IO

from tests.fuzz import page
from tests.fuzz.engine import DIFFERENT, GROWTH, Outcome, grew, resident, run, run_large, tell
from tests.fuzz.registry import TARGETS

SLICE = 10_000
"""Inputs of one target before it is the next one's turn."""
DAY = 86_400.0
_EXECUTED = re.compile(rb"stat::number_of_executed_units:\s*(\d+)")


def main() -> int:
    asked = _arguments()
    names = [name for name in TARGETS if not asked.only or any(name.startswith(only) for only in asked.only)]
    if not names:
        print(f"no target begins with {' or '.join(asked.only)}; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    until = time.monotonic() + asked.seconds
    if asked.atheris:
        return _with_atheris(names, asked.inputs, until, write=asked.write)
    outcomes = _in_turns(names, asked.inputs, asked.seed, until, write=asked.write)
    for name in names if asked.large else ():
        for finding in outcomes[name].add(run_large(name)):
            tell(finding)
    for outcome in outcomes.values():
        _tell(outcome)
    return int(any(outcome.findings for outcome in outcomes.values()))


def _in_turns(names: list[str], inputs: int, seed: int, until: float, *, write: bool) -> dict[str, Outcome]:
    """A slice of each, then the next of each: where the time is too short, it is too short for all of them alike."""
    outcomes = {name: Outcome(name) for name in names}
    warm = 0
    for turn, at in enumerate(range(0, inputs, SLICE)):
        for name, outcome in outcomes.items():
            if len(outcome.findings) < DIFFERENT and time.monotonic() < until:
                made = run(name, min(SLICE, inputs - at), number=(seed << 16) + turn, until=until)
                for finding in outcome.add(made):
                    tell(finding)
                if write:
                    page.write(outcome)
        warm = warm or resident()
    if resident() - warm > GROWTH:
        for finding in outcomes[names[0]].add(Outcome(names[0], findings=[grew("all of them", resident() - warm)])):
            tell(finding)
    return outcomes


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=20_000, help="per target (20000)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="the beginning of a target's name")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of the whole run")
    parser.add_argument("--seed", type=int, default=0, help="another number gives other inputs (0)")
    parser.add_argument("--atheris", action="store_true", help="inputs by coverage")
    parser.add_argument("--large", action="store_true", help="inputs of 256 KiB too")
    parser.add_argument("--write", action="store_true", help="results into docs/fuzzing.md")
    return parser.parse_args()


def _tell(outcome: Outcome) -> None:
    rate = outcome.inputs / outcome.seconds if outcome.seconds else 0
    grown = f", {outcome.grown >> 10} KiB more memory" if outcome.grown else ""
    print(f"{outcome.target}: {outcome.inputs} inputs, {outcome.seconds:.1f} s ({rate:.0f}/s){grown}", flush=True)


def _with_atheris(names: list[str], inputs: int, until: float, *, write: bool) -> int:
    """One process for each target, because libFuzzer ends its own; each gets its share of the time that is left."""
    failed = 0
    for at, name in enumerate(names):
        seconds = min((until - time.monotonic()) / (len(names) - at), DAY)
        if seconds < 1:
            break
        command = [sys.executable, "-m", "tests.fuzz.guided", name, str(inputs), str(seconds)]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            made = _follow(process.stderr)
        print(f"{name}: {made} inputs by coverage", flush=True)
        failed += process.returncode != 0
        if write and made and process.returncode == 0:
            page.write_guided(name, made)
    return int(failed > 0)


def _follow(said: IO[bytes]) -> int:
    """Pass on what libFuzzer says, but its progress; how many inputs it made."""
    made = 0
    for line in said:
        found = _EXECUTED.match(line)
        if found is not None:
            made = int(found[1])
        elif not line.startswith((b"INFO:", b"WARNING:", b"stat::")):
            sys.stderr.buffer.write(line)
    sys.stderr.flush()
    return made


if __name__ == "__main__":
    sys.exit(main())
