"""One committed chat stream: what each event means for the client, the meter and the verdict. Pure.

An ordinary chunk (content of one choice, nothing else to say) is decoded only as far as that takes and passes as the
bytes that came; everything else goes through the general path.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from proxy import answers
from proxy import usage as usages
from proxy.dialects.chat import FINISH_REASONS, TELLING_REASONS
from proxy.secrecy import KeyGuard, Secrets
from proxy.stream.probe import DONE, counts, frame_has_output, populated
from proxy.stream.sse import Event
from proxy.stream.template import Template
from proxy.stream.transforms import ChunkTransforms
from proxy.usage import Usage

_NO_RAW = msgspec.Raw()
_EMPTY = (b"", b"null", b"[]")
#: Where providers put reasoning; several of them in one delta say the same.
REASONING = ("reasoning_content", "reasoning", "reasoning_details")
#: Other members of a delta that are an answer when they are not empty (circuit-breaker 4).
_CARRIERS = frozenset(
    (
        "content",
        "tool_calls",
        "function_call",
        "images",
        "audio",
        "refusal",
        "annotations",
        "citations",
        "thinking_blocks",
    )
)
_OPENERS = frozenset(("role", "name", "type", "index", "id", *REASONING))


END_MARK = b"data: [DONE]\n\n"
TEMPLATE_TRIES = 8
"""Chunks a template is made of in vain before the stream is taken for one without two alike."""


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: msgspec.Raw = _NO_RAW
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: None = None
    error: None = None


_chunk = msgspec.json.Decoder(_Chunk).decode
_value = msgspec.json.Decoder().decode


class ChatStream:
    """*send_usage*: the client is to see the usage chunk. *secrets* are masked in error frames, *own* in content.

    *chunks* counts events with a payload, *delivered* is true once output went to the client, *unmodelled* once a frame
    of unknown shape was seen, *size* the bytes of text delivered. *error* is the provider's own error frame.
    """

    #: The provider's error event as the client may see it, where it was not forwarded.
    held = b""
    #: What is said of a body that ended too early.
    truncated = "stream truncated: upstream closed before a finish_reason"

    __slots__ = (
        "_guard",
        "_plain_reasoning",
        "_secrets",
        "_send_usage",
        "_template",
        "_template_tries",
        "_thinking",
        "_transforms",
        "chunks",
        "delivered",
        "done",
        "error",
        "finish",
        "size",
        "unmodelled",
        "usage",
        "usage_frame",
    )

    def __init__(self, secrets: Secrets, *, strip_reasoning: bool = False, send_usage: bool = False) -> None:
        self._transforms = ChunkTransforms(strip_reasoning=strip_reasoning)
        self._thinking = self._transforms.thinking
        self._plain_reasoning = not strip_reasoning
        self._send_usage = send_usage
        self._secrets = secrets
        self._guard = KeyGuard.of(secrets.own)
        self._template: Template | None = None
        self._template_tries = TEMPLATE_TRIES
        self.chunks = 0
        self.delivered = False
        self.unmodelled = False
        self.finish = ""
        self.usage_frame = False
        self.done = False
        self.usage: Usage | None = None
        self.size = 0
        self.error: bytes | None = None

    def finishable(self) -> bool:
        """Whether another candidate can finish what the client has of this answer; needs an answer that is kept."""
        return False

    def diverged(self) -> bool:
        """Asked once the stream is over: whether it is no end of what its client has. A stream of its own always is."""
        return False

    def end_mark(self) -> bytes:
        """What ends a complete answer whose provider left the end marker out."""
        return END_MARK

    @property
    def complete(self) -> bool:
        """A finish reason was stated, a usage frame arrived, or ``[DONE]`` came after output (failover-loop 11.1)."""
        return bool(self.finish) or self.usage_frame or (self.done and (self.delivered or self.unmodelled))

    @property
    def over(self) -> bool:
        """Nothing that follows counts."""
        return self.done or self.error is not None

    @property
    def carries(self) -> bool:
        """The answer says something: output, or a finish reason that is an answer by itself (circuit-breaker 4)."""
        return self.delivered or FINISH_REASONS.get(self.finish, self.finish) in TELLING_REASONS

    def take_all(self, events: Sequence[Event]) -> bytes:
        """The bytes for the client that come of events which arrived together; what follows the end is dropped."""
        if len(events) == 1:
            out = self.take(events[0])
        else:
            pieces: list[bytes] = []
            for event in events:
                if self.over:
                    break
                pieces.append(self.take(event))
            out = b"".join(pieces)
        return self._secrets.mask_content(out) if self._guard is not None else out

    def last(self, events: Sequence[Event]) -> bytes:
        """The same for the last events: the body is over."""
        return self.take_all(events) if events else b""

    def error_frame(self, message: str, kind: str) -> bytes:
        """The last event of a stream that the gateway has to end (v1-api 9.7)."""
        return answers.stream_error(message, kind)

    def repeated(self, data: bytes, *, whole: bool = False) -> int:
        """How many leading bytes of *data* are whole chunks like one that passed before: they may go out as they are.

        They are counted then, in :attr:`chunks` and wherever else a chunk counts. *data* begins an event. *whole*:
        0 unless it is all of them.
        """
        template = self._template
        if template is None or self._thinking.inside or self.over:
            return 0
        size, chunks, words = template.match(data)
        if not chunks or (whole and size != len(data)) or (self._guard is not None and self._guard.wary(words)):
            return 0
        self._template_tries = TEMPLATE_TRIES
        self.chunks += chunks
        self.size += len(words) if words.isascii() else len(words.encode())
        return size

    def take(self, event: Event) -> bytes:
        """The bytes for the client: the event as it came, a changed one, or nothing."""
        payload = event.data
        if payload is None:
            return event.raw
        self.chunks += 1
        try:
            chunk = _chunk(payload)
        except (msgspec.DecodeError, RecursionError):
            return self._general(event, payload)
        if len(chunk.choices) == 1:
            choice = chunk.choices[0]
            delta = choice.delta
            if choice.finish_reason is None and delta is not None and self._ordinary(delta):
                if delta.content and self._template_tries and self._thinking.begun:
                    self._template_tries -= 1
                    # What stands around the text passes unread from here on: not where it holds the key.
                    clean = self._secrets.mask_content(event.raw) is event.raw
                    self._template = Template.of(event.raw, delta.content) if clean else None
                return event.raw
        return self._general(event, payload)

    def _ordinary(self, delta: _Delta) -> bool:
        """Whether *delta* passes untouched; counted then."""
        if delta.reasoning or not _absent(delta.reasoning_details):
            return False
        text = delta.content
        if delta.tool_calls:
            return not text and not delta.reasoning_content and self._calls(delta.tool_calls)
        if text:
            if delta.reasoning_content or "<" in text or self._thinking.inside:
                return False
            if not self._thinking.begun:
                self._thinking.begun = not text.isspace()
        elif delta.reasoning_content and text is None and self._plain_reasoning:
            text = delta.reasoning_content
        else:
            return False
        if self._guard is not None and self._guard.wary(text):
            return False
        self.delivered = True
        self.size += len(text) if text.isascii() else len(text.encode())
        return True

    def _calls(self, calls: list[_Call]) -> bool:
        """Count the fragments of tool calls; False when they say nothing yet."""
        size = 0
        for call in calls:
            if call.function is not None:
                size += len((call.function.name or "").encode()) + len((call.function.arguments or "").encode())
        self.size += size
        if size:
            self.delivered = True
        return size > 0

    def _no_json(self, event: Event, payload: bytes) -> bytes:
        if payload.strip() == DONE:
            self.done = True
            return event.raw if self.complete else b""
        if payload.strip():
            self.unmodelled = True
        else:
            self.chunks -= 1
        return event.without_data()

    def _general(self, event: Event, payload: bytes) -> bytes:
        try:
            frame = _value(payload)
        except (msgspec.DecodeError, RecursionError):
            return self._no_json(event, payload)
        if not isinstance(frame, dict):
            self.unmodelled = True
            return event.raw
        if populated(frame.get("error")):
            self.error = payload
            masked = self._secrets.mask_json(payload)
            return event.raw if masked is payload else event.carrying(masked)
        choices = frame.get("choices")
        usage = frame.get("usage")
        if populated(usage):
            self._take_usage(usage)
            if choices == []:
                self.usage_frame = True
                if not self._send_usage:
                    return event.without_data()
        self._judge(frame, choices)
        guarded = payload if self._guard is None else self._guard.chunk(payload, frame)
        if guarded is payload and not self._transforms.needed(choices):
            return event.raw
        changed = self._transforms.apply(guarded)
        if changed is None:
            return event.without_data()
        return event.raw if changed is payload else event.carrying(changed)

    def _take_usage(self, usage: object) -> None:
        self.usage = usages.later(self.usage, usages.read(usage))
        if self.usage is not None and self.usage.completion > 0:
            self.delivered = True

    def _judge(self, frame: dict[str, Any], choices: object) -> None:
        if not isinstance(choices, list):
            self.unmodelled = self.unmodelled or frame_has_output(frame)
            return
        for choice in choices:
            if not isinstance(choice, dict):
                self.unmodelled = True
                continue
            finish = choice.get("finish_reason")
            if isinstance(finish, str) and finish:
                self.finish = finish
            self._judge_delta(choice.get("delta"))
            if counts(choice.get("text")):
                self._deliver(choice["text"])

    def _judge_delta(self, delta: object) -> None:
        if delta is None:
            return
        if not isinstance(delta, dict):
            self.unmodelled = True
            return
        for name in REASONING:
            if counts(delta.get(name)):
                self._deliver(delta[name])
                break
        for name, value in delta.items():
            if name in _OPENERS or not counts(value):
                continue
            if name in _CARRIERS:
                self._deliver(value)
            else:
                self.unmodelled = True

    def _deliver(self, value: object) -> None:
        self.delivered = True
        self.size += text_size(value)


def _absent(raw: msgspec.Raw) -> bool:
    return raw is _NO_RAW or bytes(raw) in _EMPTY


def text_size(value: object) -> int:
    """UTF-8 bytes of all text in the value of a delta's member, however deep."""
    size = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            size += len(item) if item.isascii() else len(item.encode())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(member for key, member in item.items() if key not in ("type", "index", "id"))
    return size
