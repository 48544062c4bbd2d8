"""Chat streams and what stands around them, fed with any bytes: framer, probe, stream, recovery, every translation.

A function raises where the product does, where a cut changes what comes out, or where the client's stream is no stream
of its dialect. The first byte of an input says where it is cut.
"""

import json
from collections.abc import Callable, Sequence
from itertools import count

from proxy.dialects import gemini, messages, responses
from proxy.dialects.base import Reader, Watcher, Writer
from proxy.secrecy import Secrets
from proxy.stream import probe
from proxy.stream.answer import AnswerStream
from proxy.stream.chat import ChatStream
from proxy.stream.kept import Delivered, KeptStream
from proxy.stream.native import KeptNative
from proxy.stream.recovered import RecoveredStream
from proxy.stream.splice import Continuation, Repetition, Seam
from proxy.stream.sse import Event, Framer
from proxy.stream.translated import Translated
from proxy.usage import MAX_COUNT, Usage

KEY = "sk-upstream-0123456789"
SMALL_CAP = 64
BYTE_BY_BYTE = 8192
"""Bytes of the longest stream that is fed in single bytes."""
_STATE = ("chunks", "complete", "over", "done", "carries", "error", "usage", "size")


def cut(data: bytes) -> tuple[bytes, bytes]:
    at = data[0] * len(data) // 256 if data else 0
    return data[:at], data[at:]


# -- the framer


def _framed(pieces: Sequence[bytes], cap: int) -> tuple[list[tuple[bytes | None, bytes]], object, int]:
    framer = Framer(cap)
    found = [event for piece in pieces for event in framer.feed(piece)]
    found += framer.finish()
    return [(event.data, event.raw) for event in found], framer.fault, framer.lines


def frames(data: bytes) -> None:
    """Whole, in two pieces, byte by byte: the same events, and what comes out comes out the same again."""
    whole = _framed((data,), len(data) + 1)
    single = [data[at : at + 1] for at in range(len(data))] if len(data) <= BYTE_BY_BYTE else [data]
    for pieces in (cut(data), single):
        same = _framed(pieces, len(data) + 1)
        assert same[:2] == whole[:2]
        assert same[2] == whole[2] or whole[1] is not None
    events, fault, _ = whole
    out = b"".join(raw for _, raw in events)
    assert len(out) <= 2 * len(data) + 8 * len(events) + 8
    if fault is None:
        begun = b":\n\n"  # what comes behind may look like a byte-order mark
        again, _, _ = _framed((begun + out,), len(out) + len(begun))
        assert b"".join(raw for _, raw in again) == begun + out
        assert b"\r" not in out


def capped(data: bytes) -> None:
    """With a small cap: a fault at the same place however it was cut, and no payload over the cap."""
    whole = _framed((data,), SMALL_CAP)
    assert _framed(cut(data), SMALL_CAP)[:2] == whole[:2]
    assert all(payload is None or len(payload) <= SMALL_CAP for payload, _ in whole[0])


# -- the probe


def payload(data: bytes) -> None:
    assert probe.classify(data) in probe.Meaning
    status = probe.carried_status(data)
    assert status is None or 400 <= status <= 599


# -- streams


def _events(data: bytes) -> list[Event]:
    framer = Framer()
    return [*framer.feed(data), *framer.finish()]


def _relayed(make: Callable[[], AnswerStream], pieces: Sequence[bytes]) -> tuple[bytes, dict[str, object]]:
    """What the client gets, its last event included, and what the stream knows: as the relay works."""
    framer, stream = Framer(), make()
    out = []
    for piece in pieces:
        size = stream.repeated(piece) if framer.at_rest else 0
        if size:
            out.append(piece[:size])
            framer.passed(piece[:size].count(b"\n\n"))
        out.append(stream.take_all(framer.feed(piece[size:])))
        if stream.over:
            break
    else:
        out.append(stream.last(framer.finish()))
    state = {name: getattr(stream, name) for name in _STATE}
    if stream.error is not None:
        json.loads(stream.error)
        out.append(stream.held)
    elif stream.diverged() or not stream.complete:
        out.append(stream.error_frame(stream.truncated, "provider_error"))
    elif not stream.done:
        out.append(stream.end_mark())
    _check_usage(stream.usage)
    return b"".join(out), state


def _check_usage(usage: Usage | None) -> None:
    if usage is not None:
        counts = (usage.prompt, usage.completion, usage.reasoning, usage.cache_hit, usage.cache_miss)
        assert all(0 <= number <= MAX_COUNT for number in counts)


def _one_end(out: bytes, end: Callable[[Event], bool]) -> None:
    """Every event is whole; exactly one of them ends the stream, and it is the last with a payload."""
    events = [event for event in _events(out) if event.data is not None and event.data.strip()]
    ends = [end(event) for event in events]
    assert ends.count(True) == 1 and ends[-1], ends


def _ends_chat(event: Event) -> bool:
    assert event.data is not None
    if event.data.strip() == probe.DONE:
        return True
    try:
        frame = json.loads(event.data)
    except (ValueError, RecursionError):
        return False
    return isinstance(frame, dict) and bool(frame.get("error"))


