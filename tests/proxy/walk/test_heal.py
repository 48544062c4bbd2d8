"""A 400 that names something the provider will not take: asked again without it, and remembered (failover-loop 6.3)."""

import asyncio
import json
import logging
import time
from typing import Any

import pytest

from proxy import heal
from tests.proxy.walk.stage import Stage
from tests.upstream.server import (
    Behaviour,
    FakeProvider,
    answer,
    empty_choices,
    first_event_error,
    hang_up,
    pieces,
    reply,
    silence,
    status,
    stream,
)

TEMPERATURE = "Unsupported value: 'temperature' does not support 0 with this model."
RENAME = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
UNAVAILABLE = "This response_format type is unavailable now"
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


def bad(message: str, code: str | None = None, kind: str = "invalid_request_error") -> Behaviour:
    return status(400, {"error": {"message": message, "type": kind, "param": None, "code": code}})


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    """A scripted, B healthy; both of type ``openai``."""
    stage.member("A", provider_a.url, kind="openai")
    stage.member("B", provider_b.url, kind="openai")
    return stage


def sent(provider: FakeProvider) -> list[dict[str, Any]]:
    """What each call carried besides model and messages."""
    return [{n: v for n, v in call.json.items() if n not in ("model", "messages")} for call in provider.calls]


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [
        (record.getMessage().removeprefix("proxy: "), record.attrs)
        for record in caplog.records
        if "auto-retry" in record.getMessage() or "learned" in record.getMessage()
    ]


