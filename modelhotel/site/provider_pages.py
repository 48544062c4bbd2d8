"""The pages Providers and Models: their first view comes with the page, the API does the rest."""

from dataclasses import asdict
from typing import Any

from django.http import HttpRequest, HttpResponse

from failover.breaker import board
from modelhotel.core import catalogue, options
from modelhotel.core.clock import SYSTEM
from modelhotel.site import pages
from providers import model_pages, queries
from providers.kinds import derive, registry
from providers.kinds.base import Kind
from providers.models import Model, Provider
from providers.quota import windows

#: Rows of a first view of the model list.
FIRST = "50"
#: What the page calls a state -> the model's own flag and its provider's; and a scope -> the provider's.
STATES = {"enabled": ("true", "true"), "parked": ("true", "false"), "disabled": ("false", "")}
SCOPES = {"active": "true", "disabled": "false"}


def providers(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, "providers.view_provider"):
        return refused
    now = SYSTEM.now()
    data: dict[str, Any] = {
        # Token totals look through the request log: the page asks for them once it stands.
        "providers": queries.all_providers(totals=False),
        "circuits": board().status({}, True),
        "kinds": [_kind(kind) for kind in registry.KINDS.values()],
        "rules": [rule._asdict() for rule in derive.RULES],
        "now": now.timestamp() * 1000,
        # The day on which the sweep of scheduled switch-offs is.
        "today": now.astimezone().date().isoformat(),
        "discover": bool(options.current()[catalogue.DISCOVERY_ON_PROVIDER_CREATE]),
    }
    may = {name: request.user.has_perm(f"providers.{name}_provider") for name in ("add", "change", "delete")}
    context = {"title": "Providers", "data": data, "may_change": all(may.values())}
    return pages.draw(request, "providers", context)


def models(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, "providers.view_model"):
        return refused
    rows = Provider.objects.order_by("name").values_list("pk", "name", "enabled", "autodiscovery_enabled")
    data: dict[str, Any] = {
        "page": model_pages.page(_asked(request)),
        "any": Model.objects.exists(),
        "providers": [
            {"id": str(pk), "name": name, "enabled": enabled, "discoverable": enabled and takes_part}
            for pk, name, enabled, takes_part in rows
        ],
    }
    may = {name: request.user.has_perm(f"providers.{name}_model") for name in ("change", "delete")}
    actor = request.user.actor  # type: ignore[union-attr]
    # In the demo nobody has a permission to change, and still a notice may be marked as read.
    context = {"may_change": all(may.values()), "may_acknowledge": actor.role == "admin"}
    return pages.draw(request, "models", {"title": "Models", "data": data, **context})


def _asked(request: HttpRequest) -> model_pages.Asked:
    """The filters of the page's address, read as the script reads them."""
    given = request.GET
    state, scope = given.get("state", ""), given.get("scope", "")
    own, provider = STATES.get(state, ("", ""))
    return model_pages.Asked(
        limit=FIRST,
        sort_by=given.get("sort", ""),
        sort_dir=given.get("dir", ""),
        search=given.get("q", ""),
        provider_id=given.get("provider", ""),
        provider_enabled=provider or SCOPES.get(scope, ""),
        enabled=own,
        capabilities=given.get("capabilities", ""),
        outputs=given.get("outputs", ""),
    )


def _kind(kind: Kind) -> dict[str, Any]:
    return {
        "type": kind.type,
        "label": kind.label,
        "address": kind.default_base_url,
        "hint": kind.base_url_hint,
        "form": kind.address_form,
        "blanks": [asdict(blank) for blank in kind.blanks],
        "keyless": kind.keyless_allowed,
        "self_hosted": kind.self_hosted,
        "quota": kind.quota.kind if kind.quota else "",
        "reserve": windows.RESERVED.get(kind.type, ""),
    }
