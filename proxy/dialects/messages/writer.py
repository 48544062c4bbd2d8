"""A chat answer as an answer of Anthropic's Messages API, whole and streamed (v1-api 12.3, 12.4). Pure."""

from collections.abc import Callable

import msgspec

from proxy import reasons
from proxy import usage as usages
from proxy.dialects import thoughtsig
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.messages import chunks, counts, errors
from proxy.dialects.messages.blocks import Blocks
from proxy.dialects.messages.raw import (
    ABSENT,
    ERRORS,
    Raw,
    decode_members,
    encode,
    hex32,
    inside,
    is_object,
    is_text,
    items_of,
    joined_text,
    members_of,
    text_of,
)
from proxy.stream.probe import DONE
from proxy.stream.sse import Event
from proxy.usage import Usage

_END_TURN, _TOOL_USE = "end_turn", "tool_use"
_STOP_REASONS = {"length": "max_tokens", "tool_calls": _TOOL_USE, "function_call": _TOOL_USE}
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'


class _Begun(msgspec.Struct, gc=False):
    type: str = ""


class _Seen(msgspec.Struct, gc=False):
    """Of an event of a provider's own stream, what says where the client is."""

    type: str = ""
    index: int = 0
    content_block: _Begun = msgspec.field(default_factory=_Begun)


_seen = msgspec.json.Decoder(_Seen).decode


