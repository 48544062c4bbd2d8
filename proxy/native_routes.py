"""``/p/{provider}/{endpoint...}``: a provider's own API behind a virtual key (v1-api 21).

No model is resolved, nothing is translated, no other candidate is asked and no circuit hears of it. The call is read
whole, within the limit, because it may have to be sent again; the answer is passed on while it arrives. There is no
request row: tokens count against the key, dollars do not.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol

from failover import backoff
from modelhotel.core import catalogue as settings
from modelhotel.core import durations
from modelhotel.core.crypto import DecryptError
from modelhotel.core.environment import Environment
from providers.cache import Catalogue, ProviderRow
from providers.keyring import KEYRING
from providers.kinds import registry
from providers.upstream.interface import FaultKind, Request, Response, UpstreamError
from proxy import answers, body, native_plan, outgoing, policy, walk
from proxy.exchange import STREAM_FACTOR, Receive, Send
from proxy.keys import KeyRow
from proxy.limits.gate import LIMITER, Asker
from proxy.metering import METER
from proxy.native_plan import Refused, Rules
from proxy.relayed import Guard, is_events
from proxy.secrecy import Secrets

log = logging.getLogger("proxy")

_UNREACHED = (502, native_plan.UNREACHED, "provider_error")
_LATE = (504, native_plan.LATE, "provider_timeout")
_UNBUFFERED = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class Caller(Asker, Protocol):
    """A request behind gate 2. *arrival*: monotonic time. *answered*: an answer was begun."""

    answered: bool
    arrival: float
    env: Environment
    headers: dict[bytes, bytes]
    receive: Receive
    request_id: bytes
    send: Send


def unknown_types(env: Environment) -> list[str]:
    """What ``ENABLED_PASSTHROUGH_PROVIDERS`` names that is no provider type, and is ignored."""
    return [word for word in env.enabled_passthrough_providers if word not in registry.KINDS]


def rules(env: Environment) -> Rules:
    return Rules(frozenset(env.enabled_passthrough_providers) & registry.KINDS.keys(), env.allow_passthrough_v1_alias)


async def serve(call: Caller, key: KeyRow, catalogue: Catalogue) -> None:
    """Answer the client, whose gates are passed. Raises CancelledError where it is not the client that left."""
    scope, own = call.scope, rules(call.env)
    try:
        native_plan.no_socket(call.headers)
        asked = native_plan.read(scope.get("raw_path") or scope["path"].encode(), own)
        provider = native_plan.choose(asked, catalogue, own, key.allowed)
        until = body.deadline(call.arrival, call.opts[settings.REQUEST_TIMEOUT])
        sent = await body.read(call.receive, body.announced(call.headers), call.env.max_request_size, until=until)
        secret = await _key(provider)
    except Refused as refused:
        return await call.say(refused.answer)
    except body.BadBody as bad:
        return await call.say(answers.error(bad.status, bad.message, bad.code, bad.param))
    except body.ClientGone:
        return None
    kind = provider.kind
    dialect = "messages" if kind.speaks_messages and asked.endpoint.startswith("messages") else "chat"
    headers = native_plan.forwarded(scope["headers"], kind.auth_headers(secret, dialect), secret, call.request_id)
    target = native_plan.url(provider, asked, scope["query_string"])
    passage = _Passage(call, key, provider, secret, Request(scope["method"], target, headers, sent))
    await _while_there(call.receive, passage.run())


async def _key(provider: ProviderRow) -> str:
    try:
        return await KEYRING.fetch(provider)
    except DecryptError:
        log.error("proxy: key decryption failed", extra={"attrs": {"provider": provider.name}})
        text = f"failed to decrypt the key of provider {provider.name} (wrong master key?)"
        raise Refused(502, text, "provider_error") from None


async def _while_there(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """*work*, given up when the client leaves."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    running, gone = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        gone.cancel()
        running.cancel()
        await asyncio.gather(running, gone, return_exceptions=True)


class _Passage:
    """One call on its way to the provider and back."""

    def __init__(self, call: Caller, key: KeyRow, provider: ProviderRow, secret: str, request: Request) -> None:
        self._call, self._key, self._provider, self._request = call, key, provider, request
        self._secret, self._secrets = secret, Secrets(secret, walk.TOOLS.known_keys)
        self._until = asyncio.get_running_loop().time() + call.opts[settings.REQUEST_TIMEOUT] * STREAM_FACTOR

    async def run(self) -> None:
        METER.touch_provider(self._provider.id)
        try:
            response = await self._send()
        except UpstreamError as problem:
            late = problem.kind is FaultKind.HEADER_TIMEOUT
            self._tell("upstream request failed", problem)
            return await self._call.say(answers.error(*(_LATE if late else _UNREACHED)))
        try:
            response.deadline(self._until)
            await self._pass_on(response)
        finally:
            response.close()

    async def _send(self) -> Response:
        """The first answer. Raises UpstreamError after the tries of failover-loop 6.1."""
        client, patience = walk.TOOLS.client(), policy.of(self._call.opts).headers
        again = 0
        while True:
            try:
                return await client.send(self._request, deadline=self._until, header_timeout=patience)
            except UpstreamError as problem:
                again += 1
                wait = backoff.TRANSPORT_RETRY.wait(again, walk.TOOLS.chance)
                out_of_time = asyncio.get_running_loop().time() + wait >= self._until
                harmless = not problem.request_written or self._request.method in native_plan.SAFE
                if again > backoff.TRANSPORT_RETRIES or not harmless or not outgoing.repeatable(problem) or out_of_time:
                    raise
                more = {"try": again, "backoff": durations.short(wait), "request_written": problem.request_written}
                self._tell("transient upstream error, retrying same provider", problem, more)
                await walk.TOOLS.sleep(wait)

    async def _pass_on(self, response: Response) -> None:
        call, guard = self._call, Guard(self._secret)
        seen = native_plan.Seen() if self._request.method == "POST" and 200 <= response.status < 300 else None
        headers = native_plan.returned(response.headers, call.base, self._secret)
        if is_events(response):
            known = {name for name, _ in headers}
            headers += (pair for pair in _UNBUFFERED if pair[0] not in known)
        call.answered = True
        try:
            await call.send({"type": "http.response.start", "status": response.status, "headers": headers})
            while data := await response.chunk():
                if seen is not None:
                    seen.add(data)
                if passed := guard.take(data):
                    await call.send({"type": "http.response.body", "body": passed, "more_body": True})
            await call.send({"type": "http.response.body", "body": guard.rest(), "more_body": False})
        except UpstreamError as broke:
            # The answer is not ended, so the server cuts it off: how its client learns that it is not whole.
            self._tell("answer cut off", broke)
        finally:
            usage = seen.usage() if seen is not None else None
            tokens = usage.total if usage is not None else 0
            METER.add(self._key, tokens)
            LIMITER.debit(self._key, tokens)
            self._log(response.status, tokens)

    def _log(self, status: int, tokens: int) -> None:
        """What stands for a request row: neither path nor query, which may say what it was about."""
        attrs = {"provider": self._provider.name, "provider_id": self._provider.id, "key": self._key.name}
        told = {**attrs, "method": self._request.method, "status": status, "tokens": tokens}
        log.info("proxy: passed through", extra={"attrs": told})

    def _tell(self, what: str, problem: UpstreamError, more: dict[str, object] | None = None) -> None:
        attrs = {"provider": self._provider.name, "provider_id": self._provider.id, **(more or {})}
        log.warning(f"proxy: {what}", extra={"attrs": {**attrs, "error": self._secrets.exception(problem)}})
