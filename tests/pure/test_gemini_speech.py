"""Speech and transcription through generateContent (v1-api 17.4, 17.5): requests, refusals, answers."""

import base64
import contextlib
import io
import json
import wave

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.base import Untranslatable
from proxy.dialects.gemini import audio, speech, transcription
from proxy.dialects.gemini.audio import Media, Refusal
from proxy.dialects.gemini.transcription import Field
from proxy.usage import Usage

PCM = bytes(range(8))


def members_of(body):
    return msgspec.json.decode(json.dumps(body), type=dict[str, msgspec.Raw])


def answered(*parts, **more):
    return json.dumps({"candidates": [{"content": {"parts": list(parts)}, "finishReason": "STOP"}], **more}).encode()


def blob(media_type="audio/L16;codec=pcm;rate=24000", data=PCM):
    return {"inlineData": {"mimeType": media_type, "data": base64.b64encode(data).decode()}}


# -- speech: the request


def voice_of(**members):
    body = json.loads(speech.build(members_of({"model": "m", "input": "hi", **members})))
    return body["generationConfig"]["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"]


def test_a_speech_request_is_its_text_and_a_voice():
    asked = {"model": "m", "input": " Hi ", "voice": "Nova", "speed": 2, "instructions": "x", "stream_format": "sse"}
    assert json.loads(speech.build(members_of(asked))) == {
        "contents": [{"role": "user", "parts": [{"text": " Hi "}]}],
        "generationConfig": {
            "responseModalities": ["AUDIO"],
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Leda"}}},
        },
    }


VOICES = {
    "alloy": "Kore",
    "ash": "Orus",
    "ballad": "Enceladus",
    "coral": "Autonoe",
    "echo": "Puck",
    "fable": "Aoede",
    "onyx": "Charon",
    "nova": "Leda",
    "sage": "Callirrhoe",
    "shimmer": "Zephyr",
    "verse": "Fenrir",
    "cedar": "Iapetus",
    "marin": "Despina",
    "Sulafat": "Sulafat",
}


@pytest.mark.parametrize(("name", "voice"), VOICES.items())
def test_voices(name, voice):
    assert voice_of(voice=name) == voice
    assert voice_of(voice=name.upper()) == (voice if name in speech.VOICES else name.upper())


def test_without_a_voice_it_is_kore():
    assert voice_of() == voice_of(voice=None) == voice_of(voice="") == "Kore"


@pytest.mark.parametrize(("stated", "wanted"), [({}, "wav"), (None, "wav"), ("wav", "wav"), ("pcm", "pcm")])
def test_speech_formats(stated, wanted):
    members = members_of({"input": "hi"} if stated == {} else {"input": "hi", "response_format": stated})
    speech.build(members)
    assert speech.response_format(members) == wanted


REFUSED = [
    ({"response_format": "mp3"}, '"mp3"'),
    ({"response_format": "WAV"}, '"WAV"'),
    ({"response_format": 5}, "5"),
    ({"response_format": "x" * 500}, '"' + "x" * 63 + "…"),
]


@pytest.mark.parametrize(("members", "quoted"), REFUSED)
def test_a_format_that_a_model_does_not_produce_is_refused(members, quoted):
    """part of v1-api 89"""
    with pytest.raises(Refusal) as refused:
        speech.build(members_of({"input": "hi", **members}))
    assert str(refused.value) == (
        f"unsupported speech response_format: {quoted}; a Gemini TTS model produces PCM audio, "
        "so response_format must be wav or pcm"
    )


@pytest.mark.parametrize("text", [{}, {"input": None}, {"input": ""}, {"input": " \n"}, {"input": ["hi"]}])
def test_a_speech_request_without_text_is_refused(text):
    with pytest.raises(Refusal, match=r"^speech request carries no input$"):
        speech.build(members_of({"model": "m", **text}))


def test_a_voice_without_a_name_is_refused():
    with pytest.raises(Refusal, match="voice must be a string"):
        voice_of(voice={"id": "voice_1"})


# -- speech: the answer


