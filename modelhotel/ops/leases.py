"""Rows of the table ``leases``, changed by conditional updates: exactly one row changed means it is yours."""

from datetime import datetime

from django.db import IntegrityError, transaction

from modelhotel.models import Lease


def claim(name: str, holder: str, now: datetime, until: datetime) -> bool:
    """Take the lease if nobody holds it at *now*. True: it is *holder*'s until *until*."""
    if Lease.objects.filter(name=name, expires_at__lte=now).update(holder=holder, expires_at=until):
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
