"""A house in which providers and what is stored disagree: written past the verbs, as sweeps would have left it."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from tests.pages.conftest import Hotel

_FILL = """
from datetime import timedelta
from failover.models import FailoverGroup
from modelhotel.core.clock import SYSTEM
from providers.discovery import journal
from providers.models import Model, Provider
now, day = SYSTEM.now(), timedelta(days=1)
alpha, beta = Provider.objects.get(name="Alpha"), Provider.objects.get(name="Beta")

def lost(owner, name, age, **given):
    values = {"enabled": False, "last_seen_at": now - age, **given}
    return Model.objects.create(provider=owner, model_id=f"lost-{name}", name=name, **values)

lost(alpha, "gone-1", 2 * day)
lost(alpha, "gone-2", 9 * day)
lost(alpha, "stale", 45 * day)
lost(alpha, "suspect", day / 4, enabled=True, missing_scans=1)
lost(alpha, "refused", day / 24, auto_retired_at=now - day)
lost(alpha, "pinned", 3 * day, enabled=True, missing_scans=6, manually_enabled_at=now - day)
only = lost(beta, "elsewhere", 2 * day)
FailoverGroup.objects.create(
    display_model="lost-group", priority_order=[str(only.pk)], group_enabled=False,
    auto_disabled_at=now - day, updated_at=now,
)
gone = [{"model_id": "lost-gone-1", "reason": "not_listed"}]
added = {"added": [{"model_id": "lost-gone-1", "reason": "new_model"}]}
price = {"field": "input_price", "old": 2.5, "new": 2.0}
updated = [{"model_id": "glm-4.6", "changes": [price]}]
journal.record("startup", alpha, added, now - 4 * day)
journal.record("scheduled", alpha, {"disabled": gone, "updated": updated}, now - 2 * day)
journal.record("scheduled", None, {"failover_deleted_groups": [{"display_model": "old", "reason": "r"}]}, now - day)
"""
_MANY = """
from providers.models import Model, Provider
owner = Provider.objects.get(name="Beta")
Model.objects.bulk_create(
    (Model(provider=owner, model_id=f"lost-{at:05}", enabled=False) for at in range(NUMBER)), batch_size=500
)
"""
_TABLES = ("models", "model_failover_groups", "discovery_changes", "discovery_flaps")


class Discrepant:
    """Five counted claims (two gone and one refused at Alpha, one gone at Beta, one group) and two entries of news."""

    def __init__(self, hotel: Hotel) -> None:
        self.hotel = hotel
        _run(hotel, _FILL)
        with self._database() as database:
            self._rows = {name: database.execute(f"SELECT * FROM {name}").fetchall() for name in _TABLES}

    def fresh(self) -> None:
        """As on the first day. Written into the file: a process of its own for every test would cost seconds."""
        with self._database() as database, database:
            for name in reversed(_TABLES):
                database.execute(f"DELETE FROM {name}")
            for name, rows in self._rows.items():
                database.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(rows[0]))})", rows)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.hotel.product.data_dir / "modelhotel.sqlite3", timeout=20)
        try:
            yield database
        finally:
            database.close()


def fill_many(hotel: Hotel, number: int) -> None:
    """So many more models that are gone from Beta."""
    _run(hotel, _MANY.replace("NUMBER", str(number)))


def _run(hotel: Hotel, script: str) -> None:
    made = hotel.product.manage("shell", "-c", script)
    assert made.returncode == 0, made.stderr
