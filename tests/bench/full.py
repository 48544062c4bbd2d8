"""``make bench``: the product, two other gateways, nginx and the plain-ASGI floor in one run on one machine.

    python -m tests.bench.full [--quick] [--only NAME,...] [--write] [--from FILE]

Every server runs on core 0, mock and load on core 1, one server at a time is under load and the slow ones are frozen
meanwhile; rounds alternate, and a ratio is the median of the ratios of the rounds. The figures go to
``.bench/results.json``; ``--write`` puts the tables into docs/performance.md, ``--from`` makes them from such a file
without measuring. Exit code 1 when a target is missed or an answer of the product was wrong.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import floor_names, hotel, machine, report, rows, smoke, special, workers
from tests.bench.machine import BenchFailed
from tests.bench.peers import PEERS, LeftOut, Side
from tests.wire.product import ROOT, free_port

RESULTS = ROOT / ".bench/results.json"
PAGE = ROOT / "docs/performance.md"
SETTLE = 0.5  # seconds between two loads of a slow side, for what it still has to do
EXTRAS = ("starts", "big", "workers")


@dataclass(frozen=True)
class Plan:
    """*slow* rounds of the slow sides are spread over *rounds*; *factor* shortens every window."""

    rounds: int
    slow: int
    factor: float
    models: int
    rows: int


FULL = Plan(rounds=5, slow=3, factor=1.0, models=10_000, rows=1_000_000)
QUICK = Plan(rounds=1, slow=1, factor=0.5, models=10_000, rows=1_000_000)


@dataclass
class Bench:
    """Everything that runs, and what was found so far (the shape is in :mod:`tests.bench.report`)."""

    stack: ExitStack
    scratch: Path
    plan: Plan
    mock: tuple[int, int] = (0, 0)
    sides: list[Side] = field(default_factory=list)
    pids: dict[str, int] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)

    def start(self, side: Side) -> None:
        """Raises BenchFailed."""
        log = self.scratch / side.name.replace(" ", "-") / "log"
        began = time.monotonic()
        self.pids[side.name] = self.stack.enter_context(machine.running(side.argv, log, machine.pair()[0], side.env))
        machine.await_answer(self.pids[side.name], side.port, log, side.path)
        self.found["ready"][side.name] = time.monotonic() - began
        self.sides.append(side)

    def family(self, side: Side) -> list[int]:
        return machine.family(self.pids[side.name])

    def note_rss(self, side: Side) -> None:
        self.found["rss"].setdefault(side.name, []).append(machine.rss(self.family(side)))

    def load(self, side: Side, load: rows.Load, number: int) -> None:
        figures = rows.put(
            rows.scaled(load, self.plan.factor), side, self.family(side), self.scratch, machine.pair()[1]
        )
        self.note(side, load.name, number, figures)

    def note(self, side: Side, name: str, number: int, figures: Mapping[str, Any]) -> None:
        self.found["runs"].append({"side": side.name, "load": name, "round": number, **figures})
        self.note_rss(side)
        shown = f"{figures['rate']:,.0f}/s, p50 {figures['p50']:.2f} ms, p99 {figures['p99']:.2f} ms"
        wrong = rows.wrong(dict(figures))
        say(f"{side.name:12} {name:10} {shown}" + (f", WRONG {wrong} {figures['sample']}" if wrong else ""))


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def start_all(bench: Bench, only: list[str]) -> None:
    """The mock, then every side; a peer that is missing or does not start is noted as left out."""
    scratch, upstream = bench.scratch, free_port()
    argv = [str(scratch / "mock"), str(upstream), hotel.UPSTREAM_KEY, hotel.UPSTREAM_MODEL]
    log = scratch / "mock.log"
    bench.mock = (bench.stack.enter_context(machine.running(argv, log, machine.pair()[1])), upstream)
    machine.await_answer(bench.mock[0], upstream, log)
    direct = Side("direct", port=upstream, key=hotel.UPSTREAM_KEY)
    bench.sides.append(direct)
    bench.pids["direct"] = bench.mock[0]
    for name, (make, _) in PEERS.items():
        if only and name not in only:
            continue
        try:
            side = make(free_port(), upstream, scratch / name)
            bench.start(side)
            bench.found["versions"][name] = side.version
            say(f"{name} {side.version} runs")
        except (LeftOut, BenchFailed) as why:
            bench.found["left_out"][name] = str(why).strip().splitlines()[-1]
            say(f"{name} left out: {why}")
    url = f"http://127.0.0.1:{upstream}/v1"
    port = free_port()
    side = Side("floor", "", smoke.floor_command(port), smoke.floor_environment(scratch / "floor", url), port)
    side.model, side.key = floor_names.MODEL, floor_names.KEY
    bench.start(side)
    bench.start(special.side(scratch))
    bench.sides[-1].key = hotel.set_up(bench.sides[-1].port, url)


def compare(bench: Bench) -> None:
    """The rounds: every side under every load, and the product with two people at its dashboard."""
    plan = bench.plan
    for number in range(plan.rounds):
        slow_too = number * plan.slow // plan.rounds != (number - 1) * plan.slow // plan.rounds
        for side in bench.sides:
            if side.slow and not slow_too:
                continue
            for other in bench.sides:
                if other.slow:
                    machine.freeze(bench.family(other), other is not side)
            for load in rows.LOADS:
                if side.slow:
                    time.sleep(SETTLE)
                bench.load(side, load, number)
            if side.name == special.NAME:
                told = special.with_dashboards(side, bench.family(side), bench.scratch, plan.factor)
                bench.note(side, "dashboards", number, told)
                url = f"http://127.0.0.1:{bench.mock[1]}/v1"
                told = special.translated(side, bench.family(side), bench.scratch, url, plan.factor)
                bench.note(side, special.TRANSLATED, number, told)
    for side in bench.sides:
        if side.slow:
            machine.freeze(bench.family(side), True)


def extras(bench: Bench, only: list[str]) -> None:
    """What is measured of the product alone, after the rounds. Raises BenchFailed."""
    plan, upstream = bench.plan, f"http://127.0.0.1:{bench.mock[1]}/v1"
    ours = bench.sides[-1]
    if not only or "starts" in only:
        bench.found["starts"] = special.starts(bench.scratch)
        say(f"ready after {', '.join(f'{s:.2f}' for s in bench.found['starts'])} s")
    if not only or "big" in only:
        sizes = (plan.models, plan.rows)
        told = special.lived_in(ours, bench.family(ours), bench.scratch, upstream, sizes, plan.rounds, plan.factor)
        bench.found["big"] = told
        say(f"{plan.models:,} models, {plan.rows:,} rows: ready after {told['ready_s']:.2f} s")
    if not only or "workers" in only:
        try:
            rounds = workers.measure(bench.scratch, bench.mock, plan.rounds, plan.factor, say)
            bench.found["workers"] = rounds
        except LeftOut as why:
            bench.found["left_out"]["two workers"] = str(why)


def _machine() -> dict[str, Any]:
    named = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": named[0].partition(":")[2].strip() if named else platform.machine(),
        "cores": len(machine.cores()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def measure(plan: Plan, only: list[str], command: str) -> dict[str, Any]:
    """One whole run: what :mod:`tests.bench.report` makes tables from. Raises BenchFailed."""
    began = time.time()
    found: dict[str, Any] = {
        "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "command": command,
        "machine": _machine(),
        "rounds": plan.rounds,
        **{name: {} for name in ("versions", "left_out", "ready", "rss")},
        "runs": [],
    }
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mh-bench-")))
        machine.build(scratch)
        bench = Bench(stack, scratch, plan, found=found)
        start_all(bench, only)
        if not only or set(only) - set(EXTRAS):
            compare(bench)
        extras(bench, only)
    found["took_s"] = time.time() - began
    return found


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.full")
    parser.add_argument("--quick", action="store_true", help="one short round: gross changes only")
    parser.add_argument("--only", default="", help=f"comma-separated: of {', '.join([*PEERS, *EXTRAS])}")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    parser.add_argument("--from", dest="source", type=Path, help="make the tables from this file, measure nothing")
    return parser.parse_args()


def main() -> int:
    args = parse()
    try:
        if args.source:
            found = json.loads(args.source.read_text())
        else:
            only = [name for name in args.only.split(",") if name]
            command = "make bench" + (" BENCH=--quick" if args.quick else "")
            found = measure(QUICK if args.quick else FULL, only, command)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(found, indent=1))
    except BenchFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    text = report.markdown(found)
    print(text)
    if args.write:
        PAGE.write_text(report.replaced(PAGE.read_text(), text))
    return 0 if report.fine(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
