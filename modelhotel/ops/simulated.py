"""Simulated OpenAI-compatible providers for the demo: healthy, flaky and slow, each a small server on loopback.

How a provider behaves is a pure function of its age and of chance (:class:`Character`); :class:`Provider` acts it out
on sockets. Ages and waits are seconds.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from modelhotel.ops.demo_environment import LOOPBACK
from modelhotel.ops.simulated_vectors import EMBEDDER, Wanted, embeddings, wanted

#: The model that talks; every simulated provider lists it, and beside it one that makes vectors.
MODEL = "demo"
#: How often a provider looks whether it should still take connections.
_TICK = 0.1
#: Bytes of text per token, as of the gateway's own estimates.
_BYTES_PER_TOKEN = 4
_SENTENCES = (
    "A request that meets a broken provider is answered by the next one in its group.",
    "A circuit opens after a few failures in a row and lets a single probe through later.",
    "The request log shows every attempt, who made it, and why it moved on.",
    "Nothing here costs money: no model is asked, these words are made up.",
)

#: A random number in [0, 1).
Chance = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Plan:
    """One answer: *first* is the wait before anything of it, *pause* the wait between two words of a stream.

    *cut_at*: the connection breaks after so many words; None = it does not. A plain answer is then cut in half.
    """

    first: float
    pause: float
    status: int = 200
    cut_at: int | None = None


class Character(Protocol):
    def listens(self, age: float) -> bool:
        """Whether connections are taken; else they are refused."""

    def plan(self, age: float, chance: Chance) -> Plan:
        """How a request that arrives now is answered."""


@dataclass(frozen=True, slots=True)
class Steady:
    """Always answers, after *first* plus at most *spread* seconds."""

    first: float
    spread: float
    pause: float

    def listens(self, age: float) -> bool:
        return True

    def plan(self, age: float, chance: Chance) -> Plan:
        return Plan(self.first + self.spread * chance(), self.pause)


class Mood(StrEnum):
    GOOD = "good"
    ERRORS = "errors"
    CUTS = "cuts"
    REFUSES = "refuses"


@dataclass(frozen=True, slots=True)
class Moody:
    """Behaves like *best* in good times; *moods* follow each other for ever, *skipped* seconds into them at birth."""

    best: Steady
    moods: Sequence[tuple[Mood, float]]
    skipped: float = 0.0

    def mood(self, age: float) -> Mood:
        at = (age + self.skipped) % sum(length for _, length in self.moods)
        for mood, length in self.moods:
            if at < length:
                return mood
            at -= length
        return self.moods[0][0]  # a rounding error away from the end

    def listens(self, age: float) -> bool:
        return self.mood(age) is not Mood.REFUSES

    def plan(self, age: float, chance: Chance) -> Plan:
        good = self.best.plan(age, chance)
        match self.mood(age):
            case Mood.ERRORS:
                return replace(good, status=500)
            case Mood.CUTS:
                # Before the first word the gateway can still go elsewhere, later the client gets to see it.
                return replace(good, cut_at=0 if chance() < 0.7 else 4)
            case _:
                return good


#: Seconds of each minute in which the flaky provider fails.
BAD_TIME = 20.0
HEALTHY = Steady(first=0.15, spread=0.1, pause=0.03)
SLOW = Steady(first=4.0, spread=3.0, pause=0.15)
#: The first burst comes soon, so that a newcomer needs no patience; each good time is longer than a doubled cooldown.
FLAKY = Moody(
    best=HEALTHY,
    moods=(
        (Mood.GOOD, 40.0),
        (Mood.ERRORS, BAD_TIME),
        (Mood.GOOD, 40.0),
        (Mood.CUTS, BAD_TIME),
        (Mood.GOOD, 40.0),
        (Mood.REFUSES, BAD_TIME),
    ),
    skipped=36.0,
)
#: Name -> character, in the order of the demo's group.
CAST: dict[str, Character] = {"Flaky": FLAKY, "Healthy": HEALTHY, "Slow": SLOW}


def words(name: str, chance: Chance) -> list[str]:
    """What the provider *name* says, in pieces that add up to it."""
    text = f"Hello from {name}. {_SENTENCES[int(chance() * len(_SENTENCES))]}"
    first, *others = text.split(" ")
    return [first, *(" " + word for word in others)]


def usage(prompt_bytes: int, spoken: int) -> dict[str, int]:
    """A token for every word that was spoken."""
    prompt = max(1, prompt_bytes // _BYTES_PER_TOKEN)
    return {"prompt_tokens": prompt, "completion_tokens": spoken, "total_tokens": prompt + spoken}


def listing(name: str) -> dict[str, Any]:
    entry = {"object": "model", "created": 0, "owned_by": name.lower()}
    return {"object": "list", "data": [{"id": model, **entry} for model in (MODEL, EMBEDDER)]}


def error(status: int, message: str) -> dict[str, Any]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def completion(identity: str, said: Sequence[str], tokens: dict[str, int]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(said)}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {
        "id": identity,
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
        "usage": tokens,
    }


def chunk(identity: str, delta: dict[str, str] | None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """A frame of a stream; *delta* None = one without choices, for the usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": identity,
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "choices": choices,
        **more,
    }


