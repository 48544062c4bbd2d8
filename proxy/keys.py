"""Virtual keys in memory: what the hot path asks instead of the database."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from modelhotel.core.snapshots import Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class KeyRow:
    """*allowed* is the key's list of provider ids intersected with its owner's; None = every provider."""

    id: str
    name: str
    hash: str
    allowed: frozenset[str] | None
    strip_reasoning: bool
    owner_user_id: str | None
    owner_disabled: bool


@dataclass(frozen=True, slots=True, eq=False)
class KeyTable:
    """Every key by the SHA-256 (lower-case hex) of its text."""

    by_hash: Mapping[str, KeyRow] = field(default_factory=dict)


def build() -> KeyTable:
    """Two queries: the keys, and the owners there are."""
    from django.contrib.auth import get_user_model

    from proxy.models import VirtualKey

    owners = {
        str(pk): (active, allowed)
        for pk, active, allowed in get_user_model().objects.values_list("pk", "is_active", "allowed_providers")
    }
    rows: dict[str, KeyRow] = {}
    for pk, name, key_hash, allowed, strip, owner in VirtualKey.objects.values_list(
        "pk", "name", "key_hash", "allowed_providers", "strip_reasoning", "owner_user_id"
    ):
        active, cap = owners.get(str(owner), (True, None)) if owner else (True, None)
        rows[key_hash] = KeyRow(
            id=str(pk),
            name=name,
            hash=key_hash,
            allowed=intersect(allowed, cap),
            strip_reasoning=strip,
            owner_user_id=str(owner) if owner else None,
            owner_disabled=not active,
        )
    return KeyTable(rows)


def intersect(one: list[str] | None, other: list[str] | None) -> frozenset[str] | None:
    """The providers that both lists allow; None on a side means that side restricts nothing."""
    if one is None:
        return None if other is None else frozenset(other)
    return frozenset(one) if other is None else frozenset(one) & frozenset(other)


SNAPSHOT: Snapshot[KeyTable] = Snapshot("keys", ("keys", "users"), build, KeyTable)
