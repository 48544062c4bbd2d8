"""Requests and answers of the Messages dialect that pass as they are (v1-api 12.1, 12.6). Pure.

Of a stream only so much is read as the meter and the verdict need.
"""

import re

import msgspec

from proxy.dialects import callids, thoughtsig
from proxy.dialects.base import Judged, Members, Untranslatable
from proxy.dialects.chat import TELLING_REASONS
from proxy.dialects.messages import errors
from proxy.dialects.messages.answer import finish_reason, opened
from proxy.dialects.messages.counts import Counts
from proxy.dialects.messages.events import classify
from proxy.dialects.messages.raw import (
    ABSENT,
    ERRORS,
    Raw,
    decode_members,
    encode,
    is_object,
    is_text,
    items_of,
    members_of,
    text_of,
)
from proxy.stream.probe import Meaning
from proxy.stream.sse import Event
from proxy.usage import Usage

#: Where a block of a request names a tool call, by the block's type.
_CALL_IDS = {"tool_use": "id", "tool_result": "tool_use_id"}
_REFUSED = re.compile(rb'\s*:\s*"(?![A-Za-z0-9_-]+")')
_DELIVERED = ("text", "thinking", "partial_json", "input")


# -- the request


def build(own: Members, *, model: str) -> bytes:
    """What the client sent, with another model, and the ids of other vendors' calls as Anthropic takes them.

    Only results are looked at: a call without one is refused anyway.
    """
    body: dict[str, object] = {**own, "model": model}
    said = bytes(own.get("messages", ABSENT))
    if thoughtsig.MARK in said or callids.anywhere(said, b'"tool_use_id"', _REFUSED):
        body["messages"] = callids.each(own["messages"], _message)
    return encode(body)


def _message(raw: Raw) -> Raw:
    message = members_of(raw)
    content = message.get("content")
    if content is None or b'"tool_' not in bytes(content):
        return raw
    made = callids.each(content, _block)
    return raw if made is content else Raw(encode({**message, "content": made}))


def _block(raw: Raw) -> Raw:
    block = members_of(raw)
    name = _CALL_IDS.get(text_of(block.get("type")), "")
    return Raw(encode(block)) if callids.rename(block, name, _call_id) else raw


def _call_id(call_id: str) -> str:
    return callids.plain(thoughtsig.split(call_id)[0])


# -- the answer


def read_answer(payload: bytes) -> Judged:
    """Judge the body of a 2xx; what is served is the bytes that came."""
    try:
        top = opened(payload)
    except Untranslatable as problem:
        return Judged("undecodable", b"", None, False, problem=str(problem))
    counts = Counts()
    counts.take(top.get("usage"))
    usage, stopped = counts.usage(), text_of(top.get("stop_reason"))
    delivered, carries = _content(top.get("content"))
    if carries or finish_reason(stopped) in TELLING_REASONS or (usage is not None and usage.completion):
        return Judged("served", payload, usage, True, delivered)
    if stopped:
        return Judged("bare_finish", payload, usage, False)
    return Judged("no_content", b"", usage, False)


def _content(raw: Raw | None) -> tuple[int, bool]:
    """(bytes of text delivered, whether any block says something)."""
    size, carries = 0, False
    for item in items_of(raw):
        block = members_of(item)
        for name in _DELIVERED:
            value = block.get(name)
            size += len(text_of(value).encode()) if is_text(value) else len(bytes(value)) if is_object(value) else 0
        empty = text_of(block.get("type")) in ("text", "thinking") and not size
        carries = carries or not empty
    return size, carries


# -- the stream


class _Delta(msgspec.Struct, gc=False):
    type: str
    text: str


class _Event(msgspec.Struct, gc=False):
    type: str
    delta: _Delta


_event = msgspec.json.Decoder(_Event).decode


class Native:
    """One stream that passes. *chunks* counts events with a payload, *delivered* is true once output passed, *size*
    the bytes of text. *finish* is the stop reason as it came, *error* the payload of the provider's error event.
    """

    TRUNCATED = "stream truncated: upstream closed before message_stop"

    __slots__ = ("_counts", "_stopped", "chunks", "delivered", "error", "finish", "size", "usage")

    def __init__(self) -> None:
        self._counts = Counts()
        self._stopped = False
        self.chunks = 0
        self.delivered = False
        self.error: bytes | None = None
        self.finish = ""
        self.size = 0
        self.usage: Usage | None = None

    @property
    def complete(self) -> bool:
        """``message_stop`` came, or a stop reason (failover-loop 11.1)."""
        return self._stopped or self.finish != ""

    @property
    def over(self) -> bool:
        """Nothing that follows counts."""
        return self._stopped or self.error is not None

    @property
    def carries(self) -> bool:
        """The answer says something (circuit-breaker 4)."""
        return self.delivered or finish_reason(self.finish) in TELLING_REASONS

    def take(self, event: Event) -> None:
        """Look at one event; it goes out as it came."""
        payload = event.data
        if payload is None or self.over or not payload.strip():
            return
        self.chunks += 1
        try:
            said = _event(payload)
        except ERRORS:
            self._other(payload)
            return
        if said.type == "content_block_delta" and said.delta.type == "text_delta":
            self.size += len(said.delta.text) if said.delta.text.isascii() else len(said.delta.text.encode())
            self.delivered = self.delivered or said.delta.text != ""
        else:
            self._other(payload)

    def _other(self, payload: bytes) -> None:
        match classify(payload):
            case Meaning.ERROR:
                self.error = payload
                return
            case Meaning.OUTPUT:
                self.delivered = True
        try:
            members = decode_members(payload)
        except ERRORS:
            return
        delta = members_of(members.get("delta"))
        match text_of(members.get("type")):
            case "message_start":
                self._counts.take_start(members_of(members.get("message")).get("usage"))
                self.usage = self._counts.usage()
            case "message_delta":
                self.finish = text_of(delta.get("stop_reason")) or self.finish
                self._counts.take(members.get("usage"))
                self.usage = self._counts.usage()
                self.delivered = self.delivered or bool(self._counts.completion)
            case "message_stop":
                self._stopped = True
            case "content_block_delta":
                self.size += sum(len(text_of(delta.get(name)).encode()) for name in _DELIVERED)

    def error_frame(self, message: str, kind: str) -> bytes:
        """Our own last event; *kind* has no place in this dialect."""
        return errors.frame(message)
