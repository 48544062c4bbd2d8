"""Which client carries what, per event loop, through the real egress guard."""

import asyncio
import dataclasses

import pytest
from asgiref.sync import async_to_sync

from modelhotel.core import environment
from providers.upstream import select
from providers.upstream.httpx_client import HttpxClient
from providers.upstream.interface import FaultKind
from providers.upstream.native import NativeClient
from tests.upstream import rig
from tests.upstream.rig import chat, fault, fetch, run


@pytest.fixture
def environ(monkeypatch):
    """Set fields of the environment the clients are made for."""

    def put(**fields: object) -> None:
        env = dataclasses.replace(environment.read({}), **fields)
        monkeypatch.setattr(environment, "current", lambda: env)

    put(allowed_provider_hosts=frozenset({"127.0.0.1"}))
    return put


def test_the_data_plane_is_native_and_the_control_plane_is_httpx(environ, provider_a):
    async def work():
        data, control = select.data_plane(), select.control_plane()
        assert isinstance(data, NativeClient) and isinstance(control, HttpxClient)
        assert select.data_plane() is data and select.control_plane() is control
        assert (await fetch(data, chat(provider_a.url)))[0] == (await fetch(control, chat(provider_a.url)))[0] == 200
        await select.aclose_all()
        await provider_a.until(lambda: provider_a.connections == 0)
        assert select.data_plane() is not data
        await select.aclose_all()
        return data

    assert run(work) is not run(work)


def test_the_data_plane_can_be_httpx(environ):
    environ(upstream_client="httpx")

    async def work():
        assert isinstance(select.data_plane(), HttpxClient)
        await select.aclose_all()

    run(work)


def test_both_planes_dial_through_the_guard(environ, provider_a):
    environ(allowed_provider_hosts=frozenset())

    async def work():
        try:
            return [await fault(c, chat(provider_a.url)) for c in (select.data_plane(), select.control_plane())]
        finally:
            await select.aclose_all()

    problems = run(work)
    assert [p.kind for p in problems] == [FaultKind.FORBIDDEN] * 2
    assert "refused connection to private/reserved IP 127.0.0.1 for host 127.0.0.1" in str(problems[0])
    assert provider_a.accepted == 0


def test_proxies_need_to_be_trusted(environ, provider_a):
    """providers 76"""
    allowed = frozenset({"127.0.0.1"})

    async def work(trust: bool):
        async with rig.TunnelProxy() as proxy:
            environ(raw={"HTTP_PROXY": proxy.url}, trust_env_proxy=trust, allowed_provider_hosts=allowed)
            try:
                bodies = [
                    (await fetch(c, chat(provider_a.url)))[1] for c in (select.data_plane(), select.control_plane())
                ]
            finally:
                await select.aclose_all()
            return [body == b"via proxy" for body in bodies]

    assert run(lambda: work(False)) == [False, False] and len(provider_a.calls) == 2
    assert run(lambda: work(True)) == [True, True] and len(provider_a.calls) == 2


def test_a_temporary_client_serves_synchronous_code_and_leaves_nothing(environ, provider_a):
    async def ask() -> int:
        async with select.temporary() as client:
            status, _ = await fetch(client, chat(provider_a.url))
        await asyncio.sleep(0)
        return status

    before = rig.open_files()
    assert [async_to_sync(ask)() for _ in range(3)] == [200, 200, 200]
    provider_a.wait_for(lambda: provider_a.connections == 0 and rig.open_files() <= before)
