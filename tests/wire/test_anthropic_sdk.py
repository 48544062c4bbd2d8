"""Anthropic's official SDK as the client, sync and async: of a provider that speaks its dialect, of one that speaks
chat, and of a group whose first member, Anthropic's, is overloaded."""

import asyncio
import json
from typing import Any

import anthropic
import pydantic
import pytest

from tests.upstream.media import PNG
from tests.upstream.server import (
    Behaviour,
    answer,
    cut_after,
    error_after,
    reply,
    silence,
    stall_after,
    status,
    stream,
    tools_stream,
)
from tests.upstream.vendors_api import (
    SIGNATURE,
    message,
    refused_by_anthropic,
    text,
    thinking,
    tool_use,
)
from tests.wire.clients import both, one_client
from tests.wire.mixed import CHAT, CLAUDE, GROUP, Mixed
from tests.wire.product import eventually

pytestmark = pytest.mark.slow

HI = [{"role": "user", "content": "hi"}]
TOOL = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
OVERLOADED = refused_by_anthropic(529, "Overloaded")


class City(pydantic.BaseModel):
    name: str
    people: int


class Target:
    """Somebody to ask: *model*, how to script the one who answers, and what was sent to it."""

    def __init__(self, hotel: Mixed, name: str) -> None:
        self.hotel, self.name = hotel, name
        self.native = name == "native"
        self.model = {"native": CLAUDE, "translated": CHAT, "failover": GROUP}[name]

    def play(self, native: Behaviour, chat: Behaviour, *more: tuple[Behaviour, Behaviour]) -> None:
        pairs = [(native, chat), *more]
        if self.name == "failover":
            self.hotel.order("Claude", "Alpha")
        self.hotel.claude.script(*([one for one, _ in pairs] if self.native else [OVERLOADED]))
        self.hotel.a.script(*(one for _, one in pairs))

    @property
    def upstream(self) -> Any:
        return self.hotel.claude if self.native else self.hotel.a

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [call.json for call in self.upstream.calls]


@pytest.fixture(params=["native", "translated", "failover"])
def target(hotel: Mixed, request: pytest.FixtureRequest) -> Target:
    return Target(hotel, request.param)


@pytest.fixture(scope="module")
def clients(shared_hotel: Mixed):
    """The key goes in either header: what one of them sends is what Claude Code sends with ANTHROPIC_AUTH_TOKEN."""

    def other(*, api_key: str, **asked: Any) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(auth_token=api_key, api_key=None, **asked)

    with both(shared_hotel.home.product.url, shared_hotel.home.key, anthropic.Anthropic, other) as found:
        yield found


def texts(found: Any) -> str:
    return "".join(block.text for block in found.content if block.type == "text")


# -- messages


@pytest.mark.parametrize("system", ["Be brief.", [{"type": "text", "text": "Be brief."}]], ids=["string", "blocks"])
def test_a_message(target, client, system):
    target.play(message(text("Hello")), answer("Hello"))
    found = client.messages.create(model=target.model, max_tokens=50, system=system, messages=HI, stop_sequences=["x"])
    assert (found.type, found.role, texts(found), found.stop_reason) == ("message", "assistant", "Hello", "end_turn")
    assert found.usage.input_tokens > 0 and found.usage.output_tokens > 0
    assert found.model in ("claude-x", "glm-4.6", "shared-1") and found._request_id
    (sent,) = target.sent
    if target.native:
        assert sent == {
            "model": "claude-x",
            "max_tokens": 50,
            "system": system,
            "messages": HI,
            "stop_sequences": ["x"],
        }
    else:
        assert sent["messages"] == [{"role": "system", "content": "Be brief."}, *HI] and sent["stop"] == ["x"]
    row = target.hotel.home.row()
    assert (row["endpoint_type"], row["state"], row["streaming"]) == ("messages", "completed", False)
    if target.name == "failover":
        assert [(one[1], one[2]) for one in target.hotel.home.trail()] == [("Claude", 529), ("Alpha", 200)]


def test_a_stream(target, client):
    target.play(message(text("one two three")), stream(["one ", "two ", "three"]))
    with client.messages.stream(model=target.model, max_tokens=50, messages=HI) as found:
        assert "".join(found.text_stream) == "one two three"
        final = found.get_final_message()
        assert found.request_id
    assert (texts(final), final.stop_reason) == ("one two three", "end_turn")
    assert final.usage.output_tokens > 0
    assert eventually(lambda: target.hotel.home.row()["state"] == "completed")
    row = target.hotel.home.row()
    assert row["streaming"] and row["tokens_prompt"] > 0 and row["tokens_completion"] > 0


