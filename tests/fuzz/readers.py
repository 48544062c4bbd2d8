"""How a stream reader of any dialect is held to account."""

import json
from collections.abc import Callable

from proxy.dialects.base import Reader
from proxy.secrecy import Secrets
from proxy.stream import probe
from proxy.stream.chat import ChatStream
from proxy.stream.sse import Event, Framer


def _read(make: Callable[[], Reader], *pieces: bytes) -> list[Event]:
    framer, translated = Framer(), make()
    found = [out for piece in pieces for event in framer.feed(piece) for out in translated.take(event)]
    return found + [out for event in framer.finish() for out in translated.take(event)] + translated.finish()


def read(make: Callable[[], Reader], data: bytes) -> None:
    """A body in two pieces is the same as in one; an error is the last event; the chat stream takes every event.

    *make*: a reader whose ids and clock stand still.
    """
    cut = data[0] * len(data) // 256 if data else 0
    found = _read(make, data)
    assert [event.raw for event in _read(make, data[:cut], data[cut:])] == [event.raw for event in found]
    frames = [json.loads(event.data) for event in found if event.data not in (None, probe.DONE)]
    assert all("error" not in frame for frame in frames[:-1])
    behind = ChatStream(Secrets(""))
    behind.take_all(found)
    assert not behind.unmodelled
