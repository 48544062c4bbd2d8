"""Providers and the models they offer."""

import uuid

from django.db import models
from django.db.models import Value
from django.db.models.functions import Replace


class Provider(models.Model):
    """A configured upstream account. The key is stored encrypted in three columns; all null = keyless."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=100)
    base_url = models.CharField(max_length=500)
    provider_type = models.CharField(max_length=40)
    encrypted_key = models.BinaryField(null=True, editable=False)
    key_nonce = models.BinaryField(null=True, editable=False)
    key_salt = models.BinaryField(null=True, editable=False)
    masked_key = models.CharField(max_length=16, null=True, editable=False)
    enabled = models.BooleanField(default=True)
    autodiscovery_enabled = models.BooleanField(default=True)
    scheduled_disable_on = models.DateField(null=True, blank=True)
    max_in_flight = models.PositiveIntegerField(null=True, blank=True)
    quota_reserve_percent = models.PositiveSmallIntegerField(default=0)
    circuit_breaker_slow_call_threshold = models.CharField(max_length=40, null=True, blank=True)
    last_discovered_at = models.DateTimeField(null=True, editable=False)
    last_model_fetch_at = models.DateTimeField(null=True, editable=False)
    last_model_fetch_error = models.TextField(blank=True, default="", editable=False)
    last_availability_at = models.DateTimeField(null=True, editable=False)
    last_availability_error = models.TextField(blank=True, default="", editable=False)
    last_discovery_success_at = models.DateTimeField(null=True, editable=False)
    inventory_stale = models.BooleanField(default=False, editable=False)
    suspect_scans = models.PositiveIntegerField(default=0, editable=False)
    last_used_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "providers"
        ordering = ("-created_at", "-id")
        constraints = [
            models.UniqueConstraint(fields=["name"], name="providers_name"),
            models.UniqueConstraint(Replace("name", Value(" "), Value("-")), name="providers_routing_name"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def routing_name(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def keyless(self) -> bool:
        return self.encrypted_key is None


class Model(models.Model):
    """One model id as offered by one provider."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="models")
    model_id = models.CharField(max_length=512)
    name = models.TextField(blank=True, default="")
    display_name = models.CharField(max_length=512, blank=True, default="")
    description = models.TextField(blank=True, default="")
    owned_by = models.CharField(max_length=200, blank=True, default="")
    capabilities = models.JSONField(default=dict, blank=True)
    params = models.JSONField(default=dict, blank=True)
    modality = models.CharField(max_length=20, blank=True, default="chat")
    input_modalities = models.JSONField(default=list, blank=True)
    output_modalities = models.JSONField(default=list, blank=True)
    context_length = models.PositiveIntegerField(null=True, blank=True)
    max_output_tokens = models.PositiveIntegerField(null=True, blank=True)
    input_price_per_million = models.FloatField(null=True, blank=True)
    input_price_per_million_cache_hit = models.FloatField(null=True, blank=True)
    output_price_per_million = models.FloatField(null=True, blank=True)
    search_price_per_thousand = models.FloatField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    disabled_manually = models.BooleanField(default=False)
    display_name_customized = models.BooleanField(default=False)
    price_customized = models.BooleanField(default=False)
    missing_scans = models.PositiveIntegerField(default=0, editable=False)
    manually_enabled_at = models.DateTimeField(null=True, editable=False)
    auto_retired_at = models.DateTimeField(null=True, editable=False)
    discovery_dismissed_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "models"
        ordering = ("model_id", "id")
        constraints = [models.UniqueConstraint(fields=["provider", "model_id"], name="models_provider_model")]
        indexes = [models.Index(fields=["model_id"], name="models_model_id")]

    def __str__(self) -> str:
        return self.model_id


class QuotaSnapshot(models.Model):
    """What a provider last said about a quota, per kind (``usage``, ``balance``, ``account``).

    *http_status*: 200; 204 = the account has no quota; 424 = the key was refused; 0 = never fetched. A failed attempt
    keeps payload, status and *fetched_at* and leaves *last_error*.
    """

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="quota_snapshots")
    kind = models.CharField(max_length=10)
    payload = models.JSONField(null=True)
    http_status = models.PositiveSmallIntegerField(default=0)
    fetched_at = models.DateTimeField(null=True)
    source = models.CharField(max_length=10)
    last_error = models.TextField(blank=True, default="")
    last_attempt_at = models.DateTimeField()

    class Meta:
        db_table = "provider_quota_snapshots"
        constraints = [models.UniqueConstraint(fields=["provider", "kind"], name="provider_quota_snapshots_key")]


class DiscoveryChange(models.Model):
    """What one sweep changed at one provider; a row without a provider and its name tells of the groups of the run.

    *diff* has the sections of a scan's diff. *seen*: an operator acknowledged it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    detected_at = models.DateTimeField()
    source = models.CharField(max_length=10)
    provider = models.ForeignKey(Provider, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    provider_name = models.CharField(max_length=100, blank=True, default="")
    diff = models.JSONField()
    seen = models.BooleanField(default=False)

    class Meta:
        db_table = "discovery_changes"
        ordering = ("-detected_at", "-id")
        indexes = [
            models.Index(fields=["detected_at"], condition=models.Q(seen=False), name="discovery_changes_unseen"),
            models.Index(fields=["provider", "detected_at"], name="discovery_changes_provider"),
        ]


class DiscoveryFlap(models.Model):
    """One model that one journal entry has as added, reenabled or disabled: what counting and pruning look up."""

    change = models.ForeignKey(DiscoveryChange, on_delete=models.CASCADE, related_name="flaps")
    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, related_name="+", db_index=False)
    model_id = models.CharField(max_length=512)
    detected_at = models.DateTimeField()

    class Meta:
        db_table = "discovery_flaps"
        indexes = [models.Index(fields=["provider", "model_id", "detected_at"], name="discovery_flaps_model")]
