"""Embeddings over real sockets, with the official SDK as the client, sync and async."""

import base64
import json
import random
import struct

import httpx
import openai
import pytest

from tests.upstream.server import embedding, half_json, html, no_vectors, reply, status, vectors
from tests.upstream.spoken import PROMPT
from tests.wire.house import house
from tests.wire.product import eventually

MODEL = "text-embedding-3-small"
GROUP = f"hotel/{MODEL}"
FORMS = [GROUP, f"Alpha/{MODEL}", MODEL]


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory):
    with house(tmp_path_factory.mktemp("house"), more=(MODEL,)) as found:
        yield found


def create(client, **members):
    return client.embeddings.create(**{"model": GROUP, "input": PROMPT, **members})


def post(home, **members):
    return home.http.post("/v1/embeddings", json={"model": GROUP, "input": PROMPT, **members})


# -- the SDK


@pytest.mark.parametrize("model", FORMS)
def test_one_text_through_each_form_of_the_name(home, guest, model):
    """routing 12"""
    home.a.script(vectors(usage={"prompt_tokens": 7, "total_tokens": 7}))
    found = create(guest, model=model)
    assert found.data[0].embedding == embedding(0)
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (7, 7)
    (call,) = home.a.calls
    assert (call.path, call.json["model"], call.json["encoding_format"]) == ("/v1/embeddings", MODEL, "base64")
    assert call.headers["authorization"] == "Bearer sk-alpha-0123456789abcdef"
    row = home.row()
    assert (row["endpoint_type"], row["model_id"], row["state"]) == ("embeddings", model, "completed")
    assert (row["tokens_prompt"], row["tokens_completion"], row["streaming"]) == (7, 0, False)


@pytest.mark.parametrize("form", ["base64", "float"])
@pytest.mark.parametrize("dimensions", [1, 256])
def test_dimensions_and_both_encodings(home, guest, form, dimensions):
    found = create(guest, encoding_format=form, dimensions=dimensions)
    assert home.a.calls[0].json["dimensions"] == dimensions
    vector = found.data[0].embedding
    if form == "base64":  # asked for by name it is handed on as it is
        vector = list(struct.unpack(f"<{dimensions}f", base64.b64decode(vector)))
    assert vector == pytest.approx(embedding(0, dimensions))


def test_a_batch_keeps_its_order(home, guest):
    found = create(guest, input=[f"text {n}" for n in range(100)])
    assert [one.index for one in found.data] == list(range(100))
    assert [one.embedding for one in found.data] == [embedding(n) for n in range(100)]


@pytest.mark.parametrize("tokens", [[1, 2, 3], [[1, 2], [3, 4, 5]], [[2**31]]], ids=str)
def test_tokens_instead_of_text(home, guest, tokens):
    found = create(guest, input=tokens)
    assert home.a.calls[0].json["input"] == tokens
    assert len(found.data) == (len(tokens) if isinstance(tokens[0], list) else 1)


def test_the_raw_answer_of_the_sdk_names_who_served(home, guest):
    found = guest.embeddings.with_raw_response.create(model=GROUP, input="x")
    assert found.headers["x-modelhotel-provider"] == "Alpha"
    assert found.headers["x-modelhotel-model"] == MODEL
    assert found.headers["x-modelhotel-attempts"] == "1"
    assert found.parse().data


def test_errors_are_typed(home, guest):
    with pytest.raises(openai.NotFoundError) as missing:
        create(guest, model="hotel/nothing")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
    home.a.script(reply(400, {"error": {"message": "too many dimensions", "param": "dimensions", "code": "x"}}))
    with pytest.raises(openai.BadRequestError) as refused:
        create(guest, dimensions=99999)
    assert (refused.value.body["message"], refused.value.code) == ("too many dimensions", "x")
    with pytest.raises(openai.AuthenticationError):
        guest.with_options(api_key="sk-" + "0" * 32).embeddings.create(model=MODEL, input="x")


def test_the_list_of_models_says_which_ones_embed(home):
    listed = {entry["id"]: entry for entry in home.http.get("/v1/models").json()["data"]}
    assert [listed[name]["modality"] for name in (f"Alpha/{MODEL}", GROUP, "hotel/glm-4.6")] == [
        "embedding",
        "embedding",
        "chat",
    ]


# -- faults and failover

FAULTS = [
    pytest.param(status(500), 500, "charge", id="500"),
    pytest.param(status(429), 429, "charge", id="429"),
    pytest.param(status(401), 401, "charge", id="401"),
    pytest.param(status(404), 404, "noop", id="404"),
    pytest.param(no_vectors(), 200, "charge", id="no vectors"),
    pytest.param(half_json(), 200, "charge", id="half a document"),
    pytest.param(html(), 200, "charge", id="html"),
    pytest.param(reply(200, b""), 200, "charge", id="no body"),
    pytest.param(reply(200, b'{"data":[', length=900, close=True), 200, "charge", id="broken off"),
    pytest.param(None, None, "charge", id="connection refused"),
]


