"""``GET /api/events``: the event bus as server-sent events, for whoever is signed in.

One hub per event loop takes events from the publishers' threads, encodes each once and offers it to its subscribers;
one task per subscriber writes. A publisher never waits: a subscriber that does not read loses events and is told how
many. Credentials are checked again with every heartbeat, beside the stream and without counting as use of a session.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from channels.consumer import AsyncConsumer
from channels.exceptions import StopConsumer
from django.db import DatabaseError, close_old_connections

from modelhotel.accounts import sessions
from modelhotel.accounts.authentication import by_credentials
from modelhotel.accounts.identity import Credentials, Identity, presented, who
from modelhotel.core import environment, events, headers
from modelhotel.core.client_ip import client_address
from modelhotel.core.events import Event
from modelhotel.core.faults import Refusal
from modelhotel.ops.asgi_types import Message

log = logging.getLogger("events")

#: Seconds between heartbeats, and how many failed checks in a row end a stream.
HEARTBEAT = 30.0
FAILED_CHECKS = 2
#: Events that may wait for one subscriber.
QUEUE = 64
#: Events that may wait for a loop that is busy; beyond it the oldest go, for every subscriber of that loop.
_PENDING = 10_000
CONNECTED, BEAT, RESYNC = b": connected\n\n", b": heartbeat\n\n", b": resync\n\n"
_OWN_EVENTS = frozenset({"request.started", "request.streaming", "request.completed"})


def frame(event: Event) -> bytes:
    """``id`` and one line of ``data``; no ``event:`` line, so that plain ``onmessage`` clients work."""
    return b"id: " + event.id.encode() + b"\ndata: " + event.json() + b"\n\n"


def may_see(identity: Identity, event: Event) -> bool:
    """Staff sees everything; an account without staff status its own requests, with the grant; all else is withheld."""
    if identity.actor.role in ("admin", "viewer"):
        return True
    owner = event.metadata.get("owner_user_id")
    mine = owner is not None and str(owner) == identity.actor.user_id
    return mine and event.type in _OWN_EVENTS and "logs" in identity.grants


class Subscriber:
    """What waits for one client. Lives in the loop; nothing here blocks."""

    def __init__(self, identity: Identity, credentials: Credentials) -> None:
        self.identity = identity
        self.credentials = credentials
        self.wake = asyncio.Event()
        self.ended = False
        #: Ids that the replay has sent already; live events arrive behind them.
        self.replayed: frozenset[str] = frozenset()
        self._queue: deque[bytes] = deque()
        self._dropped = 0
        self._warned = False
        self._beat = False

    def offer(self, event: Event, data: bytes) -> None:
        if self.replayed:
            if event.id in self.replayed:
                return
            self.replayed = frozenset()
        if len(self._queue) >= QUEUE:
            self._drop()
            return
        self._queue.append(self._told() + data)
        self.wake.set()

    def _drop(self) -> None:
        self._dropped += 1
        if not self._warned:
            self._warned = True
            log.warning("events: a subscriber reads too slowly, events dropped", extra={"attrs": self._who()})

    def _who(self) -> dict[str, object]:
        return {"user": self.identity.actor.name}

    def _told(self) -> bytes:
        """The comment that says what was lost before the next frame."""
        if not self._dropped:
            return b""
        told, self._dropped = f": dropped {self._dropped}\n\n".encode(), 0
        return told

    def beat(self) -> None:
        self._beat = True
        self.wake.set()

    def end(self) -> None:
        self.ended = True
        self.wake.set()

    def take(self) -> bytes:
        """Everything that waits, as one write."""
        self.wake.clear()
        parts = list(self._queue)
        self._queue.clear()
        if self._beat:
            self._beat = False
            parts += [self._told(), BEAT]
        return b"".join(parts)


class Hub:
    """The subscribers of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.subscribers: set[Subscriber] = set()
        self._pending: deque[Event] = deque(maxlen=_PENDING)
        self._scheduled = False
        self._leave = events.subscribe(self.receive)

    def receive(self, event: Event) -> None:
        """Called in the publisher's thread."""
        self._pending.append(event)
        if not self._scheduled:
            self._scheduled = True
            self.call(self._fan_out)

    def call(self, work: Callable[..., None], *args: object) -> None:
        """Run *work* in the loop; without a loop any more there is nobody to tell."""
        try:
            self.loop.call_soon_threadsafe(work, *args)
        except RuntimeError:
            self.leave()

    def _fan_out(self) -> None:
        self._scheduled = False  # before the draining: what comes later schedules anew
        while self._pending:
            event = self._pending.popleft()
            data = frame(event)
            for subscriber in self.subscribers:
                if may_see(subscriber.identity, event):
                    subscriber.offer(event, data)

    def end_where(self, session_key: str | None) -> None:
        """End the streams of one session, or with None all of them."""
        for subscriber in list(self.subscribers):
            if session_key is None or session_key in subscriber.credentials.session_keys:
                subscriber.end()

    def leave(self) -> None:
        self._leave()
        with _lock:
            if _hubs.get(self.loop) is self:
                del _hubs[self.loop]


_lock = threading.Lock()
_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def _join(subscriber: Subscriber) -> Hub:
    loop = asyncio.get_running_loop()
    with _lock:
        hub = _hubs.get(loop) or _hubs.setdefault(loop, Hub(loop))
    hub.subscribers.add(subscriber)
    return hub


def _part(hub: Hub, subscriber: Subscriber) -> None:
    hub.subscribers.discard(subscriber)
    if not hub.subscribers:
        hub.leave()


