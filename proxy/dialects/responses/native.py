"""Responses as it came: the client's own body to OpenAI, and OpenAI's answer untouched (v1-api 13.6). Pure."""

import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

from proxy.dialects import callids, thoughtsig
from proxy.dialects.base import Judged, Members
from proxy.dialects.responses import raws
from proxy.dialects.responses.answers import incomplete_reason, read_usage
from proxy.dialects.responses.envelope import INCOMPLETE, Envelope, failure
from proxy.dialects.responses.raws import Raw
from proxy.dialects.responses.reader import FAILURES, TERMINAL
from proxy.stream.sse import Event
from proxy.usage import Usage

_FINISH = {reason: finish for finish, reason in INCOMPLETE.items()}
_ENDED = frozenset(("completed", "incomplete"))
_NO_TEXT = Raw()
_CALLS = frozenset(("function_call", "function_call_output"))
_LONG = callids.longer(callids.RESPONSES_LIMIT)
#: The id of a reasoning item that we made; OpenAI's own are longer.
_OURS = re.compile(r"rs_[0-9a-f]{32}")
_OURS_ENDS = re.compile(rb'[0-9a-f]{32}"')


def build(own: Members, *, model: str) -> bytes:
    """The client's own body with *model* in place of what it asked for, and without what OpenAI refuses of other
    vendors' turns: long ids of calls, and reasoning that only its id stands for, which OpenAI would look for.
    """
    body: dict[str, Any] = {**own, "model": model}
    given = own.get("input")
    if given is not None and _mixed(bytes(given)):
        body["input"] = callids.each(given, _item)
    return raws.encode(body)


def _mixed(data: bytes) -> bool:
    """Whether some of an ``input`` may be of another vendor's turns."""
    return (
        thoughtsig.MARK in data
        or callids.anywhere(data, b'"call_id"', _LONG)
        or callids.anywhere(data, b'"rs_', _OURS_ENDS)
    )


def _item(raw: Raw) -> Raw | None:
    item = raws.members(raw) or {}
    kind = raws.text(item.get("type"))
    if kind == "reasoning":
        ours = _OURS.fullmatch(raws.text(item.get("id"))) and not raws.filled(item.get("encrypted_content"))
        return None if ours else raw
    if kind in _CALLS and callids.rename(item, "call_id", _call_id):
        return raws.json(item)
    return raw


def _call_id(call_id: str) -> str:
    return callids.shortened(thoughtsig.split(call_id)[0], callids.RESPONSES_LIMIT)


def read_answer(payload: bytes) -> Judged:
    """Judge a whole answer, which goes on as it came (failover-loop 9.1, 9.3; circuit-breaker 4)."""
    response = raws.loose(payload)
    if not isinstance(response, dict):
        return Judged("undecodable", b"", None, False, problem="no JSON object")
    members = raws.members(payload) or {}
    usage = read_usage(members.get("usage"))
    status = raws.text(members.get("status"))
    if not (status or response.get("id")):
        return Judged("undecodable", b"", usage, False, problem="neither id nor status")
    if status == "failed":
        return Judged("no_content", b"", usage, False)
    output = response.get("output")
    delivered = sum(_said(item) for item in output) if isinstance(output, list) else 0
    carries = delivered > 0 or bool(usage and usage.completion) or incomplete_reason(members) in _FINISH
    if carries:
        return Judged("served", payload, usage, True, delivered)
    if status in _ENDED:
        return Judged("bare_finish", payload, usage, False)
    return Judged("no_content", b"", usage, False)


def _said(item: object) -> int:
    """Bytes that an output item delivers; a call of any tool delivers something."""
    if not isinstance(item, dict):
        return 0
    kind = item.get("type")
    size = _size(item.get("arguments")) + _size(item.get("input")) + _size(item.get("name"))
    for name in ("content", "summary"):
        parts = item.get(name)
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                size += _size(part.get("text")) + _size(part.get("refusal"))
    if not size and isinstance(kind, str) and kind.endswith("_call"):
        return 1
    return size


