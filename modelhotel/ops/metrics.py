"""``GET /metrics`` (operations 14): who may scrape, and the answer. In front of Django, and apart from its threads."""

import asyncio
import hmac
import logging
from concurrent.futures import ThreadPoolExecutor

from asgiref.sync import sync_to_async
from django.db import DatabaseError
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from modelhotel.accounts import authentication
from modelhotel.accounts.identity import FORBIDDEN, bearer_of, presented
from modelhotel.core.client_ip import client_address
from modelhotel.core.environment import Environment
from modelhotel.core.faults import Refusal
from modelhotel.ops import scrape
from modelhotel.ops.asgi_types import Receive, Scope, Send
from modelhotel.ops.front import Headers, whole

WRONG_TOKEN = "invalid metrics token"
_PLAIN = b"text/plain; charset=utf-8"
log = logging.getLogger("metrics")


class Metrics:
    """With METRICS_TOKEN that token alone opens it, without it what makes one an administrator."""

    def __init__(self, env: Environment, headers: Headers) -> None:
        self._env = env
        self._headers = headers
        # One scrape at a time, in a thread that a hanging database holds up for nobody.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metrics")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        extra = [(b"cache-control", b"no-store"), *self._headers(scope)]
        try:
            if scope["method"] not in ("GET", "HEAD"):
                raise Refusal(405, "method not allowed", headers={"Allow": "GET, HEAD"})
            await self._check(scope)
            text = await asyncio.get_running_loop().run_in_executor(self._thread, scrape.render)
        except Refusal as problem:
            told = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
            return await whole(send, problem.status, problem.text.encode(), _PLAIN, [*told, *extra])
        except Exception as problem:
            log.error("metrics: scrape failed", exc_info=problem)
            return await whole(send, 500, b"internal error", _PLAIN, extra)
        await whole(send, 200, text, CONTENT_TYPE_PLAIN_0_0_4.encode(), extra)

    async def _check(self, scope: Scope) -> None:
        """Raises Refusal."""
        given = list(scope["headers"])
        address = client_address((scope.get("client") or ("",))[0], given, self._env.trusted_proxies)
        if token := self._env.metrics_token:
            authorization = next((value for name, value in given if name == b"authorization"), b"")
            if not hmac.compare_digest(bearer_of(authorization.decode("latin-1")).encode("latin-1"), token.encode()):
                log.warning("metrics: request refused", extra={"attrs": {"ip": address, "reason": WRONG_TOKEN}})
                raise Refusal(401, WRONG_TOKEN)
            return
        try:
            check = sync_to_async(authentication.by_credentials, thread_sensitive=False)
            identity = await check(presented(given), address, scope["path"])
        except DatabaseError:
            log.exception("metrics: credentials could not be checked")
            raise Refusal(500, "internal error") from None
        if identity.actor.role != "admin":
            raise Refusal(403, FORBIDDEN)
