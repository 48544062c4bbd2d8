"""The first thing a request meets: which plane it belongs to, and whether the process still takes it.

``/v1`` and ``/p`` go to the data plane untouched; ``/health`` and ``/healthz`` are answered here; ``/metrics`` is, like
them, answered to the end; ``/api/events`` is a stream that a stop ends first; the rest is Django behind the limit on
body sizes. Everything in flight is counted, so that a stop can wait for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from modelhotel.ops.asgi_types import App, Message, Receive, Scope, Send
from modelhotel.ops.cycle import DIRECT
from modelhotel.ops.health import DRAINING, OK, Health
from proxy.dialects.messages import errors

Header = tuple[bytes, bytes]
#: The headers that every answer to a request carries.
Headers = Callable[[Scope], Sequence[Header]]
TOO_LARGE = b"request body too large"
#: How long the rest of a refused body is read and thrown away, so that the sender gets to read the answer.
_LINGER = 2.0
log = logging.getLogger("front")


def _none(scope: Scope) -> Sequence[Header]:
    return ()


def _task_of(scope: Scope) -> asyncio.Task[object]:
    """The task that runs the request. Our own server knows it; asking asyncio costs a system call."""
    extensions = scope.get("extensions")
    cycle = extensions.get(DIRECT) if extensions else None
    task = cycle.task if cycle is not None else asyncio.current_task()
    assert task is not None
    return task


class _TooLarge(Exception):
    """Raised out of ``receive``; no application of ours catches it."""


async def plain(send: Send, status: int, text: bytes, headers: Sequence[Header] = ()) -> None:
    await whole(send, status, text, b"text/plain; charset=utf-8", headers)


def worded(scope: Scope, text: bytes) -> tuple[bytes, bytes]:
    """Body and content type of a refusal: the one line, or JSON where the caller of /api accepts it."""
    accepts = b",".join(value for name, value in scope["headers"] if name == b"accept")
    if scope["path"].startswith("/api/") and b"application/json" in accepts:
        return msgspec.json.encode({"error": text.decode()}), b"application/json"
    return text, b"text/plain; charset=utf-8"


async def whole(send: Send, status: int, body: bytes, kind: bytes, headers: Sequence[Header] = ()) -> None:
    own = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})


class EventStreams:
    """Wraps the application of ``/api/events`` so that a stop can end every stream properly."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._open: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ended = asyncio.Event()
        started = finished = False

        async def watched_receive() -> Message:
            client = asyncio.ensure_future(receive())
            stop = asyncio.ensure_future(ended.wait())
            try:
                await asyncio.wait((client, stop), return_when=asyncio.FIRST_COMPLETED)
                return client.result() if client.done() else {"type": "http.disconnect"}
            finally:
                client.cancel()
                stop.cancel()

        async def watched_send(message: Message) -> None:
            nonlocal started, finished
            started = started or message["type"] == "http.response.start"
            finished = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        self._open.add(ended)
        try:
            await self._app(scope, watched_receive, watched_send)
        finally:
            self._open.discard(ended)
        if ended.is_set() and started and not finished:
            await send({"type": "http.response.body", "body": b""})

    def end_all(self) -> None:
        for ended in list(self._open):
            ended.set()


