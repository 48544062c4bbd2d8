"""OpenAI's official SDK for Node as the client: what ``openai_sdk.mjs`` asks, and what it got."""

import base64
import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import node
from tests.upstream.behaviours import head, http_chunk
from tests.upstream.media import MP3, PNG, passed_events
from tests.upstream.server import (
    answer,
    cut_after,
    embedding,
    silence,
    stall_after,
    status,
    stream,
    tools_stream,
)
from tests.upstream.vendors_api import called, message, reasoned, response, said, text, thinking, tool_use
from tests.wire.clients import ARRIVES
from tests.wire.mixed import CHAT, GATEWAY, GROUP, OPENAI, Mixed
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.node, pytest.mark.timeout(150)]

SCRIPT = Path(__file__).with_name("openai_sdk.mjs")
SECONDS = 30.0
BYTES = random.Random(1).randbytes(60_000) + b"\r\n--x--\r\n"
QUESTION = {"type": "text", "text": "What is it?"}
PARTIAL = {"type": "image_generation.partial_image", "partial_image_index": 0, "b64_json": "AAAA"}
HEARD = {"type": "transcript.text.delta", "delta": "hel"}
#: The words of providers that are handed on, and those of ours: no such model, no such key.
OWN, OURS = dict.fromkeys((400, 409, 422), "c"), ("model_not_found", "invalid_api_key")
ENCODED = base64.b64encode(b"RIFF picture").decode()


@pytest.fixture(scope="session")
def sdk() -> Path:
    try:
        return node.folder()
    except node.NotInstalled as problem:
        pytest.skip(f"the Node tests need {node.PACKAGE} {node.VERSION} from the npm registry: {problem}")


class Node:
    def __init__(self, hotel: Mixed, sdk: Path) -> None:
        self.hotel, self.env = hotel, {**os.environ, "SDK": str(sdk)}

    def start(self, scenario: str, model: str, **more: Any) -> "subprocess.Popen[str]":
        given = {"url": self.hotel.home.product.url, "key": self.hotel.home.key, "model": model, **more}
        return subprocess.Popen(
            ["node", str(SCRIPT), scenario, json.dumps(given)],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: "subprocess.Popen[str]") -> Any:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == 0, err[-2000:]
        return json.loads(out)

    def __call__(self, scenario: str, model: str = CHAT, **more: Any) -> Any:
        return self.end(self.start(scenario, model, **more))


@pytest.fixture
def ask(hotel: Mixed, sdk: Path) -> Node:
    return Node(hotel, sdk)


@pytest.mark.parametrize("model", [CHAT, GATEWAY, GROUP])
def test_a_chat_and_its_stream(hotel, ask, model):
    hotel.order("Alpha", "Beta")
    hotel.gateway.script(message(text("from A")))
    for scenario in ("chat", "stream"):
        found = ask(scenario, model)
        assert found["content"] == "from A" and found["usage"]["total_tokens"] > 0
    assert eventually(lambda: hotel.home.row()["state"] == "completed")


@pytest.mark.parametrize("model", [CHAT, GATEWAY])
def test_a_tool_there_and_back(hotel, ask, model):
    hotel.a.script(tools_stream(), answer("Sunny."))
    hotel.gateway.script(message(tool_use("get_weather", {"city": "Rome"})), message(text("Sunny.")))
    assert ask("tools", model) == {
        "finish": "tool_calls",
        "name": "get_weather",
        "arguments": {"city": "Rome"},
        "content": "Sunny.",
    }


@pytest.mark.parametrize("model", [CHAT, OPENAI])
def test_responses(hotel, ask, model):
    hotel.a.script(answer("Hello"), stream(["one ", "two"]))
    hotel.openai.script(response(said("Hello")), response(said("one two")))
    found = ask("responses", model)
    assert (found["whole"], found["status"]) == ("Hello", "completed")
    assert found["kinds"][0] == "response.created" and found["kinds"][-1] == "response.completed"
    assert found["output"][-1]["content"][0]["text"] == "one two"


def test_embeddings(ask):
    assert ask("embeddings") == [embedding(0), embedding(1)]


