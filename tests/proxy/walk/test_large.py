"""A large body is read and translated beside the event loop (v1-api 12, 13, 15): nobody else waits for it."""

import asyncio
import json

import pytest

from proxy import beside
from tests.proxy.asgi import client
from tests.proxy.walk.stage import KEY, Stage
from tests.proxy.walk.test_dialects import GENERATED, NATIVE, body
from tests.upstream.server import FakeProvider, answer

MANY = [{"role": "user", "content": "x"}] * 120_000


async def _beats(waiting: asyncio.Task[None]) -> int:
    """How often the loop came round until *waiting* was done."""
    beats = 0
    while not waiting.done():
        await asyncio.sleep(0.002)
        beats += 1
    return beats


@pytest.mark.parametrize(
    ("kind", "path", "member", "said"),
    [
        ("custom", "/v1/messages", "messages", None),
        ("custom", "/v1/responses", "input", None),
        ("anthropic-messages", "/v1/chat/completions", "messages", NATIVE),
        ("vertex-express", "/v1/chat/completions", "messages", GENERATED),
    ],
)
async def test_the_loop_goes_on_meanwhile(
    stage: Stage, provider_a: FakeProvider, kind: str, path: str, member: str, said: dict | None
):
    stage.member("A", provider_a.url, kind=kind)
    provider_a.script(answer("Hello") if said is None else body(said))
    provider_a.route("POST", "/v1/publishers/google/models/m:generateContent", body(GENERATED))
    asked = {"model": "A/m", "max_tokens": 9, member: MANY}
    assert len(json.dumps(asked)) > beside.LARGE
    one = client("POST", path, key=KEY, json=asked)
    assert await _beats(asyncio.ensure_future(one.run())) > 20
    assert one.answer.status == 200


async def test_counting_does_not_stop_it_either(stage: Stage):
    stage.member("A", "http://127.0.0.1:9/v1")
    asked = {"model": "A/m", "max_tokens": 9, "messages": MANY}
    one = client("POST", "/v1/messages/count_tokens", key=KEY, json=asked)
    assert await _beats(asyncio.ensure_future(one.run())) > 20
    assert one.answer.json == {"input_tokens": len(MANY) // 4}


async def test_a_large_body_that_is_none_is_refused_as_a_small_one(stage: Stage):
    stage.member("A", "http://127.0.0.1:9/v1")
    raw = b'{"model": "A/m", "messages": [' + b" " * beside.LARGE
    one = client("POST", "/v1/messages", key=KEY, body=raw)
    await one.run()
    assert (
        one.answer.status == 400 and one.answer.json["error"]["message"] == "anthropic: invalid request body: not JSON"
    )
