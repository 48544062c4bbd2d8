"""``/api/users``: the accounts of the dashboard. Administrators change them, viewers look; no answer holds a hash."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router, Status

from modelhotel.accounts import grants, users
from modelhotel.core.clock import rfc3339
from modelhotel.core.webapi import Body, actor_of
from modelhotel.models import User
from proxy.limits.fields import FIELDS

router = Router(tags=["users"])


class UserEdit(Body):
    """Absent keeps; ``null`` clears ``allowed_providers`` and the limits, and keeps the rest."""

    null_is_absent = frozenset({"username", "display_name", "email", "role", "grants", "enabled"})

    username: str = ""
    display_name: str = ""
    email: str = ""
    role: str = "user"
    grants: list[str] = []
    enabled: bool = True
    allowed_providers: list[str] | None = None
    rate_limit_rps: float | None = None
    rate_limit_burst: int | None = None
    rate_limit_tpm: int | None = None
    budget_usd: float | None = None
    budget_period: str | None = None


class UserCreate(UserEdit):
    password: str = ""


class Password(Body):
    password: str


def describe(user: User) -> dict[str, Any]:
    """The object of every answer."""
    return {
        "id": str(user.pk),
        "username": user.username,
        "display_name": user.display_name,
        "email": user.email,
        "role": user.actor.role,
        "grants": sorted(grants.of(user)),
        "enabled": user.is_active,
        "allowed_providers": user.allowed_providers,
        **{field: getattr(user, field) for field in FIELDS},
        "created_at": rfc3339(user.date_joined),
        "last_login_at": rfc3339(user.last_login),
    }


@router.get("", summary="All accounts")
def list_users(request: HttpRequest) -> list[dict[str, Any]]:
    return [describe(user) for user in User.objects.order_by("username").prefetch_related(*grants.READ)]


@router.get("/grants", summary="What accounts of the role user can be given")
def list_grants(request: HttpRequest) -> list[dict[str, str]]:
    return [{"grant": name, "label": grant.label} for name, grant in grants.GRANTS.items()]


@router.post("", response={201: dict[str, Any]}, summary="Make an account")
def create_user(request: HttpRequest, body: UserCreate) -> Status[dict[str, Any]]:
    return Status(201, describe(users.create(body.given(), actor_of(request))))


@router.get("/{id}", summary="One account")
def get_user(request: HttpRequest, id: str) -> dict[str, Any]:
    return describe(users.one(id))


@router.put("/{id}", summary="Change an account")
def update_user(request: HttpRequest, id: str, body: UserEdit) -> dict[str, Any]:
    return describe(users.one(str(users.update(id, body.given(), actor_of(request)).pk)))


@router.post("/{id}/password", response={204: None}, summary="Give an account another password")
def set_password(request: HttpRequest, id: str, body: Password) -> HttpResponse:
    """Ends its sessions."""
    users.set_password(users.one(id), body.password, actor_of(request))
    return HttpResponse(status=204)


@router.delete("/{id}", response={204: None}, summary="Delete an account")
def delete_user(request: HttpRequest, id: str) -> HttpResponse:
    """Its keys live on without an owner."""
    users.delete(id, actor_of(request))
    return HttpResponse(status=204)