def test_raw_events_of_a_stream(target, client):
    target.play(message(text("Hello")), stream(["Hel", "lo"]))
    kinds = [event.type for event in client.messages.create(model=target.model, max_tokens=9, messages=HI, stream=True)]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 1


def test_an_answer_that_is_cut_short_by_its_limit(target, client):
    target.play(message(text("Hel"), stop="max_tokens"), answer("Hel", finish="length"))
    assert client.messages.create(model=target.model, max_tokens=1, messages=HI).stop_reason == "max_tokens"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_there_and_back(target, client, streamed):
    calls = [{"id": "call_1", "type": "function", "function": {"name": TOOL["name"], "arguments": '{"city":"Rome"}'}}]
    chat = tools_stream() if streamed else answer(None, finish="tool_calls", tool_calls=calls)
    target.play(
        message(text("I look."), tool_use(TOOL["name"], {"city": "Rome"})),
        chat,
        (message(text("Sunny.")), answer("Sunny.")),
    )
    asked: dict[str, Any] = {"model": target.model, "max_tokens": 50, "tools": [TOOL], "tool_choice": {"type": "any"}}
    if streamed:
        with client.messages.stream(**asked, messages=HI) as events:
            assert "input_json" in [event.type for event in events]
            found = events.get_final_message()
    else:
        found = client.messages.create(**asked, messages=HI)
    use = found.content[-1]
    assert (found.stop_reason, use.type, use.name, use.input) == (
        "tool_use",
        "tool_use",
        TOOL["name"],
        {"city": "Rome"},
    )
    result = {"type": "tool_result", "tool_use_id": use.id, "content": [{"type": "text", "text": "sun"}]}
    said = [*HI, {"role": "assistant", "content": found.content}, {"role": "user", "content": [result]}]
    assert texts(client.messages.create(**asked, messages=said)) == "Sunny."
    turns = target.sent[-1]["messages"]
    if target.native:
        assert turns[2] == {"role": "user", "content": [result]} and turns[1]["content"][-1]["id"] == use.id
    else:
        assert turns[-1] == {"role": "tool", "tool_call_id": use.id, "content": "sun"}
        assert turns[-2]["tool_calls"][0]["id"] == use.id
        assert json.loads(turns[-2]["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}
        assert target.sent[0]["tools"][0]["function"]["parameters"] == TOOL["input_schema"]
        assert target.sent[0]["tool_choice"] == "required"


@pytest.mark.parametrize("streamed", [False, True])
def test_structured_output(target, client, streamed):
    written = '{"name": "Rome", "people": 2800000}'
    target.play(message(text(written)), stream(written) if streamed else answer(written))
    asked: Any = {"model": target.model, "max_tokens": 50, "messages": HI, "output_format": City}
    if streamed:
        with client.messages.stream(**asked) as events:
            found = events.get_final_message()
    else:
        found = client.messages.parse(**asked)
    assert found.parsed_output == City(name="Rome", people=2800000)
    (sent,) = target.sent
    form = sent["output_config"]["format"] if target.native else sent["response_format"]["json_schema"]
    assert form["schema"]["required"] == ["name", "people"]


def test_a_picture(target, client):
    target.play(message(text("A dot.")), answer("A dot."))
    inline = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    said = [{"role": "user", "content": [inline, linked, {"type": "text", "text": "What is it?"}]}]
    assert texts(client.messages.create(model=target.model, max_tokens=9, messages=said)) == "A dot."
    content = target.sent[0]["messages"][0]["content"]
    if target.native:
        assert content == said[0]["content"]
    else:
        urls = [part["image_url"]["url"] for part in content[:2]]
        assert urls == [f"data:image/png;base64,{PNG}", "https://example.org/a.png"]
        assert content[2] == {"type": "text", "text": "What is it?"}


@pytest.mark.parametrize("streamed", [False, True])
def test_thinking_survives_with_its_signature_and_comes_back(hotel, client, streamed):
    blocks = [thinking("Hm, let me see."), {"type": "redacted_thinking", "data": "EmwKAhgBEgy"}, text("Hello")]
    hotel.claude.script(message(*blocks))
    asked: dict[str, Any] = {
        "model": CLAUDE,
        "max_tokens": 2048,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "extra_headers": {"anthropic-beta": "interleaved-thinking-2025-05-14"},
    }
    if streamed:
        with client.messages.stream(**asked, messages=HI) as events:
            found = events.get_final_message()
    else:
        found = client.messages.create(**asked, messages=HI)
    assert [block.type for block in found.content] == ["thinking", "redacted_thinking", "text"]
    assert (found.content[0].thinking, found.content[0].signature) == ("Hm, let me see.", SIGNATURE)
    assert (found.usage.cache_read_input_tokens, found.usage.cache_creation_input_tokens) == (1000, 100)
    said = [*HI, {"role": "assistant", "content": found.content}, {"role": "user", "content": "go on"}]
    client.messages.create(**asked, messages=said)
    first, second = hotel.claude.calls
    assert first.path == "/v1/messages" and first.json["thinking"] == asked["thinking"]
    assert first.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14"
    assert (first.headers["x-api-key"], first.headers["anthropic-version"]) == ("sk-ant-0123456789abcdef", "2023-06-01")
    assert second.json["messages"][1]["content"] == blocks
    row = hotel.home.row()
    assert (row["tokens_prompt"], row["tokens_prompt_cache_hit"]) == (1112, 1000)


def test_a_group_forgets_thinking_where_nobody_could_read_it(hotel, client):
    """v1-api 70"""
    hotel.order("Claude", "Alpha")
    hotel.claude.script(message(thinking("Hm."), text("yes?")), OVERLOADED)
    hotel.a.script(answer("from A"))
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    asked = {"model": GROUP, "max_tokens": 99, "system": system}
    first = client.messages.create(**asked, messages=HI)
    said = [*HI, {"role": "assistant", "content": first.content}, {"role": "user", "content": "go on"}]
    assert texts(client.messages.create(**asked, messages=said)) == "from A"
    untouched = hotel.claude.calls[1].json
    assert untouched["messages"][1]["content"][0]["signature"] == SIGNATURE and untouched["system"] == system
    assert hotel.a.calls[0].json == {
        "model": "shared-1",
        "max_tokens": 99,
        "messages": [
            {"role": "system", "content": "Be brief."},
            *HI,
            {"role": "assistant", "content": "yes?"},
            {"role": "user", "content": "go on"},
        ],
    }


def test_tokens_are_counted(hotel, client):
    hotel.claude.route("POST", "/v1/messages/count_tokens", reply(200, {"input_tokens": 14}))
    hotel.order("Claude", "Alpha")
    asked: dict[str, Any] = {"messages": HI, "system": "Be brief.", "tools": [TOOL]}
    for model in (CLAUDE, GROUP):
        assert client.messages.count_tokens(model=model, **asked).input_tokens == 14
    estimated = client.messages.count_tokens(model=CHAT, **asked).input_tokens
    assert 5 < estimated < 60 and not hotel.a.calls
    assert [call.json["model"] for call in hotel.claude.requests] == ["claude-x", "shared-1"]


# -- errors


@one_client
@pytest.mark.parametrize(
    ("code", "kind", "shown"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.RequestTooLargeError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.OverloadedError, "api_error"),
    ],
)
@pytest.mark.parametrize("name", ["native", "translated"])
def test_what_a_provider_refuses_is_of_its_type(hotel, client, name, code, kind, shown):
    """part of v1-api 51"""
    target = Target(hotel, name)
    target.play(refused_by_anthropic(code, "no, says sk-ant-0123456789abcdef"), status(code))
    with pytest.raises(kind) as caught:
        client.messages.create(model=target.model, max_tokens=5, messages=HI)
    found = caught.value
    assert found.status_code == code and found.request_id
    assert (found.body["type"], found.body["error"]["type"]) == ("error", shown)
    assert "sk-ant" not in str(found)


def test_what_the_gateway_refuses_is_of_its_type(hotel, client):
    """v1-api 51"""
    asked: dict[str, Any] = {"max_tokens": 5, "messages": HI}
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(model="hotel/nothing", **asked)
    assert missing.value.body["error"]["type"] == "not_found_error" and missing.value.request_id
    carrier = "api_key" if client.api_key else "auth_token"
    with pytest.raises(anthropic.AuthenticationError) as stranger:
        client.with_options(**{carrier: "sk-" + "0" * 32}).messages.create(model=CHAT, **asked)
    assert stranger.value.body == {
        "type": "error",
        "error": {"type": "authentication_error", "message": "invalid virtual key"},
    }
    with pytest.raises(anthropic.BadRequestError, match="anthropic: model is required"):
        client.messages.create(model="", **asked)
    with pytest.raises(anthropic.NotFoundError):
        client.messages.count_tokens(model="hotel/nothing", messages=HI)


@one_client
def test_everybody_overloaded(hotel, client):
    hotel.order("Claude", "Alpha", "Beta", "Gateway", "OpenAI")
    for vendor in (hotel.claude, hotel.gateway, hotel.a, hotel.b, hotel.openai):
        vendor.script(status(503))
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model=GROUP, max_tokens=5, messages=HI)
    assert (caught.value.status_code, caught.value.body["error"]["type"]) == (503, "overloaded_error")
    assert {one[1] for one in hotel.home.trail()} == {"Claude", "Alpha", "Beta", "Gateway", "OpenAI"}