@pytest.mark.parametrize("model", [CHAT, OPENAI])
def test_pictures_are_shown(hotel, ask, model):
    assert ask("pictures", model, png=PNG) == (["from A"] * 2 if model == CHAT else ["Hello"] * 2)
    url = f"data:image/png;base64,{PNG}"
    chat, response = (hotel.a if model == CHAT else hotel.openai).calls
    shown = {"type": "image_url", "image_url": {"url": url}}
    assert chat.json["messages"][0]["content"] == [QUESTION, shown]
    if model == CHAT:
        assert response.json["messages"][0]["content"] == [
            QUESTION,
            {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        ]
    else:
        image = {"type": "input_image", "image_url": url, "detail": "low"}
        assert response.json["input"][0]["content"][1] == image


@pytest.mark.parametrize("model", [CHAT, OPENAI, GATEWAY])
def test_structured_output(hotel, ask, model):
    written = '{"name": "Rome", "people": 2800000}'
    hotel.a.script(stream([written[:9], written[9:]]), answer(written), answer(written), stream([written]))
    hotel.openai.script(response(said(written)))
    hotel.gateway.script(message(text(written)))
    assert ask("written", model) == [{"name": "Rome", "people": 2800000}] * 4
    for call in {CHAT: hotel.a, OPENAI: hotel.openai, GATEWAY: hotel.gateway}[model].calls:
        sent = call.json
        if model == GATEWAY:
            form = sent["output_config"]["format"]
        else:
            form = sent["response_format"]["json_schema"] if "messages" in sent else sent["text"]["format"]
        assert form["schema"]["required"] == ["name", "people"]


@pytest.mark.parametrize("model", [CHAT, GATEWAY, OPENAI])
def test_thinking(hotel, ask, model):
    whole = answer("Hello", reasoning_content="Hm.")
    streamed = stream(["Hel", "lo"], reasoning=["H", "m."])
    hotel.a.script(whole, streamed, whole, streamed)
    hotel.openai.script(whole, streamed, response(reasoned("Hm."), said("Hello")))
    hotel.gateway.script(message(thinking("Hm."), text("Hello")))
    assert ask("thinking", model) == [["Hm.", "Hello"]] * 4
    if model == CHAT:
        assert [call.json["reasoning_effort"] for call in hotel.a.calls] == ["low"] * 4
    if model == GATEWAY:
        assert [call.json["thinking"] for call in hotel.gateway.calls] == [{"type": "adaptive"}] * 4


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", [CHAT, OPENAI, GATEWAY])
def test_a_tool_there_and_back_at_responses(hotel, ask, model, streamed):
    rome = json.dumps({"city": "Rome"})
    call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": rome}}
    hotel.a.script(
        tools_stream() if streamed else answer(None, finish="tool_calls", tool_calls=[call]), answer("Sunny.")
    )
    hotel.openai.script(response(called("get_weather", rome)), response(said("Sunny.")))
    hotel.gateway.script(message(tool_use("get_weather", {"city": "Rome"})), message(text("Sunny.")))
    found = ask("responseTools", model, streamed=streamed)
    assert (found["name"], found["arguments"], found["text"]) == ("get_weather", {"city": "Rome"}, "Sunny.")
    if model == CHAT:
        assistant, tool = hotel.a.calls[1].json["messages"][1:]
        assert assistant["tool_calls"][0]["id"] == found["id"]
        assert tool == {"role": "tool", "tool_call_id": found["id"], "content": "sun"}
    elif model == GATEWAY:
        result = {"type": "tool_result", "tool_use_id": found["id"], "content": "sun"}
        assert hotel.gateway.calls[1].json["messages"][-1]["content"] == [result]
    else:
        _, made, result = hotel.openai.calls[1].json["input"]
        assert (made["type"], made["arguments"], made["call_id"]) == ("function_call", rome, found["id"])
        assert result == {"type": "function_call_output", "call_id": found["id"], "output": "sun"}


def test_pictures_are_painted(hotel, ask):
    assert ask("images", bytes=ENCODED) == [PNG] * 3
    painted, *edited = hotel.a.calls
    assert painted.json == {"model": "glm-4.6", "prompt": "a cat"}
    for call in edited:
        assert ("image", "a.png", "image/png", b"RIFF picture") in call.parts and call.model == "glm-4.6"
    assert [call.path for call in hotel.a.calls] == [
        f"/v1/images/{name}" for name in ("generations", "edits", "variations")
    ]


def test_sound(hotel, ask):
    found = ask("audio", bytes=base64.b64encode(BYTES).decode())
    assert (base64.b64decode(found["sound"]), found["heard"], found["translated"]) == (MP3, *["hello there"] * 2)
    assert hotel.a.calls[0].json == {"model": "glm-4.6", "input": "Hello", "voice": "alloy"}
    assert [call.path for call in hotel.a.calls[1:]] == ["/v1/audio/transcriptions", "/v1/audio/translations"]
    assert all(("file", "a.wav", "audio/wav", BYTES) in call.parts for call in hotel.a.calls[1:])


def test_pictures_and_transcripts_come_piece_by_piece(hotel, ask):
    painted = [PARTIAL, {"type": "image_generation.completed", "b64_json": "BBBB"}]
    heard = [HEARD, {"type": "transcript.text.done", "text": "hello"}]
    hotel.a.script(passed_events(*painted), passed_events(*heard))
    assert ask("pieces") == painted + heard
    assert hotel.a.calls[0].json["stream"] is True and ("stream", None, "", b"true") in hotel.a.calls[1].parts


def test_documents_are_ranked(hotel, ask):
    assert [one["index"] for one in ask("ranks")] == [1, 0]
    assert hotel.a.calls[0].json == {"model": "glm-4.6", "query": "q", "documents": ["a", "b"]}


def test_the_list_of_models(ask):
    found = ask("models", GROUP)
    assert {CHAT, GROUP, OPENAI} <= set(found["ids"]) and found["one"] == GROUP


def test_errors_are_of_their_types(hotel, ask):
    """part of v1-api 44a"""
    hotel.a.script(status(429))
    unknown, stranger, malformed, limited = ask("errors")
    assert (unknown["name"], unknown["status"], unknown["code"]) == ("NotFoundError", 404, "model_not_found")
    assert (unknown["param"], unknown["type"]) == ("model", "not_found_error")
    assert (stranger["name"], stranger["code"]) == ("AuthenticationError", "invalid_api_key")
    assert (malformed["name"], malformed["status"]) == ("BadRequestError", 400)
    assert (limited["name"], limited["status"]) == ("RateLimitError", 429)
    assert all(one["requestID"] for one in (unknown, stranger, malformed, limited))


def test_a_stream_that_breaks_is_an_error(hotel, ask):
    """part of v1-api 53"""
    hotel.a.script(cut_after(2, clean=True))
    found = ask("broken")
    assert found["content"] == "tok0 tok1 " and "stream truncated" in found["problem"]["message"]


CODES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    422: "UnprocessableEntityError",
    429: "RateLimitError",
    500: "InternalServerError",
}


