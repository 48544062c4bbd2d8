"""Immutable tables built from the database and swapped by reference.

A snapshot names the configuration *tables* it is built from. Each table has a version in the database that every
write raises in its own transaction. A rebuild notes the versions before it reads, and rebuilds of one snapshot never
overlap, so a slow read can not install over a newer one and two writers finishing in reverse order do no harm.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from django.db import connection

if TYPE_CHECKING:
    from django.db.models import QuerySet

T = TypeVar("T")
log = logging.getLogger("snapshots")

#: Rows that a build reads between two breaths, and how long such a breath is in seconds: a build holds the interpreter
#: for about two milliseconds at a time, so that a stream in another thread does not wait for the whole of it.
BLOCK, BREATH = 200, 0.0003
_breathe = time.sleep

_all: dict[str, "Snapshot[object]"] = {}

#: Reads the versions of all tables; the shell sets it. Raises on a database failure.
read_versions: Callable[[], Mapping[str, int]] = dict


def configure(versions: Callable[[], Mapping[str, int]]) -> None:
    global read_versions
    read_versions = versions


class Snapshot(Generic[T]):
    """One table in memory. *build* reads the database; *empty* is what readers get before the first build.

    *current* is read several times per request: a plain attribute, set when it is first asked for or built.
    """

    current: T

    def __init__(self, name: str, tables: tuple[str, ...], build: Callable[[], T], empty: Callable[[], T]) -> None:
        self.name = name
        self.tables = tables
        self._build = build
        self._empty = empty
        self._versions: dict[str, int] = {}
        self._lock = threading.Lock()
        self.listeners: list[Callable[[T], None]] = []
        _all[name] = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> T:
        if name != "current":
            raise AttributeError(name)
        value = self.current = self._empty()
        return value

    def refresh(self) -> None:
        """Build from what is committed now and install it. Raises what the database raises; the old value stays."""
        with self._lock:
            versions = read_versions()
            value = self._build()
            self.current = value
            self._versions = {table: versions.get(table, 0) for table in self.tables}
        for listener in self.listeners:
            listener(value)

    def behind(self, versions: Mapping[str, int]) -> bool:
        """True when some table of this snapshot was written since it was built."""
        return any(versions.get(table, 0) != self._versions.get(table) for table in self.tables)

    def reset(self) -> None:
        """Forget everything (tests)."""
        with self._lock:
            self.__dict__.pop("current", None)
            self._versions = {}


def rows_of(query: "QuerySet[Any]", *columns: str) -> Iterator[tuple[Any, ...]]:
    """The *columns* of every row as the database's driver gives them: JSON is text, and on SQLite a UUID
    is hex and a time has no zone.

    Instances of models cost five times as much, and a build reads thousands of rows at every change.
    """
    sql, params = query.values_list(*columns).query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        while block := cursor.fetchmany(BLOCK):
            yield from block
            _breathe(BREATH)


def json_of(text: Any) -> Any:
    """What a JSON column holds; None where it can not be read: one odd row must not cost all others the snapshot."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, TypeError, RecursionError):
        return None


def refresh(tables: Iterable[str]) -> None:
    """Rebuild every snapshot that is built from one of *tables*; a failing one is logged and retried by the watcher."""
    wanted = set(tables)
    for snapshot in list(_all.values()):
        if wanted.intersection(snapshot.tables):
            try:
                snapshot.refresh()
            except Exception:
                log.exception("snapshots: rebuild failed", extra={"attrs": {"snapshot": snapshot.name}})


def refresh_all() -> None:
    """Build everything (process start). A failure is logged, not fatal: the watcher tries again."""
    refresh({table for snapshot in _all.values() for table in snapshot.tables})


def refresh_behind() -> bool:
    """Compare versions once and rebuild what is behind. True when something was. Raises on a database failure."""
    versions = read_versions()
    behind = [snapshot for snapshot in list(_all.values()) if snapshot.behind(versions)]
    for snapshot in behind:
        snapshot.refresh()
    return bool(behind)


def reset_all() -> None:
    for snapshot in _all.values():
        snapshot.reset()
