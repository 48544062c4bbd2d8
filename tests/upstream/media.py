"""Behaviours of the endpoints whose answers pass through: scores, pictures, sound, transcripts."""

import json
from collections.abc import Mapping
from typing import Any

from tests.upstream.behaviours import BY_PATH, Behaviour, Wire, head, http_chunk, reply

PNG = "iVBORw0KGgo="
MP3 = b"ID3" + bytes(range(256)) * 40


def scores(*, meta: Any = None, usage: Any = None) -> Behaviour:
    """A score for each document, the last one first; *meta* as Cohere has it, *usage* as Jina has it."""

    async def behave(wire: Wire) -> None:
        places = range(len(wire.request.members.get("documents") or ["x"]))
        body: dict[str, Any] = {"results": [{"index": n, "relevance_score": 1 / (n + 1)} for n in reversed(places)]}
        body |= {name: value for name, value in (("meta", meta), ("usage", usage)) if value is not None}
        await reply(200, body)(wire)

    return behave


def picture(*, b64: str | None = PNG, url: str | None = None, usage: Any = None) -> Behaviour:
    """One picture, as base64 or as an address."""
    image = {name: value for name, value in (("b64_json", b64), ("url", url)) if value is not None}
    body: dict[str, Any] = {"created": 1, "data": [image]}
    if usage is not None:
        body["usage"] = usage
    return reply(200, body)


def sound(
    data: bytes = MP3, *, content_type: str = "audio/mpeg", headers: Mapping[str, str] | None = None
) -> Behaviour:
    return reply(200, data, content_type=content_type, headers=headers)


def transcript(text: str = "hello there", **members: Any) -> Behaviour:
    return reply(200, {"text": text, **members})


def passed_events(*events: dict[str, Any], whole: bool = True, pause: float = 0.0) -> Behaviour:
    """An event stream in chunks, one event each; not *whole*: the connection breaks behind them."""

    async def behave(wire: Wire) -> None:
        fields = [("Content-Type", "text/event-stream; charset=utf-8"), ("Transfer-Encoding", "chunked")]
        await wire.write(head(200, fields))
        for event in events:
            await wire.write(http_chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()))
            if pause:
                await wire.sleep(pause)
        wire.close_after = not whole
        if whole:
            await wire.write(b"0\r\n\r\n")

    return behave


def silent_body(content_type: str = "audio/mpeg") -> Behaviour:
    """A 200 whose body breaks before its first byte."""

    async def behave(wire: Wire) -> None:
        wire.close_after = True
        await wire.write(head(200, [("Content-Type", content_type), ("Content-Length", "500")]))

    return behave


BY_PATH |= {
    "/rerank": scores,
    "/images/generations": picture,
    "/images/edits": picture,
    "/images/variations": picture,
    "/audio/speech": sound,
    "/audio/transcriptions": transcript,
    "/audio/translations": transcript,
}