def _ends_messages(event: Event) -> bool:
    assert event.data is not None
    kind = json.loads(event.data)["type"]
    assert event.rest == f"event: {kind}\n".encode()
    return kind in ("message_stop", "error")


def _ends_responses(event: Event) -> bool:
    assert event.data is not None
    kind = json.loads(event.data)["type"]
    assert event.rest == f"event: {kind}\n".encode()
    return kind in ("response.completed", "response.incomplete", "response.failed")


def _both(make: Callable[[], AnswerStream], data: bytes) -> bytes:
    """What comes out of *data*, whole and in two pieces the same."""
    out, state = _relayed(make, (data,))
    again, same = _relayed(make, cut(data))
    assert again == out
    assert same == state
    return out


def chat(data: bytes) -> None:
    """A chat stream, plain and with everything that changes chunks."""
    out = _both(lambda: ChatStream(Secrets("")), data)
    _one_end(out, _ends_chat)
    out = _both(lambda: ChatStream(Secrets(KEY), strip_reasoning=True, send_usage=True), data)
    _one_end(out, _ends_chat)
    assert KEY.encode() not in out


def kept(data: bytes) -> None:
    """What is kept of a stream is text, in two pieces the same, and never more than was delivered."""
    held = [Delivered(), Delivered()]
    for pieces, have in zip(((data,), cut(data)), held, strict=True):
        _relayed(lambda have=have: KeptStream(Secrets(""), have), pieces)
    assert held[0].text == held[1].text and held[0].unfinished == held[1].unfinished
    assert len(held[0].text) <= len(data)


def _seams(text: str) -> list[Seam]:
    return [Repetition(text), Continuation(text)]


def recovered(data: bytes) -> None:
    """The client's stream of a second candidate behind the text of a first one."""
    first, second = cut(data)
    for at in range(2):

        def make(at: int = at) -> AnswerStream:
            have = Delivered()
            _relayed(lambda: KeptStream(Secrets(""), have), (first,))
            return RecoveredStream(Secrets(""), have, _seams(have.text)[at], Usage(3, 4), send_usage=True)

        _both(make, second)


def splice(data: bytes) -> None:
    """Two texts, divided by NUL: joined, however the second was cut."""
    before, _, after = data.decode("utf-8", "replace").partition("\0")
    half = len(after) // 2
    for at in range(2):
        joined = []
        for pieces in ((after,), (after[:half], after[half:]), tuple(after)):
            seam = _seams(before)[at]
            joined.append(("".join([*map(seam.take, pieces), seam.end(), seam.end()]), seam.diverged))
        assert joined[0] == joined[1] == joined[2]
        assert len(joined[0][0]) <= len(after)


# -- every provider's dialect in front of every client's

READERS: dict[str, Callable[[], Reader | None]] = {
    "chat": lambda: None,
    "messages": lambda: messages.reader.Reader("m", new_id=_ids(), now=_zero),
    "gemini": lambda: gemini.reader.Reader("m", new_id=_ids(), now=_zero),
    "responses": lambda: responses.reader.Reader("m", new_id=_ids(), now=_zero),
}
WRITERS: dict[str, tuple[Callable[[], Writer | None], Callable[[Event], bool]]] = {
    "chat": (lambda: None, _ends_chat),
    "messages": (lambda: messages.writer.Writer({}, new_id=_ids()), _ends_messages),
    "responses": (lambda: responses.writer.Writer({}, new_id=_ids(), now=_zero), _ends_responses),
}


def _ids() -> Callable[[], str]:
    numbers = count()
    return lambda: f"{next(numbers):032x}"


def _zero() -> float:
    return 0.0


def translated(reader: str, writer: str) -> Callable[[bytes], None]:
    """The stream of a provider that speaks *reader* to a client that speaks *writer*."""
    begin, end = WRITERS[writer]

    def make() -> AnswerStream:
        write = begin()
        if write is not None:
            write.begin("m")
        return Translated(ChatStream(Secrets(KEY), send_usage=True), READERS[reader](), write)

    def target(data: bytes) -> None:
        out = _both(make, data)
        _one_end(out, end)
        if writer == "responses":
            events = [json.loads(event.data) for event in _events(out) if event.data is not None]
            assert [event["sequence_number"] for event in events] == list(range(len(events)))

    return target


WATCHERS: dict[str, tuple[Callable[[], Watcher], Callable[[bytes], bytes]]] = {
    "messages": (messages.native.Native, messages.reader.error_payload),
    "responses": (lambda: responses.native.Native(new_id=_ids(), now=_zero), responses.reader.error_payload),
}


def native(dialect: str) -> Callable[[bytes], None]:
    """A stream in the client's own dialect, which another candidate may have to finish."""
    watcher, told = WATCHERS[dialect]

    def make() -> AnswerStream:
        reader, write = READERS[dialect](), WRITERS[dialect][0]()
        assert reader is not None and write is not None
        write.begin("m")
        return KeptNative(watcher(), Secrets(KEY), told, reader=reader, writer=write)

    def target(data: bytes) -> None:
        assert KEY.encode() not in _both(make, data)

    return target
