"""How a request is served whose name was resolved: one candidate at a time, or by a race."""

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from failover.resolve import Candidate, Resolution, Skip
from proxy import walk
from proxy.dialects.base import Untranslatable
from proxy.exchange import Exchange
from proxy.hedge import Race
from proxy.policy import Policy
from proxy.walk import Walk


def run(exchange: Exchange) -> Coroutine[Any, Any, None]:
    """Ask the resolved candidates; answer the client; the row is final when this was awaited."""
    resolution = exchange.resolution
    assert resolution is not None
    if exchange.stream and exchange.endpoint.hedged and _hedged(exchange.policy, resolution):
        return Race(exchange, resolution, walk.TOOLS).run()
    return Walk(exchange, resolution, walk.TOOLS).run()


def narrow(exchange: Exchange) -> Untranslatable | None:
    """Leave out the candidates that can not serve the request as it was asked (gate 11); the last one's reason where
    that is all of them.
    """
    check, resolution = exchange.endpoint.check, exchange.resolution
    if check is None or resolution is None:
        return None
    able: list[Candidate] = []
    skips, reason = list(resolution.skips), None
    for candidate in resolution.candidates:
        try:
            check(exchange, candidate)
            able.append(candidate)
        except Untranslatable as problem:
            reason, provider = problem, candidate.provider
            skips.append(Skip(provider.id, provider.name, candidate.model.model_id, str(problem), on_trail=True))
    if reason is not None:
        exchange.resolution = replace(resolution, candidates=able, skips=skips)
    return None if able else reason


def _hedged(rules: Policy, resolution: Resolution) -> bool:
    """Whether several candidates may be asked at a time (failover-loop 12.1)."""
    return rules.hedge > 0 and rules.further > 0 and resolution.group and len(resolution.candidates) > 1
