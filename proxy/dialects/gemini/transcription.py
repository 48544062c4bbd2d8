"""``/v1/audio/transcriptions`` as generateContent (v1-api 17.5). Pure."""

import math
import re
from collections.abc import Sequence

import msgspec

from proxy.dialects.base import Untranslatable
from proxy.dialects.gemini import audio
from proxy.dialects.gemini.audio import Media, Refusal

ANSWER_CAP = 4 * 1024 * 1024
"""Bytes of an answer."""
JSON, TEXT = "json", "text"
CONTENT_TYPES = {JSON: "application/json", TEXT: "text/plain; charset=utf-8"}
INSTRUCTION = (
    "Transcribe the speech in this audio verbatim, in the language it is spoken in. "
    "Answer with the transcript alone: no introduction, no comment, no time stamps, no names of speakers."
)
CONTEXT = "\n\nContext that may help with names and spelling; it is not part of the audio:\n"

#: Container -> the media type that Google takes it by.
_WAV, _MP3, _MP4, _AAC, _AIFF, _OGG, _FLAC, _WEBM = (
    "audio/wav",
    "audio/mp3",
    "audio/mp4",
    "audio/aac",
    "audio/aiff",
    "audio/ogg",
    "audio/flac",
    "audio/webm",
)
EXTENSIONS = {
    "wav": _WAV,
    "mp3": _MP3,
    "mpeg": _MP3,
    "mpga": _MP3,
    "m4a": _MP4,
    "mp4": _MP4,
    "aac": _AAC,
    "aiff": _AIFF,
    "aif": _AIFF,
    "ogg": _OGG,
    "oga": _OGG,
    "opus": _OGG,  # the codec's usual container
    "flac": _FLAC,
    "webm": _WEBM,
}
#: Content type without ``audio/`` or ``video/`` and ``x-`` -> the same, where the name is no extension.
_OTHER_NAMES = {"wave": _WAV, "vnd.wave": _WAV, "vnd.wav": _WAV, "mpeg3": _MP3}
_MEDIA_TYPE = re.compile(r"(?:audio|video|application)/(?:x-)?([a-z0-9.+-]+)")
_SEGMENTS = re.compile(r"[^a-z0-9]+")
_TRANSCRIBER = "transcribe"
_TRUE = frozenset(("true", "1"))

_encode = msgspec.json.Encoder().encode


class Field(msgspec.Struct, frozen=True):
    """One part of a multipart form; *filename* is None where it is no file, *content_type* None where unstated."""

    name: str
    data: bytes
    filename: str | None = None
    content_type: str | None = None


def check(form: Sequence[Field]) -> tuple[Field, str]:
    """The file and its media type. Raises Refusal."""
    file = next((field for field in form if field.name == "file"), None)
    if file is None or not file.data:
        raise Refusal("transcription request carries no audio", "file")
    media_type = container(file)
    if not media_type:
        raise Refusal(
            "cannot tell the audio container; name the file with its extension (wav, mp3, m4a, ogg, flac, webm)", "file"
        )
    response_format(form)
    if _text(form, "stream").lower() in _TRUE:
        text = "a transcription through generateContent is delivered whole; stream is not available"
        raise Refusal(text, "stream")
    return file, media_type


def build(form: Sequence[Field], *, model: str) -> bytes:
    """The body for ``:generateContent`` on *model*, the upstream's name. Raises Refusal."""
    file, media_type = check(form)
    parts: list[dict[str, object]] = [{"inlineData": {"mimeType": media_type, "data": file.data}}]
    if _TRANSCRIBER not in _SEGMENTS.split(model.lower()):
        prompt = _text(form, "prompt")
        parts.insert(0, {"text": INSTRUCTION + CONTEXT + prompt if prompt else INSTRUCTION})
    body: dict[str, object] = {"contents": [{"role": "user", "parts": parts}]}
    temperature = _number(_text(form, "temperature"))
    if temperature is not None:
        body["generationConfig"] = {"temperature": temperature}
    return _encode(body)


def response_format(form: Sequence[Field]) -> str:
    """:data:`JSON` or :data:`TEXT`. Raises Refusal."""
    wanted = _text(form, "response_format") or JSON
    if wanted in CONTENT_TYPES:
        return wanted
    raise Refusal(
        f"unsupported transcription response_format: {audio.quoted(wanted)}; a Gemini transcription carries no "
        "timestamps, so response_format must be json or text",
        "response_format",
    )


def container(file: Field) -> str:
    """The media type of *file* by its extension, else by its content type; empty where neither is known."""
    _, dot, extension = (file.filename or "").rpartition(".")
    if dot and (found := EXTENSIONS.get(extension.strip().lower())) is not None:
        return found
    stated = _MEDIA_TYPE.fullmatch((file.content_type or "").partition(";")[0].strip().lower())
    if stated is None:
        return ""
    return EXTENSIONS.get(stated[1]) or _OTHER_NAMES.get(stated[1], "")


def _text(form: Sequence[Field], name: str) -> str:
    """The first field of that name that is no file, trimmed; empty where there is none."""
    data = next((field.data for field in form if field.name == name and field.filename is None), b"")
    return data.decode("utf-8", "replace").strip()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def read(payload: bytes, wanted: str) -> Media:
    """The transcript in the *wanted* format. Raises Untranslatable, *blocked* where the audio was refused."""
    parts, usage = audio.read(payload, ANSWER_CAP)
    transcript = "".join(part.text for part in parts if isinstance(part.text, str)).strip()
    if not transcript:
        heard = (part.audio_transcription for part in parts)
        texts = (said.get("text") for said in heard if isinstance(said, dict))
        transcript = "".join(text for text in texts if isinstance(text, str)).strip()
    if not transcript:
        raise Untranslatable("gemini: the answer has no transcript", usage=usage)
    body = _encode({"text": transcript}) if wanted == JSON else transcript.encode()
    return Media(CONTENT_TYPES[wanted], body, usage)
