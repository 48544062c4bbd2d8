"""Anthropic's official SDK as the client, of a provider that speaks its dialect and of one that does not."""

import json

import anthropic
import pytest

from tests.upstream.server import FakeProvider, answer, raw, reply, status, stream, tools_stream
from tests.wire.house import house

HI = [{"role": "user", "content": "hi"}]
TOOL = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
CHAT, NATIVE = "Alpha/glm-4.6", "Claude/claude-x"
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "EqQB"},
        {"type": "text", "text": "from Claude"},
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 10, "output_tokens": 6},
}
EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "ping"},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "from Claude"}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 6},
    },
    {"type": "message_stop"},
]


def sse(events):
    said = b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events)
    return raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + said)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The house with a third provider, of Anthropic's type."""
    with FakeProvider(models=["claude-x"]) as claude, house(tmp_path_factory.mktemp("anthropic")) as home:
        provider = {
            "name": "Claude",
            "provider_type": "anthropic",
            "base_url": claude.url,
            "api_key": "sk-ant-0123456789abcdef",
        }
        home.admin("POST", "/api/providers", json=provider)
        home.admin("POST", "/api/providers/discover-all")
        yield home, claude


@pytest.fixture
def home(both):
    both[0].fresh()
    return both[0]


@pytest.fixture
def claude(both):
    both[1].forget()
    return both[1]


@pytest.fixture
def client(home):
    with anthropic.Anthropic(base_url=home.product.url, api_key=home.key, max_retries=0, timeout=15.0) as found:
        yield found


def test_a_message_of_a_chat_provider(home, client):
    home.a.script(answer("hello", usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}))
    found = client.messages.create(model="hotel/glm-4.6", max_tokens=50, system="Be brief.", messages=HI)
    assert [(block.type, block.text) for block in found.content] == [("text", "hello")]
    assert (found.model, found.stop_reason) == ("glm-4.6", "end_turn")
    assert (found.usage.input_tokens, found.usage.output_tokens) == (7, 2)
    assert home.a.calls[0].json == {
        "model": "glm-4.6",
        "max_tokens": 50,
        "messages": [{"role": "system", "content": "Be brief."}, *HI],
    }
    row = home.row()
    assert (row["model_id"], row["endpoint_type"], row["tokens_prompt"]) == ("hotel/glm-4.6", "messages", 7)


def test_a_stream_of_a_chat_provider(home, client):
    home.a.script(stream(["one ", "two"]))
    with client.messages.stream(model=CHAT, max_tokens=50, messages=HI) as found:
        assert "".join(found.text_stream) == "one two"
        assert found.get_final_message().stop_reason == "end_turn"
    assert home.row()["state"] == "completed"


def test_a_tool_there_and_back(home, client):
    home.a.script(tools_stream("get_weather", ['{"city":', '"Rome"}']), answer("Sunny."))
    asked = {"model": CHAT, "max_tokens": 50, "tools": [TOOL]}
    with client.messages.stream(**asked, messages=HI) as found:
        message = found.get_final_message()
    (use,) = message.content
    assert (message.stop_reason, use.name, use.input) == ("tool_use", "get_weather", {"city": "Rome"})
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "sun"}
    said = [*HI, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    assert client.messages.create(**asked, messages=said).content[0].text == "Sunny."
    call, told = home.a.calls[1].json["messages"][1:]
    assert call["tool_calls"][0]["id"] == told["tool_call_id"] == use.id
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}


@pytest.mark.parametrize("streamed", [False, True])
def test_thinking_of_anthropic_survives_with_its_signature(claude, client, streamed):
    claude.script(sse(EVENTS) if streamed else reply(200, MESSAGE))
    asked = {"model": NATIVE, "max_tokens": 2048, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    if streamed:
        with client.messages.stream(**asked, messages=HI) as events:
            found = events.get_final_message()
    else:
        found = client.messages.create(**asked, messages=HI)
    thinking, text = found.content
    assert (thinking.thinking, thinking.signature, text.text) == ("hm", "EqQB", "from Claude")
    (call,) = claude.calls
    assert call.path == "/v1/messages" and call.json["thinking"] == asked["thinking"]
    assert call.headers["x-api-key"] == "sk-ant-0123456789abcdef"


def test_tokens_are_counted(claude, client):
    claude.route("POST", "/v1/messages/count_tokens", reply(200, {"input_tokens": 14}))
    assert client.messages.count_tokens(model=NATIVE, messages=HI).input_tokens == 14
    assert client.messages.count_tokens(model=CHAT, messages=HI).input_tokens == 1


def test_errors_are_of_their_types(home, claude, client):
    """part of v1-api 51"""
    asked = {"max_tokens": 5, "messages": HI}
    with pytest.raises(anthropic.NotFoundError) as missing:
        client.messages.create(model="hotel/nothing", **asked)
    assert missing.value.body["error"]["type"] == "not_found_error"
    assert missing.value.request_id
    with pytest.raises(anthropic.AuthenticationError) as stranger:
        client.with_options(api_key="sk-" + "0" * 32).messages.create(model=CHAT, **asked)
    assert stranger.value.body["error"] == {"type": "authentication_error", "message": "invalid virtual key"}
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: too large"}}
    claude.script(status(400, refusal))
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(model=NATIVE, **asked)
    assert refused.value.body == refusal
    home.a.script(status(500, {"error": {"message": "key sk-alpha-0123456789abcdef exploded"}}))
    with pytest.raises(anthropic.InternalServerError) as broken:
        client.messages.create(model=CHAT, **asked)
    assert broken.value.body["error"]["type"] == "api_error" and "sk-alpha" not in str(broken.value)


def test_an_error_in_a_stream_is_raised(claude, client):
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    claude.script(sse([*EVENTS[:8], overloaded]))
    with (
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        client.messages.stream(model=NATIVE, max_tokens=5, messages=HI) as found,
    ):
        assert "".join(found.text_stream) == "from Claude"
