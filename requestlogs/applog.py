"""The app log: the product's own lines, in memory for a glance and in the table for the history (operations 6).

Lines come from the thread that prints them (``core/logqueue.py``), so a request pays nothing for them. They wait in a
bounded queue; one writer thread empties it every :data:`TICK`. What a flood or a database that is away leaves no room
for is lost: debug and info first, the oldest of them first, counted and told once a minute. What this module says
about itself is a line like any other, at most two a minute, so a failure can not feed on its own reports.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from modelhotel.core import logformat, redact
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.ids import uuid7_text
from modelhotel.core.logformat import Record
from modelhotel.core.text import clip
from providers.keyring import KEYRING
from requestlogs import bulk, columns
from requestlogs.turns import Turns

#: Seconds between two batches. With LIMIT it is also the most that a flood of lines can make the database do.
TICK = 0.5
#: Lines that wait for the writer: 1,000 a second at most, about 1 % of a core; what a flood says beyond is lost.
LIMIT = 500
#: Lines of one transaction.
BATCH = 500
#: Lines kept in memory for ``GET /api/logs/app``.
KEEP = 500
#: Characters of one message: a trace at its longest.
LENGTH = 10_000
RETRY_MAX = 5.0
TELL_EVERY = 60.0
LEVELS = ("debug", "info", "warning", "error")

log = logging.getLogger("applog")
Row = tuple[Any, ...]


class Line(NamedTuple):
    """*at*: POSIX seconds. *id* grows with time within a process. *message* is not masked yet."""

    id: str
    at: float
    level: str
    source: str
    message: str


def line_of(record: Record) -> Line:
    """The line of *record*, made when somebody wants it: of a flood, most are dropped unseen. Always the same one."""
    line: Line | None = getattr(record, "line", None)
    if line is None:
        level = LEVELS[min(max(record.levelno // 10 - 1, 0), 3)]
        at = record.created
        line = record.line = Line(uuid7_text(at), at, level, logformat.scope(record), logformat.told(record))
    return line


def masked(message: str, keys: Sequence[str]) -> str:
    """What may be shown and stored of *message*; PostgreSQL takes no NUL."""
    keys = [key for key in keys if len(key) >= redact.KEY_MIN]
    return clip(redact.error_text(message, keys).replace("\x00", "�"), LENGTH)


class Lines:
    """One per process. *keys* gives every provider key in memory, longest first."""

    def __init__(self, clock: Clock = SYSTEM, keys: Callable[[], Sequence[str]] = KEYRING.known) -> None:
        self._clock = clock
        self._keys = keys
        self._lock = threading.Lock()
        self._ring: deque[Record] = deque(maxlen=KEEP)
        self._minor: deque[Record] = deque()  # debug and info
        self._major: deque[Record] = deque()
        self._turns = Turns()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._failures = 0
        self._untold = 0
        self._told = {"lost": float("-inf"), "waits": float("-inf")}
        self.node = ""
        self.lost = 0

    # -- in

    def take(self, records: Sequence[Record]) -> None:
        """For ``logqueue.listen``. Never waits for the database."""
        for record in records:
            if record.exc_info:
                line_of(record)
                record.exc_info = None  # it keeps the locals of its frames alive, bodies of requests among them
        with self._lock:
            self._ring.extend(records)
            self._keep(records)
            self._fit()

    def _keep(self, records: Sequence[Record]) -> None:
        major = [record for record in records if record.levelno >= logging.WARNING]
        self._major.extend(major)
        self._minor.extend(records if not major else [r for r in records if r.levelno < logging.WARNING])

    def _fit(self) -> None:
        excess = self.queued - LIMIT
        if excess <= 0:
            return
        minor = min(excess, len(self._minor))
        for lines, count in ((self._minor, minor), (self._major, excess - minor)):
            for _ in range(count):
                lines.popleft()
        self._lose(excess)

    def _lose(self, count: int) -> None:
        self.lost += count
        self._untold += count

    # -- for readers

    @property
    def queued(self) -> int:
        return len(self._minor) + len(self._major)

    def recent(self) -> list[Line]:
        """The newest lines of this process, oldest first, masked."""
        with self._lock:
            lines = [line_of(record) for record in self._ring]
        keys = self._keys()
        return [line._replace(message=masked(line.message, keys)) for line in lines]

    def flush(self, timeout: float = 2.0) -> bool:
        """Have every line that waits written; False when that took too long or the database refused."""
        if self._thread is None:
            return self._write_all()
        return self._turns.wait(timeout)

    # -- life

    def run(self, node: str) -> None:
        """Start the writer thread; what was said before goes with the first batch."""
        self.node = node
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="applog", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Write what waits and end the thread."""
        thread, self._stopping = self._thread, True
        self._turns.wake.set()
        if thread is not None:
            thread.join(timeout)
        self._thread = None

    def forget(self) -> None:
        """Lines in memory and in the queue (tests)."""
        with self._lock:
            self._ring.clear()
            self._minor.clear()
            self._major.clear()

    def _loop(self) -> None:
        while not self._stopping:
            self._turns.wake.wait(TICK if not self._failures else min(RETRY_MAX, TICK * 2**self._failures))
            self._turns.wake.clear()
            self._turn()
        self._turn()
        connection.close()

    def _turn(self) -> None:
        asked, _ = self._turns.asked()
        if self._write_all():
            self._turns.done(asked)
        if self._untold and self._due("lost"):
            untold, self._untold = self._untold, 0
            log.warning("applog: lines lost", extra={"attrs": {"count": untold, "total": self.lost}})

    def _due(self, what: str) -> bool:
        now = self._clock.monotonic()
        if now - self._told[what] < TELL_EVERY:
            return False
        self._told[what] = now
        return True

    # -- out

    def _write_all(self) -> bool:
        """True when nothing of what waited at the call waits any more."""
        with self._lock:
            records = sorted((*self._minor, *self._major), key=line_of)
            self._minor.clear()
            self._major.clear()
        if not records:
            return True
        try:
            while records:
                self._write([line_of(record) for record in records[:BATCH]])
                del records[:BATCH]
            if connection.vendor != "sqlite":
                connection.close()  # back to the pool, which requests need more
        except Exception as problem:  # whatever it is: traffic goes on, and the lines are tried again
            self._failed(records, problem)
            return False
        self._failures = 0
        return True

    def _write(self, lines: Sequence[Line]) -> None:
        rows = self._rows(lines)
        try:
            with transaction.atomic():
                _insert(rows)
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:  # one line is at fault; it must cost no other
            for row in rows:
                self._write_alone(row)

    def _write_alone(self, row: Row) -> None:
        try:
            with transaction.atomic():
                _insert([row])
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:
            self._lose(1)

    def _rows(self, lines: Sequence[Line]) -> list[Row]:
        keys, moment = self._keys(), columns.moment_of(connection.vendor)
        now = moment(self._clock.now().timestamp())
        sqlite = connection.vendor == "sqlite"
        return [
            (
                line.id.replace("-", "") if sqlite else line.id,
                moment(line.at),
                line.level,
                line.source[:SOURCE_LENGTH],
                masked(line.message, keys),
                self.node,
                now,
            )
            for line in lines
        ]

    def _failed(self, records: Sequence[Record], problem: Exception) -> None:
        self._failures = min(self._failures + 1, 10)
        with self._lock:
            newer = (*self._minor, *self._major)
            self._minor.clear()
            self._major.clear()
            self._keep((*records, *newer))
            self._fit()
        connection.close()
        if self._due("waits"):
            attrs = {"queued": self.queued, "problem": type(problem).__name__}
            log.warning("applog: lines wait for the database", extra={"attrs": attrs})


SOURCE_LENGTH = 100
_COLUMNS = ("id", "timestamp", "level", "source", "message", "node", "created_at")


def _insert(rows: Sequence[Row]) -> None:
    """The ids are ours, so a batch whose commit was not confirmed is not written twice."""
    bulk.insert("app_logs", _COLUMNS, "DO NOTHING", rows)


APP_LOG = Lines()
