"""Failover groups: one requested name, an ordered list of model rows behind it."""

import uuid

from django.db import models


class FailoverGroup(models.Model):
    """A group, requested as ``hotel/<display_model>``.

    *priority_order* is a list of model UUIDs as text, first = highest priority; there is no foreign key, ids whose
    model is gone are tolerated when read and pruned by sync. *entry_enabled* maps ids to toggles; a missing key is on.
    *midstream_recovery* is ``off`` or ``continue``; None = what the setting ``midstream_recovery_default`` says.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    display_model = models.CharField(max_length=512, unique=True)
    display_name = models.CharField(max_length=128, null=True, blank=True)
    description = models.CharField(max_length=500, blank=True, default="")
    priority_order = models.JSONField(default=list)
    entry_enabled = models.JSONField(default=dict, blank=True)
    group_enabled = models.BooleanField(default=True)
    midstream_recovery = models.CharField(max_length=16, null=True, blank=True)
    auto_created = models.BooleanField(default=False, editable=False)
    auto_disabled_at = models.DateTimeField(null=True, editable=False)
    floor_disabled_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField()

    class Meta:
        db_table = "model_failover_groups"
        ordering = ("display_model",)

    def __str__(self) -> str:
        return f"hotel/{self.display_model}"

    @property
    def auto_disabled(self) -> bool:
        """Off without an operator having chosen it."""
        return not self.group_enabled and (self.auto_disabled_at is not None or self.floor_disabled_at is not None)
