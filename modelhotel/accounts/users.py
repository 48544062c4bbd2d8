"""Changes of accounts that somebody asks for: made, changed, deleted, given another password (operations.md 10.3).

Whatever takes something away from an account ends its sessions: it signs in again as what it is now.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Permission
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from modelhotel.accounts import grants, sessions, throttles
from modelhotel.core import changes
from modelhotel.core.actor import Actor
from modelhotel.core.changes import Action, Change
from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from modelhotel.core.text import is_name
from modelhotel.models import User
from proxy.limits import fields
from proxy.verbs import provider_list

ROLES = ("admin", "viewer", "user")
NAME_LIMIT, DISPLAY_LIMIT, EMAIL_LIMIT = 64, 128, 254
#: Characters the column holds: accounts that were made elsewhere may have more than we allow.
_STORED = 150
PASSWORD_LEAST, PASSWORD_MOST = 8, 1024
NOT_FOUND = "user not found"
OWN_ROLE = "you cannot disable or demote your own account"
OWN_ACCOUNT = "you cannot delete your own account"
#: Rooms whose lists and pages a viewer sees.
_SEEN = ("modelhotel", "providers", "failover", "proxy", "requestlogs")


def user_id(text: str) -> uuid.UUID:
    """Raises Refusal."""
    value = parse_uuid(text)
    if value is None:
        raise Refusal(400, "invalid user ID")
    return value


def one(target: str) -> User:
    """Raises Refusal."""
    user = User.objects.filter(pk=user_id(target)).first()
    if user is None:
        raise Refusal(404, NOT_FOUND)
    return user


def named(name: str, among: "QuerySet[User] | None" = None) -> User | None:
    """The account of that name, in any letter case, of *among* (None: of all)."""
    found = User.objects.all() if among is None else among
    if not 0 < len(name) <= _STORED or "\0" in name:  # the databases refuse such a question
        return None
    user = found.filter(username__iexact=name).first()
    if user is None and not name.isascii():  # SQLite knows the letter case of ASCII only
        wanted = name.casefold()
        pairs = found.values_list("pk", "username").iterator()
        same = next((pk for pk, known in pairs if known.casefold() == wanted), None)
        user = found.filter(pk=same).first() if same is not None else None
    return user


def create(given: Mapping[str, Any], actor: Actor) -> User:
    """A new account. Raises Refusal.

    *given*: ``username``, ``password``, ``role``, and any of ``display_name``, ``email``, ``grants``, ``enabled``,
    ``allowed_providers`` (list of ids or None) and the limits (``proxy.limits.fields``).
    """
    user = User(username=checked_name(given.get("username")))
    user.set_password(checked_password(given.get("password")))  # slow on purpose, so before the transaction
    _fill(user, given)
    role, granted = _role(given.get("role", "user")), _grants(given.get("grants", ()))
    try:
        with transaction.atomic():
            _unique(user)
            _set_role(user, role)
            user.save(force_insert=True)
            _set_permissions(user, role, granted)
            _record(user, "created", actor)
    except IntegrityError:
        raise _taken("username") from None
    return user


def update(target: str, given: Mapping[str, Any], actor: Actor) -> User:
    """Change the members of *given* (those of :func:`create` but the password), nothing else. Raises Refusal."""
    wanted = user_id(target)
    try:
        with transaction.atomic():
            user = User.objects.select_for_update().filter(pk=wanted).first()
            if user is None:
                raise Refusal(404, NOT_FOUND)
            before, was = grants.of(user), user.actor.role
            if "username" in given:
                user.username = checked_name(given["username"])
            _fill(user, given)
            _unique(user)
            role = _role(given.get("role", was))
            granted = _grants(given["grants"]) if "grants" in given else before
            demoted = ROLES.index(role) > ROLES.index(was) or not user.is_active
            if demoted and actor.user_id == str(user.pk):
                raise Refusal(409, OWN_ROLE, field="role")
            _set_role(user, role)
            user.save()
            if role != was or granted != before:
                _set_permissions(user, role, granted)
            if demoted or before - granted:
                transaction.on_commit(lambda: sign_out(user))
            _record(user, "updated", actor)
    except IntegrityError:
        raise _taken("username") from None
    return user


def delete(target: str, actor: Actor) -> None:
    """For good; its keys live on without an owner. Raises Refusal."""
    wanted = user_id(target)
    if actor.user_id == str(wanted):
        raise Refusal(409, OWN_ACCOUNT)
    with transaction.atomic():
        user = User.objects.select_for_update().filter(pk=wanted).first()
        if user is None:
            raise Refusal(404, NOT_FOUND)
        open_ones = sessions.of_account(user)
        _record(user, "deleted", actor)
        user.delete()  # and its sessions; those who listen to one are told when that is so
        transaction.on_commit(lambda: sessions.revoke(open_ones))


def set_password(user: User, password: object, actor: Actor, keep: Iterable[str] = ()) -> None:
    """Give *user* another password and end its sessions but those whose stored keys are in *keep*. Raises Refusal."""
    user.set_password(checked_password(password))
    with transaction.atomic():
        if not User.objects.filter(pk=user.pk).update(password=user.password):
            raise Refusal(404, NOT_FOUND)
        _record(user, "updated", actor)
    kept = frozenset(keep)
    sessions.revoke([row for row in sessions.of_account(user) if row.session_key not in kept])


def set_own_password(user: User, current: str, wanted: object, keep: Iterable[str]) -> None:
    """:func:`set_password` for whoever knows the *current* one; guesses are slowed down like those of a sign-in."""
    known = throttles.attempt(
        lambda: (len(current) <= PASSWORD_MOST and user.check_password(current)) or None,
        throttles.by_name(user.username),
    )
    if not known:
        raise Refusal(401, "the current password is wrong", field="current_password")
    set_password(user, wanted, user.actor, keep)


def sign_out(user: User) -> None:
    """End every session of the account."""
    sessions.revoke(sessions.of_account(user))


# -- what may be asked for


def checked_name(given: object) -> str:
    """1 to 64 characters without white space. Raises Refusal."""
    name = given if isinstance(given, str) else ""
    if not 0 < len(name) <= NAME_LIMIT or not is_name(name) or any(letter.isspace() for letter in name):
        text = f"username must be 1 to {NAME_LIMIT} characters without blanks or control characters"
        raise Refusal(400, text, field="username")
    return name


def checked_password(given: object) -> str:
    """Raises Refusal."""
    password = given if isinstance(given, str) else ""
    if not PASSWORD_LEAST <= len(password) <= PASSWORD_MOST:
        text = f"password must be between {PASSWORD_LEAST} and {PASSWORD_MOST} characters"
        raise Refusal(400, text, field="password")
    return password


def _role(given: object) -> str:
    if given not in ROLES:
        raise Refusal(400, "role must be admin, viewer or user", field="role")
    return str(given)


def _grants(given: Iterable[str]) -> frozenset[str]:
    found = frozenset(given)
    if unknown := sorted(found - grants.GRANTS.keys()):
        words = ", ".join(grants.GRANTS)
        raise Refusal(400, f'grants: "{unknown[0][:60]}" is none of {words}', field="grants")
    return found


def _email(given: object) -> str:
    text = given.strip() if isinstance(given, str) else ""
    if text:
        try:
            validate_email(text)
        except ValidationError:
            raise Refusal(400, "email must be an e-mail address", field="email") from None
        if len(text) > EMAIL_LIMIT:
            raise Refusal(400, f"email must be at most {EMAIL_LIMIT} characters", field="email")
    return text


def _display_name(given: object) -> str:
    text = given.strip() if isinstance(given, str) else ""
    if len(text) > DISPLAY_LIMIT or (text and not is_name(text)):
        words = f"display_name must be at most {DISPLAY_LIMIT} characters without control or invisible characters"
        raise Refusal(400, words, field="display_name")
    return text


def _fill(user: User, given: Mapping[str, Any]) -> None:
    """The plain columns of *given*, checked, on the instance. Raises Refusal."""
    if "display_name" in given:
        user.display_name = _display_name(given["display_name"])
    if "email" in given:
        user.email = _email(given["email"])
    if given.get("enabled") is not None:
        user.is_active = bool(given["enabled"])
    if "allowed_providers" in given:
        user.allowed_providers = provider_list(given["allowed_providers"])
    for field, value in fields.merged(given, {name: getattr(user, name) for name in fields.FIELDS}).items():
        setattr(user, field, value)


def _taken(what: str) -> Refusal:
    return Refusal(409, f"a user with this {what} already exists", field=what)


def _unique(user: User) -> None:
    """Raises Refusal; names and addresses are compared in any letter case."""
    others = User.objects.exclude(pk=user.pk)
    if named(user.username, others) is not None:
        raise _taken("username")
    if user.email and others.filter(email__iexact=user.email).exists():
        raise _taken("email")


# -- role and grants as Django has them


def _set_role(user: User, role: str) -> None:
    user.is_superuser = role == "admin"
    user.is_staff = role != "user"


def _set_permissions(user: User, role: str, granted: frozenset[str]) -> None:
    """A viewer may view everything there is; a user what is granted; an administrator needs no list."""
    rows = Permission.objects.none()
    if role == "viewer":
        rows = Permission.objects.filter(content_type__app_label__in=_SEEN, codename__startswith="view_")
    elif role == "user" and granted:
        wanted = Q()
        for name in granted:
            label, _, codename = grants.GRANTS[name].permission.partition(".")
            wanted |= Q(content_type__app_label=label, codename=codename)
        rows = Permission.objects.filter(wanted)
    user.user_permissions.set(rows)


def _record(user: User, action: Action, actor: Actor) -> None:
    changes.record(["users"], Change("user", str(user.pk), action, user.username), actor)
