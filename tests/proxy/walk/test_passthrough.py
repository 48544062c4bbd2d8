"""Answers that pass through: what is judged before the first byte, what is relayed, and what each costs."""

import asyncio
import json
from typing import Any

import pytest

from proxy import passthrough, relayed
from proxy.usage import MAX_COUNT
from tests.proxy.walk.stage import Stage
from tests.upstream.server import (
    FakeProvider,
    answer,
    gzip,
    half_json,
    hang_up,
    headers_then_silence,
    html,
    no_vectors,
    raw,
    reply,
    status,
    vectors,
)

A_SERVED = [(0, "A", 200, None, "success")]
B_SERVED = [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url, key="sk-alpha-0123456789abcdef")
    stage.member("B", provider_b.url)
    return stage


def embeddings(**members: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}], "model": "m"} | members


# -- served


async def test_an_answer_goes_out_byte_for_byte_and_is_written_down(ab: Stage, provider_a: FakeProvider):
    body = b' {"data" : [ {"embedding":[0.10,1e-7,-0.0]} ], "usage":{"prompt_tokens":7,"total_tokens":7}}\n'
    provider_a.script(reply(200, body))
    got = await ab.embed()
    assert (got.status, got.body, got.complete) == (200, body, True)
    assert (got.header("content-type"), got.header("content-length")) == ("application/json", str(len(body)))
    assert (got.header("x-modelhotel-provider"), got.header("x-modelhotel-attempts")) == ("A", "1")
    assert ab.trail == A_SERVED
    row = ab.row
    assert (row.endpoint_type, row.streaming, row.state, row.status_code) == ("embeddings", False, "completed", 200)
    assert (row.tokens_prompt, row.tokens_completion, row.ttft_ms) == (7, 0, None)
    assert row.response_header_ms and row.resolved_model_id == "m" and ab.charged == 7


async def test_the_request_goes_to_the_embeddings_of_the_base_address(ab: Stage, provider_a: FakeProvider):
    await ab.embed(given=["a", "b"], dimensions=2)
    (call,) = provider_a.calls
    assert (call.method, call.path) == ("POST", "/v1/embeddings")
    assert call.headers["authorization"] == "Bearer sk-alpha-0123456789abcdef"
    assert call.json == {"model": "m", "input": ["a", "b"], "dimensions": 2}


async def test_headers_of_the_provider_stay_with_us_but_for_two(ab: Stage, provider_a: FakeProvider):
    sent = {"Set-Cookie": "a=b", "X-Request-Id": "theirs", "OpenAI-Organization": "o", "Content-Disposition": "inline"}
    provider_a.script(reply(201, embeddings(), headers=sent, content_type="application/json; charset=utf-8"))
    got = await ab.embed()
    assert got.status == 201
    assert got.header("content-type") == "application/json; charset=utf-8"
    assert got.header("content-disposition") == "inline"
    assert (got.header("set-cookie"), got.header("openai-organization")) == (None, None)
    assert got.header("x-request-id") != "theirs"


async def test_an_answer_that_calls_itself_html_is_still_json(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, embeddings(), content_type="text/html"))
    got = await ab.embed()
    assert (got.status, got.header("content-type")) == (200, "application/json")


async def test_the_candidates_key_does_not_come_back(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, embeddings(model="sk-alpha-0123456789abcdef")))
    assert (await ab.embed()).json["model"] == "[redacted]"


async def test_a_stream_is_not_what_embeddings_are(ab: Stage, provider_a: FakeProvider):
    got = await ab.embed(stream=True)
    assert (got.status, got.header("content-type")) == (200, "application/json")
    assert provider_a.calls[0].json["stream"] is True  # passed on as it came
    assert ab.row.streaming is False


