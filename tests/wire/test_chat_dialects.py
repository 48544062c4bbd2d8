"""Chat through both clients of OpenAI's official SDK: to a provider that speaks chat, and to those that speak something
else, Anthropic's Messages, Gemini's generateContent, OpenAI's Responses."""

import json
from dataclasses import dataclass
from typing import Any

import openai
import pydantic
import pytest

from tests.upstream.behaviours import as_asked
from tests.upstream.media import PNG
from tests.upstream.server import (
    DONE,
    Behaviour,
    answer,
    cut_after,
    delta,
    events,
    stall_after,
    status,
    stream,
)
from tests.upstream.spoken import PROMPT
from tests.upstream.vendors_api import (
    called,
    generated,
    message,
    reasoned,
    refused_by_anthropic,
    response,
    said,
    text,
    thinking,
    tool_use,
)
from tests.wire.clients import one_client
from tests.wire.mixed import CHAT, GATEWAY, GOOGLE, GOOGLE_IMAGE, PRO, VERTEX, Mixed
from tests.wire.product import eventually

pytestmark = pytest.mark.slow

HI: Any = [{"role": "user", "content": PROMPT}]
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
ROME = {"city": "Rome"}
WRITTEN = '{"name": "Rome", "people": 2800000}'


class City(pydantic.BaseModel):
    name: str
    people: int


@dataclass
class Dialect:
    """A model of a dialect, and its provider's answers in it."""

    model: str
    vendor: str
    hello: Behaviour
    call: Behaviour
    written: Behaviour
    broken: Behaviour
    endless: Behaviour
    usage: tuple[int, int]
    thinks: bool = True


CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": json.dumps(ROME)}}
DIALECTS = {
    "chat": Dialect(
        CHAT,
        "a",
        as_asked(answer("Hello there", reasoning_content="Hm."), stream(["Hello ", "there"], reasoning=["H", "m."])),
        as_asked(
            answer("I look.", finish="tool_calls", tool_calls=[CALL]),
            events(
                delta(role="assistant", content="I look."),
                delta(tool_calls=[{"index": 0, **CALL}]),
                delta("m", "tool_calls"),
                DONE,
            ),
        ),
        as_asked(answer(WRITTEN), stream([WRITTEN[:9], WRITTEN[9:]])),
        events(delta(content="Hello")),
        stall_after(1),
        (3, 5),
    ),
    "messages": Dialect(
        GATEWAY,
        "gateway",
        message(thinking("Hm."), text("Hello there")),
        message(text("I look."), tool_use("get_weather", ROME)),
        message(text(WRITTEN)),
        message(text("Hello"), then="ends"),
        message(text("one two"), then="endless"),
        (1112, 30),
    ),
    "gemini": Dialect(
        VERTEX,
        "vertex",
        generated({"text": "Hm.", "thought": True}, {"text": "Hello there"}),
        generated(
            {"text": "I look."}, {"functionCall": {"name": "get_weather", "args": ROME}, "thoughtSignature": "CvQB"}
        ),
        generated({"text": WRITTEN}),
        generated({"text": "Hello"}, then="ends"),
        generated({"text": "one two"}, then="endless"),
        (9, 10),
        thinks=False,
    ),
    "responses": Dialect(
        PRO,
        "openai",
        response(reasoned("Hm."), said("Hello there")),
        response(said("I look."), called("get_weather", json.dumps(ROME))),
        response(said(WRITTEN)),
        response(said("Hello"), then="ends"),
        response(said("one two"), then="endless"),
        (36, 87),
    ),
}


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


def script(hotel: Mixed, dialect: Dialect, *steps: Behaviour) -> Any:
    upstream = getattr(hotel, dialect.vendor)
    upstream.script(*steps)
    return upstream


def test_an_answer(hotel, client, dialect):
    upstream = script(hotel, dialect, dialect.hello)
    found = client.chat.completions.create(
        model=dialect.model,
        messages=[{"role": "developer", "content": "Be brief."}, *HI],
        max_completion_tokens=50,
        reasoning_effort="low",
    )
    choice = found.choices[0]
    assert (choice.message.content, choice.finish_reason, found.object) == ("Hello there", "stop", "chat.completion")
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == dialect.usage
    assert getattr(choice.message, "reasoning_content", None) == ("Hm." if dialect.thinks else None)
    assert "Be brief." in json.dumps(upstream.calls[0].json)
    assert upstream.calls[0].path.endswith("/chat/completions") == (dialect.vendor == "a")
    row = hotel.home.row()
    assert (row["endpoint_type"], row["tokens_prompt"], row["tokens_completion"]) == ("chat", *dialect.usage)


