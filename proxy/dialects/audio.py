"""OpenAI audio: speech, transcriptions, translations, as far as their answers are JSON. Pure."""

import msgspec

from proxy.body import Asked
from proxy.dialects import passed
from proxy.dialects.base import Judged, Members

_SSE = b'"sse"'


class _Answer(msgspec.Struct):
    usage: object = None
    error: object = None


_decode = msgspec.json.Decoder(_Answer | list[msgspec.Raw]).decode


def parse_speech(raw: bytes) -> Asked:
    """As for every endpoint; speech is streamed as events where ``stream_format`` says so. Raises BadBody."""
    asked = passed.streamed(raw)
    if asked.stream or not _wants_events(asked.members):
        return asked
    return msgspec.structs.replace(asked, stream=True)


def _wants_events(members: Members) -> bool:
    return bytes(members.get("stream_format", b"")) == _SSE


def read_answer(payload: bytes) -> Judged:
    """Judge the body of a 2xx that is JSON: a transcript may be empty, an error is none."""
    try:
        found = _decode(payload.removeprefix(passed.BOM))
    except (ValueError, RecursionError) as problem:
        return passed.undecodable(problem)
    if isinstance(found, list):
        return passed.judged(payload, None, results=True)
    if found.error:
        return passed.undecodable("an error instead of an answer")
    return passed.judged(payload, passed.read_usage(found.usage), results=True)
