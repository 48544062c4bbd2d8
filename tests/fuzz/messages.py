"""One function per translator of the Messages dialect: any bytes in, and nothing but the declared refusals out.

A function raises where the translator does, where what it makes is no JSON, or where a stream that it writes does not
end as the dialect ends streams. Run by hand with as many inputs as there is time for.
"""

import contextlib
import json
from collections.abc import Callable

import msgspec

from proxy.body import BadBody
from proxy.dialects import callids, thoughtsig
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.messages import (
    count,
    egress,
    errors,
    has_document,
    ingress,
    lesson,
    native,
    reader,
    writer,
)
from proxy.stream.sse import Framer

_members = msgspec.json.Decoder(Members).decode


def _object(data: bytes) -> Members:
    """The members of *data* as the data plane has them: of valid UTF-8."""
    try:
        data.decode()
        return _members(data)
    except (ValueError, RecursionError):
        return {"messages": msgspec.Raw(msgspec.json.encode(data.decode("utf-8", "replace")))}


def request(data: bytes) -> None:
    with contextlib.suppress(BadBody):
        asked = ingress.parse(data)
        json.loads(msgspec.json.encode(callids.for_chat(asked.members, None, limit=40, signatures=False)))
        assert asked.own is not None
        native_request(data)
        with contextlib.suppress(Untranslatable):
            json.loads(egress.build(asked.members, model="m", stream=asked.stream))


def chat_request(data: bytes) -> None:
    chat = _object(data)
    for way in ("adaptive", "budget"):
        with contextlib.suppress(Untranslatable):
            json.loads(egress.build(chat, model="m", stream=True, thinking=way))
    has_document(chat)


def native_request(data: bytes) -> None:
    own = _object(data)
    json.loads(native.build(own, model="m"))
    assert count.input_tokens(own) >= 0


def answer(data: bytes) -> None:
    with contextlib.suppress(Untranslatable):
        json.loads(egress.to_chat(data, model="m"))
    native.read_answer(data)
    reader.classify(data)
    json.loads(reader.error_payload(data))


def chat_answer(data: bytes) -> None:
    with contextlib.suppress(Untranslatable):
        json.loads(writer.Writer({}).whole(data, "m"))


def stream(data: bytes) -> None:
    framer, one, seen = Framer(), reader.Reader("m"), native.Native()
    out = []
    for event in [*framer.feed(data), *framer.finish()]:
        seen.take(event)
        out += one.take(event)
    out += one.finish()
    for event in out:
        assert event.data in (None, b"[DONE]") or json.loads(event.data)
    _write(b"".join(event.raw for event in out))


def chat_stream(data: bytes) -> None:
    framer = Framer()
    _write(b"".join(event.raw for event in [*framer.feed(data), *framer.finish()]))


def _write(frames: bytes) -> None:
    one = writer.Writer({})
    one.begin("m")
    out = one.feed(frames) + one.end()
    events = [block.split(b"\n", 1) for block in out.split(b"\n\n")[:-1]]
    for name, data in events:
        assert name == b"event: " + json.loads(data.removeprefix(b"data: "))["type"].encode()
    assert events[-1][0] in (b"event: message_stop", b"event: error")


def error(data: bytes) -> None:
    dressed = json.loads(errors.dress(400, data))
    assert dressed["type"] == "error" and isinstance(dressed["error"]["message"], str)
    text = data.decode("utf-8", "replace")
    lesson(text)
    call_id, signature = thoughtsig.split(text)
    assert thoughtsig.join(call_id, signature) == text


ALL: tuple[Callable[[bytes], None], ...] = (
    request,
    chat_request,
    native_request,
    answer,
    chat_answer,
    stream,
    chat_stream,
    error,
)
