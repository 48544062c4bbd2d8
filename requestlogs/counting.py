"""What a finished request adds to the metrics (operations 14). Read from the draft, off the event loop."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from prometheus_client import Counter

from modelhotel.core import metrics
from modelhotel.core.metrics import UNKNOWN, guarded, of, timings_of
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


class _Alike:
    """Requests of one provider and model with one status and error: what they add up to."""

    __slots__ = ("cached", "completion", "cost", "prompt", "reasoning", "seconds", "to_first_token")

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.to_first_token: list[float] = []
        self.prompt = self.completion = self.reasoning = self.cached = 0
        self.cost: float | None = None

    def take(self, draft: Draft) -> None:
        self.seconds.append(draft.duration_ms / 1000.0)
        if draft.streaming and draft.ttft_ms:
            self.to_first_token.append(draft.ttft_ms / 1000.0)
        if draft.tokens_prompt > 0:
            self.prompt += draft.tokens_prompt
        if draft.tokens_completion > 0:
            self.completion += draft.tokens_completion
        if draft.tokens_completion_reasoning > 0:
            self.reasoning += draft.tokens_completion_reasoning
        if draft.tokens_prompt_cache_hit > 0:
            self.cached += draft.tokens_prompt_cache_hit
        cost = draft.cost_usd
        if cost is not None and cost >= 0:
            self.cost = cost if self.cost is None else self.cost + cost

    def add(self, provider: str, model: str, status: int | None, error_kind: str | None) -> None:
        """To the metrics, under these labels."""
        of(metrics.REQUESTS, provider, model, status_class(status), error_kind or "").inc(len(self.seconds))
        timings_of(metrics.DURATION, provider, model).observe_all(self.seconds)
        if self.to_first_token:
            timings_of(metrics.TTFT, provider, model).observe_all(self.to_first_token)
        for kind, tokens in (
            ("prompt", self.prompt),
            ("completion", self.completion),
            ("reasoning", self.reasoning),
            ("prompt_cached", self.cached),
        ):
            if tokens:
                of(metrics.TOKENS, provider, model, kind).inc(tokens)
        if self.cost is not None:
            of(metrics.COST, provider, model).inc(self.cost)


def add(drafts: Iterable[Draft]) -> None:
    """Count finished requests, those with an empty label excepted: they are no client's. Never raises.

    They are added up first, because adding to a metric costs more than all the rest.
    """
    kinds: dict[tuple[str, str, int | None, str | None], _Alike] = {}
    sums: _Sums = defaultdict(float)
    for draft in drafts:
        if draft.label:
            try:
                kind = draft.provider_name, draft.label, draft.status_code, draft.error_kind
                alike = kinds.get(kind)
                if alike is None:
                    alike = kinds[kind] = _Alike()
                alike.take(draft)
                if draft.state == "failed" or (draft.attempts and len(draft.attempts) > 1):
                    _add_failover(draft, sums)
            except Exception:
                log.exception("metrics: request not counted", extra={"attrs": {"request": draft.request_hash}})
    for (provider, model, status, error_kind), alike in kinds.items():
        guarded(partial(alike.add, provider or UNKNOWN, model, status, error_kind))
    for (metric, *labels), value in sums.items():
        of(metric, *labels).inc(value)


def _add_failover(draft: Draft, sums: _Sums) -> None:
    model = draft.label
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
