"""Accounts as the providers see them (``providers.ports.Users``)."""

from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM
from modelhotel.models import User


def forget_provider_in_users(provider_id: str) -> None:
    """Take the id out of every account's list; one that becomes empty stays empty: no provider at all.

    Inside the caller's transaction.
    """
    touched = False
    for user in User.objects.select_for_update().filter(allowed_providers__isnull=False):
        listed = user.allowed_providers or []
        if provider_id in listed:
            user.allowed_providers = [one for one in listed if one != provider_id]
            user.save(update_fields=["allowed_providers"])
            touched = True
    if touched:
        changes.record(["users"], None, SYSTEM)
