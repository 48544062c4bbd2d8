"""The start page: what there is, what is wrong, what to do next."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest
from django.urls import reverse

from failover.breaker import board
from failover.models import FailoverGroup
from modelhotel.site import first_run
from providers.models import Model, Provider
from proxy.models import VirtualKey
from requestlogs import backlog
from requestlogs.models import RequestLog
from requestlogs.recorder import RECORDER

SHOWN_REQUESTS = 8
SHOWN_CIRCUITS = 10


def fill(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """``UNFOLD["DASHBOARD_CALLBACK"]``: only what this account may see is read."""
    may = request.user.has_perm
    tiles = []
    if may("providers.view_provider"):
        on, total = Provider.objects.filter(enabled=True).count(), Provider.objects.count()
        tiles.append(_tile("Providers", on, total, "providers_provider"))
    if may("providers.view_model"):
        on = Model.objects.filter(enabled=True, provider__enabled=True).count()
        total = Model.objects.count()
        tiles.append(_tile("Models", on, total, "providers_model"))
    if may("failover.view_failovergroup"):
        on, total = FailoverGroup.objects.filter(group_enabled=True).count(), FailoverGroup.objects.count()
        tiles.append(_tile("Failover groups", on, total, "failover_failovergroup"))
        context["circuits"] = _circuits()
    if may("proxy.view_virtualkey"):
        total = VirtualKey.objects.count()
        tiles.append(_tile("Virtual keys", total, total, "proxy_virtualkey"))
    if may("requestlogs.view_requestlog"):
        RECORDER.flush()
        for sentence in backlog.sentences(RECORDER):
            messages.warning(request, sentence)
        context["requests"] = RequestLog.objects.order_by("-created_at", "-id")[:SHOWN_REQUESTS]
    context["tiles"] = tiles
    context["first_run"] = first_run.card(request)
    return context


def _tile(title: str, on: int, total: int, view: str) -> dict[str, Any]:
    text = str(total) if on == total else f"{on} of {total}"
    return {"title": title, "text": text, "link": reverse(f"admin:{view}_changelist")}


def _circuits() -> list[dict[str, Any]]:
    """Every circuit that is not closed, in words."""
    providers: Any = board().status({}, True).get("providers", ())
    found = [
        {"provider": row["provider_name"], "skipped": row["provider_open"], **circuit}
        for row in providers
        for circuit in row["circuits"]
        if circuit["state"] != "closed"
    ]
    return found[:SHOWN_CIRCUITS]
