"""What a fake provider can do with one request, down to the byte. See ``tests/upstream/server.py``."""

import asyncio
import base64
import gzip as gzip_module
import json
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.upstream import spoken

LONGEST_SILENCE = 60.0  # seconds; no behaviour outlives a test


class ClientLeft(Exception):
    """The client closed the connection while a behaviour was at work."""


@dataclass
class Recorded:
    """One request as it arrived. *headers* have lower-case names, the first value of each; *at* is monotonic."""

    method: str
    path: str
    headers: dict[str, str]
    raw_headers: list[tuple[bytes, bytes]]
    body: bytes
    at: float
    connection: int
    disconnected: bool = False
    target: str = ""
    done: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def members(self) -> dict[str, Any]:
        """The body when it is a JSON object, else nothing."""
        try:
            found = self.json
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def parts(self) -> list[tuple[str, str | None, str, bytes]]:
        """The fields of a form, as (name, file name, content type, value); anything else has none."""
        kind = self.headers.get("content-type", "")
        if not kind.startswith("multipart/form-data; boundary="):
            return []
        first, *pieces, last = self.body.split(b"--" + kind.partition("boundary=")[2].encode())
        assert (first, last) == (b"", b"--\r\n")
        found: list[tuple[str, str | None, str, bytes]] = []
        for piece in pieces:
            fields, _, value = piece[2:-2].partition(b"\r\n\r\n")
            disposition, _, content_type = fields.decode().partition("\r\nContent-Type: ")
            name = re.fullmatch(r'Content-Disposition: form-data; name="([^"]*)"(?:; filename="([^"]*)")?', disposition)
            assert name is not None, disposition
            found.append((name[1], name[2], content_type, value))
        return found

    @property
    def model(self) -> str:
        named = [value.decode() for name, filename, _, value in self.parts if name == "model" and filename is None]
        return named[0] if named else str(self.members.get("model", ""))

    @property
    def streaming(self) -> bool:
        return self.members.get("stream") is True


