"""Rows that wait in a file while the database does not take them: one JSON array a line, oldest first."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

#: Bytes the file may grow to; what comes after is lost, and counted.
LIMIT = 256 * 1024 * 1024
Row = tuple[Any, ...]


class Spill:
    """Used by the writer thread only. A crash keeps the file: its rows are taken at the next start."""

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self.path = path
        self.limit = limit

    def append(self, rows: Iterable[Row]) -> int:
        """Append; returns how many did not fit or could not be written."""
        lost, lines = 0, []
        size = self.path.stat().st_size if self.path.exists() else 0
        for row in rows:
            line = msgspec.json.encode(row) + b"\n"
            if size + len(line) > self.limit:
                lost += 1
                continue
            size += len(line)
            lines.append(line)
        try:
            with self.path.open("ab") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            lost += len(lines)
        return lost

    def pending(self) -> bool:
        return self.path.exists() and self.path.stat().st_size > 0

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
        self.path.unlink(missing_ok=True)
