"""The virtual keys: every key as it is now, so that the first view needs no second call."""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Any

from django.http import HttpRequest, HttpResponse

from failover import resolve
from failover.naming import GROUP_PREFIX
from failover.table import RoutingTable
from modelhotel.core import options
from modelhotel.core.verbadmin import actor_of
from modelhotel.site import pages
from providers.cache import ModelRow
from providers.models import Provider
from proxy import verbs
from proxy.api import describe_all
from proxy.endpoints import ENDPOINTS
from proxy.limits import caps

VIEW, CHANGE = "proxy.view_virtualkey", "proxy.change_virtualkey"
#: Names of models that the snippets offer.
OFFERED = 300


def page(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, VIEW):
        return refused
    actor = actor_of(request)
    rules = caps.rules(options.current())
    data: dict[str, Any] = {
        "keys": describe_all(verbs.visible(actor)),
        "offered": offered(resolve.SNAPSHOT.current),
        # What holds where a key has no value of its own.
        "defaults": {"rps": rules.rps, "burst": rules.burst, "tpm": rules.tpm},
        "providers": [
            {"id": str(pk), "name": name, "enabled": enabled}
            for pk, name, enabled in Provider.objects.order_by("name").values_list("pk", "name", "enabled")
        ],
    }
    context = {
        "title": "Virtual keys",
        "data": data,
        # The page changes keys through the API, which is for administrators.
        "may_change": actor.role == "admin" and request.user.has_perm(CHANGE),
        "base": f"{request.scheme}://{request.get_host()}/v1",
        "endpoints": [*(f"POST {path}" for path in ENDPOINTS), "GET /v1/models"],
    }
    return pages.draw(request, "keys", context)


def offered(table: RoutingTable) -> list[dict[str, Any]]:
    """What snippets may name, the groups first: shaped as ``/v1/models`` does, and with the providers behind it."""
    entries: list[dict[str, Any]] = []
    for name in sorted(name for name, group in table.groups.items() if group.enabled and group.live)[:OFFERED]:
        live = table.groups[name].live
        entries.append(_entry(GROUP_PREFIX + name, live[0].model, sorted({one.provider.id for one in live})))
    entries += (_entry(name, model, [provider]) for name, model, provider in _first(OFFERED - len(entries), table))
    return entries


def _first(count: int, table: RoutingTable) -> list[tuple[str, ModelRow, str]]:
    return nsmallest(count, _models(table), key=lambda found: found[0])


def _models(table: RoutingTable) -> Iterator[tuple[str, ModelRow, str]]:
    """(name, row, provider id) of each that can be asked for by itself."""
    providers = table.catalogue.providers
    for model in table.catalogue.models.values():
        provider = providers.get(model.provider_id)
        if model.enabled and provider is not None and provider.enabled:
            yield f"{provider.routing_name}/{model.model_id}", model, provider.id


def _entry(name: str, model: ModelRow, providers: list[str]) -> dict[str, Any]:
    return {
        "id": name,
        "providers": providers,
        "context_length": model.context_length,
        "max_output_tokens": model.max_output_tokens,
        "output_modalities": list(model.output_modalities),
    }
