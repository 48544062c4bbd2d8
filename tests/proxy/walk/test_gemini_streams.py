"""Chat streams of providers that are spoken to in generateContent, over real sockets (v1-api 15.3)."""

import json
from typing import Any

import pytest

from tests.proxy.asgi import Answer
from tests.proxy.walk.stage import Stage
from tests.upstream.server import FakeProvider, raw, reply, stream

PATH = "/v1/publishers/google/models/m:%s"
STREAM, WHOLE = PATH % "streamGenerateContent", PATH % "generateContent"
USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 3, "thoughtsTokenCount": 4, "totalTokenCount": 12}
MALFORMED = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}], "usageMetadata": {"promptTokenCount": 9}}
OVERLOADED = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
TRUNCATED = "stream truncated: upstream closed before a finish_reason"


def event(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate if finish is None else {**candidate, "finishReason": finish}], **more}


THOUGHT = event({"text": "hm", "thought": True}, usageMetadata={"promptTokenCount": 5})
HELLO = (THOUGHT, event({"text": "Hel"}), event({"text": "lo"}, usageMetadata=USAGE))


class Vertex:
    """A is Google's and speaks nothing but generateContent; B speaks chat."""

    def __init__(self, stage: Stage, provider: FakeProvider, other: FakeProvider) -> None:
        self.stage, self.other = stage, other
        self._provider = provider
        stage.member("A", provider.url, kind="vertex-express", key="AQ.0123456789abcdef")
        stage.member("B", other.url, kind="openai", key="sk-bbbbbbbbbbbbbbb1")
        other.script(stream(["B"]))

    def streams(self, *events: dict[str, Any], end: bytes = b"") -> None:
        said = b"".join(b"data: %s\r\n\r\n" % json.dumps(each).encode() for each in events)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
        self._provider.route("POST", STREAM, raw(head + said + end))

    def answers(self, body: Any) -> None:
        self._provider.route("POST", WHOLE, reply(200, body))

    async def ask(self, model: str = "hotel/g", **more: Any) -> Answer:
        return await self.stage.ask(model, stream=True, **more)


