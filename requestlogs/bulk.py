"""Many rows with few statements, inside the caller's transaction."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from django.db import connection

#: Rows of one statement; 40 columns of 100 rows stay far below SQLite's 32,766 parameters. A few sizes only: what is
#: prepared is kept, and a statement for each number of rows up to 100 came to 21 MB.
SIZES = (100, 20, 4, 1)

#: Rows from which PostgreSQL gets them by COPY: its two statements more must pay.
COPY_FROM = 20


@lru_cache(maxsize=8 * len(SIZES))
def statement(table: str, columns: tuple[str, ...], conflict: str, rows: int = 1, mark: str = "%s") -> str:
    """``INSERT`` of *rows* rows. *mark* stands for a parameter: ``?`` for the sqlite3 module, ``%s`` for others."""
    names = ", ".join(f'"{name}"' for name in columns)
    one = f"({', '.join([mark] * len(columns))})"
    return f'INSERT INTO "{table}" ({names}) VALUES {", ".join([one] * rows)} ON CONFLICT ("id") {conflict}'


def insert(table: str, columns: tuple[str, ...], conflict: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write *rows*; *conflict* says what happens to one whose id is there already. Raises DatabaseError.

    On SQLite past Django's cursor, which looks for ``%s`` in the whole statement at every execution: half the cost of
    a row. ``executemany`` would give up the interpreter lock and ask for it back once per row, against a busy event
    loop. PostgreSQL takes many rows by COPY: a third of the interpreter's time of ``executemany``, a ninth of the wait.
    """
    if connection.vendor != "sqlite":
        with connection.cursor() as cursor:
            if len(rows) < COPY_FROM:
                cursor.executemany(statement(table, columns, conflict), rows)
            else:
                _copy(cursor, table, columns, conflict, rows)
        return
    with connection.wrap_database_errors:
        for chunk in _chunks(rows):
            text = statement(table, columns, conflict, len(chunk), "?")
            connection.connection.execute(text, list(chain.from_iterable(chunk)))


def _copy(cursor: Any, table: str, columns: tuple[str, ...], conflict: str, rows: Sequence[Sequence[Any]]) -> None:
    """By way of a table of this session: COPY itself knows no ``ON CONFLICT``."""
    names = ", ".join(f'"{name}"' for name in columns)
    way = f'"incoming_{table}"'
    cursor.execute(f'CREATE TEMPORARY TABLE IF NOT EXISTS {way} (LIKE "{table}") ON COMMIT DELETE ROWS')
    with cursor.copy(f"COPY {way} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    cursor.execute(f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {way} ON CONFLICT ("id") {conflict}')


def _chunks(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    at = 0
    for size in SIZES:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size
