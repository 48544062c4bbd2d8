"""``make bench``: /v1 of the whole product against the plain-ASGI floor, interleaved in one run.

    python -m tests.bench.smoke [ROUNDS] [SECONDS]

Key check, breaker, metering and request log are on, one process, SQLite. The gateway under load is pinned to one core,
upstream and load generator (C, built into a scratch folder) to the other. The machines are noisy: what counts is the
ratio of the two in the same run, its median over the rounds.
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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.wire.product import ROOT, Product, free_port

HERE = Path(__file__).resolve().parent
KEY = "sk-upstream"
MODES = {"plain": ["-m", "plain", "-c", "16"], "stream": ["-m", "stream", "-c", "16"]}


@dataclass(frozen=True)
class Target:
    name: str
    port: int
    model: str
    key: str
    pid: int


def tools(folder: Path) -> None:
    """Compile the upstream and the load generator; raises when there is no C compiler."""
    for name in ("mock", "loadgen"):
        subprocess.run(["gcc", "-O2", "-w", "-o", str(folder / name), str(HERE / f"{name}.c")], check=True, timeout=60)


def pinned(core: int, *command: str) -> list[str]:
    """On a machine of one core, or without taskset, there is nothing to pin."""
    if shutil.which("taskset") is None or (os.cpu_count() or 1) < 2:
        return list(command)
    return ["taskset", "-c", str(core), *command]


@contextmanager
def running(command: list[str], port: int):
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 15
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"did not start: {command}") from None
                time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait(15)


def product_target(product: Product, upstream: str) -> Target:
    def made(path: str, body: dict) -> dict:
        response = product.api("POST", path, json=body)
        assert response.status_code == 201, response.text
        return response.json()

    provider = made("/api/providers", {"name": "P", "base_url": f"{upstream}/v1", "api_key": KEY})
    found = product.api("POST", f"/api/providers/{provider['id']}/discover")
    assert found.json()["discovered"] == 1, found.text
    key = made("/api/virtual-keys", {"name": "bench"})["key"]
    if shutil.which("taskset") is not None and (os.cpu_count() or 1) >= 2:
        subprocess.run(
            ["taskset", "-a", "-p", "-c", "0", str(product.process.pid)], check=True, stdout=subprocess.DEVNULL
        )
    return Target("model hotel", int(product.url.rpartition(":")[2]), "P/up-model", key, product.process.pid)


def load(folder: Path, target: Target, mode: str, seconds: float) -> dict:
    command = [str(folder / "loadgen"), "-p", str(target.port), "-M", target.model, "-k", target.key]
    command += [*MODES[mode], "-d", str(seconds), "-w", "0.2", "-P", str(target.pid)]
    done = subprocess.run(pinned(1, *command), capture_output=True, text=True, timeout=seconds + 30, check=True)
    figures = json.loads(done.stdout)
    assert not figures["bad_status"] and not figures["bad_body"], figures
    return figures


def run(rounds: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    """mode -> name -> requests per second (streams: chunks per second) of each round."""
    rates: dict[str, dict[str, list[float]]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mh-bench-")))
        tools(folder)
        upstream_port, floor_port = free_port(), free_port()
        upstream = f"http://127.0.0.1:{upstream_port}"
        stack.enter_context(running(pinned(1, str(folder / "mock"), str(upstream_port), KEY), upstream_port))
        floor = stack.enter_context(
            running(pinned(0, sys.executable, "-m", "tests.bench.floor", str(floor_port), upstream), floor_port)
        )
        product = stack.enter_context(Product(folder / "data"))
        targets = [Target("floor", floor_port, "floor", "sk-floor", floor.pid), product_target(product, upstream)]
        for target in targets:
            load(folder, target, "plain", 0.3)
        for _ in range(rounds):
            for mode in MODES:
                for target in targets:
                    figures = load(folder, target, mode, seconds)
                    rate = figures["rate"] if mode == "plain" else figures["chunks_s"]
                    rates.setdefault(mode, {}).setdefault(target.name, []).append(rate)
    return rates


def ratio(rates: dict[str, list[float]]) -> float:
    return statistics.median(ours / floor for ours, floor in zip(rates["model hotel"], rates["floor"], strict=True))


def table(rates: dict[str, dict[str, list[float]]]) -> str:
    lines = ["| 16 clients | floor | model hotel | ratio |", "|---|---|---|---|"]
    for mode, unit in (("plain", "requests/s"), ("stream", "chunks/s")):
        found = rates[mode]
        floor, ours = (round(statistics.median(found[name])) for name in ("floor", "model hotel"))
        lines.append(f"| {unit} | {floor:,} | {ours:,} | {ratio(found):.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    print(table(run(int(arguments[0]) if arguments else 5, float(arguments[1]) if len(arguments) > 1 else 1.5)))
