"""What an account without staff status may be given (operations.md 1): each grant is one permission of Django's.

What a grant opens is limited to the account's own keys and requests, and to the providers it may use.
"""

from typing import NamedTuple

from django.contrib.auth.models import Permission
from django.db.models import Prefetch, prefetch_related_objects

from modelhotel.models import User


class Grant(NamedTuple):
    permission: str
    label: str


GRANTS: dict[str, Grant] = {
    "chat": Grant("modelhotel.use_chat", "Chat through the dashboard"),
    "usage": Grant("modelhotel.see_usage", "Statistics of its own requests"),
    "logs": Grant("requestlogs.view_requestlog", "Its own requests"),
    "models": Grant("providers.view_model", "The models it may use"),
    "virtual_keys": Grant("proxy.change_virtualkey", "Virtual keys of its own"),
}


def _permissions(path: str) -> "Prefetch[str]":
    return Prefetch(path, Permission.objects.select_related("content_type"))


#: What :func:`of` reads, for ``prefetch_related`` where it is asked of many.
READ = (_permissions("user_permissions"), _permissions("groups__permissions"))


def of(user: User) -> frozenset[str]:
    """The grants of *user*; none for staff, whose role says what it may.

    What was granted, not what ``has_perm`` makes of it: that is nothing for a disabled account, whose grants would
    then be seen and taken away by nobody, and next to nothing in a read-only demo.
    """
    if user.actor.role != "user":
        return frozenset()
    prefetch_related_objects([user], *READ)
    rows = [*user.user_permissions.all()]
    for group in user.groups.all():
        rows += group.permissions.all()
    held = {f"{row.content_type.app_label}.{row.codename}" for row in rows}
    return frozenset(name for name, grant in GRANTS.items() if grant.permission in held)
