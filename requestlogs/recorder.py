"""From the request that is lived to the row in the table, without the request ever waiting.

The hot path hands over drafts with three calls of a few microseconds. One thread of its own writes every
:data:`TICK` seconds or :data:`BATCH` rows. A request that ended by then costs one insert; one still in flight is
inserted and later updated by the same upsert, so that a crash leaves a row to mark as interrupted.

When the database does not answer, rows wait: first in memory, from :data:`MEMORY` rows on in files, and only when
these are full are the oldest lost, counted in :attr:`Recorder.lost` and warned about. A second thread looks after a
writer that is stuck in the middle of a call, as with a frozen server.
"""

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from modelhotel.core import events, metrics
from requestlogs import bulk, columns, counting
from requestlogs.draft import Draft
from requestlogs.spill import Spill
from requestlogs.turns import Turns

TICK = 0.2
BATCH = 500
MEMORY = 20_000
#: Seconds after which the row of a request in flight is written again, so that no sweep takes it for a lost one.
HEARTBEAT = 60.0
RETRY_MAX = 5.0
#: Seconds between two looks at a writer that may be stuck.
LOOK = 1.0
INTERRUPTED = "request interrupted (server restart)"

log = logging.getLogger("requestlog")
Row = tuple[Any, ...]


def _started(request_id: str, model: str, streaming: bool, owner: str | None) -> events.Description:
    metadata = {
        "request_id": request_id,
        "model_id": model,
        "streaming": streaming,
        "state": "pending",
        "owner_user_id": owner,
    }
    return "request.started", "info", "proxy", f"Request started: {model}", metadata


def _streaming(request_id: str, model: str, provider: str, owner: str | None) -> events.Description:
    metadata = {
        "request_id": request_id,
        "model_id": model,
        "provider_name": provider,
        "state": "streaming",
        "owner_user_id": owner,
    }
    return "request.streaming", "info", "proxy", f"Request streaming: {model}", metadata


def _completed(
    request_id: str,
    model: str,
    provider: str,
    state: str,
    status: int | None,
    error: str | None,
    owner: str | None,
) -> events.Description:
    metadata = {
        "request_id": request_id,
        "model_id": model,
        "provider_name": provider,
        "state": state,
        "status_code": status,
        "owner_user_id": owner,
    }
    message = f"Request {state}: {model}" + (f" — {error}" if error else "")
    return "request.completed", "warning" if state == "failed" else "success", "proxy", message, metadata


