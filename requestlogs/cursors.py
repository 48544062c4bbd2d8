"""Pages by position (time, id): rows of equal time are neither lost nor repeated."""

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

import msgspec
from django.db.models import Model, Q, QuerySet

M = TypeVar("M", bound=Model)
Position = tuple[datetime, uuid.UUID]


class BadCursor(ValueError):
    """The cursor is none of ours."""


def encode(position: Position) -> str:
    moment, row_id = position
    return msgspec.json.encode([moment.isoformat(), str(row_id)]).hex()


def decode(text: str) -> Position:
    """Raises BadCursor."""
    try:
        moment, row_id = msgspec.json.decode(bytes.fromhex(text), type=tuple[datetime, uuid.UUID])
    except (ValueError, msgspec.ValidationError):
        raise BadCursor(text) from None
    if moment.tzinfo is None:
        raise BadCursor(text)
    return moment, row_id


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """Newest first. ``next`` leads to older rows, ``prev`` to newer ones; None at the ends."""

    rows: list[M]
    next: str | None
    prev: str | None

    def answer(self, entries: list[dict[str, object]], total: int) -> dict[str, object]:
        """What a cursor endpoint says of this page, shown as *entries*."""
        return {
            "entries": entries,
            "total": total,
            "has_before": self.prev is not None,
            "has_after": self.next is not None,
            "next_cursor": self.next,
            "prev_cursor": self.prev,
        }


@dataclass(frozen=True, slots=True)
class By:
    """*field*: the name of the time column."""

    field: str

    def _beyond(self, side: str, position: Position) -> Q:
        moment, row_id = position
        return Q(**{f"{self.field}__{side}": moment}) | Q(**{self.field: moment, f"id__{side}": row_id})

    def page(self, rows: "QuerySet[M]", cursor: str | None, direction: str, limit: int) -> Page[M]:
        """*direction* ``before``: newer than the cursor, else older. Raises BadCursor."""
        position = decode(cursor) if cursor else None
        if position and direction == "before":
            found = list(rows.filter(self._beyond("gt", position)).order_by(self.field, "id")[:limit])[::-1]
        else:
            older = rows.filter(self._beyond("lt", position)) if position else rows
            found = list(older.order_by(f"-{self.field}", "-id")[:limit])
        if not found:
            return Page([], None, None)
        first, last = self._position(found[0]), self._position(found[-1])
        has_older = rows.filter(self._beyond("lt", last)).exists()
        has_newer = rows.filter(self._beyond("gt", first)).exists()
        return Page(found, encode(last) if has_older else None, encode(first) if has_newer else None)

    def _position(self, row: Model) -> Position:
        return getattr(row, self.field), row.pk
