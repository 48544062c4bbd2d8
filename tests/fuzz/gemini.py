"""The translators of the Gemini dialect, fed with any bytes: an exception that leaves one of these is a fault.

:data:`TARGETS` holds every function with inputs that are worth being changed.
"""

import contextlib
import json
from collections.abc import Callable

import msgspec

from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.chat import read_answer
from proxy.dialects.gemini import egress, reader, speech, transcription
from proxy.dialects.gemini.audio import Refusal
from proxy.dialects.gemini.reader import Reader
from proxy.dialects.gemini.transcription import Field
from proxy.stream import probe
from tests.fuzz import readers

_members = msgspec.json.Decoder(Members).decode


def _body(data: bytes) -> Members | None:
    """What the gate in front lets through."""
    try:
        data.decode()
        return _members(data)
    except (ValueError, RecursionError):
        return None


def request(data: bytes) -> None:
    """A chat body becomes a generateContent body with contents, or is refused."""
    chat = _body(data)
    if chat is None:
        return
    for modalities in ((), ("text",), ("text", "image")):
        egress.wants_native(chat, modalities)
    with contextlib.suppress(Untranslatable):
        assert json.loads(egress.build(chat, model="m", stream=True))["contents"]


def whole(data: bytes) -> None:
    """An answer becomes a chat completion that can be judged, or is none."""
    with contextlib.suppress(Untranslatable):
        assert read_answer(egress.to_chat(data, model="m")).verdict != "undecodable"


def stream(data: bytes) -> None:
    """A body in two pieces is the same as in one; an error is the last event; the chat stream takes every event."""
    readers.read(lambda: Reader("m", new_id=lambda: "id", now=lambda: 0.0), data)


def event(data: bytes) -> None:
    """One payload has a meaning, and an error in OpenAI's form if it is taken for one."""
    reader.classify(data)
    told = reader.error_payload(data)
    probe.carried_status(told)
    error = json.loads(told)["error"]
    assert isinstance(error["message"], str)
    assert error["code"] is None or isinstance(error["code"], str)


def speech_request(data: bytes) -> None:
    members = _body(data)
    if members is not None:
        with contextlib.suppress(Refusal):
            assert json.loads(speech.build(members))["contents"]
            assert speech.response_format(members) in (speech.WAV, speech.PCM)


def speech_answer(data: bytes) -> None:
    for wanted, header in ((speech.PCM, 0), (speech.WAV, speech.HEADER_BYTES)):
        with contextlib.suppress(Untranslatable):
            assert len(speech.read(data, wanted).body) > header


def transcription_request(data: bytes) -> None:
    """*data*: lines ``name NUL file name NUL content type NUL bytes``; a field without all of them is no file."""
    form = []
    for line in data.split(b"\n"):
        name, *rest = line.split(b"\0", 3)
        words = [word.decode("utf-8", "replace") for word in (name, *rest[:2])]
        form.append(Field(words[0], rest[2], words[1], words[2]) if len(rest) == 3 else Field(words[0], b"".join(rest)))
    with contextlib.suppress(Refusal):
        assert json.loads(transcription.build(form, model="m"))["contents"]


def transcription_answer(data: bytes) -> None:
    for wanted in transcription.CONTENT_TYPES:
        with contextlib.suppress(Untranslatable):
            assert transcription.read(data, wanted).body


CHAT = (
    b'{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"t"},'
    b'{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"file","file":{"file_data":'
    b'"data:text/plain,a%20b"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",'
    b'"function":{"name":"f","arguments":"{\\"a\\":1}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]},'
    b'{"role":"tool","tool_call_id":"c","content":"{}"}],"tools":[{"type":"function","function":{"name":"f",'
    b'"description":"d","parameters":{}}}],"tool_choice":"auto","max_tokens":5,"temperature":0.5,"stop":"x",'
    b'"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"reasoning_effort":"low",'
    b'"modalities":["text","image"]}'
)
ANSWER = (
    b'{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"a"},{"functionCall":{"name":"f",'
    b'"args":{"a":1.0}},"thoughtSignature":"c2ln"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},'
    b'{"inlineData":{"mimeType":"audio/L16;rate=8000","data":"QUJD"}},{"audioTranscription":{"text":"b"}}]},'
    b'"finishReason":"STOP"}],"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3,'
    b'"candidatesTokenCount":"4","thoughtsTokenCount":5.0,"totalTokenCount":12,"cachedContentTokenCount":1}}'
)
BLOCKED = b'{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}'
MALFORMED = b'{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}'
ERROR = (
    b'[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":'
    b'"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]'
)
PAYLOADS = (ANSWER, BLOCKED, MALFORMED, ERROR)
TARGETS: dict[Callable[[bytes], None], tuple[bytes, ...]] = {
    request: (CHAT,),
    whole: PAYLOADS,
    stream: (
        b"data: " + ANSWER + b"\n\n: c\n\ndata:" + ANSWER + b"\r\n\r\n",
        b"data: " + ANSWER + b"\n\ndata: " + BLOCKED + b"\n\ndata: [DONE]\n\n",
        b"data: " + ANSWER + b"\n\ndata: " + ERROR + b"\n\n",
        b"data: " + MALFORMED,
    ),
    event: (*PAYLOADS, b"[DONE]"),
    speech_request: (b'{"model":"m","input":"t","voice":"alloy","response_format":"pcm"}',),
    speech_answer: PAYLOADS,
    transcription_request: (
        b"file\0a.wav\0audio/wav\0RIFF\nprompt\0p\ntemperature\0000.5\nresponse_format\0text\nstream\0false",
    ),
    transcription_answer: PAYLOADS,
}
