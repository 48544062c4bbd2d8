"""Both clients of OpenAI's SDK at every endpoint they know: errors of their types, timeouts, and leaving."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.upstream.behaviours import head, http_chunk
from tests.upstream.server import passed_events, silence, stall_after, status
from tests.wire.clients import ARRIVES
from tests.wire.house import MODEL as GLM
from tests.wire.house import house
from tests.wire.product import eventually

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

MODEL = f"Alpha/{GLM}"
PICTURE, SOUND = ("a.png", b"RIFF picture", "image/png"), ("a.wav", b"RIFF sound", "audio/wav")
HI: Any = [{"role": "user", "content": "hi"}]
RANKED: Any = {"query": "q", "documents": ["a"]}
#: How each is asked of a model; an asynchronous client returns what is to be awaited.
ENDPOINTS: dict[str, Callable[[Any, str], Any]] = {
    "chat/completions": lambda client, m: client.chat.completions.create(model=m, messages=HI),
    "responses": lambda client, m: client.responses.create(model=m, input="hi"),
    "embeddings": lambda client, m: client.embeddings.create(model=m, input="hi"),
    "rerank": lambda client, m: client.post("/rerank", cast_to=dict[str, Any], body={"model": m, **RANKED}),
    "images/generations": lambda client, m: client.images.generate(model=m, prompt="a cat"),
    "images/edits": lambda client, m: client.images.edit(model=m, image=PICTURE, prompt="a cat"),
    "images/variations": lambda client, m: client.images.create_variation(model=m, image=PICTURE),
    "audio/speech": lambda client, m: client.audio.speech.create(model=m, input="hi", voice="alloy"),
    "audio/transcriptions": lambda client, m: client.audio.transcriptions.create(model=m, file=SOUND),
    "audio/translations": lambda client, m: client.audio.translations.create(model=m, file=SOUND),
}


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory):
    with house(tmp_path_factory.mktemp("house")) as found:
        found.settings(server_error_retry_enabled="false", circuit_breaker_enabled="false")
        yield found


@pytest.mark.parametrize("name", ARRIVES)
def test_errors_are_of_their_types(home, guest, name):
    """part of v1-api 44a"""
    ask = ENDPOINTS[name]
    body = {"error": {"message": "no", "type": "x", "param": "input", "code": "c"}}
    for code, kind in {
        400: openai.BadRequestError,
        401: openai.AuthenticationError,
        403: openai.PermissionDeniedError,
        404: openai.NotFoundError,
        409: openai.ConflictError,
        422: openai.UnprocessableEntityError,
        429: openai.RateLimitError,
        500: openai.InternalServerError,
        503: openai.InternalServerError,
    }.items():
        home.a.script(status(code, body))
        with pytest.raises(kind) as refused:
            ask(guest, MODEL)
        found = refused.value
        assert found.status_code == code and found.request_id
        if code in (400, 409, 422):
            assert (found.body["message"], found.type, found.param, found.code) == ("no", "x", "input", "c")
        else:
            assert isinstance(found.code, str) and f"upstream HTTP {code}" in str(found)
    assert {call.path for call in home.a.calls} == {ARRIVES[name]}
    home.a.forget()
    with pytest.raises(openai.NotFoundError) as unknown:
        ask(guest, "hotel/nothing")
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.AuthenticationError) as stranger:
        ask(guest.with_options(api_key="sk-" + "0" * 32), MODEL)
    assert stranger.value.code == "invalid_api_key" and not home.a.calls


def left(home) -> bool:
    """Whether every endpoint was asked once, and its provider and its row know that the client is gone."""
    paths = sorted(call.path for call in home.a.calls if call.disconnected)
    rows = home.admin("GET", f"/api/logs/cursor?limit={len(ENDPOINTS)}").json()["entries"]
    return paths == sorted(ARRIVES.values()) and {row["error_kind"] for row in rows} == {"client_disconnect"}


def test_a_timeout_stops_the_provider(home, guest):
    """part of v1-api 44"""
    home.a.script(silence())
    hurried = guest.with_options(timeout=0.6)

    def failure(ask: Callable[[Any, str], Any]) -> Any:
        with pytest.raises(openai.APIError) as caught:
            ask(hurried, MODEL)
        return caught.type

    with ThreadPoolExecutor(len(ENDPOINTS)) as pool:
        found = dict(zip(ENDPOINTS, pool.map(failure, ENDPOINTS.values()), strict=True))
    assert found == dict.fromkeys(ENDPOINTS, openai.APITimeoutError)
    assert eventually(lambda: left(home))


async def test_a_task_that_is_cancelled_stops_the_provider(home):
    """part of v1-api 44"""
    home.a.script(silence())
    async with openai.AsyncOpenAI(base_url=f"{home.product.url}/v1", api_key=home.key, max_retries=0) as client:
        tasks = [asyncio.ensure_future(ask(client, MODEL)) for ask in ENDPOINTS.values()]
        await home.a.until(lambda: len(home.a.calls) == len(ENDPOINTS))
        for task in tasks:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in found] == [asyncio.CancelledError] * len(ENDPOINTS)
        await home.a.until(lambda: home.a.disconnects == len(ENDPOINTS))
    assert await asyncio.to_thread(eventually, lambda: left(home))


async def speaks(wire: Any) -> None:
    """One piece of a speech, and no second one."""
    await wire.write(head(200, [("Content-Type", "audio/mpeg"), ("Transfer-Encoding", "chunked")]) + http_chunk(b"one"))
    await wire.sleep(60)


PARTIAL = {"type": "image_generation.partial_image", "partial_image_index": 0, "b64_json": "AAAA"}
EDITED = {**PARTIAL, "type": "image_edit.partial_image"}
HEARD = {"type": "transcript.text.delta", "delta": "hel"}


@pytest.mark.parametrize(
    ("behaviour", "ask"),
    [
        (stall_after(2), lambda client: client.chat.completions.create(model=MODEL, messages=HI, stream=True)),
        (stall_after(2), lambda client: client.responses.create(model=MODEL, input="hi", stream=True)),
        (
            passed_events(PARTIAL, PARTIAL, pause=60),
            lambda client: client.images.generate(model=MODEL, prompt="a cat", stream=True, partial_images=1),
        ),
        (
            passed_events(EDITED, EDITED, pause=60),
            lambda client: client.images.edit(model=MODEL, image=PICTURE, prompt="a cat", stream=True),
        ),
        (
            passed_events(HEARD, HEARD, pause=60),
            lambda client: client.audio.transcriptions.create(model=MODEL, file=SOUND, stream=True),
        ),
        (
            speaks,
            lambda client: client.audio.speech.with_streaming_response.create(model=MODEL, input="hi", voice="alloy"),
        ),
    ],
    ids=["chat", "responses", "images/generations", "images/edits", "audio/transcriptions", "audio/speech"],
)
def test_leaving_in_mid_stream_stops_the_provider(home, guest, behaviour, ask):
    """part of v1-api 44"""
    home.a.script(behaviour)
    with ask(guest) as found:
        steps = iter(found.iter_bytes() if behaviour is speaks else found)
        assert next(steps)
    home.a.wait_disconnects(1)
    assert eventually(lambda: home.row()["error_kind"] == "client_disconnect")
