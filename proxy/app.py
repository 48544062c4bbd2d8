"""The ASGI application behind every path under ``/v1`` and ``/p``: the gates, in the order of v1-api 2, then the walk.

No middleware, no ORM, no thread hop per request: what a request needs is in memory. No answer is ever HTML.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from failover import breaker, resolve
from failover.resolve import ResolveError
from modelhotel.core import catalogue
from providers.keyring import KEYRING
from proxy import (
    answers,
    beside,
    body,
    counting,
    egress,
    endpoints,
    keys,
    model_list,
    native_plan,
    native_routes,
    serving,
)
from proxy.authentication import authenticate, known
from proxy.call import INTERNAL, Call
from proxy.endpoints import ENDPOINTS, Endpoint
from proxy.exchange import Exchange, Receive, Scope, Send
from proxy.keys import KeyRow
from proxy.limits.gate import LIMITER
from proxy.stream.relay import RESTARTING
from proxy.trail import Trail
from requestlogs.draft import Draft
from requestlogs.recorder import RECORDER

log = logging.getLogger("proxy")

MODELS = "/v1/models"
#: Below it every error has Anthropic's shape, that of a path nobody knows too.
MESSAGES = "/v1/messages"
COUNT_TOKENS = f"{MESSAGES}/count_tokens"
_MODEL = "/v1/models/"
_POST, _GET = b"POST", b"GET, HEAD"
#: Characters of a path that an error repeats.
_PATH_SHOWN = 200

INTERRUPTED = "request interrupted (server restart)"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Everything under ``/v1`` and ``/p``. Raises nothing that a request can cause."""
    if scope["type"] != "http":
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        return
    call = Call(scope, receive, send)
    method: str = scope["method"]
    path: str = scope["path"]
    if path.endswith("/"):
        path = path[:-1]
    endpoint = ENDPOINTS.get(path)
    if path.startswith(MESSAGES):
        call.speak_messages()
    try:
        if method != "OPTIONS" or b"origin" not in call.headers:
            asked = LIMITER.address(call)
            if asked is not None and not await asked:
                return
        await _route(call, method, path, endpoint)
    except Exception:
        log.exception("proxy: request failed", extra={"attrs": {"request": call.request_hash}})
        if not call.answered:
            await call.say(INTERNAL)


async def dashboard(
    scope: Scope, receive: Receive, send: Send, signed_in: Callable[[Call], Awaitable[KeyRow | None]]
) -> None:
    """A chat completion that a signed-in account asks for (v1-api 5.8): the gates and the walk of ``/v1``.

    *signed_in* gives what stands in for the virtual key; None when it has answered itself.
    """
    call = Call(scope, receive, send)
    try:
        asked = LIMITER.address(call)
        if asked is not None and not await asked:
            return
        key = await signed_in(call)
        if key is not None:
            await _ask(call, endpoints.CHAT, key)
    except Exception:
        log.exception("proxy: request failed", extra={"attrs": {"request": call.request_hash}})
        if not call.answered:
            await call.say(INTERNAL)


def _route(call: Call, method: str, path: str, endpoint: Endpoint | None) -> Coroutine[Any, Any, None]:
    """What answers the request: the next gate, or a refusal."""
    if endpoint is not None:
        if method == "POST":
            return _ask(call, endpoint)
        allow = _POST
    elif path == COUNT_TOKENS:
        if method == "POST":
            return _count(call)
        allow = _POST
    elif path == MODELS or path.startswith(_MODEL):
        if method in ("GET", "HEAD"):
            return _models(call, path)
        allow = _GET
    else:
        allow = b""
    if method == "OPTIONS" and b"origin" in call.headers:
        return call.reply(204, b"", ())
    if call.env.enable_passthrough_routes and (path.startswith("/p/") or path == "/p"):
        return _native(call, method)
    if allow:
        wrong = answers.error(405, "method not allowed", answers.METHOD_NOT_SUPPORTED)
        return call.say(wrong, (b"allow", allow))
    shown = f"unknown endpoint: {method} {call.scope['path'][:_PATH_SHOWN]}"
    return call.say(answers.error(404, shown, answers.UNKNOWN_URL))


