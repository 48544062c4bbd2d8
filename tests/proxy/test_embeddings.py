"""Embeddings from the client's bytes to the provider's socket and back, into the row, the counters and the events."""

import asyncio

import pytest

from modelhotel.core import events
from proxy.metering import METER
from tests.proxy import world
from tests.proxy.asgi import call, chat, client, embed, run
from tests.upstream.server import answer, no_vectors, reply, status, vectors

pytestmark = pytest.mark.django_db(transaction=True)

PATH = "/v1/embeddings"
KEY = "sk-upstream-0123456789abcdef"


class House:
    """Provider A (paid) before B in group g, both with the embedding model m; A alone has e and a chat model."""

    def __init__(self, a, b):
        self.a, self.b = a, b
        self.pa, self.pb = world.provider("A", a.url, KEY), world.provider("B", b.url)
        given = {"modality": "embedding", "output_modalities": ["embedding"]}
        self.m = world.model(self.pa, "m", input_price_per_million=2.0, output_price_per_million=10.0, **given)
        world.group("g", self.m, world.model(self.pb, "m", **given))
        world.model(self.pa, "e", **given)
        world.model(self.pa, "c")
        self.key = world.key()
        world.ready()

    def ask(self, model="hotel/g", **members):
        return embed(self.key, {"model": model, "input": "hi", **members})


@pytest.fixture
def house(provider_a, provider_b):
    return House(provider_a, provider_b)


def charged():
    assert METER.flush()
    return world.stored().tokens_used


# -- what goes through


def test_the_provider_sees_the_bytes_that_the_client_wrote(house):
    body = (
        b'{"input":["\\u00e9",  "b"],"model":"A/m","dimensions":256.0,"encoding_format":"base64",'
        b'"user":"u","truncate":null,"x":9007199254740993}'
    )
    house.a.script(reply(200, {"data": [{}]}))
    assert embed(house.key, body).status == 200
    assert house.a.calls[0].body == body.replace(b"A/m", b"m")


def test_the_row_of_a_served_request(house):
    house.a.script(vectors(usage={"prompt_tokens": 500_000, "total_tokens": 500_000}))
    assert house.ask(input=["a", "b"]).status == 200
    row = world.row()
    assert (row.endpoint_type, row.model_id, row.resolved_model_id) == ("embeddings", "hotel/g", "m")
    assert (row.state, row.status_code, row.streaming, row.ttft_ms) == ("completed", 200, False, None)
    assert (row.tokens_prompt, row.tokens_completion, row.tokens_per_second) == (500_000, 0, 0)
    assert row.provider_id == house.pa.pk and float(row.cost_usd) == pytest.approx(1.0)
    assert charged() == 500_000
    assert [entry["breaker"] for entry in row.attempts] == ["success"]


def test_an_answer_without_usage_costs_an_estimate_that_no_row_shows(house):
    """v1-api 85"""
    house.a.script(vectors(usage=False))
    assert house.ask(input=[[1, 2, 3]]).status == 200
    row = world.row()
    assert (row.tokens_prompt, float(row.cost_usd)) == (0, 0.0)
    assert charged() == 3


def test_what_a_rejected_answer_cost_is_added(house):
    """v1-api 84"""
    house.a.script(no_vectors())
    got = house.ask()
    assert got.status == 200 and len(got.json["data"]) == 1
    row = world.row()
    assert (row.tokens_prompt, row.failover_attempt, row.provider_id) == (8, 1, house.pb.pk)
    assert charged() == 8


def test_events_and_the_live_row_are_those_of_any_request(house):
    seen = []
    events.subscribe(seen.append)
    house.ask("A/m")
    house.a.script(status(500))
    house.ask("A/m")
    kinds = [event.type for event in seen if event.type.startswith("request.")]
    assert kinds == ["request.started", "request.completed"] * 2
    assert [event.severity for event in seen if event.type == "request.completed"] == ["success", "warning"]


# -- models and endpoints


@pytest.mark.parametrize("model", ["hotel/g", "HOTEL/g", "A/m", "A/e", "m", "e"])
def test_a_name_means_the_same_as_for_chat(house, model):
    """routing 12"""
    expected = 404 if model.startswith("HOTEL") else 200
    assert house.ask(model).status == expected
    assert world.row().status_code == expected


