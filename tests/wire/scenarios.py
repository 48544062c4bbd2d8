"""The sixteen public failover scenarios (beyond 6): what A does, and how one caller plays each of them.

Every scenario has a model of its own, ``s01`` to ``s16``, offered by an A and a B of its own, so that all of them can
be played side by side on one product. A healthy answer is :data:`TEXT`, sixty words, a word a chunk.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.upstream.server import (
    DONE,
    Behaviour,
    FakeProvider,
    Recorded,
    Wire,
    completion,
    delta,
    events,
    reply,
    reset,
    sse,
    status,
    usage_chunk,
)
from tests.wire.product import Product

WORDS = [f"word{n}" for n in range(1, 60)] + ["end."]
TEXT = " ".join(WORDS)
PATIENCE = 120.0  # seconds; the caller's own
OUTAGE = 60.0  # seconds of 503 in S15
PACE = 4.0  # seconds between two calls of S15
CALLS = 20

REASON = "This prompt is against our policy"
POLICY = {"error": {"message": REASON, "type": "invalid_request_error", "code": "content_policy_violation"}}
TOO_LONG = {"error": {"message": "too many tokens", "type": "invalid_request_error", "code": "context_length_exceeded"}}
NO_PREFILL = {
    "error": {"message": "the last message must be the user's", "type": "invalid_request_error", "code": None}
}


# ---------------------------------------------------------------- what the providers do


def served_as(request: Recorded, by: str) -> str:
    """The model that an answer of *by* names: A's is the one asked for, B's another."""
    return request.model if by == "A" else f"fallback-{request.model}"


def given(request: Recorded) -> str:
    """What of the answer the request holds already, as a final assistant message."""
    last = request.json["messages"][-1]
    return str(last["content"]) if last["role"] == "assistant" else ""


def healthy(by: str, *, broken: bool = False, done: bool = True) -> Behaviour:
    """All words, or what is left of them. *broken*: the tenth event is no JSON; *done*: ``[DONE]`` ends the stream."""

    async def behave(wire: Wire) -> None:
        request = wire.request
        model, left = served_as(request, by), TEXT.removeprefix(given(request))
        if not request.streaming:
            await reply(200, completion(left, model=model))(wire)
            return
        out: list[Any] = [delta(model, content=word) for word in left.replace(" ", " \n").split("\n")]
        if broken:
            out.insert(9, b'data: {"id": "chatcmpl-\n\n')
        out.append(delta(model, "stop"))
        if (request.members.get("stream_options") or {}).get("include_usage"):
            out.append(usage_chunk(model))
        await events(*out, *([DONE] if done else []))(wire)

    return behave


def dies_after(words: int, *, silence: float = 0.0) -> Behaviour:
    """The first *words*, then *silence* seconds of nothing, then the connection is closed in the middle of the body."""

    async def behave(wire: Wire) -> None:
        model = wire.request.model
        await events(*(delta(model, content=word + " ") for word in WORDS[:words]), end=False)(wire)
        await asyncio.sleep(0.05)  # what was written shall be read apart from the end
        await wire.sleep(silence)

    return behave


def late(seconds: float) -> Behaviour:
    """The headers at once, the first token after *seconds*."""

    async def behave(wire: Wire) -> None:
        await events(b": wait\n\n", end=False)(wire)
        await wire.sleep(seconds)
        model = wire.request.model
        rest = [*(sse(delta(model, content=word)) for word in TEXT.replace(" ", " \n").split("\n"))]
        rest += [sse(delta(model, "stop")), DONE]
        body = b"".join(rest)
        await wire.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        wire.close_after = False

    return behave


async def mute(wire: Wire) -> None:
    """Accepts, and never answers for two minutes."""
    await wire.sleep(60.0)
    await wire.sleep(60.0)
    wire.close_after = True


def down_at_first(seconds: float) -> Behaviour:
    """503 for *seconds* from the first call on."""
    began: list[float] = []

    async def behave(wire: Wire) -> None:
        began.append(wire.request.at)
        down = wire.request.at - began[0] < seconds
        await (status(503) if down else healthy("A"))(wire)

    return behave


async def no_prefill(wire: Wire) -> None:
    """Healthy, but takes no assistant message as the last one."""
    await (status(400, NO_PREFILL) if given(wire.request) else healthy("B"))(wire)


# ---------------------------------------------------------------- what the caller sees


@dataclass
class Seen:
    """One call as its caller saw it. *error*: the error object, of the answer or of a frame; *last*: the last event."""

    status: int = 0
    text: str = ""
    model: str = ""
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    last: str = ""
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Exactly the sixty words, and nothing that says otherwise."""
        return (self.status, self.text, self.error) == (200, TEXT, None)

    @property
    def honest(self) -> bool:
        """A stream that is not complete says so: its last event is the error."""
        return self.status == 200 and self.error is not None and self.last != "[DONE]" and TEXT.startswith(self.text)


