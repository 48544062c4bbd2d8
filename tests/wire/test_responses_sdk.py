"""OpenAI's official SDK at ``/v1/responses``, sync and async: of OpenAI itself (as it came), of a chat provider, of
Anthropic and Gemini (all translated), and of a group whose first member fails."""

import json
from typing import Any

import openai
import pydantic
import pytest

from tests.upstream.media import PNG
from tests.upstream.server import (
    Behaviour,
    answer,
    cut_after,
    delta,
    error_after,
    events,
    silence,
    stall_after,
    status,
    stream,
    tools_stream,
)
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
from tests.wire.mixed import CHAT, GATEWAY, GROUP, OPENAI, VERTEX, Mixed
from tests.wire.product import eventually

pytestmark = pytest.mark.slow

TOOL: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}
ROME = '{"city":"Rome"}'


class City(pydantic.BaseModel):
    name: str
    people: int


class Target:
    """Somebody to ask: *model*, how to script the one who answers, and what was sent to it."""

    def __init__(self, hotel: Mixed, name: str) -> None:
        self.hotel, self.name = hotel, name
        self.native = name == "native"
        self.model = {"native": OPENAI, "translated": CHAT, "failover": GROUP}[name]
        self.upstream = hotel.openai if self.native else hotel.a

    def play(self, native: Behaviour, chat: Behaviour, *more: tuple[Behaviour, Behaviour]) -> None:
        pairs = [(native, chat), *more]
        if self.name == "failover":
            self.hotel.order("OpenAI", "Alpha")
        self.hotel.openai.script(*([one for one, _ in pairs] if self.native else [status(503)]))
        self.hotel.a.script(*(one for _, one in pairs))

    @property
    def sent(self) -> list[dict[str, Any]]:
        return [call.json for call in self.upstream.calls]


@pytest.fixture(params=["native", "translated", "failover"])
def target(hotel: Mixed, request: pytest.FixtureRequest) -> Target:
    return Target(hotel, request.param)


def calls_of(found: Any) -> list[tuple[str, str]]:
    return [(item.name, item.arguments) for item in found.output if item.type == "function_call"]


def test_a_response(target, client):
    target.play(response(said("Hello")), answer("Hello"))
    found = client.responses.create(
        model=target.model, input="hi", instructions="Be brief.", max_output_tokens=50, metadata={"a": "b"}, store=False
    )
    assert (found.output_text, found.status, found.object, found.store) == ("Hello", "completed", "response", False)
    assert found.usage.input_tokens > 0 and found.usage.total_tokens > found.usage.output_tokens
    assert (found.error, found.incomplete_details) == (None, None) and found._request_id
    (sent,) = target.sent
    if target.native:
        assert (sent["model"], sent["input"], sent["metadata"]) == ("gpt-5", "hi", {"a": "b"})
    else:
        assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
        assert sent["max_tokens"] == 50 and found.instructions == "Be brief." and found.metadata == {"a": "b"}
    row = target.hotel.home.row()
    assert (row["endpoint_type"], row["state"], row["tokens_prompt"]) == (
        "responses",
        "completed",
        found.usage.input_tokens,
    )
    if target.name == "failover":
        assert [(one[1], one[2]) for one in target.hotel.home.trail()] == [("OpenAI", 503), ("Alpha", 200)]


