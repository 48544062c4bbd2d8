"""A scripted fake provider: a real server on loopback, in a thread with its own event loop.

    from tests.upstream.server import FakeProvider, answer, status, stream

    with FakeProvider(models=["glm-4.6"]) as p:
        p.script(status(500), answer("hi"))   # first call, second call; the last behaviour stays for all later ones
        ...                                   # the code under test talks to p.url, "http://127.0.0.1:PORT/v1"
        assert [call.json["model"] for call in p.calls] == ["glm-4.6", "glm-4.6"]
        assert p.calls[0].headers["authorization"] == "Bearer sk-1"
        p.refuse()                            # connects are refused from now on; p.listen() ends it
        p.script(cut_after(3), model="other")  # a script of one model only

``GET .../models`` answers an OpenAI listing of ``p.models`` (ids, or whole objects). ``face="ollama"``, ``"lmstudio"``
and ``"koboldcpp"`` add the native endpoints of those servers. ``p.route("GET", "/x", behaviour)`` answers any other
path. Waits from a synchronous test: ``p.wait_calls(2)``, ``p.wait_disconnects(1)``; from an asynchronous one:
``await p.until(lambda: p.disconnects == 1)``. All behaviours are in ``tests/upstream/behaviours.py`` and importable
from here.
"""

import asyncio
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any
from urllib.parse import unquote

from tests.upstream import behaviours
from tests.upstream.behaviours import (
    AUTO,
    DONE,
    Behaviour,
    ClientLeft,
    Hold,
    Recorded,
    Wire,
    after,
    answer,
    completion,
    cut_after,
    delta,
    embedding,
    empty_choices,
    empty_stream,
    error_after,
    events,
    first_event_error,
    gzip,
    half_json,
    hang_up,
    headers_then_silence,
    html,
    http_chunk,
    no_content,
    no_vectors,
    pieces,
    raw,
    redirect,
    reply,
    reset,
    silence,
    sse,
    stall_after,
    status,
    stream,
    tools_stream,
    usage_chunk,
    vectors,
    wrong_length,
)
from tests.upstream.media import passed_events, picture, scores, silent_body, sound, transcript
from tests.upstream.spoken import HEARD

__all__ = [
    "AUTO",
    "DONE",
    "Behaviour",
    "FakeProvider",
    "Hold",
    "Recorded",
    "Unreachable",
    "Wire",
    "after",
    "answer",
    "completion",
    "cut_after",
    "delta",
    "embedding",
    "empty_choices",
    "empty_stream",
    "error_after",
    "events",
    "first_event_error",
    "gzip",
    "half_json",
    "hang_up",
    "headers_then_silence",
    "html",
    "http_chunk",
    "no_content",
    "no_vectors",
    "passed_events",
    "picture",
    "pieces",
    "raw",
    "redirect",
    "reply",
    "reset",
    "scores",
    "silence",
    "silent_body",
    "sound",
    "sse",
    "stall_after",
    "status",
    "stream",
    "tools_stream",
    "transcript",
    "usage_chunk",
    "vectors",
    "wrong_length",
]

ASKING = (
    "/chat/completions",
    "/embeddings",
    "/messages",
    "/responses",
    ":generateContent",
    ":streamGenerateContent",
    *behaviours.BY_PATH,
)  # the ends of the paths that scripts answer
WAIT = 10.0  # seconds; every wait of this module ends by then


