"""The virtual keys: every key as it is now, so that the first view needs no second call."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from modelhotel.core.verbadmin import actor_of
from modelhotel.site import pages
from providers.models import Provider
from proxy import verbs
from proxy.api import describe
from proxy.endpoints import ENDPOINTS

VIEW, CHANGE = "proxy.view_virtualkey", "proxy.change_virtualkey"


def page(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, VIEW):
        return refused
    actor = actor_of(request)
    data: dict[str, Any] = {
        "keys": [describe(key) for key in verbs.visible(actor)],
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