@dataclass
class Outcome:
    """All *calls* of a scenario, and when A and B were asked, in seconds from its first call."""

    calls: list[Seen] = field(default_factory=list)
    at_a: list[float] = field(default_factory=list)
    at_b: list[float] = field(default_factory=list)
    by_a: list[float] = field(default_factory=list)  # when a call began that A served

    @property
    def first(self) -> Seen:
        return self.calls[0]

    def asked_a(self, seconds: float) -> int:
        """How often A was asked in the first *seconds*."""
        return sum(at <= seconds for at in self.at_a)


class Caller:
    """One plain HTTP client."""

    def __init__(self, client: httpx.AsyncClient, model: str) -> None:
        self._client = client
        self._body = {"model": f"hotel/{model}", "messages": [{"role": "user", "content": "Sixty words, please."}]}

    async def whole(self) -> Seen:
        began = time.monotonic()
        response = await self._client.post("/v1/chat/completions", json=self._body)
        seen = Seen(response.status_code, seconds=time.monotonic() - began)
        self._read(seen, response.json())
        return seen

    async def stream(self) -> Seen:
        began = time.monotonic()
        body = {**self._body, "stream": True, "stream_options": {"include_usage": True}}
        async with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
            seen = Seen(response.status_code)
            if seen.status != 200:
                self._read(seen, json.loads(await response.aread()))
            else:
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        seen.last = line.removeprefix("data: ")
                        if seen.last != "[DONE]":
                            self._read(seen, json.loads(seen.last))
        seen.seconds = time.monotonic() - began
        return seen

    @staticmethod
    def _read(seen: Seen, said: dict[str, Any]) -> None:
        seen.error = said.get("error") or seen.error
        seen.usage = said.get("usage") or seen.usage
        seen.model = said.get("model") or seen.model
        for choice in said.get("choices") or ():
            message = choice.get("delta") or choice.get("message") or {}
            seen.text += message.get("content") or ""


Play = Callable[[Caller, Outcome], Awaitable[None]]


async def one_stream(caller: Caller, outcome: Outcome) -> None:
    outcome.calls.append(await caller.stream())


async def one_whole(caller: Caller, outcome: Outcome) -> None:
    outcome.calls.append(await caller.whole())


async def two_streams(caller: Caller, outcome: Outcome) -> None:
    for _ in range(2):
        outcome.calls.append(await caller.stream())


async def paced(caller: Caller, outcome: Outcome) -> None:
    """Calls at a steady pace, and on until A has served again (or for another outage)."""
    began = time.monotonic()
    for n in range(CALLS + int(OUTAGE / PACE)):
        if n >= CALLS and outcome.by_a:
            return
        await asyncio.sleep(max(began + n * PACE - time.monotonic(), 0.0))
        at = time.monotonic() - began
        outcome.calls.append(await caller.whole())
        if outcome.calls[-1].model == "s15":
            outcome.by_a.append(at)


HEALTHY_B = healthy("B")