def test_errors_are_of_their_types_everywhere(hotel, ask):
    """part of v1-api 44a"""
    settings = {"server_error_retry_enabled": "false", "circuit_breaker_enabled": "false"}
    hotel.home.settings(**settings)
    try:
        body = {"error": {"message": "no", "type": "x", "param": "input", "code": "c"}}
        hotel.a.script(*[status(code, body) for code in CODES] * len(ARRIVES))
        found = ask("refusals", codes=list(CODES), bytes=ENCODED)
    finally:
        hotel.home.admin("DELETE", "/api/settings", json={"keys": list(settings)})
    wanted = [*CODES.items(), (404, "NotFoundError"), (401, "AuthenticationError")]
    assert {name: [(one["status"], one["name"]) for one in of_it] for name, of_it in found.items()} == dict.fromkeys(
        ARRIVES, wanted
    )
    for own in found.values():
        assert all(one["requestID"] for one in own)
        assert [one["code"] for one in own] == [*(OWN.get(code, "provider_error") for code in CODES), *OURS]
        assert [one["message"] for one in own if one["code"] == "c"] == [f"{code} no" for code in (400, 409, 422)]
    assert [call.path for call in hotel.a.calls] == [path for path in ARRIVES.values() for _ in CODES]


def gone(hotel: Mixed, names: Any) -> bool:
    """Whether these were asked and left, which their provider and their rows know."""
    paths = sorted(call.path for call in hotel.a.calls if call.disconnected)
    rows = hotel.home.admin("GET", f"/api/logs/cursor?limit={len(names)}").json()["entries"]
    return paths == sorted(ARRIVES[name] for name in names) and {one["error_kind"] for one in rows} == {
        "client_disconnect"
    }


def test_timeouts_stop_the_provider(hotel, ask):
    """part of v1-api 44"""
    hotel.a.script(silence())
    assert ask("timeouts", bytes=ENCODED) == dict.fromkeys(ARRIVES, "APIConnectionTimeoutError")
    assert eventually(lambda: gone(hotel, ARRIVES))


def test_aborts_stop_the_provider(hotel, ask):
    """part of v1-api 44"""
    hotel.a.script(silence())
    process = ask.start("aborts", CHAT, bytes=ENCODED)
    try:
        hotel.a.wait_calls(len(ARRIVES))
        assert not hotel.a.disconnects
        process.stdin.write("now\n")
        process.stdin.flush()
        assert eventually(lambda: gone(hotel, ARRIVES))
        assert process.poll() is None
    finally:
        found = ask.end(process)
    assert found == dict.fromkeys(ARRIVES, "APIUserAbortError")


async def unending(wire: Any) -> None:
    """A piece of what was asked for, and no second one."""
    path = wire.request.path
    if path.endswith("/audio/speech"):
        await wire.write(head(200, [("Content-Type", "audio/mpeg"), ("Transfer-Encoding", "chunked")]))
        await wire.write(http_chunk(b"one"))
        await wire.sleep(60)
    piece = HEARD if path.endswith("/audio/transcriptions") else PARTIAL
    await (stall_after(2) if path.endswith("/chat/completions") else passed_events(piece, piece, pause=60))(wire)


def test_an_abort_in_mid_stream_stops_the_provider(hotel, ask):
    """part of v1-api 44"""
    hotel.a.script(unending)
    names = ["chat/completions", "responses", "images/generations", "audio/transcriptions", "audio/speech"]
    process = ask.start("leaves", CHAT, bytes=ENCODED)
    try:
        assert eventually(lambda: gone(hotel, names))
        assert process.poll() is None
    finally:
        found = ask.end(process)
    assert found == [True] * 4
