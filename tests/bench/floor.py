"""The plain-ASGI floor: the least a gateway in Python can do. ``python -m tests.bench.floor PORT UPSTREAM``

The same server, upstream client and JSON handling as the product: parse the top level, look the key and the model up,
rename the model, swap the key, forward. No breaker, no log, no metering, no headers of its own.
"""

import sys

import msgspec
import uvicorn

from providers.upstream.interface import Request
from providers.upstream.native import NativeClient

GATEWAY_KEY = b"Bearer sk-floor"
JSON = (b"content-type", b"application/json")
STREAM = (b"content-type", b"text/event-stream")
SECONDS = 60.0
LIMIT = 32 * 1024 * 1024

_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_name = msgspec.json.Decoder(str).decode


class Loopback:
    """The resolver's place: the upstream is on this machine."""

    async def resolve(self, host, port):
        import socket

        return [(socket.AF_INET, (host, port))]


class Floor:
    def __init__(self, upstream: str) -> None:
        self.url = f"{upstream}/v1/chat/completions"
        self.routes = {"floor": msgspec.Raw(b'"up-model"')}
        self.headers = [(b"authorization", b"Bearer sk-upstream"), JSON]
        self.client = None

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            return
        if self.client is None:
            self.client = NativeClient(Loopback())
        import asyncio

        loop = asyncio.get_running_loop()
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        assert dict(scope["headers"])[b"authorization"] == GATEWAY_KEY
        members = _decode(body)
        members["model"] = self.routes[_name(members["model"])]
        request = Request("POST", self.url, self.headers, _encode(members))
        response = await self.client.send(request, deadline=loop.time() + SECONDS, header_timeout=SECONDS)
        if bytes(members.get("stream", b"")) == b"true":
            await send({"type": "http.response.start", "status": response.status, "headers": [STREAM]})
            while chunk := await response.chunk():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        answer = await response.read(LIMIT)
        length = (b"content-length", b"%d" % len(answer))
        await send({"type": "http.response.start", "status": response.status, "headers": [JSON, length]})
        await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    uvicorn.run(
        Floor(sys.argv[2]),
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        lifespan="off",
    )
