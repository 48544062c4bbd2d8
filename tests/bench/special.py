"""The rows that only the product has: dashboards open, a start that is timed, a house that has been lived in."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.bench import big, hotel, machine, rows
from tests.bench.machine import BenchFailed
from tests.bench.peers import Side
from tests.wire.product import ROOT, environment, free_port, manage

NAME = "Model Hotel"
PEOPLE = 2
#: Long enough that each of two people loads every page, and that 1 % of the answers are not all of one page load.
DASHBOARD_SECONDS = 6.0
STARTS = 3


def side(scratch: Path) -> Side:
    """The product on a database that is migrated before it starts, with one worker and everything on."""
    data = scratch / "hotel"
    made = manage(data, "migrate")
    if made.returncode:
        raise BenchFailed(f"migrate: {made.stderr[-500:]}")
    port = free_port()
    env = hotel.surroundings(data)
    return Side(NAME, "", hotel.serve(port), env, port, "/health", hotel.MODEL)


@contextmanager
def _people(url: str, to: set[int]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Two sessions that reload; call what is yielded once for their account of it."""
    argv = [sys.executable, "-m", "tests.bench.dashboards", url, str(PEOPLE)]
    env = environment(ROOT, {})
    process = subprocess.Popen(
        argv, env=env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    machine.pin([process.pid], to)
    assert process.stdout is not None and process.stderr is not None

    def leave() -> dict[str, Any]:
        out, errors = process.communicate(timeout=60)
        if process.returncode:
            raise BenchFailed(errors[-1000:])
        told: dict[str, Any] = json.loads(out)
        return told

    try:
        if process.stdout.readline().strip() != "ready":
            raise BenchFailed(process.stderr.read()[-1000:])
        yield leave
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def with_dashboards(target: Side, pids: list[int], scratch: Path, factor: float) -> dict[str, Any]:
    """16 clients at /v1 while two people reload pages; the figures of both. Raises BenchFailed when a page fails."""
    to = machine.pair()[1]
    load = rows.scaled(rows.Load("dashboards", 16, seconds=DASHBOARD_SECONDS), factor)
    with _people(f"http://127.0.0.1:{target.port}", to) as leave:
        figures = rows.put(load, target, pids, scratch, to)
        told = leave()
    if told["wrong"]:
        raise BenchFailed(f"dashboard: {told['wrong'][:3]}")
    return {**figures, **told}


TRANSLATED = "translated"


def translated(target: Side, pids: list[int], scratch: Path, upstream: str, factor: float) -> dict[str, Any]:
    """16 streams in chat completions of a provider that speaks Anthropic's Messages."""
    with hotel.Admin(target.port) as admin:
        made = admin.provider(TRANSLATED, "anthropic-messages", upstream)
        try:
            other = replace(target, model=f"{TRANSLATED}/{hotel.UPSTREAM_MODEL}")
            return rows.put(rows.scaled(rows.BY_NAME["stream-16"], factor), other, pids, scratch, machine.pair()[1])
        finally:
            admin.call("DELETE", f"/providers/{made}")


def starts(scratch: Path) -> list[float]:
    """Seconds from the command to the first 200 of ``/health``, on a migrated database, on any core."""
    data = scratch / "starts"
    made = manage(data, "migrate")
    if made.returncode:
        raise BenchFailed(f"migrate: {made.stderr[-500:]}")
    took = []
    for _ in range(STARTS + 1):
        port, began = free_port(), time.monotonic()
        env = hotel.surroundings(data)
        with machine.running(hotel.serve(port), data / "log", set(machine.cores()), env) as pid:
            machine.await_answer(pid, port, data / "log", "/health")
            took.append(time.monotonic() - began)
    return took[1:]  # the first one settles keys and account, which later starts find


def lived_in(
    target: Side, pids: list[int], scratch: Path, upstream: str, sizes: tuple[int, int], rounds: int, factor: float
) -> dict[str, Any]:
    """The product with 10,000 models and a million rows beside the fresh one (*target*), in alternating loads.

    *sizes* is (models, rows). The fresh product's figures of the same minutes are under ``fresh``.
    """
    full = side(scratch / "full")
    data, log = scratch / "full/hotel", scratch / "full/log"
    server, to = machine.pair()
    load = rows.scaled(rows.BY_NAME["plain-16"], factor)
    with machine.running(full.argv, log, server, full.env) as pid:
        machine.await_answer(pid, full.port, log, full.path)
        full.key = hotel.set_up(full.port, upstream)
        rows.put(rows.scaled(load, 0.1), full, [pid], scratch, to)
    found: dict[str, Any] = {"models": sizes[0], "rows": sizes[1], "full": [], "fresh": []}
    found["fill_s"] = big.fill(data / "modelhotel.sqlite3", *sizes)
    synced = manage(data, "sync_failover_groups")
    if synced.returncode:
        raise BenchFailed(f"sync_failover_groups: {synced.stderr[-500:]}")
    began = time.monotonic()
    with machine.running(full.argv, log, server, full.env) as pid:
        machine.await_answer(pid, full.port, log, full.path)
        found["ready_s"] = time.monotonic() - began
        found["rss_start"] = machine.rss(machine.family(pid))
        for _ in range(rounds):
            for name, one, family in (("full", full, machine.family(pid)), ("fresh", target, pids)):
                found[name].append(rows.put(load, one, family, scratch, to))
        found["pages"] = big.first_bytes(f"http://127.0.0.1:{full.port}")
        found["rss"] = machine.rss(machine.family(pid))
    shutil.rmtree(data)
    return found