def test_a_stream_with_its_usage(hotel, client, dialect):
    script(hotel, dialect, dialect.hello)
    with client.chat.completions.stream(
        model=dialect.model, messages=HI, stream_options={"include_usage": True}, reasoning_effort="low"
    ) as found:
        kinds = {event.type for event in found}
        final = found.get_final_completion()
    assert "content.delta" in kinds
    assert (final.choices[0].message.content, final.choices[0].finish_reason) == ("Hello there", "stop")
    assert (final.usage.prompt_tokens, final.usage.completion_tokens) == dialect.usage
    chunks = list(client.chat.completions.create(model=dialect.model, messages=HI, stream=True))
    assert all(chunk.choices for chunk in chunks), "usage comes only to who asked"
    thoughts = [getattr(chunk.choices[0].delta, "reasoning_content", None) or "" for chunk in chunks]
    assert "".join(thoughts) == ("Hm." if dialect.thinks else "")
    assert getattr(final.choices[0].message, "reasoning_content", None) == ("Hm." if dialect.thinks else None)
    assert eventually(lambda: hotel.home.row()["state"] == "completed")
    assert hotel.home.row()["tokens_completion"] == dialect.usage[1]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_there_and_back(hotel, client, dialect, streamed):
    upstream = script(hotel, dialect, dialect.call, dialect.hello)
    asked: Any = {"model": dialect.model, "tools": [TOOL], "tool_choice": "auto"}
    if streamed:
        with client.chat.completions.stream(**asked, messages=HI) as got:
            list(got)
            choice = got.get_final_completion().choices[0]
    else:
        choice = client.chat.completions.create(**asked, messages=HI).choices[0]
    (call,) = choice.message.tool_calls
    assert (choice.message.content, choice.finish_reason) == ("I look.", "tool_calls")
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", ROME)
    turn = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
    result = {"role": "tool", "tool_call_id": call.id, "content": "sun"}
    found = client.chat.completions.create(**asked, messages=[*HI, turn, result])
    assert found.choices[0].message.content == "Hello there"
    sent = upstream.calls[-1].json
    if dialect.vendor == "gateway":
        assert sent["messages"][1]["content"][-1] == {
            "type": "tool_use",
            "id": call.id,
            "name": "get_weather",
            "input": ROME,
        }
        assert sent["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": call.id, "content": "sun"}]
    elif dialect.vendor == "vertex":
        assert sent["contents"][1]["parts"][-1] == {
            "functionCall": {"name": "get_weather", "args": ROME},
            "thoughtSignature": "CvQB",
        }
        answered = {"functionResponse": {"name": "get_weather", "response": {"result": "sun"}}}
        assert sent["contents"][2] == {"role": "user", "parts": [answered]}
    elif dialect.vendor == "a":
        assert sent["messages"] == [*HI, turn, result] and sent["tools"] == [TOOL]
    else:
        assert [item.get("type") for item in sent["input"]][-2:] == ["function_call", "function_call_output"]
        assert sent["input"][-1]["call_id"] == call.id and sent["store"] is False


@pytest.mark.parametrize("streamed", [False, True])
def test_structured_output(hotel, client, dialect, streamed):
    upstream = script(hotel, dialect, dialect.written)
    asked: Any = {"model": dialect.model, "messages": HI, "response_format": City}
    if streamed:
        with client.chat.completions.stream(**asked) as got:
            parsed = [event.parsed for event in got if event.type == "content.done"]
            found = got.get_final_completion()
        assert parsed == [City(name="Rome", people=2800000)]
    else:
        found = client.chat.completions.parse(**asked)
    assert found.choices[0].message.parsed == City(name="Rome", people=2800000)
    sent = upstream.calls[0].json
    if dialect.vendor == "vertex":
        assert sent["generationConfig"]["responseJsonSchema"]["required"] == ["name", "people"]
    elif dialect.vendor == "a":
        assert sent["response_format"]["json_schema"]["schema"]["required"] == ["name", "people"]
    elif dialect.vendor == "openai":
        assert sent["text"]["format"]["schema"]["required"] == ["name", "people"]
    else:
        assert sent["output_config"]["format"]["schema"]["required"] == ["name", "people"]


