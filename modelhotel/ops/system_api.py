"""``/api/system``: what the gateway uses and how it fares. ``/api/version/latest``: whether there is a newer one."""

import os
import time
from datetime import UTC, datetime

from django.http import HttpRequest
from ninja import Router

from modelhotel import config_store
from modelhotel.accounts.authentication import SIGNED_IN
from modelhotel.core import clock, environment, version
from modelhotel.ops import machine, releases
from modelhotel.ops.lifecycle import WORKERS
from modelhotel.ops.startup import INSTANCE
from requestlogs import plan, stats, stats_api
from requestlogs.measures import MINUTE
from requestlogs.queries import moment
from requestlogs.shared import Shared
from requestlogs.statements import Scope, Window

#: Seconds that answers are shared for.
SYSTEM_SECONDS, TODAY_SECONDS, RELEASE_SECONDS = 3.0, 30.0, 1800.0

router = Router(tags=["system"])
_process, _database = machine.Process(), machine.Database()
_system: Shared[tuple[machine.Figures, machine.Figures | None]] = Shared(SYSTEM_SECONDS)
_today: Shared[int] = Shared(TODAY_SECONDS)
_release: Shared[releases.Release] = Shared(RELEASE_SECONDS)


def forget_cache() -> None:
    for cache in (_system, _today, _release):
        cache.forget()


def _requests_since(since: datetime) -> int:
    stats_api.current()
    end = plan.floor(int(time.time()), MINUTE) + MINUTE
    return stats.requests_in(Scope(None, False), Window(int(since.timestamp()), end))


def _midnight() -> datetime:
    return clock.SYSTEM.now().replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)


@router.get("/system", summary="What the gateway uses of its machine")
def system(request: HttpRequest) -> dict[str, object]:
    """``since``: the start of the caller's day, for ``requests_today``. Process figures are those of the process that
    answers."""
    app, database = _system.get("", lambda: (_process.figures(), _database.figures()))
    since = moment(request.GET.get("since")) or _midnight()
    return {
        "app": {
            **app,
            "requests_today": _today.get(since, lambda: _requests_since(since)),
            "procs": int(os.environ.get(WORKERS, "1")),
            "version": version.VERSION,
            "instance_id": config_store.load_note(INSTANCE),
            "node": environment.current().node_name,
        },
        "db": database,
        "docker": None,  # the gateway does not talk to the container engine
    }


@router.get("/version/latest", auth=SIGNED_IN, summary="Whether a newer release exists")
def latest_version(request: HttpRequest) -> dict[str, object]:
    """``latest`` and ``url`` are null where nobody could tell."""
    return _release.get("", releases.latest).answer()
