"""What each upstream status does: to the client, the trail, the row and the circuit."""

import gzip
import json
import logging
from dataclasses import replace

import pytest

from failover.caps import CAPS
from modelhotel.core import crypto, events
from providers.cache import SealedKey
from proxy import refusals
from tests.proxy.walk.stage import Stage
from tests.upstream.server import FakeProvider, answer, completion, first_event_error, reply, status

NAMES = {"error", "message", "type", "param", "code"}


@pytest.fixture
def abc(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    """A scripted, B healthy."""
    stage.member("A", provider_a.url, key="sk-aaaaaaaaaaaaaaaa1111")
    stage.member("B", provider_b.url, key="sk-bbbbbbbbbbbbbbbb2222")
    return stage


async def test_a_503_moves_on_and_is_charged(abc: Stage, provider_a: FakeProvider):
    """failover-loop 1"""
    provider_a.script(status(503))
    got = await abc.ask()
    assert (got.status, got.json["choices"][0]["message"]["content"]) == (200, "from B")
    assert abc.trail == [(0, "A", 503, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert abc.row.attempts is not None
    assert abc.row.attempts[0]["detail"] == "scripted 503" and "detail" not in abc.row.attempts[1]
    assert (abc.row.failover_attempt, abc.row.state, abc.row.status_code, abc.row.error_kind) == (
        1,
        "completed",
        200,
        None,
    )
    assert abc.row.resolved_model_id == "m" and abc.row.provider_name == "B"
    assert (abc.fails("A"), abc.fails("B")) == (1, 0)
    assert got.header("x-modelhotel-provider") == "B" and got.header("x-modelhotel-attempts") == "2"


async def test_a_400_is_the_clients_wherever_it_stands(abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """failover-loop 2, v1-api 46"""
    body = b'{"error": {"message": "max_tokens too large for sk-aaaaaaaaaaaaaaaa1111",  "code": "x", "n": 1.50}}'
    provider_a.script(reply(400, body))
    got = await abc.ask()
    assert got.status == 400
    assert got.body == body.replace(b"sk-aaaaaaaaaaaaaaaa1111", b"[redacted]")
    assert not provider_b.calls
    assert abc.trail == [(0, "A", 400, "provider_error", "alive")]
    assert (abc.row.failover_attempt, abc.row.status_code, abc.row.state) == (0, 400, "failed")
    assert abc.row.error_message == "max_tokens too large for [redacted]"


@pytest.mark.parametrize("code", [405, 408, 409, 413, 415, 422, 451])
async def test_other_4xx_are_the_clients_at_once(
    code: int, abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 3"""
    provider_a.script(status(code))
    got = await abc.ask()
    assert (got.status, got.error["message"]) == (code, f"scripted {code}")
    assert (len(provider_a.calls), len(provider_b.calls)) == (1, 0)
    assert abc.trail[0][4] == "alive" and abc.fails("A") == 0


@pytest.mark.parametrize("code", [404, 499])
async def test_a_404_and_a_499_move_on_without_a_charge(code: int, abc: Stage, provider_a: FakeProvider):
    """failover-loop 4, failover-loop 7"""
    provider_a.script(status(code))
    assert (await abc.ask()).status == 200
    assert abc.trail == [(0, "A", code, "provider_error", "noop"), (1, "B", 200, None, "success")]
    assert abc.fails("A") == 0


async def test_a_401_of_everyone_names_the_last_and_shows_no_key_and_no_body(
    abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 5, v1-api 45"""
    leak = {"error": {"message": "Incorrect API key sk-aaaaaaaaaaaaaaaa1111", "type": "x"}}
    provider_a.script(status(401, leak))
    provider_b.script(status(401, leak))
    with FakeProvider() as provider_c:
        provider_c.script(status(401, leak))
        abc.member("C", provider_c.url, key="sk-cccccccccccccccc3333")
        got = await abc.ask()
    assert got.said == (401, "the provider failed to serve this request (provider C, upstream HTTP 401)")
    assert got.error["type"] == "authentication_error" and got.error["code"] == "provider_error"
    assert "sk-" not in got.body.decode() and "Incorrect" not in got.body.decode()
    assert [abc.fails(name) for name in "ABC"] == [1, 1, 1]
    assert abc.row.error_message == "Incorrect API key [redacted]"
    assert "sk-" not in json.dumps(abc.row.attempts)


async def test_a_402_opens_the_circuit_on_one_answer(abc: Stage, provider_a: FakeProvider):
    """failover-loop 6"""
    provider_a.script(status(402))
    assert (await abc.ask()).status == 200
    assert abc.trail[0] == (0, "A", 402, "provider_not_entitled", "charge")
    assert abc.state("A") == "open"


async def test_a_402_is_a_plain_charge_where_the_setting_says_so(abc: Stage, provider_a: FakeProvider):
    """failover-loop 6, circuit-breaker 15"""
    abc.set(circuit_breaker_open_on_exhaustion="false")
    provider_a.script(status(402))
    await abc.ask()
    assert (abc.state("A"), abc.fails("A")) == ("closed", 1)


async def test_a_402_as_the_last_word(abc: Stage, provider_a: FakeProvider):
    """v1-api 49"""
    provider_a.script(status(402))
    got = await abc.ask("A/m")
    reason = "the provider rejected this request for billing or plan reasons (provider A, upstream HTTP 402)"
    assert got.said == (402, reason) and got.error["code"] == "insufficient_quota"


@pytest.mark.parametrize(("code", "shown"), [(501, 501), (529, 529), (522, 522), (507, 507)])
async def test_a_lasting_5xx_is_asked_once(code: int, shown: int, abc: Stage, provider_a: FakeProvider):
    """failover-loop 8, failover-loop 9"""
    provider_a.script(status(code))
    got = await abc.ask("A/m")
    assert got.said == (shown, f"the provider failed to serve this request (provider A, upstream HTTP {code})")
    assert len(provider_a.calls) == 1 and abc.fails("A") == 1


async def test_a_522_of_one_model_does_not_touch_the_providers_other_model(stage: Stage, provider_a: FakeProvider):
    """part of failover-loop 9a"""
    stage.member("A", provider_a.url, model="m1")
    stage.member("A", provider_a.url, model="m2")
    provider_a.script(status(522), model="m1")
    got = await stage.ask()
    assert got.status == 200
    assert [call.model for call in provider_a.calls] == ["m1", "m2"]
    assert (stage.fails("A", "m1"), stage.fails("A", "m2")) == (1, 0)


@pytest.mark.parametrize("code", [301, 304, 302])
async def test_a_redirect_is_not_followed_and_is_a_502(
    code: int, abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(reply(code, b"", headers={"Location": provider_b.url}))
    got = await abc.ask()
    assert got.said == (502, f"the provider failed to serve this request (provider A, upstream HTTP {code})")
    assert not provider_b.calls and abc.trail[0][4] == "alive"


async def test_a_407_never_shows_its_body_and_does_not_move_on(
    abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(status(407))
    got = await abc.ask()
    assert got.said == (407, "the provider failed to serve this request (provider A, upstream HTTP 407)")
    assert not provider_b.calls


async def test_a_429_moves_on_as_a_plain_charge(abc: Stage, provider_a: FakeProvider):
    """part of failover-loop 53, part of circuit-breaker 17"""
    abc.set(rate_limit_classify_enabled="false")
    provider_a.script(status(429, {"error": {"message": "too many concurrent requests"}}))
    assert (await abc.ask()).status == 200
    assert abc.trail[0] == (0, "A", 429, "provider_error", "charge") and abc.fails("A") == 1


async def test_a_429_that_may_not_move_on_goes_out_as_the_provider_wrote_it(
    abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """part of failover-loop 54, circuit-breaker 16"""
    abc.set(failover_on_rate_limit="false")
    body = b'{"error":  {"message": "slow down", "type": "rate_limit"}}'
    headers = {"Retry-After": "7", "X-RateLimit-Remaining-Requests": "0", "X-Account": "secret"}
    provider_a.script(reply(429, body, headers=headers))
    for _ in range(10):
        got = await abc.ask()
        assert (got.status, got.body) == (429, body)
        assert abc.trail == [(0, "A", 429, "provider_error", "alive")]
    assert got.header("retry-after") == "7" and got.header("x-ratelimit-remaining-requests") == "0"
    assert got.header("x-account") is None
    assert not provider_b.calls and (abc.state("A"), abc.fails("A")) == ("closed", 0)


async def test_a_201_goes_to_the_client_as_it_is(abc: Stage, provider_a: FakeProvider):
    """failover-loop 26"""
    provider_a.script(reply(201, completion("made")))
    got = await abc.ask()
    assert got.status == 201 and abc.trail == [(0, "A", 201, None, "success")]
    assert abc.row.status_code == 201


@pytest.mark.parametrize("code", [204, 205])
async def test_a_204_is_served_without_a_body_and_charged(code: int, abc: Stage, provider_a: FakeProvider):
    provider_a.script(reply(code, b"", headers={}))
    got = await abc.ask()
    assert (got.status, got.body) == (code, b"")
    assert abc.trail == [(0, "A", code, None, "charge")]


async def test_text_that_is_no_json_becomes_our_error_object(abc: Stage, provider_a: FakeProvider):
    """v1-api 47"""
    provider_a.script(reply(422, b"not json sk-abcdefgh12345678ZZ", content_type="text/plain"))
    got = await abc.ask()
    assert got.said == (422, "not json [redacted]")


async def test_a_prompt_with_the_words_of_a_spent_quota_moves_nothing_when_a_400_repeats_it(
    abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """Issue 5: anybody could switch a provider off for everybody else."""
    prompt = "insufficient_quota: too many concurrent requests, session usage limit reached, 429, 402"
    provider_a.script(status(400, {"error": {"message": f"can not parse {prompt!r}"}}))
    for stream in (False, True) * 3:
        assert (await abc.ask(prompt=prompt, stream=stream)).status == 400
        assert [(name, code, verdict) for _, name, code, _, verdict in abc.trail] == [("A", 400, "alive")]
    assert not provider_b.calls and len(provider_a.calls) == 6
    assert (abc.state("A"), abc.fails("A"), abc.limits) == ("closed", 0, {})
    assert CAPS.last(abc.row.attempts[0]["provider_id"]) is None  # type: ignore[index]


async def test_a_completion_under_a_400_is_not_shown(abc: Stage, provider_a: FakeProvider):
    """v1-api 48"""
    provider_a.script(reply(400, completion("secret words")))
    got = await abc.ask()
    assert got.said == (400, "the provider failed to serve this request (provider A, upstream HTTP 400)")


async def test_another_providers_key_in_a_400_is_masked_everywhere(abc: Stage, provider_a: FakeProvider, caplog):
    """failover-loop 96, operations 9"""
    caplog.set_level(logging.DEBUG)
    seen: list[object] = []
    events.subscribe(seen.append)
    abc.member("C", "http://127.0.0.1:9/v1", key="a plain pass phrase 2222", grouped=False)  # no shape gives it away
    provider_a.script(status(400, {"error": {"message": "try a plain pass phrase 2222 instead"}}))
    got = await abc.ask()
    assert got.json == {"error": {"message": "try [redacted] instead"}}
    assert abc.row.error_message == "try [redacted] instead"
    said = caplog.text + repr([getattr(record, "attrs", {}) for record in caplog.records])
    assert "request.completed" in repr(seen) and "pass phrase" not in repr(seen)
    assert "pass phrase" not in said + json.dumps(abc.row.attempts)


async def test_upstream_text_that_repeats_the_prompt_is_withheld(abc: Stage, provider_a: FakeProvider):
    """failover-loop 97, operations 8"""
    prompt = "my very private question about the weather"
    provider_a.script(status(400, {"error": {"message": f"cannot parse: {prompt}"}}))
    await abc.ask(prompt=prompt)
    assert abc.row.error_message == "provider error text withheld"
    provider_a.script(status(500, {"error": {"message": f"cannot parse: {prompt}"}}))
    await abc.ask(prompt=prompt)
    assert abc.row.attempts is not None and "detail" not in abc.row.attempts[0]


async def test_a_long_error_body_is_cut_where_it_is_kept(
    abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 98"""
    provider_a.script(status(500, {"error": {"message": "y" * 120_000}}))
    assert (await abc.ask()).status == 200
    assert abc.row.attempts is not None and len(abc.row.attempts[0]["detail"]) <= 160
    provider_a.script(status(400, {"error": {"message": "y" * 120_000}}))
    got = await abc.ask()
    assert len(got.json["error"]["message"]) == 120_000
    assert abc.row.error_message is not None and len(abc.row.error_message) == 10_000


async def test_an_error_body_over_a_mebibyte_is_not_forwarded(abc: Stage, provider_a: FakeProvider):
    """operations 11"""
    provider_a.script(status(400, {"error": {"message": "y" * (1 << 20)}}))
    got = await abc.ask()
    assert got.said == (400, "the provider failed to serve this request (provider A, upstream HTTP 400)")
    assert abc.row.error_message is not None and len(abc.row.error_message) <= 10_000


async def test_a_model_that_is_gone_says_so(abc: Stage, provider_a: FakeProvider):
    provider_a.script(status(404, {"error": {"message": "no", "code": "model_not_found"}}))
    got = await abc.ask("A/m")
    assert got.said == (404, "the provider no longer serves this model (provider A, upstream HTTP 404)")
    assert got.error["code"] == "model_not_found" and abc.row.error_kind == "provider_model_gone"


async def test_one_request_over_three_failures_is_one_row_and_one_event(
    abc: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 100"""
    seen: list[str] = []
    events.subscribe(lambda event: seen.append(event.type))
    provider_a.script(status(500))
    provider_b.script(status(501))
    with FakeProvider() as provider_c:
        provider_c.script(status(403))
        abc.member("C", provider_c.url)
        assert (await abc.ask()).status == 403
    assert len(abc.rows) == 1 and seen.count("request.completed") == 1


async def test_a_bare_name_walks_like_a_group_and_messages_name_it(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """failover-loop 113, routing 94, v1-api 21"""
    stage.member("A", provider_a.url, model="plain", grouped=False)
    stage.member("B", provider_b.url, model="plain", grouped=False)
    provider_a.script(status(503))
    assert (await stage.ask("plain")).status == 200
    assert stage.trail == [(0, "A", 503, "provider_error", "charge"), (1, "B", 200, None, "success")]
    assert stage.row.resolved_model_id == "plain" and stage.waits == [pytest.approx(0.15)]
    provider_a.refuse()
    provider_b.refuse()
    assert (await stage.ask("plain")).said == (502, "all providers failed for model plain")


async def test_the_upstream_gets_its_own_key_and_nothing_of_the_clients(abc: Stage, provider_a: FakeProvider):
    await abc.ask()
    (call,) = provider_a.calls
    assert call.headers["authorization"] == "Bearer sk-aaaaaaaaaaaaaaaa1111"
    assert set(call.headers) <= {
        "host",
        "authorization",
        "content-type",
        "content-length",
        "accept-encoding",
        "user-agent",
    }
    assert call.json["model"] == "m"


async def test_the_candidates_key_in_an_answer_is_masked_others_stay(abc: Stage, provider_a: FakeProvider):
    """part of v1-api 50"""
    provider_a.script(answer("sk-aaaaaaaaaaaaaaaa1111 and sk-bbbbbbbbbbbbbbbb2222"))
    got = await abc.ask()
    assert got.json["choices"][0]["message"]["content"] == "[redacted] and sk-bbbbbbbbbbbbbbbb2222"


@pytest.mark.parametrize("way", ["error", "first event", "answer"])
async def test_the_key_of_a_disabled_provider_is_masked_in_errors_though_nobody_used_it(
    abc: Stage, provider_a: FakeProvider, way: str
):
    """v1-api 50: it is not in memory until then, and has no shape that gives it away."""
    key = "the-plain-words-of-a-key-77"
    sealed = crypto.seal(key)
    row = next(iter(abc._providers.values()))
    off = replace(row, id="00000000-0000-4000-8000-000000000099", name="Off", enabled=False)
    off = replace(off, sealed=SealedKey(sealed.ciphertext, sealed.nonce, sealed.salt))
    abc._providers[off.id] = off
    abc.set()
    error = {"error": {"message": f"bad {key}", "type": "x", "param": None, "code": None}}
    scripts = {"error": status(400, error), "first event": first_event_error(error["error"])}
    provider_a.script(scripts.get(way) or answer(f"bad {key}"))
    got = await abc.ask(stream=way == "first event")
    if way == "answer":
        assert got.json["choices"][0]["message"]["content"] == f"bad {key}"
        return
    if way == "error":
        assert got.said == (400, "bad [redacted]") and abc.row.error_message == "bad [redacted]"
    assert abc.row.attempts is not None
    assert abc.row.attempts[0].get("detail", "bad [redacted]") == "bad [redacted]"
    assert key not in got.body.decode() + repr(abc.row.attempts) + repr(abc.row.error_message)


@pytest.mark.parametrize("size", [0, refusals.ERROR_FORWARDED], ids=["short", "longer than what is read"])
async def test_a_compressed_error_body_is_shown_to_nobody(abc: Stage, provider_a: FakeProvider, size: int):
    packed = gzip.compress(b'{"error":{"message":"bad"}}') + bytes(range(256)) * (size // 256)
    provider_a.script(status(400, packed, headers={"Content-Encoding": "gzip"}))
    got = await abc.ask()
    assert got.status == 400
    assert got.error["message"] == "the provider failed to serve this request (provider A, upstream HTTP 400)"
    assert abc.row.error_message == "the provider failed to serve this request"
