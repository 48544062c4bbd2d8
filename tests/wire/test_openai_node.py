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
from tests.upstream.media import MP3, PNG
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
from tests.upstream.vendors_api import message, response, said, text, tool_use
from tests.wire.mixed import CHAT, GATEWAY, GROUP, OPENAI, Mixed
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.node, pytest.mark.timeout(150)]

SCRIPT = Path(__file__).with_name("openai_sdk.mjs")
SECONDS = 30.0
BYTES = random.Random(1).randbytes(60_000) + b"\r\n--x--\r\n"
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


def test_pictures(hotel, ask):
    assert ask("images", bytes=ENCODED) == [PNG, PNG]
    assert ("image", "a.png", "image/png", b"RIFF picture") in hotel.a.calls[1].parts


def test_sound(hotel, ask):
    found = ask("audio", bytes=base64.b64encode(BYTES).decode())
    assert (base64.b64decode(found["sound"]), found["text"]) == (MP3, "hello there")
    assert ("file", "a.wav", "audio/wav", BYTES) in hotel.a.calls[1].parts


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


def test_an_abort_in_mid_stream_stops_the_provider(hotel, ask):
    """part of v1-api 44"""
    hotel.a.script(stall_after(2))
    process = ask.start("abort", CHAT)
    try:
        hotel.a.wait_disconnects(1)
        assert eventually(lambda: hotel.home.row()["error_kind"] == "client_disconnect")
        assert process.poll() is None
    finally:
        found = ask.end(process)
    assert found == {"aborted": True}


def test_a_timeout_of_the_client_stops_the_provider(hotel, ask):
    hotel.a.script(silence())
    assert ask("timeout")["name"] == "APIConnectionTimeoutError"
    hotel.a.wait_disconnects(1)
