"""Rerank, images and audio over real sockets, with the official SDK as the client, sync and async."""

import base64
import io
import json
import os
import random
import re
import subprocess
import wave
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.upstream.media import MP3, PNG
from tests.upstream.server import (
    hang_up,
    passed_events,
    picture,
    reply,
    scores,
    silent_body,
    sound,
    status,
    transcript,
)
from tests.wire.house import house
from tests.wire.product import eventually

IMAGE, TTS, STT, RERANK = "gpt-image-1", "tts-1", "whisper-1", "rerank-v3.5"
BYTES = random.Random(1).randbytes(300_000) + b"\r\n--x--\r\n"
USAGE = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
GOOG = "AIza-0123456789abcdefghijklmnopqrstuv"
SPOKEN = {"model": f"hotel/{TTS}", "input": "Hello", "voice": "alloy"}


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory):
    with house(tmp_path_factory.mktemp("house"), more=(IMAGE, RERANK, TTS, STT)) as found:
        yield found


def wav(name="a b.wav"):
    return (name, BYTES, "audio/wav")


# -- images


@pytest.mark.parametrize("model", [f"hotel/{IMAGE}", f"Alpha/{IMAGE}", IMAGE])
def test_a_picture_through_each_form_of_the_name(home, guest, model):
    home.a.script(picture(usage=USAGE))
    found = guest.images.generate(model=model, prompt="a cat", size="1024x1024", n=1)
    assert (found.data[0].b64_json, found.usage.total_tokens) == (PNG, 13)
    (call,) = home.a.calls
    assert (call.path, call.json) == (
        "/v1/images/generations",
        {"model": IMAGE, "prompt": "a cat", "size": "1024x1024", "n": 1},
    )
    row = home.row()
    assert (row["endpoint_type"], row["model_id"], row["state"]) == ("image", model, "completed")
    assert (row["tokens_prompt"], row["tokens_completion"]) == (9, 4)


def test_an_edit_of_several_pictures_reaches_the_second_provider_whole(home, guest):
    """v1-api 87"""
    home.a.script(status(500))
    pictures = [(f"{n}.png", bytes([n]) + BYTES, "image/png") for n in range(3)]
    found = guest.images.edit(model=f"hotel/{IMAGE}", image=pictures, mask=("m.png", b"mask", "image/png"), prompt="é")
    assert found.data[0].b64_json == PNG
    (first,), (second,) = home.a.calls, home.b.calls
    files = [("image[]", name, kind, data) for name, data, kind in pictures] + [("mask", "m.png", "image/png", b"mask")]
    for call in (first, second):
        assert [part for part in call.parts if part[1] is not None] == files
        assert ("prompt", None, "", "é".encode()) in call.parts and ("model", None, "", IMAGE.encode()) in call.parts
    assert [part[0] for part in first.parts] == [part[0] for part in second.parts]
    assert home.trail() == [(0, "Alpha", 500, "provider_error", "charge"), (1, "Beta", 200, None, "success")]


def test_a_variation(home, guest):
    with pytest.deprecated_call():
        found = guest.images.create_variation(model=f"hotel/{IMAGE}", image=("x.png", BYTES, "image/png"))
    assert found.data[0].b64_json == PNG
    assert home.a.calls[0].path == "/v1/images/variations"


def test_no_picture_is_no_answer(home):
    """v1-api 90"""
    home.a.script(picture(b64=""))
    assert home.client.images.generate(model=f"hotel/{IMAGE}", prompt="x").data[0].b64_json == PNG
    assert home.trail() == [(0, "Alpha", 200, "provider_error", "charge"), (1, "Beta", 200, None, "success")]
    assert home.circuit("Alpha")["consecutive_fails"] == 1


def test_a_picture_comes_piece_by_piece(home, guest):
    partial = {"type": "image_generation.partial_image", "partial_image_index": 0, "b64_json": "A" * 200_000}
    done = {"type": "image_generation.completed", "b64_json": "B" * 200_000, "usage": USAGE}
    home.a.script(passed_events(partial, done, pause=0.1))
    stream = guest.images.generate(model=f"hotel/{IMAGE}", prompt="x", stream=True, partial_images=1)
    found = list(stream)
    assert [event.type for event in found] == [partial["type"], done["type"]]
    assert [event.b64_json for event in found] == [partial["b64_json"], done["b64_json"]]
    assert eventually(lambda: home.row()["state"] == "completed")
    row = home.row()
    assert (row["streaming"], row["tokens_prompt"], row["tokens_completion"]) == (True, 9, 4)


def test_a_stream_of_pictures_that_breaks_can_not_be_taken_for_whole(home, guest):
    partial = {"type": "image_generation.partial_image", "partial_image_index": 0, "b64_json": "AAAA"}
    home.a.script(passed_events(partial, whole=False))
    got = []
    with pytest.raises((httpx.HTTPError, openai.APIError)):
        got.extend(guest.images.generate(model=f"hotel/{IMAGE}", prompt="x", stream=True, partial_images=1))
    assert eventually(lambda: home.row()["state"] == "failed")
    row = home.row()
    assert (row["status_code"], row["error_kind"], row["provider_name"]) == (0, "provider_error", "Alpha")
    assert home.b.calls == []


