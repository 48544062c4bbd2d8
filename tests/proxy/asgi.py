"""An in-process ASGI client with scripted ``receive`` and ``send``: what a server would do, message by message.

    answer = call("POST", "/v1/chat/completions", key=plain, json={"model": "P/m"})
    assert (answer.status, answer.json) == (200, {...})

Every call runs in an event loop of its own; :func:`run` takes a coroutine for tests that hold several at once.
"""

import asyncio
import json as jsonlib
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from providers.upstream import select
from proxy.app import application
from proxy.exchange import DIRECT

WAIT = 20.0  # seconds; no request of a test takes longer


@dataclass
class Answer:
    """What the application sent. *headers* in order, names in lower case; *pieces* the body as it was written."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def json(self) -> Any:
        return jsonlib.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error object; fails where the answer has any other shape."""
        whole = self.json
        assert list(whole) == ["error"] and sorted(whole["error"]) == ["code", "message", "param", "type"]
        assert self.header("content-type") == "application/json"
        return whole["error"]

    @property
    def said(self) -> tuple[int, str]:
        return self.status, self.error["message"]

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        assert len(found) < 2, f"{name} was sent {len(found)} times"
        return found[0] if found else None

    @property
    def events(self) -> list[str]:
        """The payloads of an event stream."""
        text = self.body.decode()
        assert text.endswith("\n\n")
        return [part.removeprefix("data: ") for part in text[:-2].split("\n\n")]


class Client:
    """One request. *pieces* are what the client sends; *leave* is set when it hangs up."""

    def __init__(self, scope: dict[str, Any], pieces: Sequence[bytes]) -> None:
        self.scope = scope
        self.pieces = list(pieces)
        self.taken = 0
        self.answer = Answer()
        self.left = asyncio.Event()
        self.written = asyncio.Condition()
        self.direct = 0  # pieces that came by write_now

    async def receive(self) -> dict[str, Any]:
        if self.taken < len(self.pieces):
            piece = self.pieces[self.taken]
            self.taken += 1
            if piece is BREAK:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": piece, "more_body": self.taken < len(self.pieces)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        answer = self.answer
        if message["type"] == "http.response.start":
            assert not answer.status, "the answer was started twice"
            answer.status = message["status"]
            answer.headers = [(name.decode("ascii"), value.decode("ascii")) for name, value in message["headers"]]
            assert all(name == name.lower() for name, _ in answer.headers)
            return
        assert message["type"] == "http.response.body" and answer.status and not answer.complete
        if message.get("body"):
            answer.pieces.append(message["body"])
        if not message.get("more_body", False):
            answer.complete = True
            self.left.set()  # a server reports the end of an exchange in the same words
        await self._tell()

    task = None

    def asked(self) -> bytes | None:
        return None

    def whole(self, status: int, headers: Any, body: bytes) -> bool:
        return False

    def gone(self) -> bool:
        return self.left.is_set()

    def ready(self) -> bool:
        """With ``write_now``: the extension of our own server that streams use while they only pass on."""
        return bool(self.answer.status) and not self.answer.complete

    def write_now(self, body: bytes) -> None:
        self.answer.pieces.append(body)
        self.direct += 1
        self._telling = asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        async with self.written:
            self.written.notify_all()

    async def until(self, needle: bytes) -> None:
        """Wait until the body so far contains *needle*."""
        async with self.written, asyncio.timeout(WAIT):
            await self.written.wait_for(lambda: needle in self.answer.body)

    async def run(self) -> Answer:
        async with asyncio.timeout(WAIT):
            await application(self.scope, self.receive, self.send)
        return self.answer


#: A piece of a body that never comes: the client is gone.
BREAK = b"-break-"


def client(
    method: str,
    path: str,
    *,
    key: str | None = None,
    json: Any = None,
    body: bytes | Sequence[bytes] = b"",
    headers: Iterable[tuple[str, str]] = (),
    length: int | None = -1,
    peer: str = "192.0.2.7",
) -> Client:
    """*length* is the announced one: -1 = the true one, None = not announced."""
    if json is not None:
        body = jsonlib.dumps(json).encode()
    pieces = [body] if isinstance(body, bytes) else list(body)
    sent = [(b"host", b"hotel.test"), *((n.lower().encode(), v.encode("latin-1")) for n, v in headers)]
    if key is not None:
        sent.append((b"authorization", b"Bearer " + key.encode()))
    if length is not None:
        sent.append((b"content-length", str(sum(map(len, pieces)) if length < 0 else length).encode()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": sent,
        "client": (peer, 40000),
        "server": ("127.0.0.1", 8080),
    }
    made = Client(scope, pieces)
    scope["extensions"] = {DIRECT: made}
    return made


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """*work* in a loop of its own, whose upstream connections are closed at the end."""

    async def whole() -> Any:
        try:
            return await work
        finally:
            await select.aclose_all()

    return asyncio.run(whole())


def call(method: str, path: str, **given: Any) -> Answer:
    async def one() -> Answer:
        return await client(method, path, **given).run()

    return run(one())


def embed(key: str | None, body: Any = None, **given: Any) -> Answer:
    """An embeddings request; *body* is an object, or the bytes as they are."""
    if isinstance(body, bytes):
        return call("POST", "/v1/embeddings", key=key, body=body, **given)
    return call("POST", "/v1/embeddings", key=key, json=body, **given)


def chat(key: str | None, body: Any = None, **given: Any) -> Answer:
    """A chat completion; *body* is an object, or the bytes as they are."""
    if isinstance(body, bytes):
        return call("POST", "/v1/chat/completions", key=key, body=body, **given)
    return call("POST", "/v1/chat/completions", key=key, json=body, **given)
