"""What a finished request adds to the metrics (operations 14). Read from the draft, off the event loop."""

from collections.abc import Iterator
from typing import Any

from modelhotel.core import metrics
from modelhotel.core.metrics import UNKNOWN, histogram_of, of
from requestlogs.draft import Draft

_GROUP = "hotel/"
_CLASSES = {2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}
_LEFT = 499
_RATE_LIMITED = 429
#: Class of a 429 by the error kind it was given.
_RATE_CLASSES = {"provider_saturated": "saturated", "provider_quota_exhausted": "exhausted"}


def status_class(status: int | None) -> str:
    if status == _LEFT:
        return "499"
    return _CLASSES.get((status or 0) // 100, UNKNOWN)


def add(draft: Draft) -> None:
    """Count one finished request; nothing for what is no client's (an empty label). Never raises."""
    if draft.label:
        metrics.guarded(lambda: _add(draft))


def _add(draft: Draft) -> None:
    provider, model = draft.provider_name or UNKNOWN, draft.label
    of(metrics.REQUESTS, provider, model, status_class(draft.status_code), draft.error_kind or "").inc()
    histogram_of(metrics.DURATION, provider, model).observe(draft.duration_ms / 1000.0)
    if draft.streaming and draft.ttft_ms:
        histogram_of(metrics.TTFT, provider, model).observe(draft.ttft_ms / 1000.0)
    for kind, tokens in _tokens(draft):
        if tokens > 0:
            of(metrics.TOKENS, provider, model, kind).inc(tokens)
    if draft.cost_usd is not None and draft.cost_usd >= 0:
        of(metrics.COST, provider, model).inc(draft.cost_usd)
    if draft.attempts:
        _add_attempts(model, draft.attempts)
    if reason := exhausted(draft):
        of(metrics.FAILOVER_EXHAUSTED, model.removeprefix(_GROUP).lower(), reason).inc()


def _tokens(draft: Draft) -> Iterator[tuple[str, int]]:
    yield "prompt", draft.tokens_prompt
    yield "completion", draft.tokens_completion
    yield "reasoning", draft.tokens_completion_reasoning
    yield "prompt_cached", draft.tokens_prompt_cache_hit


def _add_attempts(model: str, trail: list[dict[str, Any]]) -> None:
    for element in trail:
        provider = element["provider"] or UNKNOWN
        if element["attempt"] >= 1:
            of(metrics.FAILOVER_ATTEMPTS, model, provider).inc()
        if element.get("status") == _RATE_LIMITED:
            kind = _RATE_CLASSES.get(element.get("error_kind", ""), UNKNOWN)
            of(metrics.RATE_LIMITED, provider, element["model"] or UNKNOWN, kind).inc()


def exhausted(draft: Draft) -> str:
    """Why no member of a group served (failover-loop 13.1, 13.2); empty where one answered or none was asked for.

    A last member's own answer that was passed on leaves its provider on the row; an exhaustion does not.
    """
    label, kind = draft.label, draft.error_kind
    of_group = label.startswith(_GROUP) or ("/" not in label and label != metrics.UNRESOLVED)
    if not of_group or draft.state != "failed" or draft.provider_id is not None or kind == "client_disconnect":
        return ""
    if any(element["attempt"] >= 0 for element in draft.attempts or ()):
        return "all_busy" if kind == "provider_saturated" else "all_failed"
    if kind == "auth":
        return "no_allowed_provider"
    return "all_failed" if kind == "internal" else "no_available_provider"