# -- speech


def test_speech_arrives_byte_for_byte(home, guest, tmp_path):
    with guest.audio.speech.with_streaming_response.create(**SPOKEN) as found:
        assert (found.headers["content-type"], found.headers["content-length"]) == ("audio/mpeg", str(len(MP3)))
        assert "content-encoding" not in found.headers and found.headers["x-modelhotel-provider"] == "Alpha"
        found.stream_to_file(tmp_path / "speech.mp3")
    assert (tmp_path / "speech.mp3").read_bytes() == MP3
    (call,) = home.a.calls
    assert (call.path, call.json) == ("/v1/audio/speech", {**SPOKEN, "model": TTS})
    assert home.row()["endpoint_type"] == "tts"


def test_a_long_speech_is_passed_on_while_it_is_spoken(home, guest):
    async def slowly(wire):
        await wire.write(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"one", b"two"):
            await wire.write(b"3\r\n" + piece + b"\r\n")
            await wire.sleep(0.3)
        await wire.write(b"0\r\n\r\n")

    home.a.script(slowly)
    with guest.audio.speech.with_streaming_response.create(**SPOKEN) as found:
        assert list(found.iter_bytes()) == [b"one", b"two"]


@pytest.mark.parametrize("fault", [silent_body(), reply(200, b"", content_type="audio/mpeg"), hang_up(), status(503)])
def test_speech_that_does_not_begin_comes_from_the_second_provider(home, fault):
    """v1-api 88"""
    home.a.script(fault)
    home.b.script(sound(b"from B"))
    assert home.client.audio.speech.create(**SPOKEN).content == b"from B"
    assert [entry[1] for entry in home.trail()] == ["Alpha", "Beta"]
    assert home.circuit("Alpha")["consecutive_fails"] == 1


def test_speech_that_never_begins(home, guest):
    """v1-api 88"""
    home.a.script(silent_body())
    with pytest.raises(openai.APIStatusError) as caught:
        guest.audio.speech.create(**{**SPOKEN, "model": f"Alpha/{TTS}"})
    assert (caught.value.status_code, caught.value.body["message"]) == (502, "upstream produced no response data")


def test_speech_that_breaks_is_cut_off(home, guest):
    home.a.script(reply(200, MP3, content_type="audio/mpeg", length=len(MP3) + 1000))
    with pytest.raises((httpx.HTTPError, openai.APIError)):
        guest.audio.speech.create(**SPOKEN)
    assert eventually(lambda: home.row()["state"] == "failed")
    assert home.circuit("Alpha")["consecutive_fails"] == 1 and home.b.calls == []


# -- transcriptions


def test_a_file_is_transcribed_by_the_second_provider(home, guest):
    home.a.script(status(429))
    home.b.script(transcript("hello", usage={"type": "tokens", **USAGE}))
    found = guest.audio.transcriptions.create(model=f"hotel/{STT}", file=wav(), language="en", prompt="Ada")
    assert found.text == "hello"
    for call in (*home.a.calls, *home.b.calls):
        assert call.path == "/v1/audio/transcriptions"
        assert ("file", "a b.wav", "audio/wav", BYTES) in call.parts and ("model", None, "", STT.encode()) in call.parts
    row = home.row()
    assert (row["endpoint_type"], row["tokens_prompt"], row["tokens_completion"]) == ("stt", 9, 4)
    assert "a b.wav" not in json.dumps(row)


def test_captions_are_text(home, guest):
    home.a.script(reply(200, "WEBVTT\n", content_type="text/vtt"))
    found = guest.audio.transcriptions.create(model=f"hotel/{STT}", file=wav(), response_format="vtt")
    assert found == "WEBVTT\n"


def test_a_transcript_comes_piece_by_piece(home, guest):
    events = [
        {"type": "transcript.text.delta", "delta": "hel"},
        {"type": "transcript.text.done", "text": "hello", "usage": {"type": "tokens", **USAGE}},
    ]
    home.a.script(passed_events(*events))
    found = list(guest.audio.transcriptions.create(model=f"hotel/{STT}", file=wav(), stream=True))
    assert [event.type for event in found] == [event["type"] for event in events]
    assert eventually(lambda: home.row()["state"] == "completed") and home.row()["tokens_completion"] == 4


def test_a_translation(home, guest):
    with pytest.deprecated_call():
        found = guest.audio.translations.create(model=f"hotel/{STT}", file=wav())
    assert found.text == "hello there"
    assert home.a.calls[0].path == "/v1/audio/translations"


def test_a_name_beyond_ascii_and_a_file_object(home):
    file = io.BytesIO(BYTES)
    file.name = 'ré"sumé.wav'
    assert home.client.audio.transcriptions.create(model=f"hotel/{STT}", file=file).text == "hello there"
    ((name, filename, _, data),) = [part for part in home.a.calls[0].parts if part[1] is not None]
    assert (name, data) == ("file", BYTES) and filename in ("ré%22sumé.wav", 'ré\\"sumé.wav')


