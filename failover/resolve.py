"""From the name a client asked for to the ordered candidates, with a reason for each one left out.

Reads the routing table, the circuits and the keys in memory; the database only when the table was never built, another
thread only when a provider's key is not in memory.
"""

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from asgiref.sync import sync_to_async
from django.db import connection

from failover.everyday import everyday
from failover.naming import GROUP_PREFIX
from failover.resolution import Board, Candidate, Gate, Keyring, Resolution, ResolveError, Skip
from failover.table import SNAPSHOT, Entry, Group, Live, RoutingTable
from modelhotel.core import catalogue
from modelhotel.core.crypto import DecryptError
from modelhotel.core.metrics import UNRESOLVED
from modelhotel.core.options import Options
from providers.cache import ProviderRow

__all__ = [
    "GROUP_PREFIX",
    "SNAPSHOT",
    "UNRESOLVED",
    "Board",
    "Candidate",
    "Gate",
    "Keyring",
    "Resolution",
    "ResolveError",
    "RoutingTable",
    "Skip",
    "everyday",
    "resolve",
]

log = logging.getLogger("resolve")

CIRCUIT_OPEN = "circuit breaker open"
PROBE_IN_PROGRESS = "probe in progress"
DECRYPT_FAILED = "key decryption failed"
NOT_ALLOWED = "provider not allowed for this key"
NO_ACCESS = "virtual key does not have access to any provider for this model"
BAD_FORM = 'invalid model format: expected "provider/model" or "hotel/group"'
#: Seconds, bounds of Retry-After (routing A4.2).
RETRY_AFTER_MIN, RETRY_AFTER_MAX = 1, 60
#: Seconds; keeps a float's last digit from costing a whole second when rounding up.
_ROUNDING = 1e-6


def _not_found(message: str) -> ResolveError:
    return ResolveError(404, message, "model_not_found", "validation", param="model")


def _no_access(label: str) -> ResolveError:
    return ResolveError(403, NO_ACCESS, "permission_denied", "auth", label=label)


@dataclass(slots=True, eq=False)
class _Ask:
    """One request being resolved."""

    requested: str
    allowed: frozenset[str] | None
    opts: Options
    board: Board | None
    keyring: Keyring
    now: float
    hits: dict[str, bool]
    ms: dict[str, float]
    shown: str = ""
    label: str = ""
    group: Group | None = None
    candidates: list[Candidate] = field(default_factory=list)
    skips: dict[int, Skip] = field(default_factory=dict)
    decrypt_failures: int = 0
    breaker_skips: int = 0

    def may_use(self, provider: ProviderRow) -> bool:
        return self.allowed is None or provider.id in self.allowed

    async def key_of(self, provider: ProviderRow) -> str:
        """Raises DecryptError."""
        key = self.keyring.peek(provider)
        if key is not None:
            return key
        started = time.perf_counter()
        self.hits["key"] = False
        try:
            return await self.keyring.fetch(provider)
        finally:
            took = (time.perf_counter() - started) * 1000.0
            self.ms["key_decrypt_ms"] = self.ms.get("key_decrypt_ms", 0.0) + took

    async def take(self, entry: Live) -> None:
        """Make *entry* a candidate, or skip it when its key can not be had."""
        try:
            key = await self.key_of(entry.provider)
        except DecryptError:
            _decrypt_failed(entry.provider, entry.model.model_id)
            self.decrypt_failures += 1
            self.skips[entry.position] = _skip(entry, DECRYPT_FAILED)
        else:
            self.candidates.append(Candidate(entry.provider, entry.model, key))

    def done(self, group: bool) -> Resolution:
        return Resolution(
            self.requested,
            self.label,
            group,
            self.group.name if self.group else None,
            self.candidates,
            [self.skips[at] for at in sorted(self.skips)],
            self.hits,
            self.ms,
            self.group.recovers if self.group else None,
        )


def _skip(entry: Live, reason: str) -> Skip:
    return Skip(entry.provider.id, entry.provider.name, entry.model.model_id, reason)


def _log_skip(provider: str, model: str, reason: str) -> None:
    log.info(f"resolve: skipping candidate: {reason}", extra={"attrs": {"provider": provider, "model": model}})


def _decrypt_failed(provider: ProviderRow, model: str) -> None:
    log.error("resolve: key decryption failed", extra={"attrs": {"provider": provider.name, "model": model}})


