"""What happens in a stream when a group's members speak different dialects, as the official SDKs see it."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.upstream.behaviours import Wire
from tests.upstream.server import answer, delta, events, first_event_error, silence, stream
from tests.upstream.spoken import PROMPT
from tests.upstream.vendors_api import generated, message, play, response, said, text, tool_use
from tests.wire.mixed import CHAT, CLAUDE, GATEWAY, GROUP, OPENAI, VERTEX, Mixed

pytestmark = pytest.mark.slow

HI: Any = [{"role": "user", "content": PROMPT}]
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
BROKEN = {"type": "error", "code": "server_error", "message": "It broke.", "param": None, "sequence_number": 0}
WORDS = [f"word{n} " for n in range(60)]


class Clients:
    """``text(dialect)``: one stream of ``hotel/shared-1`` through the dialect's SDK."""

    def __init__(self, hotel: Mixed) -> None:
        self.home = hotel.home
        self.anthropic = anthropic.Anthropic(
            base_url=self.home.product.url, api_key=self.home.key, max_retries=0, timeout=15.0
        )

    def text(self, dialect: str) -> str:
        found: str = getattr(self, dialect)()
        return found

    def messages(self) -> str:
        with self.anthropic.messages.stream(model=GROUP, max_tokens=99, messages=HI) as found:
            final = found.get_final_message()
        assert final.stop_reason == "end_turn"
        return "".join(block.text for block in final.content if block.type == "text")

    def responses(self) -> str:
        with self.home.client.responses.stream(model=GROUP, input=PROMPT) as found:
            final = found.get_final_response()
        assert final.status == "completed"
        return final.output_text

    def chat(self) -> str:
        with self.home.client.chat.completions.stream(model=GROUP, messages=HI) as found:
            list(found)
            choice = found.get_final_completion().choices[0]
        assert choice.finish_reason == "stop"
        return choice.message.content or ""


@pytest.fixture
def clients(hotel: Mixed) -> Iterator[Clients]:
    found = Clients(hotel)
    yield found
    found.anthropic.close()


@pytest.fixture
def settings(hotel: Mixed) -> Iterator[Callable[..., None]]:
    changed: set[str] = set()

    def change(**values: str) -> None:
        changed.update(values)
        hotel.home.settings(**values)

    yield change
    hotel.home.admin("DELETE", "/api/settings", json={"keys": sorted(changed)})


ORDERS = [
    ("messages", "Claude", "Alpha"),
    ("messages", "Alpha", "Claude"),
    ("responses", "OpenAI", "Alpha"),
    ("responses", "Alpha", "OpenAI"),
    ("responses", "Claude", "Gateway"),
    ("chat", "Gateway", "Alpha"),
    ("chat", "Alpha", "Gateway"),
]

#: Claude is asked for a translated answer at its chat layer, which the fake has no breaking streams of.
RECOVERED = [one for one in ORDERS if one[:2] != ("responses", "Claude")]


@pytest.mark.parametrize(("dialect", "first", "second"), ORDERS)
def test_an_error_as_the_first_event_moves_on(hotel, clients, dialect, first, second):
    hotel.order(first, second)
    for vendor in (hotel.claude, hotel.gateway):
        vendor.script(events(b"event: error\ndata: " + json.dumps(OVERLOADED).encode() + b"\n\n"))
    hotel.openai.script(events(b"event: error\ndata: " + json.dumps(BROKEN).encode() + b"\n\n"))
    hotel.a.script(first_event_error())
    {
        "Alpha": lambda: hotel.a.script(stream(["ser", "ved"])),
        "Claude": lambda: hotel.claude.script(message(text("served"))),
        "Gateway": lambda: hotel.gateway.script(message(text("served"))),
        "OpenAI": lambda: hotel.openai.script(response(said("served"))),
    }[second]()
    assert clients.text(dialect) == "served"
    assert [(one[1], one[3], one[4]) for one in hotel.home.trail()] == [
        (first, "provider_error", "charge"),
        (second, None, "success"),
    ]


