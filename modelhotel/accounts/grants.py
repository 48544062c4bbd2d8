"""What an account without staff status may be given (operations.md 1): each grant is one permission of Django's.

What a grant opens is limited to the account's own keys and requests, and to the providers it may use.
"""

from typing import NamedTuple

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


def of(user: User) -> frozenset[str]:
    """The grants of *user*; none for staff, whose role says what it may."""
    if user.actor.role != "user":
        return frozenset()
    return frozenset(name for name, grant in GRANTS.items() if user.has_perm(grant.permission))
