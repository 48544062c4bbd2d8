"""The live pages of both logs, each with its first rows in it, so that the first view needs no second call."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from modelhotel.core.clock import SYSTEM
from modelhotel.core.webapi import actor_of
from modelhotel.models import User
from modelhotel.site import pages
from providers.models import Provider
from proxy.models import VirtualKey
from requestlogs import applog_queries, backlog, cursors, queries
from requestlogs.applog import APP_LOG, LEVELS
from requestlogs.models import AppLog
from requestlogs.recorder import RECORDER

#: Rows of the first view; a page that remembers another size asks for it.
FIRST = 50
#: Requests in flight that stand on top.
FLYING = 200
#: Names in one filter: more than anybody picks from.
CHOICES = 1000
#: Seconds the first view waits for what is on its way into the table; with what came later the page reads anew.
WAIT = 0.2
#: What the request log calls a request: its endpoint, in words.
KINDS = (
    ("chat", "Chat"),
    ("messages", "Messages"),
    ("responses", "Responses"),
    ("embeddings", "Embeddings"),
    ("rerank", "Rerank"),
    ("image", "Image"),
    ("tts", "Speech"),
    ("stt", "Transcription"),
)


def requests(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, "requestlogs.view_requestlog"):
        return refused
    whole = RECORDER.flush(WAIT)
    data = {**_requests(request, whole), "now": SYSTEM.now().timestamp() * 1000}
    may = request.user.has_perm
    context = {
        "title": "Requests",
        "data": data,
        "base": request.build_absolute_uri("/"),
        "kinds": KINDS,
        "providers": _choices(Provider.objects.order_by("name"), "name"),
        "keys": _choices(VirtualKey.objects.order_by("name"), "name"),
        "users": _choices(User.objects.order_by("username"), "username") if actor_of(request).role != "user" else [],
        "may_delete": may("requestlogs.delete_requestlog"),
        "may_lines": may("requestlogs.view_applog"),
        "warnings": backlog.sentences(RECORDER),
        "list": reverse("admin:requestlogs_requestlog_changelist"),
    }
    return pages.draw(request, "requests", context)


def lines(request: HttpRequest) -> HttpResponse:
    if refused := pages.refused(request, "requestlogs.view_applog"):
        return refused
    APP_LOG.flush(WAIT)
    query = request.GET.dict()
    rows = applog_queries.filtered(AppLog.objects.all(), query)
    in_order = applog_queries.ordered(rows, query.get("sort_by", "time"), query.get("sort_dir", "desc"))
    found, page = _first(in_order, query)
    context = {
        "title": "App logs",
        # How many there are is asked for once the page stands: counting a million lines takes a second.
        "data": {**page, "entries": applog_queries.entries(found), "total": None, **_next(found, "timestamp")},
        "levels": LEVELS,
        "may_delete": request.user.has_perm("requestlogs.delete_applog"),
        "may_requests": request.user.has_perm("requestlogs.view_requestlog"),
        "list": reverse("admin:requestlogs_applog_changelist"),
    }
    return pages.draw(request, "applogs", context)


def _requests(request: HttpRequest, whole: bool) -> dict[str, Any]:
    """As the API answers the filters of the address, and what is in flight. Not *whole*: without a total, for which the
    page asks at once, and gets what is missing with it."""
    query = request.GET.dict()
    actor = actor_of(request)
    rows = queries.filtered(queries.visible_to(actor), query, actor)
    in_order = queries.ordered(rows, query.get("sort_by", "time"), query.get("sort_dir", "desc"))
    found, page = _first(in_order, query)
    flying = queries.filtered(rows, {"state": "running"}, actor).order_by("-created_at", "-id")[:FLYING]
    return {
        **page,
        "entries": queries.entries(found),
        "total": rows.count() if whole else None,
        "running": queries.entries(list(flying)),
        **_next(found, "created_at"),
    }


def _first(rows: Any, query: Mapping[str, str]) -> tuple[list[Any], dict[str, Any]]:
    page = queries.clamp(query.get("page"), 1, 1, 10_000_000)
    start = (page - 1) * FIRST
    return list(rows[start : start + FIRST]), {"page": page, "per_page": FIRST}


def _next(found: list[Any], time: str) -> dict[str, str | None]:
    """Where the scroll goes on behind these rows."""
    full = len(found) == FIRST
    return {"next_cursor": cursors.encode((getattr(found[-1], time), found[-1].pk)) if full else None}


def _choices(rows: Any, name: str) -> list[tuple[str, str]]:
    return [(str(pk), str(text)) for pk, text in rows.values_list("pk", name)[:CHOICES]]