class _Connection(asyncio.Protocol):
    """One client connection: parses requests, runs one behaviour at a time."""

    def __init__(self, owner: "FakeProvider") -> None:
        self.owner = owner
        self.buffer = bytearray()
        self.arrived = asyncio.Event()
        self.ended = False
        self.wire: Wire | None = None
        self.number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.number = self.owner._opened(self)
        self.task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.arrived.set()

    def eof_received(self) -> bool:
        self._left()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._left()
        self.owner._closed(self)

    def pause_writing(self) -> None:
        if self.wire:
            self.wire.room.clear()

    def resume_writing(self) -> None:
        if self.wire:
            self.wire.room.set()

    def _left(self) -> None:
        self.ended = True
        self.arrived.set()
        if self.wire:
            self.wire.gone.set()
            self.wire.room.set()

    async def _more(self) -> bool:
        if self.ended:
            return False
        self.arrived.clear()
        await self.arrived.wait()
        return True

    async def _request(self) -> Recorded | None:
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            if not await self._more():
                return None
        first, *lines = bytes(self.buffer[:end]).split(b"\r\n")
        del self.buffer[: end + 4]
        fields = [(name.strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        headers: dict[str, str] = {}
        for name, value in fields:
            headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        body = await self._body(headers)
        if body is None:
            return None
        method, target = first.decode("latin-1").split(" ")[:2]
        path = unquote(target.split("?")[0])
        return Recorded(method, path, headers, fields, body, time.monotonic(), self.number, target=target)

    async def _body(self, headers: dict[str, str]) -> bytes | None:
        if "chunked" in headers.get("transfer-encoding", ""):
            out = b""
            while True:
                line = await self._take_line()
                size = int(line, 16) if line else 0
                data = await self._take(size + 2)
                if data is None:
                    return None
                if size == 0:
                    return out
                out += data[:-2]
        return await self._take(int(headers.get("content-length", "0")))

    async def _take_line(self) -> bytes | None:
        while (end := self.buffer.find(b"\r\n")) < 0:
            if not await self._more():
                return None
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    async def _take(self, size: int) -> bytes | None:
        while len(self.buffer) < size:
            if not await self._more():
                return None
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    async def _serve(self) -> None:
        try:
            while (request := await self._request()) is not None:
                asked = request.method == "POST"  # else a listing
                if asked:
                    HEARD.request(request.body, request.headers.get("content-type", ""))
                self.wire = wire = Wire(self.transport, request)
                if self.ended:
                    wire.gone.set()
                try:
                    await self.owner._behaviour(request)(wire)
                except ClientLeft:
                    self.owner._disconnected(request)
                    return
                finally:
                    self.wire = None
                    if asked:
                        HEARD.answer(bytes(wire.written))
                    self.owner._done(request)
                if wire.close_after or self.transport.is_closing():
                    return
        except Exception as problem:
            self.owner.problems.append(problem)
        finally:
            self.transport.close()


class FakeProvider:
    """See the module's docstring. Thread-safe towards the test; *tls* is a server-side SSL context."""

    def __init__(
        self,
        models: Iterable[str | dict[str, Any]] = ("glm-4.6", "gpt-oss-120b"),
        *,
        face: str = "openai",
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.models: list[str | dict[str, Any]] = list(models)
        self.face = face
        self.host = host
        self._tls = tls
        self._change = threading.Condition()
        self._requests: list[Recorded] = []
        self._scripts: dict[str | None, deque[Behaviour]] = {None: deque([answer()])}
        self._routes: dict[tuple[str, str], Behaviour] = {}
        self._live: set[_Connection] = set()
        self._listener: socket.socket | None = None
        self._admitting: set[asyncio.Task[None]] = set()
        self.accepted = 0  # connections ever accepted
        self.disconnects = 0  # exchanges the client left before they were over
        self.problems: list[Exception] = []  # what went wrong inside the fake itself; fails the test

    # ------------------------------------------------------------ life

    def __enter__(self) -> "FakeProvider":
        # Bound and never listening: it keeps the port ours while connects are refused.
        self._reserve = self._bound(0)
        self.port: int = self._reserve.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"fake-{self.port}", daemon=True)
        self._thread.start()
        self.listen()
        return self

    def __exit__(self, *exc: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT)
        self._loop.close()
        self._reserve.close()
        assert not self.problems, self.problems

    def _bound(self, port: int) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self.host, port))
        return sock

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT)

    async def _start(self) -> None:
        # Not create_server: on Python 3.11 closing it loses a connection that is just being accepted.
        if self._listener is None:
            listener = self._listener = self._bound(self.port)
            listener.listen(1024)
            listener.setblocking(False)
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # gone again
            return
        task = asyncio.get_running_loop().create_task(self._admit(sock))
        self._admitting.add(task)
        task.add_done_callback(self._admitting.discard)

    async def _admit(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: _Connection(self), sock, ssl=self._tls)
        except BaseException as problem:
            sock.close()
            if not isinstance(problem, OSError):  # else the client broke the handshake off
                raise

    async def _refuse(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        if self._admitting:
            await asyncio.wait(self._admitting, timeout=0.5)
        for task in list(self._admitting):  # a handshake that does not end
            task.cancel()
        await asyncio.gather(*self._admitting, return_exceptions=True)
        await self._drop()

    async def _drop(self) -> None:
        live = list(self._live)
        for connection in live:
            connection.transport.abort()
        await asyncio.wait_for(asyncio.gather(*(c.task for c in live), return_exceptions=True), WAIT)

    async def _stop(self) -> None:
        await self._refuse()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.005)  # closed transports tell in the next turns

    # ------------------------------------------------------------ what the test scripts

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    @property
    def origin(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    def script(self, *steps: Behaviour, model: str | None = None) -> None:
        """One behaviour per call for an answer, in order; the last one stays. *model*: for that model only."""
        assert steps
        with self._change:
            self._scripts[model] = deque(steps)

    def route(self, method: str, path: str, behaviour: Behaviour) -> None:
        """Answer one exact path (without query) this way."""
        with self._change:
            self._routes[method, path] = behaviour

    def refuse(self) -> None:
        """Drop every connection and refuse new ones."""
        self._call(self._refuse())

    def listen(self) -> None:
        self._call(self._start())

    def drop_connections(self) -> None:
        """Close every open connection, idle ones included, and go on listening."""
        self._call(self._drop())

    def forget(self) -> None:
        """Empty the records; scripts stay."""
        with self._change:
            self._requests.clear()
            self.disconnects = 0

    # ------------------------------------------------------------ what the test asks

    @property
    def requests(self) -> list[Recorded]:
        with self._change:
            return list(self._requests)

    @property
    def calls(self) -> list[Recorded]:
        """Calls that ask a model for something only."""
        return [request for request in self.requests if request.path.endswith(ASKING)]

    @property
    def connections(self) -> int:
        """Connections open now."""
        with self._change:
            return len(self._live)

    def wait_for(self, condition: Callable[[], bool], timeout: float = WAIT) -> None:
        """Block until *condition* holds. Raises AssertionError after *timeout* seconds."""
        end = time.monotonic() + timeout
        while not condition():
            left = end - time.monotonic()
            assert left > 0, f"not within {timeout} s; requests: {[(r.method, r.path) for r in self.requests]}"
            with self._change:
                self._change.wait(min(left, 0.02))

    def wait_calls(self, count: int, timeout: float = WAIT) -> list[Recorded]:
        self.wait_for(lambda: len(self.calls) >= count, timeout)
        return self.calls

    def wait_disconnects(self, count: int, timeout: float = WAIT) -> None:
        self.wait_for(lambda: self.disconnects >= count, timeout)

    async def until(self, condition: Callable[[], bool], timeout: float = WAIT) -> None:
        """``wait_for`` for an asynchronous test."""
        end = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < end, f"not within {timeout} s"
            await asyncio.sleep(0.005)

    # ------------------------------------------------------------ called by connections, in the server's thread

    def _opened(self, connection: _Connection) -> int:
        with self._change:
            self._live.add(connection)
            self.accepted += 1
            self._change.notify_all()
            return self.accepted

    def _closed(self, connection: _Connection) -> None:
        with self._change:
            self._live.discard(connection)
            self._change.notify_all()

    def _disconnected(self, request: Recorded) -> None:
        with self._change:
            request.disconnected = True
            self.disconnects += 1
            self._change.notify_all()

    def _done(self, request: Recorded) -> None:
        with self._change:
            request.done = True
            self._change.notify_all()

    def _behaviour(self, request: Recorded) -> Behaviour:
        with self._change:
            self._requests.append(request)
            self._change.notify_all()
            if (route := self._routes.get((request.method, request.path))) is not None:
                return route
            if request.method == "POST" and request.path.endswith(ASKING):
                script = self._scripts.get(request.model) or self._scripts[None]
                return script.popleft() if len(script) > 1 else script[0]
            models = list(self.models)
        return _native(self.face, request, models) or _openai(request, models) or _unknown(self.face)


# ---------------------------------------------------------------- faces


def _openai(request: Recorded, models: list[str | dict[str, Any]]) -> Behaviour | None:
    if request.method != "GET" or not request.path.endswith("/models"):
        return None
    data = [
        m if isinstance(m, dict) else {"id": m, "object": "model", "created": 1700000000, "owned_by": "fake"}
        for m in models
    ]
    return reply(200, {"object": "list", "data": data})


def _name(model: str | dict[str, Any]) -> str:
    return model if isinstance(model, str) else str(model.get("name") or model["id"])


def _native(face: str, request: Recorded, models: list[str | dict[str, Any]]) -> Behaviour | None:
    asked = (face, request.method, request.path)
    if asked == ("ollama", "GET", "/api/tags"):
        tags = [
            {"name": _name(m), "model": _name(m), "details": {"family": "llama"}, **(m if isinstance(m, dict) else {})}
            for m in models
        ]
        return reply(200, {"models": tags})
    if asked == ("ollama", "POST", "/api/show"):
        wanted = request.json.get("model")
        found = next((m for m in models if _name(m) == wanted), None)
        if found is None:
            return reply(404, {"error": f"model '{wanted}' not found"})
        show = found.get("show") if isinstance(found, dict) else None
        default = {
            "capabilities": ["completion", "tools"],
            "details": {"family": "llama"},
            "model_info": {"general.architecture": "llama", "llama.context_length": 131072},
        }
        return reply(200, show or default)
    if asked == ("lmstudio", "GET", "/api/v0/models"):
        rows = [
            m
            if isinstance(m, dict)
            else {"id": m, "object": "model", "type": "llm", "publisher": "fake", "max_context_length": 32768}
            for m in models
        ]
        return reply(200, {"object": "list", "data": rows})
    if asked == ("koboldcpp", "GET", "/api/extra/version"):
        return reply(200, {"result": "KoboldCpp", "version": "1.99"})
    return None


def _unknown(face: str) -> Behaviour:
    if face == "lmstudio":
        return reply(200, {"error": "Unexpected endpoint or method."})
    return behaviours.status(404, {"error": {"message": "not found", "type": "invalid_request_error"}})


class Unreachable:
    """A port whose connects neither succeed nor fail: the accept queue is full, so SYNs are dropped (Linux)."""

    def __enter__(self) -> "Unreachable":
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._fill: list[socket.socket] = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", self.port))
            self._fill.append(sock)
        time.sleep(0.05)
        return self

    def __exit__(self, *exc: object) -> None:
        for sock in (*self._fill, self._listener):
            sock.close()