# -- POST: what asks a provider


async def _ask(call: Call, endpoint: Endpoint, key: KeyRow | None = None) -> None:
    """*key*: what stands in for one where a signed-in account asks."""
    key = key or known(call) or await authenticate(call)
    if key is None:
        return
    asked = LIMITER.admit(call, key, spends=True)
    if asked is not None and not await asked:
        return
    call.answered = True  # from here on by the exchange
    draft = Draft(
        endpoint.family,
        request_hash=call.request_hash,
        arrival=call.arrival,
        virtual_key_id=None if key.session else key.id,
        virtual_key_name=key.name,
        owner_user_id=key.owner_user_id,
        client_ip=call.client,
    )
    exchange = Exchange(
        call.scope, call.receive, call.send, draft=draft, opts=call.opts, key=key, headers=call.base, endpoint=endpoint
    )
    RECORDER.start(draft)
    try:
        await _serve(call, exchange)
    except asyncio.CancelledError:
        _uncancel()
        if exchange.gone:
            _fail(draft, 0 if exchange.committed else 499, "client_disconnect", "client disconnected")
        else:  # the server stops, and waited for this request as long as it does
            _fail(draft, 0 if exchange.committed else 500, "internal", INTERRUPTED)
            await _apologise(exchange, INTERRUPTED, RESTARTING)
    except Exception:
        log.exception("proxy: request failed", extra={"attrs": {"request": draft.request_hash}})
        _fail(draft, 0 if exchange.committed else 500, "internal", "internal error")
        await _apologise(exchange, "internal error", "internal error")
    finally:
        exchange.unwatch()
        RECORDER.finish(draft)
        LIMITER.over(call, draft)


def _serve(call: Call, exchange: Exchange) -> Coroutine[Any, Any, None]:
    """What is left to wait for. Where body and resolution are at hand, as nearly always, that is the walk and nothing
    around it: what waits for a provider pays for every coroutine above it.
    """
    raw = exchange.server.asked() if exchange.server is not None else None
    if raw is None or len(raw) > beside.LARGE:
        return _read(call, exchange, raw)
    try:
        asked = _asked(call, exchange, raw)
    except body.BadBody as bad:
        return _misread(exchange, bad)
    return _understand(exchange, raw, asked)


async def _read(call: Call, exchange: Exchange, raw: bytes | None) -> None:
    """The body is still to come, or is large."""
    try:
        if raw is None:
            until = body.deadline(call.arrival, call.opts[catalogue.REQUEST_TIMEOUT])
            raw = await body.read(call.receive, body.announced(call.headers), call.env.max_request_size, until=until)
        asked = await beside.by_size(len(raw), _asked, call, exchange, raw)
    except body.ClientGone:
        exchange.gone = True
        return _fail(exchange.draft, 499, "client_disconnect", "client disconnected")
    except body.BadBody as bad:
        return await _misread(exchange, bad)
    await _understand(exchange, raw, asked)


def _asked(call: Call, exchange: Exchange, raw: bytes) -> body.Asked:
    """Raises BadBody."""
    if len(raw) > call.env.max_request_size:
        raise body.too_large()
    return exchange.endpoint.asked(raw, call.headers.get(b"content-type", b""))


def _understand(exchange: Exchange, raw: bytes, asked: body.Asked) -> Coroutine[Any, Any, None]:
    """What comes of a request with this body."""
    draft = exchange.draft
    draft.parse_ms = draft.elapsed_ms()
    draft.streaming = asked.stream
    exchange.accept(raw, asked)
    _name(draft, asked.model)
    return _ways(exchange, asked) if _known_way(exchange) else _find(exchange, asked)


async def _find(exchange: Exchange, asked: body.Asked) -> None:
    if await _resolve(exchange):
        await _ways(exchange, asked)


