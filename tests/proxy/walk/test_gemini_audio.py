"""Speech and transcriptions by models that know them as generateContent only, and by others beside them."""

import base64
import json
from typing import Any

import pytest

from tests.proxy.walk.stage import Stage
from tests.upstream.media import MP3
from tests.upstream.server import FakeProvider, headers_then_silence, reply, sound, status, transcript

SPEECH, TRANSCRIPTIONS, TRANSLATIONS = "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations"
TTS = "gemini-2.5-flash-preview-tts"
PCM = bytes(range(8))
WAV = ("file", ("a.wav", b"RIFF" + bytes(range(256)), "audio/wav"))
USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 5, "totalTokenCount": 12}
UNDECODABLE = "the provider returned a response the gateway could not decode (provider A, upstream HTTP 200)"


def generated(*parts: dict[str, Any], usage: Any = None) -> Any:
    body: dict[str, Any] = {"candidates": [{"content": {"parts": list(parts)}, "finishReason": "STOP"}]}
    if usage is not None:
        body["usageMetadata"] = usage
    return reply(200, body)


def audio_part(data: bytes = PCM) -> dict[str, Any]:
    return {"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=16000", "data": base64.b64encode(data).decode()}}


class Google:
    """Provider A is Google AI Studio, B speaks OpenAI's dialect."""

    def __init__(self, stage: Stage, a: FakeProvider) -> None:
        self.stage, self.a = stage, a
        self.path = f"/v1beta/models/{TTS}:generateContent"
        self.stage.member(
            "A", f"{a.origin}/v1beta/openai", model=TTS, kind="google", key="AIza-0123456789abcdefghijklmnopqrstuv"
        )

    def script(self, behaviour: Any) -> None:
        self.a.route("POST", self.path, behaviour)

    @property
    def asked(self) -> list[Any]:
        return [request for request in self.a.requests if request.path == self.path]


@pytest.fixture
def google(stage: Stage, provider_a: FakeProvider, provider_b: FakeProvider) -> Google:
    made = Google(stage, provider_a)
    stage.member("B", provider_b.url, model="tts-1")
    return made


# -- speech


@pytest.mark.parametrize(
    ("wanted", "content_type"), [({}, "audio/wav"), ({"response_format": "pcm"}, "audio/pcm")], ids=str
)
async def test_speech_is_generated(google: Google, wanted: dict[str, str], content_type: str):
    google.script(generated(audio_part(), usage=USAGE))
    got = await google.stage.post(SPEECH, input="Hello", voice="nova", **wanted)
    assert (got.status, got.header("content-type"), got.header("content-length")) == (
        200,
        content_type,
        str(len(got.body)),
    )
    assert got.body[-8:] == PCM and len(got.body) == (8 if wanted else 52)
    (call,) = google.asked
    assert call.headers["x-goog-api-key"].startswith("AIza-") and "authorization" not in call.headers
    voice = call.json["generationConfig"]["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"]
    assert (call.json["contents"][0]["parts"], voice) == ([{"text": "Hello"}], "Leda")
    row = google.stage.row
    assert (row.endpoint_type, row.tokens_prompt, row.tokens_completion, row.state) == ("tts", 7, 5, "completed")
    assert google.stage.trail == [(0, "A", 200, None, "success")]


async def test_mp3_is_left_to_who_can_do_it(google: Google, provider_b: FakeProvider):
    """v1-api 89"""
    got = await google.stage.post(SPEECH, input="Hello", response_format="mp3")
    assert (got.status, got.body) == (200, MP3)
    assert google.a.requests == [] and len(provider_b.calls) == 1
    assert got.header("x-modelhotel-attempts") == "1"
    assert google.stage.trail == [(-1, "A", None, None, "skipped"), (0, "B", 200, None, "success")]
    assert "wav or pcm" in (google.stage.row.attempts or [{}])[0]["detail"]
    assert google.stage.waits == []


async def test_mp3_from_nobody_but_google_is_refused(google: Google):
    """v1-api 89"""
    got = await google.stage.post(SPEECH, f"A/{TTS}", input="Hello", response_format="mp3")
    assert got.said == (
        400,
        'unsupported speech response_format: "mp3"; a Gemini TTS model produces PCM audio, '
        "so response_format must be wav or pcm",
    )
    assert (got.error["code"], got.error["param"], got.error["type"]) == (
        "invalid_value",
        "response_format",
        "invalid_request_error",
    )
    row = google.stage.row
    assert (row.status_code, row.error_kind, row.state) == (400, "validation", "failed")
    assert google.stage.trail == [(-1, "A", None, None, "skipped")]
    assert google.a.requests == [] and google.stage.fails("A", TTS) == 0


