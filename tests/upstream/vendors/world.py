"""The internet of the simulated vendors: one proxy on loopback behind which every vendor has its real address.

The product is told to honour ``HTTPS_PROXY`` and to trust this world's certificate (``SSL_CERT_FILE``); nothing in it
is replaced. A CONNECT to ``api.z.ai:443`` ends here, TLS included, and the request goes to the vendor that has that
place. Servers of one's own listen on loopback themselves and are reached directly.
"""

import asyncio
import ssl
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from tests.upstream.behaviours import Behaviour, Recorded, Wire, reply
from tests.upstream.rig import certificate
from tests.upstream.server import FakeProvider, _Connection
from tests.upstream.vendors import BY_KIND, Local, Vendor


class Site(FakeProvider):
    """A server that answers as *vendors* do, each at its own places. *tls*: what CONNECT is answered with."""

    def __init__(self, vendors: list[Vendor], tls: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._vendors = vendors
        self._inner = tls
        self.lost: list[str] = []  # addresses that no vendor has

    def _behaviour(self, request: Recorded) -> Behaviour:
        if request.method == "CONNECT" and self._inner is not None:
            return self._tunnel
        scheme = "http" if self._inner is None else "https"
        url = request.extra["url"] = f"{scheme}://{request.headers.get('host', '')}{request.target}"
        found = [(place, vendor) for vendor in self._vendors for place in vendor.places if _inside(url, place)]
        if not found:
            self.lost.append(url)
            return reply(404, {"error": f"nobody is at {url}"})
        return max(found, key=lambda pair: len(pair[0]))[1].answer(request)

    async def _tunnel(self, wire: Wire) -> None:
        assert self._inner is not None
        await wire.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        inside = _Connection(self)
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(wire.transport, inside, self._inner, server_side=True)
        except (OSError, ssl.SSLError):
            wire.close_after = True
            return
        if transport is not None:
            inside.connection_made(transport)
            await inside.task
        wire.close_after = True


def _inside(url: str, place: str) -> bool:
    return url == place or url.startswith((place + "/", place + "?"))


class World:
    """Every vendor, by its provider type. *directory* keeps the certificate."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.vendors = {kind: vendor() for kind, vendor in BY_KIND.items()}

    def __enter__(self) -> "World":
        hosted = [vendor for vendor in self.vendors.values() if vendor.base_url]
        hosts = sorted({str(urlsplit(place).hostname) for vendor in hosted for place in vendor.places})
        server, _ = certificate(self._directory, *hosts)
        server.set_alpn_protocols(["http/1.1"])
        self._stack = ExitStack()
        try:
            self.site = self._stack.enter_context(Site(hosted, server))
            for vendor in self.vendors.values():
                if isinstance(vendor, Local) and not vendor.base_url:
                    vendor.at(self._stack.enter_context(Site([vendor])).origin)
        except BaseException:
            self._stack.close()
            raise
        self.hosts = hosts
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def environment(self) -> dict[str, str]:
        """What a product needs to find the vendors."""
        return {
            "TRUST_ENV_PROXY": "true",
            "HTTPS_PROXY": self.site.origin,
            "NO_PROXY": "127.0.0.1,localhost",
            "SSL_CERT_FILE": str(self._directory / "certificate.pem"),
            "ALLOWED_PROVIDER_HOSTS": ",".join(["127.0.0.1", "localhost", *self.hosts]),
            "MODELSDEV_ENABLED": "false",
        }
