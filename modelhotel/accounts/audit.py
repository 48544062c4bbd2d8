"""Recording of every write on the admin side: who did what to which object with which outcome; never a value.

Rows are written behind the answer by one thread of its own. A full queue or a database that refuses costs the row and
a warning, never the action.
"""

import logging
import queue
import threading
import time
from datetime import timedelta

from django.db import connections
from django.http import HttpRequest

from modelhotel.core import catalogue, options
from modelhotel.core.actor import Actor
from modelhotel.core.clock import SYSTEM, Clock
from modelhotel.core.text import clip
from modelhotel.models import AuditRow

log = logging.getLogger("audit")

#: Rows that may wait for the writer.
QUEUE_ROWS = 10_000
_BATCH_ROWS = 200
#: Seconds between two tries of a batch the database refused, and how often it is tried.
RETRY_AFTER = 1.0
TRIES = 5
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Writer:
    """A bounded queue and the thread that empties it; the thread starts with the first row."""

    def __init__(self) -> None:
        self._rows: queue.Queue[AuditRow] = queue.Queue(QUEUE_ROWS)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.lost = 0

    def put(self, row: AuditRow) -> None:
        try:
            self._rows.put_nowait(row)
        except queue.Full:
            self._lose(1, "the queue is full")
        self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
                self._thread.start()

    def flush(self, timeout: float) -> bool:
        """Wait until everything put so far is written or given up; False when *timeout* seconds did not suffice."""
        until = time.monotonic() + timeout
        while self._rows.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)
        return not self._rows.unfinished_tasks

    def stop(self, timeout: float) -> bool:
        """Flush and end the thread; a later row starts it anew."""
        done = self.flush(timeout)
        if not done:
            self._lose(self._rows.unfinished_tasks, "shutdown")
        self._stop.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(1.0)
        return done

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                rows = [self._rows.get(timeout=0.2)]
            except queue.Empty:
                continue
            while len(rows) < _BATCH_ROWS and not self._rows.empty():
                rows.append(self._rows.get_nowait())
            self._write(rows)
            for _ in rows:
                self._rows.task_done()

    def _write(self, rows: list[AuditRow]) -> None:
        try:
            for attempt in range(1, TRIES + 1):
                try:
                    # The ids are ours, so a batch whose commit was not confirmed is not written twice.
                    AuditRow.objects.bulk_create(rows, ignore_conflicts=True)
                    return
                except Exception as problem:
                    if attempt == TRIES or self._stop.wait(RETRY_AFTER):
                        self._lose(len(rows), type(problem).__name__)
                        return
        finally:
            # Rows are rare: a connection kept open between them is only one that may have died meanwhile.
            connections.close_all()

    def _lose(self, count: int, why: str) -> None:
        self.lost += count
        log.warning("audit: rows lost", extra={"attrs": {"count": count, "reason": why}})


WRITER = Writer()


def record(
    actor: Actor,
    method: str,
    route: str,
    path: str,
    status_code: int,
    remote_addr: str,
    entity_id: str = "",
    *,
    clock: Clock = SYSTEM,
) -> None:
    """Queue one row. *route* is the pattern (``/api/providers/{id}``), *path* without its query."""
    WRITER.put(
        AuditRow(
            created_at=clock.now(),
            actor=_fit(actor.name, 150),
            actor_role=actor.role,
            method=method[:10],
            route=_fit(route, 200),
            path=_fit(path, 500),
            entity_id=_fit(entity_id, 100),
            status_code=status_code,
            remote_addr=remote_addr[:64],
        )
    )


def _fit(text: str, limit: int) -> str:
    """What a column takes: a NUL in the address would cost the row on PostgreSQL."""
    return clip(text.replace("\x00", ""), limit)


def of_request(request: HttpRequest, status_code: int, entity_id: str | None = None) -> None:
    """Record the write that *request* is; once, whoever asks again. Without an actor nothing is recorded.

    The middleware does this for every answered write. A view calls it itself when the outcome is not the status of
    its answer: a refused form is a 200 to the browser.
    """
    actor = getattr(request, "actor", None)
    if actor is None or request.method not in WRITES or getattr(request, "audited", False):
        return
    request.audited = True  # type: ignore[attr-defined]
    match = request.resolver_match
    found = entity_id if entity_id is not None else _entity(dict(match.kwargs) if match else {})
    address = getattr(request, "client_address", "") or str(request.META.get("REMOTE_ADDR", ""))
    route = _pattern(match.route) if match else request.path
    record(actor, request.method, route, request.path, status_code, address, found)


def _pattern(route: str) -> str:
    """``api/providers/<uuid:id>/`` as ``/api/providers/{id}``."""
    parts = []
    for part in route.strip("/").split("/"):
        inner = part[1:-1].rpartition(":")[2] if part.startswith("<") and part.endswith(">") else None
        parts.append(f"{{{inner}}}" if inner else part)
    return "/" + "/".join(parts)


def _entity(kwargs: dict[str, object]) -> str:
    """The ``id`` of the path, else its innermost ``*_id`` or ``*_uuid``."""
    for name in ("id", "object_id"):
        if name in kwargs:
            return str(kwargs[name])
    inner = [value for name, value in kwargs.items() if name.endswith(("_id", "_uuid"))]
    return str(inner[-1]) if inner else ""


def stop(timeout: float) -> bool:
    """Write what waits and end the writer (shutdown). False when *timeout* seconds did not suffice."""
    return WRITER.stop(timeout)


def retention(clock: Clock = SYSTEM) -> int:
    """Delete rows older than ``audit_retention_days``; the scheduler calls it at most hourly. How many went."""
    days = options.current()[catalogue.AUDIT_RETENTION_DAYS]
    deleted, _ = AuditRow.objects.filter(created_at__lt=clock.now() - timedelta(days=days)).delete()
    return deleted