def test_a_picture(hotel, client, dialect):
    upstream = script(hotel, dialect, dialect.hello)
    content: Any = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    found = client.chat.completions.create(model=dialect.model, messages=[{"role": "user", "content": content}])
    assert found.choices[0].message.content == "Hello there"
    sent = upstream.calls[0].json
    wanted = {
        "a": content[1],
        "gateway": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        "vertex": {"inlineData": {"mimeType": "image/png", "data": PNG}},
        "openai": {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
    }[dialect.vendor]
    turn = sent.get("messages") or sent.get("contents") or sent.get("input")
    assert wanted in (turn[0].get("content") or turn[0].get("parts"))


def test_a_stream_that_breaks_is_an_error(hotel, client, dialect):
    """part of v1-api 53, part of v1-api 75"""
    script(hotel, dialect, dialect.broken)
    got = []
    with pytest.raises(openai.APIError, match="stream truncated"):
        got.extend(client.chat.completions.create(model=dialect.model, messages=HI, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in got if chunk.choices) == "Hello"
    assert not any(choice.finish_reason for chunk in got for choice in chunk.choices)


@one_client
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (401, openai.AuthenticationError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
def test_what_anthropic_refuses_is_of_openais_type(hotel, client, code, kind):
    hotel.gateway.script(refused_by_anthropic(code, "no, says sk-ant-fedcba9876543210"))
    with pytest.raises(kind) as caught:
        client.chat.completions.create(model=GATEWAY, messages=HI)
    assert caught.value.status_code == code and "sk-ant" not in str(caught.value)
    assert isinstance(caught.value.code, str) and caught.value.request_id


def test_leaving_in_mid_stream_stops_the_provider(hotel, client, dialect):
    upstream = script(hotel, dialect, dialect.endless)
    with client.chat.completions.create(model=dialect.model, messages=HI, stream=True) as found:
        assert any(chunk.choices and chunk.choices[0].delta.content for chunk in found)
    upstream.wait_disconnects(1)


@one_client
def test_a_model_of_google_paints(hotel, client):
    part = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    hotel.google.script(generated({"text": "Here."}, part))
    found = client.chat.completions.create(
        model=GOOGLE_IMAGE, messages=HI, extra_body={"modalities": ["text", "image"]}
    )
    picture = found.choices[0].message.model_extra["images"][0]
    assert picture["image_url"]["url"] == f"data:image/png;base64,{PNG}" and picture["type"] == "image_url"
    (call,) = hotel.google.calls
    assert call.path == "/v1beta/models/gemini-3-pro-image:generateContent"
    assert call.json["generationConfig"]["responseModalities"] == ["TEXT", "IMAGE"]
    assert (call.headers["x-goog-api-key"], call.headers.get("authorization")) == ("AIza0123456789abcdef", None)
    chunks = list(client.chat.completions.create(model=GOOGLE_IMAGE, messages=HI, stream=True))
    painted = [chunk.choices[0].delta.model_extra["images"] for chunk in chunks if chunk.choices[0].delta.model_extra]
    assert painted[0][0]["image_url"]["url"].endswith(PNG)


@one_client
def test_a_document_takes_googles_own_route_and_talk_its_layer(hotel, client):
    pdf: Any = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"}}
    assert client.chat.completions.create(model=GOOGLE, messages=[{"role": "user", "content": [pdf]}]).choices
    assert client.chat.completions.create(model=GOOGLE, messages=HI).choices[0].message.content == "Hello"
    native, layer = hotel.google.calls
    assert native.path == "/v1beta/models/gemini-3-flash:generateContent"
    assert native.json["contents"][0]["parts"] == [{"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0x"}}]
    assert layer.path == "/v1beta/openai/chat/completions"


@one_client
def test_a_model_that_is_no_chat_model_is_found_at_responses(hotel, client):
    refusal = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
    hotel.openai.script(status(404, {"error": {"message": refusal}}), response(said("Hello there")))
    for _ in range(2):
        found = client.chat.completions.create(model="OpenAI/gpt-5", messages=HI)
        assert found.choices[0].message.content == "Hello there"
    paths = [call.path.removeprefix("http://api.openai.com") for call in hotel.openai.calls]
    assert paths == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]


@one_client
def test_chat_stays_as_it_is_where_chat_is_spoken(hotel, client):
    hotel.a.script(answer("Hello"), cut_after(1, clean=True))
    found = client.chat.completions.create(model=CHAT, messages=HI, seed=9007199254740993)
    assert found.choices[0].message.content == "Hello"
    assert b"9007199254740993" in hotel.a.calls[0].body
