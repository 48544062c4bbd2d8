"""The stream of a candidate that finishes another one's answer, as its client sees it (beyond 1). Pure.

One answer for the client: the id and the role it was begun with, no text twice, no reasoning behind text, the usage of
all that was billed, and a comment that tells tools what happened before the one end marker.
"""

import msgspec

from proxy import usage as usages
from proxy.dialects.chat import populated
from proxy.secrecy import Secrets
from proxy.stream.chat import END_MARK, REASONING
from proxy.stream.kept import Delivered, KeptStream
from proxy.stream.splice import Seam
from proxy.stream.sse import Event, Framer
from proxy.usage import Usage

Raw = msgspec.Raw
Members = dict[str, Raw]

COMMENT = b": model-hotel recovered\n\n"

_members = msgspec.json.Decoder(Members).decode
_items = msgspec.json.Decoder(list[Members]).decode
_parts = msgspec.json.Decoder(list[Raw]).decode
_value = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_NOTHING = Raw(b"null")


class RecoveredStream(KeptStream):
    """*kept* is what the client had before and gets now, *seam* joins the text."""

    __slots__ = ("_first", "_last", "_seam", "_told")

    def __init__(
        self,
        secrets: Secrets,
        kept: Delivered,
        seam: Seam,
        billed: Usage,
        *,
        strip_reasoning: bool = False,
        send_usage: bool = False,
    ) -> None:
        super().__init__(secrets, kept, strip_reasoning=strip_reasoning, send_usage=send_usage)
        self._seam = seam
        self.billed = billed
        self._first = _encode(kept.id) if kept.id else b""
        self._last = b""
        self._told = kept.role

    @property
    def over(self) -> bool:
        return self._seam.diverged or super().over

    def diverged(self) -> bool:
        if self.complete:
            self._last = self._rest()
        return self._seam.diverged

    def end_mark(self) -> bytes:
        return self._last + COMMENT + END_MARK

    def repeated(self, data: bytes, *, whole: bool = False) -> int:
        return 0  # every chunk has the wrong id

    def take(self, event: Event) -> bytes:
        out = super().take(event)
        if not out or event.data is None:
            return out
        if self.done:
            rest = self._rest()
            return b"" if self._seam.diverged else rest + COMMENT + out
        return b"".join(self._joined(part) for part in Framer().feed(out))

    def _rest(self) -> bytes:
        """The text still kept back when the candidate's text is over, as a chunk of its own."""
        text = self._seam.end()
        if not text:
            return b""
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
        chunk = {"id": self.kept.id or "chatcmpl", "object": "chat.completion.chunk", "choices": [choice]}
        return b"data: %b\n\n" % _encode(chunk)

    def _joined(self, event: Event) -> bytes:
        """*event*, one chunk as this candidate's own client would get it, as a chunk of the answer begun before."""
        if event.data is None:
            return event.raw
        try:
            top = _members(event.data)
            choices = _items(top["choices"]) if populated(top.get("choices", _NOTHING)) else []
            says = self._join_choice(choices[0]) if choices else True
        except (msgspec.MsgspecError, RecursionError):
            return event.raw  # no chat chunk
        if self._seam.diverged:
            return b""
        if self._first and "id" in top:
            top["id"] = Raw(self._first)
        if populated(top.get("usage", _NOTHING)):
            top["usage"] = Raw(_encode(_added(_value(top["usage"]), self.billed)))
            says = True
        if not says:
            return event.without_data()
        if choices:
            top["choices"] = Raw(_encode(choices))
        return event.carrying(_encode(top))

    def _join_choice(self, choice: Members) -> bool:
        """Change *choice*; whether it still says something."""
        ends = populated(choice.get("finish_reason", _NOTHING))
        delta = _members(choice["delta"]) if populated(choice.get("delta", _NOTHING)) else {}
        if self._told:
            delta.pop("role", None)
        for name in REASONING:
            delta.pop(name, None)
        text = ""
        if bytes(delta.get("content", _NOTHING))[:1] in (b'"', b"n"):
            said = _value(delta.pop("content", _NOTHING))
            text = self._seam.take(said) if said else ""
        if ends or any(name != "role" and populated(value) for name, value in delta.items()):
            text += self._seam.end()
        if text:
            parts = _parts(delta["content"]) if "content" in delta else None
            delta["content"] = Raw(_encode(text if parts is None else [{"type": "text", "text": text}, *parts]))
        choice["delta"] = Raw(_encode(delta))
        return ends or bool(delta)


def _added(usage: object, billed: Usage) -> object:
    """The counts of a ``usage`` object and those that were *billed* before."""
    if not isinstance(usage, dict):
        return usage
    both = billed + (usages.read(usage) or Usage())
    total = {
        **usage,
        "prompt_tokens": both.prompt,
        "completion_tokens": both.completion,
        "total_tokens": both.total,
    }
    for name, part, count in (
        ("completion_tokens_details", "reasoning_tokens", both.reasoning),
        ("prompt_tokens_details", "cached_tokens", both.cache_hit),
    ):
        details = usage.get(name)
        if count and isinstance(details, dict):
            total[name] = {**details, part: count}
    return total
