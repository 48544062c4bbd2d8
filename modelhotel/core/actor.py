"""Who acts: the name and role that audit rows and ``config.changed`` events carry."""

from dataclasses import dataclass
from typing import Literal

Role = Literal["admin", "viewer", "user", "system"]


@dataclass(frozen=True, slots=True)
class Actor:
    """*name* is the user name, ``admin`` for the admin token, ``system`` for syncs and scans."""

    name: str
    role: Role
    user_id: str | None = None


SYSTEM = Actor("system", "system")
ADMIN = Actor("admin", "admin")
