"""The streams that run in this process, and how the end of the process ends them."""

from typing import Protocol


class Interruptible(Protocol):
    def interrupt(self) -> None: ...


_running: set[Interruptible] = set()


def register(stream: Interruptible) -> None:
    """*stream* is committed from now on."""
    _running.add(stream)


def unregister(stream: Interruptible) -> None:
    _running.discard(stream)


def running() -> int:
    """Committed streams right now."""
    return len(_running)


def interrupt_streams() -> int:
    """Give every running stream its terminal frame ("gateway restarting"); how many there were. In the event loop."""
    streams = list(_running)
    for stream in streams:
        stream.interrupt()
    return len(streams)
