"""Who is sent to ``/v1/responses``, by whom, and who comes back from there (failover-loop 6.3.6)."""

import logging

import pytest

from providers.kinds.openai import OpenAI
from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_dialects import NO_TOOLS_HERE, RESPONSE, TOOLS, body
from tests.upstream.server import Behaviour, FakeProvider, answer, status

NO_CHAT = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


def no(code: int, message: str) -> Behaviour:
    return status(code, {"error": {"message": message}})


def paths(provider: FakeProvider) -> list[str]:
    found = [call.path for call in provider.calls]
    provider.forget()
    return found


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    """Two of type ``openai`` at addresses of their own, with the same model."""
    stage.member("A", provider_a.url, kind="openai")
    stage.member("B", provider_b.url, kind="openai")
    return stage


@pytest.mark.parametrize(("message", "asked"), [(NO_CHAT, {}), (NO_TOOLS_HERE, {"tools": TOOLS})])
async def test_what_one_host_says_is_not_true_of_another(
    message: str, asked: dict[str, object], ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(no(400, message), body(RESPONSE))
    assert (await ab.ask("A/m", **asked)).status == 200
    assert (await ab.ask("A/m", **asked)).status == 200
    assert (await ab.ask("B/m", **asked)).status == 200
    assert paths(provider_a) == [CHAT, RESPONSES, RESPONSES] and paths(provider_b) == [CHAT]


async def test_what_openai_says_is_true_of_all_who_ask_openai(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(OpenAI, "native_responses", lambda self, base_url: True)
    provider_a.script(no(404, NO_CHAT), body(RESPONSE))
    provider_b.script(body(RESPONSE))
    assert (await ab.ask("A/m")).status == 200
    assert (await ab.ask("B/m")).status == 200
    assert paths(provider_a) == [CHAT, RESPONSES] and paths(provider_b) == [RESPONSES]


async def test_what_a_client_says_through_the_provider_is_not_learned(ab: Stage, provider_a: FakeProvider):
    role = "not a chat model chat/completions"
    provider_a.script(no(400, f"Invalid value: '{role}'."), body(RESPONSE), answer("ok"))
    assert (await ab.ask("A/m", messages=[{"role": role, "content": "x"}])).status == 200
    assert (await ab.ask("A/m")).status == 200
    assert paths(provider_a) == [CHAT, RESPONSES, CHAT]


async def test_a_host_without_that_route_is_asked_in_chat_again(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    provider_a.script(no(400, NO_TOOLS_HERE), body(RESPONSE))
    assert (await ab.ask("A/m", tools=TOOLS)).status == 200
    assert paths(provider_a) == [CHAT, RESPONSES]
    provider_a.script(no(404, "Not Found"), answer("in chat"))
    got = await ab.ask("A/m", tools=TOOLS)
    assert got.json["choices"][0]["message"]["content"] == "in chat"
    assert paths(provider_a) == [RESPONSES, CHAT] and ab.trail == [(0, "A", 200, None, "success")]
    assert [r.attrs for r in caplog.records if r.getMessage() == "proxy: forgot responses api requirement"] == [
        {"provider": "A", "model": "m"}
    ]
    assert (await ab.ask("A/m", tools=TOOLS)).status == 200
    assert paths(provider_a) == [CHAT]


async def test_a_host_that_names_a_route_it_has_not_is_not_obeyed_twice(ab: Stage, provider_a: FakeProvider):
    refusal = no(400, NO_TOOLS_HERE.replace("reasoning_effort", "'reasoning_effort'"))
    provider_a.script(refusal, no(404, "Not Found"), refusal)
    assert (await ab.ask("A/m", tools=TOOLS, reasoning_effort="low")).status == 400
    assert paths(provider_a) == [CHAT, RESPONSES, CHAT]
    assert (await ab.ask("A/m", tools=TOOLS, reasoning_effort="low")).status == 400
    assert [call.json["reasoning_effort"] for call in provider_a.calls] == ["low"]


async def test_openais_404_at_that_route_is_about_the_model(
    ab: Stage, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(OpenAI, "native_responses", lambda self, base_url: True)
    provider_a.script(no(400, NO_TOOLS_HERE), no(404, "gone"), no(404, "gone"))
    assert (await ab.ask("A/m", tools=TOOLS)).status == 404
    assert (await ab.ask("A/m", tools=TOOLS)).status == 404
    assert paths(provider_a) == [CHAT, RESPONSES, RESPONSES]