@pytest.mark.parametrize(("dialect", "first"), [("messages", "Claude"), ("chat", "Gateway")])
def test_pings_are_no_first_token(hotel, clients, settings, dialect, first):
    """failover-loop 78: a tool's name is one."""
    settings(ttft_timeout="700ms")
    hotel.order(first, "Alpha")
    vendor = hotel.claude if first == "Claude" else hotel.gateway
    vendor.script(message(then="pings"))
    assert clients.text(dialect) == "from A"
    assert [(one[1], one[3]) for one in hotel.home.trail()] == [(first, "provider_timeout"), ("Alpha", None)]
    vendor.wait_disconnects(1)

    async def slow_arguments(wire: Wire) -> None:
        await play(wire, [tool_use("f", {"a": "b" * 40})], pause=0.25)

    vendor.script(slow_arguments)
    model = CLAUDE if first == "Claude" else GATEWAY
    with clients.anthropic.messages.stream(model=model, max_tokens=99, messages=HI) as found:
        assert found.get_final_message().content[0].input == {"a": "b" * 40}


@pytest.mark.parametrize(("dialect", "first", "second"), [one for one in ORDERS if one[0] != "responses"])
def test_a_slow_member_is_raced_by_one_of_another_dialect(hotel, clients, settings, dialect, first, second):
    settings(hedging_enabled="true", hedge_delay="100ms")
    hotel.order(first, second)
    fakes = {"Alpha": hotel.a, "Claude": hotel.claude, "Gateway": hotel.gateway}
    fakes[first].script(silence())
    wanted = "from A" if second == "Alpha" else "Hello"
    assert clients.text(dialect) == wanted
    fakes[first].wait_disconnects(1)
    assert [(one[1], one[3]) for one in hotel.home.trail()] == [(first, "hedge_superseded"), (second, None)]


@pytest.mark.parametrize(("dialect", "first", "second"), RECOVERED)
def test_a_stream_that_breaks_is_finished_in_another_dialect(hotel, clients, dialect, first, second):
    """part of beyond 1"""
    path = f"/api/failover-groups/{hotel.group['id']}"
    hotel.home.admin("PUT", path, json={"midstream_recovery": "continue"})
    try:
        hotel.order(first, second)
        whole = "".join(WORDS)
        vendors = {"Claude": hotel.claude, "Gateway": hotel.gateway, "OpenAI": hotel.openai}
        if first == "Alpha":
            hotel.a.script(events(*(delta("m", content=word) for word in WORDS), end=False))
        else:
            cut = response(said(whole), then="cut") if first == "OpenAI" else message(text(whole), then="cut")
            vendors[first].script(cut)
        if second == "Alpha":
            hotel.a.script(stream(["the end."]))
        else:
            vendors[second].script(response(said("the end.")) if second == "OpenAI" else message(text("the end.")))
        assert clients.text(dialect) == whole + "the end."
        row = hotel.home.row()
        assert (row["state"], row["provider_name"], len(row["attempts"])) == ("completed", second, 2)
    finally:
        hotel.home.admin("PUT", path, json={"midstream_recovery": None})


async def test_many_at_once_get_their_own_answers(hotel):
    """Every model by every SDK, streamed, all at the same time."""

    async def echo(wire: Wire) -> None:
        asked = wire.request.json
        turns = asked.get("messages") or asked.get("contents") or asked["input"]
        last = turns if isinstance(turns, str) else turns[-1].get("content") or turns[-1]["parts"]
        word = last if isinstance(last, str) else last[0]["text"]
        path = wire.request.path
        if path.endswith("/messages"):
            await message(text(word))(wire)
        elif path.endswith("/responses"):
            await response(said(word))(wire)
        elif path.endswith("Content"):
            await generated({"text": word})(wire)
        else:
            await answer(word)(wire)

    for vendor in (hotel.a, hotel.claude, hotel.gateway, hotel.vertex, hotel.openai):
        vendor.script(echo)
    url, key = hotel.home.product.url, hotel.home.key
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0) as claude,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as gpt,
    ):

        async def messages(model: str, word: str) -> str:
            said_so: Any = [{"role": "user", "content": word}]
            async with claude.messages.stream(model=model, max_tokens=9, messages=said_so) as found:
                return await found.get_final_text()

        async def responses(model: str, word: str) -> str:
            async with gpt.responses.stream(model=model, input=word) as found:
                return (await found.get_final_response()).output_text

        async def chat(model: str, word: str) -> str:
            said_so: Any = [{"role": "user", "content": word}]
            async with gpt.chat.completions.stream(model=model, messages=said_so) as found:
                return (await found.get_final_completion()).choices[0].message.content or ""

        asked = [
            (ask, model, f"{ask.__name__} of {model}, number {n}")
            for n in range(4)
            for ask in (messages, responses, chat)
            for model in (CHAT, CLAUDE, GATEWAY, VERTEX, OPENAI)
        ]
        got = await asyncio.gather(*(ask(model, word) for ask, model, word in asked))
    assert got == [word for _, _, word in asked]