def test_a_file_without_a_model_is_refused(home):
    """v1-api 86"""
    found = home.http.post("/v1/audio/transcriptions", files={"model": ("m", STT.encode()), "file": wav()})
    assert (found.status_code, found.json()["error"]["message"]) == (400, "model is required")
    found = home.http.post("/v1/audio/transcriptions", json={"model": STT})
    assert found.json()["error"]["message"] == "Content-Type must be multipart/form-data with a boundary"


# -- by Google


@pytest.fixture
def google(home):
    """``Gem/gemini-2.5-flash-preview-tts`` behind provider A's own address."""
    listed = {"name": "models/gemini-2.5-flash-preview-tts", "supportedGenerationMethods": ["generateContent"]}
    home.a.route("GET", "/v1beta/models", reply(200, {"models": [listed]}))
    body = {"name": "Gem", "base_url": f"{home.a.origin}/v1beta/openai", "provider_type": "google", "api_key": GOOG}
    made = home.admin("POST", "/api/providers", json=body).json()
    home.admin("POST", f"/api/providers/{made['id']}/discover")
    yield "/v1beta/models/gemini-2.5-flash-preview-tts:generateContent"
    home.admin("DELETE", f"/api/providers/{made['id']}")


def test_google_speaks_and_transcribes(home, google):
    """part of v1-api 89"""
    sample = {"inlineData": {"mimeType": "audio/L16;rate=24000", "data": base64.b64encode(b"\1\2" * 100).decode()}}
    home.a.route("POST", google, reply(200, {"candidates": [{"content": {"parts": [sample]}}]}))
    asked = {**SPOKEN, "model": "Gem/gemini-2.5-flash-preview-tts"}
    with wave.open(io.BytesIO(home.client.audio.speech.create(**asked, response_format="wav").content)) as spoken:
        assert (spoken.getframerate(), spoken.getnchannels(), spoken.getnframes()) == (24000, 1, 100)
    call = next(request for request in home.a.requests if request.path == google)
    assert call.headers["x-goog-api-key"] == GOOG and "authorization" not in call.headers
    with pytest.raises(openai.BadRequestError) as refused:
        home.client.audio.speech.create(**asked, response_format="mp3")
    assert "must be wav or pcm" in refused.value.body["message"] and refused.value.param == "response_format"
    home.a.route("POST", google, reply(200, {"candidates": [{"content": {"parts": [{"text": " hello "}]}}]}))
    found = home.client.audio.transcriptions.create(model=asked["model"], file=wav())
    assert found.text == "hello" and home.row()["endpoint_type"] == "stt"


# -- rerank


def test_documents_are_ranked_and_searches_paid(home, guest):
    model = next(
        m for m in home.admin("GET", "/api/models").json() if (m["model_id"], m["provider_name"]) == (RERANK, "Alpha")
    )
    home.admin("PATCH", f"/api/models/{model['id']}", json={"search_price_per_thousand": 2})
    home.a.script(scores(meta={"billed_units": {"search_units": 5}}))
    body = {"model": f"hotel/{RERANK}", "query": "q", "documents": ["a", "b"], "top_n": 2}
    found = home.http.post("/v1/rerank", json=body)
    assert [one["index"] for one in found.json()["results"]] == [1, 0]
    assert home.a.calls[0].json == {**body, "model": RERANK}
    row = home.row()
    assert (row["endpoint_type"], row["tokens_prompt"], row["cost_usd"]) == ("rerank", 0, pytest.approx(0.01))
    found = guest.post("/rerank", cast_to=dict, body=body)  # what the page Models shows
    assert len(found["results"]) == 2
    listed = {entry["id"]: entry for entry in home.http.get("/v1/models").json()["data"]}
    assert listed[f"Alpha/{RERANK}"]["search_price_per_thousand"] == 2


# -- what the page shows


def test_the_calls_of_the_page_work(home, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "endpoints.md").read_text()
    (calls,) = re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M)
    (script,) = re.findall(r"^```python\n(.*?)^```$", page, re.S | re.M)
    monkeypatch.chdir(tmp_path)
    env = {**os.environ, "HOTEL": home.product.url, "KEY": home.key, "no_proxy": "*"}
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", calls], env=env, capture_output=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "evening.mp3").read_bytes() == MP3
    ranked, rest = done.stdout.decode().split("}]}", 1)
    assert '"index": 1' in ranked and PNG in rest and rest.endswith('{"text": "hello there"}')
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(BYTES)
    names: dict[str, Any] = {}
    exec(script.replace("http://127.0.0.1:8080", home.product.url).replace("sk-...", home.key), names)
    names["client"].close()
    edit = next(call for call in home.a.calls if call.path == "/v1/images/edits")
    assert [part[1] for part in edit.parts if part[1]] == ["a.png", "b.png"]
