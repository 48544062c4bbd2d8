"""Providers and models as the admin API and the pages show them."""

from collections.abc import Collection
from typing import Any

import msgspec
from django.db.models import Count

from modelhotel.core.clock import rfc3339
from providers import health, ports
from providers.cache import row_of
from providers.keyring import KEYRING
from providers.models import Model, Provider


def provider_rows(allowed: Collection[str] | None = None) -> list[Provider]:
    """Newest first, each with ``model_count``; of *allowed* only, None = all."""
    rows = Provider.objects.annotate(model_count=Count("models")).order_by("-created_at", "-id")
    return list(rows if allowed is None else rows.filter(pk__in=allowed))


def masked_key(row: Provider) -> str:
    """``N/A`` for a keyless provider, ``***`` for a key without a stored mask."""
    return "N/A" if row.keyless else row.masked_key or "***"


def provider_object(
    row: Provider, model_count: int, total_tokens: int | None, inflight_limit: int | None
) -> dict[str, Any]:
    """The provider object of the admin API; never ciphertext, nonce, salt or key.

    *total_tokens* None: not asked. *inflight_limit*: what the node has learned, None = nothing.
    """
    state, reason = health.explained(row, model_count > 0, ports.circuits.health(str(row.pk)))
    return {
        "id": str(row.pk),
        "name": row.name,
        "base_url": row.base_url,
        "provider_type": row.provider_type,
        "masked_key": masked_key(row),
        "key_state": KEYRING.state(row_of(row)),
        "enabled": row.enabled,
        "autodiscovery_enabled": row.autodiscovery_enabled,
        "scheduled_disable_on": row.scheduled_disable_on.isoformat() if row.scheduled_disable_on else None,
        "max_in_flight": row.max_in_flight,
        "inflight_limit": inflight_limit,
        "quota_reserve_percent": row.quota_reserve_percent,
        "last_cap": _cap_object(ports.circuits.last_cap(str(row.pk))),
        "health": state,
        "health_reason": reason,
        "inventory_stale": row.inventory_stale,
        "last_model_fetch_at": rfc3339(row.last_model_fetch_at),
        "last_model_fetch_error": row.last_model_fetch_error,
        "last_availability_at": rfc3339(row.last_availability_at),
        "last_availability_error": row.last_availability_error,
        "last_checked_at": rfc3339(health.last_checked(row)),
        "last_discovery_success_at": rfc3339(row.last_discovery_success_at),
        "circuit_breaker_slow_call_threshold": row.circuit_breaker_slow_call_threshold,
        "last_discovered_at": rfc3339(row.last_discovered_at),
        "last_used_at": rfc3339(row.last_used_at),
        "created_at": rfc3339(row.created_at),
        "updated_at": rfc3339(row.updated_at),
        "model_count": model_count,
        "total_tokens": total_tokens,
    }


def _cap_object(cap: ports.LastCap | None) -> dict[str, Any] | None:
    if cap is None:
        return None
    return {"phrase": cap.phrase, "model": cap.model, "at": rfc3339(cap.at), "entitled": cap.entitled}


def all_providers(*, totals: bool = True, allowed: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Newest first. Without *totals* the request log is left alone and ``total_tokens`` is null.

    *allowed*: the providers whoever asks may know of, None = all.
    """
    tokens = ports.logs.provider_tokens() if totals else None
    limits = ports.inflight_limits()
    return [
        provider_object(
            row,
            row.model_count,  # type: ignore[attr-defined]
            None if tokens is None else tokens.get(str(row.pk), 0),
            limits.get(str(row.pk)),
        )
        for row in provider_rows(allowed)
    ]


def providers_status() -> dict[str, Any]:
    """How the enabled providers are, newest first, and how they are together."""
    lines = [_status_line(row) for row in provider_rows() if row.enabled]
    return {"summary": health.summary(line["status"] for line in lines), "providers": lines}


def _status_line(row: Provider) -> dict[str, Any]:
    count: int = row.model_count  # type: ignore[attr-defined]
    status, reason = health.explained(row, count > 0, ports.circuits.health(str(row.pk)))
    error = health.last_error(row)
    return {
        "id": str(row.pk),
        "name": row.name,
        "type": row.provider_type,
        "status": status,
        "status_reason": reason,
        **({"last_error": error} if error else {}),
        "last_checked_at": rfc3339(health.last_checked(row)),
        "last_success_at": rfc3339(row.last_discovery_success_at),
        "model_count": count,
    }


def one_provider(row: Provider, *, totals: bool = True) -> dict[str, Any]:
    count = Model.objects.filter(provider=row).count()
    tokens = ports.logs.provider_tokens().get(str(row.pk), 0) if totals else None
    return provider_object(row, count, tokens, ports.inflight_limits().get(str(row.pk)))


def dependents(row: Provider) -> dict[str, Any]:
    """What a disabled provider takes out of routing and a deleted one takes along."""
    models = Model.objects.filter(provider=row)
    return {
        "models": models.count(),
        "enabled_models": models.filter(enabled=True).count(),
        "groups": ports.groups.with_provider(str(row.pk)),
        "virtual_keys": ports.keys.keys_naming_provider(str(row.pk)),
    }


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def model_object(row: Model) -> dict[str, Any]:
    """The model object of the admin API; *row* with its provider at hand."""
    return {
        "id": str(row.pk),
        "model_id": row.model_id,
        "name": row.name,
        "description": row.description,
        "display_name": row.display_name,
        "provider_id": str(row.provider_id),
        "provider_name": row.provider.name,
        "provider_enabled": row.provider.enabled,
        "capabilities": _json(row.capabilities),
        "params": _json(row.params),
        "input_modalities": _json(row.input_modalities),
        "output_modalities": _json(row.output_modalities),
        "modality": row.modality,
        "context_length": row.context_length,
        "max_output_tokens": row.max_output_tokens,
        "input_price_per_million": row.input_price_per_million,
        "input_price_per_million_cache_hit": row.input_price_per_million_cache_hit,
        "output_price_per_million": row.output_price_per_million,
        "search_price_per_thousand": row.search_price_per_thousand,
        "owned_by": row.owned_by,
        "enabled": row.enabled,
        "disabled_manually": row.disabled_manually,
        "auto_retired_at": rfc3339(row.auto_retired_at),
        "price_customized": row.price_customized,
        "created_at": rfc3339(row.created_at),
        "last_seen_at": rfc3339(row.last_seen_at),
    }
