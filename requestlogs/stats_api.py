"""``/api/stats``: what the dashboard's figures and charts show."""

from collections.abc import Callable
from typing import Any

import msgspec
from django.http import HttpRequest, HttpResponse
from ninja import Router

from modelhotel.core import clock
from modelhotel.core.ids import parse_uuid
from modelhotel.core.webapi import actor_of
from requestlogs import rollup, stats, timeline
from requestlogs.recorder import RECORDER
from requestlogs.shared import Shared
from requestlogs.statements import Scope

#: Seconds for which all who ask for the same figures get the same answer.
CACHE_SECONDS = 3.0
DEFAULT_PERIOD, DEFAULT_METRIC = "24h", "requests"

router = Router(tags=["stats"])
ANSWERS: Shared[bytes] = Shared(CACHE_SECONDS)
_CAUGHT_UP: Shared[bool] = Shared(1.0)


def current() -> None:
    """Have the sums hold what has happened up to now; once a second, however many readers there are."""
    _CAUGHT_UP.get("", _flushed)


def _flushed() -> bool:
    RECORDER.flush()
    return rollup.help_readers()


def forget_cache() -> None:
    ANSWERS.forget()
    _CAUGHT_UP.forget()


def _scope(request: HttpRequest) -> Scope:
    """A user's own rows; whoever sees all may ask for those of one account."""
    actor = actor_of(request)
    wanted = parse_uuid(request.GET.get("owner_user_id"))
    owner = (actor.user_id or "") if actor.role == "user" else str(wanted) if wanted else None
    return Scope(owner, request.GET.get("exclude_deleted", "true").lower() not in ("false", "0"))


def _one_of(request: HttpRequest, name: str, known: dict[str, Any], default: str) -> str:
    value = request.GET.get(name, default)
    return value if value in known else default


def _answer(request: HttpRequest, make: Callable[[Scope, str, str, bool], object]) -> HttpResponse:
    scope = _scope(request)
    period = _one_of(request, "period", stats.PERIODS, DEFAULT_PERIOD)
    metric = _one_of(request, "metric", stats.METRICS, DEFAULT_METRIC)
    latency = request.GET.get("include_latency", "").lower() in ("true", "1")

    def made() -> bytes:
        current()
        return msgspec.json.encode(make(scope, period, metric, latency))

    body = ANSWERS.get((make, scope, period, metric, latency), made)
    return HttpResponse(body, content_type="application/json")


def _now() -> float:
    return clock.SYSTEM.now().timestamp()


def _overview(scope: Scope, period: str, metric: str, latency: bool) -> object:
    return stats.overview(scope, period, metric, _now(), latency=latency)


def _timeseries(scope: Scope, period: str, metric: str, latency: bool) -> object:
    return {"points": timeline.points(scope, period, _now())}


def _distribution(scope: Scope, period: str, metric: str, latency: bool) -> object:
    return {"items": stats.distribution(scope, period, metric, _now())}


@router.get("", summary="Figures of a period")
def figures(request: HttpRequest) -> HttpResponse:
    """period (1h, 24h, 7d), metric (requests, tokens, cost), exclude_deleted, owner_user_id, include_latency."""
    return _answer(request, _overview)


@router.get("/timeseries", summary="Figures by bucket of time")
def timeseries(request: HttpRequest) -> HttpResponse:
    """period: 1h = five minutes of 24 hours, 24h = hours of 7 days, 7d = days of 30; exclude_deleted, owner_user_id."""
    return _answer(request, _timeseries)


@router.get("/provider-distribution", summary="Shares of the largest providers")
def provider_distribution(request: HttpRequest) -> HttpResponse:
    """period, metric, exclude_deleted, owner_user_id."""
    return _answer(request, _distribution)