@dataclass(frozen=True, slots=True)
class Asked:
    """A chat request as far as it matters here. *wrong* is set when it can not be answered."""

    stream: bool = False
    usage: bool = False
    wrong: str = ""
    status: int = 400


def asked(body: bytes) -> Asked:
    try:
        given = json.loads(body)
    except ValueError:
        return Asked(wrong="the body is not JSON")
    if not isinstance(given, dict) or not isinstance(given.get("messages"), list):
        return Asked(wrong="messages is required")
    if given.get("model") != MODEL:
        return Asked(wrong=f"the model {given.get('model')!r} does not exist", status=404)
    options = given.get("stream_options")
    return Asked(given.get("stream") is True, isinstance(options, dict) and options.get("include_usage") is True)


_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 500: "Internal Server Error"}


def _head(status: int, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} {_REASONS[status]}", *lines, "", ""]).encode()


def _whole(status: int, content: Any) -> bytes:
    body = json.dumps(content).encode()
    return _head(status, "content-type: application/json", f"content-length: {len(body)}") + body


def _event(content: str) -> bytes:
    data = f"data: {content}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


class Cut(Exception):
    """The script breaks the connection here."""


class Provider:
    """One simulated provider; *now* is a monotonic clock in seconds."""

    def __init__(self, name: str, character: Character, chance: Chance, now: Callable[[], float] = time.monotonic):
        self.name = name
        self._character = character
        self._chance = chance
        self._now = now
        self._born = now()
        self._port = 0
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._answered = 0

    @property
    def base_url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}/v1"

    @property
    def age(self) -> float:
        return self._now() - self._born

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Provider"]:
        """Listens, or refuses, as its character wants until the block ends. Raises OSError."""
        await self._listen()
        tending = asyncio.create_task(self._tend())
        try:
            yield self
        finally:
            tending.cancel()
            self._refuse()

    async def _tend(self) -> None:
        while True:
            wanted = self._character.listens(self.age)
            if wanted and self._server is None:
                with contextlib.suppress(OSError):  # somebody took the port meanwhile: refused until it is free again
                    await self._listen()
            elif not wanted:
                self._refuse()
            await asyncio.sleep(_TICK)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                line, *headers = head.lower().split("\r\n")
                length = next((int(h.split(":")[1]) for h in headers if h.startswith("content-length:")), 0)
                body = await reader.readexactly(length)
                method, target = line.split(" ")[:2]
                await self._answer(writer, f"{method} {target.partition('?')[0]}", body)
        except (Cut, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # our own script, a client that left, or one that speaks no HTTP
        except asyncio.CancelledError:
            pass  # the loop ends; asyncio would log a handler that ended cancelled as a failure
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, what: str, body: bytes) -> None:
        if what == "get /v1/models":
            writer.write(_whole(200, listing(self.name)))
        elif what == "post /v1/chat/completions":
            await self._chat(writer, asked(body), len(body))
        elif what == "post /v1/embeddings":
            await self._embed(writer, wanted(body), len(body))
        else:
            writer.write(_whole(404, error(404, "no such path")))
        await writer.drain()

    async def _chat(self, writer: asyncio.StreamWriter, request: Asked, size: int) -> None:
        if request.wrong:
            writer.write(_whole(request.status, error(request.status, request.wrong)))
            return
        plan = self._character.plan(self.age, self._chance)
        said = words(self.name, self._chance)
        self._answered += 1
        identity = f"chatcmpl-{self.name.lower()}-{self._answered}"
        if request.stream and plan.status == 200:
            await asyncio.sleep(plan.first)
            await self._stream(writer, plan, identity, said, usage(size, len(said)) if request.usage else None)
        else:
            await self._plain(writer, plan, completion(identity, said, usage(size, len(said))))

    async def _embed(self, writer: asyncio.StreamWriter, request: Wanted, size: int) -> None:
        if request.wrong:
            writer.write(_whole(request.status, error(request.status, request.wrong)))
        else:
            await self._plain(writer, self._character.plan(self.age, self._chance), embeddings(request, size))

    async def _plain(self, writer: asyncio.StreamWriter, plan: Plan, content: dict[str, Any]) -> None:
        await asyncio.sleep(plan.first)
        if plan.status != 200:
            writer.write(_whole(plan.status, error(plan.status, "the simulated provider is having a bad time")))
            return
        answer = _whole(200, content)
        if plan.cut_at is not None:
            writer.write(answer[: len(answer) // 2])
            raise Cut
        writer.write(answer)

    async def _stream(
        self, writer: asyncio.StreamWriter, plan: Plan, identity: str, said: list[str], tokens: dict[str, int] | None
    ) -> None:
        def send(frame: dict[str, Any]) -> None:
            writer.write(_event(json.dumps(frame)))

        writer.write(_head(200, "content-type: text/event-stream", "transfer-encoding: chunked"))
        send(chunk(identity, {"role": "assistant", "content": ""}))
        for spoken, word in enumerate(said):
            if spoken == plan.cut_at:
                await writer.drain()
                raise Cut
            send(chunk(identity, {"content": word}))
            await writer.drain()
            await asyncio.sleep(plan.pause)
        send(chunk(identity, {}, "stop"))
        if tokens is not None:
            send(chunk(identity, None, usage=tokens))
        writer.write(_event("[DONE]") + b"0\r\n\r\n")
