"""Chat completions from the client's bytes to the provider's socket and back, into the row and the counters."""

import asyncio
import json

import pytest

from modelhotel.core import events
from modelhotel.models import Setting
from proxy.metering import METER
from tests.proxy import world
from tests.proxy.asgi import chat, client, run
from tests.upstream.server import (
    FakeProvider,
    answer,
    completion,
    delta,
    empty_choices,
    html,
    reply,
    stall_after,
    status,
    stream,
    usage_chunk,
)
from tests.upstream.server import events as scripted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]

UPSTREAM_KEY = "sk-upstream-0123456789abcdef"
HELLO = [{"role": "user", "content": "hi"}]


class House:
    """Provider A (scripted, paid) before B (healthy) in group g; K may use both."""

    def __init__(self, a: FakeProvider, b: FakeProvider, kind: str = "custom"):
        self.a, self.b = a, b
        self.pa = world.provider("A", a.url, UPSTREAM_KEY, provider_type=kind)
        self.pb = world.provider("B", b.url)
        self.mb = world.model(self.pb, "m")
        prices = {"input_price_per_million": 1.0, "output_price_per_million": 10.0}
        self.m = world.model(self.pa, "m", input_price_per_million_cache_hit=0.5, **prices)
        world.group("g", self.m, self.mb)
        self.key = world.key()
        world.ready()

    def ask(self, body=None, model="A/m", **members):
        return chat(self.key, body if body is not None else {"model": model, "messages": HELLO, **members})

    def sent(self):
        """The body of the only request that reached A."""
        (call,) = self.a.calls
        return call


@pytest.fixture
def house(provider_a, provider_b):
    return House(provider_a, provider_b)


def charged():
    assert METER.flush()
    return world.stored().tokens_used


def put(key, value):
    Setting.objects.update_or_create(key=key, defaults={"value": value})
    world.ready()


# -- what the provider sees


def test_the_provider_sees_the_digits_that_the_client_wrote(house):
    """v1-api 54"""
    body = (
        b'{"seed":9007199254740993,"model":"A/m","temperature":0.10,"messages":[{"role":"user","content":"\\u00e9"}]}'
    )
    assert house.ask(body).status == 200
    assert house.sent().body == body.replace(b"A/m", b"m")


def test_nothing_of_the_clients_headers_reaches_the_provider(house):
    sent = {
        "User-Agent": "client/1",
        "Cookie": "a=b",
        "x-api-key": "sk-mine",
        "anthropic-version": "1",
        "OpenAI-Beta": "x",
        "OpenAI-Organization": "o",
        "X-Stainless-Lang": "python",
        "Idempotency-Key": "i",
        "X-Forwarded-For": "10.0.0.1",
        "X-Request-Id": "r-1",
        "Origin": "http://localhost:5173",
    }
    chat(house.key, {"model": "A/m", "messages": HELLO}, headers=list(sent.items()))
    headers = house.sent().headers
    assert set(headers) <= {"host", "content-length", "content-type", "accept-encoding", "authorization", "user-agent"}
    assert headers["authorization"] == f"Bearer {UPSTREAM_KEY}"
    assert headers["content-type"] == "application/json"
    assert headers.get("user-agent") != "client/1"


@pytest.mark.parametrize("asked", [None, False, True])
def test_usage_is_always_asked_for_and_shown_to_who_asked(house, asked):
    """v1-api 55"""
    options = {} if asked is None else {"stream_options": {"include_usage": asked}}
    got = house.ask(stream=True, **options)
    assert house.sent().json["stream_options"] == {"include_usage": True}
    usage = [e for e in got.events if '"choices":[]' in e.replace(" ", "")]
    assert len(usage) == (1 if asked else 0)
    assert got.events[-1] == "[DONE]"
    if asked:
        assert got.events[-2] == usage[0]
    assert (world.row().tokens_prompt, world.row().tokens_completion, charged()) == (3, 5, 8)


def test_a_setting_shows_the_usage_chunk_to_everyone(house):
    """v1-api 55"""
    put("expose_usage_chunk", "true")
    got = house.ask(stream=True)
    assert '"choices":[]' in got.events[-2].replace(" ", "") and got.events[-1] == "[DONE]"


def test_an_empty_list_of_tool_calls_in_the_history_is_left_out(house):
    """v1-api 63"""
    house.ask(messages=[{"role": "assistant", "content": "x", "tool_calls": []}, *HELLO])
    assert house.sent().json["messages"] == [{"role": "assistant", "content": "x"}, *HELLO]


def test_a_provider_type_strips_what_its_vendor_refuses(provider_a, provider_b):
    house = House(provider_a, provider_b, "openai")
    house.ask(min_p=0.1, top_k=5, top_p=0.9)
    assert set(house.sent().json) == {"model", "messages", "top_p"}


