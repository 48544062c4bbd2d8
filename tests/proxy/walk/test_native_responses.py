"""A Responses client before OpenAI's own /v1/responses: everything passes as it came (v1-api 13.1 and 13.6)."""

import json
from typing import Any

import pytest

from providers.kinds.openai import OpenAI
from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_dialects import RESPONSE, body, frames
from tests.upstream.server import FakeProvider, answer, events

HEAD = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}


def event(kind: str, number: int, **more: Any) -> bytes:
    data = {"type": kind, "sequence_number": number, **more}
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), json.dumps(data).encode())


CREATED = event("response.created", 0, response=HEAD)
DELTA = event("response.output_text.delta", 4, item_id="msg_1", output_index=0, content_index=0, delta="Hel")
COMPLETED = event("response.completed", 9, response=RESPONSE)


@pytest.fixture
def openai(stage: Stage, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stands for api.openai.com."""
    monkeypatch.setattr(OpenAI, "native_responses", lambda self, base_url: base_url == provider_a.url)
    stage.member("A", provider_a.url, kind="openai", model="gpt-5")
    return stage


async def test_the_body_and_the_answer_pass_as_they_came(openai: Stage, provider_a: FakeProvider):
    """v1-api 82: direct to OpenAI"""
    provider_a.script(body(RESPONSE))
    own = {
        "input": "hi",
        "store": False,
        "tools": [{"type": "file_search"}],
        "include": ["reasoning.encrypted_content"],
    }
    got = await openai.say("/responses", **own)
    assert provider_a.calls[0].path == "/v1/responses"
    assert provider_a.calls[0].json == {"model": "gpt-5", **own}
    assert got.json == RESPONSE
    assert (openai.row.tokens_prompt, openai.row.tokens_completion) == (11, 7)


async def test_a_group_with_another_member_takes_no_hosted_tool(
    openai: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """v1-api 82: a group of one OpenAI and one other member"""
    openai.member("B", provider_b.url, kind="openai")
    got = await openai.say("/responses", input="hi", tools=[{"type": "file_search"}])
    wanted = "tools[0]: this tool type is served by OpenAI's /v1/responses only; other routes take function tools"
    assert got.said == (400, wanted)
    assert not provider_a.calls and not provider_b.calls


async def test_the_mode_is_chosen_anew_for_each_attempt(
    openai: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    openai.member("B", provider_b.url, kind="openai", model="mb")
    provider_a.script(body({**RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "m"}}))
    provider_b.script(answer("Hello"))
    got = await openai.say("/responses", input="hi")
    assert provider_b.calls[0].json == {"model": "mb", "messages": [{"role": "user", "content": "hi"}]}
    assert (got.json["model"], got.json["output"][0]["content"][0]["text"]) == ("mb", "Hello")
    assert [element[2] for element in openai.trail] == [200, 200]


async def test_a_stream_passes_byte_for_byte(openai: Stage, provider_a: FakeProvider):
    provider_a.script(events(CREATED, DELTA, COMPLETED))
    got = await openai.say("/responses", input="hi", stream=True)
    assert got.body == CREATED + DELTA + COMPLETED
    assert (openai.row.state, openai.row.tokens_completion) == ("completed", 7)


@pytest.mark.parametrize("clean", [True, False])
async def test_a_stream_that_breaks_ends_as_the_response_it_was(openai: Stage, provider_a: FakeProvider, clean: bool):
    """v1-api 53: responses, native"""
    provider_a.script(events(CREATED, DELTA, end=clean))
    got = await openai.say("/responses", input="hi", stream=True)
    assert got.body.startswith(CREATED + DELTA) and b"[DONE]" not in got.body
    kind, last = frames(got)[-1]
    text = "stream truncated: upstream closed before a terminal event"
    error = {"code": "provider_error", "message": text if clean else "stream failed: upstream connection error"}
    assert (kind, last["sequence_number"], len(frames(got))) == ("response.failed", 5, 3)
    assert last["response"] == {**HEAD, "status": "failed", "error": error}
    assert openai.row.state == "failed"


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "ends",
    [
        [event("error", 5, code="server_error", message="key sk-0123456789abcdef0")],
        [event("response.failed", 5, response={**HEAD, "status": "failed", "error": {"code": "x", "message": "m"}})],
        [
            event("error", 5, code="server_error", message="m"),
            event("response.failed", 6, response={**HEAD, "status": "failed", "error": {"code": "x", "message": "m"}}),
        ],
    ],
)
async def test_no_frame_is_added_to_the_provider_s_own_error(
    openai: Stage, provider_a: FakeProvider, ends: list[bytes], clean: bool
):
    provider_a.script(events(CREATED, DELTA, *ends, end=clean))
    got = await openai.say("/responses", input="hi", stream=True)
    assert [kind for kind, _ in frames(got)][2:] == [json.loads(end.split(b"data: ")[1])["type"] for end in ends]
    assert b"sk-0123456789abcdef0" not in got.body
    assert (openai.row.state, openai.row.error_kind) == ("failed", "provider_error")


async def test_an_error_before_any_output_moves_on(openai: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    openai.member("B", provider_b.url, kind="openai", model="mb")
    provider_a.script(events(CREATED, event("error", 1, code="rate_limit_exceeded", message="m")))
    got = await openai.say("/responses", input="hi", stream=True)
    assert frames(got)[-1][0] == "response.completed" and provider_b.calls
    assert openai.trail[0][2] == 429


@pytest.mark.parametrize(("model", "path"), [("o3-pro", "/responses"), ("o3-pro-mini", "/chat/completions")])
async def test_chat_with_a_model_of_responses_alone(openai: Stage, provider_a: FakeProvider, model: str, path: str):
    """v1-api 83"""
    openai.member("A", provider_a.url, kind="openai", model=model)
    provider_a.script(body(RESPONSE) if path == "/responses" else answer("Hello from OpenAI"))
    got = await openai.ask(f"A/{model}")
    assert [call.path for call in provider_a.calls] == [f"/v1{path}"]
    assert provider_a.calls[0].json.get("store") is (False if path == "/responses" else None)
    assert got.json["choices"][0]["message"]["content"] == "Hello from OpenAI"


async def test_a_chat_stream_by_way_of_responses(openai: Stage, provider_a: FakeProvider):
    """Part of v1-api 83: streamed"""
    openai.member("A", provider_a.url, kind="openai", model="o3-pro")
    provider_a.script(events(CREATED, DELTA, COMPLETED))
    got = await openai.ask("A/o3-pro", stream=True)
    chunks = [json.loads(part.removeprefix(b"data: ")) for part in got.body.split(b"\n\n")[:-2]]
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks] == ["", "Hel", None]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop" and got.body.endswith(b"data: [DONE]\n\n")
    assert provider_a.calls[0].json["stream"] is True
    assert (openai.row.state, openai.row.tokens_completion) == ("completed", 7)
