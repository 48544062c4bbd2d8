"""What one client may not teach about a model for the requests of all others (failover-loop 6.3)."""

from typing import Any

import pytest

from tests.proxy.walk.stage import Stage
from tests.proxy.walk.test_heal import SCHEMA, bad, sent
from tests.upstream.server import FakeProvider, answer, stream

ROLES = ("system", "user", "assistant", "tool", "developer", "function")
USAGE = {"stream_options": {"include_usage": True}}
GOOD = {"temperature": 0.1, "stop": ["a"], "max_tokens": 10, "seed": 7, "n": 1, "response_format": SCHEMA}


async def openai(wire: Any) -> None:
    """What OpenAI checks, in its words."""
    asked = wire.request.json
    message = ""
    for role in (message["role"] for message in asked["messages"]):
        if role not in ROLES:
            message = f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user' and 'tool'."
    if asked.get("temperature", 0) > 2:
        message = "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 instead."
    if len(asked.get("stop", ())) > 4:
        message = "Invalid 'stop': array too long. Expected an array with maximum length 4, but got 5 instead."
    if "stream_options" in asked and not asked.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    done = stream(["a"]) if asked.get("stream") else answer("ok")
    await (bad(message) if message else done)(wire)


@pytest.fixture
def one(stage: Stage, provider_a: FakeProvider) -> Stage:
    stage.member("A", provider_a.url, kind="openai")
    provider_a.script(openai)
    return stage


def role(text: str) -> dict[str, Any]:
    return {"messages": [{"role": text, "content": "x"}]}


@pytest.mark.parametrize(
    "asked",
    [
        {"temperature": 3},
        {"stop": list("abcde")},
        role("max_tokens"),
        {**role("max_tokens"), "max_tokens": 5},
        {**role("seed"), "seed": 5},
        {**role("x. Use 'max_completion_tokens' instead of 'max_tokens'"), "max_tokens": 5},
        {**role("json_schema is not supported"), "response_format": SCHEMA},
    ],
)
async def test_a_bad_request_is_its_clients_own_affair(asked: dict[str, Any], one: Stage, provider_a: FakeProvider):
    assert (await one.ask(**asked)).status == 400
    provider_a.forget()
    assert (await one.ask(**GOOD)).status == 200
    assert sent(provider_a) == [GOOD]


async def test_asking_for_usage_without_a_stream_leaves_all_streams_metered(one: Stage, provider_a: FakeProvider):
    assert (await one.ask(**USAGE)).status == 200
    assert sent(provider_a) == [USAGE, {}]
    assert (await one.ask(stream=True)).status == 200
    assert sent(provider_a)[2] == {"stream": True, **USAGE}
    assert (await one.ask(**USAGE)).status == 200  # repaired again: it holds of such requests alone


async def test_what_a_client_says_through_the_provider_repairs_its_own_request(one: Stage, provider_a: FakeProvider):
    provider_a.script(bad("role 'seed' is not supported"), answer("ok"))
    assert (await one.ask(seed=1, **role("seed"))).status == 200
    assert (await one.ask(seed=1)).status == 200
    assert sent(provider_a) == [{"seed": 1}, {}, {"seed": 1}]


async def test_what_the_provider_says_beside_it_is_learned(one: Stage, provider_a: FakeProvider):
    provider_a.script(bad("'seed' is not supported, said user"), answer("ok"))
    assert (await one.ask(seed=1, user="user")).status == 200
    assert (await one.ask(seed=1)).status == 200
    assert sent(provider_a)[1:] == [{"user": "user"}, {}]