@pytest.mark.parametrize("code", [204, 205])
async def test_a_success_without_a_body_is_neither_good_nor_bad(ab: Stage, provider_a: FakeProvider, code: int):
    provider_a.script(raw(b"HTTP/1.1 %d X\r\n%s\r\n" % (code, b"" if code == 204 else b"Content-Length: 0\r\n")))
    got = await ab.embed()
    assert (got.status, got.body, got.header("content-type")) == (code, b"", None)
    assert ab.trail == [(0, "A", code, None, "noop")]
    assert (ab.row.state, ab.fails("A")) == ("completed", 0)


# -- usage


@pytest.mark.parametrize(
    ("usage", "prompt", "completion", "charged"),
    [
        ({"prompt_tokens": 9, "total_tokens": 20}, 9, 0, 9),
        ({"input_tokens": 9, "output_tokens": 2}, 9, 2, 11),
        ({"total_tokens": 9}, 9, 0, 9),
        ({"prompt_tokens": 0, "total_tokens": 9}, 9, 0, 9),
        ({"prompt_tokens": "9"}, 9, 0, 9),
        ({"prompt_tokens": -1}, 0, 0, 2),
        ({"prompt_tokens": 0, "total_tokens": 0}, 0, 0, 2),
        ("nonsense", 0, 0, 2),
        (None, 0, 0, 2),
    ],
    ids=str,
)
async def test_usage_is_read_in_every_spelling_and_estimated_only_for_the_counter(
    ab: Stage, provider_a: FakeProvider, usage: Any, prompt: int, completion: int, charged: int
):
    """*charged* 2: six bytes of input."""
    provider_a.script(reply(200, embeddings(usage=usage)))
    assert (await ab.embed(given="é234")).status == 200 and len("é234a".encode()) == 6
    assert (ab.row.tokens_prompt, ab.row.tokens_completion, ab.charged) == (prompt, completion, charged)


@pytest.mark.parametrize("absurd", [3_000_000_000, 10**30, "9" * 30])
async def test_an_absurd_count_is_0_in_the_row_with_a_warning(
    ab: Stage, provider_a: FakeProvider, caplog: pytest.LogCaptureFixture, absurd: Any
):
    """operations 4.5, v1-api 10.7"""
    provider_a.script(reply(200, embeddings(usage={"prompt_tokens": absurd, "completion_tokens": 3})))
    assert (await ab.embed()).status == 200
    assert (ab.row.tokens_prompt, ab.row.tokens_completion, ab.row.cost_usd) == (0, 3, None)
    assert ab.charged == MAX_COUNT + 3
    assert [record.name for record in caplog.records if "absurd" in record.getMessage()] == ["tokens"]


@pytest.mark.parametrize(
    ("given", "charged"),
    [
        ([[1, 2, 3]], 3),
        ([1, 2, 3, 4], 4),
        (["four", "five "], 3),
        ([{"text": "12345678"}, {"image": "data:..."}], 2),
        ("", 1),
        (None, 1),
        (5, 1),
        ([[]], 1),
    ],
    ids=str,
)
async def test_what_nobody_reported_is_estimated(ab: Stage, provider_a: FakeProvider, given: Any, charged: int):
    """v1-api 85"""
    provider_a.script(vectors(usage=False))
    assert (await ab.embed(given=given)).status == 200
    assert (ab.charged, ab.row.tokens_prompt) == (charged, 0)


# -- no vectors


async def test_an_answer_without_vectors_fails_over_and_is_charged(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """v1-api 84"""
    provider_a.script(no_vectors())
    got = await ab.embed()
    assert got.status == 200 and len(got.json["data"]) == 1
    assert ab.trail == B_SERVED
    assert (ab.fails("A"), ab.fails("B"), ab.row.state) == (1, 0, "completed")
    assert ab.row.attempts and ab.row.attempts[0]["detail"] == "provider returned no results"
    assert ab.row.tokens_prompt == 8 and ab.charged == 8  # what A read was billed too


async def test_the_last_answer_without_vectors_is_forwarded_as_it_is(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """v1-api 84"""
    provider_a.script(no_vectors())
    body = b'{"data": [ ], "from": "B"}'
    provider_b.script(reply(200, body))
    got = await ab.embed()
    assert (got.status, got.body) == (200, body)
    assert ab.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "charge")]
    assert (ab.fails("A"), ab.fails("B")) == (1, 1)
    assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("completed", 200, None)


