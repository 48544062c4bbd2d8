"""The simulated providers of the demo: what they decide, and what they put on the wire."""

import asyncio
import base64
import json
import struct

import httpx
import pytest

from modelhotel.ops import demo_environment, simulated
from modelhotel.ops.simulated import (
    FLAKY,
    HEALTHY,
    MODEL,
    SLOW,
    Mood,
    Moody,
    Plan,
    Provider,
    Steady,
    asked,
)
from modelhotel.ops.simulated_vectors import EMBEDDER, embeddings, vector, wanted

BEST = Steady(first=0.0, spread=0.0, pause=0.0)
CYCLE = sum(length for _, length in FLAKY.moods)


def in_mood(mood: Mood) -> Moody:
    return Moody(BEST, ((mood, 1000.0),))


def body(**members) -> dict:
    return {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **members}


async def ask(character, path: str = "/chat/completions", *, chance: float = 0.0, **members) -> httpx.Response:
    provider = Provider("Flaky", character, lambda: chance)
    async with provider.running(), httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
        if path == "/models":
            return await client.get(provider.base_url + path)
        return await client.post(provider.base_url + path, json=members or body())


def frames(text: str) -> list:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


# -- characters -------------------------------------------------------------------------------------------------------


def test_the_healthy_provider_answers_in_about_200_ms_and_the_slow_one_takes_seconds():
    for chance in (0.0, 0.5, 0.999):
        assert 0.15 <= HEALTHY.plan(1e6, lambda c=chance: c).first <= 0.25
        assert 4.0 <= SLOW.plan(1e6, lambda c=chance: c).first <= 7.0


def test_the_flaky_provider_is_good_at_first_and_fails_within_ten_seconds():
    assert FLAKY.mood(0.0) is Mood.GOOD
    assert FLAKY.mood(10.0) is Mood.ERRORS


def test_the_flaky_provider_goes_through_every_mood_and_starts_over():
    seen = [FLAKY.mood(age / 2) for age in range(int(CYCLE * 2))]
    assert set(seen) == set(Mood)
    assert seen == [FLAKY.mood(age / 2 + CYCLE) for age in range(int(CYCLE * 2))]


def test_each_good_time_is_long_enough_for_a_circuit_to_recover():
    """A burst costs at most one failed probe, so the circuit waits 10 s and then 20 s."""
    bursts = [length for mood, length in FLAKY.moods if mood is not Mood.GOOD]
    good = [length for mood, length in FLAKY.moods if mood is Mood.GOOD]
    assert max(bursts) <= 20.0
    assert min(good) >= 30.0


@pytest.mark.parametrize(
    ("mood", "chance", "plan"),
    [
        (Mood.GOOD, 0.0, Plan(0.0, 0.0)),
        (Mood.ERRORS, 0.0, Plan(0.0, 0.0, status=500)),
        (Mood.CUTS, 0.0, Plan(0.0, 0.0, cut_at=0)),
        (Mood.CUTS, 0.99, Plan(0.0, 0.0, cut_at=4)),
    ],
)
def test_a_mood_decides_the_answer(mood, chance, plan):
    assert in_mood(mood).plan(5.0, lambda: chance) == plan


def test_connections_are_refused_in_one_mood_only():
    assert [mood for mood in Mood if not in_mood(mood).listens(5.0)] == [Mood.REFUSES]


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.999])
def test_the_words_name_the_provider_and_outlast_a_cut(chance):
    said = simulated.words("Slow", lambda: chance)
    assert "".join(said).startswith("Hello from Slow. ")
    assert len(said) > 4


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ('{"model": "demo"}', 400),
        ('{"model": "demo", "messages": "hi"}', 400),
        ('{"model": "other", "messages": []}', 404),
    ],
)
def test_a_request_that_can_not_be_answered_is_told_so(text, status):
    found = asked(text.encode())
    assert found.wrong
    assert found.status == status


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("{", 400),
        ("[]", 400),
        ('{"model": "demo-embedding"}', 400),
        ('{"model": "demo-embedding", "input": 5}', 400),
        ('{"model": "demo-embedding", "input": []}', 400),
        ('{"model": "demo-embedding", "input": "hi", "dimensions": "many"}', 400),
        ('{"model": "demo-embedding", "input": "hi", "dimensions": 5000}', 400),
        ('{"model": "demo", "input": "hi"}', 404),
    ],
)
def test_vectors_that_can_not_be_made_are_told_so(text, status):
    found = wanted(text.encode())
    assert found.wrong and found.status == status


@pytest.mark.parametrize(
    ("given", "inputs"),
    [("hi", ("hi",)), (["a", "b"], ("a", "b")), ([1, 2], ("[1, 2]",)), ([[1], [2]], ("[1]", "[2]"))],
)
def test_every_form_of_input_is_as_many_vectors(given, inputs):
    found = wanted(json.dumps({"model": EMBEDDER, "input": given, "dimensions": 4}).encode())
    assert (found.inputs, found.dimensions, found.packed, found.wrong) == (inputs, 4, False, "")
    made = embeddings(found, 400)
    assert [len(one["embedding"]) for one in made["data"]] == [4] * len(inputs)
    assert made["usage"] == {"prompt_tokens": 100, "total_tokens": 100}


