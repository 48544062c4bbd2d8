"""Work in threads of our own."""

from collections.abc import Callable
from typing import TypeVar

from django.db import close_old_connections, connection

T = TypeVar("T")


def released(work: Callable[[], T]) -> T:
    """Run *work* in a thread that keeps no database connection afterwards."""
    close_old_connections()
    try:
        return work()
    finally:
        connection.close()
