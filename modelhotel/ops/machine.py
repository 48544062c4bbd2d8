"""What this process and its database use of the machine. What can not be told here is None."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from django.db import DatabaseError, connection

_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")
_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
#: cgroup v1 says "no limit" with a number of this size.
_NO_LIMIT = 1 << 60
_MIB = 1 << 20

Figures = dict[str, object]


def _text(path: Path) -> str:
    """Empty where there is none, as outside of Linux."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _began() -> float:
    """When this process began, in monotonic seconds: proc_pid_stat(5), field 22. Now, where nothing says it."""
    told = _text(_PROC / "self/stat").rpartition(")")[2].split()
    if len(told) < 20:
        return time.monotonic()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(told[19]) / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - max(age, 0)


#: This module is imported by the first request, which may come long after the start.
_STARTED = _began()


def memory() -> int | None:
    """Resident bytes of this process."""
    fields = _text(_PROC / "self/statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else None


def memory_limit() -> int | None:
    """What the container may use, in bytes; None without a limit."""
    for path in (_CGROUP / "memory.max", _CGROUP / "memory/memory.limit_in_bytes"):
        word = _text(path).strip()
        if word.isdigit() and int(word) < _NO_LIMIT:
            return int(word)
    return None


def in_container() -> bool:
    return any(mark.exists() for mark in _MARKS)


def network() -> tuple[int, int] | None:
    """Bytes received and sent since the machine's start, over all interfaces but the loopback."""
    received = sent = 0
    lines = [line.partition(":") for line in _text(_PROC / "net/dev").splitlines() if ":" in line]
    for name, _, numbers in lines:
        if name.strip() != "lo":
            fields = numbers.split()
            received, sent = received + int(fields[0]), sent + int(fields[8])
    return (received, sent) if lines else None


def disk() -> tuple[int, int] | None:
    """Bytes this process has had read from and written to disks."""
    fields = dict(line.split(": ") for line in _text(_PROC / "self/io").splitlines() if ": " in line)
    if "read_bytes" not in fields or "write_bytes" not in fields:
        return None
    return int(fields["read_bytes"]), int(fields["write_bytes"])


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at one moment; *at* in monotonic seconds, *cpu* in seconds of one core."""

    at: float
    cpu: float
    network: tuple[int, int] | None
    disk: tuple[int, int] | None


def sample() -> Sample:
    return Sample(time.monotonic(), time.process_time(), network(), disk())


def _rate(seconds: float, before: tuple[int, int] | None, after: tuple[int, int] | None, at: int) -> float | None:
    if before is None or after is None or seconds <= 0:
        return None
    return max(after[at] - before[at], 0) / seconds


def rates(before: Sample, after: Sample) -> Figures:
    """Per second, between two samples; ``cpu_percent`` of one core. Pure."""
    seconds = after.at - before.at
    return {
        "cpu_percent": round((after.cpu - before.cpu) / seconds * 100, 1) if seconds > 0 else None,
        "net_rx_bytes_sec": _rate(seconds, before.network, after.network, 0),
        "net_tx_bytes_sec": _rate(seconds, before.network, after.network, 1),
        "disk_read_bytes_sec": _rate(seconds, before.disk, after.disk, 0),
        "disk_write_bytes_sec": _rate(seconds, before.disk, after.disk, 1),
    }


class Process:
    """Figures of this process; rates since the last time somebody asked, at first since the start."""

    def __init__(self, take: Callable[[], Sample] = sample) -> None:
        self._take = take
        self._before = take()

    def figures(self) -> Figures:
        after = self._take()
        found = rates(self._before, after)
        self._before = after
        return {
            "memory_current_bytes": memory(),
            "memory_limit_bytes": memory_limit(),
            "in_container": in_container(),
            "uptime_seconds": int(time.monotonic() - _STARTED),
            **found,
        }


_POSTGRES = """
SELECT pg_database_size(current_database()), d.numbackends, d.blks_hit, d.blks_hit + d.blks_read,
       d.xact_commit + d.xact_rollback,
       (SELECT COALESCE(SUM(n_dead_tup), 0) FROM pg_stat_user_tables),
       (SELECT COUNT(*) FROM pg_locks WHERE NOT granted)
FROM pg_stat_database AS d WHERE d.datname = current_database()"""


class Database:
    """Figures of the database; None where it does not answer."""

    def __init__(self) -> None:
        self._before: tuple[float, int] | None = None

    def figures(self) -> Figures | None:
        try:
            return self._sqlite() if connection.vendor == "sqlite" else self._postgres()
        except DatabaseError:
            return None

    def _sqlite(self) -> Figures:
        """A file: there is only its size to tell."""
        name = str(connection.settings_dict["NAME"])
        size = sum(path.stat().st_size for end in ("", "-wal") if (path := Path(name + end)).is_file())
        others = ("connections", "cache_hit_ratio", "tx_per_sec", "dead_tuples", "lock_waits")
        return {"size_mb": round(size / _MIB, 1), **dict.fromkeys(others)}

    def _postgres(self) -> Figures:
        with connection.cursor() as cursor:
            cursor.execute(_POSTGRES)
            size, backends, hits, blocks, done, dead, waiting = cursor.fetchone()
        now, before = time.monotonic(), self._before
        self._before = now, int(done)
        rate = None if before is None or now <= before[0] else max(int(done) - before[1], 0) / (now - before[0])
        return {
            "size_mb": round(size / _MIB, 1),
            "connections": backends,
            "cache_hit_ratio": round(hits / blocks, 4) if blocks else None,
            "tx_per_sec": None if rate is None else round(rate, 1),
            "dead_tuples": int(dead),
            "lock_waits": waiting,
        }
