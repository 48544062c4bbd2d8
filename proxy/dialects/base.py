"""What every dialect says of an answer. Pure."""

from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from proxy.usage import Usage

if TYPE_CHECKING:
    from proxy.stream.sse import Event

Members = dict[str, msgspec.Raw]
Verdict = Literal["served", "no_choices", "no_content", "no_results", "undecodable", "bare_finish", "blocked"]


class Untranslatable(Exception):
    """A candidate can not be asked this, or its 2xx is no answer. The text holds nothing of request or answer.

    *blocked*: the prompt was refused for its content, and the provider is not at fault. *usage*: what the 2xx cost.
    """

    def __init__(self, text: str, *, blocked: bool = False, usage: Usage | None = None) -> None:
        super().__init__(text)
        self.blocked = blocked
        self.usage = usage


class Judged(msgspec.Struct, frozen=True):
    """A judged answer that came whole. *body* is what the client gets (empty unless *verdict* lets it through).

    *carries*: something was delivered. *delivered*: bytes of what was delivered, counted only where *usage* leaves a
    side open. *problem*: why it is undecodable, in the parser's words, without any of the body. *searches*: the units
    a reranker billed.
    """

    verdict: Verdict
    body: bytes
    usage: Usage | None
    carries: bool
    delivered: int = 0
    problem: str = ""
    searches: int = 0


class Reader(Protocol):
    """The stream of one answer in a provider's dialect, as the chat events it stands for."""

    @property
    def usage(self) -> Usage | None:
        """What the provider has reported so far; it counts where the answer breaks off, too."""
        ...

    def take(self, event: "Event") -> "list[Event]": ...

    def finish(self) -> "list[Event]":
        """The body is over: what completes the answer. A truncated one is told by the lack of an end marker."""
        ...


class Writer(Protocol):
    """One request's answer in the client's dialect, made of chat frames."""

    def whole(self, chat: bytes, model: str) -> bytes:
        """A chat completion that came whole; *model* is the provider's own name of what served."""
        ...

    def begin(self, model: str) -> None:
        """A stream is committed to *model*; once more where another candidate finishes it."""
        ...

    def follow(self, event: "Event") -> None:
        """An event of a native stream went to the client; :meth:`feed` may have to go on behind it."""
        ...

    def feed(self, frames: bytes) -> bytes:
        """Whole chat events; the end marker, or a frame with an error, ends the client's stream too."""
        ...

    def end(self) -> bytes:
        """What completes the client's stream, if that was not said yet."""
        ...

    def error(self, message: str, kind: str) -> bytes:
        """The last event of a stream that broke (v1-api 9.7)."""
        ...


class Seen(Protocol):
    """What is seen of one answer on its way; the attributes are those of :class:`proxy.stream.chat.ChatStream`."""

    @property
    def chunks(self) -> int: ...
    @property
    def complete(self) -> bool: ...
    @property
    def over(self) -> bool: ...
    @property
    def carries(self) -> bool: ...
    @property
    def error(self) -> bytes | None: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def size(self) -> int: ...
    def error_frame(self, message: str, kind: str) -> bytes: ...


class Watcher(Seen, Protocol):
    """The same of a native stream that passes. *TRUNCATED* is said of a body that ended too early."""

    @property
    def TRUNCATED(self) -> str: ...
    def take(self, event: "Event") -> None: ...
