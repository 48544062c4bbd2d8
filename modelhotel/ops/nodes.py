"""Who may run on this database: one node alone, or several that share Redis.

SQLite: a lock on a file in DATA_DIR, which ends with the process. PostgreSQL: a row in ``leases`` per node, renewed
every second or so. Whether its holder lives is judged by watching the row change, never by comparing clocks, so a
restart after a crash waits at most :data:`TTL` and a living node is recognised at once.
"""

import logging
import os
import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import IO

from django.db.models import Q

from modelhotel.core.clock import Clock
from modelhotel.core.environment import Environment
from modelhotel.models import Lease
from modelhotel.ops import database
from modelhotel.ops.faults import StartRefused

REFUSED = "another node is running on this database: set DATABASE_URL and REDIS_URL to run several"
#: A row that stands still for this many seconds belongs to a dead node; renewed every second.
TTL = 4.0
_LOOK = 0.2
#: The row of a node that runs alone; nodes that share Redis have one each, ``node:<name>``.
ALONE, SHARED = "node", "node:"
log = logging.getLogger("nodes")


class Membership:
    """This node's claim on its database, from :meth:`join` to :meth:`leave`."""

    def __init__(self, env: Environment, clock: Clock, sleep: Callable[[float], object]) -> None:
        self._env = env
        self._clock = clock
        self._sleep = sleep
        self._file: IO[str] | None = None
        self.usurped = False
        self.holder = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.name = SHARED + env.node_name[:50] if env.redis_url else ALONE

    def join(self) -> None:
        """Raises StartRefused. With PostgreSQL the caller holds the start lock."""
        if self._env.sqlite:
            self._file = database.try_lock(self._env.data_dir / "node.lock")
            if self._file is None:
                raise StartRefused(REFUSED)
            return
        if not self._env.redis_url:
            if self._lives(Q(name=ALONE) | Q(name__startswith=SHARED)):
                raise StartRefused(REFUSED)
        elif self._lives(Q(name=ALONE)):
            raise StartRefused(REFUSED)
        elif self._lives(Q(name=self.name)):
            # Two nodes of one name would close each other's requests in flight at every start.
            raise StartRefused(f"NODE_NAME: a node named {self._env.node_name} is running; each needs its own name")
        Lease.objects.update_or_create(name=self.name, defaults=self._row())

    def _row(self) -> dict[str, object]:
        return {"holder": self.holder, "expires_at": self._clock.now() + timedelta(seconds=TTL)}

    def _lives(self, rivals: Q) -> bool:
        """Watch the rows that are not long expired until one changes (True) or all stood still for TTL."""
        horizon = self._clock.now() - timedelta(seconds=TTL)

        def rows() -> dict[str, object]:
            found = Lease.objects.filter(rivals, expires_at__gt=horizon)
            return {row.name: (row.holder, row.expires_at) for row in found}

        first = rows()
        deadline = self._clock.monotonic() + TTL
        while first and self._clock.monotonic() < deadline:
            self._sleep(_LOOK)
            now = rows()
            if any(now[name] != first[name] for name in first if name in now):
                return True
            first = {name: seen for name, seen in first.items() if name in now}
        return False

    def renew(self) -> None:
        """Say that this node lives; a few times per TTL. Raises what the database raises."""
        if self._env.sqlite or Lease.objects.filter(name=self.name, holder=self.holder).update(**self._row()):
            return
        taken, _ = Lease.objects.get_or_create(name=self.name, defaults=self._row())
        if taken.holder != self.holder and not self.usurped:
            self.usurped = True
            log.error("nodes: another node took this one's place while the database was out of reach")

    def leave(self) -> None:
        """The next node need not wait. Never raises for a row that is gone."""
        if self._file is not None:
            self._file.close()
            self._file = None
        elif not self._env.sqlite:
            Lease.objects.filter(name=self.name, holder=self.holder).delete()
