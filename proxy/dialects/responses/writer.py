"""A chat answer as the Responses client gets it: one Response object, or events (v1-api 13.4 and 13.5). Pure."""

import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.responses import raws
from proxy.dialects.responses.envelope import INCOMPLETE, Envelope, Spent, failure, failure_of
from proxy.dialects.responses.output import TEXT, Message
from proxy.dialects.responses.tools import origins
from proxy.dialects.responses.turn import Turn
from proxy.stream.probe import DONE
from proxy.stream.sse import Event, Framer


class _Delta(msgspec.Struct, gc=False):
    """A delta of text and nothing else; any other fails the decoding."""

    content: str
    reasoning_content: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    finish_reason: None = None
    index: Literal[0] = 0


class _Chunk(msgspec.Struct, gc=False):
    choices: tuple[_Choice]
    usage: None = None
    error: None = None


_DATA, _BLANK = b"data: ", b"\n\n"

_chunk = msgspec.json.Decoder(_Chunk).decode


def _mute(_kind: str, **_members: object) -> bytes:
    return b""


class Writer:
    """One answer for one client, whose body was *own*.

    *new_id* gives the variable part of ids (32 hex digits), *now* the seconds since 1970.
    """

    def __init__(
        self, own: Members, *, new_id: Callable[[], str] = raws.hex32, now: Callable[[], float] = time.time
    ) -> None:
        self._envelope = Envelope(own, f"resp_{new_id()}", int(now()))
        self._names = origins(own)
        self._new_id = new_id
        self._turn = Turn(self._frame, self._names, new_id)
        self._framer = Framer()
        self._spent = Spent()
        self._model = ""
        self._number = 0
        self._finish = ""
        self._begun = False
        self._over = False
        self._text_place: tuple[Message | None, bytes] = (None, b"")

    # -- an answer that came whole

    def whole(self, chat: bytes, model: str) -> bytes:
        """A chat completion as a Response object. Raises Untranslatable where it has no choice."""
        completion = raws.loose(raws.mended(chat))
        try:
            choice = completion["choices"][0]
            message = choice.get("message")
        except (LookupError, TypeError, AttributeError):
            raise Untranslatable("the chat completion has no choice") from None
        turn = Turn(_mute, self._names, self._new_id)
        message = message if isinstance(message, dict) else {}
        if isinstance(calls := message.get("tool_calls"), list):
            # Each is one call, whatever it says of itself.
            each = [{**call, "index": at} for at, call in enumerate(calls) if isinstance(call, dict)]
            message = {**message, "tool_calls": each}
        _grow(turn, message)
        turn.close()
        self._spent.take(completion.get("usage"))
        return raws.encode(self._finished(model, turn, choice.get("finish_reason")))

    def _finished(self, model: str, turn: Turn, finish: object) -> dict[str, Any]:
        reason = INCOMPLETE.get(finish) if isinstance(finish, str) else None
        status = "incomplete" if reason else "completed"
        return self._envelope.response(model, status, turn.output(), reason=reason, usage=self._spent.usage())

    # -- a stream

    def begin(self, model: str) -> None:
        """*model* serves from here on."""
        self._model = model

    def follow(self, event: Event) -> None:
        """An event of a native stream went to the client: :meth:`feed` may have to go on behind it."""
        seen = raws.value(event.data)
        if not isinstance(seen, dict):
            return
        self._begun = True
        number, item, response = seen.get("sequence_number"), seen.get("item"), seen.get("response")
        if isinstance(number, int):
            self._number = number + 1
        if isinstance(response, dict) and isinstance(response.get("id"), str):
            self._envelope.id = response["id"]
        match seen.get("type"):
            case "response.output_item.added" if isinstance(item, dict):
                self._turn.began(item)
            case "response.output_item.done" if isinstance(item, dict):
                self._turn.ended(item)
            case "response.output_text.delta" if isinstance(seen.get("delta"), str):
                self._turn.told(seen["delta"])

    def feed(self, frames: bytes) -> bytes:
        """The events for what whole chat events say."""
        if frames.startswith(_DATA) and frames.endswith(_BLANK) and b"\r" not in frames and self._framer.at_rest:
            payloads = frames[len(_DATA) : -len(_BLANK)].split(_BLANK + _DATA)
            if frames.count(b"\n") == len(_BLANK) * len(payloads):  # the usual form, nothing but payloads
                return b"".join([self._payload(payload) for payload in payloads])
        return b"".join([self._event(event) for event in self._framer.feed(frames)])

    def end(self) -> bytes:
        """The end of a complete answer."""
        rest = b"".join([self._event(event) for event in self._framer.finish()])
        return rest + self._end()

    def error(self, message: str, kind: str) -> bytes:
        """The end of an answer that broke."""
        return self._fail(failure(message, kind))

    def _event(self, event: Event) -> bytes:
        if self._over:
            return b""
        comments = event.without_data() if event.rest else b""
        return comments if event.data is None else comments + self._payload(event.data)

    def _payload(self, payload: bytes) -> bytes:
        if self._over:
            return b""
        message = self._turn.message
        if message is not None and not self._finish:
            try:
                text = _chunk(payload).choices[0].delta.content
            except raws.ERRORS:
                return self._general(payload)
            if text:
                message.append(text)
                return self._text(message, text)
        return self._general(payload)

    def _text(self, message: Message, text: str) -> bytes:
        """The usual event, put together from what does not change."""
        known, place = self._text_place
        if known is not message:
            place = b",%b," % raws.encode(message.place(TEXT))[1:-1]
            self._text_place = (message, place)
        number = self._number
        self._number = number + 1
        return (
            b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","sequence_number":%d'
            b'%b"delta":%b,"logprobs":[]}\n\n' % (number, place, raws.encode(text))
        )

    def _general(self, payload: bytes) -> bytes:
        if payload.strip() == DONE:
            return self._end()
        frame = raws.loose(raws.mended(payload))
        if not isinstance(frame, dict):
            return b""
        if frame.get("error"):
            return self._fail(failure_of(frame["error"]))
        if frame.get("usage"):
            self._spent.take(frame["usage"])
        return self._begin() + self._choice(frame.get("choices"))

    def _choice(self, choices: object) -> bytes:
        choice = choices[0] if isinstance(choices, list) and choices else None
        if self._finish or not isinstance(choice, dict) or choice.get("index"):
            return b""
        delta, finish = choice.get("delta"), choice.get("finish_reason")
        out = _grow(self._turn, delta) if isinstance(delta, dict) else b""
        if isinstance(finish, str) and finish:
            self._finish = finish
            out += self._turn.close(cut=finish in INCOMPLETE)
        return out

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        response = self._envelope.response(self._model, "in_progress")
        return self._frame("response.created", response=response) + self._frame(
            "response.in_progress", response=response
        )

    def _end(self) -> bytes:
        if self._over:
            return b""
        out = self._begin()
        if not self._finish:
            out += self._turn.close()
        self._over = True
        response = self._finished(self._model, self._turn, self._finish)
        return out + self._frame(f"response.{response['status']}", response=response)

    def _fail(self, error: dict[str, str]) -> bytes:
        if self._over:
            return b""
        out = self._begin()
        self._over = True
        output, usage = self._turn.output(), self._spent.usage()
        response = self._envelope.response(self._model, "failed", output, error=error, usage=usage)
        return out + self._frame("response.failed", response=response)

    def _frame(self, kind: str, **members: object) -> bytes:
        number = self._number
        self._number = number + 1
        data = raws.encode({"type": kind, "sequence_number": number, **members})
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def _grow(turn: Turn, said: dict[str, Any]) -> bytes:
    """What a delta, or the message of a whole answer, adds to *turn*."""
    out: list[bytes] = []
    if text := _words(said.get("reasoning_content")):
        out.append(turn.reasoning(text))
    if text := _words(said.get("content")):
        out.append(turn.text(text))
    if text := _words(said.get("refusal")):
        out.append(turn.refusal(text))
    calls = said.get("tool_calls")
    for fragment in calls if isinstance(calls, list) else ():
        out.append(turn.fragment(fragment))
    old = said.get("function_call")
    if isinstance(old, dict) and not calls:
        out.append(turn.fragment({"function": old}))
    return b"".join(out)


def _words(value: object) -> str:
    """Text, or the joined text parts of a list."""
    if isinstance(value, list):
        texts = [part.get("text") for part in value if isinstance(part, dict)]
        return "".join([text for text in texts if isinstance(text, str)])
    return value if isinstance(value, str) else ""
