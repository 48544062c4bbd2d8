"""Tables of the shell: accounts, sessions, settings, configuration versions, leases, audit."""

import uuid

from django.contrib.auth.models import AbstractUser
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Lower

from modelhotel.core import environment
from modelhotel.core.actor import Actor
from modelhotel.core.limitfields import LimitFields


class User(LimitFields, AbstractUser):
    """An account of the dashboard. Administrator: superuser; viewer: staff with view permissions only; user: neither,
    with grants (``accounts/grants.py``). *allowed_providers*: ids, None = every provider."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    display_name = models.CharField(max_length=128, blank=True, default="")
    allowed_providers = models.JSONField(null=True, blank=True)

    class Meta(LimitFields.Meta):
        db_table = "users"
        permissions = [
            ("use_chat", "Can chat through the dashboard"),
            ("see_usage", "Can see statistics of its own requests"),
        ]
        constraints = [
            *LimitFields.Meta.constraints,
            models.UniqueConstraint(Lower("username"), name="users_username_any_case"),
        ]

    def has_perm(self, perm: str, obj: models.Model | None = None) -> bool:
        """In a read-only demo nobody may more than look, so every page leaves its controls out."""
        looks = perm.partition(".")[2].startswith("view_")
        return (looks or not environment.current().demo_readonly) and super().has_perm(perm, obj)

    @property
    def actor(self) -> Actor:
        if self.is_superuser:
            return Actor(self.username, "admin", str(self.pk))
        return Actor(self.username, "viewer" if self.is_staff else "user", str(self.pk))


class Session(AbstractBaseSession):
    """A sign-in. *session_key* holds the SHA-256 of the cookie, so a copy of the table opens nothing."""

    session_key = models.CharField(max_length=64, primary_key=True)
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="+")
    ip = models.CharField(max_length=64, blank=True, default="")
    user_agent = models.CharField(max_length=256, blank=True, default="")
    created_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        db_table = "sessions"


class Setting(models.Model):
    """A runtime setting that differs from its default. Keys that start with ``_`` are internal."""

    key = models.CharField(max_length=100, primary_key=True)
    value = models.TextField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "settings"

    def __str__(self) -> str:
        return self.key


class ConfigVersion(models.Model):
    """How often a configuration table was written; raised in the transaction of each write."""

    name = models.CharField(max_length=40, primary_key=True)
    version = models.BigIntegerField(default=0)

    class Meta:
        db_table = "config_versions"


class Lease(models.Model):
    """A job that one process runs at a time: whoever changed the row holds it until *expires_at*."""

    name = models.CharField(max_length=60, primary_key=True)
    holder = models.CharField(max_length=100)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "leases"


class AdminToken(models.Model):
    """The one admin token, as ``sha256:<64 hex>``."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    token_hash = models.CharField(max_length=71)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "admin_token"


class AuditRow(models.Model):
    """One write on the admin side that passed authentication, successful or refused. Never bodies or values."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)
    actor_role = models.CharField(max_length=10)
    method = models.CharField(max_length=10)
    route = models.CharField(max_length=200)
    path = models.CharField(max_length=500)
    entity_id = models.CharField(max_length=100, blank=True, default="")
    status_code = models.PositiveSmallIntegerField()
    remote_addr = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        db_table = "audit_log"
        ordering = ("-created_at", "-id")
