"""Rerank, images and audio: forms that go out anew for each candidate, answers of every type that pass as they come."""

import asyncio
import json
from typing import Any

import pytest

from proxy import passthrough
from tests.proxy.asgi import client as asgi_client
from tests.proxy.walk.stage import KEY, Stage
from tests.upstream.media import MP3, PNG
from tests.upstream.server import (
    FakeProvider,
    after,
    html,
    passed_events,
    picture,
    raw,
    reply,
    scores,
    silent_body,
    sound,
    status,
    transcript,
)

A_SERVED = [(0, "A", 200, None, "success")]
B_SERVED = [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]
RERANK, IMAGES, EDITS = "/v1/rerank", "/v1/images/generations", "/v1/images/edits"
VARIATIONS, SPEECH = "/v1/images/variations", "/v1/audio/speech"
TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/transcriptions", "/v1/audio/translations"
JSON_PATHS = {RERANK: "rerank", IMAGES: "image", SPEECH: "tts"}
FORM_PATHS = {EDITS: "image", VARIATIONS: "image", TRANSCRIPTIONS: "stt", TRANSLATIONS: "stt"}
WAV = ("file", ("secret name.wav", bytes(range(256)) * 20, "audio/wav"))
USAGE = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}


@pytest.fixture
def ab(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Stage:
    stage.member("A", provider_a.url, model="a-1", key="sk-alpha-0123456789abcdef")
    stage.member("B", provider_b.url, model="b-1")
    return stage


# -- requests


@pytest.mark.parametrize(("path", "family"), JSON_PATHS.items())
async def test_json_goes_out_as_it_came_but_for_the_model(ab: Stage, provider_a: FakeProvider, path: str, family: str):
    asked = {"input": "hi", "prompt": "hi", "query": "hi", "documents": ["a"], "voice": "alloy", "seed": 2**60}
    assert (await ab.post(path, **asked)).status == 200
    (call,) = provider_a.calls
    assert (call.path, call.headers["content-type"]) == (path, "application/json")
    assert call.headers["authorization"] == "Bearer sk-alpha-0123456789abcdef"
    assert call.json == {"model": "a-1", **asked}
    assert ab.trail == A_SERVED
    assert (ab.row.endpoint_type, ab.row.state, ab.row.status_code) == (family, "completed", 200)


@pytest.mark.parametrize(("path", "family"), FORM_PATHS.items())
async def test_a_form_goes_out_anew(ab: Stage, provider_a: FakeProvider, path: str, family: str):
    assert (await ab.upload(path, WAV, ("prompt", "é"))).status == 200
    (call,) = provider_a.calls
    assert call.path == path and call.headers["content-type"].startswith("multipart/form-data; boundary=modelhotel-")
    assert call.parts == [
        ("model", None, "", b"a-1"),
        ("file", *WAV[1][:1], WAV[1][2], WAV[1][1]),
        ("prompt", None, "", "é".encode()),
    ]
    assert ab.trail == A_SERVED
    assert (ab.row.endpoint_type, ab.row.state, ab.row.model_id) == (family, "completed", "hotel/g")


async def test_the_next_candidate_gets_all_parts_in_order_under_its_own_name(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """v1-api 87"""
    pictures = [("image[]", (f"{n}.png", bytes([n]) * 1000 + b"\r\n--x\r\n", "image/png")) for n in range(3)]
    provider_a.script(status(500))
    assert (await ab.upload(EDITS, *pictures, ("prompt", "a cat"))).status == 200
    (first,), (second,) = provider_a.calls, provider_b.calls
    assert first.parts[0] == ("model", None, "", b"a-1") and second.parts[0] == ("model", None, "", b"b-1")
    sent = [(name, value[0], value[2], value[1]) for name, value in pictures]
    for call in (first, second):
        assert call.parts[1:] == [*sent, ("prompt", None, "", b"a cat")]
    assert first.headers["content-type"] != second.headers["content-type"]
    assert ab.trail == [(0, "A", 500, "provider_error", "charge"), (1, "B", 200, None, "success")]


async def test_the_same_form_goes_out_where_the_model_is_the_same(
    stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    """Section 8.2 of v1-api."""
    stage.member("A", provider_a.url)
    stage.member("B", provider_b.url)
    provider_a.script(status(500))
    assert (await stage.upload(TRANSCRIPTIONS, WAV)).status == 200
    (first,), (second,) = provider_a.calls, provider_b.calls
    assert (first.headers["content-type"], first.body) == (second.headers["content-type"], second.body)


async def test_a_file_called_model_is_no_model(ab: Stage, provider_a: FakeProvider):
    """v1-api 86"""
    got = await ab.upload(TRANSCRIPTIONS, ("model", ("whisper-1", b"hotel/g", "text/plain")), WAV, model=None)
    assert got.said == (400, "model is required") and got.error["param"] == "model"
    assert (ab.row.status_code, ab.row.error_kind, ab.row.model_id) == (400, "validation", "")
    assert provider_a.requests == []


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/json", b'{"model": "hotel/g"}', "Content-Type must be multipart/form-data with a boundary"),
        ("multipart/form-data", b"--x--", "Content-Type must be multipart/form-data with a boundary"),
        ("multipart/form-data; boundary=x", b"--y--", "invalid multipart form"),
    ],
)
async def test_what_is_no_form_is_refused(ab: Stage, content_type: str, body: bytes, message: str):
    one = asgi_client("POST", EDITS, key=KEY, body=body, headers=[("content-type", content_type)])
    got = await one.run()
    assert got.said == (400, message) and got.error["code"] == "invalid_request_body"
    assert (ab.row.endpoint_type, ab.row.error_kind) == ("image", "validation")


async def test_the_model_of_a_form_is_trimmed_and_resolved_like_any(ab: Stage, provider_a: FakeProvider):
    assert (await ab.upload(TRANSCRIPTIONS, WAV, model=" A/a-1\n")).status == 200
    assert provider_a.calls[0].model == "a-1" and ab.row.model_id == "A/a-1"
    got = await ab.upload(TRANSCRIPTIONS, WAV, model="hotel/none")
    assert got.said == (404, "model not found: hotel/none")


async def test_xai_gets_the_shape_of_a_picture_it_knows(stage: Stage, provider_a: FakeProvider):
    """v1-api 92"""
    stage.member("A", provider_a.url, model="grok-imagine", kind="xai")
    assert (await stage.post(IMAGES, "A/grok-imagine", prompt="x", size="1792x1024")).status == 200
    assert provider_a.calls[0].json == {"model": "grok-imagine", "prompt": "x", "aspect_ratio": "16:9"}
    await stage.upload(EDITS, ("size", "1792x1024"), ("prompt", "x"), model="A/grok-imagine")
    assert provider_a.calls[1].parts == [
        ("model", None, "", b"grok-imagine"),
        ("prompt", None, "", b"x"),
        ("aspect_ratio", None, "", b"16:9"),
    ]


@pytest.mark.parametrize("size", [b"1e999", b"9" * 400, b"[1e999]", b'{"":[]}', b"5"])
async def test_a_size_that_is_none_is_left_out(stage: Stage, provider_a: FakeProvider, size: bytes):
    stage.member("A", provider_a.url, model="grok-imagine", kind="xai")
    provider_a.script(picture())
    body = b'{"model":"A/grok-imagine","prompt":"p","size":%b}' % size
    assert (await asgi_client("POST", IMAGES, key=KEY, body=body).run()).status == 200
    assert provider_a.calls[0].json == {"model": "grok-imagine", "prompt": "p"} and stage.trail == A_SERVED


async def test_a_reranker_behind_coheres_layer_is_asked_natively(stage: Stage, provider_a: FakeProvider):
    """part of v1-api 93"""
    stage.member("A", f"{provider_a.origin}/compatibility/v1", model="rerank-v3.5", kind="cohere")
    assert (await stage.post(RERANK, "A/rerank-v3.5", query="q", documents=["a"])).status == 200
    assert provider_a.calls[0].path == "/v2/rerank"


# -- answers


@pytest.mark.parametrize(
    ("path", "behaviour", "usage"),
    [
        (RERANK, scores(usage={"total_tokens": 9}), (9, 0)),
        (IMAGES, picture(usage=USAGE), (9, 4)),
        (IMAGES, picture(b64=None, url="https://h/x.png"), (0, 0)),
        (SPEECH, reply(200, {"audio": "aGk="}), (0, 0)),
    ],
)
async def test_json_is_read_for_its_usage_and_goes_on_as_it_came(
    ab: Stage, provider_a: FakeProvider, path: str, behaviour: Any, usage: tuple[int, int]
):
    provider_a.script(behaviour)
    got = await ab.post(path)
    assert (got.status, got.header("content-type"), got.complete) == (200, "application/json", True)
    assert (ab.row.tokens_prompt, ab.row.tokens_completion) == usage
    assert ab.trail == A_SERVED and ab.charged == (sum(usage) or 1)


@pytest.mark.parametrize(
    ("path", "content_type", "body"),
    [
        (SPEECH, "audio/mpeg", MP3),
        (IMAGES, "image/png", b"\x89PNG" + bytes(range(256))),
        (SPEECH, None, b"\x00" * 100),
    ],
)
async def test_anything_else_passes_byte_for_byte(
    ab: Stage, provider_a: FakeProvider, path: str, content_type: str | None, body: bytes
):
    kind = f"Content-Type: {content_type}\r\n" if content_type else ""
    more = "Content-Disposition: attachment; filename=speech.mp3\r\nSet-Cookie: a=b\r\n"
    provider_a.script(raw(f"HTTP/1.1 200 X\r\n{kind}{more}Content-Length: {len(body)}\r\n\r\n".encode() + body))
    got = await ab.post(path, input="12345678")
    assert (got.status, got.body, got.complete) == (200, body, True)
    assert got.header("content-type") == (content_type or "application/octet-stream")
    assert got.header("content-length") == str(len(body))
    assert got.header("content-disposition") == "attachment; filename=speech.mp3"
    assert (got.header("set-cookie"), got.header("x-modelhotel-provider")) == (None, "A")
    assert ab.trail == A_SERVED
    assert (ab.row.state, ab.row.status_code, ab.row.tokens_prompt) == ("completed", 200, 0)
    assert ab.charged == 2


async def test_an_answer_without_a_type_has_the_most_general_one(ab: Stage, provider_a: FakeProvider):
    provider_a.script(raw(b"HTTP/1.1 200 X\r\nContent-Length: 2\r\n\r\nhi"))
    assert (await ab.post(SPEECH)).header("content-type") == "application/octet-stream"


@pytest.mark.parametrize("content_type", ["text/plain; charset=utf-8", "text/vtt", "application/x-subrip"])
async def test_a_transcript_in_words(ab: Stage, provider_a: FakeProvider, content_type: str):
    provider_a.script(reply(200, "WEBVTT\n\nhello\n", content_type=content_type))
    got = await ab.upload(TRANSCRIPTIONS, WAV, ("response_format", "vtt"))
    assert (got.body, got.header("content-type"), got.header("content-length")) == (
        b"WEBVTT\n\nhello\n",
        content_type,
        "14",
    )
    assert ab.trail == A_SERVED


async def test_the_transcript_of_silence_is_a_success(ab: Stage, provider_a: FakeProvider):
    provider_a.script(transcript(""))
    assert (await ab.upload(TRANSCRIPTIONS, WAV)).json == {"text": ""}
    assert ab.trail == A_SERVED


async def test_an_answer_of_unknown_length_has_none(ab: Stage, provider_a: FakeProvider):
    provider_a.script(raw(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"))
    got = await ab.post(SPEECH)
    assert (got.body, got.header("content-length")) == (b"abc", None)


async def test_the_candidates_key_does_not_come_back(ab: Stage, provider_a: FakeProvider):
    provider_a.script(sound(b"x sk-alpha-0123456789abcdef y"))
    assert (await ab.post(SPEECH)).body == b"x [redacted]*************** y"


@pytest.mark.parametrize("code", [204, 205])
async def test_a_success_without_a_body_is_neither_good_nor_bad(ab: Stage, provider_a: FakeProvider, code: int):
    provider_a.script(raw(b"HTTP/1.1 %d X\r\n%s\r\n" % (code, b"" if code == 204 else b"Content-Length: 0\r\n")))
    got = await ab.post(SPEECH)
    assert (got.status, got.body) == (code, b"") and ab.trail == [(0, "A", code, None, "noop")]


# -- rerank


async def test_searches_cost_what_the_model_says(ab: Stage, provider_a: FakeProvider):
    """Section 17.3 of v1-api."""
    ab.price("A", None, search=2.0)
    provider_a.script(scores(meta={"billed_units": {"search_units": 3}}))
    assert (await ab.post(RERANK, query="1234", documents=["1234", {"text": "1234"}])).status == 200
    assert (ab.row.tokens_prompt, ab.row.tokens_completion, ab.row.cost_usd) == (0, 0, pytest.approx(0.006))
    assert ab.charged == 3  # estimated, for the counters only


async def test_no_scores_are_forwarded_and_charged(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    provider_a.script(reply(200, {"results": []}))
    assert (await ab.post(RERANK)).json == {"results": []}
    assert ab.trail == [(0, "A", 200, None, "charge")] and provider_b.calls == []


# -- pictures

NO_PICTURE = [{"data": []}, {"data": [{"b64_json": ""}]}, {"data": [{"b64_json": None}, {"url": None}]}]


@pytest.mark.parametrize("body", NO_PICTURE, ids=str)
async def test_an_answer_without_a_picture_fails_over(ab: Stage, provider_a: FakeProvider, body: Any):
    """v1-api 90"""
    provider_a.script(reply(200, body))
    got = await ab.post(IMAGES)
    assert got.json["data"] == [{"b64_json": PNG}]
    assert ab.trail == B_SERVED and ab.fails("A", "a-1") == 1


async def test_the_last_answer_without_a_picture_is_forwarded(ab: Stage, provider_a: FakeProvider):
    """part of v1-api 90"""
    provider_a.script(reply(200, {"data": []}))
    got = await ab.upload(EDITS, model="A/a-1")
    assert (got.status, got.json) == (200, {"data": []})
    assert ab.trail == [(0, "A", 200, None, "charge")]


@pytest.mark.parametrize("path", [IMAGES, RERANK, SPEECH])
async def test_a_page_of_html_is_no_answer(ab: Stage, provider_a: FakeProvider, path: str):
    provider_a.script(html())
    assert (await ab.post(path)).status == 200
    assert ab.trail == B_SERVED


async def test_what_looks_like_an_error_is_no_speech(ab: Stage, provider_a: FakeProvider):
    provider_a.script(reply(200, {"error": {"message": "account 4711 is empty"}}))
    got = await ab.post(SPEECH, "A/a-1")
    told = "the provider returned a response the gateway could not decode (provider A, upstream HTTP 200)"
    assert got.said == (502, told)
    assert "4711" not in json.dumps([ab.row.error_message, ab.row.attempts])


async def test_a_business_error_of_minimax_is_a_429(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    """v1-api 91"""
    stage.member("A", provider_a.url, kind="minimax")
    stage.member("B", provider_b.url)
    provider_a.script(reply(200, {"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}))
    assert (await stage.post(IMAGES)).status == 200
    assert [entry[:3] for entry in stage.trail] == [(0, "A", 429), (1, "B", 200)]
    provider_a.script(sound(json.dumps({"base_resp": {"status_code": 1002}}).encode()))
    assert (await stage.post(SPEECH)).header("x-modelhotel-provider") == "A"  # sound is not looked at


# -- what ends before it begins


@pytest.mark.parametrize("behaviour", [silent_body(), reply(200, b"", content_type="audio/mpeg")])
async def test_speech_that_breaks_before_its_first_byte(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider, behaviour: Any
):
    """v1-api 88"""
    provider_a.script(behaviour)
    got = await ab.post(SPEECH)
    assert (got.status, got.body) == (200, MP3)
    assert ab.trail == B_SERVED
    got = await ab.post(SPEECH, "A/a-1")
    assert got.said == (502, "upstream produced no response data")
    assert got.error["code"] == "provider_error" and ab.fails("A", "a-1") == 2


async def test_a_compressed_answer_is_none(ab: Stage, provider_a: FakeProvider):
    provider_a.script(sound(headers={"Content-Encoding": "gzip"}))
    assert (await ab.post(SPEECH)).status == 200
    assert ab.trail == B_SERVED


# -- time


@pytest.mark.parametrize("path", [IMAGES, SPEECH])
async def test_pictures_and_sound_get_ten_times_the_time(ab: Stage, provider_a: FakeProvider, path: str):
    """Section 4.1 of failover-loop."""
    ab.set(request_timeout="200ms")
    provider_a.script(after(0.4, sound() if path == SPEECH else picture()))
    assert (await ab.post(path)).status == 200
    assert ab.trail == A_SERVED


async def test_scores_do_not(ab: Stage, provider_a: FakeProvider):
    ab.set(request_timeout="200ms")
    provider_a.script(after(0.4, scores()))
    assert (await ab.post(RERANK)).status == 200
    assert [entry[:4] for entry in ab.trail] == [(0, "A", None, "failover_timeout"), (1, "B", 200, None)]


# -- events

PARTIAL = {"type": "image_generation.partial_image", "b64_json": "A" * 100_000}
DONE = {"type": "image_generation.completed", "b64_json": "B" * 100_000, "usage": USAGE}


async def test_events_pass_one_by_one_and_their_usage_is_found(ab: Stage, provider_a: FakeProvider):
    provider_a.script(passed_events(PARTIAL, DONE, pause=0.05))
    got = await ab.post(IMAGES, stream=True)
    assert [json.loads(event.partition("data: ")[2]) for event in got.body.decode().split("\n\n")[:-1]] == [
        PARTIAL,
        DONE,
    ]
    assert (got.header("content-type"), got.header("content-length")) == ("text/event-stream; charset=utf-8", None)
    assert (got.header("cache-control"), got.header("x-accel-buffering")) == ("no-cache", "no")
    assert len(got.pieces) >= 2 and got.complete
    assert (ab.row.streaming, ab.row.state, ab.row.status_code) == (True, "completed", 200)
    assert (ab.row.tokens_prompt, ab.row.tokens_completion, ab.charged) == (9, 4, 13)
    assert ab.trail == A_SERVED


async def test_a_stream_that_breaks_is_cut_off_and_nothing_is_added(
    ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider
):
    provider_a.script(passed_events(PARTIAL, whole=False))
    got = await ab.post(IMAGES, stream=True)
    assert not got.complete and got.body.endswith(b'"}\n\n') and got.body.count(b"data:") == 1
    assert provider_b.calls == []
    assert ab.trail == [(0, "A", 200, "provider_error", "charge")]
    assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "provider_error")
    assert ab.charged == 1


async def test_a_stream_that_ends_with_an_error_is_charged(ab: Stage, provider_a: FakeProvider):
    provider_a.script(passed_events(PARTIAL, {"type": "error", "error": {"message": "moderation blocked 4711"}}))
    got = await ab.post(IMAGES, stream=True)
    assert got.complete and b"4711" in got.body
    assert ab.trail == [(0, "A", 200, "provider_error", "charge")]
    assert (ab.row.state, ab.row.status_code, ab.row.error_kind) == ("failed", 0, "provider_error")
    assert "4711" not in json.dumps([ab.row.error_message, ab.row.attempts])


async def test_a_stream_may_fail_over_before_its_first_byte(ab: Stage, provider_a: FakeProvider):
    provider_a.script(silent_body("text/event-stream"))
    assert (await ab.post(IMAGES, stream=True)).status == 200
    assert ab.trail == B_SERVED


async def test_the_first_token_window_is_not_theirs(ab: Stage, provider_a: FakeProvider):
    """Section 18 of failover-loop."""
    ab.set(ttft_timeout="100ms", stream_stall_timeout="100ms")
    provider_a.script(after(0.2, passed_events(PARTIAL, DONE, pause=0.2)))
    got = await ab.post(IMAGES, stream=True)
    assert got.complete and ab.trail == A_SERVED


@pytest.mark.parametrize("rest", [b"", b'data: {"half'])
async def test_a_stream_whose_time_is_over_says_so(ab: Stage, provider_a: FakeProvider, rest: bytes):
    """Section 8.5 of v1-api."""
    ab.set(request_timeout="50ms")

    async def stands_still(wire: Any) -> None:
        await wire.write(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nContent-Length: 500\r\n\r\n")
        await wire.write(b'data: {"type": "x"}\n\n' + rest)
        await wire.sleep(20)

    provider_a.script(stands_still)
    got = await ab.post(IMAGES, stream=True)
    first, *broken, last = got.events
    assert got.complete and json.loads(first) == {"type": "x"} and len(broken) == bool(rest)
    assert json.loads(last)["error"] == {
        "message": "stream interrupted: upstream request timed out",
        "type": "server_error",
        "param": None,
        "code": "failover_timeout",
    }
    assert ab.trail == [(0, "A", 200, "failover_timeout", "charge")]
    assert (ab.row.state, ab.row.error_kind) == ("failed", "failover_timeout")


async def test_sound_whose_time_is_over_is_cut_off(ab: Stage, provider_a: FakeProvider):
    ab.set(request_timeout="50ms")

    async def stands_still(wire: Any) -> None:
        await wire.write(b"HTTP/1.1 200 X\r\nContent-Type: audio/mpeg\r\nContent-Length: 500\r\n\r\nID3")
        await wire.sleep(20)

    provider_a.script(stands_still)
    got = await ab.post(SPEECH)
    assert (got.body, got.complete) == (b"ID3", False)
    assert ab.trail == [(0, "A", 200, "failover_timeout", "charge")]


async def test_nor_is_it_where_errors_are_looked_for(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    stage.member("A", provider_a.url, kind="minimax")
    stage.member("B", provider_b.url)
    stage.set(ttft_timeout="100ms")
    body = json.dumps({"data": [{"b64_json": PNG}]}).encode()

    async def slowly(wire: Any) -> None:
        await wire.write(b"HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        await wire.sleep(0.3)
        await wire.write(body)

    provider_a.script(slowly)
    assert (await stage.post(IMAGES, stream=True)).body == body
    assert stage.trail == A_SERVED


async def test_a_client_that_leaves_a_stream_costs_the_provider_nothing(ab: Stage, provider_a: FakeProvider):
    provider_a.script(passed_events(PARTIAL, DONE, pause=20))
    client = ab.poster(IMAGES, stream=True)
    task = asyncio.create_task(client.run())
    await client.until(b"AAA")
    assert ab.row_in_flight.state == "streaming"
    client.left.set()
    await task
    assert ab.trail == [(0, "A", 200, "client_disconnect", None)]
    assert (ab.row.state, ab.row.error_kind, ab.fails("A", "a-1")) == ("failed", "client_disconnect", 0)
    await provider_a.until(lambda: provider_a.disconnects == 1)


async def test_a_large_picture_is_relayed_without_a_look(
    ab: Stage, provider_a: FakeProvider, monkeypatch: pytest.MonkeyPatch
):
    """operations 4.5"""
    monkeypatch.setattr(passthrough, "BUFFERED", 100)
    provider_a.script(picture(b64="A" * 500, usage=USAGE))
    got = await ab.post(IMAGES, prompt="12345678")
    assert got.complete and got.header("content-length") == str(len(got.body))
    assert (ab.row.tokens_prompt, ab.charged) == (0, 2)


# -- secrets


async def test_error_texts_repeat_neither_prompt_nor_file_name(ab: Stage, provider_a: FakeProvider):
    """Section 18 of v1-api."""
    prompt = "the quarterly figures of Example Ltd"
    provider_a.script(status(500, {"error": {"message": f"can not read the long secret name.wav: {prompt}"}}))
    form = [("file", ("the long secret name.wav", b"x", "audio/wav")), ("prompt", prompt)]
    await ab.upload(TRANSCRIPTIONS, *form, model="A/a-1")
    kept = json.dumps([ab.row.error_message, ab.row.attempts])
    assert "quarterly" not in kept and "secret" not in kept
    provider_a.script(status(500, {"error": {"message": "can not read the long secret name.wav"}}))
    await ab.upload(TRANSCRIPTIONS, *form, model="A/a-1")
    assert "secret" not in json.dumps([ab.row.error_message, ab.row.attempts])


async def test_nothing_is_learned_from_a_refusal(ab: Stage, provider_a: FakeProvider, provider_b: FakeProvider):
    body = b'{"error": {"message": "Unsupported parameter: \'n\'", "param": "n"}}'
    provider_a.script(reply(400, body))
    for _ in range(2):
        got = await ab.upload(EDITS, ("n", "5"))
        assert (got.status, got.body) == (400, body)
    assert [call.parts[1] for call in provider_a.calls] == [("n", None, "", b"5")] * 2
    assert provider_b.calls == []


@pytest.mark.parametrize("path", [*JSON_PATHS, *FORM_PATHS])
async def test_a_wrong_method_is_told_so(ab: Stage, path: str):
    got = await asgi_client("GET", path, key=KEY).run()
    assert got.said == (405, "method not allowed") and got.header("allow") == "POST"
