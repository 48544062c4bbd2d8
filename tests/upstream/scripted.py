"""A server that says exactly the bytes it was told, and two clients that are asked what those bytes meant to them.

Every case has a host name of its own, so each has its own connections in one client; the server answers the request of
a case with its steps and every later request on the same connection with ``after``, naming the connection.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.upstream.httpx_client import HttpxClient
from providers.upstream.interface import Address, Request, UpstreamError
from providers.upstream.native import NativeClient
from tests.upstream.rig import LOOPS

AT_ONCE = 48
PAUSE = 0.02  # seconds between two steps, so that the client reads them apart


class End:
    """How a script goes on after its bytes; ``OPEN`` leaves the connection open for the next request."""

    OPEN = "open"
    EOF = "eof"
    RESET = "reset"


@dataclass(frozen=True)
class Script:
    """*steps* are written with a pause between them, the first *early* of them before the body is read.

    *deaf*: the body is never read. *seconds* is how long a client waits for the head, and for the end, of the answer.
    """

    steps: tuple[bytes, ...]
    end: str = End.OPEN
    early: int = 0
    deaf: bool = False
    seconds: float = 8.0


def said(*steps: bytes, end: str = End.OPEN, early: int = 0, deaf: bool = False, seconds: float = 8.0) -> Script:
    return Script(steps, end, early, deaf, seconds)


@dataclass(frozen=True)
class Seen:
    """All a caller can know of one exchange, and whether the next one was carried by the same connection."""

    status: int | None
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    fault: str
    written: bool
    then: str

    def __str__(self) -> str:
        return (
            f"{self.status} {list(self.headers)!r:.200} {self.body[:60]!r}({len(self.body)}) "
            f"{self.fault or 'whole'}{' written' if self.written else ''} then {self.then}"
        )


class ScriptedServer:
    """One listener for all cases; the case is the first label of the Host header. Use as ``async with``."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self.scripts = dict(scripts)
        self.open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self.played = {case: asyncio.Event() for case in scripts}
        self.carried: dict[str, int] = {}  # case -> the number of the connection its request came on

    async def __aenter__(self) -> "ScriptedServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=512)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, case: str) -> str:
        return f"http://{case}.test:{self.port}/v1"

    async def resolve(self, host: str, port: int) -> list[Address]:
        return [(socket.AF_INET, ("127.0.0.1", port))]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open.add(writer)
        self.accepted += 1
        number = self.accepted
        case = ""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            case = head.split("\r\nHost: ")[1].split(".test")[0]
            script = self.scripts[case]
            while True:
                if head.startswith("GET /v1/after"):
                    writer.write(self.after(number))
                else:
                    self.carried[case] = number
                    await self._play(script, _length(head), reader, writer)
                    if script.end != End.OPEN:
                        return
                    self.played[case].set()
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (
            asyncio.CancelledError,
            asyncio.IncompleteReadError,
            asyncio.LimitOverrunError,
            OSError,
            RuntimeError,
        ):  # uvloop says RuntimeError for a transport that is closed
            pass
        finally:
            self.open.discard(writer)
            writer.close()
            if case in self.carried:
                self.played[case].set()
            self._tasks.discard(task)

    @staticmethod
    def after(number: int) -> bytes:
        text = b"connection %d" % number
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)

    async def _play(
        self, script: Script, length: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for at, step in enumerate((*script.steps, b"")):
            if at == script.early and not script.deaf:
                await reader.readexactly(length)
            if 0 < at < len(script.steps):
                await asyncio.sleep(PAUSE)
            writer.write(step)
            await writer.drain()
        if script.end == End.RESET:
            await asyncio.sleep(PAUSE * 2)  # what was written shall arrive before the reset
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


def _length(head: str) -> int:
    for line in head.split("\r\n"):
        if line.lower().startswith("content-length:"):
            return int(line.split(":")[1])
    return 0


# ---------------------------------------------------------------- the clients


async def ask(client: Any, server: ScriptedServer, case: str, request: Request, *, whole: bool) -> Seen:
    """One exchange of *case*, by ``read`` or chunk by chunk, and a second one on the same origin."""
    seconds = server.scripts[case].seconds
    now = asyncio.get_running_loop().time()
    status, headers, body, fault, written = None, (), b"", "", False
    response = None
    try:
        response = await client.send(request, deadline=now + 2 * seconds, header_timeout=seconds)
        status, headers = response.status, _exposed(response)
        if whole:
            body = await response.read(1 << 24)
        else:
            while data := await response.chunk():
                body += data
    except UpstreamError as problem:
        fault, written = str(problem.kind), problem.request_written
        body = body or problem.partial
    finally:
        if response is not None:
            response.close()
    async with asyncio.timeout(10):
        await server.played[case].wait()
    await asyncio.sleep(PAUSE * 2)  # junk behind the answer, and the end of the connection, have arrived by then
    return Seen(status, headers, body, fault, written, await _next(client, server, case))


async def _next(client: Any, server: ScriptedServer, case: str) -> str:
    """How the next request on the same origin fares."""
    request = Request("GET", server.url(case) + "/after", [])
    try:
        response = await client.send(request, deadline=asyncio.get_running_loop().time() + 9, header_timeout=9)
        text = await response.read(100)
    except UpstreamError as problem:
        return f"fault {problem.kind}"
    if not text.startswith(b"connection "):
        return f"wrong {text!r}"
    return "same" if int(text.split()[1]) == server.carried.get(case) else "new"


def _exposed(response: Any) -> tuple[tuple[bytes, bytes], ...]:
    """The headers; h11 lower-cases the coding, which nobody reads."""
    return tuple((k, v.lower() if k == b"transfer-encoding" else v) for k, v in response.headers)


def ask_all(
    make: Any,
    scripts: Mapping[str, Script],
    *,
    method: str = "POST",
    body: bytes = b"{}",
    whole: bool = False,
    warm: bool = False,
    loop: str = "asyncio",
) -> dict[str, Seen]:
    """What one client makes of every script; *warm*: on a connection that was used before.

    Afterwards no task and no connection of the client is left.
    """
    names = {f"c{n}": case for n, case in enumerate(scripts)}
    forgotten: list[dict[str, Any]] = []

    async def work() -> dict[str, Seen]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context))
        async with ScriptedServer({name: scripts[case] for name, case in names.items()}) as server:
            client = make(server)
            gate = asyncio.Semaphore(AT_ONCE)

            async def one(name: str) -> Seen:
                async with gate:
                    if warm:
                        await _next(client, server, name)
                    request = Request(method, server.url(name), [], body if method == "POST" else b"")
                    try:
                        return await ask(client, server, name, request, whole=whole)
                    except Exception as problem:
                        problem.add_note(f"case {names[name]!r}")
                        raise

            try:
                found = await asyncio.gather(*map(one, names))
            finally:
                await client.aclose()
            if isinstance(client, NativeClient):
                assert not client._pool.live and not client._pool.resting
            return dict(zip(scripts, found, strict=True))

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        found = runner.run(asyncio.wait_for(work(), 28))
    assert not forgotten, forgotten
    return found


def differences(scripts: Mapping[str, Script], **more: Any) -> dict[str, tuple[Seen, Seen]]:
    """Cases in which the two clients do not see the same: (native, httpx)."""
    ours, theirs = ask_all(NativeClient, scripts, **more), ask_all(HttpxClient, scripts, **more)
    return {case: (ours[case], theirs[case]) for case in scripts if ours[case] != theirs[case]}


def told(found: Mapping[str, tuple[Seen, Seen]], limit: int = 12) -> str:
    lines = [f"{case}\n  native {ours}\n  httpx  {theirs}" for case, (ours, theirs) in found.items()]
    return f"{len(found)} differ\n" + "\n".join(lines[:limit])
