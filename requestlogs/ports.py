"""What the log needs from the floors above; the shell fills it."""

import uuid
from collections.abc import Callable, Iterable


def _no_keys() -> Iterable[uuid.UUID]:
    return ()


#: The ids of the virtual keys that exist: iterable, and where it is a query, usable as a subquery.
live_key_ids: Callable[[], Iterable[uuid.UUID]] = _no_keys


def configure(keys: Callable[[], Iterable[uuid.UUID]]) -> None:
    global live_key_ids
    live_key_ids = keys
