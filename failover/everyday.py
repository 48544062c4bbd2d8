"""The resolution that nearly every request gets, made once and kept."""

import logging
import math
from dataclasses import dataclass

from failover.naming import GROUP_PREFIX
from failover.resolution import Board, Candidate, Keyring, Resolution
from failover.table import RoutingTable
from modelhotel.core import catalogue
from modelhotel.core.options import Options

log = logging.getLogger("resolve")


@dataclass(frozen=True, slots=True, eq=False)
class _Everyday:
    """A resolution that holds for every request for its name, and the monotonic instant until which it does."""

    resolution: Resolution
    until: float


def everyday(
    table: RoutingTable,
    name: str,
    allowed: frozenset[str] | None,
    opts: Options,
    board: Board | None,
    keyring: Keyring,
    now: float,
) -> Resolution | None:
    """What nearly every request meets: a group without a fault, no circuit in the way, all keys in memory.

    Nothing is left out then and nothing is told, so it is made once and kept as long as the keys are. None: go the
    long way.
    """
    if allowed is not None or log.isEnabledFor(logging.DEBUG):
        return None
    if board is not None and not board.calm and opts[catalogue.CIRCUIT_BREAKER_ENABLED]:
        return None
    made: dict[str, _Everyday] = keyring.made_for(table)
    known = made.get(name)
    if known is None:
        known = _make(table, name, keyring)
        if known is None:
            return None
        made[name] = known
    if now >= known.until or not (name.startswith(GROUP_PREFIX) or opts[catalogue.BARE_MODEL_ROUTING]):
        return None
    return known.resolution


def _make(table: RoutingTable, name: str, keyring: Keyring) -> _Everyday | None:
    """For the canonical spellings only, so that clients can not make it grow."""
    if "/" in name and not name.startswith(GROUP_PREFIX):
        return None  # a model of a provider, whatever groups are called
    group = table.groups.get(name.removeprefix(GROUP_PREFIX))
    if group is None or not group.calm:
        return None
    candidates, until = [], math.inf
    for entry in group.live:
        held = keyring.held(entry.provider)
        if held is None:
            return None
        candidates.append(Candidate(entry.provider, entry.model, held[0]))
        until = min(until, held[1])
    hits = {"model": True, "provider": True, "key": True, "failover": True, "settings": True}
    resolution = Resolution(name, GROUP_PREFIX + group.name, True, group.name, candidates, [], hits, {}, group.recovers)
    return _Everyday(resolution, until)
