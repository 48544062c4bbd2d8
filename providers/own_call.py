"""One small request of the gateway's own to one model, built and spoken as traffic to it is."""

import asyncio
import time
from dataclasses import dataclass

import msgspec

from providers import control, ports
from providers.cache import ProviderRow
from providers.kinds.base import EMBEDDINGS_PATH
from providers.upstream.interface import Request, UpstreamError


@dataclass(frozen=True, slots=True)
class Reply:
    """What the provider answered; *status* 0 = nothing came, or not all of it, and *error* says why. Times in
    milliseconds.
    """

    status: int
    duration_ms: float
    header_ms: float | None = None
    body: bytes = b""
    error: str = ""


def chat(
    provider: ProviderRow, model_id: str, outputs: tuple[str, ...], key: str, *, prompt: str, max_tokens: int
) -> ports.ChatCall:
    raw = {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens, "stream": False}
    body = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in raw.items()}
    return ports.build_chat(provider, model_id, outputs, body, key)


def embeddings(provider: ProviderRow, model_id: str, key: str, *, text: str) -> ports.ChatCall:
    kind, body = provider.kind, msgspec.json.encode({"model": model_id, "input": text})
    url = kind.url(provider.base_url, EMBEDDINGS_PATH)
    return ports.ChatCall(Request("POST", url, kind.headers(key), body), bytes)


async def ask(request: Request, *, seconds: float, limit: int) -> Reply:
    """Send it once, on the control loop. *limit*: bytes of the answer. Never raises for what the provider does."""
    loop = asyncio.get_running_loop()
    begun, deadline = time.monotonic(), loop.time() + seconds
    headers_at: float | None = None

    def since() -> float:
        return round((time.monotonic() - begun) * 1000, 3)

    try:
        response = await control.client().send(request, deadline=deadline, header_timeout=seconds)
        headers_at = since()
        try:
            response.deadline(deadline)
            body = await response.read(limit)
        finally:
            response.close()
    except UpstreamError as problem:
        return Reply(0, since(), headers_at, error=str(problem))
    return Reply(response.status, since(), headers_at, body)
