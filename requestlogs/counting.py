"""What a finished request adds to the metrics (operations 14). Read from the draft, off the event loop."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import Counter

from modelhotel.core import metrics
from modelhotel.core.metrics import UNKNOWN, histogram_of, of
from requestlogs.draft import Draft

log = logging.getLogger("metrics")

_GROUP = "hotel/"
_CLASSES = {2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}
_LEFT = 499


def status_class(status: int | None) -> str:
    if status == _LEFT:
        return "499"
    return _CLASSES.get((status or 0) // 100, UNKNOWN)


#: A metric and its labels -> what is to be added.
_Sums = dict[tuple[Counter, *tuple[str, ...]], float]


def add(drafts: Iterable[Draft]) -> None:
    """Count finished requests, those with an empty label excepted: they are no client's. Never raises.

    The sums of many are made in plain dicts first, because adding to a metric costs more than all the rest.
    """
    sums: _Sums = defaultdict(float)
    for draft in drafts:
        if draft.label:
            try:
                _add(draft, sums)
            except Exception:
                log.exception("metrics: request not counted", extra={"attrs": {"request": draft.request_hash}})
    for (metric, *labels), value in sums.items():
        of(metric, *labels).inc(value)


def _add(draft: Draft, sums: _Sums) -> None:
    provider, model = draft.provider_name or UNKNOWN, draft.label
    sums[metrics.REQUESTS, provider, model, status_class(draft.status_code), draft.error_kind or ""] += 1
    histogram_of(metrics.DURATION, provider, model).observe(draft.duration_ms / 1000.0)
    if draft.streaming and draft.ttft_ms:
        histogram_of(metrics.TTFT, provider, model).observe(draft.ttft_ms / 1000.0)
    for kind, tokens in (
        ("prompt", draft.tokens_prompt),
        ("completion", draft.tokens_completion),
        ("reasoning", draft.tokens_completion_reasoning),
        ("prompt_cached", draft.tokens_prompt_cache_hit),
    ):
        if tokens > 0:
            sums[metrics.TOKENS, provider, model, kind] += tokens
    if draft.cost_usd is not None and draft.cost_usd >= 0:
        sums[metrics.COST, provider, model] += draft.cost_usd
    for element in draft.attempts or ():
        if element["attempt"] >= 1 and not _skipped(element):
            sums[metrics.FAILOVER_ATTEMPTS, model, element["provider"] or UNKNOWN] += 1
    if draft.state == "failed" and (reason := exhausted(draft)):
        sums[metrics.FAILOVER_EXHAUSTED, model.removeprefix(_GROUP).lower(), reason] += 1


def _skipped(element: Mapping[str, Any]) -> bool:
    """Its provider was full and not asked: no other busy attempt is without a status."""
    return element.get("error_kind") == "provider_saturated" and "status" not in element


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
