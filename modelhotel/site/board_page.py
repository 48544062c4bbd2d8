"""The failover board: the groups as they are now, so that the first view needs no second call."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from failover import queries, sync
from failover.breaker import board
from modelhotel.core.clock import SYSTEM
from modelhotel.site import pages

#: Asked for together instead of one after the other as each is found to import the next.
MODULES = [
    f"modelhotel/app/{name}.js"
    for name in (
        *("api", "circuits", "copy", "dialog", "format", "live", "toast", "ui"),
        *(f"board/{part}" for part in ("card", "cascades", "drag", "editor", "moves", "picker")),
        *(f"board/{part}" for part in ("rules", "selection", "store", "view")),
    )
]
VIEW, CHANGE = "failover.view_failovergroup", "failover.change_failovergroup"


def page(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, VIEW):
        return refused
    data: dict[str, Any] = {
        # Token totals sum up a month of requests, and revalidation writes: the page asks for both once it stands.
        "groups": queries.describe(queries.all_groups(), totals=False),
        "status": board().status({}, True),
        "last_synced_at": sync.last_synced(),
        "now": SYSTEM.now().timestamp() * 1000,
    }
    context = {
        "title": "Failover",
        "data": pages.embedded(data),
        "modules": MODULES,
        "count": len(data["groups"]),
        "may_change": request.user.has_perm(CHANGE),
    }
    return pages.draw(request, "board", context)
