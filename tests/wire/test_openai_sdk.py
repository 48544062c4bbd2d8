"""The official SDK as the client, sync and async."""

import json

import openai
import pytest

from tests.upstream.server import answer, delta, events, headers_then_silence, status, stream, tools_stream

FORMS = ["hotel/glm-4.6", "Alpha/glm-4.6", "glm-4.6"]
HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("model", FORMS)
def test_a_chat_through_each_form_of_the_name(home, guest, model):
    home.a.script(answer("hello", usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}))
    found = guest.chat.completions.create(model=model, messages=HI)
    assert found.choices[0].message.content == "hello"
    assert found.usage.total_tokens == 9
    assert home.a.calls[0].json["model"] == "glm-4.6"
    assert home.a.calls[0].headers["authorization"] == "Bearer sk-alpha-0123456789abcdef"
    row = home.row()
    assert (row["model_id"], row["state"], row["tokens_prompt"], row["tokens_completion"]) == (model, "completed", 7, 2)


@pytest.mark.parametrize("model", FORMS)
def test_a_stream_through_each_form_of_the_name(home, guest, model):
    home.a.script(stream(["one ", "two"]))
    chunks = list(guest.chat.completions.create(model=model, messages=HI, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert home.a.calls[0].json["stream_options"] == {"include_usage": True}
    row = home.row()
    assert row["streaming"] and row["state"] == "completed" and row["ttft_ms"] > 0
    assert row["tokens_completion"] > 0


def test_a_slow_first_token_is_raced_and_the_client_sees_one_stream(home):
    """failover-loop 85"""
    home.settings(hedging_enabled="true", hedge_delay="100ms")
    try:
        home.a.script(headers_then_silence())
        home.b.script(stream(["one ", "two"]))
        chunks = list(home.client.chat.completions.create(model="hotel/glm-4.6", messages=HI, stream=True))
    finally:
        home.admin("DELETE", "/api/settings", json={"keys": ["hedging_enabled", "hedge_delay"]})
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two"
    home.a.wait_disconnects(1)
    row = home.row()
    assert (row["state"], row["failover_attempt"], row["provider_name"]) == ("completed", 1, "Beta")
    assert home.trail() == [(0, "Alpha", None, "hedge_superseded", None), (1, "Beta", 200, None, "success")]
    assert [one["hedged"] for one in row["attempts"]] == [True, True]


def test_usage_in_a_stream_comes_only_to_who_asked(home, guest):
    home.a.script(stream(["x"], usage={"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}))
    without = list(guest.chat.completions.create(model="hotel/glm-4.6", messages=HI, stream=True))
    assert all(chunk.choices for chunk in without)
    asked = guest.chat.completions.create(
        model="hotel/glm-4.6", messages=HI, stream=True, stream_options={"include_usage": True}
    )
    last = list(asked)[-1]
    assert (last.choices, last.usage.total_tokens) == ([], 4)


def test_tools_in_a_stream(home, guest):
    home.a.script(tools_stream("get_weather", ['{"city":', '"Rome"}']))
    tools = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]
    chunks = list(guest.chat.completions.create(model="glm-4.6", messages=HI, tools=tools, stream=True))
    calls = [call for c in chunks for call in (c.choices[0].delta.tool_calls or [])]
    assert calls[0].function.name == "get_weather"
    assert json.loads("".join(call.function.arguments or "" for call in calls)) == {"city": "Rome"}
    assert home.a.calls[0].json["tools"] == tools


def test_the_list_of_models_holds_every_name_that_can_be_sent_back(home, guest):
    ids = [model.id for model in guest.models.list()]
    assert ids == ["Alpha/glm-4.6", "Beta/glm-4.6", "hotel/glm-4.6"]
    for name in ids:
        assert guest.chat.completions.create(model=name, messages=HI).choices
    assert guest.models.retrieve("hotel/glm-4.6").id == "hotel/glm-4.6"


def test_an_unknown_model_is_a_typed_not_found(home, guest):
    with pytest.raises(openai.NotFoundError) as caught:
        guest.chat.completions.create(model="hotel/nothing", messages=HI)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


def test_a_bad_key_is_a_typed_authentication_error(home, guest):
    stranger = guest.with_options(api_key="sk-" + "0" * 32)
    with pytest.raises(openai.AuthenticationError) as caught:
        stranger.chat.completions.create(model="glm-4.6", messages=HI)
    assert caught.value.code == "invalid_api_key"


def test_a_payload_the_provider_refuses_is_a_typed_bad_request_in_its_own_words(home, guest):
    refusal = {
        "error": {"message": "temperature must be <= 2", "type": "invalid_request_error", "param": "temperature"}
    }
    home.a.script(status(422, refusal))
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        guest.chat.completions.create(model="Alpha/glm-4.6", messages=HI)
    assert caught.value.body["message"] == "temperature must be <= 2"
    assert home.b.calls == []


def test_a_dead_provider_is_a_typed_server_error_that_names_no_secret(home):
    home.a.script(status(500, {"error": {"message": "key sk-alpha-0123456789abcdef exploded"}}))
    with pytest.raises(openai.InternalServerError) as caught:
        home.client.chat.completions.create(model="Alpha/glm-4.6", messages=HI)
    assert caught.value.status_code == 500
    assert "sk-alpha" not in str(caught.value)


def test_a_model_that_refuses_temperature_and_then_max_tokens(home):
    """part of failover-loop 27, part of failover-loop 28"""

    async def picky(wire):
        asked, told = wire.request.json, None
        if "temperature" in asked:
            told = "Unsupported value: 'temperature' does not support 0.2 with this model."
        elif "max_tokens" in asked:
            told = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        await (status(400, {"error": {"message": told}}) if told else answer("hello"))(wire)

    home.a.script(picky)
    for calls in (3, 4):  # the second request is built right at once
        found = home.client.chat.completions.create(
            model="hotel/glm-4.6", messages=HI, temperature=0.2, max_tokens=50, seed=7
        )
        assert found.choices[0].message.content == "hello"
        assert len(home.a.calls) == calls
        sent = home.a.calls[-1].json
        assert (sent["max_completion_tokens"], sent["seed"]) == (50, 7)
        assert sent.keys() == {"model", "messages", "max_completion_tokens", "seed"}
        assert home.trail() == [(0, "Alpha", 200, None, "success")]
    assert home.b.calls == []


def test_a_stream_that_breaks_is_finished_by_the_next_member(home):
    """part of beyond 1 (S08, S14): the SDK sees one stream, whether the next one goes on or refuses to."""
    told = [f"word{n} " for n in range(60)]

    async def finishes(wire):
        last = wire.request.json["messages"][-1]
        if last["role"] == "assistant" and refuses:
            await status(400, {"error": {"message": "a final assistant message is not supported"}})(wire)
            return
        whole = "".join(told)
        await stream([whole[len(last["content"]) :] if last["role"] == "assistant" else whole])(wire)

    path = f"/api/failover-groups/{home.group['id']}"
    home.admin("PUT", path, json={"midstream_recovery": "continue"})
    try:
        for refuses in (False, True):
            home.admin("POST", "/api/failover-groups/circuit-breaker/reset")
            home.a.script(
                events(*({**delta("glm-4.6", content=word), "id": "chatcmpl-a"} for word in told[:40]), end=False)
            )
            home.b.script(finishes)
            chunks = list(
                home.client.chat.completions.create(
                    model="hotel/glm-4.6", messages=HI, stream=True, stream_options={"include_usage": True}
                )
            )
            texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
            assert "".join(texts) == "".join(told)
            assert {c.id for c in chunks} == {"chatcmpl-a"}
            assert [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason] == ["stop"]
            assert chunks[-1].usage.completion_tokens > 5, "what both of them were billed"
            row = home.row()
            assert (row["state"], row["status_code"], row["provider_name"]) == ("completed", 200, "Beta")
            assert [one.get("recovery") for one in row["attempts"]] == [None, "splice" if refuses else "prefill"]
    finally:
        home.admin("PUT", path, json={"midstream_recovery": None})