async def test_where_all_refuse_the_last_reason_counts(stage: Stage, provider_a: FakeProvider):
    Google(stage, provider_a)
    stage.member("V", provider_a.origin, model="gemini-tts", kind="vertex-express")
    got = await stage.post(SPEECH, input=" ")
    assert got.said == (400, "speech request carries no input") and got.error["param"] == "input"
    assert [entry[:2] for entry in stage.trail] == [(-1, "A"), (-1, "V")]


async def test_vertex_is_asked_at_its_own_address(stage: Stage, provider_a: FakeProvider):
    stage.member("V", provider_a.origin, model=TTS, kind="vertex-express", key="AIza-0123456789abcdefghijklmnopqrstuv")
    provider_a.route("POST", f"/v1/publishers/google/models/{TTS}:generateContent", generated(audio_part()))
    assert (await stage.post(SPEECH, input="Hello")).status == 200
    assert stage.trail == [(0, "V", 200, None, "success")]
    assert stage.charged == 2  # estimated of the input


async def test_a_model_that_makes_no_sound_is_asked_as_the_client_asked(stage: Stage, provider_a: FakeProvider):
    stage.member("A", f"{provider_a.origin}/v1beta/openai", model="m", kind="google", outputs=("text",))
    provider_a.script(sound())
    assert (await stage.post(SPEECH, input="Hello", response_format="mp3")).body == MP3
    assert provider_a.calls[0].path == "/v1beta/openai/audio/speech"


@pytest.mark.parametrize(
    "behaviour",
    [
        generated({"text": "I would rather not"}),
        generated(),
        reply(200, b"<html>", content_type="text/html"),
        reply(200, {"candidates": [{"content": {"parts": [audio_part()]}}]}, headers={"Content-Encoding": "gzip"}),
    ],
)
async def test_an_answer_without_sound_fails_over(google: Google, behaviour: Any):
    google.script(behaviour)
    got = await google.stage.post(SPEECH, input="Hello", response_format="wav")
    assert got.body == MP3
    assert google.stage.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]
    got = await google.stage.post(SPEECH, f"A/{TTS}", input="Hello")
    assert got.said == (502, UNDECODABLE)


async def test_a_text_that_was_refused_is_nobodys_fault(google: Google):
    google.script(reply(200, {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}))
    assert (await google.stage.post(SPEECH, input="Hello", response_format="wav")).body == MP3
    assert google.stage.trail[0][:4] == (0, "A", 200, "provider_error") and google.stage.fails("A", TTS) == 0
    got = await google.stage.post(SPEECH, f"A/{TTS}", input="Hello")
    assert got.said == (502, "prompt blocked: SAFETY (provider A, upstream HTTP 200)")
    assert google.stage.row.tokens_prompt == 9


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (reply(200, b""), "upstream produced no response data"),
        (reply(200, b'{"candi', length=500, close=True), "failed to read upstream response"),
        (reply(200, b"", length=500, close=True), "upstream produced no response data"),
    ],
)
async def test_an_answer_that_ends_too_early_fails_over(google: Google, behaviour: Any, message: str):
    google.script(behaviour)
    assert (await google.stage.post(SPEECH, input="Hello", response_format="wav")).body == MP3
    got = await google.stage.post(SPEECH, f"A/{TTS}", input="Hello")
    assert got.said == (502, message)


