"""One writer of groups at a time, across threads, processes and nodes."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

#: Key of PostgreSQL's advisory lock; any constant that nothing else in this database uses.
ADVISORY_KEY = 0x6D68_6772_7001


@contextmanager
def exclusive() -> Iterator[None]:
    """A transaction that waits until no other one of these is open and then sees what it committed.

    PostgreSQL: an advisory lock that ends with the transaction. SQLite: the transaction is IMMEDIATE, which is the
    same for the whole database.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ADVISORY_KEY])
        yield
