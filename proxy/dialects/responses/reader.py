"""A provider's Responses stream as a chat stream (v1-api 16, failover-loop 6.3.6 and 10.2). Pure."""

import time
from collections.abc import Callable
from typing import Any

import msgspec

from proxy.answers import envelope
from proxy.dialects.base import Members
from proxy.dialects.responses import raws
from proxy.dialects.responses.answers import chat_usage, error_chunk, finish_reason, read_usage
from proxy.dialects.responses.egress import chat_id
from proxy.stream.probe import DONE, Meaning, counts
from proxy.stream.sse import Event
from proxy.usage import Usage

TEXT_DELTA = "response.output_text.delta"
TERMINAL = frozenset(("response.completed", "response.incomplete"))
FAILURES = frozenset(("response.failed", "error"))
#: Events that say nothing of the answer; so does every ``*.done``.
OPENERS = frozenset(
    (
        "response.created",
        "response.queued",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_summary_part.added",
        "keepalive",
    )
)
_NEVER_OPENED = envelope(500, "the provider sent arguments of a tool call it never began", "provider_error")
_END = Event(DONE, b"data: [DONE]\n\n")


class _Text(msgspec.Struct, tag_field="type", tag=TEXT_DELTA, gc=False):
    delta: str


_text = msgspec.json.Decoder(_Text).decode