class Recorder:
    """One per process. ``start``, ``streaming`` and ``finish`` belong to the event loop, the rest to any thread."""

    def __init__(self) -> None:
        self._running: dict[str, Draft] = {}
        self._finished: deque[Draft] = deque()
        self._uncounted: deque[Draft] = deque()
        self._counting = threading.Lock()
        self._rows: deque[Row] = deque()  # of the writer thread: adapted nothing yet, waiting for the database
        self._turns = Turns()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._stopping = False
        self._failures = 0
        self._good_at = time.monotonic()
        self.node = ""
        self.lost = 0
        self.spill: Spill | None = None

    # -- the hot path ---------------------------------------------------------------------------------------------

    def start(self, draft: Draft) -> None:
        """The request is visible from now on; ``request.started`` once its model name is known."""
        self._running[draft.id] = draft
        if draft.model_id:
            self.named(draft)

    def named(self, draft: Draft) -> None:
        """Publish ``request.started``: for a draft that was started before its model was known."""
        events.publish_lazily(_started, draft.id, draft.model_id, draft.streaming, draft.owner_user_id)

    def streaming(self, draft: Draft) -> None:
        """The answer was committed as a stream."""
        draft.state = "streaming"
        events.publish_lazily(_streaming, draft.id, draft.model_id, draft.provider_name, draft.owner_user_id)

    def finish(self, draft: Draft) -> None:
        """The request is over: derive what is derived, queue the row. A second call does nothing."""
        if draft.finished:
            return
        draft.finished = True
        self._running.pop(draft.id, None)
        complete(draft)
        self._finished.append(draft)
        self._uncounted.append(draft)
        if len(self._finished) >= BATCH:
            self._turns.wake.set()
        events.publish_lazily(
            _completed,
            draft.id,
            draft.model_id,
            draft.provider_name,
            draft.state,
            draft.status_code,
            draft.error_message,
            draft.owner_user_id,
        )

    # -- for readers ----------------------------------------------------------------------------------------------

    def running(self) -> list[Draft]:
        return list(self._running.values())

    @property
    def queued(self) -> int:
        """Rows that wait for the database, in memory."""
        return len(self._finished) + len(self._rows)

    @property
    def spilled(self) -> int:
        """Rows that wait for the database, in files."""
        return self.spill.rows if self.spill is not None else 0

    @property
    def behind(self) -> float:
        """Seconds since everything was in the table; a fraction while all is well."""
        return time.monotonic() - self._good_at if self._thread is not None else 0.0

    def flush(self, timeout: float = 2.0) -> bool:
        """Have everything known at this moment written, in-flight requests included; False when it took too long."""
        if self._thread is None:
            return self._tick(everything=True)
        return self._turns.wait(timeout)

    def count(self) -> None:
        """Add what has finished to the metrics; from any thread, and without the database."""
        with self._counting:
            waiting = self._uncounted
            counting.add([waiting.popleft() for _ in range(len(waiting))])

    # -- life -----------------------------------------------------------------------------------------------------

    def run(self, node: str, data_dir: Path) -> None:
        """Start the writer thread."""
        self.node = node
        self.spill = Spill(data_dir)
        if taken := self.spill.adopt():
            log.info("requestlog: rows of a stopped process taken over", extra={"attrs": {"count": taken}})
        self._stopping = False
        self._good_at = time.monotonic()
        self._thread = threading.Thread(target=self._loop, name="requestlog", daemon=True)
        self._thread.start()
        self._ended.clear()
        threading.Thread(target=self._relieve, name="requestlog-relief", daemon=True).start()

    def stop(self, timeout: float = 10.0) -> None:
        """Close what still runs as interrupted, write everything (or spill it), end the thread."""
        for draft in self.running():
            if draft.error_message is None:
                draft.error_kind, draft.error_message = "internal", INTERRUPTED
            draft.state = "failed"
            self.finish(draft)
        thread, self._stopping = self._thread, True
        self._turns.wake.set()
        if thread is not None:
            thread.join(timeout)
            if thread.is_alive():  # stuck in a call
                self._lose(len(self._set_aside([*self._rows, *self._taken()])))
        self._ended.set()
        self._thread = None

    def _loop(self) -> None:
        while not self._stopping:
            self._turns.wake.wait(TICK if not self._failures else min(RETRY_MAX, TICK * 2**self._failures))
            self._turns.wake.clear()
            self._turn()
        if not self._turn():
            self._lose(len(self._set_aside(self._rows)))
            self._rows.clear()
        if self.spill is not None:
            self.spill.close()
        connection.close()

    def _turn(self) -> bool:
        asked, awaited = self._turns.asked()
        ok = self._tick(everything=awaited)
        if ok:
            self._turns.done(asked)
        return ok

    def _tick(self, *, everything: bool = False) -> bool:
        """Write what there is. True when nothing waits any more."""
        now = time.time()
        self._rows.extend(self._taken())
        try:
            self._write_spilled()
            while self._rows:
                batch = [self._rows[at] for at in range(min(BATCH, len(self._rows)))]
                self._write(batch)
                for _ in batch:
                    self._rows.popleft()
            self._write_running(now, everything=everything)
        except (DatabaseError, InterfaceError, OSError) as problem:
            self._failed(problem)
            return False
        self._failures = 0
        self._good_at = time.monotonic()
        return True

    def _write_spilled(self) -> None:
        while self.spill is not None and (segment := self.spill.oldest()) is not None:
            try:
                for batch in segment.batches(BATCH):
                    self._write(batch)
            except FileNotFoundError:  # somebody tidied up
                self._lose(segment.rows)
            self.spill.done(segment)

    def _write_running(self, now: float, *, everything: bool) -> None:
        """Requests in flight: those older than a tick, changed since, or due for their heartbeat."""
        moment = time.monotonic()
        due = [
            draft
            for draft in self.running()
            if (draft.state != draft.written_state and (everything or moment - draft.arrival >= TICK))
            or (draft.written_state and moment - draft.written_at >= HEARTBEAT)
        ]
        if due:
            marks = [(draft, draft.state) for draft in due]
            self._write([columns.values(draft, self.node, now) for draft in due])
            for draft, state in marks:
                draft.written_state, draft.written_at = state, moment

    def _write(self, rows: Iterable[Row]) -> None:
        """One transaction; where one row is at fault, row by row, so that it costs no other."""
        adapt = columns.adapter(connection.vendor)
        params = [adapt(row) for row in rows]
        if not params:
            return
        try:
            with transaction.atomic():
                bulk.insert("request_logs", columns.COLUMNS, columns.UPDATE, params)
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:
            for row in params:
                self._write_alone(row)

    def _write_alone(self, row: Sequence[Any]) -> None:
        try:
            with transaction.atomic():
                bulk.insert("request_logs", columns.COLUMNS, columns.UPDATE, [row])
        except (OperationalError, InterfaceError):
            raise
        except DatabaseError:
            log.exception("requestlog: row refused by the database", extra={"attrs": {"id": row[0]}})
            self.lost += 1
            metrics.ROWS_LOST.inc()

    def _failed(self, problem: Exception) -> None:
        self._failures += 1
        if self._failures in (1, 10) or self._failures % 100 == 0:
            log.warning(
                "requestlog: rows wait for the database",
                extra={"attrs": {"queued": self.queued, "problem": type(problem).__name__}},
            )
        connection.close()
        if len(self._rows) > MEMORY:
            left = self._set_aside(self._rows)
            surplus = max(len(left) - MEMORY, 0)
            self._lose(surplus)
            self._rows = deque(left[surplus:])

    def _set_aside(self, rows: Iterable[Row]) -> list[Row]:
        """Put *rows* into the files; what is left of them where the disk takes no more."""
        found = list(rows)
        if self.spill is None:
            return found
        kept, given_up = self.spill.append(found)
        self._lose(given_up)
        return found[kept:]

    def _relieve(self) -> None:
        """A writer stuck in a call takes nothing out of the queue: beyond MEMORY somebody else has to."""
        while not self._ended.wait(LOOK):
            if len(self._finished) > MEMORY:
                self._lose(len(self._set_aside(self._taken())))

    def _taken(self) -> list[Row]:
        """Everything that waits in the queue, as rows."""
        self.count()
        now, rows = time.time(), []
        with contextlib.suppress(IndexError):  # empty, or emptied by the other thread
            while True:
                rows.append(columns.values(self._finished.popleft(), self.node, now))
        return rows

    def _lose(self, count: int) -> None:
        if count:
            self.lost += count
            metrics.ROWS_LOST.inc(count)
            log.error("requestlog: rows lost", extra={"attrs": {"count": count, "total": self.lost}})


def complete(draft: Draft) -> None:
    """Fill the columns that follow from others (operations 4.1)."""
    if not draft.duration_ms:
        draft.duration_ms = draft.elapsed_ms()
    overhead = (
        draft.parse_ms
        + draft.failover_lookup_ms
        + draft.model_lookup_ms
        + draft.provider_lookup_ms
        + draft.key_decrypt_ms
        + draft.settings_read_ms
        + draft.dial_ms
    )
    draft.proxy_overhead_ms = overhead
    draft.latency_ms = draft.duration_ms - overhead if draft.duration_ms > overhead else 0.0
    if draft.state not in ("completed", "failed"):
        good = draft.error_kind is None and draft.status_code is not None and 0 < draft.status_code < 400
        draft.state = "completed" if good else "failed"
    if draft.tokens_completion > 0 and not draft.tokens_per_second:
        since = draft.ttft_ms if draft.streaming and draft.ttft_ms else overhead
        spent = draft.duration_ms - since
        draft.tokens_per_second = draft.tokens_completion / spent * 1000.0 if spent > 0 else 0.0


RECORDER = Recorder()
