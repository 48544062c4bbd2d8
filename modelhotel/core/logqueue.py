"""Printing log lines away from the event loop: a blocked or slow stdout must not hold up a request.

The handler only puts the record into a queue; one thread formats what has gathered and writes it in one go. What comes
while :data:`LIMIT` records wait is dropped, and the number is printed once there is room again.
"""

import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TextIO, cast

from modelhotel.core import logformat
from modelhotel.core.logformat import Record

LIMIT = 20_000
Sink = Callable[[Sequence[Record]], object]
#: Seconds that lines are gathered before they are written.
GATHER = 0.05
_sink: Sink | None = None


def listen(sink: Sink | None) -> None:
    """Have *sink* called with the records of each writing, in the printing thread, before they are written."""
    global _sink
    _sink = sink


def flush() -> None:
    """Print, and hand on, what the root's handlers have gathered."""
    for handler in logging.getLogger().handlers:
        handler.flush()


class QueueHandler(logging.Handler):
    """Writes to *stream* (default: stdout). ``flush`` writes everything at once, in the caller's thread."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._stream = stream
        self._queue: deque[Record] = deque()
        self._dropped = 0
        self._wake = threading.Event()
        self._pause = threading.Event()  # never set: only waited on
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None

    def handle(self, record: logging.LogRecord) -> bool:
        if not self.filter(record):
            return False
        self.take(record)
        return True

    def take(self, record: Record) -> None:
        """The same for a record that no filter needs to see."""
        # Without the handler's own lock: appending to a deque is atomic.
        queue = self._queue
        if len(queue) >= LIMIT:
            self._dropped += 1
            return
        queue.append(record)
        if len(queue) == 1:
            self._wake.set()
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        with self._writing:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self.flush()
            self._pause.wait(GATHER)

    def flush(self) -> None:
        stream = self._stream or sys.stdout
        with self._writing:
            records = [self._queue.popleft() for _ in range(len(self._queue))]
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                note = logging.LogRecord("log", logging.WARNING, "", 0, "log: lines dropped", None, None)
                note.attrs = {"count": dropped}
                records.append(note)
            lines = self._lines(records)
            if lines:
                try:
                    stream.write("\n".join(lines) + "\n")
                    stream.flush()
                except (OSError, ValueError):
                    pass  # nobody reads any more; there is nowhere left to say so

    def _lines(self, records: Sequence[Record]) -> list[str]:
        formatted: Callable[[Any], str] = self.format if self.formatter is None else self.formatter.format
        try:
            lines, good = [formatted(record) for record in records], records
        except Exception:
            lines, good = self._what_can_be_printed(records, formatted)
        if _sink is not None and good:
            try:
                _sink(good)
            except Exception:
                self.handleError(cast(Any, good[-1]))
        return lines

    def _what_can_be_printed(
        self, records: Sequence[Record], formatted: Callable[[Any], str]
    ) -> tuple[list[str], list[Record]]:
        lines, good = [], []
        for record in records:
            try:
                lines.append(formatted(record))
                good.append(record)
            except Exception:
                self.handleError(cast(Any, record))
        return lines, good

    def close(self) -> None:
        self.flush()
        super().close()


def straighten() -> None:
    """Where the root logger has one handler and it is ours: let the hot path's lines go to it directly."""
    handlers = logging.getLogger().handlers
    if len(handlers) == 1 and isinstance(handlers[0], QueueHandler):
        logformat.straighten(handlers[0].take)
