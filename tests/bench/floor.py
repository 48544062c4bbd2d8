"""The floor of the bench: the least a gateway in plain ASGI can do, with our own upstream client.

It knows one key and one model, rewrites the model, swaps the key, forwards. What the product's ``/v1`` does beyond
this (gates, routing, circuits, verdicts, metering, the request log) is what its ratio to this floor measures.
Run as ``uvicorn tests.bench.floor:application`` with UPSTREAM_URL, UPSTREAM_KEY and UPSTREAM_MODEL in the environment.
"""

import asyncio
import os
import socket
from typing import Any
from urllib.parse import urlsplit

import msgspec

from providers.upstream.interface import Address, Request
from providers.upstream.native import NativeClient
from tests.bench.floor_names import KEY, MODEL

_SECONDS = 60.0
_URL = os.environ["UPSTREAM_URL"] + "/chat/completions"
_HEADERS = [
    (b"authorization", b"Bearer " + os.environ["UPSTREAM_KEY"].encode()),
    (b"content-type", b"application/json"),
]
_MODEL = msgspec.Raw(msgspec.json.encode(os.environ["UPSTREAM_MODEL"]))
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class _Loopback:
    async def resolve(self, host: str, port: int) -> list[Address]:
        return [(socket.AF_INET, ("127.0.0.1", urlsplit(_URL).port))]


_client = NativeClient(_Loopback())


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    key = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
    data = _decode(body)
    if key != b"Bearer " + KEY.encode() or msgspec.json.decode(data["model"]) != MODEL:
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
        return
    data["model"] = _MODEL
    now = asyncio.get_running_loop().time()
    request = Request("POST", _URL, _HEADERS, _encode(data))
    response = await _client.send(request, deadline=now + _SECONDS, header_timeout=_SECONDS)
    kind = (b"content-type", response.header(b"content-type") or b"")
    if "stream" not in data:
        whole = await response.read(1 << 24)
        headers = [kind, (b"content-length", str(len(whole)).encode())]
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": whole})
        return
    await send({"type": "http.response.start", "status": response.status, "headers": [kind]})
    while chunk := await response.chunk():
        response.deadline(asyncio.get_running_loop().time() + _SECONDS)
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
