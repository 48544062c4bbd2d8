"""A chat request of the gateway's own goes the way of traffic to the same model."""

import json
from typing import Any

import msgspec
import pytest

from providers.cache import ProviderRow
from providers.kinds import registry
from providers.ports import NoAnswer
from proxy import model_call

BODY = {
    name: msgspec.Raw(msgspec.json.encode(value))
    for name, value in {
        "messages": [{"role": "user", "content": "Say Hi"}],
        "max_tokens": 10,
        "top_p": 0.5,
        "stream": False,
    }.items()
}
CHAT = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 1},
}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4},
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}
    ],
    "usage": {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
}
ANTHROPIC = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
BEARER, GOOG = {"authorization": "Bearer k"}, {"x-goog-api-key": "k"}


def call(kind: str, base: str, model_id: str = "m", outputs: tuple[str, ...] = ("text",)) -> Any:
    provider = ProviderRow("id", "P", "P", base, registry.get(kind), True, None, 1.0, False)
    return model_call.build(provider, model_id, outputs, BODY, "k")


@pytest.mark.parametrize(
    ("kind", "base", "model", "outputs", "url", "headers", "answer"),
    [
        ("custom", "https://h/v1", "m", ("text",), "/v1/chat/completions", BEARER, CHAT),
        ("anthropic", "https://h", "m", ("text",), "/v1/chat/completions", ANTHROPIC, CHAT),
        ("anthropic-messages", "https://h", "m", ("text",), "/v1/messages", ANTHROPIC, MESSAGE),
        ("google", "https://h/v1beta/openai", "m", ("text",), "/v1beta/openai/chat/completions", BEARER, CHAT),
        ("google", "https://h/b/openai", "m", ("text", "image"), "/b/models/m:generateContent", GOOG, GEMINI),
        ("vertex-express", "https://h", "m", (), "/v1/publishers/google/models/m:generateContent", GOOG, GEMINI),
        ("opencode-zen", "https://h/v1", "gemini-3", (), "/v1/models/gemini-3:generateContent", GOOG, GEMINI),
        ("openai", "https://api.openai.com/v1", "o3-pro", (), "/v1/responses", BEARER, RESPONSE),
        ("openai", "https://h/v1", "o3-pro", (), "/v1/chat/completions", BEARER, CHAT),
    ],
)
def test_a_call_has_the_dialect_of_its_model(
    kind: str, base: str, model: str, outputs: tuple[str, ...], url: str, headers: dict[str, str], answer: Any
):
    made = call(kind, base, model, outputs)
    sent = {name.decode(): value.decode() for name, value in made.request.headers}
    assert made.request.url.partition("//")[2].partition("/")[2] == url[1:]
    assert sent == {"content-type": "application/json", **headers}
    body = json.loads(made.request.body)
    assert "Say Hi" in made.request.body.decode() and body.get("stream") in (None, False)
    read = json.loads(made.read(json.dumps(answer).encode()))
    assert read["choices"][0]["message"]["content"] == "Hi"
    if answer is not CHAT:
        assert (read["usage"]["prompt_tokens"], read["usage"]["completion_tokens"]) == (3, 1)


def test_what_a_type_strips_is_of_chat_bodies_only():
    assert "top_p" not in json.loads(call("anthropic", "https://h").request.body)
    assert json.loads(call("anthropic-messages", "https://h").request.body)["top_p"] == 0.5
    assert "thinking" in json.loads(call("zai-coding", "https://h").request.body)


@pytest.mark.parametrize("kind", ["anthropic-messages", "vertex-express"])
def test_another_kind_of_answer_is_none(kind: str):
    with pytest.raises(NoAnswer):
        call(kind, "https://h").read(b'{"choices":[]}')


def test_opencode_go_gets_one_session_for_all_of_them():
    sessions = {dict(call("opencode-go", "https://h").request.headers)[b"x-opencode-session"] for _ in range(2)}
    (session,) = sessions
    assert session.startswith(b"mh-") and len(session) == 35
