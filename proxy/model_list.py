"""The answers of ``GET /v1/models``: encoded once for every routing table and what a key may see."""

import threading
from collections.abc import Mapping

import msgspec

from failover.listing import models_list
from failover.resolve import RoutingTable

#: (the whole answer, each entry by its id), encoded.
Made = tuple[bytes, Mapping[str, bytes]]


class Listing:
    """The encoded lists of one routing table, by what a key may see."""

    #: Bytes of answers kept, for as many different allow-lists as go into them; the entries take as much again.
    KEPT = 32 * 1024 * 1024

    def __init__(self, table: RoutingTable) -> None:
        self.table = table
        self._made: dict[frozenset[str] | None, Made] = {}
        self._size = 0
        self._lock = threading.Lock()

    def ready(self, allowed: frozenset[str] | None) -> Made | None:
        """What was made before."""
        return self._made.get(allowed)

    def make(self, allowed: frozenset[str] | None) -> Made:
        """Thousands of models take a tenth of a second: not on the event loop."""
        with self._lock:
            made = self._made.get(allowed)
            if made is None:
                parts = {str(entry["id"]): msgspec.json.encode(entry) for entry in models_list(self.table, allowed)}
                whole = b'{"object":"list","data":[' + b",".join(parts.values()) + b"]}"
                if self._size + len(whole) > self.KEPT:
                    self._made, self._size = {}, 0
                self._size += len(whole)
                made = self._made[allowed] = whole, parts
            return made


_listing = Listing(RoutingTable())


def of(table: RoutingTable) -> Listing:
    """The lists of *table*; those of the one before it are forgotten."""
    global _listing
    if _listing.table is not table:
        _listing = Listing(table)
    return _listing