async def resolve(
    table: RoutingTable,
    name: str,
    *,
    allowed: frozenset[str] | None,
    opts: Options,
    board: Board | None,
    keyring: Keyring,
    now: float,
) -> Resolution:
    """The candidates for *name* in the order to be tried. *now* is monotonic. Raises ResolveError."""
    kept = everyday(table, name, allowed, opts, board, keyring, now)
    if kept is not None:
        return kept
    hits = {"model": table.ready, "provider": table.ready, "key": True, "settings": True}
    ms: dict[str, float] = {}
    cached = table.ready
    if not cached:
        table = await _cold_table(ms)
    ask = _Ask(name, allowed, opts, board, keyring, now, hits, ms)
    if name.startswith(GROUP_PREFIX):
        return await _by_group(ask, _group(table, name[len(GROUP_PREFIX) :].lower()), cached)
    if "/" in name:
        return await _direct(ask, table)
    if not opts[catalogue.BARE_MODEL_ROUTING]:
        raise ResolveError(
            400, BAD_FORM, "invalid_value", "validation", param="model", log_text=f"invalid model format: {name}"
        )
    group = table.groups.get(name.lower())
    if group is not None and group.enabled:
        return await _by_group(ask, group, cached)
    entries = table.bare(name)
    if not entries:
        raise _not_found(f"model not found: {name}")
    ask.shown = ask.label = name
    return await _candidates(ask, entries)


def _load() -> None:
    try:
        SNAPSHOT.refresh()
    finally:
        connection.close()  # the pool's thread has no request that would end its connection


async def _cold_table(ms: dict[str, float]) -> RoutingTable:
    """The table, built now: only before the warm-up of this process succeeded."""
    started = time.perf_counter()
    try:
        await sync_to_async(_load, thread_sensitive=False)()
    except Exception:
        log.exception("resolve: loading the routing table failed")
        raise ResolveError(500, "failed to resolve model", "internal_error", "internal") from None
    ms["failover_lookup_ms"] = (time.perf_counter() - started) * 1000.0
    return SNAPSHOT.current


def _group(table: RoutingTable, name: str) -> Group:
    group = table.groups.get(name)
    if group is None:
        raise _not_found(f"model not found: {GROUP_PREFIX}{name}")
    return group


async def _by_group(ask: _Ask, group: Group, cached: bool) -> Resolution:
    debug = log.isEnabledFor(logging.DEBUG)
    if debug:
        attrs: dict[str, object] = {"model": group.name, "entries": len(group.entries), "enabled": group.enabled}
        log.debug("resolve: failover group found", extra={"attrs": {**attrs, "cached": cached}})
    if not group.enabled:
        log.warning("resolve: failover group disabled", extra={"attrs": {"model": group.name}})
        raise _not_found("failover group disabled")
    if not group.entries:
        log.warning("resolve: failover group has no entries", extra={"attrs": {"model": group.name}})
        raise _not_found("no entries in failover group")
    ask.hits["failover"] = cached
    ask.group = group
    ask.shown = ask.label = GROUP_PREFIX + group.name
    if debug:
        attrs = {"model": group.name, "priority_order_count": len(group.entries)}
        log.debug("resolve: building candidates from failover group", extra={"attrs": attrs})
    if len(group.live) != len(group.entries):
        _log_faults(ask, group.entries)
    resolution = await _candidates(ask, group.live)
    if debug:
        attrs = {"model": group.name, "candidates": len(ask.candidates), "decrypt_failures": ask.decrypt_failures}
        log.debug("resolve: hotel model resolved", extra={"attrs": {**attrs, "breaker_skips": ask.breaker_skips}})
    return resolution


def _log_faults(ask: _Ask, entries: Sequence[Entry]) -> None:
    """One line for each entry that is toggled on and can not be asked."""
    for entry in entries:
        if entry.on and entry.fault:
            provider = entry.provider.name if entry.provider else ""
            _log_skip(provider, entry.model.model_id if entry.model else entry.id, entry.fault)


async def _candidates(ask: _Ask, entries: Sequence[Live]) -> Resolution:
    """Access list, circuit and key of each entry in order; who needs a held probe lease stands back if others can."""
    board = ask.board if ask.opts[catalogue.CIRCUIT_BREAKER_ENABLED] else None
    allowed, peek, candidates = ask.allowed, ask.keyring.peek, ask.candidates
    leased: list[Live] = []
    for entry in entries:
        provider, model = entry.provider, entry.model
        if allowed is not None and provider.id not in allowed:
            _log_skip(provider.name, model.model_id, NOT_ALLOWED)
            continue
        if board is not None:
            gate = board.gate(provider.id, model.model_id)
            if gate.state == "leased":
                leased.append(entry)
                continue
            if gate.state == "blocked":
                _breaker_skip(ask, entry, CIRCUIT_OPEN, gate)
                continue
        # The key is in memory all but once per TTL; a coroutine per member would cost more than the rest of the loop.
        key = peek(provider)
        if key is not None:
            candidates.append(Candidate(provider, model, key))
        else:
            await ask.take(entry)
    if ask.candidates:
        for entry in leased:
            _breaker_skip(ask, entry, PROBE_IN_PROGRESS)
    else:
        for entry in leased:
            await ask.take(entry)
    if not ask.candidates:
        raise _nobody(ask, entries)
    return ask.done(group=True)


