"""The first-token probe: read a 2xx stream until it shows model output, before the client sees a byte (10)."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from providers.upstream.interface import Response
from proxy.stream.answer import AnswerStream
from proxy.stream.probe import Meaning
from proxy.stream.sse import Event, Framer


class Outcome(StrEnum):
    OUTPUT = "output"  # commit
    EMPTY_ANSWER = "empty answer"  # it ended, complete, without output: commit too
    ERROR = "error"  # the first meaningful event is an error
    NOTHING = "nothing"  # it ended without any frame
    STOPPED = "stopped"  # it ended behind openers, incomplete
    FAULT = "fault"  # a line over the cap, or too many blank lines


ALONE = 8
"""Events of one read that are taken one by one; behind the output there may be many that nobody need take apart."""


@dataclass(slots=True)
class Found:
    """*held* are the events up to the one that decided. *payload* is the error frame of ERROR; *done*: a ``[DONE]``
    ended it. *left*: bytes behind the output that the framer has not seen.
    """

    outcome: Outcome
    held: list[Event]
    payload: bytes = b""
    done: bool = False
    left: bytes = b""


async def look(
    response: Response, framer: Framer, classify: Callable[[bytes], Meaning], trial: Callable[[], AnswerStream]
) -> Found:
    """Read until the matter is decided. Raises UpstreamError; the caller set the deadline.

    *classify* and *trial* speak the provider's dialect: what one payload means, and a stream of which nobody sees
    anything.
    """
    held: list[Event] = []
    frames, alone = 0, ALONE
    left = b""
    while True:
        data, left = left or await response.chunk(), b""
        if alone and 1 < (end := data.find(b"\n\n") + 2) < len(data):
            data, left = data[:end], data[end:]
            alone -= 1
        events = framer.feed(data) if data else framer.finish()
        held += events
        for event in events:
            if event.data is None:
                continue
            meaning = classify(event.data)
            if meaning is Meaning.OUTPUT:
                return Found(Outcome.OUTPUT, held, left=left)
            if meaning is Meaning.ERROR:
                return Found(Outcome.ERROR, held, event.data)
            if meaning is Meaning.END:
                return Found(_ended(trial(), held, frames), held, done=True)
            frames += event.data.strip() != b""
        if framer.fault is not None:
            return Found(Outcome.FAULT, held)
        if not data:
            return Found(_ended(trial(), held, frames), held)


def _ended(trial: AnswerStream, held: list[Event], frames: int) -> Outcome:
    """What a stream is that ended without output after *frames* frames."""
    trial.last(held)
    if trial.complete:
        return Outcome.EMPTY_ANSWER
    return Outcome.STOPPED if frames else Outcome.NOTHING