def test_a_limit_says_when_to_come_back(hotel, client):
    """part of failover-loop 56, part of failover-loop 99"""
    hotel.claude.script(refused_by_anthropic(429, "slow down", retry_after=1))
    with pytest.raises(anthropic.RateLimitError) as limited:
        client.messages.create(model=CLAUDE, max_tokens=5, messages=HI)
    assert limited.value.response.headers["retry-after"] == "1" and len(hotel.claude.calls) == 2
    assert limited.value.body["error"]["type"] == "rate_limit_error"


def test_the_sdk_tries_again_by_itself(hotel, client):
    hotel.claude.script(refused_by_anthropic(529, "Overloaded"), message(text("Hello")))
    found = client.with_options(max_retries=1).messages.create(model=CLAUDE, max_tokens=5, messages=HI)
    assert texts(found) == "Hello" and len(hotel.claude.calls) == 2


@pytest.mark.parametrize("how", ["error", "cut"])
@pytest.mark.parametrize("name", ["native", "translated"])
def test_a_stream_that_breaks_is_an_error_and_no_end(hotel, client, name, how):
    """part of v1-api 53"""
    target = Target(hotel, name)
    broken = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    target.play(
        message(text("one two"), then=broken if how == "error" else "cut"),
        error_after(2, {"message": "Overloaded"}) if how == "error" else cut_after(2, clean=True),
    )
    got = []
    with (
        pytest.raises(anthropic.APIStatusError, match="Overloaded" if how == "error" else "stream "),
        client.messages.stream(model=target.model, max_tokens=5, messages=HI) as found,
    ):
        got.extend(found.text_stream)
    assert "".join(got) in ("one two", "tok0 tok1 ")
    assert eventually(lambda: hotel.home.row()["state"] == "failed")