def test_a_vector_has_length_one_and_depends_on_the_text_alone():
    one = vector("hi", 16)
    assert sum(number * number for number in one) == pytest.approx(1.0)
    assert one == vector("hi", 16) != vector("ho", 16)


# -- on the wire ------------------------------------------------------------------------------------------------------


async def test_the_listing_has_a_model_that_talks_and_one_that_makes_vectors():
    answer = await ask(BEST, "/models")
    assert [entry["id"] for entry in answer.json()["data"]] == [MODEL, EMBEDDER]


async def test_a_plain_answer_has_text_and_usage():
    answer = (await ask(BEST)).json()
    text = answer["choices"][0]["message"]["content"]
    assert text.startswith("Hello from Flaky.")
    assert answer["usage"]["completion_tokens"] == len(text.split())
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + len(text.split())


async def test_a_stream_speaks_word_by_word_and_ends_with_usage_when_asked():
    members = body(stream=True, stream_options={"include_usage": True})
    *spoken, usage, done = frames((await ask(BEST, **members)).text)
    text = "".join(frame["choices"][0]["delta"].get("content", "") for frame in spoken)
    assert text.startswith("Hello from Flaky.")
    assert spoken[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(text.split())
    assert done == "[DONE]"


async def test_a_stream_has_no_usage_unless_asked():
    found = frames((await ask(BEST, **body(stream=True))).text)
    assert all("usage" not in frame for frame in found[:-1])


async def test_errors_come_as_openai_writes_them():
    answer = await ask(in_mood(Mood.ERRORS))
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"


async def test_vectors_come_as_numbers_or_packed():
    plain = (await ask(BEST, "/embeddings", model=EMBEDDER, input="hi")).json()["data"][0]["embedding"]
    packed = (await ask(BEST, "/embeddings", model=EMBEDDER, input="hi", encoding_format="base64")).json()
    numbers = struct.unpack("<16f", base64.b64decode(packed["data"][0]["embedding"]))
    assert list(numbers) == pytest.approx(plain)


@pytest.mark.parametrize(("mood", "status"), [(Mood.ERRORS, 500), (Mood.GOOD, 200)])
async def test_vectors_follow_the_mood_too(mood, status):
    assert (await ask(in_mood(mood), "/embeddings", model=EMBEDDER, input="hi")).status_code == status


@pytest.mark.parametrize("stream", [False, True])
async def test_cuts_break_the_answer_off(stream):
    with pytest.raises(httpx.RemoteProtocolError):
        await ask(in_mood(Mood.CUTS), **body(stream=stream))


async def test_refused_connections_come_back_on_the_same_port():
    ages = [0.0]
    character = Moody(BEST, ((Mood.GOOD, 10.0), (Mood.REFUSES, 10.0)))

    async def reached(client: httpx.AsyncClient, url: str) -> bool:
        try:
            return (await client.get(url)).status_code == 200
        except httpx.TransportError:
            return False

    async def becomes(wanted: bool, client: httpx.AsyncClient, url: str) -> bool:
        async with asyncio.timeout(5.0):
            while await reached(client, url) is not wanted:
                await asyncio.sleep(0.02)
        return True

    async with Provider("Flaky", character, lambda: 0.0, now=lambda: ages[0]).running() as provider:
        url = provider.base_url + "/models"
        async with httpx.AsyncClient(timeout=2.0, trust_env=False) as client:
            assert await reached(client, url)
            ages[0] = 15.0  # the kept connection must not survive either
            assert await becomes(False, client, url)
            ages[0] = 21.0
            assert await becomes(True, client, url)


# -- its environment --------------------------------------------------------------------------------------------------


def test_the_demo_takes_nothing_of_a_real_installation_from_the_environment():
    raw = {
        "DATABASE_URL": "postgresql://real",
        "POSTGRES_PASSWORD": "real",
        "REDIS_URL": "redis://real",
        "MASTER_KEY": "real",
        "ADMIN_TOKEN": "real",
        "ADMIN_PASSWORD": "real",
        "ALLOWED_PROVIDER_HOSTS": "10.0.0.1",
        "DATA_DIR": "/srv/hotel",
        "PORT": "9000",
        "DEMO_READONLY": "true",
    }
    assert demo_environment.of(raw) == {
        "PORT": "9000",
        "DEMO_READONLY": "true",
        "DATA_DIR": "/srv/hotel/demo",
        "ALLOW_HTTP_PROVIDERS": "true",
        "ALLOWED_PROVIDER_HOSTS": "127.0.0.1",
        "MODELSDEV_ENABLED": "false",
    }


def test_without_data_dir_the_demo_lives_beside_the_default_one():
    assert demo_environment.of({})["DATA_DIR"] == "data/demo"
