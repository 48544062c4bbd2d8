"""Rows of the table ``leases``, changed by conditional updates: exactly one row changed means it is yours."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from modelhotel.models import Lease

#: Whatever is claimed as soon as it is due is due within a day: an end beyond is one that a wrong clock wrote.
FARTHEST = timedelta(days=2)


def claim(name: str, holder: str, now: datetime, until: datetime) -> bool:
    """Take the lease if nobody holds it at *now*. True: it is *holder*'s until *until*."""
    free = Q(expires_at__lte=now) | Q(expires_at__gt=now + FARTHEST)
    if Lease.objects.filter(free, name=name).update(holder=holder, expires_at=until):
        return True
    if Lease.objects.filter(name=name).exists():
        return False
    try:
        with transaction.atomic():
            Lease.objects.create(name=name, holder=holder, expires_at=until)
    except IntegrityError:
        return False  # another process made the row between the two statements
    return True


def move(name: str, holder: str, until: datetime) -> bool:
    """Set the end of a lease that *holder* holds: later to keep it, in the past to give it up."""
    return bool(Lease.objects.filter(name=name, holder=holder).update(expires_at=until))


def give_back(name: str, holder: str, until: datetime) -> bool:
    """The work of *holder* is done: nobody holds the lease, and it is due at *until*."""
    return bool(Lease.objects.filter(name=name, holder=holder).update(holder="", expires_at=until))


def arm(name: str, now: datetime, until: datetime) -> None:
    """Let the lease be due at *until*, unless somebody is at work under it."""
    idle = Q(holder="") | Q(expires_at__lte=now)
    if not Lease.objects.filter(idle, name=name).update(holder="", expires_at=until):
        Lease.objects.bulk_create([Lease(name=name, holder="", expires_at=until)], ignore_conflicts=True)


def look(names: Collection[str]) -> Mapping[str, tuple[str, datetime]]:
    """Name -> who holds it (``""`` = nobody) and until when, of those that exist."""
    rows = Lease.objects.filter(name__in=names).values_list("name", "holder", "expires_at")
    return {name: (holder, expires_at) for name, holder, expires_at in rows}
