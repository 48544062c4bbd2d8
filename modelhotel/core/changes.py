"""What every committed change of configuration sets in motion, in one place.

A verb calls :func:`record` inside its transaction. The versions of the tables it wrote are raised in that same
transaction; after the commit, before the caller goes on, this process rebuilds its snapshots, the other processes
are told, and one ``config.changed`` event per change is published.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from modelhotel.core import events, snapshots
from modelhotel.core.actor import Actor

log = logging.getLogger("changes")

Table = Literal["settings", "providers", "models", "groups", "keys", "users"]
Action = Literal["created", "updated", "deleted", "reset"]


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that changed; *id* is empty when one call changed several of its kind.

    *kind*: ``setting``, ``provider``, ``model``, ``failover_group``, ``virtual_key`` or ``user``.
    """

    kind: str
    id: str
    action: Action
    name: str = ""


@dataclass(slots=True)
class _Pending:
    tables: set[str] = field(default_factory=set)
    changes: list[tuple[Change, Actor]] = field(default_factory=list)


#: Raises the version of each table inside the current transaction; the shell sets it.
bump_versions: Callable[[Iterable[str]], None] = lambda tables: None  # noqa: E731
#: Tells the other processes which tables changed; never raises; the shell sets it.
announce: Callable[[Iterable[str]], None] = lambda tables: None  # noqa: E731


def configure(bump: Callable[[Iterable[str]], None], tell: Callable[[Iterable[str]], None]) -> None:
    global bump_versions, announce
    bump_versions, announce = bump, tell


def record(tables: Iterable[Table], change: Change | None, actor: Actor) -> None:
    """Must be called inside ``transaction.atomic``. Without *change* nothing is published (a pure stamp)."""
    connection = connections[DEFAULT_DB_ALIAS]
    if not connection.in_atomic_block:
        raise RuntimeError("changes.record outside of a transaction")
    names = sorted(set(tables))
    bump_versions(names)
    pending = _Pending(set(names), [(change, actor)] if change else [])
    transaction.on_commit(lambda: _committed(pending))


def _committed(pending: _Pending) -> None:
    snapshots.refresh(pending.tables)
    announce(sorted(pending.tables))
    for change, actor in pending.changes:
        events.publish(
            "config.changed",
            "info",
            "config",
            f"{change.kind} {change.name or change.id} {change.action}".replace("  ", " "),
            {"kind": change.kind, "id": change.id, "action": change.action, "actor": actor.name},
        )
