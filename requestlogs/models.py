"""The request log: one row per proxied request, never content."""

import uuid

from django.db import models


class RequestLog(models.Model):
    """What happened to one request. Ids of providers and keys are plain: history outlives what it names."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    request_hash = models.CharField(max_length=16)
    created_at = models.DateTimeField()
    state = models.CharField(max_length=10)
    endpoint_type = models.CharField(max_length=12)
    streaming = models.BooleanField(default=False)
    model_id = models.CharField(max_length=520)
    resolved_model_id = models.CharField(max_length=512, null=True)
    provider_id = models.UUIDField(null=True)
    virtual_key_id = models.UUIDField(null=True)
    virtual_key_name = models.CharField(max_length=100, default="")
    owner_user_id = models.UUIDField(null=True)
    client_ip = models.CharField(max_length=64, null=True)
    status_code = models.PositiveSmallIntegerField(null=True)
    error_kind = models.CharField(max_length=30, null=True)
    error_message = models.TextField(null=True)
    failover_attempt = models.PositiveSmallIntegerField(default=0)
    attempts = models.JSONField(null=True)
    duration_ms = models.FloatField(default=0)
    latency_ms = models.FloatField(default=0)
    response_header_ms = models.FloatField(null=True)
    ttft_ms = models.FloatField(null=True)
    proxy_overhead_ms = models.FloatField(default=0)
    parse_ms = models.FloatField(default=0)
    failover_lookup_ms = models.FloatField(default=0)
    model_lookup_ms = models.FloatField(default=0)
    provider_lookup_ms = models.FloatField(default=0)
    key_decrypt_ms = models.FloatField(default=0)
    settings_read_ms = models.FloatField(default=0)
    dial_ms = models.FloatField(default=0)
    cache_hits = models.JSONField(default=dict)
    tokens_prompt = models.IntegerField(default=0)
    tokens_completion = models.IntegerField(default=0)
    tokens_completion_reasoning = models.IntegerField(default=0)
    tokens_prompt_cache_hit = models.IntegerField(default=0)
    tokens_prompt_cache_miss = models.IntegerField(default=0)
    tokens_per_second = models.FloatField(default=0)
    cost_usd = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    node = models.CharField(max_length=100, null=True)
    heartbeat_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "request_logs"
        verbose_name = "request"
        ordering = ("-created_at", "-id")
        # Rising, as rows come: a B-tree splits its last page at once and any other with its neighbours. Read backwards.
        indexes = [
            models.Index(fields=["created_at", "id"], name="logs_time"),
            models.Index(fields=["provider_id", "created_at"], name="logs_provider_time"),
            models.Index(fields=["virtual_key_id", "created_at"], name="logs_key_time"),
            models.Index(fields=["state"], name="logs_state", condition=models.Q(state__in=["pending", "streaming"])),
        ]

    def __str__(self) -> str:
        return self.request_hash


class AppLog(models.Model):
    """One line of the product's own log. *timestamp*: when it was said, *created_at*: when it was written."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    timestamp = models.DateTimeField()
    level = models.CharField(max_length=7)
    source = models.CharField(max_length=100)
    message = models.TextField()
    node = models.CharField(max_length=100, default="")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "app_logs"
        verbose_name = "log line"
        ordering = ("-timestamp", "-id")
        indexes = [
            models.Index(fields=["timestamp", "id"], name="applog_time"),
            models.Index(fields=["level", "timestamp"], name="applog_level_time"),
            models.Index(fields=["source", "timestamp"], name="applog_source_time"),
        ]

    def __str__(self) -> str:
        return f"{self.level}: {self.message[:80]}"


class StatMark(models.Model):
    """A minute (``2026-11-30 02:25``, UTC) whose rows changed since it was summed up. Written by triggers."""

    minute = models.CharField(max_length=16)

    class Meta:
        db_table = "stat_marks"
        default_permissions = ()
        indexes = [models.Index(fields=["minute"], name="stat_marks_minute")]

    def __str__(self) -> str:
        return self.minute


class StatStale(models.Model):
    """A longer span whose sums are older than those of its minutes. *start* in POSIX seconds."""

    span = models.IntegerField()
    start = models.BigIntegerField()

    class Meta:
        db_table = "stat_stale"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["span", "start"], name="stat_stale_once")]

    def __str__(self) -> str:
        return f"{self.start}+{self.span}"


class TrafficName(models.Model):
    """What sums of ``stat_traffic`` are told apart by; empty text where a row has none, ids as the database writes
    them as text. *gone*: whether the key was gone when models were summed up."""

    id = models.BigAutoField(primary_key=True)
    digest = models.TextField(unique=True)
    provider = models.TextField()
    key = models.TextField()
    key_name = models.TextField()
    owner = models.TextField()
    gone = models.BooleanField()

    class Meta:
        db_table = "stat_traffic_names"
        default_permissions = ()

    def __str__(self) -> str:
        return self.key or self.key_name


class ModelName(models.Model):
    """What sums of ``stat_models`` are told apart by."""

    id = models.BigAutoField(primary_key=True)
    digest = models.TextField(unique=True)
    model = models.TextField()
    resolved = models.TextField()
    provider = models.TextField()
    gone = models.TextField()
    owner = models.TextField()

    class Meta:
        db_table = "stat_models_names"
        default_permissions = ()

    def __str__(self) -> str:
        return self.model


class Slice(models.Model):
    """The rows of one name in ``start <= created_at < start + span``, summed up (``measures.py``)."""

    pk = models.CompositePrimaryKey("span", "start", "name")
    span = models.IntegerField()
    start = models.BigIntegerField()
    name = models.BigIntegerField()
    requests = models.BigIntegerField()
    tokens_prompt = models.BigIntegerField()
    tokens_completion = models.BigIntegerField()
    cost_e10 = models.BigIntegerField()

    class Meta:
        abstract = True
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.start}+{self.span}"


class TrafficSlice(Slice):
    finished = models.BigIntegerField()
    errors = models.BigIntegerField()
    good = models.BigIntegerField()
    rate_limited = models.BigIntegerField()
    tokens_cache_hit = models.BigIntegerField()
    tokens_cache_miss = models.BigIntegerField()
    costed = models.BigIntegerField()
    duration_good = models.FloatField()
    latency_good = models.FloatField()
    overhead_good = models.FloatField()
    overhead = models.FloatField()
    first_ms = models.FloatField()
    firsts = models.BigIntegerField()

    class Meta(Slice.Meta):
        db_table = "stat_traffic"


class ModelSlice(Slice):
    class Meta(Slice.Meta):
        db_table = "stat_models"