async def test_a_refused_parameter_is_left_out_at_once_and_from_then_on(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    """failover-loop 27"""
    caplog.set_level(logging.INFO)
    provider_a.script(bad(TEMPERATURE), answer("healed"))
    got = await ab.ask(temperature=0, top_p=0.5)
    assert (got.status, got.json["choices"][0]["message"]["content"]) == (200, "healed")
    assert ab.trail == [(0, "A", 200, None, "success")] and ab.waits == []
    assert sent(provider_a) == [{"temperature": 0, "top_p": 0.5}, {"top_p": 0.5}]
    assert (got.header("x-modelhotel-attempts"), ab.row.failover_attempt, ab.fails("A")) == ("1", 0, 0)
    assert lines(caplog) == [
        (
            "learned rejected params from upstream 400",
            {"provider": "A", "model": "m", "rejected": ["temperature"], "renames": {}},
        ),
        (
            "auto-retry succeeded",
            {"model": "m", "rounds": 1, "rejected_params": ["temperature"], "renamed_params": {}},
        ),
    ]
    assert (await ab.ask(temperature=0)).status == 200
    assert sent(provider_a)[2:] == [{}]


async def test_a_stream_is_healed_like_a_whole_answer(ab: Stage, provider_a: FakeProvider):
    provider_a.script(bad("`stream_options` is not supported"), stream(["a", "b"]))
    got = await ab.ask(stream=True, seed=1)
    assert got.status == 200 and got.events[-1] == "[DONE]"
    usage = {"stream_options": {"include_usage": True}}
    assert sent(provider_a) == [{"stream": True, "seed": 1, **usage}, {"stream": True, "seed": 1}]
    assert ab.trail == [(0, "A", 200, None, "success")]


async def test_a_budget_goes_under_its_new_name(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, caplog):
    """failover-loop 28, failover-loop 31, v1-api 64"""
    caplog.set_level(logging.INFO)
    provider_a.script(bad(RENAME), answer("ok"))
    assert (await ab.ask(max_tokens=50)).status == 200
    assert sent(provider_a) == [{"max_tokens": 50}, {"max_completion_tokens": 50}]
    assert lines(caplog)[-1][1]["renamed_params"] == {"max_tokens": "max_completion_tokens"}
    assert (await ab.ask(max_tokens=60)).status == 200
    assert sent(provider_a)[2:] == [{"max_completion_tokens": 60}]
    assert (await ab.ask("B/m", max_tokens=50, temperature=1)).status == 200
    assert sent(provider_b) == [{"max_tokens": 50, "temperature": 1}]


async def test_what_was_learned_is_not_that_of_another_model(ab: Stage, provider_a: FakeProvider):
    ab.member("A", provider_a.url, model="other", grouped=False)
    provider_a.script(bad(TEMPERATURE), answer("ok"))
    await ab.ask("A/m", temperature=0)
    await ab.ask("A/other", temperature=0)
    assert sent(provider_a) == [{"temperature": 0}, {}, {"temperature": 0}]


async def test_a_message_that_only_bounds_the_budget_teaches_nothing(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 29"""
    provider_a.script(bad("max_completion_tokens must not exceed 4096"))
    got = await ab.ask(max_completion_tokens=9999)
    assert got.said == (400, "max_completion_tokens must not exceed 4096")
    await ab.ask(max_tokens=9999, max_completion_tokens=1)
    assert sent(provider_a)[1:] == [{"max_tokens": 9999, "max_completion_tokens": 1}]
    assert ab.trail == [(0, "A", 400, "provider_bad_request", "alive")] and not provider_b.calls


async def test_two_refusals_take_two_rounds(ab: Stage, provider_a: FakeProvider):
    """part of failover-loop 30"""
    provider_a.script(bad(TEMPERATURE), bad(RENAME), answer("ok"))
    assert (await ab.ask(temperature=0, max_tokens=5, n=1)).status == 200
    assert sent(provider_a)[1:] == [{"max_tokens": 5, "n": 1}, {"max_completion_tokens": 5, "n": 1}]
    assert ab.trail == [(0, "A", 200, None, "success")]


async def test_the_third_400_is_the_clients_and_is_learned_from(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 30"""
    provider_a.script(bad(TEMPERATURE), bad("no 'n' here"), bad("no `stop` either, \u00e9"), answer("ok"))
    got = await ab.ask(temperature=0, n=1, stop="x")
    assert got.said == (400, "no `stop` either, \u00e9")
    assert ab.trail == [(0, "A", 400, "provider_bad_request", "alive")]
    assert len(provider_a.calls) == 3 and not provider_b.calls
    assert (await ab.ask(temperature=0, n=1, stop="x", seed=1)).status == 200
    assert sent(provider_a)[3:] == [{"seed": 1}]


async def test_a_400_that_names_what_was_left_out_already_is_the_last(ab: Stage, provider_a: FakeProvider):
    provider_a.script(bad("no 'temperature' here"))
    assert (await ab.ask(temperature=0)).status == 400
    assert sent(provider_a) == [{"temperature": 0}, {}]


async def test_a_phrase_moves_a_400_on_only_where_nothing_could_be_repaired(ab: Stage, provider_a: FakeProvider):
    assert all(word in TEMPERATURE.lower() for word in ("model", "unsupported"))  # a phrase of the defaults
    provider_a.script(bad(TEMPERATURE))
    assert (await ab.ask(temperature=0)).said == (400, TEMPERATURE)
    assert (await ab.ask(temperature=0)).json["choices"][0]["message"]["content"] == "from B"
    assert [len(call) for call in sent(provider_a)] == [1, 0, 0]


async def test_a_400_that_names_what_was_not_sent_teaches_nothing(ab: Stage, provider_a: FakeProvider):
    provider_a.script(bad("no 'temperature' here"), answer("ok"))
    assert (await ab.ask(n=1)).status == 400
    assert (await ab.ask(temperature=0, n=1)).status == 200
    assert sent(provider_a) == [{"n": 1}, {"temperature": 0, "n": 1}]


async def test_googles_wrapped_errors_teach_too(ab: Stage, provider_a: FakeProvider):
    wrapped = reply(400, b'[{"error":{"code":400,"message":"no \'seed\'"}},{"error":{"message":"no \'n\'"}}]')
    provider_a.script(wrapped, answer("ok"))
    assert (await ab.ask(seed=1, n=1, stop="x")).status == 200
    assert sent(provider_a)[1] == {"stop": "x"}


@pytest.mark.parametrize(
    "body",
    [b"'temperature' is refused", b'{"error":"\'temperature\'"}', b'{"error":{"message":"\'temperature\'"}', b""],
)
async def test_a_400_without_an_error_message_teaches_nothing(body: bytes, ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(400, body))
    assert (await ab.ask(temperature=0)).status == 400
    assert sent(provider_a) == [{"temperature": 0}]


async def test_the_400_reaches_the_client_unchanged(ab: Stage, provider_a: FakeProvider):
    body = b'{"error": {"message": "\'n\' must be 1.50", "code": null, "x": 1.50}}'
    provider_a.script(reply(400, body))
    assert (await ab.ask()).body == body


async def test_a_400_inside_a_stream_teaches_nothing(ab: Stage, provider_a: FakeProvider):
    provider_a.script(first_event_error({"message": "no 'temperature' here", "code": 400}))
    assert (await ab.ask(stream=True, temperature=0)).status == 400
    await ab.ask(stream=True, temperature=0)
    assert [call["temperature"] for call in sent(provider_a)] == [0, 0]


async def test_a_pass_through_endpoint_is_never_healed(ab: Stage, provider_a: FakeProvider):
    provider_a.script(bad("no 'n' here"))
    assert (await ab.embed(n=1)).status == 400
    assert len(provider_a.calls) == 1
    await ab.ask(n=1)
    assert sent(provider_a)[1] == {"n": 1}


# -- a schema that is refused


async def test_a_type_without_schemas_is_asked_in_words_at_once(stage: Stage, provider_a: FakeProvider):
    """failover-loop 32"""
    stage.member("A", provider_a.url, kind="deepseek")
    assert (await stage.ask(response_format=SCHEMA)).status == 200
    call = provider_a.calls[0].json
    assert call["response_format"] == {"type": "json_object"}
    assert call["messages"][0]["role"] == "system" and '{"type": "object"}' in call["messages"][0]["content"]


async def test_a_refused_schema_is_asked_for_in_json_mode(ab: Stage, provider_a: FakeProvider):
    """failover-loop 33"""
    provider_a.script(bad(UNAVAILABLE), answer("{}"))
    assert (await ab.ask(response_format={"type": "json_object"})).status == 400
    provider_a.script(bad(UNAVAILABLE), answer("{}"))
    provider_a.forget()
    assert (await ab.ask(response_format=SCHEMA)).status == 200
    first, second = (call.json for call in provider_a.calls)
    assert first["response_format"] == SCHEMA and len(first["messages"]) == 1
    assert second["response_format"] == {"type": "json_object"} and second["messages"][0]["role"] == "system"
    assert second["messages"][1:] == first["messages"]
    await ab.ask(response_format=SCHEMA)
    assert provider_a.calls[2].json == second


async def test_a_bad_schema_is_the_clients_affair(ab: Stage, provider_a: FakeProvider):
    """failover-loop 34, v1-api 66"""
    message = "Invalid schema for response_format 'x': keyword is not supported"
    provider_a.script(bad(message))
    assert (await ab.ask(response_format=SCHEMA)).said == (400, message)
    await ab.ask(response_format=SCHEMA)
    assert [call.json["response_format"] for call in provider_a.calls] == [SCHEMA, SCHEMA]


# -- what comes after a round


async def test_a_429_after_a_heal_fails_over(ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture):
    """failover-loop 36"""
    caplog.set_level(logging.INFO)
    provider_a.script(bad(TEMPERATURE), status(429, {"error": {"message": "too many concurrent requests"}}))
    assert (await ab.ask(temperature=0)).json["choices"][0]["message"]["content"] == "from B"
    assert [(e[0], e[1], e[2], e[4]) for e in ab.trail] == [(0, "A", 429, "noop"), (1, "B", 200, "success")]
    assert [line for line, _ in lines(caplog)] == ["learned rejected params from upstream 400"]


async def test_no_choices_after_a_heal_fail_over(ab: Stage, provider_a: FakeProvider):
    """failover-loop 37"""
    provider_a.script(bad(TEMPERATURE), empty_choices())
    assert (await ab.ask(temperature=0)).json["choices"][0]["message"]["content"] == "from B"
    assert [(e[0], e[1], e[2], e[4]) for e in ab.trail] == [(0, "A", 200, "charge"), (1, "B", 200, "success")]


async def test_a_503_after_a_heal_is_charged_once(ab: Stage, provider_a: FakeProvider):
    provider_a.script(bad(TEMPERATURE), status(503))
    assert (await ab.ask(temperature=0)).status == 200
    assert ab.trail == [(0, "A", 503, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert ab.fails("A") == 1


async def test_a_round_that_can_not_be_sent_is_not_tried_again(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture
):
    provider_a.script(bad(TEMPERATURE), hang_up())
    assert (await ab.ask(temperature=0)).status == 200
    assert ab.trail == [(0, "A", None, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert len(provider_a.calls) == 2 and ab.fails("A") == 1 and len(ab.waits) == 1
    told = [attrs for line, attrs in lines(caplog) if line == "auto-retry request failed"]
    assert [(attrs["provider"], attrs["model"], attrs["round"]) for attrs in told] == [("A", "m", 1)]


async def test_a_round_has_its_time_anew_and_then_is_a_retry_timeout(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    stage.set(request_timeout="800ms")
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)

    async def late(wire: Any) -> None:
        await wire.sleep(0.3)
        await bad(TEMPERATURE)(wire)

    provider_a.script(late, silence(5))
    began = time.monotonic()
    assert (await stage.ask(temperature=0)).status == 200
    assert 1.05 < time.monotonic() - began < 5
    assert stage.trail == [(0, "A", None, "retry_timeout", "charge"), (1, "B", 200, None, "success")]


async def test_a_round_ends_with_the_request(stage: Stage, provider_a: FakeProvider):
    stage.set(request_timeout="400ms")
    stage.member("A", provider_a.url)

    async def late(wire: Any) -> None:
        await wire.sleep(0.3)
        await bad("no 'n', no 'stop'" if len(provider_a.calls) == 1 else TEMPERATURE)(wire)

    provider_a.script(late, late, silence(5))
    began = time.monotonic()
    got = await stage.ask(temperature=0, n=1, stop="x")
    assert time.monotonic() - began < 0.95
    assert got.said == (504, "request timed out for model hotel/g")
    assert stage.row.error_kind == "retry_timeout"


async def test_no_round_is_started_in_the_last_moment(
    ab: Stage, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(heal, "ROOM", 2 * 60.0)  # of the 2 * 60 s a request has
    provider_a.script(bad("no 'temperature' here"))
    assert (await ab.ask(temperature=0)).said == (400, "no 'temperature' here")
    assert len(provider_a.calls) == 1


async def test_a_client_that_leaves_during_a_round(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(bad(TEMPERATURE), silence())
    client = ab.client(temperature=0)
    asking = asyncio.create_task(client.run())
    await provider_a.until(lambda: len(provider_a.calls) == 2)
    client.left.set()
    await asking
    assert ab.trail == [(0, "A", None, "client_disconnect", None)]
    assert ab.row.status_code == 499 and not provider_b.calls


async def test_connections_are_given_back_after_a_heal(ab: Stage, provider_a: FakeProvider):
    provider_a.script(bad(TEMPERATURE), bad(RENAME), answer("ok"))
    await ab.ask(temperature=0, max_tokens=5)
    assert provider_a.connections == 1


async def test_who_learns_at_the_same_time_merges(ab: Stage, provider_a: FakeProvider):
    both = asyncio.Event()

    async def one_by_one(wire: Any) -> None:
        asked = wire.request.json
        if len(provider_a.calls) == 2:
            both.set()
        await both.wait()
        refused = [name for name in ("n", "stop") if name in asked]
        await (bad(f"no '{refused[0]}' here") if refused else answer("ok"))(wire)

    provider_a.script(one_by_one)
    first, second = await asyncio.gather(ab.ask(n=1), ab.ask(stop="x"))
    assert (first.status, second.status) == (200, 200)
    assert (await ab.ask(n=1, stop="x", seed=1)).status == 200
    assert sent(provider_a)[-1] == {"seed": 1}


# -- what teaches nothing


@pytest.mark.parametrize(
    "refusal",
    [
        bad("prompt is too long: 212345 tokens > 200000 maximum, lower 'max_tokens'"),
        bad("This model's maximum context length is 8192, 'max_tokens' is 9000", "context_length_exceeded"),
    ],
)
async def test_a_prompt_that_is_too_long_teaches_nothing(
    refusal: Behaviour, stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 102"""
    stage.member("A", provider_a.url, window=8192)
    stage.member("B", provider_b.url, window=131072)
    provider_a.script(refusal, answer("ok"))
    assert (await stage.ask(max_tokens=9000)).json["choices"][0]["message"]["content"] == "from B"
    assert stage.trail == [(0, "A", 400, "provider_bad_request", "alive"), (1, "B", 200, None, "success")]
    assert (await stage.ask("A/m", max_tokens=9000)).status == 200
    assert [call["max_tokens"] for call in sent(provider_a)] == [9000, 9000]


async def test_a_content_policy_refusal_teaches_nothing(ab: Stage, provider_a: FakeProvider):
    """part of failover-loop 103"""
    provider_a.script(bad("'temperature' of the prompt is too hot", "content_policy_violation"))
    assert (await ab.ask(temperature=0)).status == 400
    await ab.ask(temperature=0)
    assert sent(provider_a) == [{"temperature": 0}, {"temperature": 0}]


# -- MiniMax: errors inside a 200


@pytest.fixture
def minimax(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url, kind="minimax", key="sk-aaaaaaaaaaaaaaaa1111")
    stage.member("B", provider_b.url)
    return stage


def business(code: int, **more: Any) -> bytes:
    return json.dumps(
        {"base_resp": {"status_code": code, "status_msg": "no, sk-aaaaaaaaaaaaaaaa1111"}, **more}
    ).encode()


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("code", "counts_as"), [(1002, 429), (1004, 401), (2013, 502)])
async def test_a_business_error_counts_as_a_status(
    code: int,
    counts_as: int,
    streaming: bool,
    minimax: Stage,
    provider_a: FakeProvider,
    caplog: pytest.LogCaptureFixture,
):
    """v1-api 91"""
    provider_a.script(reply(200, business(code)))
    got = await minimax.ask(stream=streaming)
    assert got.status == 200 and b"from B" in got.body
    assert [(e[0], e[1], e[2]) for e in minimax.trail] == [(0, "A", counts_as), (1, "B", 200)]
    attrs = [r.attrs for r in caplog.records if r.getMessage() == "proxy: minimax business error inside HTTP 200"]
    expected = {"provider": "A", "minimax_status": code, "mapped_status": counts_as, "msg": "no, [redacted]"}
    assert attrs == [expected]


@pytest.mark.parametrize(("code", "phrase"), [(1008, "minimax status_code 1008"), (1039, "minimax status_code 1039")])
async def test_a_business_error_that_says_nothing_is_left_opens_the_circuit(
    code: int, phrase: str, minimax: Stage, provider_a: FakeProvider
):
    provider_a.script(reply(200, business(code)))
    assert (await minimax.ask()).status == 200
    assert minimax.row.attempts is not None and minimax.row.attempts[0]["phrase"] == phrase
    assert minimax.trail[0][4] == "charge" and minimax.state("A") == "open"


async def test_the_last_ones_business_error_is_an_envelope_of_its_status(minimax: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, business(1004)))
    status_, message = (await minimax.ask("A/m")).said
    assert (status_, "upstream HTTP 401" in message) == (401, True)
    provider_a.script(reply(200, business(2013)))
    provider_a.forget()
    assert (await minimax.ask("A/m")).said[0] == 502
    assert len(provider_a.calls) == 2  # like any 502


@pytest.mark.parametrize("size", [1, 65_000, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("step", [70_000, 9_999])
async def test_an_answer_without_one_stays_as_it_is(size: int, step: int, minimax: Stage, provider_a: FakeProvider):
    whole = b'{"base_resp":{"status_code":0},"choices":[{"message":{"role":"assistant","content":"x"},"n":1.50}]}'
    whole += b" " * (size - len(whole))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(whole)
    provider_a.script(pieces(head + whole, step))
    assert (await minimax.ask()).body == whole
    assert minimax.trail == [(0, "A", 200, None, "success")]


async def test_a_code_in_more_than_64_kib_is_not_looked_for(minimax: Stage, provider_a: FakeProvider):
    choices = [{"index": 0, "message": {"role": "assistant", "content": "x" * 70_000}}]
    provider_a.script(reply(200, business(1002, choices=choices)))
    assert (await minimax.ask()).status == 200
    assert minimax.trail == [(0, "A", 200, None, "success")]


@pytest.mark.parametrize(
    "kind", ["audio/mpeg", "image/png", "video/mp4", "application/octet-stream", "Text/Event-Stream"]
)
async def test_some_content_types_are_not_looked_at(kind: str, minimax: Stage, provider_a: FakeProvider):
    body = business(1002, choices=[{"index": 0, "message": {"role": "assistant", "content": "x"}}])
    provider_a.script(reply(200, body, content_type=kind))
    assert (await minimax.ask()).status == 200
    assert minimax.trail == [(0, "A", 200, None, "success")]


async def test_an_ordinary_stream_and_other_types_are_not_looked_at(
    minimax: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(stream(["a", "b"]))
    assert (await minimax.ask(stream=True)).events[-1] == "[DONE]"
    body = business(1002, choices=[{"index": 0, "message": {"role": "assistant", "content": "x"}}])
    provider_b.script(reply(200, body))
    assert (await minimax.ask("B/m")).body == body


async def test_a_body_that_breaks_off_while_it_is_looked_at_fails_as_ever(minimax: Stage, provider_a: FakeProvider):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    provider_a.script(pieces(head + business(1002), 4096))
    assert (await minimax.ask()).status == 200
    assert minimax.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]


# -- in a race


async def test_in_a_race_a_400_teaches_and_the_others_go_on(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(hedging_enabled="true", hedge_delay="5s")
    provider_a.script(bad("no 'temperature' here"), stream(["from A"]))
    assert b"from B" in (await ab.ask(stream=True, temperature=0)).body
    assert ab.trail == [(0, "A", 400, "provider_bad_request", "alive"), (1, "B", 200, None, "success")]
    assert b"from A" in (await ab.ask(stream=True, temperature=0)).body
    assert ["temperature" in call for call in sent(provider_a)] == [True, False]


async def test_in_a_race_a_400_that_teaches_nothing_is_the_clients(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(hedging_enabled="true", hedge_delay="5s")
    provider_a.script(bad("no 'temperature' here"))
    assert (await ab.ask(stream=True)).said == (400, "no 'temperature' here")
    assert not provider_b.calls