async def test_a_direct_request_gets_what_there_is(ab: Stage, provider_a: FakeProvider):
    provider_a.script(no_vectors())
    got = await ab.embed("A/m")
    assert (got.status, got.json["data"]) == (200, [])
    assert ab.fails("A") == 1


async def test_an_answer_without_vectors_stays_where_502_does_not_move_on(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    ab.set(failover_retry_on_statuses="429")
    provider_a.script(no_vectors())
    assert (await ab.embed()).json["data"] == []
    assert provider_b.calls == [] and ab.fails("A") == 1


# -- what is no answer

BROKEN = {
    "html": html(),
    "half": half_json(),
    "empty object": reply(200, {}),
    "null": reply(200, {"data": None}),
    "an error object": reply(200, {"error": {"message": "account 4711 is out of credit"}}),
    "a list": reply(200, [[1.0]]),
    "a completion": reply(200, {"choices": []}),
    "compressed": gzip(),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_answer_fails_over(ab: Stage, provider_a: FakeProvider, name: str):
    provider_a.script(BROKEN[name])
    assert (await ab.embed()).status == 200
    assert ab.trail == B_SERVED and ab.fails("A") == 1


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_answer_is_told_without_a_word_of_it(ab: Stage, provider_a: FakeProvider, name: str):
    """v1-api 69"""
    provider_a.script(BROKEN[name])
    got = await ab.embed("A/m")
    told = "the provider returned a response the gateway could not decode (provider A, upstream HTTP 200)"
    assert got.said == (502, told)
    assert ab.row.error_kind == "provider_error" and ab.fails("A") == 1
    kept = json.dumps([ab.row.error_message, ab.row.attempts])
    assert "4711" not in kept and "html>" not in kept


@pytest.mark.parametrize("behaviour", [reply(200, b""), raw(b"HTTP/1.1 200 X\r\nContent-Length: 9\r\n\r\n")])
async def test_a_success_that_ends_before_its_first_byte(ab: Stage, provider_a: FakeProvider, behaviour: Any):
    provider_a.script(behaviour)
    assert (await ab.embed()).status == 200
    assert ab.trail == B_SERVED
    got = await ab.embed("A/m")
    assert got.said == (502, "upstream produced no response data")
    assert ab.fails("A") == 2 and got.error["code"] == "provider_error"


async def test_a_body_that_breaks_off(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, b'{"data":[{"emb', length=500, close=True))
    assert (await ab.embed()).status == 200
    assert ab.trail == B_SERVED
    got = await ab.embed("A/m")
    assert got.said == (502, "failed to read upstream response")
    assert ab.fails("A") == 2 and ab.charged > 4


async def test_a_whole_document_is_an_answer_even_where_the_connection_broke(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, embeddings(), length=5000, close=True))
    assert (await ab.embed()).json == embeddings()
    assert ab.trail == A_SERVED


async def test_a_body_that_does_not_come_in_time_moves_on(ab: Stage, provider_a: FakeProvider):
    ab.set(request_timeout="1s")
    provider_a.script(headers_then_silence(stream=False))
    assert (await ab.embed()).status == 200
    assert ab.trail == [(0, "A", 200, "provider_timeout", "charge"), (1, "B", 200, None, "success")]


async def test_a_client_that_leaves_while_we_wait_costs_nobody(ab: Stage, provider_a: FakeProvider):
    provider_a.script(headers_then_silence(stream=False))
    client = ab.embedding_client()
    task = asyncio.create_task(client.run())
    await provider_a.until(lambda: len(provider_a.calls) == 1)
    client.left.set()
    answered = await task
    assert answered.status == 0
    assert [(entry[0], entry[1], entry[3]) for entry in ab.trail] == [(0, "A", "client_disconnect")]
    assert (ab.row.status_code, ab.row.error_kind, ab.fails("A")) == (499, "client_disconnect", 0)