class Writer:
    """*own*: what the client asked, in its own words. *new_id* makes the 32 hex digits of the message's id."""

    def __init__(self, own: Members, *, new_id: Callable[[], str] = hex32) -> None:
        self._id = f"msg_{new_id()}"
        self._model = ""
        self._blocks = Blocks(self._id)
        self._started = False
        self._over = False
        self._finish = ""
        self._usage: Usage | None = None

    # -- whole

    def whole(self, chat: bytes, model: str) -> bytes:
        """Raises Untranslatable for what is no chat completion."""
        try:
            top = decode_members(chat if chat.isascii() else chat.decode("utf-8", "replace"))
        except ERRORS:
            raise Untranslatable("not a chat completion") from None
        choice = next((members_of(item) for item in items_of(top.get("choices"))), {})
        message = members_of(choice.get("message"))
        usage = usages.read(top["usage"]) if "usage" in top else None
        calls = self._calls(message)
        return encode(
            {
                "id": self._id,
                "type": "message",
                "role": "assistant",
                "model": model,
                "content": [*_text(message), *calls],
                "stop_reason": _stop_reason(text_of(choice.get("finish_reason")), calls=bool(calls)),
                "stop_sequence": None,
                "usage": counts.of_chat(usage),
            }
        )

    def _calls(self, message: Members) -> list[dict[str, object]]:
        calls = [members_of(item) for item in items_of(message.get("tool_calls")) if is_object(item)]
        if not calls and is_object(message.get("function_call")):
            calls = [{"function": message["function_call"]}]
        found: list[dict[str, object]] = []
        for at, call in enumerate(calls):
            function = members_of(call.get("function"))
            call_id = text_of(call.get("id")) or f"toolu_{self._id}_{at}"
            found.append(
                {
                    "type": "tool_use",
                    "id": thoughtsig.join(call_id, chunks.signature(call)),
                    "name": text_of(function.get("name")),
                    "input": _input(function.get("arguments")),
                }
            )
        return found

    # -- streamed

    def begin(self, model: str) -> None:
        self._model = model

    def follow(self, event: Event) -> None:
        """An event of a native stream went to the client: :meth:`feed` may have to go on behind it."""
        try:
            seen = _seen(event.data or b"")
        except ERRORS:
            return
        if seen.type == "message_start":
            self._started = True
        elif seen.type == "content_block_start":
            self._blocks.began(seen.index, text=seen.content_block.type == "text")
        elif seen.type == "content_block_stop":
            self._blocks.ended()

    def feed(self, frames: bytes) -> bytes:
        """Nothing comes of what follows the end."""
        out: list[bytes] = []
        for event in frames.split(b"\n\n"):
            if self._over:
                break
            payload = event[6:] if event.startswith(b"data: ") and b"\n" not in event else _payload(event)
            if payload:
                out.append(self._take(payload))
        return b"".join(out)

    def end(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        blocks = self._begun(self._blocks.close(), always=True)
        usage = counts.of_chat(self._usage)
        if self._usage is None or not self._usage.prompt:
            del usage["input_tokens"]
        delta = {"stop_reason": _stop_reason(self._finish, calls=self._blocks.calls), "stop_sequence": None}
        said = encode({"type": "message_delta", "delta": delta, "usage": usage})
        return b"%bevent: message_delta\ndata: %b\n\n%b" % (blocks, said, _STOP)

    def error(self, message: str, kind: str) -> bytes:
        """*kind* has no place in this dialect."""
        if self._over:
            return b""
        self._over = True
        return errors.frame(message)

    def _begun(self, frames: bytes, *, always: bool = False) -> bytes:
        """*frames* behind the start of the message, where that was not sent yet."""
        if self._started or not (frames or always):
            return frames
        self._started = True
        message: dict[str, object] = {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        start = encode({"type": "message_start", "message": message})
        return b"event: message_start\ndata: %b\n\n%b%b" % (start, _PING, frames)

    def _take(self, payload: bytes) -> bytes:
        if payload.strip() == DONE:
            return self.end()
        chunk = chunks.read(payload)
        if chunk.error is not ABSENT and _populated(chunk.error):
            return self._failed(chunk.error)
        if chunk.usage is not ABSENT:
            self._usage = usages.later(self._usage, usages.read(chunk.usage))
        for choice in chunk.choices:
            if choice.index == 0:
                return self._choice(choice)
        return b""

    def _choice(self, choice: chunks.Choice) -> bytes:
        if choice.finish_reason:
            self._finish = choice.finish_reason
        delta = choice.delta
        if delta is None:
            return b""
        out = [self._blocks.text(text) for text in (delta.content, delta.refusal) if text]
        for at, call in enumerate(delta.tool_calls or ()):
            function = call.function or chunks.Function()
            google = call.extra_content.google if call.extra_content is not None else None
            made = self._blocks.call(
                at if call.index is None else call.index,
                call.id or "",
                function.name or "",
                function.arguments or "",
                google.thought_signature if google is not None else "",
            )
            out.append(made)
        if delta.function_call is not None:
            called = delta.function_call
            out.append(self._blocks.call(0, "", called.name or "", called.arguments or ""))
        return self._begun(b"".join(out))

    def _failed(self, error: Raw) -> bytes:
        """The provider's own error."""
        self._over = True
        members = members_of(error)
        message, kind = text_of(error) or text_of(members.get("message")), text_of(members.get("type"))
        return errors.frame(message or reasons.FAILED, kind if kind in errors.KNOWN else "api_error")


def _payload(event: bytes) -> bytes:
    lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


def _populated(raw: Raw) -> bool:
    return bytes(raw) not in (b"", b"null", b"{}", b"[]", b'""', b"false", b"0")


def _stop_reason(finish: str, *, calls: bool) -> str:
    """*calls*: a tool is to be used. Some providers say ``stop`` then, or nothing, and clients go by the reason."""
    if calls and finish in ("", "stop"):
        return _TOOL_USE
    return _STOP_REASONS.get(finish, _END_TURN)


def _text(message: Members) -> list[dict[str, object]]:
    """What was said, and in which words it was refused: the dialect has no place of its own for these."""
    text = joined_text(message.get("content")) + inside(message.get("refusal"))
    return [{"type": "text", "text": Raw(b'"%b"' % text)}] if text else []


def _input(arguments: Raw | None) -> Raw:
    """The object that *arguments* spell, as text or as themselves; an empty one for anything else."""
    raw = Raw(text_of(arguments).strip().encode()) if is_text(arguments) else arguments
    try:
        decode_members(raw if raw is not None else b"")
    except ERRORS:
        return Raw(b"{}")
    return raw if raw is not None else ABSENT
