"""``make bench``: the product's ``/v1`` against the plain-ASGI floor, measured in one interleaved run.

    python -m tests.bench.smoke [ROUNDS] [SECONDS]

Server and load run on cores of their own, one server at a time is under load, rounds alternate, medians count. The
product is the whole of it: ``manage.py serve`` with SQLite and its default log (into a file), two providers, a group,
a virtual key, everything made through ``/api``; its model is asked for as ``hotel/...``. Needs gcc. Exit code 1 when
the ratio is below the target.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.bench import floor_names
from tests.wire.product import ROOT, environment, free_port

HERE = Path(__file__).parent
TARGET = 0.35  # of the floor's requests per second at 16 clients
CLIENTS = 16
WARMUP = 0.3  # seconds
START_SECONDS = 30.0
UPSTREAM_KEY = "sk-upstream-0123456789"
UPSTREAM_MODEL = "up-model"
ADMIN_TOKEN = "bench-admin-token-bench-admin-token"


class BenchFailed(AssertionError):
    """Something did not start, or answered wrongly: there is nothing to compare."""


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


def _cores() -> tuple[int | None, int | None]:
    """(core of the server, core of mock and load); None on a machine with one core."""
    cores = sorted(os.sched_getaffinity(0))
    return (cores[0], cores[1]) if len(cores) > 1 else (None, None)


def _pin(process: subprocess.Popen[Any], core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(process.pid, {core})


@contextmanager
def running(argv: list[str], log: Path, core: int | None, env: Mapping[str, str] | None = None) -> Iterator[int]:
    """A process pinned to *core* that is ended afterwards; its pid."""
    with log.open("w") as out:
        process = subprocess.Popen(
            argv, env=dict(env) if env else None, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        _pin(process, core)
        try:
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)


def _await_port(port: int, log: Path, path: str = "") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if path:
                if httpx.get(f"http://127.0.0.1:{port}{path}", timeout=2, trust_env=False).status_code == 200:
                    return
            else:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
        except (OSError, httpx.TransportError):
            pass
        time.sleep(0.05)
    raise BenchFailed(f"nothing answers on port {port}:\n{log.read_text()[-2000:]}")


def _set_up(port: int, upstream: str) -> tuple[str, str]:
    """Two providers, their models and group, one virtual key, all through the API: (key, model to ask for)."""
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}/api",
        headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
        timeout=20,
        trust_env=False,
    ) as api:

        def call(method: str, path: str, body: Any = None) -> Any:
            answer = api.request(method, path, json=body)
            if answer.status_code >= 300:
                raise BenchFailed(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
            return answer.json()

        for name in ("bench-one", "bench-two"):
            data = {"name": name, "provider_type": "custom", "base_url": upstream, "api_key": UPSTREAM_KEY}
            call("POST", f"/providers/{call('POST', '/providers', data)['id']}/discover")
        groups = [group["display_model"] for group in call("GET", "/failover-groups")["groups"]]
        if UPSTREAM_MODEL not in groups:
            raise BenchFailed(f"no group {UPSTREAM_MODEL} formed: {groups}")
        return call("POST", "/virtual-keys", {"name": "bench"})["key"], f"hotel/{UPSTREAM_MODEL}"


def measure(rounds: int = 3, seconds: float = 0.8) -> Result:
    """The whole run. Raises BenchFailed when one answer of either side was wrong."""
    server_core, load_core = _cores()
    result = Result(Figures("floor"), Figures("/v1"))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mh-bench-")))
        build(scratch)
        ports = {name: free_port() for name in ("mock", "floor", "product")}
        upstream = f"http://127.0.0.1:{ports['mock']}/v1"

        def start(name: str, argv: list[str], core: int | None, env: Mapping[str, str] | None, path: str = "") -> int:
            log = scratch / f"{name}.log"
            pid = stack.enter_context(running(argv, log, core, env))
            _await_port(ports[name], log, path)
            return pid

        mock = [str(scratch / "mock"), str(ports["mock"]), UPSTREAM_KEY, UPSTREAM_MODEL]
        start("mock", mock, load_core, None)
        told = {"UPSTREAM_URL": upstream, "UPSTREAM_KEY": UPSTREAM_KEY, "UPSTREAM_MODEL": UPSTREAM_MODEL}
        floor = [sys.executable, "-m", "uvicorn", "tests.bench.floor:application", "--port", str(ports["floor"])]
        floor += ["--loop", "uvloop", "--http", "httptools", "--lifespan", "off"]
        floor += ["--no-access-log", "--log-level", "warning"]
        floor_pid = start("floor", floor, server_core, environment(scratch / "floor", told))
        product = [sys.executable, str(ROOT / "manage.py"), "serve", "--port", str(ports["product"])]
        own = environment(scratch / "data", {"ADMIN_TOKEN": ADMIN_TOKEN})
        product_pid = start("product", product, server_core, own, "/health")
        key, model = _set_up(ports["product"], upstream)

        def load(side: Figures, port: int, model: str, key: str, pid: int, kind: str) -> None:
            argv = [str(scratch / "loadgen"), str(port), model, key, kind, str(CLIENTS), str(WARMUP), str(seconds)]
            process = subprocess.Popen([*argv, str(pid)], stdout=subprocess.PIPE, text=True)
            _pin(process, load_core)
            out, _ = process.communicate(timeout=30 + seconds)
            figures = json.loads(out)
            if figures["bad"] or figures["failures"] or not figures["rate"]:
                raise BenchFailed(f"{side.name}, {kind}: {out}")
            getattr(side, kind).append(figures)

        for _ in range(rounds):
            for kind in ("plain", "stream"):
                load(result.floor, ports["floor"], floor_names.MODEL, floor_names.KEY, floor_pid, kind)
                load(result.product, ports["product"], model, key, product_pid, kind)
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