@pytest.mark.parametrize(("fault", "seen", "word"), FAULTS)
def test_the_second_provider_takes_over_and_the_trail_says_why(home, fault, seen, word):
    """v1-api 84"""
    if fault is None:
        home.a.refuse()
    else:
        home.a.script(fault)
    found = create(home.client, input=["a", "b"])
    assert [one.embedding for one in found.data] == [embedding(0), embedding(1)]
    row = home.row()
    assert (row["state"], row["status_code"], row["endpoint_type"]) == ("completed", 200, "embeddings")
    assert row["provider_name"] == "Beta"
    assert home.trail() == [(0, "Alpha", seen, "provider_error", word), (1, "Beta", 200, None, "success")]
    assert home.circuit("Alpha")["consecutive_fails"] == (1 if word == "charge" else 0)


def test_when_both_have_no_vectors_the_last_word_is_forwarded(home):
    """v1-api 84"""
    home.a.script(no_vectors())
    home.b.script(no_vectors())
    found = post(home)
    assert (found.status_code, found.json()["data"]) == (200, [])
    assert found.headers["x-modelhotel-attempts"] == "2"
    assert [entry[4] for entry in home.trail()] == ["charge", "charge"]


def test_when_both_are_dead_the_error_names_no_secret(home):
    home.a.script(status(500, {"error": {"message": "key sk-alpha-0123456789abcdef exploded"}}))
    home.b.script(status(500, {"error": {"message": "key sk-beta-0123456789abcdef exploded"}}))
    found = post(home)
    assert found.status_code == 500 and "sk-" not in found.text
    assert "sk-" not in json.dumps(home.row()["attempts"])


def test_five_failures_open_the_circuit_and_a_reset_closes_it(home):
    home.a.script(status(500))
    for _ in range(5):
        assert post(home).status_code == 200
    assert home.circuit("Alpha")["state"] == "open"
    home.a.forget()
    assert post(home).headers["x-modelhotel-attempts"] == "1"
    assert home.a.calls == []
    home.fresh()
    assert post(home).headers["x-modelhotel-provider"] == "Alpha"


# -- sizes


def test_a_body_of_100_kilobytes_arrives_unchanged(home):
    text = "".join(random.Random(1).choices('abc é"\\\n', k=100_000))
    assert create(home.client, input=[text, text[:10]]).data[1].index == 1
    assert home.a.calls[0].json["input"] == [text, text[:10]]


def test_an_answer_of_100_kilobytes_arrives_byte_for_byte(home):
    body = json.dumps({"data": [{"embedding": [n / 7 for n in range(6_000)]}], "usage": {"total_tokens": 3}}).encode()
    home.a.script(reply(200, body))
    found = post(home)
    assert found.content == body and len(body) > 100_000
    assert home.row()["tokens_prompt"] == 3


LARGE = b'{"data":[{"embedding":"' + b"A" * 12_000_000 + b'"}],"usage":{"prompt_tokens":7}}'


def test_an_answer_over_8_megabytes_is_relayed_without_its_usage(home):
    """operations 4.5"""
    home.a.script(reply(200, LARGE))
    found = post(home)
    assert found.content == LARGE and found.headers["content-length"] == str(len(LARGE))
    assert eventually(lambda: home.row()["state"] == "completed")
    assert (home.row()["tokens_prompt"], home.trail()) == (0, [(0, "Alpha", 200, None, "success")])


def test_one_that_breaks_after_that_can_not_be_taken_for_whole(home):
    home.a.script(reply(200, LARGE, length=len(LARGE) + 1000, close=True))
    with pytest.raises(httpx.RemoteProtocolError):
        post(home)
    assert eventually(lambda: home.row()["state"] == "failed")
    row = home.row()
    assert (row["status_code"], row["error_kind"]) == (0, "provider_error")
    assert home.circuit("Alpha")["consecutive_fails"] == 1
    assert post(home, model=f"Beta/{MODEL}").status_code == 200  # the product goes on


def test_a_large_answer_of_unknown_length_is_cut_visibly_too(home):
    async def chunked(wire):
        await wire.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n")
        await wire.write(b"%x\r\n%s\r\n" % (len(LARGE), LARGE))
        wire.close_after = True

    home.a.script(chunked)
    with pytest.raises(httpx.RemoteProtocolError):
        post(home)
    assert eventually(lambda: home.row()["state"] == "failed")
