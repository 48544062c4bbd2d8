"""What the log needs from the floors above; the shell fills it."""

import uuid
from collections.abc import Callable, Iterable

Names = Iterable[tuple[uuid.UUID, str]]


def _no_keys() -> Iterable[uuid.UUID]:
    return ()


#: The ids of the virtual keys that exist: iterable, and where it is a query, usable as a subquery.
live_key_ids: Callable[[], Iterable[uuid.UUID]] = _no_keys
#: The same ids with the names of their keys.
key_names: Callable[[], Names] = tuple


def configure(keys: Callable[[], Iterable[uuid.UUID]], names: Callable[[], Names] = tuple) -> None:
    global live_key_ids, key_names
    live_key_ids, key_names = keys, names
