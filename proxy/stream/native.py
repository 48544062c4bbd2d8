"""A stream in the client's own dialect: it passes as it came and is only looked at. Pure."""

from collections.abc import Callable, Sequence

from proxy.dialects.base import Watcher
from proxy.secrecy import Secrets
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
            if self._watcher.error is None or event.data is None:
                pieces.append(event.raw)
                continue
            masked = self._secrets.mask_json(event.data)
            pieces.append(event.raw if masked is event.data else event.carrying(masked))
        return self._secrets.mask_content(b"".join(pieces))

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