def _ways(exchange: Exchange, asked: body.Asked) -> Coroutine[Any, Any, None]:
    """The candidates are known: ask those who can serve it."""
    if asked.refusal is not None and not egress.all_native(exchange):
        return _turn_down(exchange, asked.refusal)
    unable = serving.narrow(exchange)
    if unable is not None:
        return _unserved(exchange, str(unable), getattr(unable, "param", None))
    exchange.watch()
    return serving.run(exchange)


async def _misread(exchange: Exchange, bad: body.BadBody) -> None:
    draft = exchange.draft
    draft.parse_ms = draft.elapsed_ms()
    if bad.model:
        _name(draft, bad.model)
    await _turn_down(exchange, bad)


async def _turn_down(exchange: Exchange, bad: body.BadBody) -> None:
    _fail(exchange.draft, bad.status, bad.kind, bad.message)
    await exchange.say(answers.error(bad.status, bad.message, bad.code, bad.param))


async def _unserved(exchange: Exchange, reason: str, param: str | None) -> None:
    """No candidate can serve the request as it was asked."""
    draft, resolution = exchange.draft, exchange.resolution
    draft.attempts = Trail(resolution.skips if resolution is not None else []).rows()
    _fail(draft, 400, "validation", reason)
    await exchange.say(answers.error(400, reason, answers.INVALID_VALUE, param))


def _name(draft: Draft, model: str) -> None:
    # PostgreSQL has no NUL in texts.
    draft.model_id = model.replace("\0", "\ufffd") if "\0" in model else model
    RECORDER.named(draft)


def _known_way(exchange: Exchange) -> bool:
    """The same as :func:`_resolve` where the answer is at hand, as nearly always: without a coroutine."""
    board, now = breaker.board(), time.monotonic()
    table, allowed = resolve.SNAPSHOT.current, exchange.key.allowed
    try:
        known = resolve.everyday(table, exchange.model, allowed, exchange.opts, board, KEYRING, now)
    except Exception:  # the long way tells of it
        known = None
    if known is None:
        return False
    _found(exchange, known)
    return True


def _found(exchange: Exchange, resolution: resolve.Resolution) -> None:
    draft = exchange.draft
    if resolution.ms:
        _stamp(draft, resolution.ms)
    draft.cache_hits = resolution.cache_hits
    draft.label = resolution.label
    exchange.resolution = resolution


async def _resolve(exchange: Exchange) -> bool:
    """Fill in the candidates; False when there are none, and the request was answered."""
    draft, opts = exchange.draft, exchange.opts
    try:
        table = await _routing()
        resolution = await resolve.resolve(
            table,
            exchange.model,
            allowed=exchange.key.allowed,
            opts=opts,
            board=breaker.board(),
            keyring=KEYRING,
            now=time.monotonic(),
        )
    except ResolveError as none:
        _stamp(draft, none.ms)
        draft.label = none.label
        draft.attempts = Trail(none.skips).rows()
        _fail(draft, none.status, none.kind, none.log_text)
        refusal = answers.error(none.status, none.message, none.code, none.param, retry_after=none.retry_after)
        await exchange.say(refusal)
        return False
    except Exception:
        log.exception("proxy: resolving the model failed")
        _fail(draft, 500, "internal", "failed to resolve model")
        await exchange.say(answers.error(500, "failed to resolve model", answers.INTERNAL_ERROR))
        return False
    _found(exchange, resolution)
    return True


async def _routing() -> resolve.RoutingTable:
    """The routing table. Raises what the database raises, where it has to be read first."""
    table = resolve.SNAPSHOT.current
    return table if table.ready else await asyncio.to_thread(_load_routing)


def _load_routing() -> resolve.RoutingTable:
    """The routing table, built now: only where that failed at the start. Raises what the database raises."""
    try:
        resolve.SNAPSHOT.refresh()
    finally:
        keys.close_connection()
    return resolve.SNAPSHOT.current