class _Call:
    """A function call; *number* is its index in chat. *said*: some of its arguments went out."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.said = False


class Reader:
    """One answer of *model*."""

    def __init__(
        self, model: str, *, new_id: Callable[[], str] = raws.hex32, now: Callable[[], float] = time.time
    ) -> None:
        self._model = model
        self._new_id = new_id
        self._now = now
        self._head = b""
        self._begun = False
        self._over = False
        self._reasoned = False
        self._parted = False  # a summary part began behind another one
        self._calls: list[_Call] = []
        self._known: dict[str, _Call] = {}  # by item id and by output index
        #: What the end of the response told of it, a failure included.
        self.usage: Usage | None = None

    def take(self, event: Event) -> list[Event]:
        """The chat events that *event* says."""
        payload = event.data
        if self._over:
            return []
        if payload is None:
            comments = event.without_data()
            return [Event(None, comments, comments[:-1])] if comments else []
        if self._begun:
            try:
                text = _text(payload).delta
            except raws.ERRORS:
                return self._general(payload)
            return [self._chunk(b'{"content":%b}' % raws.encode(text))] if text else []
        return self._general(payload)

    def finish(self) -> list[Event]:
        """The body is over. Usage comes with the terminal event only, so that there is none to be shown without it."""
        self._over = True
        return []

    def _general(self, payload: bytes) -> list[Event]:
        members = raws.members(payload) if raws.utf8(payload) else None
        if members is None:
            return []
        kind = raws.text(members.get("type"))
        if kind in FAILURES or (not kind and raws.filled(members.get("error"))):
            self.usage = read_usage((raws.members(members.get("response")) or {}).get("usage"))
            return self._fail(error_chunk(payload))
        if kind in TERMINAL:
            return self._end(raws.members(members.get("response")) or {})
        handler = _HANDLERS.get(kind)
        if handler is None:
            return []
        return handler(self, members)

    # -- events

    def _created(self, members: Members) -> list[Event]:
        return self._begin(raws.members(members.get("response")) or {})

    def _content(self, members: Members) -> list[Event]:
        return self._say("content", members)

    def _refusal(self, members: Members) -> list[Event]:
        return self._say("refusal", members)

    def _say(self, name: str, members: Members) -> list[Event]:
        text = raws.text(members.get("delta"))
        return [*self._begin({}), self._delta({name: text})] if text else []

    def _part(self, _members: Members) -> list[Event]:
        self._parted = self._reasoned
        return []

    def _summary(self, members: Members) -> list[Event]:
        text = raws.text(members.get("delta"))
        if not text:
            return []
        if self._parted:
            text = "\n\n" + text
        self._parted, self._reasoned = False, True
        return [*self._begin({}), self._delta({"reasoning_content": text})]

    def _added(self, members: Members) -> list[Event]:
        item = raws.members(members.get("item")) or {}
        if raws.text(item.get("type")) != "function_call":
            return []
        call = _Call(len(self._calls))
        self._calls.append(call)
        for key in _keys(members.get("output_index"), item.get("id")):
            self._known[key] = call
        words = raws.text(item.get("arguments"))
        call.said = bool(words)
        opened = {
            "index": call.number,
            "id": raws.text(item.get("call_id")) or raws.text(item.get("id")),
            "type": "function",
            "function": {"name": raws.text(item.get("name")), "arguments": words},
        }
        return [*self._begin({}), self._delta({"tool_calls": [opened]})]

    def _arguments(self, members: Members) -> list[Event]:
        piece = raws.text(members.get("delta"))
        if not piece:
            return []
        call = self._call(members.get("output_index"), members.get("item_id"))
        if call is None:
            return self._fail(_NEVER_OPENED)
        return [self._piece(call, piece)]

    def _done(self, members: Members) -> list[Event]:
        """A finished item: a call that showed no arguments so far shows them now."""
        item = raws.members(members.get("item")) or {}
        if raws.text(item.get("type")) != "function_call":
            return []
        call = self._call(members.get("output_index"), item.get("id"))
        if call is None:
            return self._added(members)
        words = raws.text(item.get("arguments"))
        return [self._piece(call, words)] if words and not call.said else []

    def _call(self, index: raws.Raw | None, identity: raws.Raw | None) -> _Call | None:
        return next((call for key in _keys(index, identity) if (call := self._known.get(key)) is not None), None)

    def _piece(self, call: _Call, words: str) -> Event:
        call.said = True
        return self._delta({"tool_calls": [{"index": call.number, "function": {"arguments": words}}]})

    # -- chunks

    def _begin(self, response: Members) -> list[Event]:
        if self._begun:
            return []
        self._begun = True
        created = raws.value(response.get("created_at"))
        if not (isinstance(created, int) and 0 <= created < 2**53):
            created = int(self._now())
        head = {
            "id": chat_id(raws.text(response.get("id")), self._new_id),
            "object": "chat.completion.chunk",
            "created": created,
            "model": self._model,
        }
        self._head = raws.encode(head)[:-1]
        return [self._delta({"role": "assistant", "content": ""})]

    def _delta(self, delta: dict[str, Any]) -> Event:
        return self._chunk(raws.encode(delta))

    def _chunk(self, delta: bytes, finish: bytes = b"null") -> Event:
        return _event(b'%b,"choices":[{"index":0,"delta":%b,"finish_reason":%b}]}' % (self._head, delta, finish))

    def _end(self, response: Members) -> list[Event]:
        out = self._begin(response)
        out += [self._piece(call, "{}") for call in self._calls if not call.said]
        reason = finish_reason(response, calls=bool(self._calls))
        out.append(self._chunk(b"{}", raws.encode(reason)))
        usage = chat_usage(response.get("usage"))
        if usage is not None:
            self.usage = read_usage(response.get("usage"))
            out.append(_event(b'%b,"choices":[],"usage":%b}' % (self._head, raws.encode(usage))))
        self._over = True
        return [*out, _END]

    def _fail(self, chunk: bytes) -> list[Event]:
        self._over = True
        return [_event(chunk)]


def _event(data: bytes) -> Event:
    return Event(data, b"data: %b\n\n" % data)


def _keys(index: raws.Raw | None, identity: raws.Raw | None) -> list[str]:
    """What a call is known by: its output index, and its item id."""
    found = [raws.text(identity)] if raws.text(identity) else []
    place = raws.value(index)
    return [*found, f"#{place}"] if isinstance(place, int) else found


_HANDLERS: dict[str, Callable[[Reader, Members], list[Event]]] = {
    "response.created": Reader._created,
    "response.in_progress": Reader._created,
    TEXT_DELTA: Reader._content,
    "response.refusal.delta": Reader._refusal,
    "response.reasoning_summary_part.added": Reader._part,
    "response.reasoning_summary_text.delta": Reader._summary,
    "response.output_item.added": Reader._added,
    "response.output_item.done": Reader._done,
    "response.function_call_arguments.delta": Reader._arguments,
}


def classify(payload: bytes) -> Meaning:
    """What one ``data:`` payload of a provider's Responses stream means (failover-loop 10.2)."""
    text = payload.strip()
    if not text:
        return Meaning.NOTHING
    if text == DONE:
        return Meaning.END
    event = raws.value(text)
    if not isinstance(event, dict):
        return Meaning.OUTPUT
    kind = event.get("type")
    if not isinstance(kind, str):
        return Meaning.ERROR if event.get("error") else Meaning.OUTPUT
    if kind in FAILURES:
        return Meaning.ERROR
    if kind in TERMINAL:
        return Meaning.END
    if kind == "response.output_item.added":
        item = event.get("item")
        return Meaning.OUTPUT if isinstance(item, dict) and counts(item.get("name")) else Meaning.NOTHING
    if kind in OPENERS or kind.endswith(".done"):
        return Meaning.NOTHING
    if kind.endswith(".delta"):
        return Meaning.OUTPUT if counts(event.get("delta")) else Meaning.NOTHING
    return Meaning.OUTPUT


def error_payload(payload: bytes) -> bytes:
    """An error event as a chat error frame, as the probe and the reading of errors know it."""
    return error_chunk(payload)