def test_a_provider_type_injects_what_its_vendor_needs(provider_a, provider_b):
    house = House(provider_a, provider_b, "deepseek")
    world.model(house.pa, "deepseek-reasoner")
    world.ready()
    house.ask(model="A/deepseek-reasoner", reasoning_effort="high", messages=[{"role": "assistant", "content": "x"}])
    assert house.sent().json == {
        "model": "deepseek-reasoner",
        "messages": [{"role": "assistant", "content": "x", "reasoning_content": ""}],
    }


# -- what the client sees


def test_a_whole_answer_comes_back_as_the_provider_wrote_it(house):
    house.a.script(reply(201, completion("hello", system_fingerprint="f"), headers={"Set-Cookie": "a=b", "X-Up": "1"}))
    got = house.ask()
    assert got.status == 201
    assert got.body == json.dumps(completion("hello", system_fingerprint="f")).encode()
    assert got.header("content-type") == "application/json"
    assert got.header("set-cookie") is None and got.header("x-up") is None


def test_a_stream_comes_back_event_by_event(house):
    house.a.script(stream(["Hel", "lo"]))
    got = house.ask(stream=True)
    chunks = [json.loads(e) for e in got.events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == "Hello"
    assert (got.header("content-type"), got.header("x-accel-buffering")) == ("text/event-stream", "no")


def test_the_answer_headers_name_who_served(house):
    """v1-api 69c"""
    house.a.script(status(500))
    for body in ({"stream": False}, {"stream": True}):
        got = house.ask(model="hotel/g", **body)
        assert got.status == 200
        assert (got.header("x-modelhotel-provider"), got.header("x-modelhotel-model")) == ("B", "m")
        assert got.header("x-modelhotel-attempts") == "2"
        assert float(got.header("x-modelhotel-overhead-ms")) < 5000
        assert got.header("x-request-id")


def test_an_undecodable_answer_moves_on_and_as_the_last_one_is_a_502(house):
    """v1-api 69"""
    house.a.script(html(200))
    assert house.ask(model="hotel/g").json["choices"][0]["message"]["content"] == "from B"
    got = house.ask()
    message = "the provider returned a response the gateway could not decode (provider A, upstream HTTP 200)"
    assert got.said == (502, message)
    assert got.error["code"] == "provider_error"


def test_empty_choices_move_on_and_as_the_last_ones_are_a_502(house):
    """v1-api 69a"""
    house.a.script(empty_choices())
    assert house.ask(model="hotel/g").json["choices"][0]["message"]["content"] == "from B"
    assert house.ask().said == (502, "provider returned no choices (provider A, upstream HTTP 200)")


def test_reasoning_is_normalised_and_kept_for_a_key_that_strips_it_from_streams(house):
    """v1-api 60"""
    plain = world.key("strict", strip_reasoning=True)
    world.ready()
    house.a.script(reply(200, completion("<think>why</think>because")))
    message = chat(plain, {"model": "A/m"}).json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("why", "because")


def test_the_providers_own_key_is_masked_in_an_answer(house):
    house.a.script(answer(f"your key is {UPSTREAM_KEY}, other: sk-0123456789abcdef0123"))
    got = house.ask()
    assert got.json["choices"][0]["message"]["content"] == "your key is [redacted], other: sk-0123456789abcdef0123"


def test_a_large_request_and_a_large_answer_pass(house):
    text = "x" * 3_000_000
    house.a.script(answer(text))
    got = house.ask(messages=[{"role": "user", "content": text}])
    assert len(got.json["choices"][0]["message"]["content"]) == len(text)
    assert len(house.sent().json["messages"][0]["content"]) == len(text)


# -- what is counted


def test_reported_usage_goes_to_the_row_the_counter_and_the_cost(house):
    """v1-api 68"""
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 50,
        "completion_tokens_details": {"reasoning_tokens": 30},
        "prompt_tokens_details": {"cached_tokens": 40},
    }
    house.a.script(answer("x", usage=usage))
    house.ask()
    row = world.row()
    assert (row.tokens_prompt, row.tokens_completion, row.tokens_completion_reasoning) == (100, 50, 30)
    assert (row.tokens_prompt_cache_hit, row.tokens_prompt_cache_miss) == (40, 60)
    assert float(row.cost_usd) == pytest.approx((60 * 1.0 + 40 * 0.5 + 50 * 10.0) / 1e6)
    assert charged() == 150
    assert world.stored().last_used_at is not None


def test_counts_spelled_as_text_and_floats_are_counted(house):
    """v1-api 67"""
    house.a.script(answer("x", usage={"prompt_tokens": "12", "completion_tokens": 3.0}))
    assert house.ask().status == 200
    assert (world.row().tokens_prompt, world.row().tokens_completion, charged()) == (12, 3, 15)


def test_missing_usage_is_estimated_for_the_counter_and_not_for_the_row(house):
    body = completion("12345678")
    del body["usage"]
    house.a.script(reply(200, body))
    house.ask(messages=[{"role": "user", "content": "123456789"}])
    row = world.row()
    assert (row.tokens_prompt, row.tokens_completion, row.cost_usd) == (0, 0, 0)
    assert charged() == 3 + 2


