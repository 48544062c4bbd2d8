"""``/api/logs``: what happened to each request, and why."""

import threading
import time
from collections.abc import Mapping

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel.core.faults import Refusal
from modelhotel.core.ids import parse_uuid
from modelhotel.core.webapi import Body, actor_of
from requestlogs import backlog, cursors, queries, sweep
from requestlogs.recorder import RECORDER

#: Seconds an identical query of the same audience is answered from memory.
CACHE_SECONDS = 2.0
_CACHE_ENTRIES = 200
_POSITION = cursors.By("created_at")

router = Router(tags=["logs"])
_cache: dict[tuple[str, str], tuple[float, bytes]] = {}
_cache_lock = threading.Lock()


class Purge(Body):
    older_than: str


def _params(request: HttpRequest) -> Mapping[str, str]:
    return request.GET.dict()


def _json(body: bytes, cache: str) -> HttpResponse:
    return HttpResponse(body, content_type="application/json", headers={"X-Cache": cache})


def _audience(request: HttpRequest) -> str:
    actor = actor_of(request)
    return "all" if actor.role != "user" else f"user:{actor.user_id}"


@router.get("", summary="Request log, by page")
def list_logs(request: HttpRequest) -> HttpResponse:
    """Filters: model_id, provider_id, virtual_key_id, client_ip, owner_user_id, status_code, endpoint_type, from, to,
    state (a state, or ``running``), attempt_provider_id, attempt_status; sort_by, sort_dir; page, per_page."""
    key = (_audience(request), request.META.get("QUERY_STRING", ""))
    with _cache_lock:
        held = _cache.get(key)
    if held and held[0] > time.monotonic():
        return _json(held[1], "HIT")
    RECORDER.flush()
    query = _params(request)
    actor = actor_of(request)
    page = queries.clamp(query.get("page"), 1, 1, 10_000_000)
    per_page = queries.clamp(query.get("per_page"), 20, 1, 200)
    rows = queries.filtered(queries.visible_to(actor), query, actor)
    in_order = queries.ordered(rows, query.get("sort_by", "time"), query.get("sort_dir", "desc"))
    start = (page - 1) * per_page
    body = msgspec.json.encode(
        {
            "entries": queries.entries(list(in_order[start : start + per_page])),
            "total": rows.count(),
            "page": page,
            "per_page": per_page,
        }
    )
    with _cache_lock:
        if len(_cache) >= _CACHE_ENTRIES:
            _cache.clear()
        _cache[key] = (time.monotonic() + CACHE_SECONDS, body)
    return _json(body, "MISS")


@router.get("/cursor", summary="Request log, by cursor")
def cursor_logs(request: HttpRequest) -> dict[str, object]:
    """Newest first; ``direction`` ``after`` = older than the cursor, ``before`` = newer."""
    RECORDER.flush()
    query = _params(request)
    actor = actor_of(request)
    rows = queries.filtered(queries.visible_to(actor), query, actor)
    limit = queries.clamp(query.get("limit"), 50, 1, 200)
    try:
        page = _POSITION.page(rows, query.get("cursor"), query.get("direction", "after"), limit)
    except cursors.BadCursor:
        raise Refusal(400, "invalid cursor") from None
    return page.answer(queries.entries(page.rows), rows.count())


@router.get("/recorder", summary="Rows on their way to the request log")
def recorder_state(request: HttpRequest) -> dict[str, object]:
    """Of the process that answers: rows that wait in memory (``queued``) and in files (``spilled``), how many were
    ``lost`` since its start, and for how many seconds the database has not taken everything (``behind_s``)."""
    if _audience(request) != "all":
        raise Refusal(403, "insufficient permissions")
    return backlog.state(RECORDER)


@router.delete("/purge", summary="Delete request rows by age")
def purge_logs(request: HttpRequest, body: Purge) -> HttpResponse:
    purge(body.older_than)
    return HttpResponse(status=204)


def purge(older_than: str) -> int:
    """Raises Refusal."""
    deleted = sweep.delete_before(sweep.limit(older_than))
    forget_cache()
    return deleted


@router.get("/{log_id}", summary="One request")
def one_log(request: HttpRequest, log_id: str) -> dict[str, object]:
    RECORDER.flush()
    row_id = parse_uuid(log_id)
    row = queries.visible_to(actor_of(request)).filter(pk=row_id).first() if row_id else None
    if row is None:
        raise Refusal(404, "log not found")
    return queries.entries([row])[0]


def forget_cache() -> None:
    with _cache_lock:
        _cache.clear()
