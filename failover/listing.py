"""What ``GET /v1/models`` lists, read off the routing table. Pure."""

from failover.resolve import GROUP_PREFIX
from failover.table import Group, Live, RoutingTable
from providers.cache import ModelRow, ProviderRow

GROUP_PROVIDER = "hotel"


def models_list(table: RoutingTable, allowed: frozenset[str] | None) -> list[dict[str, object]]:
    """The entries a key with this allow-list may see: models by provider name and model id, then groups by name.

    Circuits and stale inventories hide nothing. Shape: v1-api 7.
    """
    catalogue = table.catalogue
    pairs: list[tuple[ProviderRow, ModelRow]] = []
    for model in catalogue.models.values():
        provider = catalogue.providers.get(model.provider_id)
        if model.enabled and provider is not None and provider.enabled and _may_use(provider, allowed):
            pairs.append((provider, model))
    pairs.sort(key=lambda pair: (pair[0].name, pair[1].model_id))
    entries = [
        _describe(model, f"{provider.routing_name}/{model.model_id}", provider.name, provider.name)
        for provider, model in pairs
    ]
    for name in sorted(table.groups):
        if first := _first(table.groups[name], allowed):
            owner = first.provider.name
            entries.append(_describe(first.model, GROUP_PREFIX + name, GROUP_PROVIDER, owner))
    return entries


def _may_use(provider: ProviderRow, allowed: frozenset[str] | None) -> bool:
    return allowed is None or provider.id in allowed


def _first(group: Group, allowed: frozenset[str] | None) -> Live | None:
    if not group.enabled:
        return None
    return next((entry for entry in group.live if _may_use(entry.provider, allowed)), None)


def _describe(model: ModelRow, id: str, provider: str, owner: str) -> dict[str, object]:
    """One entry; what is unknown or empty is left out."""
    entry: dict[str, object] = {
        "id": id,
        "object": "model",
        "created": int(model.created_at),
        "owned_by": model.owned_by or owner,
        "provider": provider,
    }
    optional: dict[str, object] = {
        "name": model.display_name or model.name or None,
        "description": model.description or None,
        "modality": model.modality or None,
        "context_length": model.context_length,
        "max_context_length": model.context_length,
        "max_output_tokens": model.max_output_tokens,
        "capabilities": dict(model.capabilities) or None,
        "input_modalities": list(model.input_modalities) or None,
        "output_modalities": list(model.output_modalities) or None,
        "input_price_per_million": model.input_price_per_million,
        "output_price_per_million": model.output_price_per_million,
        "search_price_per_thousand": model.search_price_per_thousand,
    }
    entry.update((name, value) for name, value in optional.items() if value is not None)
    return entry
