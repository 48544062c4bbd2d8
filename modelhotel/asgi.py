"""The ASGI application: ``/v1`` and ``/p`` to the data plane, ``/api/events`` to Channels, the rest to Django.

Under uvicorn the server's lifespan starts and stops the background work. Daphne knows no lifespan; there the reactor
does it, and connections wait until the start is through.
"""

import os
import sys
from typing import cast

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "modelhotel.settings")
django = get_asgi_application()

from django.conf import settings  # noqa: E402

from modelhotel.core.headers import cors_headers, origin_of, security_headers  # noqa: E402
from modelhotel.ops import services, static  # noqa: E402
from modelhotel.ops.asgi_types import App, Scope  # noqa: E402
from modelhotel.ops.chat import Chat  # noqa: E402
from modelhotel.ops.eventstream import EventStream  # noqa: E402
from modelhotel.ops.front import BodyLimit, EventStreams, Front, Lifespan  # noqa: E402
from modelhotel.ops.health import Health  # noqa: E402
from modelhotel.ops.lifecycle import Lifecycle  # noqa: E402
from modelhotel.ops.limited import Limited  # noqa: E402
from modelhotel.ops.metrics import Metrics  # noqa: E402
from providers.upstream import select  # noqa: E402
from proxy import app as data_plane  # noqa: E402
from proxy.limits.gate import LIMITER  # noqa: E402


def _headers() -> tuple[tuple[bytes, bytes], ...]:
    return security_headers(settings.MH)


def _headers_to(scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
    return (*_headers(), *cors_headers(settings.MH, origin_of(scope["headers"])))


def _behind_static(app: App) -> App:
    return static.serve(BodyLimit(app, settings.MH.max_request_size, _headers_to), _headers)


def _limited(app: App) -> App:
    return Limited(app, settings.MH.trusted_proxies, _headers_to, settings.STATIC_URL)


async def _close() -> None:
    await select.aclose_all()
    await LIMITER.aclose()


health = Health()
lifecycle = Lifecycle(settings.MH, health, services.services)
application = Front(
    data=data_plane.application,
    events=EventStreams(_limited(EventStream.as_asgi())),
    control=Chat(_limited(_behind_static(cast(App, django)))),
    health=health,
    lifespan=Lifespan(lifecycle.start, lifecycle.stop, _close),
    headers=_headers_to,
    metrics=Metrics(settings.MH, _headers_to),
)

if "daphne.server" in sys.modules:
    from modelhotel.ops import reactor

    reactor.hook(lifecycle)
