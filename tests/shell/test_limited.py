"""The address limit in front of everything that is not under ``/v1``."""

import ipaddress

import pytest

from modelhotel.core import options, snapshots
from modelhotel.ops.limited import Limited

NAMES = ("limit", "remaining", "burst", "scope")


class Site:
    """An application behind the limit, and what its clients saw."""

    def __init__(self):
        self.limited = Limited(
            self.app, (ipaddress.ip_network("10.0.0.0/8"),), lambda scope: [(b"x-own", b"1")], "/static/"
        )
        self.reached = 0

    async def app(self, scope, receive, send):
        self.reached += 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-app", b"yes")]})
        await send({"type": "http.response.body", "body": b"hello"})

    async def ask(self, path="/api/providers", method="GET", headers=(), peer="192.0.2.1"):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "headers": list(headers), "client": (peer, 1)}
        await self.limited(scope, None, send)
        start, body = sent
        names = {name.decode(): value.decode() for name, value in start["headers"]}
        return start["status"], names, body["body"]


@pytest.fixture
def site(monkeypatch):
    environ = {
        **options.environ,
        "RATE_LIMIT_ENABLED": "true",
        "RATE_LIMIT_IP_RPS": "0.001",
        "RATE_LIMIT_IP_BURST": "2",
    }
    monkeypatch.setattr(options, "environ", environ)
    snapshots.reset_all()
    return Site()


async def test_an_address_over_its_limit_is_refused_everywhere(site):
    status, headers, body = await site.ask()
    assert (status, body, headers["x-app"]) == (200, b"hello", "yes")
    assert [headers[f"x-ratelimit-{name}"] for name in NAMES] == ["0.001", "1", "2", "ip"]
    assert (await site.ask("/"))[0] == 200
    status, headers, body = await site.ask("/login/", "HEAD")
    assert (status, body, headers["content-type"]) == (429, b"", "application/json")
    status, headers, body = await site.ask("/login/")
    assert b'"message":"rate limit exceeded"' in body and int(headers["content-length"]) == len(body)
    assert [headers[f"x-ratelimit-{name}"] for name in NAMES] == ["0.001", "0", "2", "ip"]
    assert 900 < int(headers["retry-after"]) <= 1001 and headers["x-own"] == "1"
    assert site.reached == 2
    assert (await site.ask(peer="192.0.2.2"))[0] == 200


async def test_files_of_the_dashboard_and_preflights_are_not_counted(site):
    for _ in range(5):
        status, headers, _ = await site.ask("/static/site.css")
        assert status == 200 and "x-ratelimit-limit" not in headers
        assert (await site.ask(method="OPTIONS", headers=[(b"origin", b"http://x")]))[0] == 200
    assert (await site.ask())[1]["x-ratelimit-remaining"] == "1"


async def test_behind_a_trusted_proxy_its_clients_are_counted_apart(site):
    for client in ("203.0.113.1", "203.0.113.2"):
        forwarded = [(b"x-forwarded-for", client.encode())]
        asked = [(await site.ask(headers=forwarded, peer="10.0.0.1"))[0] for _ in range(3)]
        assert asked == [200, 200, 429]


async def test_with_the_limiter_off_the_answer_is_left_alone(site, monkeypatch):
    monkeypatch.setattr(options, "environ", {"RATE_LIMIT_ENABLED": "false", "RATE_LIMIT_IP_BURST": "1"})
    snapshots.reset_all()
    for _ in range(3):
        status, headers, _ = await site.ask()
        assert status == 200 and headers == {"x-app": "yes"}
