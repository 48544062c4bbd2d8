"""``/v1/audio/speech`` as generateContent (v1-api 17.4). Pure."""

import binascii
import struct

import msgspec

from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.gemini import answer, audio
from proxy.dialects.gemini.audio import Media, Refusal

ANSWER_CAP = 32 * 1024 * 1024
"""Bytes of an answer, whose samples are base64."""
WAV, PCM = "wav", "pcm"
#: Samples per second.
DEFAULT_RATE, LOWEST_RATE, HIGHEST_RATE = 24_000, 8_000, 192_000
SAMPLE_BYTES = 2  # 16 bit, one channel
HEADER_BYTES = 44
_BEHIND_SIZE = HEADER_BYTES - 8  # of the RIFF chunk, whose size leaves its own head out
_FORMAT_BYTES, _IS_PCM, _CHANNELS = 16, 1, 1

DEFAULT_VOICE = "Kore"
#: OpenAI's names, and the voices that answer to them.
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
}

_encode = msgspec.json.Encoder().encode
_value = msgspec.json.Decoder().decode
_ERRORS = (ValueError, RecursionError)


def build(members: Members) -> bytes:
    """The body for ``:generateContent``. Raises Refusal."""
    text = _member(members, "input")
    if not isinstance(text, str) or not text.strip():
        raise Refusal("speech request carries no input", "input")
    response_format(members)
    voice = {"prebuiltVoiceConfig": {"voiceName": _voice(_member(members, "voice"))}}
    body = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "generationConfig": {"responseModalities": ["AUDIO"], "speechConfig": {"voiceConfig": voice}},
    }
    return _encode(body)


def response_format(members: Members) -> str:
    """:data:`WAV` or :data:`PCM`. Raises Refusal."""
    wanted = _member(members, "response_format")
    if wanted is None:
        return WAV
    if isinstance(wanted, str) and wanted in (WAV, PCM):
        return wanted
    raise Refusal(
        f"unsupported speech response_format: {audio.quoted(wanted)}; a Gemini TTS model produces PCM audio, "
        "so response_format must be wav or pcm",
        "response_format",
    )


def _member(members: Members, name: str) -> object:
    raw = members.get(name)
    try:
        return _value(raw) if raw is not None else None
    except _ERRORS:
        return False


def _voice(voice: object) -> str:
    if voice is None or voice == "":
        return DEFAULT_VOICE
    if not isinstance(voice, str):
        raise Refusal("unsupported speech voice: a Gemini voice has a name, so voice must be a string", "voice")
    return VOICES.get(voice.strip().lower(), voice)


def read(payload: bytes, wanted: str) -> Media:
    """The audio of an answer in the *wanted* format. Raises Untranslatable, *blocked* where the text was refused."""
    parts, usage = audio.read(payload, ANSWER_CAP)
    for part in parts:
        media_type, data = answer.blob(part)
        if not data or not media_type.lower().startswith("audio/"):
            continue
        try:
            samples = binascii.a2b_base64(data.encode(), strict_mode=True)
        except ValueError:
            raise Untranslatable("gemini: the audio is not base64", usage=usage) from None
        if samples:
            if wanted == PCM:
                return Media("audio/pcm", samples, usage)
            return Media("audio/wav", wav_header(len(samples), rate(media_type)) + samples, usage)
    raise Untranslatable("gemini: the answer has no audio", usage=usage)


def rate(media_type: str) -> int:
    """Samples per second, as the ``rate`` parameter says where it is plausible."""
    for parameter in media_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        digits = value.strip().strip('"')
        if name.strip().lower() == "rate" and digits.isascii() and digits.isdigit() and len(digits) <= 6:
            stated = int(digits)
            return stated if LOWEST_RATE <= stated <= HIGHEST_RATE else DEFAULT_RATE
    return DEFAULT_RATE


def wav_header(size: int, rate: int) -> bytes:
    """The 44 bytes before *size* bytes of 16-bit samples of one channel, little endian."""
    block = SAMPLE_BYTES * _CHANNELS
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        _BEHIND_SIZE + size,
        b"WAVE",
        b"fmt ",
        _FORMAT_BYTES,
        _IS_PCM,
        _CHANNELS,
        rate,
        rate * block,
        block,
        SAMPLE_BYTES * 8,
        b"data",
        size,
    )