class BodyLimit:
    """Answers 413 for a body of more than *limit* bytes, announced or not, before it is read whole."""

    def __init__(self, app: App, limit: int, headers: Headers = _none) -> None:
        self._app = app
        self._limit = limit
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = 0
        more = True

        async def counted() -> Message:
            nonlocal read, more
            message = await receive()
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                more = message.get("more_body", False)
                if read > self._limit:
                    raise _TooLarge
            else:
                more = False
            return message

        if self._announced(scope) > self._limit:
            return await self._refuse(scope, receive, send, more)
        try:
            await self._app(scope, counted, send)
        except _TooLarge:
            await self._refuse(scope, receive, send, more)

    @staticmethod
    def _announced(scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                return int(value)
        return 0

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, more: bool) -> None:
        body, kind = worded(scope, TOO_LARGE)
        headers = [
            (b"content-type", kind),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
            *self._headers(scope),
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        try:
            async with asyncio.timeout(_LINGER):
                while more:
                    message = await receive()
                    more = message["type"] == "http.request" and message.get("more_body", False)
        except TimeoutError:
            pass
        await send({"type": "http.response.body", "body": b""})


class Front:
    """*data* serves everything under /v1 and /p, *events* /api/events, *metrics* /metrics, *control* the rest."""

    def __init__(
        self,
        data: App,
        events: EventStreams,
        control: App,
        health: Health,
        lifespan: "Lifespan",
        headers: Headers = _none,
        metrics: App | None = None,
    ) -> None:
        self._data = data
        self._metrics = metrics or control
        self.events = events
        self._control = control
        self.health = health
        self._lifespan = lifespan
        self._headers = headers
        self.refusing = False
        self.running: set[asyncio.Task[object]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["path"]
            if not (path.startswith("/v1/") or path == "/v1"):
                return await self._other(path, scope, receive, send)
            if self.refusing:
                return await self._refuse(scope, send)
            # As ``_counted`` does; every coroutine that a request waits in costs it something.
            task = _task_of(scope)
            self.running.add(task)
            try:
                return await self._data(scope, receive, send)
            finally:
                self.running.discard(task)
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _counted(self, app: App, scope: Scope, receive: Receive, send: Send) -> None:
        if self.refusing:
            return await self._refuse(scope, send)
        task = _task_of(scope)
        self.running.add(task)
        try:
            await app(scope, receive, send)
        finally:
            self.running.discard(task)

    async def _other(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if path in ("/health", "/healthz"):
            return await self._answer_health(scope, send)
        if path in ("/api/events", "/api/events/"):
            if self.refusing:
                return await self._refuse(scope, send)
            return await self.events(scope, receive, send)
        if path in ("/metrics", "/metrics/"):
            return await self._metrics(scope, receive, send)
        if path.startswith("/p/") or path == "/p":
            return await self._counted(self._data, scope, receive, send)
        await self._counted(self._control, scope, receive, send)

    async def _answer_health(self, scope: Scope, send: Send) -> None:
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            return await plain(send, 405, b"method not allowed", [(b"allow", b"GET, HEAD"), *self._headers(scope)])
        verdict = OK if path == "/healthz" else await self.health.readiness()
        log.debug("front: health asked", extra={"attrs": {"path": path, "answer": verdict}})
        extra = [(b"cache-control", b"no-store"), *self._headers(scope)]
        await plain(send, 200 if verdict == OK else 503, verdict.encode(), extra)

    async def _refuse(self, scope: Scope, send: Send) -> None:
        extra = [(b"connection", b"close"), (b"retry-after", b"1"), *self._headers(scope)]
        if not scope["path"].startswith(("/v1", "/p/")):
            return await whole(send, 503, *worded(scope, DRAINING.encode()), extra)
        error = {"message": DRAINING, "type": "server_error", "param": None, "code": None}
        body = msgspec.json.encode({"error": error})
        if scope["path"].startswith("/v1/messages"):
            body = errors.dress(503, body)
        await whole(send, 503, body, b"application/json", extra)


class Lifespan:
    """Runs *start* and *stop* (blocking) on the server's lifespan messages; a start that fails stops the server.

    *close* runs before *stop*, in the event loop: what the loop itself holds open (upstream connections).
    """

    def __init__(
        self, start: Callable[[], None], stop: Callable[[], None], close: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._start = start
        self._stop = stop
        self._close = close

    async def __call__(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._run(self._start, "lifespan.startup", send)
            elif message["type"] == "lifespan.shutdown":
                if self._close is not None:
                    await self._close()
                return await self._run(self._stop, "lifespan.shutdown", send)

    @staticmethod
    async def _run(work: Callable[[], None], kind: str, send: Send) -> None:
        try:
            await asyncio.to_thread(work)
        except Exception as problem:
            log.exception("front: %s failed", kind)
            await send({"type": f"{kind}.failed", "message": str(problem)})
        else:
            await send({"type": f"{kind}.complete"})


async def idle(running: Callable[[], int], seconds: float, pause: Callable[[float], Awaitable[None]]) -> bool:
    """Wait until nothing runs, at most *seconds*; True when nothing does."""
    step = 0.02
    for _ in range(max(round(seconds / step), 1)):
        if not running():
            return True
        await pause(step)
    return not running()
