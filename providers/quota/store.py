"""The table of quota snapshots. Everything here raises what the database raises."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

from django.db import transaction

from providers import cache
from providers.cache import ProviderRow, SealedKey
from providers.models import Provider, QuotaSnapshot
from providers.quota import drift
from providers.quota.shapes import Paths

Source = Literal["poll", "manual"]
OK, NO_QUOTA, KEY_REFUSED = 200, 204, 424


class Asked(NamedTuple):
    """What a fetch went by. *sealed* None = keyless."""

    provider_type: str
    base_url: str
    sealed: SealedKey | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """One finished fetch; *error* set when it failed, else *status* is one of the above. *shape*: the key paths of
    the answer as it came; *account*: who was asked, None = whoever it is."""

    payload: Any = None
    status: int = 0
    error: str = ""
    shape: Paths = field(default=(), compare=False)
    account: Asked | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Account:
    """What the judgement of a snapshot needs to know of its provider. *reserve* in percent."""

    provider_type: str
    reserve: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    provider_id: str
    payload: Any
    http_status: int
    fetched_at: datetime | None
    last_error: str


def asked(row: ProviderRow) -> Asked:
    return Asked(row.kind.type, row.base_url, row.sealed)


def accounts() -> dict[str, Account]:
    """Every enabled provider by its id."""
    rows = Provider.objects.filter(enabled=True).values_list("pk", "provider_type", "quota_reserve_percent")
    return {str(pk): Account(provider_type, reserve) for pk, provider_type, reserve in rows}


def snapshots() -> list[Snapshot]:
    rows = QuotaSnapshot.objects.values_list("provider_id", "payload", "http_status", "fetched_at", "last_error")
    return [Snapshot(str(pk), payload, status, at, error) for pk, payload, status, at, error in rows]


@dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot and whose it is; *reserve* in percent."""

    provider_id: str
    name: str
    provider_type: str
    enabled: bool
    reserve: int
    kind: str
    payload: Any
    http_status: int
    fetched_at: datetime | None
    last_error: str


_COLUMNS = ("kind", "payload", "http_status", "fetched_at", "last_error")


def readings() -> list[Reading]:
    """Every snapshot with its provider, in the order of the providers' names."""
    owner = [f"provider__{name}" for name in ("name", "provider_type", "enabled", "quota_reserve_percent")]
    rows = QuotaSnapshot.objects.order_by("provider__name", "kind").values_list("provider_id", *owner, *_COLUMNS)
    return [Reading(str(pk), *more) for pk, *more in rows]


def keep(provider_id: str, kind: str, fetched: Fetched, source: Source, now: datetime) -> bool:
    """Replace the snapshot, or note that its refresh failed. False, and nothing of it, when the provider is gone or is
    another account by now."""
    with transaction.atomic():
        provider = Provider.objects.select_for_update().filter(pk=provider_id).first()
        if provider is None or fetched.account not in (None, asked(cache.row_of(provider))):
            return False
        _write(provider, kind, fetched, source, now)
    if fetched.status == OK:
        drift.watch(provider, kind, fetched.shape)
    return True


def _write(provider: Provider, kind: str, fetched: Fetched, source: Source, now: datetime) -> None:
    if fetched.error:
        failed = {"last_error": fetched.error, "last_attempt_at": now}
        QuotaSnapshot.objects.update_or_create(
            provider=provider, kind=kind, defaults=failed, create_defaults={**failed, "source": source}
        )
        return
    QuotaSnapshot.objects.update_or_create(
        provider=provider,
        kind=kind,
        defaults={
            "payload": fetched.payload,
            "http_status": fetched.status,
            "fetched_at": now,
            "source": source,
            "last_error": "",
            "last_attempt_at": now,
        },
    )


def forget(provider: Provider) -> None:
    """What was read of *provider* says nothing any more; inside the caller's transaction."""
    QuotaSnapshot.objects.filter(provider=provider).delete()


def clear() -> int:
    """Forget every reading; how many there were. What a pass made of them stays until there are new ones."""
    return QuotaSnapshot.objects.all().delete()[0]
