"""Changes of accounts."""

import logging

from django.contrib.auth import authenticate
from django.contrib.auth.hashers import make_password
from django.db import transaction
from django.http import HttpRequest

from modelhotel.accounts import sessions, users
from modelhotel.core import changes
from modelhotel.core.actor import SYSTEM, Actor
from modelhotel.core.changes import Action
from modelhotel.models import User

log = logging.getLogger("auth")

#: The authentication backend whose accounts we sign in.
BACKEND = "django.contrib.auth.backends.ModelBackend"
#: The account that the admin token signs in.
ADMIN_NAME = "admin"


def by_password(request: HttpRequest | None, name: str, password: str) -> User | None:
    """The enabled account of that name and password. Names are compared in any letter case; an unknown name, a
    disabled account and a wrong password cost the same work."""
    known = users.named(name) if len(password) <= users.PASSWORD_MOST else None
    username, tried = (known.username, password) if known else ("", "")
    user = authenticate(request, username=username, password=tried)
    return user if isinstance(user, User) else None


def admin_account() -> User | None:
    """The account that the admin token signs in, None before its first use."""
    return User.objects.filter(username__iexact=ADMIN_NAME).first()


def ensure_admin(password: str | None = None, *, actor: Actor = SYSTEM) -> User:
    """The account ``admin`` as an enabled administrator; made when missing.

    *password* is used for a new account only; without one it can be signed in with the admin token alone. An account
    that was disabled or was no administrator comes back without its old password and its sessions: the admin token
    was shown, that password was not.
    """
    secret = make_password(password or None)  # slow on purpose, so before the transaction
    with transaction.atomic():
        user = User.objects.select_for_update().filter(username__iexact=ADMIN_NAME).first()
        if user and user.is_active and user.is_superuser and user.is_staff:
            return user
        action: Action = "updated"
        if user is None:
            user, action = User(username=ADMIN_NAME, password=secret), "created"
        else:
            user.set_unusable_password()
            old = sessions.of_account(user)
            transaction.on_commit(lambda: sessions.revoke(old))
        user.is_active = user.is_staff = user.is_superuser = True
        user.save()
        changes.record(["users"], changes.Change("user", str(user.pk), action, user.username), actor)
    log.info("auth: administrator account made ready", extra={"attrs": {"action": action, "username": user.username}})
    return user