@pytest.fixture
def vertex(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Vertex:
    return Vertex(stage, provider_a, provider_b)


def chunks(got: Answer) -> list[Any]:
    payloads = [line[6:] for line in got.body.decode().split("\n\n") if line.startswith("data: ")]
    return [payload if payload == "[DONE]" else json.loads(payload) for payload in payloads]


def text(found: list[Any]) -> str:
    said = (choice["delta"].get("content") for each in found if each != "[DONE]" for choice in each.get("choices", ()))
    return "".join(filter(None, said))


async def test_a_stream_is_one_of_chat(vertex: Vertex, provider_a: FakeProvider):
    vertex.streams(*HELLO, event(finish="STOP", usageMetadata=USAGE))
    got = await vertex.ask()
    found = chunks(got)
    assert (got.status, text(found), found[-1]) == (200, "Hello", "[DONE]")
    last = found[-2]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert (last["usage"]["completion_tokens"], last["model"]) == (7, "m")
    (request,) = provider_a.requests
    assert request.headers["x-goog-api-key"] == "AQ.0123456789abcdef"
    row = vertex.stage.row
    assert (row.tokens_prompt, row.tokens_completion, row.tokens_completion_reasoning, row.state) == (
        5,
        7,
        4,
        "completed",
    )
    assert vertex.stage.trail == [(0, "A", 200, None, "success")]


async def test_it_reaches_a_client_of_messages_with_its_calls(vertex: Vertex):
    """part of v1-api 78"""
    call = {"functionCall": {"name": "look", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    vertex.streams(event({"text": "so"}), event(call), event(finish="STOP", usageMetadata=USAGE))
    said = {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    got = await vertex.stage.say("/messages", "A/m", **said)
    body = got.body.decode()
    assert '"type":"tool_use"' in body and "_thoughtsig_YzJsbg" in body
    assert '"stop_reason":"tool_use"' in body and "event: message_stop" in body


@pytest.mark.parametrize("asks", [True, False])
async def test_a_stream_without_a_reason_is_truncated(vertex: Vertex, asks: bool):
    vertex.streams(*HELLO)
    got = await vertex.ask(**({"stream_options": {"include_usage": True}} if asks else {}))
    *before, last = chunks(got)
    assert (text(before), last["error"]["message"]) == ("Hello", TRUNCATED)
    assert [each["usage"]["completion_tokens"] for each in before if each["choices"] == []] == ([7] if asks else [])
    row = vertex.stage.row
    assert (row.state, row.error_kind, row.tokens_completion) == ("failed", "provider_error", 7)
    assert vertex.stage.fails("A") == 1


FIRST = [
    pytest.param((OVERLOADED,), 503, id="an error"),
    pytest.param((THOUGHT, OVERLOADED), 503, id="an error behind thoughts"),
    pytest.param((MALFORMED,), 200, id="a malformed call"),
    pytest.param((THOUGHT,), 200, id="thoughts alone"),
    pytest.param(({"candidates": 5},), 200, id="no answer at all"),
]


@pytest.mark.parametrize(("events", "status"), FIRST)
async def test_what_begins_without_output_fails_over(vertex: Vertex, events: tuple[Any, ...], status: int):
    vertex.streams(*events)
    got = await vertex.ask()
    assert (got.status, text(chunks(got))) == (200, "B")
    assert vertex.stage.trail == [(0, "A", status, "provider_error", "charge"), (1, "B", 200, None, "success")]


LATER = [
    pytest.param(OVERLOADED, "The model is overloaded.", id="an error"),
    pytest.param(MALFORMED, "the model ended in a malformed function call", id="a malformed call"),
]


@pytest.mark.parametrize(("last", "message"), LATER)
async def test_what_breaks_after_output_ends_in_an_error(vertex: Vertex, last: dict[str, Any], message: str):
    vertex.streams(*HELLO, last, event({"text": "late"}, finish="STOP"))
    *before, error = chunks(await vertex.ask())
    assert (text(before), error["error"]["message"]) == ("Hello", message)
    assert error["error"]["code"] is None or isinstance(error["error"]["code"], str)
    assert (vertex.stage.row.state, vertex.stage.fails("A")) == ("failed", 1)


async def test_half_an_event_at_the_end_is_a_failure(vertex: Vertex):
    vertex.streams(*HELLO, end=b'data: {"candidates":[{"finishReason":"ST')
    *before, error = chunks(await vertex.ask())
    assert text(before) == "Hello" and "no generateContent answer" in error["error"]["message"]


async def test_a_blocked_prompt_is_an_answer_of_the_filter(vertex: Vertex):
    vertex.streams({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}})
    got = await vertex.ask()
    last, done = chunks(got)
    assert (last["choices"][0]["finish_reason"], done) == ("content_filter", "[DONE]")
    assert (vertex.stage.row.tokens_prompt, vertex.stage.fails("A")) == (9, 0)


async def test_a_malformed_call_that_comes_whole_fails_over_and_is_paid_for(vertex: Vertex):
    vertex.answers(MALFORMED)
    got = await vertex.stage.ask("A/m")
    assert (got.status, vertex.stage.row.tokens_prompt) == (502, 9)
    assert vertex.stage.fails("A") == 1


async def test_an_error_of_googles_is_told_in_openais_shape(vertex: Vertex, provider_a: FakeProvider):
    error = {"error": {"code": 400, "message": 'Unknown name "x"', "status": "INVALID_ARGUMENT"}}
    provider_a.route("POST", WHOLE, reply(400, [error]))
    got = await vertex.stage.ask("A/m")
    assert (got.status, got.error["message"], got.error["type"]) == (400, 'Unknown name "x"', "invalid_request_error")