class Wire:
    """The server's end of one exchange. ``write`` raises ClientLeft once the client is gone."""

    def __init__(self, transport: asyncio.Transport, request: Recorded) -> None:
        self.transport = transport
        self.request = request
        self.gone = asyncio.Event()
        self.room = asyncio.Event()
        self.room.set()
        self.close_after = False
        self.written = bytearray()  # the beginning of it

    async def write(self, data: bytes) -> None:
        if self.gone.is_set() or self.transport.is_closing():
            raise ClientLeft
        if len(self.written) < spoken.LIMIT:
            self.written += data[: spoken.LIMIT]
        self.transport.write(data)
        await self.room.wait()

    async def sleep(self, seconds: float) -> None:
        """Wait, but end at once with ClientLeft when the client goes."""
        try:
            await asyncio.wait_for(self.gone.wait(), min(seconds, LONGEST_SILENCE))
        except TimeoutError:
            return
        raise ClientLeft

    def reset(self) -> None:
        """Close with a TCP RST."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


Behaviour = Callable[[Wire], Awaitable[None]]
Body = str | bytes | Mapping[str, Any] | list[Any] | None


#: What is asked for at other endpoints: the ends of their paths, and their ordinary answers.
BY_PATH: dict[str, Callable[[], "Behaviour"]] = {}


def encode(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return b"" if body is None else json.dumps(body).encode()


def head(status: int, headers: Iterable[tuple[str, str]], reason: str = "X") -> bytes:
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


# ---------------------------------------------------------------- whole answers


def completion(
    text: str | None = "Hello", *, model: str = "m", usage: Any = None, finish: str | None = "stop", **message: Any
) -> dict[str, Any]:
    """An OpenAI chat completion; further *message* members such as ``tool_calls`` or ``reasoning_content``."""
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1700000000,
        "model": model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
        ],
        "usage": usage or {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }


def reply(
    status_code: int,
    body: Body,
    *,
    headers: Mapping[str, str] | None = None,
    content_type: str = "application/json",
    length: int | None = None,
    close: bool = False,
) -> Behaviour:
    """Any answer with a Content-Length (*length*: a wrong one on purpose)."""

    async def behave(wire: Wire) -> None:
        data = encode(body)
        fields = [("Content-Type", content_type), ("Content-Length", str(len(data) if length is None else length))]
        fields += list((headers or {}).items())
        if close:
            fields.append(("Connection", "close"))
        wire.close_after = close or length is not None
        await wire.write(head(status_code, fields) + data)

    return behave


def answer(text: str | None = "Hello", *, usage: Any = None, headers: Mapping[str, str] | None = None, **more: Any):
    """A good non-streaming answer; a request with ``stream: true`` gets *text* as a stream of one chunk, one for
    embeddings its vectors, and so on."""

    async def behave(wire: Wire) -> None:
        for path, other in BY_PATH.items():
            if wire.request.path.endswith(path):
                await other()(wire)
                return
        if wire.request.path.endswith("/embeddings"):
            await vectors()(wire)
            return
        if wire.request.streaming:
            pieces = [text] if text else []
            await stream(pieces, usage=AUTO if usage is None else usage, headers=headers)(wire)
            return
        body = completion(text, model=wire.request.model, usage=usage, **more)
        await reply(200, body, headers=headers)(wire)

    return behave


def embedding(place: int, dimensions: int = 3) -> list[float]:
    """The vector of the input at *place*: binary fractions, exact as 32-bit floats too."""
    return [place + 0.5**n for n in range(dimensions)]


def vectors(*, usage: Any = None, headers: Mapping[str, str] | None = None) -> Behaviour:
    """Embeddings: one vector per input, as many *dimensions* and in the encoding the request asks for.

    *usage*: False = none is reported.
    """

    async def behave(wire: Wire) -> None:
        asked = wire.request.members
        given = asked.get("input")
        many = isinstance(given, list) and bool(given) and not isinstance(given[0], int)
        made = [embedding(n, asked.get("dimensions") or 3) for n in range(len(given) if many else 1)]
        packed = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in made]
        shown = packed if asked.get("encoding_format") == "base64" else made
        body: dict[str, Any] = {
            "object": "list",
            "data": [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(shown)],
            "model": wire.request.model,
        }
        if usage is not False:
            body["usage"] = usage or {"prompt_tokens": 4, "total_tokens": 4}
        await reply(200, body, headers=headers)(wire)

    return behave


def no_vectors() -> Behaviour:
    """A 200 without one vector."""
    return reply(200, {"object": "list", "data": [], "model": "m", "usage": {"prompt_tokens": 4, "total_tokens": 4}})


def status(code: int, body: Body = None, *, headers: Mapping[str, str] | None = None, close: bool = False) -> Behaviour:
    """An error status; without *body* an OpenAI error object that says ``scripted <code>``."""
    if body is None:
        body = {"error": {"message": f"scripted {code}", "type": "server_error", "param": None, "code": None}}
    return reply(code, body, headers=headers, close=close)


def html(code: int = 200, text: str = "<html><body>Bad gateway</body></html>") -> Behaviour:
    return reply(code, text, content_type="text/html")


def half_json() -> Behaviour:
    """A whole HTTP answer whose JSON stops in the middle."""
    return reply(200, b'{"id":"chatcmpl-1","choices":[{"index":0,"mess')


def empty_choices() -> Behaviour:
    """A 200 (or a whole stream) in which no choice ever comes."""

    async def behave(wire: Wire) -> None:
        if wire.request.streaming:
            await _events(wire, [sse({**_CHUNK, "model": wire.request.model, "choices": []}), DONE], 0.0)
        else:
            await reply(200, {**completion("x", model=wire.request.model), "choices": []})(wire)

    return behave


def no_content() -> Behaviour:
    """A choice without content, reasoning or tool calls."""
    return answer("", usage={"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3})


def wrong_length(delta: int, text: str = "Hello") -> Behaviour:
    """Content-Length is *delta* bytes off; the connection is closed after the body."""
    data = encode(completion(text))
    return reply(200, data, length=len(data) + delta)


def gzip(text: str = "Hello") -> Behaviour:
    """A compressed answer that nobody asked for."""
    return reply(200, gzip_module.compress(encode(completion(text))), headers={"Content-Encoding": "gzip"})


def redirect(location: str, code: int = 302) -> Behaviour:
    return reply(code, b"", headers={"Location": location})


# ---------------------------------------------------------------- streams

AUTO: Any = object()  # usage only when the request asks for it, as real providers do
DONE = b"data: [DONE]\n\n"
_CHUNK = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1700000000}


def sse(data: Any) -> bytes:
    return b"data: " + encode(data) + b"\n\n"


def delta(model: str = "m", finish: str | None = None, **members: Any) -> dict[str, Any]:
    """One chat chunk with one choice."""
    return {**_CHUNK, "model": model, "choices": [{"index": 0, "delta": members, "finish_reason": finish}]}


def usage_chunk(model: str = "m", usage: Any = None) -> dict[str, Any]:
    numbers = usage or {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    return {**_CHUNK, "model": model, "choices": [], "usage": numbers}


_SSE_HEAD = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))


async def _open(wire: Wire, headers: Mapping[str, str] | None = None) -> None:
    await wire.write(head(200, [*_SSE_HEAD, *(headers or {}).items()], "OK"))


async def _events(
    wire: Wire, events: Iterable[bytes], delay: float, *, headers: Mapping[str, str] | None = None, end: bool = True
) -> None:
    await _open(wire, headers)
    for n, event in enumerate(events):
        if n and delay:
            await wire.sleep(delay)
        await wire.write(http_chunk(event))
    if end:
        await wire.write(b"0\r\n\r\n")


def _wants_usage(request: Recorded) -> bool:
    options = request.members.get("stream_options") or {}
    return bool(options.get("include_usage"))


def stream(
    pieces: Iterable[str] = ("Hel", "lo"),
    *,
    usage: Any = AUTO,
    finish: str | None = "stop",
    done: bool = True,
    delay: float = 0.0,
    headers: Mapping[str, str] | None = None,
    reasoning: Iterable[str] = (),
) -> Behaviour:
    """A whole stream: role, *reasoning*, *pieces*, finish, usage (AUTO, None or numbers), ``[DONE]``."""
    texts, thoughts = list(pieces), list(reasoning)

    async def behave(wire: Wire) -> None:
        model = wire.request.model
        events = [sse(delta(model, role="assistant", content=""))]
        events += [sse(delta(model, reasoning_content=text)) for text in thoughts]
        events += [sse(delta(model, content=text)) for text in texts]
        if finish:
            events.append(sse(delta(model, finish)))
        if (usage is AUTO and _wants_usage(wire.request)) or (usage is not AUTO and usage is not None):
            events.append(sse(usage_chunk(model, None if usage is AUTO else usage)))
        if done:
            events.append(DONE)
        await _events(wire, events, delay, headers=headers)

    return behave


def events(*items: Any, delay: float = 0.0, end: bool = True) -> Behaviour:
    """Exactly these SSE events: bytes as they are, anything else as ``data: <json>``."""

    async def behave(wire: Wire) -> None:
        await _events(wire, [item if isinstance(item, bytes) else sse(item) for item in items], delay, end=end)
        wire.close_after = not end

    return behave


def tools_stream(name: str = "get_weather", arguments: Iterable[str] = ('{"city":', '"Rome"}')) -> Behaviour:
    """A streamed tool call: the name first, then its arguments in fragments."""
    fragments = list(arguments)

    async def behave(wire: Wire) -> None:
        model = wire.request.model
        first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
        out = [sse(delta(model, role="assistant", content=None, tool_calls=[first]))]
        for text in fragments:
            out.append(sse(delta(model, tool_calls=[{"index": 0, "function": {"arguments": text}}])))
        out.append(sse(delta(model, "tool_calls")))
        if _wants_usage(wire.request):
            out.append(sse(usage_chunk(model)))
        await _events(wire, [*out, DONE], 0.0)

    return behave


def first_event_error(error: Any = None) -> Behaviour:
    """A 200 stream whose first event is an error object."""
    body = {"error": error or {"message": "scripted stream error", "type": "server_error", "code": None}}
    return events(body)


def error_after(n: int, error: Any = None) -> Behaviour:
    """*n* content chunks, then an error event and a clean end."""
    body = {"error": error or {"message": "scripted stream error", "type": "server_error", "code": None}}
    return events(*(delta(content=f"tok{i} ") for i in range(n)), body)


def empty_stream(done: bool = True) -> Behaviour:
    """A 200 stream without any output."""
    return events(*([DONE] if done else []))


def cut_after(n: int, *, clean: bool = False, reset: bool = False, finish: bool = False) -> Behaviour:
    """*n* content chunks, then the end: EOF inside the chunked body, or *clean*, or a TCP *reset*."""

    async def behave(wire: Wire) -> None:
        model = wire.request.model
        out = [sse(delta(model, content=f"tok{i} ")) for i in range(n)]
        if finish:
            out.append(sse(delta(model, "stop")))
        await _events(wire, out, 0.0, end=clean)
        if reset:
            await asyncio.sleep(0.05)  # what was written shall arrive before the reset
            wire.reset()
        wire.close_after = not clean

    return behave


def stall_after(n: int, seconds: float = LONGEST_SILENCE) -> Behaviour:
    """*n* content chunks, then silence for *seconds*, then the stream is finished."""

    async def behave(wire: Wire) -> None:
        model = wire.request.model
        await _events(wire, [sse(delta(model, content=f"tok{i} ")) for i in range(n)], 0.0, end=False)
        await wire.sleep(seconds)
        await wire.write(http_chunk(sse(delta(model, "stop")) + DONE) + b"0\r\n\r\n")

    return behave


# ---------------------------------------------------------------- faults


def silence(seconds: float = LONGEST_SILENCE) -> Behaviour:
    """Read the request, never answer; close after *seconds*."""

    async def behave(wire: Wire) -> None:
        await wire.sleep(seconds)
        wire.close_after = True

    return behave


def headers_then_silence(*, stream: bool = True, seconds: float = LONGEST_SILENCE) -> Behaviour:
    """The headers of a good answer, then nothing."""

    async def behave(wire: Wire) -> None:
        if stream:
            await _open(wire)
        else:
            await wire.write(head(200, [("Content-Type", "application/json"), ("Content-Length", "500")]))
        await wire.sleep(seconds)
        wire.close_after = True

    return behave


def reset(before_headers: bool = True) -> Behaviour:
    """A TCP reset, before or right after the headers of a good stream."""

    async def behave(wire: Wire) -> None:
        if not before_headers:
            await _open(wire)
            await asyncio.sleep(0.05)
        wire.reset()

    return behave


def hang_up() -> Behaviour:
    """An orderly close without one byte of answer."""

    async def behave(wire: Wire) -> None:
        wire.close_after = True

    return behave


def raw(data: bytes, close: bool = True) -> Behaviour:
    """Exactly these bytes."""

    async def behave(wire: Wire) -> None:
        if data:
            await wire.write(data)
        wire.close_after = close

    return behave


def pieces(data: bytes, size: int = 1, delay: float = 0.001, close: bool = True) -> Behaviour:
    """Exactly these bytes, *size* at a time."""

    async def behave(wire: Wire) -> None:
        for start in range(0, len(data), size):
            if start:
                await wire.sleep(delay)
            await wire.write(data[start : start + size])
        wire.close_after = close

    return behave


def after(seconds: float, then: Behaviour) -> Behaviour:
    """Wait before the first byte."""

    async def behave(wire: Wire) -> None:
        await wire.sleep(seconds)
        await then(wire)

    return behave


def as_asked(whole: Behaviour, streamed: Behaviour) -> Behaviour:
    """One of the two, as the request asks for a stream or not."""

    async def behave(wire: Wire) -> None:
        await (streamed if wire.request.streaming else whole)(wire)

    return behave


class Hold:
    """A behaviour that waits before its first byte until the test calls ``release``; ``reached`` tells it started."""

    def __init__(self, then: Behaviour) -> None:
        self._then = then
        self._released = threading.Event()
        self.reached = threading.Event()

    def release(self) -> None:
        self._released.set()

    async def __call__(self, wire: Wire) -> None:
        self.reached.set()
        for _ in range(int(LONGEST_SILENCE / 0.005)):
            if self._released.is_set():
                break
            await wire.sleep(0.005)
        await self._then(wire)
