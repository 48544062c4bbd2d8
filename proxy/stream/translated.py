"""A chat stream between two dialects: a reader before it, a writer behind it, or one of them. Pure."""

from collections.abc import Sequence

from proxy.dialects.base import Reader, Writer
from proxy.stream.chat import ChatStream
from proxy.stream.recovered import COMMENT
from proxy.stream.sse import Event
from proxy.usage import Usage


class Translated:
    """*inner* sees chat events and writes chat frames. *reader* makes its events of the provider's, *writer* the
    client's frames of its own.
    """

    __slots__ = ("_reader", "_writer", "inner")

    def __init__(self, inner: ChatStream, reader: Reader | None, writer: Writer | None) -> None:
        self.inner = inner
        self._reader = reader
        self._writer = writer

    @property
    def chunks(self) -> int:
        return self.inner.chunks

    @property
    def complete(self) -> bool:
        """Judged by the provider's dialect: its reader marks the end of what is complete, and of nothing else."""
        inner = self.inner
        return inner.complete if self._reader is None else bool(inner.finish) or inner.done

    @property
    def over(self) -> bool:
        return self.inner.over

    @property
    def done(self) -> bool:
        return self.inner.done

    @property
    def carries(self) -> bool:
        return self.inner.carries

    @property
    def unmodelled(self) -> bool:
        return self.inner.unmodelled

    @property
    def error(self) -> bytes | None:
        return self.inner.error

    @property
    def held(self) -> bytes:
        return self._written(self.inner.held)

    @property
    def truncated(self) -> str:
        return self.inner.truncated

    @property
    def usage(self) -> Usage | None:
        """Of a stream that broke, however it did, what its provider had reported by then."""
        said = self.inner.usage
        return self._reader.usage if said is None and self._reader is not None else said

    @property
    def size(self) -> int:
        return self.inner.size

    def take_all(self, events: Sequence[Event]) -> bytes:
        if self._reader is not None:
            events = self._read(events)
        return self._written(self.inner.take_all(events)) if events else b""

    def last(self, events: Sequence[Event]) -> bytes:
        if self._reader is not None:
            events = self._read(events)
            if not self.inner.over:
                events += self._reader.finish()
        return self._written(self.inner.last(events))

    def _read(self, events: Sequence[Event]) -> list[Event]:
        assert self._reader is not None
        found: list[Event] = []
        for event in events:
            found += self._reader.take(event)
        return found

    def _written(self, frames: bytes) -> bytes:
        if self._writer is None or not frames:
            return frames
        before, comment, behind = frames.partition(COMMENT)
        out = self._writer.feed(before) if before else b""
        return out + comment + self._writer.feed(behind) if comment else out

    def repeated(self, data: bytes, *, whole: bool = False) -> int:
        return 0

    def finishable(self) -> bool:
        return self.inner.finishable()

    def diverged(self) -> bool:
        return self.inner.diverged()

    def end_mark(self) -> bytes:
        mark = self.inner.end_mark()
        return mark if self._writer is None else self._written(mark) + self._writer.end()

    def error_frame(self, message: str, kind: str) -> bytes:
        writer = self._writer
        return self.inner.error_frame(message, kind) if writer is None else writer.error(message, kind)
