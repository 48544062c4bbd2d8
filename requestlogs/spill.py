"""Rows that wait in a file while the database does not take them: one JSON array a line, oldest first.

Each process writes a file of its own and holds a lock on it; a file that nobody holds is a dead process's, and its
rows are taken over at the next start.
"""

import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

#: Bytes the file may grow to; what comes after is lost, and counted.
LIMIT = 256 * 1024 * 1024
PATTERN = "requestlog-*.spill"
Row = tuple[Any, ...]


def path_in(data_dir: Path) -> Path:
    """The file of this process."""
    return data_dir / f"requestlog-{os.getpid()}.spill"


class Spill:
    """Used by the writer thread only."""

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self.path = path
        self.limit = limit
        self._file: BinaryIO | None = None

    def append(self, rows: Iterable[Row]) -> int:
        """Append; returns how many did not fit or could not be written."""
        lost, lines = 0, []
        size = self._size()
        for row in rows:
            line = msgspec.json.encode(row) + b"\n"
            if size + len(line) > self.limit:
                lost += 1
                continue
            size += len(line)
            lines.append(line)
        try:
            file = self._open()
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            lost += len(lines)
        return lost

    def pending(self) -> bool:
        return self._size() > 0

    def read(self) -> list[Row]:
        """Every whole line; a line cut by a crash is skipped."""
        rows: list[Row] = []
        with self.path.open("rb") as file:
            for line in file:
                try:
                    rows.append(tuple(msgspec.json.decode(line)))
                except msgspec.DecodeError:
                    continue
        return rows

    def clear(self) -> None:
        """Its rows are in the table: the file goes."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Give up the lock; what is in the file waits for the next start."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def adopt(self) -> int:
        """Take over the rows of processes that are gone; returns how many."""
        taken = 0
        for path in sorted(self.path.parent.glob(PATTERN)):
            if path != self.path:
                taken += self._take(path)
        return taken

    def _take(self, path: Path) -> int:
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                rows = Spill(path).read()
                if not self.append(rows):
                    path.unlink(missing_ok=True)
                return len(rows)
        except OSError:  # held by a living process, or gone in the meantime
            return 0

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = self.path.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._file

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0
