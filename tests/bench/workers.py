"""Two workers against one, on PostgreSQL and Redis as the product demands of several processes.

On a machine with two cores nothing can be kept aside for the load, so the comparison is of whole halves: one worker
together with its mock, its load and its database connections on one core, and two workers with all of that on two. A
third row lets the one worker have both cores: its log writer, the database and the load then run beside it, and that is
the fairest it can get. With four cores or more the workers have one or two to themselves and mock and load have
others; the database server runs where it likes.
"""

import os
import secrets
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.bench import hotel, machine, rows
from tests.bench.peers import LeftOut, Side
from tests.services import missing
from tests.wire.product import REDIS, free_port, fresh_postgres

CLIENTS = 64  # connections spread over two workers by chance; a few would spread unevenly
ENOUGH_CORES = 4


@dataclass
class Node:
    """One running product. *database* is its PostgreSQL address."""

    side: Side
    pid: int
    database: str

    def backends(self) -> list[int]:
        """The server processes of our own connections."""
        with psycopg.connect(self.database, connect_timeout=5) as db:
            query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            return [row[0] for row in db.execute(query)]


@dataclass(frozen=True)
class Layout:
    """Which cores the workers, the mock with the load, and the connections have (None: wherever)."""

    name: str
    workers: int
    server: set[int]
    rest: set[int]
    database: set[int] | None = None


def layouts(cores: list[int]) -> list[Layout]:
    if len(cores) < ENOUGH_CORES:
        one, both = {cores[0]}, set(cores[:2])
        return [
            Layout("1 worker, all on 1 core", 1, one, one, one),
            Layout("1 worker, all on 2 cores", 1, both, both, both),
            Layout("2 workers, all on 2 cores", 2, both, both, both),
        ]
    two, rest = set(cores[:2]), set(cores[2:4])
    return [
        Layout("1 worker on 1 core", 1, {cores[0]}, rest),
        Layout("1 worker on 2 cores", 1, two, rest),
        Layout("2 workers on 2 cores", 2, two, rest),
    ]


def _node(stack: ExitStack, scratch: Path, workers: int, upstream: str) -> Node:
    database = stack.enter_context(fresh_postgres())
    port, data = free_port(), scratch / f"workers-{workers}"
    env = {"MASTER_KEY": secrets.token_hex(20), "DATABASE_URL": database, "REDIS_URL": REDIS, "NODE_NAME": data.name}
    command = hotel.serve(port, "--workers", str(workers))
    log = data / "log"
    pid = stack.enter_context(machine.running(command, log, set(machine.cores()), hotel.surroundings(data, **env)))
    machine.await_answer(pid, port, log, "/health")
    return Node(Side(data.name, port=port, model=hotel.MODEL, key=hotel.set_up(port, upstream)), pid, database)


def measure(
    scratch: Path, mock: tuple[int, int], rounds: int, factor: float, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One dict per layout and round. *mock* is (pid, port). Raises LeftOut when a service is not there."""
    absent = [what for name, what in missing().items() if name in ("postgres", "redis")]
    if absent:
        raise LeftOut(f"needs {' and '.join(absent)}")
    load = rows.scaled(rows.Load("plain-64", CLIENTS, seconds=2.0), factor)
    found = []
    with ExitStack() as stack:
        upstream = f"http://127.0.0.1:{mock[1]}/v1"
        nodes = {workers: _node(stack, scratch, workers, upstream) for workers in (1, 2)}
        for number in range(rounds):
            for layout in layouts(machine.cores()):
                node = nodes[layout.workers]
                pids = machine.family(node.pid)
                machine.pin(pids, layout.server)
                machine.pin([mock[0]], layout.rest)
                if layout.database:
                    machine.pin(node.backends(), layout.database)
                figures = rows.put(load, node.side, pids, scratch, layout.rest)
                say(f"{layout.name}: {figures['rate']:,.0f}/s, wrong {rows.wrong(figures)}")
                found.append({"layout": layout.name, "workers": layout.workers, "round": number, **figures})
                found[-1]["rss"] = machine.rss(pids)
                found[-1]["cores"] = os.cpu_count()
    return found