@dataclass(frozen=True)
class Scenario:
    """*a*: A's behaviours, one for each call, the last one for all later ones."""

    a: tuple[Behaviour, ...]
    b: Behaviour = HEALTHY_B
    play: Play = one_stream


def scenarios() -> dict[str, Scenario]:
    """All sixteen, made anew: some remember when they were first asked."""
    ok = healthy("A")
    limited = {"error": {"message": "slow down", "type": "requests", "code": None}}
    return {
        "S01": Scenario((status(429, limited, headers={"Retry-After": "2"}), ok)),
        "S02": Scenario((status(429, limited),)),
        "S03": Scenario((status(500), ok), play=one_whole),
        "S04": Scenario((status(503),)),
        "S05": Scenario((reset(), ok)),
        "S06": Scenario((mute,)),
        "S07": Scenario((late(20.0),)),
        "S08": Scenario((dies_after(40),)),
        "S09": Scenario((dies_after(20, silence=30.0), ok), play=two_streams),
        "S10": Scenario((healthy("A", broken=True),)),
        "S11": Scenario((healthy("A", done=False),)),
        "S12": Scenario((status(400, TOO_LONG),)),
        "S13": Scenario((status(400, POLICY),)),
        "S14": Scenario((dies_after(40),), b=no_prefill),
        "S15": Scenario((down_at_first(OUTAGE),), play=paced),
        "S16": Scenario((status(503),), play=one_whole),
    }


# ---------------------------------------------------------------- playing them


class Stage:
    """A product, its providers, and the key of the caller."""

    def __init__(self, product: Product, a: FakeProvider, b: FakeProvider) -> None:
        self._product, self._a, self._b = product, a, b
        self._scenarios = scenarios()
        for name, scenario in self._scenarios.items():
            model = name.lower()
            for fake, by, steps in ((a, "A", scenario.a), (b, "B", (scenario.b,))):
                listing = {"object": "list", "data": [{"id": model, "object": "model", "owned_by": "fake"}]}
                fake.route("GET", f"/{model}/v1/models", reply(200, listing))
                fake.script(*steps, model=model)
                url = f"{fake.origin}/{model}/v1"
                self.admin("POST", "/api/providers", json={"name": f"{by}-{name}", "base_url": url, "api_key": "sk-x"})
        self.admin("POST", "/api/providers/discover-all")
        for group in self.admin("GET", "/api/failover-groups")["groups"]:
            entries = sorted(group["entries"], key=lambda entry: entry["provider_name"])
            order = [entry["model_uuid"] for entry in entries]
            self.admin("PUT", f"/api/failover-groups/{group['id']}", json={"priority_order": order})
        self._key = self.admin("POST", "/api/virtual-keys", json={"name": "caller"})["key"]

    def admin(self, method: str, path: str, **given: Any) -> Any:
        return self._product.admin(method, path, **given).json()

    async def play(self) -> dict[str, Outcome]:
        """All scenarios side by side."""
        headers = {"Authorization": f"Bearer {self._key}"}
        async with httpx.AsyncClient(
            base_url=self._product.url, headers=headers, timeout=PATIENCE, trust_env=False
        ) as client:
            found = await asyncio.gather(*(self._one(client, name) for name in self._scenarios))
        return dict(zip(self._scenarios, found, strict=True))

    async def _one(self, client: httpx.AsyncClient, name: str) -> Outcome:
        outcome, began = Outcome(), time.monotonic()
        await self._scenarios[name].play(Caller(client, name.lower()), outcome)
        for fake, at in ((self._a, outcome.at_a), (self._b, outcome.at_b)):
            at += [call.at - began for call in fake.calls if call.model == name.lower()]
        return outcome


@contextmanager
def stage(data_dir: Path, preset: str) -> Iterator[Stage]:
    with ExitStack() as stack:
        a, b = (stack.enter_context(FakeProvider()) for _ in "AB")
        made = Stage(stack.enter_context(Product(data_dir)), a, b)
        made.admin("POST", "/api/settings/preset", json={"name": preset})
        yield made
