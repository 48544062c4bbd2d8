"""Cancelled at every await: nothing is left open, nothing runs on, and the next request gets its own answer.

Each way of using a client is run again and again, cancelled at its first suspension, its second, and so on until it
runs through. *early* cancels what is waited for, *late* cancels when it has just come, *twice* cancels the clearing up
as well.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from providers.upstream.httpx_client import HttpxClient
from providers.upstream.interface import Request
from providers.upstream.native import NativeClient
from providers.upstream.proxies import Proxies
from tests.upstream import rig
from tests.upstream.behaviours import head
from tests.upstream.rig import CancelAt, FixedResolver, run, send
from tests.upstream.server import FakeProvider, Wire, http_chunk

pytestmark = pytest.mark.slow

HOST = "api.example.test"
LARGE = b"x" * (6 << 20)
MODES: dict[str, dict[str, Any]] = {"early": {}, "late": {"late": True}, "twice": {"times": 2}}


async def echo(wire: Wire) -> None:
    """A stream of three chunks that names the request it answers."""
    token = wire.request.headers["x-token"].encode()
    await wire.write(head(200, [("Transfer-Encoding", "chunked")]))
    for piece in (b"for ", token, b"."):
        await wire.sleep(0.003)
        await wire.write(http_chunk(piece))
    await wire.write(b"0\r\n\r\n")


async def at_once(wire: Wire) -> None:
    body = b"for %b." % wire.request.headers["x-token"].encode()
    await wire.write(head(200, [("Content-Length", str(len(body)))]) + body)


async def hesitant(wire: Wire) -> None:
    """Two interim answers, then half a head, then the rest."""
    await wire.write(head(103, [("Link", "a")]))
    await wire.sleep(0.003)
    await wire.write(head(100, []))
    body = b"for %b." % wire.request.headers["x-token"].encode()
    whole = head(200, [("Content-Length", str(len(body)))]) + body
    await wire.sleep(0.003)
    await wire.write(whole[:20])
    await wire.sleep(0.003)
    await wire.write(whole[20:])


class Scene:
    """A client, its upstream and what one request through it looks like."""

    def __init__(self, client: Any, provider: FakeProvider, url: str) -> None:
        self.client, self.provider, self.url = client, provider, url
        self.others: list[asyncio.Future[None]] = []
        self._count = 0

    def request(self, body: bytes = b"{}") -> tuple[Request, bytes]:
        self._count += 1
        token = b"request %d" % self._count
        return Request("POST", self.url, [(b"x-token", token)], body), b"for %b." % token

    async def read(self, body: bytes = b"{}") -> None:
        request, expected = self.request(body)
        response = await send(self.client, request, seconds=15)
        assert await response.read(1 << 20) == expected

    async def chunks(self) -> None:
        request, expected = self.request()
        response = await send(self.client, request, seconds=15)
        got = b""
        while data := await response.chunk():
            got += data
        assert got == expected

    async def upload(self) -> None:
        await self.read(LARGE)

    async def twice(self) -> None:
        """The second request takes the connection of the first."""
        await self.read()
        await self.chunks()

    async def beside(self) -> None:
        """Two others run at the same time, and are not cancelled."""
        self.others = [asyncio.ensure_future(self.chunks()) for _ in range(2)]
        await self.chunks()

    async def closed(self) -> None:
        """The response is closed in the middle."""
        request, expected = self.request()
        response = await send(self.client, request, seconds=15)
        assert expected.startswith(await response.chunk())
        response.close()

    async def aclose(self) -> None:
        """A request runs while the client is closed."""
        request, _ = self.request()
        response = await send(self.client, request, seconds=15)
        await response.chunk()
        await self.client.aclose()


WAYS: dict[str, tuple[str, Callable[[Wire], Awaitable[None]]]] = {
    "read": ("plain", at_once),
    "chunks": ("plain", echo),
    "upload": ("plain", at_once),
    "twice": ("plain", echo),
    "beside": ("plain", echo),
    "closed": ("plain", echo),
    "aclose": ("plain", echo),
    "hesitant head": ("plain", hesitant),
    "two addresses": ("two addresses", at_once),
    "tls": ("tls", echo),
    "tls upload": ("tls", at_once),
    "tls twice": ("tls", echo),
    "tunnel": ("tunnel", echo),
    "tunnel twice": ("tunnel", echo),
}


def work_of(scene: Scene, way: str) -> Awaitable[None]:
    name = way.split()[-1]
    works = {"hesitant head": scene.read, "two addresses": scene.read, "tls": scene.chunks, "tunnel": scene.chunks}
    return (works.get(way) or getattr(scene, name))()


async def until(condition: Callable[[], bool], what: str) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError(what)


async def _await(work: Any) -> Any:
    return await work


async def every_step(scene: Scene, way: str, mode: dict[str, Any], rested: Callable[[], Awaitable[None]]) -> int:
    """Cancel at the 1st, 2nd, ... suspension until it runs through; the number of suspensions."""
    step = 0
    while True:
        step += 1
        walk = CancelAt(work_of(scene, way), step, **mode)
        try:
            await asyncio.ensure_future(_await(walk))
        except asyncio.CancelledError:
            assert walk.steps >= step
        await asyncio.gather(*scene.others)
        if walk.steps < step:
            return step - 1
        await scene.read()
        await rested()


def check(make: Any, loop: str, way: str, mode: dict[str, Any], directory: Path) -> int:
    where, behaviour = WAYS[way]
    server, trusting = rig.certificate(directory, HOST)
    secure = where in ("tls", "tunnel")
    complaints: list[dict[str, Any]] = []
    with FakeProvider(tls=server if secure else None) as p, FakeProvider() as dead:
        dead.refuse()
        p.route("POST", "/v1", behaviour)
        addresses = [("127.0.0.1", p.port)]
        if where == "two addresses":
            addresses = [("127.0.0.1", dead.port), *addresses]
        url = f"{'https' if secure else 'http'}://{HOST}:{p.port}/v1"

        async def work() -> int:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
            async with rig.TunnelProxy() as proxy:
                proxies = Proxies({"HTTPS_PROXY": proxy.url} if where == "tunnel" else {})
                client = make(FixedResolver({HOST: addresses}), proxies=proxies, tls=trusting)
                scene = Scene(client, p, url)
                before = rig.open_files()

                async def rested() -> None:
                    if isinstance(client, NativeClient):
                        await until(lambda: client._pool.live == set(client._pool.resting), "a connection is in use")
                        assert len(client._pool.resting) <= 3
                    await client.aclose()
                    await until(lambda: p.connections == 0, "the upstream still has a connection")
                    await until(lambda: not proxy._tasks, "the proxy still has a connection")
                    await until(lambda: rig.open_files() <= before, "a file is open")
                    await rig.nothing_runs()
                    if isinstance(client, NativeClient):
                        assert not client._pool.live and not client._pool.resting
                        client._pool.closed = False

                steps = await every_step(scene, way, mode, rested)
                await client.aclose()
                return steps

        steps = run(work, loop)
        gc.collect()
    assert not complaints, complaints
    return steps


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_a_cancelled_request_leaves_nothing_behind_and_no_answer_to_the_next(way, mode, tmp_path: Path):
    assert check(NativeClient, "uvloop", way, MODES[mode], tmp_path) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_nor_does_it_on_the_loop_of_the_standard_library(way, tmp_path: Path):
    assert check(NativeClient, "asyncio", way, MODES["late"], tmp_path) >= 3


@pytest.mark.parametrize("way", ["chunks", "upload", "twice", "tls", "tunnel twice"])
def test_nor_does_it_with_httpx(way, tmp_path: Path):
    assert check(HttpxClient, "uvloop", way, MODES["early"], tmp_path) >= 3
