"""The answers of ``GET /v1/models``: encoded once for every routing table and what a key may see."""

import msgspec

from failover.listing import models_list
from failover.resolve import RoutingTable


class Listing:
    """The encoded lists of one routing table, by what a key may see."""

    #: Different allow-lists kept; a list costs as much memory as its answer.
    KEPT = 256

    def __init__(self, table: RoutingTable) -> None:
        self.table = table
        self._made: dict[frozenset[str] | None, tuple[bytes, dict[str, dict[str, object]]]] = {}

    def of(self, allowed: frozenset[str] | None) -> tuple[bytes, dict[str, dict[str, object]]]:
        """(the whole answer, each entry by its id)"""
        made = self._made.get(allowed)
        if made is None:
            entries = models_list(self.table, allowed)
            encoded = msgspec.json.encode({"object": "list", "data": entries})
            if len(self._made) >= self.KEPT:
                self._made.clear()
            made = self._made[allowed] = encoded, {str(entry["id"]): entry for entry in entries}
        return made


_listing = Listing(RoutingTable())


def of(table: RoutingTable) -> Listing:
    """The lists of *table*; those of the one before it are forgotten."""
    global _listing
    if _listing.table is not table:
        _listing = Listing(table)
    return _listing
