"""Clients for long and rough runs: one request per connection on bare asyncio, with the moment of every piece."""

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.upstream.behaviours import Behaviour, Wire
from tests.upstream.spoken import PROMPT

DEADLINE = 90.0  # seconds; no call outlives a test


@dataclass
class Reply:
    """What one client saw. *at* has the monotonic moment of each piece of the body; *error* is empty when it ended."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    began: float = field(default_factory=time.monotonic)
    at: list[float] = field(default_factory=list)
    error: str = ""
    left: bool = False

    @property
    def id(self) -> str:
        """The ``request_hash`` of its row."""
        return self.headers.get("x-request-id", "")

    @property
    def events(self) -> list[str]:
        """The data of its server-sent events."""
        parts = self.body.decode().split("\n\n")
        return [part[6:] for part in parts if part.startswith("data: ")]

    @property
    def text(self) -> str:
        """The content, streamed or not."""
        if "event-stream" not in self.headers.get("content-type", ""):
            return str(json.loads(self.body)["choices"][0]["message"]["content"])
        frames = [json.loads(event) for event in self.events if event != "[DONE]"]
        deltas = [choice["delta"] for frame in frames for choice in frame.get("choices", ())]
        return "".join(delta.get("content") or "" for delta in deltas)

    @property
    def whole(self) -> bool:
        return self.status == 200 and not self.error and self.events[-1:] == ["[DONE]"]

    @property
    def longest_gap(self) -> float:
        """Seconds between two pieces, the first one counted from the sending of the request."""
        moments = [self.began, *self.at]
        return max((later - earlier for earlier, later in itertools.pairwise(moments)), default=0.0)


def either(streamed: Behaviour, plain: Behaviour) -> Behaviour:
    """What a provider does with a request for a stream, and with any other."""

    async def behave(wire: Wire) -> None:
        await (streamed if wire.request.streaming else plain)(wire)

    return behave


async def call(
    url: str,
    key: str,
    *,
    model: str,
    stream: bool = True,
    leave_after: int | None = None,
    started: Callable[[], object] = lambda: None,
    content: str = PROMPT,
) -> Reply:
    """One chat call. *leave_after* pieces the client hangs up (0: before the headers); *started* at the first piece."""
    reply = Reply()
    body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": content}]}).encode()
    place = urlsplit(url)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer = None
    try:
        async with asyncio.timeout(DEADLINE):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(head.encode() + body)
            if leave_after == 0:
                await asyncio.sleep(0.02)  # the request shall have arrived
                reply.left = True
            else:
                await _read(reader, reply, leave_after, started)
    except (OSError, asyncio.IncompleteReadError, TimeoutError, ValueError) as problem:
        reply.error = type(problem).__name__
    finally:
        if writer is not None:
            writer.transport.abort() if reply.left else writer.close()
    return reply


async def _read(
    reader: asyncio.StreamReader, reply: Reply, leave_after: int | None, started: Callable[[], object]
) -> None:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    reply.status = int(first.split()[1])
    for line in lines:
        name, _, value = line.partition(":")
        reply.headers[name.lower()] = value.strip()
    pieces: list[bytes] = []

    def take(piece: bytes) -> bool:
        pieces.append(piece)
        reply.at.append(time.monotonic())
        if len(pieces) == 1:
            started()
        reply.left = leave_after is not None and len(pieces) >= leave_after
        return not reply.left

    try:
        if reply.headers.get("transfer-encoding") == "chunked":
            while (size := int(await reader.readline(), 16)) and take((await reader.readexactly(size + 2))[:-2]):
                pass
        else:
            take(await reader.readexactly(int(reply.headers.get("content-length", "0"))))
    finally:
        reply.body = b"".join(pieces)


class Clients:
    """An event loop in a thread of its own: calls run while the test does something else."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = DEADLINE + 5) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def begin_work(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def begin(self, count: int, url: str, key: str, **options: Any) -> "Running":
        return Running(self, count, lambda started: call(url, key, started=started, **options))

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


class Running:
    """*count* calls that run; ``flowing`` waits until each has its first piece, ``done`` until each is over."""

    def __init__(
        self, clients: Clients, count: int, make: Callable[[Callable[[], object]], Coroutine[Any, Any, Reply]]
    ):
        self._flowing = threading.Semaphore(0)
        self._count = count
        self._futures = [clients.begin_work(make(self._flowing.release)) for _ in range(count)]

    def flowing(self, seconds: float = 15.0) -> "Running":
        end = time.monotonic() + seconds
        for number in range(self._count):
            assert self._flowing.acquire(timeout=max(end - time.monotonic(), 0.01)), f"only {number} streams began"
        return self

    def done(self, seconds: float = DEADLINE + 5) -> list[Reply]:
        end = time.monotonic() + seconds
        return [future.result(max(end - time.monotonic(), 0.01)) for future in self._futures]
