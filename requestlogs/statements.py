"""The statements that read sums and rows together: which database, whose rows, which stretch of time."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from django.db import connection

from requestlogs import measures, plan, rollup
from requestlogs.measures import MINUTE, TRAFFIC, Kind

DAY = 86400
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose rows. *owner*: of this account only. *exclude_deleted*: without those of keys that are gone."""

    owner: str | None = None
    exclude_deleted: bool = True


@dataclass(frozen=True, slots=True)
class Window:
    """``low <= time < high`` in POSIX seconds; *high* is a whole minute, *low* need not be."""

    low: int
    high: int

    @classmethod
    def last(cls, seconds: int, now: float) -> "Window":
        """Up to the end of the minute that runs."""
        return cls(int(now) - seconds, plan.floor(int(now), MINUTE) + MINUTE)


#: On SQLite CROSS JOIN is in this order: for each range, its slices.
_WITHIN = "s.span = ranges.span AND s.start >= ranges.first AND s.start < ranges.until"


class Statement:
    """A statement over one *kind* of sums in one *window*: CTEs to select from, and their parameters.

    *longest*: no longer spans than this.
    """

    def __init__(self, kind: Kind, scope: Scope, window: Window, longest: int = DAY) -> None:
        self.vendor = connection.vendor
        self.kind, self.scope, self.window = kind, scope, window
        covered = plan.cover(plan.ceil(window.low, MINUTE), window.high, rollup.stale(), longest)
        self._ranges = msgspec.json.encode(covered).decode()

    def _picked(self) -> str:
        """CTEs ``ranges``, ``living``; two parameters."""
        if self.vendor == "sqlite":
            columns = ", ".join(f"json_extract(value, '$[{at}]')" for at in range(3))
            each = "json_each(%s)"
        else:
            columns = ", ".join(f"CAST(value->>{at} AS BIGINT)" for at in range(3))
            each = "jsonb_array_elements(%s::jsonb)"
        ranges = f"ranges(span, first, until) AS MATERIALIZED (SELECT {columns} FROM {each})"
        return f"{ranges}, {measures.living(self.vendor)}"

    def _wanted(self, alias: str) -> tuple[str, list[str]]:
        """The condition on names, and its parameters."""
        conditions, params = ["1 = 1"], []
        if self.scope.exclude_deleted and self.kind is TRAFFIC:
            conditions.append(f"({alias}.key = '' OR {alias}.key IN (SELECT id FROM living))")
        elif self.scope.exclude_deleted:
            conditions.append(f"{alias}.gone = ''")
        if self.scope.owner is not None:
            conditions.append(f"{alias}.owner = %s")
            params.append(rollup.as_text(self.scope.owner))
        return " AND ".join(conditions), params

    def known(self) -> tuple[str, list[object]]:
        """``known``: the sums of the window by name."""
        kind, (of_names, owner), of_edge = self.kind, self._wanted("n"), self._wanted("edge")[0]
        columns = ", ".join(f"n.{name}" for name in kind.names), ", ".join(f"p.{name}" for name in kind.measures)
        low = self.window.low
        edge = [rollup.moment_param(low), rollup.moment_param(plan.ceil(low, MINUTE))]
        sql = f"""WITH {self._picked()},
        part AS MATERIALIZED (
            SELECT s.name AS name_id, {kind.summed("s")}
            FROM ranges CROSS JOIN {kind.table} AS s WHERE {_WITHIN} GROUP BY s.name),
        known AS MATERIALIZED (
            SELECT {", ".join(columns)} FROM part AS p JOIN {kind.table}_names AS n ON n.id = p.name_id
            WHERE {of_names}
            UNION ALL
            SELECT {kind.named}, {kind.measured} FROM ({measures.between(kind)}) AS edge WHERE {of_edge})
        """
        return sql, [self._ranges, rollup.living(), *owner, *edge, *owner]

    def buckets(self, span: int) -> tuple[str, list[object]]:
        """The sums of the window, which begins with a bucket, by bucket of *span* seconds."""
        wanted, owner = self._wanted("n")
        of = "" if self.scope == Scope(None, False) else "AND s.name IN (SELECT id FROM picked)"
        sql = f"""WITH {self._picked()},
        picked AS MATERIALIZED (SELECT n.id FROM {self.kind.table}_names AS n WHERE {wanted})
        SELECT s.start - s.start %% {span} AS bucket, {self.kind.summed("s")}
        FROM ranges CROSS JOIN {self.kind.table} AS s WHERE {_WITHIN} {of} GROUP BY 1"""
        return sql, [self._ranges, rollup.living(), *owner]


def rows(sql: str, params: Iterable[Any]) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, list(params))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def mean(total: object, count: object) -> float:
    return float(total) / int(count) if count else 0.0  # type: ignore[arg-type, call-overload]
