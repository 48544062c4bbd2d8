"""``make bench-smoke``: the product's ``/v1`` against the plain-ASGI floor, measured in one interleaved run.

    python -m tests.bench.smoke [ROUNDS] [SECONDS]

Server and load run on cores of their own, one server at a time is under load, rounds alternate, medians count. The
product is the whole of it: ``manage.py serve`` with SQLite and its default log (into a file), two providers, a group,
a virtual key, everything made through ``/api``; its model is asked for as ``hotel/...``. Needs gcc. Exit code 1 when
the ratio is below the target. ``make bench`` (:mod:`tests.bench.full`) is the long one, with other gateways beside it.
"""

import statistics
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench import floor_names, hotel, machine
from tests.bench.machine import BenchFailed
from tests.wire.product import environment, free_port

TARGET = 0.35  # of the floor's requests per second at 16 clients
CLIENTS = 16
WARMUP = 0.3  # seconds


@dataclass
class Figures:
    """What one side showed, one entry per round."""

    name: str
    plain: list[dict[str, Any]] = field(default_factory=list)
    stream: list[dict[str, Any]] = field(default_factory=list)

    def median(self, kind: str, what: str) -> float:
        return statistics.median(run[what] for run in getattr(self, kind))


@dataclass
class Result:
    floor: Figures
    product: Figures

    def ratio(self, kind: str, *, by_cpu: bool = False) -> float:
        """The median over the rounds of product by floor: answers per second, or per CPU second of the server.

        The second is steadier where the machine has neighbours, and counts every thread of the product.
        """
        rounds = zip(getattr(self.product, kind), getattr(self.floor, kind), strict=True)
        return statistics.median(_rate(ours, by_cpu) / _rate(floor, by_cpu) for ours, floor in rounds)

    def table(self) -> str:
        lines = ["| 16 clients | floor | /v1 | ratio | ratio per CPU second |", "|---|---|---|---|---|"]
        for kind, unit, what in (("plain", "requests/s", "rate"), ("stream", "chunks/s", "chunks")):
            floor, ours = (side.median(kind, what) for side in (self.floor, self.product))
            cpu = self.ratio(kind, by_cpu=True)
            lines.append(f"| {unit} | {floor:,.0f} | {ours:,.0f} | {self.ratio(kind):.2f} | {cpu:.2f} |")
        for what in ("p50", "p99"):
            floor, ours = (side.median("plain", what) for side in (self.floor, self.product))
            lines.append(f"| {what}, ms | {floor:.2f} | {ours:.2f} | | |")
        return "\n".join(lines)


def _rate(run: dict[str, Any], by_cpu: bool) -> float:
    return float(run["rate"] * run["seconds"] / max(run["cpu"], 0.01) if by_cpu else run["rate"])


def floor_command(port: int) -> list[str]:
    command = [sys.executable, "-m", "uvicorn", "tests.bench.floor:application", "--port", str(port)]
    command += ["--loop", "uvloop", "--http", "httptools", "--lifespan", "off"]
    return [*command, "--no-access-log", "--log-level", "warning", "--backlog", "4096"]


def floor_environment(data_dir: Path, upstream: str) -> dict[str, str]:
    told = {"UPSTREAM_URL": upstream, "UPSTREAM_KEY": hotel.UPSTREAM_KEY, "UPSTREAM_MODEL": hotel.UPSTREAM_MODEL}
    return environment(data_dir, told)


def measure(rounds: int = 3, seconds: float = 0.8) -> Result:
    """The whole run. Raises BenchFailed when one answer of either side was wrong."""
    server_cores, load_cores = machine.pair()
    result = Result(Figures("floor"), Figures("/v1"))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mh-bench-")))
        machine.build(scratch)
        ports = {name: free_port() for name in ("mock", "floor", "product")}
        upstream = f"http://127.0.0.1:{ports['mock']}/v1"

        def start(name: str, argv: list[str], to: set[int], env: Mapping[str, str] | None, path: str = "") -> int:
            log = scratch / f"{name}.log"
            pid = stack.enter_context(machine.running(argv, log, to, env))
            machine.await_answer(pid, ports[name], log, path)
            return pid

        mock = [str(scratch / "mock"), str(ports["mock"]), hotel.UPSTREAM_KEY, hotel.UPSTREAM_MODEL]
        start("mock", mock, load_cores, None)
        floor_env = floor_environment(scratch / "floor", upstream)
        floor_pid = start("floor", floor_command(ports["floor"]), server_cores, floor_env)
        own = hotel.surroundings(scratch / "data")
        product_pid = start("product", hotel.serve(ports["product"]), server_cores, own, "/health")
        key = hotel.set_up(ports["product"], upstream)

        def load(side: Figures, port: int, model: str, key: str, pid: int, kind: str) -> None:
            argv = [str(scratch / "loadgen"), "-p", str(port), "-m", model, "-k", key, "-c", str(CLIENTS)]
            argv += ["-w", str(WARMUP), "-d", str(seconds), "-P", str(pid)]
            figures = machine.load(argv + (["-s"] if kind == "stream" else []), load_cores, seconds)
            if figures["bad"] or figures["failures"] or not figures["rate"]:
                raise BenchFailed(f"{side.name}, {kind}: {figures}")
            getattr(side, kind).append(figures)

        for _ in range(rounds):
            for kind in ("plain", "stream"):
                load(result.floor, ports["floor"], floor_names.MODEL, floor_names.KEY, floor_pid, kind)
                load(result.product, ports["product"], hotel.MODEL, key, product_pid, kind)
    return result


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.5
    try:
        result = measure(rounds, seconds)
    except BenchFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    print(result.table())
    met = result.ratio("plain") >= TARGET
    print(f"target {TARGET} of the floor's requests/s: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