def _stamp(draft: Draft, parts: Mapping[str, float]) -> None:
    for name, value in parts.items():
        setattr(draft, name, value)


def _fail(draft: Draft, status: int, kind: str, text: str) -> None:
    """What the row says; a row that says how it ended already keeps it."""
    if draft.finished or draft.error_kind is not None:
        return
    draft.state, draft.status_code, draft.error_kind = "failed", status, kind
    draft.error_message = text.replace("\0", "\ufffd")


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


async def _apologise(exchange: Exchange, message: str, in_stream: str) -> None:
    """What ended the request was ours: an error in the form that still fits."""
    if not exchange.committed:
        await exchange.say(answers.error(500, message, answers.INTERNAL_ERROR))
    elif exchange.streaming:
        await exchange.write(exchange.error_frame(in_stream, "internal"))
        await exchange.end()


# -- POST /v1/messages/count_tokens


async def _count(call: Call) -> None:
    """How many tokens a messages request has: no row, no failover, no charge (v1-api 12.7)."""
    key = known(call) or await authenticate(call)
    if key is None:
        return
    asked = LIMITER.admit(call, key, spends=False)
    if asked is not None and not await asked:
        return
    call.answered = True
    draft = Draft(endpoints.MESSAGES.family, request_hash=call.request_hash, arrival=call.arrival)
    exchange = Exchange(
        call.scope,
        call.receive,
        call.send,
        draft=draft,
        opts=call.opts,
        key=key,
        headers=call.base,
        endpoint=endpoints.MESSAGES,
    )
    try:
        await counting.serve(exchange, call.env.max_request_size, _resolve)
    except asyncio.CancelledError:
        _uncancel()
        await _apologise(exchange, INTERRUPTED, RESTARTING)
    except Exception:
        log.exception("proxy: request failed", extra={"attrs": {"request": draft.request_hash}})
        await _apologise(exchange, "internal error", "internal error")


# -- /p/{provider}/{endpoint}


async def _native(call: Call, method: str) -> None:
    """A provider's own endpoint: no row (v1-api 21)."""
    if method not in native_plan.METHODS:
        wrong = answers.error(405, "method not allowed", answers.METHOD_NOT_SUPPORTED)
        return await call.say(wrong, native_plan.ALLOW)
    key = known(call) or await authenticate(call)
    if key is None:
        return
    asked = LIMITER.admit(call, key, spends=method not in native_plan.SAFE)
    if asked is not None and not await asked:
        return
    draft = Draft("native", request_hash=call.request_hash, arrival=call.arrival)
    try:
        table = await _routing()
        await native_routes.serve(call, key, table.catalogue)
    except asyncio.CancelledError:  # the server stops, and waited for this request as long as it does
        _uncancel()
        if not call.answered:
            await call.say(answers.error(500, INTERRUPTED, answers.INTERNAL_ERROR))
    finally:
        LIMITER.over(call, draft)


# -- GET /v1/models


async def _models(call: Call, path: str) -> None:
    key = known(call) or await authenticate(call)
    if key is None:
        return
    asked = LIMITER.admit(call, key, spends=False)
    if asked is not None and not await asked:
        return
    try:
        table = await _routing()
        listing = model_list.of(table)
        made = listing.ready(key.allowed)
        whole, by_id = made if made is not None else await asyncio.to_thread(listing.make, key.allowed)
    except Exception:
        log.exception("proxy: listing the models failed")
        return await call.say(answers.error(500, "failed to list models", answers.INTERNAL_ERROR))
    if path == MODELS:
        return await call.reply(200, whole)
    wanted = path[len(_MODEL) :]
    if wanted.startswith(resolve.GROUP_PREFIX):
        wanted = wanted.lower()
    entry = by_id.get(wanted)
    if entry is None:
        missing = f"model not found: {path[len(_MODEL) :]}"
        return await call.say(answers.error(404, missing, answers.MODEL_NOT_FOUND, "model"))
    await call.reply(200, entry)
