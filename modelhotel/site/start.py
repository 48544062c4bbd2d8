"""The overview: what there is and what is wrong come with the page, the figures of requests from the statistics API."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

from failover.breaker import board
from modelhotel.site import first_run
from providers.models import Model, Provider
from requestlogs import backlog
from requestlogs.recorder import RECORDER

#: What ``overview.js`` imports: asked for beside it instead of after it.
_MODULES = ("bars", "circuits", "figures", "lines", "panel", "rules", "source")
#: Card -> permission and view of the list it leads to.
_LISTS = {
    "providers": ("providers.view_provider", "admin:providers"),
    "models": ("providers.view_model", "admin:models"),
    "requests": ("requestlogs.view_requestlog", "admin:requests"),
}


def fill(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """``UNFOLD["DASHBOARD_CALLBACK"]``: only what this account may see is read."""
    links = {name: reverse(view) for name, (see, view) in _LISTS.items() if request.user.has_perm(see)}
    house: dict[str, tuple[int, int]] = {}
    if "providers" in links:
        house["providers"] = Provider.objects.filter(enabled=True).count(), Provider.objects.count()
    if "models" in links:
        on = Model.objects.filter(enabled=True, provider__enabled=True).count()
        house["models"] = on, Model.objects.count()
    context["figures"] = "requests" in links
    if context["figures"]:
        for sentence in backlog.sentences(RECORDER):
            messages.warning(request, sentence)
    context["circuits"] = request.user.has_perm("failover.view_failovergroup")
    context["first_run"] = first_run.card(request)
    context["modules"] = [static(f"modelhotel/app/overview/{name}.js") for name in _MODULES]
    circuits = board().status({}, True) if context["circuits"] else {}
    context["data"] = {"house": house, "links": links, "circuits": circuits}
    return context