def price_b(house, **prices):
    for name, price in prices.items():
        setattr(house.mb, name, price)
    house.mb.save()
    world.ready()


def test_a_model_without_a_price_costs_nothing_known(house):
    """operations 15"""
    house.a.script(status(500))
    house.ask(model="hotel/g")
    assert world.row().cost_usd is None
    assert charged() == 8


def test_a_free_model_costs_nothing(house):
    """operations 15"""
    price_b(house, input_price_per_million=0.0, output_price_per_million=0.0)
    assert house.ask(model="B/m").status == 200
    assert world.row().cost_usd == 0


def test_a_failover_costs_what_the_one_who_served_costs(house):
    """operations 15a"""
    price_b(house, input_price_per_million=10.0, output_price_per_million=10.0)
    house.a.script(status(503))
    assert house.ask(model="hotel/g").status == 200
    row = world.row()
    assert (row.provider_id, row.tokens_prompt + row.tokens_completion) == (house.pb.pk, 8)
    assert float(row.cost_usd) == pytest.approx(8 * 10.0 / 1e6)


def test_a_rejected_success_is_paid_for_at_its_own_models_price(house):
    house.a.script(reply(200, {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 0}}))
    house.ask(model="hotel/g")
    row = world.row()
    assert (row.tokens_prompt, row.tokens_completion) == (1003, 5)
    assert float(row.cost_usd) == pytest.approx(1000 * 1.0 / 1e6)
    assert charged() == 1008


def test_a_failed_request_costs_nothing(house):
    house.a.script(status(400, {"error": {"message": "no"}}))
    assert house.ask().status == 400
    assert (world.row().cost_usd, charged()) == (None, 0)


def test_a_client_that_leaves_a_stream_pays_for_what_it_got(house):
    """part of v1-api 44"""
    house.a.script(stall_after(3))

    async def leave():
        body = json.dumps({"model": "A/m", "stream": True, "messages": [{"role": "user", "content": "x" * 400}]})
        sender = client("POST", "/v1/chat/completions", key=house.key, body=body.encode())
        task = asyncio.create_task(sender.run())
        await sender.until(b'"content"')
        await asyncio.sleep(0.2)
        sender.left.set()
        await task
        await house.a.until(lambda: house.a.disconnects == 1)
        return sender.answer

    got = run(leave())
    assert got.status == 200 and b"[DONE]" not in got.body
    row = world.row()
    assert (row.status_code, row.error_kind, row.state) == (0, "client_disconnect", "failed")
    assert (row.tokens_prompt, row.tokens_completion) == (0, 0)
    delivered = sum(
        len(json.loads(e)["choices"][0]["delta"].get("content") or "") for e in got.events if e.startswith("{")
    )
    assert charged() == 100 + -(-delivered // 4)
    assert charged() == 100 + -(-delivered // 4)  # once


def test_a_client_that_leaves_before_the_answer_cancels_the_provider(house, provider_c):
    house.a.script(stall_after(0))

    async def leave():
        body = json.dumps({"model": "A/m", "messages": HELLO}).encode()
        sender = client("POST", "/v1/chat/completions", key=house.key, body=body)
        task = asyncio.create_task(sender.run())
        await house.a.until(lambda: len(house.a.calls) == 1)
        sender.left.set()
        await task
        await house.a.until(lambda: house.a.disconnects == 1)
        return sender.answer

    assert run(leave()).status == 0
    row = world.row()
    assert (row.status_code, row.error_kind, row.state) == (499, "client_disconnect", "failed")
    assert charged() == 0


def test_usage_before_the_end_of_a_stream_counts_once(house):
    first = usage_chunk(usage={"prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 2})
    last = usage_chunk(usage={"prompt_tokens": 5, "completion_tokens": 9})
    house.a.script(scripted(delta(content="x"), first, delta(finish="stop"), last, b"data: [DONE]\n\n"))
    house.ask(stream=True)
    row = world.row()
    assert (row.tokens_prompt, row.tokens_completion, row.tokens_prompt_cache_hit) == (5, 9, 2)
    assert charged() == 14


def test_a_request_makes_three_events_at_most(house):
    seen = []
    events.subscribe(lambda e: seen.append((e.type, e.metadata.get("provider_name"))))
    house.ask()
    house.ask(stream=True)
    assert [t for t, _ in seen if t.startswith("request.")] == [
        "request.started",
        "request.completed",
        "request.started",
        "request.streaming",
        "request.completed",
    ]
    assert {name for t, name in seen if t == "request.completed"} == {"A"}


def test_many_requests_at_once_are_each_answered_and_recorded(house):
    async def many():
        body = json.dumps({"model": "hotel/g", "messages": HELLO}).encode()
        senders = [client("POST", "/v1/chat/completions", key=house.key, body=body) for _ in range(40)]
        return await asyncio.gather(*(sender.run() for sender in senders))

    assert {got.status for got in run(many())} == {200}
    assert len(world.rows()) == 40
    assert charged() == 40 * 8