def test_leaving_in_mid_stream_stops_the_provider(target, client):
    """v1-api 44: messages"""
    target.play(message(text("one two"), then="endless"), stall_after(2))
    with client.messages.stream(model=target.model, max_tokens=50, messages=HI) as found:
        assert next(iter(found.text_stream))
    target.upstream.wait_disconnects(1)
    assert eventually(lambda: target.hotel.home.row()["error_kind"] == "client_disconnect")
    assert target.hotel.home.row()["tokens_completion"] is not None


def test_a_timeout_of_the_client_stops_the_provider(target, client):
    target.play(silence(), silence())
    with pytest.raises(anthropic.APITimeoutError):
        client.with_options(timeout=0.5).messages.create(model=target.model, max_tokens=50, messages=HI)
    target.upstream.wait_disconnects(1)


async def test_a_task_that_is_cancelled_stops_the_provider(target):
    """part of v1-api 44"""
    target.play(silence(), silence())
    home = target.hotel.home
    async with anthropic.AsyncAnthropic(base_url=home.product.url, auth_token=home.key, api_key=None) as client:
        task = asyncio.create_task(client.messages.create(model=target.model, max_tokens=50, messages=HI))
        await target.upstream.until(lambda: len(target.upstream.calls) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await target.upstream.until(lambda: target.upstream.disconnects == 1)