def test_wav_is_what_a_player_takes():
    usage = {"promptTokenCount": 4, "candidatesTokenCount": 30, "totalTokenCount": 34}
    found = speech.read(answered({"text": "x"}, blob("audio/L16; rate=16000"), usageMetadata=usage), "wav")
    assert (found.content_type, found.usage, len(found.body)) == ("audio/wav", Usage(4, 30), 44 + len(PCM))
    with wave.open(io.BytesIO(found.body)) as sound:
        assert sound.getparams()[:4] == (1, 2, 16000, len(PCM) // 2)
        assert sound.readframes(9) == PCM


def test_pcm_is_the_samples_alone():
    assert speech.read(answered(blob(), blob(data=b"later")), "pcm") == Media("audio/pcm", PCM, None)


RATES = [
    ("audio/L16;codec=pcm;rate=24000", 24000),
    ("audio/l16; RATE = 8000", 8000),
    ('audio/pcm;rate="192000"', 192000),
    ("audio/pcm", 24000),
    ("audio/pcm;rate=7999", 24000),
    ("audio/pcm;rate=192001", 24000),
    ("audio/pcm;rate=fast", 24000),
    ("audio/pcm;rate=", 24000),
    ("audio/pcm;rate=²²²²²", 24000),
    ("audio/pcm;bitrate=8000", 24000),
]


@pytest.mark.parametrize(("media_type", "rate"), RATES)
def test_the_rate_is_the_parts(media_type, rate):
    assert speech.rate(media_type) == rate


SILENT = [
    answered(),
    answered({"text": "I can not say that"}),
    answered({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
    answered({"inlineData": {"mimeType": "audio/L16", "data": ""}}),
    answered({"inlineData": {"mimeType": "audio/L16", "data": "no base64!"}}),
    answered({**blob(), "thought": True}),
    b'{"candidates":[]}',
    b"garbage",
]


def test_an_answer_without_media_says_what_it_cost():
    usage = {"promptTokenCount": 9}
    broken = {"inlineData": {"mimeType": "audio/L16", "data": "no base64!"}}
    for read in (lambda body: speech.read(body, "wav"), lambda body: transcription.read(body, "json")):
        for parts in ((), (broken,)):
            with pytest.raises(Untranslatable) as refused:
                read(answered(*parts, usageMetadata=usage))
            assert refused.value.usage == Usage(prompt=9)


@pytest.mark.parametrize("payload", SILENT)
def test_an_answer_without_audio_is_none(payload):
    with pytest.raises(Untranslatable) as refused:
        speech.read(payload, "wav")
    assert not refused.value.blocked
    assert not isinstance(refused.value, Refusal)


def test_a_blocked_text_is_not_the_providers_fault():
    for read in (lambda body: speech.read(body, "wav"), lambda body: transcription.read(body, "json")):
        with pytest.raises(Untranslatable, match=r"^prompt blocked: OTHER$") as refused:
            read(b'{"promptFeedback":{"blockReason":"OTHER"}}')
        assert refused.value.blocked


def test_an_answer_that_is_too_large_is_none(monkeypatch):
    monkeypatch.setattr(speech, "ANSWER_CAP", 10)
    monkeypatch.setattr(transcription, "ANSWER_CAP", 10)
    for read in (lambda body: speech.read(body, "wav"), lambda body: transcription.read(body, "json")):
        with pytest.raises(Untranslatable, match="larger than the gateway will read"):
            read(answered(blob(), {"text": "x"}))


def test_the_caps_are_those_of_the_specification():
    assert (speech.ANSWER_CAP, transcription.ANSWER_CAP) == (32 * 1024 * 1024, 4 * 1024 * 1024)


# -- transcription: the request

FILE = Field("file", b"RIFF", "talk.WAV", "application/octet-stream")


def field(name, value):
    return Field(name, value.encode())


def asked(*form, model="gemini-2.5-flash"):
    return json.loads(transcription.build([FILE, *form], model=model))


def test_a_transcription_request_is_the_audio_and_what_to_do_with_it():
    assert asked(field("language", "de"), field("timestamp_granularities[]", "word"), field("stream", "false")) == {
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": transcription.INSTRUCTION},
                    {"inlineData": {"mimeType": "audio/wav", "data": "UklGRg=="}},
                ],
            }
        ]
    }


def test_a_prompt_is_context():
    (text, _) = asked(field("prompt", " Hotel Adlon "))["contents"][0]["parts"]
    assert text == {"text": transcription.INSTRUCTION + transcription.CONTEXT + "Hotel Adlon"}


MODELS = [("gemini-3-transcribe", 1), ("models/Transcribe-preview", 1), ("gemini-transcriber", 2), ("gemini-2.5", 2)]


@pytest.mark.parametrize(("model", "parts"), MODELS)
def test_a_model_that_only_transcribes_gets_the_audio_alone(model, parts):
    assert len(asked(field("prompt", "x"), model=model)["contents"][0]["parts"]) == parts


@pytest.mark.parametrize(
    ("text", "config"),
    [("0.2", {"temperature": 0.2}), (" 1 ", {"temperature": 1}), ("warm", None), ("", None), ("nan", None)],
)
def test_a_temperature_is_a_number(text, config):
    assert asked(field("temperature", text)).get("generationConfig") == config


