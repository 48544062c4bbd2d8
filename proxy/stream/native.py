"""A stream in the client's own dialect: it passes as it came and is only looked at. Pure."""

from collections.abc import Callable, Sequence

from proxy.dialects.base import Reader, Watcher, Writer
from proxy.secrecy import Secrets
from proxy.stream.kept import Delivered
from proxy.stream.probe import DONE
from proxy.stream.sse import Event
from proxy.usage import Usage


class NativeStream:
    """*watcher* knows the dialect; *told* puts its error event into the form of a chat stream's. Nothing is ever added
    to a complete stream, and no event is left out of it.
    """

    __slots__ = ("_secrets", "_told", "_watcher")

    #: There is no end marker to be added.
    done = True
    unmodelled = False
    #: The provider's error event, where it was not forwarded.
    held = b""

    def __init__(self, watcher: Watcher, secrets: Secrets, told: Callable[[bytes], bytes]) -> None:
        self._watcher = watcher
        self._secrets = secrets
        self._told = told

    @property
    def chunks(self) -> int:
        return self._watcher.chunks

    @property
    def complete(self) -> bool:
        return self._watcher.complete

    @property
    def over(self) -> bool:
        return self._watcher.over

    @property
    def carries(self) -> bool:
        return self._watcher.carries

    @property
    def error(self) -> bytes | None:
        error = self._watcher.error
        return None if error is None else self._told(error)

    @property
    def truncated(self) -> str:
        return self._watcher.TRUNCATED

    @property
    def usage(self) -> Usage | None:
        return self._watcher.usage

    @property
    def size(self) -> int:
        return self._watcher.size

    def take_all(self, events: Sequence[Event]) -> bytes:
        pieces: list[bytes] = []
        for event in events:
            if self.over:
                break
            self._watcher.take(event)
            pieces.append(self._passed(event))
        return self._secrets.mask_content(b"".join(pieces))

    def _passed(self, event: Event) -> bytes:
        """What the client gets of an event that was looked at."""
        if self._watcher.error is None or event.data is None:
            return event.raw
        masked = self._secrets.mask_json(event.data)
        return event.raw if masked is event.data else event.carrying(masked)

    def last(self, events: Sequence[Event]) -> bytes:
        return self.take_all(events)

    def repeated(self, data: bytes, *, whole: bool = False) -> int:
        return 0

    def finishable(self) -> bool:
        return False

    def diverged(self) -> bool:
        return False

    def end_mark(self) -> bytes:
        return b""

    def error_frame(self, message: str, kind: str) -> bytes:
        return self._watcher.error_frame(message, kind)


class KeptNative(NativeStream):
    """The same where another candidate may finish the answer (beyond 1): *kept* is what the client has of it in chat
    frames, made by *reader*; *writer* keeps up, and goes on where the stream breaks off. An error event is held back.
    """

    __slots__ = ("_reader", "_writer", "billed", "held", "kept")

    def __init__(
        self, watcher: Watcher, secrets: Secrets, told: Callable[[bytes], bytes], *, reader: Reader, writer: Writer
    ) -> None:
        super().__init__(watcher, secrets, told)
        self.kept = Delivered()
        self.billed = Usage()
        self.held = b""
        self._reader = reader
        self._writer = writer

    def finishable(self) -> bool:
        return not self.complete and self.kept.unfinished

    def _passed(self, event: Event) -> bytes:
        out = super()._passed(event)
        if self._watcher.error is not None:
            self.held += out
            return b""
        self._writer.follow(event)
        for said in self._reader.take(event):
            if said.data is not None and said.data != DONE:
                self.kept.add(said.raw)
        return out
