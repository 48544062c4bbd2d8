"""The database at start: wait for it, migrate it under a lock, put a pool in front of it."""

import fcntl
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor

from modelhotel.core.clock import Clock
from modelhotel.core.environment import Environment
from modelhotel.ops.faults import StartRefused

#: How long the start waits for PostgreSQL (settings.md 8, step 3).
WAIT = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
#: Key of the advisory lock that lets one node at a time migrate and settle what is shared ("mhstart").
_LOCK = 0x6D687374617274
#: A request waits this long for a connection of the pool before it fails.
_POOL_TIMEOUT = 5.0
#: Attempts to reconnect end after this time and begin anew with the next caller; with the library's five minutes the
#: pauses grow so long that a database which is back would stay unused.
_POOL_RECONNECT = 2.0
log = logging.getLogger("start")


def wait(connect: Callable[[], None], clock: Clock, sleep: Callable[[float], object]) -> None:
    """Call *connect* until it succeeds, at most WAIT seconds. Raises StartRefused."""
    deadline, pause = clock.monotonic() + WAIT, _FIRST_PAUSE
    while True:
        try:
            return connect()
        except OperationalError as problem:
            reason = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
            if clock.monotonic() + pause > deadline:
                raise StartRefused(f"DATABASE_URL: no connection within {WAIT:.0f} s: {reason}") from problem
            log.warning("start: database does not answer yet", extra={"attrs": {"reason": reason, "again_s": pause}})
            sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


def open_database(env: Environment, clock: Clock, sleep: Callable[[float], object]) -> None:
    """Raises StartRefused."""
    if not env.sqlite:
        return wait(connection.ensure_connection, clock, sleep)
    try:
        connection.ensure_connection()
    except OperationalError as problem:
        raise StartRefused(f"DATA_DIR: the database in {env.data_dir} can not be opened: {problem}") from problem


@contextmanager
def start_lock(env: Environment) -> Generator[None]:
    """Held by the one node that migrates and settles what all share. Dies with the process."""
    if env.sqlite:
        with open(env.data_dir / "start.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        return
    own = connection.copy(DEFAULT_DB_ALIAS)  # a session of its own: the lock must not go where that one is closed
    try:
        with own.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        yield
    finally:
        own.close()


def try_lock(path: Path) -> IO[str] | None:
    """An exclusive lock on *path* that the operating system ends with this process; None when another holds it."""
    file = open(path, "w")  # noqa: SIM115 - open means held
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def migrate() -> bool:
    """Apply what is missing; True when something was. Looking costs a tenth of the command."""
    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return False
    call_command("migrate", interactive=False, verbosity=0)
    return True


def use_pool(env: Environment, processes: int) -> None:
    """From now on connections of this process come from a pool of its share of DATABASE_MAX_CONNS (PostgreSQL)."""
    if env.sqlite:
        return
    connections.close_all()
    most = max(env.database_max_conns // processes, 2)
    connections.settings[DEFAULT_DB_ALIAS]["OPTIONS"]["pool"] = {
        "min_size": max(min(env.database_min_conns // processes, most), 1),
        "max_size": most,
        "timeout": _POOL_TIMEOUT,
        "reconnect_timeout": _POOL_RECONNECT,
    }
    # Without the check the first query of every pooled connection fails after the database was restarted.
    connections.settings[DEFAULT_DB_ALIAS]["CONN_HEALTH_CHECKS"] = True


def close_pool() -> None:
    """Close this thread's connection and the pool (end of the process)."""
    connections.close_all()
    close: Callable[[], Any] | None = getattr(connection, "close_pool", None)
    if close is not None:
        close()


def apart(alias: str) -> BaseDatabaseWrapper:
    """A connection outside of the pool, for a watcher that must know whether the server itself answers.

    Any thread may use it, one at a time.
    """
    own = connection.copy(alias)
    own.inc_thread_sharing()
    own.settings_dict["OPTIONS"].pop("pool", None)
    if own.vendor == "postgresql":
        own.settings_dict["OPTIONS"]["connect_timeout"] = 1
    return own