CONTAINERS = [
    ("a.wav", None, "audio/wav"),
    ("a.mp3", None, "audio/mp3"),
    ("a.mpeg", None, "audio/mp3"),
    ("a.mpga", None, "audio/mp3"),
    ("a.m4a", None, "audio/mp4"),
    ("a.mp4", None, "audio/mp4"),
    ("a.aac", None, "audio/aac"),
    ("a.aiff", None, "audio/aiff"),
    ("a.aif", None, "audio/aiff"),
    ("a.ogg", None, "audio/ogg"),
    ("a.oga", None, "audio/ogg"),
    ("a.opus", None, "audio/ogg"),
    ("a.b.FLAC", "audio/wav", "audio/flac"),
    ("a.webm", "video/webm", "audio/webm"),
    ("blob", "audio/webm;codecs=opus", "audio/webm"),
    ("a.bin", "audio/x-wav", "audio/wav"),
    ("a.bin", "Audio/MPEG", "audio/mp3"),
    (None, "audio/vnd.wave", "audio/wav"),
    (None, "audio/x-m4a", "audio/mp4"),
    (None, "video/mp4", "audio/mp4"),
    (None, "application/ogg", "audio/ogg"),
    ("a.txt", "text/plain", ""),
    ("wav", None, ""),
    ("a.bin", "application/octet-stream", ""),
    (None, None, ""),
]


@pytest.mark.parametrize(("filename", "content_type", "container"), CONTAINERS)
def test_the_container_is_told_by_name_then_by_type(filename, content_type, container):
    assert transcription.container(Field("file", b"x", filename, content_type)) == container


SRT = (
    'unsupported transcription response_format: "srt"; a Gemini transcription carries no timestamps, '
    "so response_format must be json or text"
)
UNSERVED = [
    ([], "transcription request carries no audio"),
    ([Field("file", b"", "a.wav")], "transcription request carries no audio"),
    (
        [Field("file", b"x", "a.txt")],
        "cannot tell the audio container; name the file with its extension (wav, mp3, m4a, ogg, flac, webm)",
    ),
    ([FILE, field("response_format", "srt")], SRT),
    (
        [FILE, field("stream", "True")],
        "a transcription through generateContent is delivered whole; stream is not available",
    ),
]


@pytest.mark.parametrize(("form", "text"), UNSERVED)
def test_what_a_transcription_can_not_be_is_refused(form, text):
    with pytest.raises(Refusal) as refused:
        transcription.build(form, model="m")
    assert str(refused.value) == text


@pytest.mark.parametrize(("form", "wanted"), [([], "json"), (["json"], "json"), (["text"], "text"), ([" "], "json")])
def test_transcription_formats(form, wanted):
    assert transcription.response_format([field("response_format", value) for value in form]) == wanted


def test_a_field_with_a_file_name_is_no_setting():
    named = Field("response_format", b"srt", "a.srt")
    assert transcription.response_format([named]) == "json"


# -- transcription: the answer


def test_a_transcript_is_trimmed_and_metered():
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 5}
    payload = answered({"text": "hm", "thought": True}, {"text": " Guten "}, {"text": "Tag\n"}, usageMetadata=usage)
    assert transcription.read(payload, "json") == Media("application/json", b'{"text":"Guten Tag"}', Usage(100, 5))
    assert transcription.read(payload, "text") == Media("text/plain; charset=utf-8", b"Guten Tag", Usage(100, 5))


def test_a_transcript_may_stand_beside_the_text():
    payload = answered({"text": " "}, {"audioTranscription": {"text": "Guten Tag"}}, {"audioTranscription": 5})
    assert transcription.read(payload, "text").body == b"Guten Tag"


@pytest.mark.parametrize(
    "payload", [answered(), answered({"text": " "}), answered(blob()), b"[]", b'{"candidates":[]}']
)
def test_no_transcript_is_no_answer(payload):
    with pytest.raises(Untranslatable):
        transcription.read(payload, "json")


# -- nothing but what is declared


@settings(max_examples=40)
@given(st.binary(max_size=60) | st.text("ä/;=a\n", max_size=20).map(lambda text: answered({"text": text}, blob(text))))
def test_any_answer_is_read_or_refused(payload):
    for read in (
        lambda: speech.read(payload, "wav"),
        lambda: transcription.read(payload, "json"),
    ):
        with contextlib.suppress(Untranslatable):
            assert read().body


SCALARS = st.sampled_from([None, True, 5, "", "x", "alloy", "wav", " ", [1], {}, "ä" * 99])


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(["input", "voice", "response_format"]), SCALARS))
def test_any_speech_request_is_built_or_refused(members):
    try:
        assert json.loads(speech.build(members_of(members)))["contents"]
    except Refusal as refusal:
        assert len(str(refusal)) < 300


FIELDS = st.builds(
    Field,
    st.sampled_from(["file", "response_format", "stream", "temperature", "prompt"]),
    st.binary(max_size=5),
    st.sampled_from([None, "", "ä", ".", "a.wav", "a.x"]),
    st.sampled_from([None, "", "/", "audio/", "audio/wav", "ä"]),
)


@settings(max_examples=40)
@given(st.lists(FIELDS, max_size=5))
def test_any_form_is_built_or_refused(form):
    try:
        assert json.loads(transcription.build(form, model="m"))["contents"]
    except Refusal as refusal:
        assert len(str(refusal)) < 300


def test_a_quoted_word_is_json_and_short():
    assert audio.quoted('a"b') == '"a\\"b"'
    assert len(audio.quoted("x" * 999)) == audio.QUOTED_LIMIT + 1
