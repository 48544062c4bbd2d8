"""The virtual keys: every key as it is now, so that the first view needs no second call."""

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse

from modelhotel.core.verbadmin import actor_of
from providers.models import Provider
from proxy import verbs
from proxy.api import describe
from proxy.endpoints import ENDPOINTS

VIEW, CHANGE = "proxy.view_virtualkey", "proxy.change_virtualkey"


def page(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    if not request.user.has_perm(VIEW):
        raise PermissionDenied
    actor = actor_of(request)
    data: dict[str, Any] = {
        "keys": [describe(key) for key in verbs.visible(actor)],
        "providers": [
            {"id": str(pk), "name": name, "enabled": enabled}
            for pk, name, enabled in Provider.objects.order_by("name").values_list("pk", "name", "enabled")
        ],
    }
    context = {
        **admin.site.each_context(request),
        "title": "Virtual keys",
        "data": data,
        # The page changes keys through the API, which is for administrators.
        "may_change": actor.role == "admin" and request.user.has_perm(CHANGE),
        "base": f"{request.scheme}://{request.get_host()}/v1",
        "endpoints": [*(f"POST {path}" for path in ENDPOINTS), "GET /v1/models"],
    }
    return TemplateResponse(request, "modelhotel/pages/keys.html", context)