async def test_an_answer_over_its_limit_fails_over(google: Google, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("proxy.gemini_audio.Speech.cap", 100)
    google.script(generated(audio_part(b"x" * 100)))
    assert (await google.stage.post(SPEECH, input="Hello", response_format="wav")).body == MP3
    assert google.stage.trail[0][3:] == ("provider_error", "charge")


async def test_an_answer_that_does_not_come_fails_over(google: Google):
    google.stage.set(request_timeout="50ms")
    google.script(headers_then_silence(stream=False))
    assert (await google.stage.post(SPEECH, input="Hello", response_format="wav")).body == MP3
    assert google.stage.trail[0] == (0, "A", 200, "provider_timeout", "charge")


async def test_a_status_fails_over_as_everywhere(google: Google):
    google.script(status(503))
    assert (await google.stage.post(SPEECH, input="Hello", response_format="wav")).body == MP3
    assert [entry[:3] for entry in google.stage.trail] == [(0, "A", 503), (1, "B", 200)]


async def test_an_error_is_told_in_the_clients_dialect(google: Google):
    google.script(status(400, [{"error": {"code": 400, "message": "no such voice", "status": "INVALID_ARGUMENT"}}]))
    got = await google.stage.post(SPEECH, f"A/{TTS}", input="Hello")
    assert got.said == (400, "no such voice")
    assert (got.error["type"], got.error["code"]) == ("invalid_request_error", "provider_error")


# -- transcriptions


@pytest.mark.parametrize(
    ("fields", "content_type", "body"),
    [
        ([], "application/json", b'{"text":"hello"}'),
        ([("response_format", "json")], "application/json", b'{"text":"hello"}'),
        ([("response_format", "text")], "text/plain; charset=utf-8", b"hello"),
    ],
    ids=str,
)
async def test_a_transcript_is_generated(google: Google, fields: Any, content_type: str, body: bytes):
    google.script(generated({"text": " hello \n"}, usage=USAGE))
    got = await google.stage.upload(TRANSCRIPTIONS, WAV, *fields, ("prompt", "Names: Ada"), ("language", "en"))
    assert (got.status, got.header("content-type"), got.body) == (200, content_type, body)
    (call,) = google.asked
    first, second = call.json["contents"][0]["parts"]
    assert first["text"].endswith("Names: Ada")
    assert base64.b64decode(second["inlineData"]["data"]) == WAV[1][1]
    assert second["inlineData"]["mimeType"] == "audio/wav"
    row = google.stage.row
    assert (row.endpoint_type, row.tokens_prompt, row.tokens_completion) == ("stt", 7, 5)


@pytest.mark.parametrize(
    ("fields", "message", "param"),
    [
        (
            [WAV, ("response_format", "srt")],
            'unsupported transcription response_format: "srt"; a Gemini transcription carries no timestamps, '
            "so response_format must be json or text",
            "response_format",
        ),
        (
            [WAV, ("stream", "true")],
            "a transcription through generateContent is delivered whole; stream is not available",
            "stream",
        ),
        ([], "transcription request carries no audio", "file"),
        ([("file", ("a.wav", b"", "audio/wav"))], "transcription request carries no audio", "file"),
        (
            [("file", ("a", b"x", "application/octet-stream"))],
            "cannot tell the audio container; name the file with its extension (wav, mp3, m4a, ogg, flac, webm)",
            "file",
        ),
    ],
    ids=str,
)
async def test_what_can_not_be_transcribed_as_asked(
    google: Google, provider_b: FakeProvider, fields: Any, message: str, param: str
):
    got = await google.stage.upload(TRANSCRIPTIONS, *fields, model=f"A/{TTS}")
    assert got.said == (400, message) and (got.error["param"], got.error["code"]) == (param, "invalid_value")
    assert google.stage.row.error_kind == "validation" and google.a.requests == []
    provider_b.script(transcript())
    assert (await google.stage.upload(TRANSCRIPTIONS, *fields)).status == 200
    assert google.stage.trail == [(-1, "A", None, None, "skipped"), (0, "B", 200, None, "success")]


async def test_silence_fails_over(google: Google):
    google.script(generated({"text": " \n"}))
    assert (await google.stage.upload(TRANSCRIPTIONS, WAV)).json == {"text": "hello there"}
    assert google.stage.trail == [(0, "A", 200, "provider_error", "charge"), (1, "B", 200, None, "success")]


async def test_the_candidates_key_does_not_come_back(google: Google):
    google.script(generated({"text": "AIza-0123456789abcdefghijklmnopqrstuv"}))
    assert (await google.stage.upload(TRANSCRIPTIONS, WAV)).json == {"text": "[redacted]"}


async def test_a_translation_is_passed_through(google: Google):
    google.a.script(transcript("hello"))
    assert (await google.stage.upload(TRANSLATIONS, WAV)).json == {"text": "hello"}
    assert google.a.calls[0].path == "/v1beta/openai/audio/translations" and google.asked == []


async def test_a_model_that_hears_nothing_is_asked_as_the_client_asked(stage: Stage, provider_a: FakeProvider):
    stage.member("A", f"{provider_a.origin}/v1beta/openai", model="m", kind="google", inputs=("text",))
    provider_a.script(transcript("hello"))
    assert (await stage.upload(TRANSCRIPTIONS, WAV, ("response_format", "srt"))).status == 200
    assert provider_a.calls[0].path == "/v1beta/openai/audio/transcriptions"


async def test_nothing_of_an_answer_is_kept(google: Google):
    google.script(generated({"text": "the secret of the house"}))
    await google.stage.post(SPEECH, f"A/{TTS}", input="Hello")
    row = google.stage.row
    assert "secret" not in json.dumps([row.error_message, row.attempts])
