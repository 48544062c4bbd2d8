"""The virtual keys: every key as it is now, so that the first view needs no second call."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from modelhotel.core import options
from modelhotel.core.verbadmin import actor_of
from modelhotel.site import pages
from providers.models import Provider
from proxy import verbs
from proxy.api import describe_all
from proxy.endpoints import ENDPOINTS
from proxy.limits import caps

VIEW, CHANGE = "proxy.view_virtualkey", "proxy.change_virtualkey"


def page(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, VIEW):
        return refused
    actor = actor_of(request)
    rules = caps.rules(options.current())
    data: dict[str, Any] = {
        "keys": describe_all(verbs.visible(actor)),
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
