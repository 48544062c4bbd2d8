"""Which client carries a request: one per plane and event loop, made at the first use."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from modelhotel.core import environment
from providers.egress import Guard
from providers.upstream.httpx_client import HttpxClient
from providers.upstream.interface import Client
from providers.upstream.native import NativeClient
from providers.upstream.proxies import Proxies


@dataclass(slots=True)
class _Pair:
    data: Client | None = None
    control: Client | None = None


_hot: tuple[asyncio.AbstractEventLoop, Client] | None = None
"""The data plane's client that was asked for last: nearly always there is only one."""
_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pair] = WeakKeyDictionary()


def _pair() -> _Pair:
    loop = asyncio.get_running_loop()
    pair = _loops.get(loop)
    if pair is None:
        pair = _loops[loop] = _Pair()
    return pair


def _proxies(env: environment.Environment) -> Proxies:
    return Proxies(env.raw if env.trust_env_proxy else None)


def _httpx(env: environment.Environment) -> Client:
    return HttpxClient(Guard(env), proxies=_proxies(env))


def data_plane() -> Client:
    """The client of ``/v1`` for the running loop: ``UPSTREAM_CLIENT``."""
    global _hot
    hot = _hot
    if hot is not None and hot[0] is asyncio.get_running_loop():
        return hot[1]
    pair = _pair()
    if pair.data is None:
        env = environment.current()
        native = env.upstream_client == "native"
        pair.data = NativeClient(Guard(env), proxies=_proxies(env)) if native else _httpx(env)
    _hot = (asyncio.get_running_loop(), pair.data)
    return pair.data


def control_plane() -> Client:
    """The client of discovery, quotas, tests and alerts for the running loop; always httpx."""
    pair = _pair()
    if pair.control is None:
        pair.control = _httpx(environment.current())
    return pair.control


async def aclose_all() -> None:
    """Close the clients of the running loop; call it before the loop ends."""
    global _hot
    loop = asyncio.get_running_loop()
    pair = _loops.pop(loop, None)
    if _hot is not None and _hot[0] is loop:
        _hot = None
    for client in (pair.data, pair.control) if pair else ():
        if client is not None:
            await client.aclose()


@asynccontextmanager
async def temporary() -> AsyncIterator[Client]:
    """A control-plane client for a loop that ends with the block, such as that of ``async_to_sync``."""
    client = _httpx(environment.current())
    try:
        yield client
    finally:
        await client.aclose()