def test_a_stream(target, client):
    target.play(
        response(reasoned("First this.", "Then that."), said("one two three")),
        stream(["one ", "two ", "three"], reasoning=["First this.", " Then that."]),
    )
    with client.responses.stream(model=target.model, input="hi", reasoning={"summary": "auto"}) as found:
        got = list(found)
        final = found.get_final_response()
    assert [event.sequence_number for event in got] == list(range(len(got)))
    kinds = [event.type for event in got]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    assert "".join(event.delta for event in got if event.type == "response.output_text.delta") == "one two three"
    summary = "".join(event.delta for event in got if event.type == "response.reasoning_summary_text.delta")
    assert summary.startswith("First this.")
    assert (final.output_text, [item.type for item in final.output]) == ("one two three", ["reasoning", "message"])
    assert final.output[0].summary[0].text.startswith("First this.") and final.usage.output_tokens > 0
    assert eventually(lambda: target.hotel.home.row()["state"] == "completed")


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_there_and_back(target, client, streamed):
    calls = [{"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ROME}}]
    target.play(
        response(reasoned("Hm."), called("get_weather", ROME)),
        tools_stream() if streamed else answer(None, finish="tool_calls", tool_calls=calls),
        (response(said("Sunny.")), answer("Sunny.")),
    )
    asked: Any = {"model": target.model, "tools": [TOOL], "tool_choice": "required"}
    given: Any = [{"role": "user", "content": "How is Rome?"}]
    if streamed:
        with client.responses.stream(**asked, input=given) as got:
            found = got.get_final_response()
    else:
        found = client.responses.create(**asked, input=given)
    assert calls_of(found) == [("get_weather", ROME)]
    call = found.output[-1]
    # What came goes back as it is, which is how OpenAI's guide does it; only a stream's has a member of the SDK's own.
    given += [item.to_dict() for item in found.output] if streamed else found.output
    if streamed:
        given[-1].pop("parsed_arguments", None)
    given.append({"type": "function_call_output", "call_id": call.call_id, "output": "sun"})
    assert client.responses.create(**asked, input=given).output_text == "Sunny."
    if not target.native:
        assert target.sent[0]["tools"][0]["function"]["strict"] is True
        assistant, tool = target.sent[-1]["messages"][1:]
        assert assistant["tool_calls"][0]["id"] == tool["tool_call_id"] == call.call_id
        assert (tool["role"], tool["content"]) == ("tool", "sun")


@one_client
def test_two_calls_at_once(hotel, client):
    """v1-api 81"""

    def fragment(at: int, arguments: str, **more: Any) -> dict[str, Any]:
        return delta("glm-4.6", tool_calls=[{"index": at, **more, "function": {"arguments": arguments}}])

    def opener(at: int) -> dict[str, Any]:
        call = {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": f"f{at}", "arguments": ""}}
        return delta("glm-4.6", role="assistant", tool_calls=[call])

    frames = [opener(0), opener(1), fragment(0, '{"a"'), fragment(1, '{"b"'), fragment(0, ":1}"), fragment(1, ":2}")]
    hotel.a.script(events(*frames, delta("glm-4.6", "tool_calls"), b"data: [DONE]\n\n"))
    with client.responses.stream(model=CHAT, input="hi", tools=[TOOL]) as found:
        got = list(found)
    done = [event.item for event in got if event.type == "response.output_item.done"]
    assert [(item.name, item.arguments) for item in done] == [("f0", '{"a":1}'), ("f1", '{"b":2}')]
    assert [event.sequence_number for event in got] == list(range(len(got)))


@pytest.mark.parametrize("streamed", [False, True])
def test_structured_output(target, client, streamed):
    written = '{"name": "Rome", "people": 2800000}'
    target.play(response(said(written)), answer(written))
    if streamed:
        with client.responses.stream(model=target.model, input="Rome?", text_format=City) as got:
            found = got.get_final_response()
    else:
        found = client.responses.parse(model=target.model, input="Rome?", text_format=City)
    assert found.output_parsed == City(name="Rome", people=2800000)
    (sent,) = target.sent
    if target.native:
        assert sent["text"]["format"]["schema"]["title"] == "City"
    else:
        wanted = sent["response_format"]
        assert (wanted["type"], wanted["json_schema"]["name"], wanted["json_schema"]["strict"]) == (
            "json_schema",
            "City",
            True,
        )
        assert wanted["json_schema"]["schema"]["required"] == ["name", "people"]


def test_a_picture_and_a_file(target, client):
    target.play(response(said("A dot.")), answer("A dot."))
    pdf = "data:application/pdf;base64,JVBERi0x"
    content: Any = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": pdf},
    ]
    assert client.responses.create(model=target.model, input=[{"role": "user", "content": content}]).output_text
    if not target.native:
        words, picture, file = target.sent[0]["messages"][0]["content"]
        assert words == {"type": "text", "text": "What is it?"}
        assert picture["image_url"] == {"url": f"data:image/png;base64,{PNG}", "detail": "low"}
        assert file["file"] == {"filename": "a.pdf", "file_data": pdf}


def test_an_answer_that_is_cut_short_by_its_limit(target, client):
    native = response(said("Hel"), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    target.play(native, answer("Hel", finish="length"))
    found = client.responses.create(model=target.model, input="hi", max_output_tokens=16)
    assert (found.status, found.incomplete_details.reason) == ("incomplete", "max_output_tokens")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", [GATEWAY, VERTEX])
def test_of_providers_of_other_dialects(hotel, client, model, streamed):
    hotel.gateway.script(message(thinking("Hm."), text("I look."), tool_use("get_weather", {"city": "Rome"})))
    part = {"functionCall": {"name": "get_weather", "args": {"city": "Rome"}}, "thoughtSignature": "CvQB"}
    hotel.vertex.script(generated({"text": "Hm.", "thought": True}, {"text": "I look."}, part))
    asked: Any = {"model": model, "input": "hi", "tools": [TOOL], "reasoning": {"effort": "high"}}
    if streamed:
        with client.responses.stream(**asked) as got:
            found = got.get_final_response()
    else:
        found = client.responses.create(**asked)
    assert (found.output_text, [name for name, _ in calls_of(found)]) == ("I look.", ["get_weather"])
    assert json.loads(calls_of(found)[0][1]) == {"city": "Rome"}
    assert found.status == "completed" and found.usage.input_tokens > 0
    if model == GATEWAY:
        assert found.output[0].summary[0].text == "Hm."
        assert hotel.gateway.calls[0].json["thinking"] == {"type": "adaptive"}
    else:
        assert hotel.vertex.calls[0].json["generationConfig"]["thinkingConfig"]["thinkingBudget"] == 24576
    call = next(item for item in found.output if item.type == "function_call")
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    client.responses.create(**{**asked, "input": [{"role": "user", "content": "hi"}, *found.output, result]})
    if model == VERTEX:
        assert hotel.vertex.calls[1].json["contents"][1]["parts"] == [{"text": "I look."}, part]
    else:
        _, asking, given = hotel.gateway.calls[1].json["messages"]
        assert asking["content"][-1]["id"] == given["content"][0]["tool_use_id"] == call.call_id


# -- failures


def test_a_response_that_failed_at_openai(hotel, client):
    error = {"code": "server_error", "message": "It broke."}
    hotel.openai.script(response(status="failed", error=error, usage=None))
    with pytest.raises(openai.InternalServerError) as caught:
        client.responses.create(model=OPENAI, input="hi")
    assert (caught.value.status_code, caught.value.code) == (502, "provider_error")
    got = list(client.responses.create(model=OPENAI, input="hi", stream=True))
    assert (got[-1].type, got[-1].response.error.message) == ("response.failed", "It broke.")
    hotel.order("OpenAI", "Alpha")
    assert client.responses.create(model=GROUP, input="hi").output_text == "from A"


@pytest.mark.parametrize("how", ["error", "cut"])
@pytest.mark.parametrize("name", ["native", "translated"])
def test_a_stream_that_breaks_ends_failed(hotel, client, name, how):
    """part of v1-api 53"""
    target = Target(hotel, name)
    failed = error_after(2, {"message": "It broke.", "type": "server_error"})
    target.play(response(said("one two"), then="cut"), failed if how == "error" else cut_after(2, clean=True))
    got = list(client.responses.create(model=target.model, input="hi", stream=True))
    assert got[-1].type == "response.failed" and got[-1].response.status == "failed"
    assert got[-1].response.error.message and [e.sequence_number for e in got] == sorted(e.sequence_number for e in got)
    assert "response.completed" not in [event.type for event in got]
    assert eventually(lambda: hotel.home.row()["state"] == "failed")


@one_client
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (409, openai.ConflictError),
        (422, openai.UnprocessableEntityError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("name", ["native", "translated"])
def test_what_a_provider_refuses_is_of_its_type(hotel, client, name, code, kind):
    target = Target(hotel, name)
    body = {"error": {"message": "no", "type": "x", "param": "input", "code": "c"}}
    target.play(status(code, body), status(code, body))
    with pytest.raises(kind) as caught:
        client.responses.create(model=target.model, input="hi")
    found = caught.value
    assert found.status_code == code and found.request_id
    if code in (400, 409, 422):
        assert (found.body["message"], found.param, found.code) == ("no", "input", "c")
    else:
        assert isinstance(found.code, str) and f"upstream HTTP {code}" in str(found)


def test_what_anthropic_refuses_reaches_the_client_in_openais_words(hotel, client):
    hotel.gateway.script(refused_by_anthropic(400, "max_tokens: 5 > 4"))
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model=GATEWAY, input="hi")
    assert caught.value.body["message"] == "max_tokens: 5 > 4" and caught.value.type == "invalid_request_error"


@one_client
@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
    ],
)
def test_state_is_refused_in_words_of_the_sdk(target, client, members, param):
    """v1-api 79"""
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**{"model": target.model, "input": "hi", **members})
    assert (caught.value.param, caught.value.code) == (param, "invalid_value")
    assert not target.hotel.openai.calls and not target.hotel.a.calls


def test_hosted_tools_go_to_openai_alone(hotel, client):
    """v1-api 82"""
    hotel.order("OpenAI", "Alpha")
    asked: Any = {"input": "hi", "tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}
    with pytest.raises(openai.BadRequestError, match="this tool type is served by OpenAI's /v1/responses only"):
        client.responses.create(model=GROUP, **asked)
    assert client.responses.create(model=OPENAI, **asked).output_text == "Hello"
    assert hotel.openai.calls[0].json["tools"] == asked["tools"]


def test_leaving_in_mid_stream_stops_the_provider(target, client):
    """v1-api 44: responses"""
    target.play(response(said("one two"), then="endless"), stall_after(2))
    with client.responses.create(model=target.model, input="hi", stream=True) as found:
        for event in found:
            if event.type == "response.output_text.delta":
                break
    target.upstream.wait_disconnects(1)
    assert eventually(lambda: target.hotel.home.row()["error_kind"] == "client_disconnect")


def test_a_timeout_of_the_client_stops_the_provider(target, client):
    target.play(silence(), silence())
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.5).responses.create(model=target.model, input="hi")
    target.upstream.wait_disconnects(1)
