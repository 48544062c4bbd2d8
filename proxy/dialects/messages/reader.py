"""A stream of the Messages dialect as the chat stream that it stands for (v1-api 14.3). Pure.

An ordinary delta costs one typed decoding and one encoding of its text.
"""

import time
from collections.abc import Callable

import msgspec

from proxy import answers
from proxy import usage as usages
from proxy.dialects.messages.answer import arguments, finish_reason
from proxy.dialects.messages.counts import Counts
from proxy.dialects.messages.events import classify as classify
from proxy.dialects.messages.events import error_payload as error_payload
from proxy.dialects.messages.events import is_error
from proxy.dialects.messages.raw import (
    ABSENT,
    ERRORS,
    Raw,
    check_utf8,
    decode_members,
    encode,
    hex32,
    members_of,
    text_of,
)
from proxy.stream.probe import DONE
from proxy.stream.sse import Event
from proxy.usage import Usage

_PING = Event(None, b": ping\n\n", b": ping\n")
_DONE = Event(DONE, b"data: [DONE]\n\n")
_UNREAD = object()  # an open block of which nothing is translated

NOT_JSON = "stream failed: upstream sent an event that is not valid JSON"
NOT_OPEN = "stream failed: upstream sent tool input for a block that was not opened"


class _Delta(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: Raw = ABSENT
    message: Raw = ABSENT
    usage: Raw = ABSENT


class _Call:
    """A tool call: its number among the calls, and the input that it was opened with until more comes."""

    __slots__ = ("at", "input", "open", "said")

    def __init__(self, at: int, given: Raw | None) -> None:
        self.at = at
        self.input = given
        self.said = False
        self.open = True


_event = msgspec.json.Decoder(_Event).decode


class Reader:
    """One answer of *model*. *new_id* makes 32 hex digits, *now* is POSIX time.

    What was read is complete when the last event was ``[DONE]``.
    """

    __slots__ = ("_blocks", "_calls", "_counts", "_head", "_over", "_started", "_stop_reason", "_tail")

    def __init__(self, model: str, *, new_id: Callable[[], str] = hex32, now: Callable[[], float] = time.time) -> None:
        self._head = b'{"id":"chatcmpl-%b","object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            new_id().encode(),
            int(now()),
            encode(model),
        )
        self._tail = b',"finish_reason":null}]}'
        self._started = False
        self._over = False
        self._stop_reason = ""
        self._counts = Counts()
        self._blocks: dict[int, object] = {}
        self._calls = 0

    @property
    def usage(self) -> Usage | None:
        return usages.read(self._counts.chat())

    def take(self, event: Event) -> list[Event]:
        """The chat events that *event* stands for; nothing behind the end."""
        payload = event.data
        if payload is None or self._over:
            return []
        try:
            said = _event(payload)
        except ERRORS:
            return self._unusual(payload)
        delta = said.delta
        if delta is not None and delta.type == "text_delta" and said.type == "content_block_delta":
            return self._delta(b'"content":%b' % encode(delta.text)) if delta.text else []
        return self._read(said, payload)

    def finish(self) -> list[Event]:
        """The end of the body: what completes the answer, or the usage so far of one that was cut off."""
        if self._over:
            return []
        if self._stop_reason:
            return self._end()
        self._over = True
        usage = self._counts.chat()
        return [_chat(b'%b],"usage":%b}' % (self._head, encode(usage)))] if usage else []

    # -- what comes out

    def _delta(self, inner: bytes) -> list[Event]:
        """A chunk with the members *inner*, behind the first one of all."""
        chunk = b'%b{"index":0,"delta":{%b}%b' % (self._head, inner, self._tail)
        if self._started:
            return [Event(chunk, b"data: %b\n\n" % chunk)]
        return [*self._start(), _chat(chunk)]

    def _start(self) -> list[Event]:
        if self._started:
            return []
        self._started = True
        return [_chat(b'%b{"index":0,"delta":{"role":"assistant"}%b' % (self._head, self._tail))]

    def _end(self) -> list[Event]:
        self._over = True
        begun = [*self._start(), *self._close_all()]
        finish = encode(finish_reason(self._stop_reason))
        usage = self._counts.chat()
        counted = b',"usage":%b' % encode(usage) if usage else b""
        last = b'%b{"index":0,"delta":{},"finish_reason":%b}]%b}' % (self._head, finish, counted)
        return [*begun, _chat(last), _DONE]

    def _fail(self, error: bytes) -> list[Event]:
        self._over = True
        return [_chat(error)]

    # -- what goes in

    def _unusual(self, payload: bytes) -> list[Event]:
        """An event that is not JSON, or has a member of another type than usual."""
        text = payload.strip()
        if not text or text == DONE:
            return []
        try:
            check_utf8(payload)
            members = decode_members(payload)
        except msgspec.ValidationError:
            return []  # JSON, but no event
        except ERRORS:
            return self._fail(_broken(NOT_JSON))
        delta = members_of(members.get("delta"))
        read = _Delta(*(text_of(delta.get(name)) for name in _Delta.__struct_fields__))
        index = bytes(members.get("index", ABSENT))
        at = int(index) if index.isdigit() and len(index) < 10 else 0
        others = (members.get(name, ABSENT) for name in ("content_block", "message", "usage"))
        return self._read(_Event(text_of(members.get("type")), at, read, *others), payload)

    def _read(self, said: _Event, payload: bytes) -> list[Event]:
        delta = said.delta
        if said.type != "content_block_delta" or delta is None:
            return self._other(said, payload)
        if delta.type == "text_delta" and delta.text:
            return self._delta(b'"content":%b' % encode(delta.text))
        if delta.type == "thinking_delta" and delta.thinking:
            return self._delta(b'"reasoning_content":%b' % encode(delta.thinking))
        return self._input(said.index, delta.partial_json) if delta.type == "input_json_delta" else []

    def _other(self, said: _Event, payload: bytes) -> list[Event]:
        match said.type:
            case "message_start":
                self._counts.take_start(members_of(said.message).get("usage"))
                return self._start()
            case "ping":
                return [_PING]
            case "content_block_start":
                return self._open(said.index, said.content_block)
            case "content_block_stop":
                return self._close(said.index)
            case "message_delta":
                if said.delta is not None and said.delta.stop_reason:
                    self._stop_reason = said.delta.stop_reason
                self._counts.take(said.usage)
                return []
            case "message_stop":
                return self._end()
            case _:
                return self._fail(error_payload(payload)) if is_error(payload) else []

    def _open(self, index: int, block: Raw) -> list[Event]:
        members = members_of(block)
        kind = text_of(members.get("type"))
        if kind != "tool_use":
            self._blocks[index] = _UNREAD
            if kind == "text" and (text := text_of(members.get("text"))):
                return self._delta(b'"content":%b' % encode(text))
            if kind == "thinking" and (text := text_of(members.get("thinking"))):
                return self._delta(b'"reasoning_content":%b' % encode(text))
            return []
        call = self._blocks[index] = _Call(self._calls, members.get("input"))
        self._calls += 1
        call_id, name = text_of(members.get("id")), text_of(members.get("name"))
        opening = b'{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}'
        return self._delta(b'"tool_calls":[%b]' % (opening % (call.at, encode(call_id), encode(name))))

    def _input(self, index: int, fragment: str) -> list[Event]:
        call = self._blocks.get(index)
        if call is _UNREAD:
            return []
        if not isinstance(call, _Call) or not call.open:
            return self._fail(_broken(NOT_OPEN))
        if not fragment:
            return []
        call.said = True
        return self._arguments(call, fragment)

    def _arguments(self, call: _Call, fragment: str) -> list[Event]:
        said = b'"tool_calls":[{"index":%d,"function":{"arguments":%b}}]' % (call.at, encode(fragment))
        return self._delta(said)

    def _close(self, index: int) -> list[Event]:
        """A call without a fragment has the input that it was opened with, as in an answer that comes whole."""
        call = self._blocks.get(index)
        if not isinstance(call, _Call) or not call.open:
            return []
        call.open = False
        if call.said:
            return []
        try:
            return self._arguments(call, arguments(call.input))
        except ERRORS:
            return self._arguments(call, "{}")

    def _close_all(self) -> list[Event]:
        return [event for index in self._blocks for event in self._close(index)]


def _chat(chunk: bytes) -> Event:
    return Event(chunk, b"data: %b\n\n" % chunk)


def _broken(text: str) -> bytes:
    return answers.envelope(500, text, "provider_error")
