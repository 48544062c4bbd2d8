"""Requests in the dashboard: read only, newest first, as quick with a million rows as with ten."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin import DateFieldListFilter, SimpleListFilter
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string

from modelhotel.core.verbadmin import column, moment, value_column
from providers.cache import SNAPSHOT
from providers.models import Provider
from requestlogs import api, backlog, purge
from requestlogs.applog_admin import AppLogAdmin
from requestlogs.log_admin import LogAdmin
from requestlogs.models import AppLog, RequestLog
from requestlogs.recorder import RECORDER

#: operations 4.3; those of attempts only left out.
ERROR_KINDS = (
    "validation",
    "auth",
    "provider_error",
    "provider_model_gone",
    "provider_not_entitled",
    "provider_bad_request",
    "provider_saturated",
    "provider_quota_exhausted",
    "provider_timeout",
    "failover_timeout",
    "retry_timeout",
    "client_disconnect",
    "internal",
)
#: What this version serves and writes rows for (operations 4.1).
ENDPOINTS = ("chat", "messages", "responses", "embeddings", "rerank", "image", "tts", "stt")
STATES = ("pending", "streaming", "completed", "failed")
INTERRUPTED = "request interrupted"
Rows = QuerySet[RequestLog]


def milliseconds(value: float | None) -> str:
    """Below a second in ms, below a minute in seconds, above in minutes; nothing for None."""
    if value is None:
        return ""
    if value < 1000:
        return f"{value:.0f} ms"
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    return f"{int(value // 60_000)}m {int(value % 60_000 // 1000):02d}s"


class _Choice(SimpleListFilter):
    """A filter over words that are known beforehand: asking a million rows for theirs would take seconds."""

    words: tuple[tuple[str, str], ...] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return self.words


class StateFilter(_Choice):
    title, parameter_name = "state", "state"
    words = tuple((word, word) for word in STATES)

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(state=self.value()) if self.value() in STATES else queryset


class EndpointFilter(_Choice):
    title, parameter_name = "endpoint", "endpoint_type"
    words = tuple((word, word) for word in ENDPOINTS)

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(endpoint_type=self.value()) if self.value() in ENDPOINTS else queryset


class StatusFilter(_Choice):
    title, parameter_name = "status", "status"
    words = (("2", "2xx"), ("4", "4xx"), ("5", "5xx"), ("0", "0, a broken stream"))

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        value = self.value()
        if value == "0":
            return queryset.filter(status_code=0)
        if value in ("2", "4", "5"):
            low = int(value) * 100
            return queryset.filter(status_code__gte=low, status_code__lt=low + 100)
        return queryset


class ErrorKindFilter(_Choice):
    title, parameter_name = "error kind", "error_kind"
    words = tuple((word, word.replace("_", " ")) for word in ERROR_KINDS)

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        return queryset.filter(error_kind=self.value()) if self.value() in ERROR_KINDS else queryset


class ProviderFilter(SimpleListFilter):
    title, parameter_name = "provider", "provider"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [(str(pk), name) for pk, name in Provider.objects.order_by("name").values_list("pk", "name")]

    def queryset(self, request: HttpRequest, queryset: Rows) -> Rows:
        known = {str(value) for value, _ in self.lookup_choices}
        return queryset.filter(provider_id=self.value()) if self.value() in known else queryset


@admin.register(RequestLog)
class RequestAdmin(LogAdmin[RequestLog]):
    deletion = "requestlogs.delete_requestlog"
    empty_text = "No requests yet. Point a client at /v1 with a virtual key."
    list_display = (
        "time",
        "asked",
        "endpoint",
        "provider",
        "status",
        "tries",
        "duration",
        "ttft",
        "tokens",
        "key",
        "kind",
    )
    list_filter = (
        StateFilter,
        StatusFilter,
        EndpointFilter,
        ProviderFilter,
        ErrorKindFilter,
        ("created_at", DateFieldListFilter),
    )
    search_fields = ("model_id", "resolved_model_id")
    search_help_text = "Model"
    ordering = ("-created_at", "-id")
    list_buttons = purge.buttons(
        "request",
        ["Rows of requests go for good, on every node, and with them what they cost.", "Running requests stay."],
        api.purge,
    )
    fieldsets = (
        (None, {"fields": ("time", "asked", "provider", "outcome", "kind", "error", "trail")}),
        ("Times", {"fields": ("duration", "latency", "headers", "ttft", "overhead", "parts", "hits")}),
        ("Tokens", {"fields": ("prompt", "cached", "uncached", "completion", "reasoning", "speed", "cost")}),
        ("Origin", {"fields": ("hash", "row", "endpoint", "streamed", "key", "key_id", "owner", "address", "at_node")}),
    )
    readonly_fields = [str(name) for _, options in fieldsets for name in options["fields"]]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        RECORDER.flush()
        for sentence in backlog.sentences(RECORDER):
            self.message_user(request, sentence, messages.WARNING)
        return super().changelist_view(request, extra_context)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        RECORDER.flush()
        return super().changeform_view(request, object_id, form_url, extra_context)

    # -- columns

    time = value_column("created_at", "Time", moment)
    kind = value_column("error_kind", "Error kind")
    error = value_column("error_message", "Error")
    duration = value_column("duration_ms", "Duration", milliseconds)
    latency = value_column("latency_ms", "Upstream", milliseconds)
    headers = value_column("response_header_ms", "Headers after", milliseconds)
    ttft = value_column("ttft_ms", "TTFT", milliseconds)
    overhead = value_column("proxy_overhead_ms", "Overhead", milliseconds)
    prompt = value_column("tokens_prompt", "Prompt")
    cached = value_column("tokens_prompt_cache_hit", "Prompt, cached")
    uncached = value_column("tokens_prompt_cache_miss", "Prompt, not cached")
    completion = value_column("tokens_completion", "Completion")
    reasoning = value_column("tokens_completion_reasoning", "Completion, reasoning")
    speed = value_column("tokens_per_second", "Tokens per second", lambda value: f"{value:.1f}" if value else "unknown")
    cost = value_column("cost_usd", "Cost", lambda value: f"${value:.6f}")
    hash = value_column("request_hash", "Hash")
    row = value_column("id", "Row")
    endpoint = value_column("endpoint_type", "Endpoint")
    streamed = value_column("streaming", "Streaming", lambda value: "yes" if value else "no")
    key = value_column("virtual_key_name", "Key")
    key_id = value_column("virtual_key_id", "Key id")
    owner = value_column("owner_user_id", "Owner")
    address = value_column("client_ip", "Client address")
    at_node = value_column("node", "Node")

    @column("Model")
    def asked(self, row: RequestLog) -> str:
        return f"{row.model_id} [{row.resolved_model_id}]" if row.resolved_model_id else row.model_id

    @column("Provider")
    def provider(self, row: RequestLog) -> str | None:
        if row.provider_id is None:
            return "Resolving…" if row.state == "pending" else None
        known = SNAPSHOT.current.providers.get(str(row.provider_id))
        return known.name if known else "Deleted"

    @column(
        "Status",
        colours={"success": "success", "failed": "danger", "client": "warning", "running": "info", "none": "default"},
    )
    def status(self, row: RequestLog) -> tuple[str, str]:
        if row.state in ("pending", "streaming"):
            return "running", "live" if row.state == "streaming" else "pending"
        code = row.status_code
        if code is None:
            interrupted = (row.error_message or "").startswith(INTERRUPTED)
            return "none", "interrupted" if interrupted else "none"
        kind = "success" if 200 <= code < 400 else "client" if 400 <= code < 500 else "failed"
        return kind, str(code)

    @column("Attempts")
    def tries(self, row: RequestLog) -> int | None:
        """Those that were sent; skips are in the trail."""
        return sum(entry.get("attempt", 0) >= 0 for entry in row.attempts) if row.attempts else None

    @column("Tokens")
    def tokens(self, row: RequestLog) -> str:
        return f"{row.tokens_prompt} → {row.tokens_completion}"

    @column("Status")
    def outcome(self, row: RequestLog) -> str:
        return f"{self.status(row)[1]}, {row.state}"

    @column("Answered from memory")
    def hits(self, row: RequestLog) -> str:
        return ", ".join(sorted(name for name, hit in (row.cache_hits or {}).items() if hit)) or "nothing"

    @column("Overhead in parts")
    def parts(self, row: RequestLog) -> str:
        names = ("parse", "failover_lookup", "model_lookup", "provider_lookup", "key_decrypt", "settings_read", "dial")
        return " · ".join(f"{name.replace('_', ' ')} {getattr(row, name + '_ms'):.2f} ms" for name in names)

    @column("Attempts")
    def trail(self, row: RequestLog) -> str:
        return render_to_string(
            "requestlogs/attempts.html", {"attempts": [_entry(item) for item in row.attempts or ()]}
        )

    def get_search_results(self, request: HttpRequest, queryset: Rows, search_term: str) -> tuple[Rows, bool]:
        """The whole term is one text: model names hold no blanks to split at."""
        term = search_term.strip().replace("\x00", "")
        if not term:
            return queryset, False
        return queryset.filter(Q(model_id__icontains=term) | Q(resolved_model_id__icontains=term)), False


admin.site.register(AppLog, AppLogAdmin)


def _entry(item: dict[str, Any]) -> dict[str, Any]:
    """One attempt as the table shows it; the skips carry no number."""
    number = item.get("attempt", 0)
    return {
        "number": number + 1 if number >= 0 else "skipped",
        "who": f"{item.get('provider', '')} / {item.get('model', '')}",
        "status": item.get("status") or "no response",
        "kind": str(item.get("error_kind", "")).replace("_", " "),
        "phrase": item.get("phrase", ""),
        "detail": item.get("detail", ""),
        "breaker": item.get("breaker", ""),
        "duration": milliseconds(item.get("duration_ms")),
        "ttft": milliseconds(item.get("ttft_ms")),
    }
