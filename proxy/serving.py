"""How a request is served whose name was resolved: one candidate at a time, or by a race."""

from collections.abc import Coroutine
from typing import Any

from failover.resolve import Resolution
from proxy import policy, walk
from proxy.exchange import Exchange
from proxy.hedge import Race
from proxy.policy import Policy
from proxy.walk import Walk


def run(exchange: Exchange) -> Coroutine[Any, Any, None]:
    """Ask the resolved candidates; answer the client; the row is final when this was awaited."""
    resolution = exchange.resolution
    assert resolution is not None
    if exchange.stream and exchange.endpoint.hedged and _hedged(policy.of(exchange.opts), resolution):
        return Race(exchange, resolution, walk.TOOLS).run()
    return Walk(exchange, resolution, walk.TOOLS).run()


def _hedged(rules: Policy, resolution: Resolution) -> bool:
    """Whether several candidates may be asked at a time (failover-loop 12.1)."""
    return rules.hedge > 0 and rules.further > 0 and resolution.group and len(resolution.candidates) > 1