# -- the walk is that of chat


@pytest.mark.parametrize("code", [401, 402, 403, 404, 429, 500, 503])
async def test_a_status_moves_on_as_for_chat(ab: Stage, provider_a: FakeProvider, code: int):
    """routing 12"""
    provider_a.script(status(code))
    assert (await ab.embed()).status == 200
    assert [entry[:3] for entry in ab.trail] == [(0, "A", code), (1, "B", 200)]


async def test_a_refused_connection_and_a_hang_up_move_on(ab: Stage, provider_a: FakeProvider):
    provider_a.refuse()
    assert (await ab.embed()).status == 200
    provider_a.listen()
    provider_a.script(hang_up())
    assert (await ab.embed()).status == 200
    assert [entry[:2] for entry in ab.trail] == [(0, "A"), (1, "B")] and ab.fails("A") == 2


async def test_a_refusal_of_the_input_is_the_clients(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """v1-api 46"""
    body = b'{"error": {"message": "dimensions must be at most 3072", "param": "dimensions"}}'
    provider_a.script(reply(400, body))
    got = await ab.embed(dimensions=9999)
    assert (got.status, got.body) == (400, body)
    assert provider_b.calls == [] and ab.fails("A") == 0


async def test_nothing_is_learned_from_a_refusal(ab: Stage, provider_a: FakeProvider):
    """Section 18 of failover-loop: one call, and the next one is the same again."""
    said = {"error": {"message": "Unsupported parameter: 'dimensions'", "type": "invalid_request_error"}}
    provider_a.script(reply(400, said))
    for _ in range(2):
        assert (await ab.embed("A/m", dimensions=2)).status == 400
    assert [call.json["dimensions"] for call in provider_a.calls] == [2, 2]


async def test_five_bad_answers_open_the_circuit_of_this_model(ab: Stage, provider_a: FakeProvider):
    provider_a.script(no_vectors())
    for _ in range(5):
        assert (await ab.embed()).status == 200
    assert ab.state("A") == "open"
    await ab.embed()
    assert len(provider_a.calls) == 5
    assert ab.trail == [(-1, "A", None, None, "skipped"), (0, "B", 200, None, "success")]


async def test_chat_and_embeddings_of_one_model_share_its_circuit(ab: Stage, provider_a: FakeProvider):
    provider_a.script(status(500))
    await ab.ask()
    await ab.embed()
    assert ab.fails("A") == 2
    provider_a.script(answer("hi"))
    await ab.embed()
    assert ab.fails("A") == 0


async def test_error_texts_do_not_repeat_the_input(ab: Stage, provider_a: FakeProvider):
    """Section 18 of v1-api."""
    secret = "the quarterly figures of Example Ltd"
    provider_a.script(reply(500, {"error": {"message": f"can not embed: {secret}"}}))
    await ab.embed("A/m", given=["x", secret])
    assert "quarterly" not in json.dumps([ab.row.error_message, ab.row.attempts])


# -- answers larger than what is read first

FRAME = b'{"data":[{"embedding":"' + b"A" * 300 + b'"}],"usage":{"prompt_tokens":7}}'


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is 100 bytes."""
    monkeypatch.setattr(passthrough, "BUFFERED", 100)


@pytest.mark.usefixtures("small")
class TestRelay:
    async def test_a_large_answer_is_passed_on_without_its_usage(self, ab: Stage, provider_a: FakeProvider):
        """operations 4.5"""
        provider_a.script(reply(200, FRAME))
        got = await ab.embed(given="12345678")
        assert (got.status, got.body, got.complete) == (200, FRAME, True)
        assert (got.header("content-type"), got.header("content-length")) == ("application/json", str(len(FRAME)))
        assert ab.trail == A_SERVED and ab.row.state == "completed"
        assert (ab.row.tokens_prompt, ab.charged) == (0, 2)

    async def test_one_of_unknown_length_has_none_for_the_client_either(self, ab: Stage, provider_a: FakeProvider):
        chunked = b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(FRAME), FRAME)
        provider_a.script(raw(chunked))
        got = await ab.embed()
        assert (got.body, got.complete, got.header("content-length")) == (FRAME, True, None)

    async def test_one_that_breaks_is_cut_off_and_charged(
        self, ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
    ):
        provider_a.script(reply(200, FRAME, length=5000, close=True))
        got = await ab.embed()
        assert (got.status, got.body, got.complete) == (200, FRAME, False)
        assert ab.trail == [(0, "A", 200, "provider_error", "charge")] and provider_b.calls == []
        assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "provider_error")
        assert (ab.row.error_message or "").startswith("answer cut off: upstream connection error")
        assert ab.fails("A") == 1 and ab.charged > 0

    async def test_one_that_stands_still_is_cut_off_in_time(self, ab: Stage, provider_a: FakeProvider):
        ab.set(request_timeout="1s")

        async def half(wire: Any) -> None:
            await wire.write(b"HTTP/1.1 200 X\r\nContent-Length: 5000\r\n\r\n" + FRAME)
            await wire.sleep(20)

        provider_a.script(half)
        got = await ab.embed()
        assert not got.complete
        assert (ab.row.status_code, ab.row.error_kind, ab.fails("A")) == (0, "failover_timeout", 1)

    async def test_a_client_that_leaves_costs_the_provider_nothing(self, ab: Stage, provider_a: FakeProvider):
        async def half(wire: Any) -> None:
            await wire.write(b"HTTP/1.1 200 X\r\nContent-Length: 5000\r\n\r\n" + FRAME)
            await wire.sleep(20)

        provider_a.script(half)

        client = ab.embedding_client()
        task = asyncio.create_task(client.run())
        await client.until(b"AAA")
        client.left.set()
        await task
        assert ab.trail == [(0, "A", 200, "client_disconnect", None)]
        assert (ab.row.status_code, ab.row.error_kind, ab.fails("A")) == (0, "client_disconnect", 0)
        assert ab.charged > 0
        await provider_a.until(lambda: provider_a.disconnects == 1)

    async def test_a_stopping_server_cuts_it_off_and_keeps_its_trail(self, ab: Stage, provider_a: FakeProvider):
        async def half(wire: Any) -> None:
            await wire.write(b"HTTP/1.1 200 X\r\nContent-Length: 5000\r\n\r\n" + FRAME)
            await wire.sleep(20)

        provider_a.script(half)
        client = ab.embedding_client()
        task = asyncio.create_task(client.run())
        await client.until(b"AAA")
        task.cancel()
        await task
        assert client.answer.body == FRAME and not client.answer.complete
        assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "internal")
        assert [entry[:3] for entry in ab.trail] == [(0, "A", 200)]
        assert ab.fails("A") == 0 and ab.charged > 0

    async def test_a_compressed_one_is_no_answer(self, ab: Stage, provider_a: FakeProvider):
        provider_a.script(reply(200, FRAME, headers={"Content-Encoding": "gzip"}))
        assert (await ab.embed()).status == 200
        assert ab.trail == B_SERVED

    async def test_the_candidates_key_is_kept_out_of_every_piece(self, ab: Stage, provider_a: FakeProvider):
        key = b"sk-alpha-0123456789abcdef"
        body = FRAME + key + b"|" + key[:-1] + b"|" + key

        async def piecemeal(wire: Any) -> None:
            await wire.write(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n" % len(body))
            for at in range(0, len(body), 7):
                await wire.write(body[at : at + 7])

        provider_a.script(piecemeal)
        got = await ab.embed("A/m")
        masked = b"[redacted]***************"
        assert got.body == FRAME + masked + b"|" + key[:-1] + b"|" + masked
        assert got.complete and got.header("content-length") == str(len(body))


def test_a_guard_without_a_key_holds_nothing_back():
    guard = relayed.Guard("")
    assert (guard.take(b"sk"), guard.rest()) == (b"sk", b"")
