"""Rows that wait in files while the database does not take them: one JSON array a line, oldest first.

Each process writes files of its own, one segment after the other, and holds a lock on each; a file that nobody holds
is a dead process's, and its rows are taken over at the next start.
"""

import contextlib
import fcntl
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

#: Bytes all files of a process may grow to; beyond, the oldest segment makes room, and its rows are lost.
LIMIT = 256 * 1024 * 1024
#: Bytes of one file. A file is read, and when its rows are in the table removed, as a whole.
SEGMENT = 8 * 1024 * 1024
PATTERN = "requestlog-*.spill"
Row = tuple[Any, ...]


class Segment:
    """One file, locked. *file* is unbuffered: what could not be written is not tried again behind our back."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.file = file
        self.size = os.fstat(file.fileno()).st_size
        self.rows = 0

    def append(self, line: bytes) -> bool:
        """All of *line* or nothing of it."""
        try:
            written = self.file.write(line)
        except OSError:
            written = 0
        if written == len(line):
            self.size += written
            self.rows += 1
            return True
        with contextlib.suppress(OSError):
            self.file.truncate(self.size)
            self.file.seek(self.size)
        return False

    def batches(self, size: int) -> Iterator[list[Row]]:
        """Every whole line, *size* rows at a time; a line cut by a crash is skipped."""
        batch: list[Row] = []
        with self.path.open("rb") as file:
            for line in file:
                try:
                    batch.append(tuple(msgspec.json.decode(line)))
                except msgspec.DecodeError:
                    continue
                if len(batch) == size:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Give up the lock; what is in the file waits for the next start."""
        self.file.close()


class Spill:
    """Any thread may append; one reads and removes."""

    def __init__(self, folder: Path, limit: int = LIMIT, segment: int = SEGMENT) -> None:
        self.folder = folder
        self.limit = limit
        self._segment = segment
        self._segments: deque[Segment] = deque()
        self._open: Segment | None = None  # the last of them, while it is appended to
        self._lock = threading.Lock()

    @property
    def rows(self) -> int:
        """Rows that wait in the files."""
        return sum(segment.rows for segment in list(self._segments))

    def append(self, rows: Iterable[Row]) -> tuple[int, int]:
        """(how many of *rows*, from the first on, were kept; how many older ones were given up for them)."""
        kept = lost = 0
        with self._lock:
            for row in rows:
                line = msgspec.json.encode(row) + b"\n"
                lost += self._make_room(len(line))
                segment = self._current()
                if segment is None or not segment.append(line):
                    break
                kept += 1
            if self._open is not None:
                with contextlib.suppress(OSError):
                    os.fsync(self._open.file.fileno())
        return kept, lost

    def oldest(self) -> Segment | None:
        """What is to be written first; nothing is appended to it any more."""
        with self._lock:
            if not self._segments:
                return None
            if self._segments[0] is self._open:
                self._open = None
            return self._segments[0]

    def done(self, segment: Segment) -> None:
        """Its rows are in the table: the file goes."""
        with self._lock:
            if segment in self._segments:
                self._segments.remove(segment)
                segment.remove()

    def close(self) -> None:
        with self._lock:
            self._open = None
            while self._segments:
                self._segments.pop().close()

    def adopt(self) -> int:
        """Take over the files of processes that are gone; returns how many rows are in them."""
        taken = 0
        for path in sorted(self.folder.glob(PATTERN)):
            try:
                segment = _locked(path, "ab")
                segment.rows = sum(len(batch) for batch in segment.batches(1000))
            except OSError:  # held by a living process, or gone in the meantime
                continue
            with self._lock:
                self._segments.append(segment)
            taken += segment.rows
        return taken

    def _make_room(self, size: int) -> int:
        """Give up the oldest segments until *size* bytes fit; how many rows that were."""
        lost = 0
        while self._segments and sum(segment.size for segment in self._segments) + size > self.limit:
            oldest = self._segments.popleft()
            if oldest is self._open:
                self._open = None
            lost += oldest.rows
            with contextlib.suppress(OSError):
                oldest.remove()
        return lost

    def _current(self) -> Segment | None:
        if self._open is not None and self._open.size >= self._segment:
            self._open = None
        if self._open is None:
            for number in count():
                try:
                    self._open = _locked(self.folder / f"requestlog-{os.getpid()}-{number}.spill", "xb")
                    break
                except FileExistsError:
                    continue
                except OSError:
                    return None
            if self._open is not None:
                self._segments.append(self._open)
        return self._open


def _locked(path: Path, mode: str) -> Segment:
    """Raises OSError where it can not be opened, or is held."""
    file: BinaryIO = path.open(mode, buffering=0)  # type: ignore[assignment]
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return Segment(path, file)
    except OSError:
        file.close()
        raise
