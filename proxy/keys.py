"""Virtual keys in memory: what the hot path asks instead of the database; and the one write traffic causes."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from modelhotel.core.snapshots import Snapshot
from proxy.limits.caps import NO_LIMITS, Limits
from proxy.limits.fields import FIELDS

#: Seconds a statement on the counters may take (v1-api 10.8).
WRITE_LIMIT = 5.0

log = logging.getLogger("keys")
_loading = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class KeyRow:
    """*allowed* is the key's list of provider ids intersected with its owner's; None = every provider.

    *limits* are its own, *owner_limits* those of its owner, where it has one.
    """

    id: str
    name: str
    hash: str
    allowed: frozenset[str] | None
    strip_reasoning: bool
    owner_user_id: str | None
    owner_disabled: bool
    limits: Limits = NO_LIMITS
    owner_limits: Limits | None = None
    owner_name: str = ""
    #: No key at all: a signed-in account asks, and *id* and *name* are the route's (v1-api 5.8).
    session: bool = False


class Owner(NamedTuple):
    """An account, as far as requests are concerned."""

    name: str
    active: bool
    allowed: list[str] | None
    limits: Limits | None


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Every key by the SHA-256 (lower-case hex) of its text. *ready* is False before the first build."""

    by_hash: Mapping[str, KeyRow] = field(default_factory=dict)
    ready: bool = False


#: Whose keys belong to no account, and the admin token.
NOBODY = Owner("", True, None, None)


def hash_of(key: bytes) -> str:
    """What is stored of a key: SHA-256 of its bytes as sent, lower-case hex."""
    return sha256(key).hexdigest()


def build() -> KeyTable:
    """Two queries: the owners there are, and the keys."""
    from django.contrib.auth import get_user_model

    from proxy.models import VirtualKey

    owners = {
        str(pk): Owner(name, active, allowed, Limits(*limits))
        for pk, name, active, allowed, *limits in get_user_model().objects.values_list(
            "pk", "username", "is_active", "allowed_providers", *FIELDS
        )
    }
    rows: dict[str, KeyRow] = {}
    for pk, name, key_hash, allowed, strip, owner_id, *limits in VirtualKey.objects.order_by().values_list(
        "pk", "name", "key_hash", "allowed_providers", "strip_reasoning", "owner_user_id", *FIELDS
    ):
        owner = owners.get(str(owner_id), NOBODY) if owner_id else NOBODY
        rows[key_hash] = KeyRow(
            id=str(pk),
            name=name,
            hash=key_hash,
            allowed=intersect(allowed, owner.allowed),
            strip_reasoning=strip,
            owner_user_id=str(owner_id) if owner_id else None,
            owner_disabled=not owner.active,
            limits=Limits(*limits),
            owner_limits=owner.limits,
            owner_name=owner.name,
        )
    return KeyTable(rows, ready=True)


def of_account(route: str, user_id: str | None, owner: Owner = NOBODY) -> KeyRow:
    """What stands in for a key where the account *user_id* (None: the admin token) asks through the dashboard.

    The rate is counted per *route*; the account's own caps and providers apply as with a key.
    """
    return KeyRow(
        id=route,
        name=route,
        hash=f"{route} {user_id or ''}",
        allowed=intersect(None, owner.allowed),
        strip_reasoning=False,
        owner_user_id=user_id,
        owner_disabled=False,
        owner_limits=owner.limits,
        owner_name=owner.name,
        session=True,
    )


def intersect(one: list[str] | None, other: list[str] | None) -> frozenset[str] | None:
    """The providers that both lists allow; None on a side means that side restricts nothing."""
    if one is None:
        return None if other is None else frozenset(other)
    return frozenset(one) if other is None else frozenset(one) & frozenset(other)


SNAPSHOT: Snapshot[KeyTable] = Snapshot("keys", ("keys", "users"), build, KeyTable)


def load() -> KeyTable:
    """The table, built now where that was not possible before. For any thread but the event loop's.

    Raises what the database raises.
    """
    with _loading:
        if not SNAPSHOT.current.ready:
            try:
                SNAPSHOT.refresh()
            finally:
                close_connection()
    return SNAPSHOT.current


def close_connection() -> None:
    """The database connection of a thread that ends."""
    from django.db import connection

    connection.close()


def write_counters(keys: Mapping[str, tuple[int, float]], providers: Mapping[str, float]) -> None:
    """Add tokens and stamp "last used": *keys* by id as (tokens, POSIX time), *providers* by id as POSIX time.

    One transaction, rows in a fixed order, so that two processes do not wait for each other; no instances, no
    snapshot is rebuilt. Raises what the database raises; its connection is closed then.
    """
    from django.db import connection, transaction
    from django.db.models import F

    from providers.models import Provider
    from proxy.models import VirtualKey

    try:
        with transaction.atomic():
            if connection.vendor == "postgresql":
                with connection.cursor() as cursor:
                    cursor.execute(f"SET LOCAL statement_timeout = {int(WRITE_LIMIT * 1000)}")
            for key_id in sorted(keys):
                tokens, used_at = keys[key_id]
                columns: dict[str, object] = {"last_used_at": datetime.fromtimestamp(used_at, UTC)}
                if tokens:
                    columns["tokens_used"] = F("tokens_used") + tokens
                VirtualKey.objects.filter(pk=key_id).update(**columns)
            for provider_id in sorted(providers):
                used_at = providers[provider_id]
                Provider.objects.filter(pk=provider_id).update(last_used_at=datetime.fromtimestamp(used_at, UTC))
    except Exception:
        close_connection()
        raise
