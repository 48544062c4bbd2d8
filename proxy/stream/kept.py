"""A chat stream whose delivered part is kept, so that another candidate can finish it (beyond 1). Pure."""

from collections.abc import Sequence

import msgspec

from proxy.secrecy import Secrets
from proxy.stream.chat import REASONING, ChatStream
from proxy.stream.probe import counts, frame_has_output
from proxy.stream.sse import Event, Framer
from proxy.usage import Usage

_decode = msgspec.json.Decoder().decode

FOLD = 64 * 1024
"""Bytes sent that are kept as they are; more of them are read at once, and only the text remains."""

#: Members of a delta that say nothing of their own.
_BESIDES = frozenset(("role", "name", "type", "index", "id", "content", *REASONING))


class Delivered:
    """What a client has of one answer, read from the very bytes it was sent, over all attempts that wrote to it."""

    __slots__ = ("_framer", "_plain", "_role", "_sent", "_size", "_text", "_texts", "finished", "id")

    def __init__(self) -> None:
        self._framer = Framer()
        self._sent: list[bytes] = []
        self._size = 0
        self._texts: list[str] = []
        self._text = ""
        self._plain = True
        self._role = False
        self.id = ""
        self.finished = False

    def add(self, sent: bytes) -> None:
        """*sent*: whole events."""
        self._sent.append(sent)
        self._size += len(sent)
        if self._size > FOLD:
            self._fold()

    @property
    def text(self) -> str:
        """The text of the answer; reasoning is no part of it."""
        self._fold()
        if self._texts:
            self._text = "".join((self._text, *self._texts))
            self._texts = []
        return self._text

    @property
    def role(self) -> bool:
        """Whether the answer's role was told."""
        self._fold()
        return self._role

    @property
    def unfinished(self) -> bool:
        """Whether another candidate can finish it: text of one choice and reasoning, and no finish reason yet."""
        self._fold()
        return self._plain and not self.finished

    def _fold(self) -> None:
        if not self._sent:
            return
        sent, self._sent, self._size = b"".join(self._sent), [], 0
        for event in self._framer.feed(sent):
            if event.data is not None:
                self._read(event.data)

    def _read(self, payload: bytes) -> None:
        try:
            frame = _decode(payload)
        except (msgspec.DecodeError, RecursionError):
            return  # the end marker
        if not isinstance(frame, dict):
            self._plain = False
            return
        if not self.id and isinstance(frame.get("id"), str):
            self.id = frame["id"]
        choices = frame.get("choices")
        if not isinstance(choices, list):
            self._plain = self._plain and not frame_has_output(frame)
            return
        for choice in choices:
            self._read_choice(choice)

    def _read_choice(self, choice: object) -> None:
        if not isinstance(choice, dict) or choice.get("index") not in (0, None) or counts(choice.get("text")):
            self._plain = False
            return
        if choice.get("finish_reason"):
            self.finished = True
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            self._plain = self._plain and delta is None
            return
        content = delta.get("content")
        if isinstance(content, str):
            self._texts.append(content)
        elif counts(content):
            self._plain = False
        self._role = self._role or bool(delta.get("role"))
        if any(name not in _BESIDES and counts(value) for name, value in delta.items()):
            self._plain = False


class KeptStream(ChatStream):
    """*kept* is what the client has, *billed* what the attempts before this one cost. An error event of the provider is
    held back (*held*), not forwarded.
    """

    __slots__ = ("billed", "held", "kept")

    def __init__(
        self, secrets: Secrets, kept: Delivered, *, strip_reasoning: bool = False, send_usage: bool = False
    ) -> None:
        super().__init__(secrets, strip_reasoning=strip_reasoning, send_usage=send_usage)
        self.kept = kept
        self.billed = Usage()
        self.held = b""

    def finishable(self) -> bool:
        return self.kept.unfinished

    def take_all(self, events: Sequence[Event]) -> bytes:
        out = super().take_all(events)
        if out:
            self.kept.add(out)
        return out

    def repeated(self, data: bytes, *, whole: bool = False) -> int:
        size = super().repeated(data, whole=whole)
        if size:
            self.kept.add(data[:size])
        return size

    def take(self, event: Event) -> bytes:
        out = super().take(event)
        if self.error is None:
            return out
        self.held = out
        return b""