def subscribers() -> int:
    """How many streams are open in this process."""
    with _lock:
        return sum(len(hub.subscribers) for hub in _hubs.values())


def _end(session_key: str | None) -> None:
    with _lock:
        hubs = list(_hubs.values())
    for hub in hubs:
        hub.call(hub.end_where, session_key)


def close_all() -> None:
    """End every stream of this process properly (shutdown); from any thread, without waiting."""
    _end(None)


sessions.ended.append(_end)


def _recheck(credentials: Credentials) -> Identity | None:
    close_old_connections()
    try:
        return who(credentials)
    finally:
        close_old_connections()


class EventStream(AsyncConsumer):  # type: ignore[misc]
    """One stream. Not AsyncHttpConsumer: that one ends with its handler, or never sees the client leave."""

    #: No channel of its own in the layer: events reach the hub through the bus.
    channel_layer_alias = ""
    heartbeat = HEARTBEAT

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._started = False
        self._failed = 0
        self._checking: asyncio.Task[None] | None = None

    async def http_request(self, message: Message) -> None:
        if self._started:
            return
        self._started = True
        given: list[tuple[bytes, bytes]] = list(self.scope["headers"])
        env = environment.current()
        origin = headers.origin_of(given)
        tls = self.scope.get("scheme") == "https"
        self._common = [*headers.security_headers(env, tls=tls), *headers.cors_headers(env, origin)]
        method = self.scope["method"]
        if method == "OPTIONS" and origin is not None:
            return await self._answer(204, b"")
        if method not in ("GET", "HEAD"):
            return await self._refuse(Refusal(405, "method not allowed", headers={"allow": "GET, HEAD"}), given)
        peer = (self.scope.get("client") or ("",))[0]
        credentials = presented(given)
        try:
            address = client_address(peer, given, env.trusted_proxies)
            check = sync_to_async(by_credentials, thread_sensitive=False)
            identity = await check(credentials, address, self.scope["path"])
        except Refusal as problem:
            return await self._refuse(problem, given)
        except DatabaseError:
            log.exception("events: credentials could not be checked")
            return await self._refuse(Refusal(500, "internal error"), given)
        self._spawn(self._stream(Subscriber(identity, credentials), given, head=method == "HEAD"))

    async def http_disconnect(self, message: Message) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        raise StopConsumer

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            log.error("events: stream failed", exc_info=problem)

    async def _stream(self, subscriber: Subscriber, given: list[tuple[bytes, bytes]], *, head: bool) -> None:
        kind = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-cache"),
            (b"connection", b"keep-alive"),
            (b"x-accel-buffering", b"no"),
        ]
        await self.send({"type": "http.response.start", "status": 200, "headers": [*kind, *self._common]})
        if head:
            await self.send({"type": "http.response.body", "body": b""})
            return
        hub = _join(subscriber)  # before the replay is read, so that nothing falls between the two
        self._arm(subscriber)
        try:
            await self._write(CONNECTED + self._replay(subscriber, given))
            while not subscriber.ended:
                await subscriber.wake.wait()
                if data := subscriber.take():
                    await self._write(data)
            await self.send({"type": "http.response.body", "body": b""})
        finally:
            self._timer.cancel()
            _part(hub, subscriber)

    async def _write(self, data: bytes) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    def _replay(self, subscriber: Subscriber, given: Iterable[tuple[bytes, bytes]]) -> bytes:
        last_id = next((value.decode("latin-1") for name, value in given if name == b"last-event-id"), "")
        if not last_id:
            return b""
        missed = events.since(last_id)
        if missed is None:
            return RESYNC
        subscriber.replayed = frozenset(event.id for event in missed)
        return b"".join(frame(event) for event in missed if may_see(subscriber.identity, event))

    def _arm(self, subscriber: Subscriber) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.heartbeat, self._tick, subscriber)

    def _tick(self, subscriber: Subscriber) -> None:
        self._arm(subscriber)
        subscriber.beat()
        if self._checking is None or self._checking.done():
            self._checking = self._spawn(self._check(subscriber))

    async def _check(self, subscriber: Subscriber) -> None:
        """Beside the stream: a slow database delays no event, and one that does not answer ends no stream."""
        try:
            identity = await sync_to_async(_recheck, thread_sensitive=False)(subscriber.credentials)
        except Exception as problem:
            log.warning("events: credentials not checked", extra={"attrs": {"reason": type(problem).__name__}})
        else:
            self._judge(subscriber, identity)

    def _judge(self, subscriber: Subscriber, identity: Identity | None) -> None:
        if identity is not None:
            subscriber.identity, self._failed = identity, 0
            return
        self._failed += 1
        if self._failed >= FAILED_CHECKS:
            subscriber.end()

    async def _refuse(self, problem: Refusal, given: Iterable[tuple[bytes, bytes]]) -> None:
        accept = next((value for name, value in given if name == b"accept"), b"")
        as_json = b"application/json" in accept
        body = msgspec.json.encode({"error": problem.text}) if as_json else problem.text.encode()
        kind = b"application/json" if as_json else b"text/plain; charset=utf-8"
        extra = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        await self._answer(problem.status, body, [(b"content-type", kind), *extra])

    async def _answer(self, status: int, body: bytes, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
        length = [(b"content-length", str(len(body)).encode())] if status != 204 else []
        own = [*length, (b"cache-control", b"no-store"), *extra, *self._common]
        await self.send({"type": "http.response.start", "status": status, "headers": own})
        await self.send({"type": "http.response.body", "body": body})