def _breaker_skip(ask: _Ask, entry: Live, reason: str, gate: Gate | None = None) -> None:
    """A blocked circuit (*gate*) is remembered with its retry instant; a lease skip never empties a list."""
    _log_skip(entry.provider.name, entry.model.model_id, reason)
    ask.skips[entry.position] = Skip(
        entry.provider.id,
        entry.provider.name,
        entry.model.model_id,
        reason,
        retry_at=gate.retry_at if gate else None,
        pinned=gate.pinned if gate else False,
        on_trail=True,
    )
    if gate:
        ask.breaker_skips += 1


def _nobody(ask: _Ask, entries: Sequence[Live]) -> ResolveError:
    """Why nothing is left, in the order of routing A4.2."""
    if entries and not any(ask.may_use(entry.provider) for entry in entries):
        return _no_access(ask.label)
    skips = _all_skips(ask)
    if not ask.breaker_skips and ask.decrypt_failures:
        text = f"all {ask.decrypt_failures} candidate(s) failed key decryption (wrong master key?)"
        return ResolveError(502, text, "provider_error", "provider_error", skips=skips, label=ask.label, ms=ask.ms)
    text = f"no available provider for {ask.shown}" + _reasons(ask)
    if not ask.breaker_skips or not ask.opts[catalogue.FAILOVER_EXHAUSTION_STATUS_429]:
        return ResolveError(502, text, "provider_error", "provider_error", skips=skips, label=ask.label, ms=ask.ms)
    blocked = [skip for skip in ask.skips.values() if skip.reason == CIRCUIT_OPEN]
    pinned = all(skip.pinned for skip in blocked)
    return ResolveError(
        429,
        text,
        "insufficient_quota" if pinned else "rate_limit_exceeded",
        "provider_quota_exhausted" if pinned else "provider_saturated",
        retry_after=_retry_after(blocked, ask.now),
        skips=skips,
        label=ask.label,
        ms=ask.ms,
    )


def _retry_after(blocked: Sequence[Skip], now: float) -> int:
    """Whole seconds until the earliest instant one of *blocked* comes back."""
    instants = [skip.retry_at for skip in blocked if skip.retry_at is not None]
    if not instants:
        return RETRY_AFTER_MAX
    return min(max(math.ceil(min(instants) - now - _ROUNDING), RETRY_AFTER_MIN), RETRY_AFTER_MAX)


def _visible(ask: _Ask, entry: Entry) -> bool:
    """A key learns nothing about providers it may not use."""
    if ask.allowed is None or entry.model is None:
        return True
    return entry.model.provider_id in ask.allowed


def _all_skips(ask: _Ask) -> list[Skip]:
    """Every member left out, in priority order, as far as this key may know."""
    found = dict(ask.skips)
    for at, entry in enumerate(ask.group.entries if ask.group else ()):
        if entry.fault and _visible(ask, entry):
            provider, model = entry.provider, entry.model
            found[at] = Skip(
                model.provider_id if model else "",
                provider.name if provider else "",
                model.model_id if model else entry.id,
                entry.fault,
            )
    return [found[at] for at in sorted(found)]


def _reasons(ask: _Ask) -> str:
    """``: provider/model: reason; ...`` in priority order, or nothing."""
    parts = {at: f"{skip.provider}/{skip.model_id}: {skip.reason}" for at, skip in ask.skips.items()}
    for at, entry in enumerate(ask.group.entries if ask.group else ()):
        if entry.fault and _visible(ask, entry):
            parts[at] = f"{entry.shown}: {entry.fault}"
    return ": " + "; ".join(parts[at] for at in sorted(parts)) if parts else ""


async def _direct(ask: _Ask, table: RoutingTable) -> Resolution:
    """Exactly one candidate; the breaker has no say here."""
    reference, _, model_id = ask.requested.partition("/")
    provider = table.catalogue.provider(reference)
    if provider is None:
        raise _not_found(f"provider not found: {reference}")
    model = table.catalogue.by_pair.get((provider.id, model_id))
    if model is None:
        raise _not_found(f"model not found: {model_id} on provider {reference}")
    if not (model.enabled and provider.enabled):
        raise _not_found("model or provider disabled")
    ask.label = f"{provider.routing_name}/{model_id}"
    if not ask.may_use(provider):
        raise _no_access(ask.label)
    try:
        key = await ask.key_of(provider)
    except DecryptError:
        _decrypt_failed(provider, model_id)
        text = f"failed to decrypt the key of provider {provider.name} (wrong master key?)"
        raise ResolveError(502, text, "provider_error", "provider_error", label=ask.label, ms=ask.ms) from None
    ask.candidates.append(Candidate(provider, model, key))
    return ask.done(group=False)
