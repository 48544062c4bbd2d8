"""Virtual keys: what clients of /v1 present."""

import uuid

from django.conf import settings
from django.db import models

from modelhotel.core.limitfields import LimitFields


class VirtualKey(LimitFields):
    """A key handed to a client. Only the SHA-256 of it is stored; *allowed_providers* null = every provider."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    key_hash = models.CharField(max_length=64, unique=True, editable=False)
    key_preview = models.CharField(max_length=16, editable=False)
    tokens_used = models.BigIntegerField(default=0, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    allowed_providers = models.JSONField(null=True, blank=True)
    strip_reasoning = models.BooleanField(default=False)
    owner_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta(LimitFields.Meta):
        db_table = "virtual_keys"
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return self.name