def test_any_model_may_be_asked_on_any_endpoint(house):
    """v1-api 6.5: the provider answers for a model that can not do it."""
    refusal = {"error": {"message": "this model does not support embeddings", "type": "invalid_request_error"}}
    house.a.script(reply(400, refusal))
    got = house.ask("A/c")
    assert (got.status, got.json) == (400, refusal)
    house.a.script(answer("hi"))
    assert chat(house.key, {"model": "A/m", "messages": []}).status == 200


def test_the_list_of_models_says_what_embeds(house):
    listed = {entry["id"]: entry for entry in call("GET", "/v1/models", key=house.key).json["data"]}
    assert listed["hotel/g"]["modality"] == listed["A/e"]["modality"] == "embedding"
    assert listed["A/e"]["output_modalities"] == ["embedding"]


# -- gates


def test_the_path_with_a_slash_behind_it(house):
    assert call("POST", PATH + "/", key=house.key, json={"model": "A/m", "input": "x"}).status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_a_wrong_method_is_told_the_right_one(method):
    """part of v1-api 27"""
    got = call(method, PATH)
    assert (got.status, got.header("allow")) == (405, "POST")


def test_a_preflight_needs_no_key():
    assert call("OPTIONS", PATH, headers=[("Origin", "http://localhost:5173")]).status == 204


def test_a_stranger_is_refused_before_the_body_is_read(house):
    """part of v1-api 5"""

    async def post():
        sender = client("POST", PATH, key="sk-" + "0" * 32, body=[b"x"] * 3)
        return await sender.run(), sender.taken

    got, taken = run(post())
    assert (got.said, taken) == ((401, "invalid virtual key"), 0)
    assert world.rows() == []


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b"", "invalid request body", None),
        (b"[]", "invalid request body", None),
        (b'{"model":"A/m"} x', "invalid request body", None),
        (b'{"model":"A/m","input":"\xff"}', "invalid request body", None),
        (b'{"input":"x"}', "model is required", "model"),
        (b'{"input":"x","model":null}', "model is required", "model"),
        (b'{"input":"x","model":""}', "model is required", "model"),
        (b'{"input":"x","model":5}', "invalid request body", "model"),
        (b'{"model":"' + b"m" * 513 + b'"}', "model exceeds maximum length of 512 characters", "model"),
        (b'{"model":"A/m","stream":"yes"}', "invalid request body", "stream"),
    ],
    ids=range(10),
)
def test_a_bad_body_is_named(house, body, message, param):
    """part of v1-api 23, part of v1-api 24"""
    got = embed(house.key, body)
    assert got.said == (400, message) and got.error["param"] == param
    row = world.row()
    assert (row.endpoint_type, row.error_kind, row.status_code) == ("embeddings", "validation", 400)
    assert house.a.calls == []


@pytest.mark.parametrize("member", ["input", "dimensions", "encoding_format", "user"])
@pytest.mark.parametrize("given", [None, 5, {}, [], "", [[]], [None], [1.5, "x"]], ids=str)
def test_what_we_do_not_read_is_the_providers_to_judge(house, member, given):
    refusal = {"error": {"message": f"{member} is odd"}}
    house.a.script(reply(422, refusal))
    got = house.ask("A/m", **{member: given})
    assert (got.status, got.json) == (422, refusal)
    assert house.a.calls[0].json[member] == given


def test_a_key_without_the_provider_may_not_ask(house):
    plain = world.key("other", allowed_providers=[str(house.pb.pk)])
    world.ready()
    got = embed(plain, {"model": "A/m", "input": "x"})
    assert got.said == (403, "virtual key does not have access to any provider for this model")
    assert embed(plain, {"model": "hotel/g", "input": "x"}).status == 200
    assert house.a.calls == []


def test_many_at_once(house):
    """Each gets its own answer."""

    async def all_of_them():
        senders = [client("POST", PATH, key=house.key, json={"model": "A/m", "input": ["x"] * n}) for n in range(1, 31)]
        return await asyncio.gather(*(sender.run() for sender in senders))

    assert [len(got.json["data"]) for got in run(all_of_them())] == list(range(1, 31))
    assert len(world.rows()) == 30 and charged() == 120
