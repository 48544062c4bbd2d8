"""The first-token probe: read a 2xx stream until it shows model output, before the client sees a byte (10)."""

from dataclasses import dataclass
from enum import StrEnum

from providers.upstream.interface import Response
from proxy.secrecy import Secrets
from proxy.stream import probe
from proxy.stream.chat import ChatStream
from proxy.stream.probe import Meaning
from proxy.stream.sse import Event, Framer


class Outcome(StrEnum):
    OUTPUT = "output"  # commit
    EMPTY_ANSWER = "empty answer"  # it ended, complete, without output: commit too
    ERROR = "error"  # the first meaningful event is an error
    NOTHING = "nothing"  # it ended without any frame
    STOPPED = "stopped"  # it ended behind openers, incomplete
    FAULT = "fault"  # a line over the cap, or too many blank lines


@dataclass(slots=True)
class Found:
    """*held* is everything that was read. *payload* is the error frame of ERROR; *done*: a ``[DONE]`` ended it."""

    outcome: Outcome
    held: list[Event]
    payload: bytes = b""
    done: bool = False


async def look(response: Response, framer: Framer) -> Found:
    """Read until the matter is decided. Raises UpstreamError; the caller set the deadline."""
    held: list[Event] = []
    frames = 0
    while True:
        data = await response.chunk()
        events = framer.feed(data) if data else framer.finish()
        held += events
        for event in events:
            if event.data is None:
                continue
            meaning = probe.classify(event.data)
            if meaning is Meaning.OUTPUT:
                return Found(Outcome.OUTPUT, held)
            if meaning is Meaning.ERROR:
                return Found(Outcome.ERROR, held, event.data)
            if meaning is Meaning.END:
                return Found(_ended(held, frames), held, done=True)
            frames += event.data.strip() != b""
        if framer.fault is not None:
            return Found(Outcome.FAULT, held)
        if not data:
            return Found(_ended(held, frames), held)


def _ended(held: list[Event], frames: int) -> Outcome:
    """What a stream is that ended without output after *frames* frames."""
    trial = ChatStream(Secrets(""))
    trial.take_all(held)
    if trial.complete:
        return Outcome.EMPTY_ANSWER
    return Outcome.STOPPED if frames else Outcome.NOTHING
