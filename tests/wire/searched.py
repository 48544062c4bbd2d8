"""All that a running product wrote, and what it tells over its API, searched for markers (``tests/wire/marked.py``)."""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.cluster.test_nodes import Listener
from tests.wire.house import House
from tests.wire.marked import Marks
from tests.wire.product import eventually
from tests.wire.written import rows

TOKEN = "metrics-token-of-the-test"
ENV = {"DEBUG_LOG": "true", "METRICS_TOKEN": TOKEN}
#: Found, so that a search that finds nothing is known to search: a name of the model is stored as it was sent.
CONTROL = "no-such-model-of-the-control"


def _pages(home: House) -> Iterator[tuple[str, str]]:
    """Every address of the API that can be read without naming a row, and the request log row by row."""
    paths = home.admin("GET", "/api/openapi.json").json()["paths"]
    listed = [path for path, verbs in paths.items() if "get" in verbs and "{" not in path and path != "/api/events"]
    assert "/api/logs" in listed and "/api/logs/app" in listed
    more = ["/api/failover-groups/circuit-breaker-status?detail=1", "/metrics"]
    more += [f"/api/logs?per_page=200&page={page}" for page in range(1, 11)]
    more += [f"/api/logs/app?history=true&per_page=200&page={page}" for page in range(1, 11)]
    for path in listed + more:
        token = TOKEN if path == "/metrics" else None
        yield path, home.product.api("GET", path, token=token).text


def _tables(data_dir: Path, database: str) -> Iterator[tuple[str, str]]:
    """Each column of each table, the write-ahead log included; of PostgreSQL where *database* is its address."""
    if database:
        yield from rows(database)
        return
    (file,) = data_dir.glob("*.sqlite3")
    with sqlite3.connect(file) as db:
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            found = db.execute(f'SELECT * FROM "{table}"')
            names = [column[0] for column in found.description]
            for row in found:
                for name, value in zip(names, row, strict=True):
                    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
                    yield f"{table}.{name}", text
    db.close()


def _files(*folders: Path) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                yield path.name, path.read_bytes().decode("utf-8", "replace")


class Search:
    """Collects what is found, by place; each search gives back all that it went through."""

    def __init__(self, mark: Marks, data_dir: Path, database: str, *folders: Path) -> None:
        self.mark, self.data_dir, self.database = mark, data_dir, database
        self.folders = (data_dir, *folders)
        self.leaks: dict[str, set[str]] = {}

    def of(self, written: Iterable[tuple[str, str]]) -> str:
        every = []
        for place, text in written:
            if found := self.mark.found(text):
                self.leaks.setdefault(place, set()).update(found)
            every.append(text)
        return "\n".join(every)

    def running(self, home: House, listener: Listener) -> None:
        """While it runs: API, metrics, events, tables and files."""
        assert home.ask(CONTROL).status_code == 404
        assert eventually(lambda: home.row()["model_id"] == CONTROL)
        assert eventually(lambda: not home.admin("GET", "/api/logs/recorder").json()["queued"])
        assert CONTROL in self.of(_pages(home))
        assert CONTROL in self.of(_tables(self.data_dir, self.database))
        assert self.database or CONTROL in self.of(_files(*self.folders))
        told = [("an event", json.dumps(event)) for event in listener.events]
        assert "request.completed" in self.of(told)

    def stopped(self, printed: str) -> None:
        """What it left: tables, files, and all that it printed."""
        assert "Alpha" in self.of(_tables(self.data_dir, self.database))
        found = self.of(_files(*self.folders))
        assert self.database or CONTROL in found
        assert "DEBUG" in printed.upper() and "lifecycle: stopped" in printed
        self.of(("printed: " + line[:300], line) for line in printed.splitlines())

    @property
    def found(self) -> dict[str, list[str]]:
        return {place: sorted(found)[:5] for place, found in self.leaks.items()}