def _size(value: object) -> int:
    return len(value.encode()) if isinstance(value, str) else 0


class _Known(msgspec.Struct, gc=False):
    """What is read of every event."""

    type: str = ""
    sequence_number: int = -1
    delta: Raw = _NO_TEXT
    response: Raw = _NO_TEXT
    item: Raw = _NO_TEXT
    error: Raw = _NO_TEXT


_known = msgspec.json.Decoder(_Known).decode


def _read(payload: bytes) -> _Known:
    """An event; a member of an odd type, or a payload that is none, costs only itself."""
    try:
        return _known(payload)
    except raws.ERRORS:
        members = raws.members(payload) or {}
    number = raws.value(members.get("sequence_number"))
    return _Known(
        raws.text(members.get("type")),
        number if isinstance(number, int) else -1,
        *(members.get(name, _NO_TEXT) for name in ("delta", "response", "item", "error")),
    )


class Native:
    """One native stream, whose bytes go out as they came.

    *chunks* counts events with a payload; *delivered*: output went to the client; *complete*: a terminal event came;
    *over*: nothing that follows counts; *error*: the last error event; *size*: bytes of text delivered; *finish*: how
    the response ended, in the words of chat, empty while it did not.
    """

    TRUNCATED = "stream truncated: upstream closed before a terminal event"

    def __init__(self, *, new_id: Callable[[], str] = raws.hex32, now: Callable[[], float] = time.time) -> None:
        self.chunks = 0
        self.delivered = False
        self.complete = False
        self.over = False
        self.error: bytes | None = None
        self.usage: Usage | None = None
        self.size = 0
        self.finish = ""
        self._next = 0
        self._response = _NO_TEXT
        self._new_id = new_id
        self._now = now

    @property
    def carries(self) -> bool:
        """The stream said something: output, or an end that is an answer by itself (circuit-breaker 4)."""
        return self.delivered or self.finish in INCOMPLETE

    def take(self, event: Event) -> None:
        """Look at an event that goes to the client."""
        payload = event.data
        if payload is None or self.over:
            return
        self.chunks += 1
        known = _read(payload)
        if known.sequence_number >= self._next:
            self._next = known.sequence_number + 1
        kind = known.type
        if kind.endswith(".delta"):
            self._deliver(raws.text(known.delta))
        elif kind == "response.output_item.added":
            self._deliver(raws.text((raws.members(known.item) or {}).get("name")))
        elif kind in TERMINAL or kind in FAILURES:
            self._end(kind, known, payload)
        elif not kind and raws.filled(known.error):
            self.error = payload
        elif known.response is not _NO_TEXT and raws.utf8(payload):
            self._response = known.response

    def _deliver(self, text: str) -> None:
        if text:
            self.delivered = True
            self.size += len(text) if text.isascii() else len(text.encode())

    def _end(self, kind: str, known: _Known, payload: bytes) -> None:
        response = raws.members(known.response) or {}
        self.usage = read_usage(response.get("usage")) or self.usage
        if self.usage is not None and self.usage.completion:
            self.delivered = True
        if kind in FAILURES:
            self.error = payload
        if kind == "error":
            return  # a response.failed may follow, which some clients wait for
        self.complete = self.over = True
        if kind in TERMINAL:
            self.finish = _FINISH.get(incomplete_reason(response), "stop")

    def error_frame(self, message: str, kind: str) -> bytes:
        """``response.failed``, the next event of the provider's own response (v1-api 9.7)."""
        response: dict[str, Any] = dict(raws.members(self._response) or {})
        if not raws.text(response.get("id")):
            response = Envelope({}, f"resp_{self._new_id()}", int(self._now())).response("", "failed")
        response |= {"status": "failed", "error": failure(message, kind)}
        event = {"type": "response.failed", "sequence_number": self._next, "response": response}
        return b"event: response.failed\ndata: %b\n\n" % raws.encode(event)
