"""What is changed in a chat chunk on its way to the client (v1-api 10.5). Pure.

Only members that must change are decoded and written anew; everything else stays the bytes that came. Run on chunks
that may need it, first choice only, one chunk out for one chunk in.
"""

import re

import msgspec

from proxy.dialects.chat import FINISH_REASONS, detailed_reasoning, populated

Raw = msgspec.Raw
Members = dict[str, Raw]

_members = msgspec.json.Decoder(Members).decode
_items = msgspec.json.Decoder(list[Members]).decode
_value = msgspec.json.Decoder().decode
_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_OPEN = re.compile(r"<(thinking|thought|start_thought|think)>")
_FENCE_OPEN, _FENCE_CLOSE = re.compile(r"\s*<<\n"), "\n>>"


class Thinking:
    """Thinking that a model writes into its content, followed over the chunks of one stream.

    A tag that opens where the content begins stays open until it is closed, however many chunks later; one that opens
    further on counts for its own chunk only, because it may be prose about tags. What may be the first half of the
    closing tag is kept back for the next chunk.
    """

    __slots__ = ("_close", "_held", "begun")

    def __init__(self) -> None:
        self.begun = False  # visible text was seen
        self._close = ""  # the closing tag that is waited for
        self._held = ""

    @property
    def inside(self) -> bool:
        return self._close != ""

    def take(self, content: str) -> tuple[str, str]:
        """(*thinking*, what is left of *content*)."""
        text, self._held = self._held + content, ""
        thoughts: list[str] = []
        rest: list[str] = []
        at = 0
        while at < len(text):
            if not self._close:
                at = self._outside(text, at, rest)
                continue
            end = text.find(self._close, at)
            if end < 0:
                left = text[at:]
                keep = _overlap(left, self._close)
                thoughts.append(left[: len(left) - keep])
                self._held = left[len(left) - keep :]
                break
            thoughts.append(text[at:end])
            at = end + len(self._close)
            self._close = ""
        if self.begun and self._close:
            thoughts.append(self._held)
            self._close = self._held = ""
        return "".join(thoughts), "".join(rest)

    def flush(self) -> str:
        """What was kept back, when no more content comes."""
        held, self._held = self._held, ""
        return held

    def _outside(self, text: str, at: int, rest: list[str]) -> int:
        """Move what stands between *at* and the next opening tag to *rest*; where what follows the tag begins."""
        if not self.begun and not rest and (fence := _FENCE_OPEN.match(text, at)) is not None:
            self._close = _FENCE_CLOSE
            return fence.end()
        found = _OPEN.search(text, at)
        before = text[at:] if found is None else text[at : found.start()]
        if before:
            rest.append(before)
            self.begun = self.begun or not before.isspace()
        if found is None:
            return len(text)
        self._close = f"</{found[1]}>"
        return found.end()


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of *text* are the beginning of *tag*."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if text.endswith(tag[:size]):
            return size
    return 0


class ChunkTransforms:
    """The transforms of one stream."""

    __slots__ = ("_finish", "_strip", "thinking")

    def __init__(self, *, strip_reasoning: bool) -> None:
        self._strip = strip_reasoning
        self._finish = ""
        self.thinking = Thinking()

    def needed(self, choices: object) -> bool:
        """Whether decoded *choices* may need a change; False for most chunks, and cheap."""
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            return False
        delta = choice.get("delta")
        if choice.get("finish_reason") or not isinstance(delta, dict):
            return True
        if any(delta.get(name) for name in _REASONING):
            return True
        content = delta.get("content")
        return isinstance(content, str) and content != "" and ("<" in content or self.thinking.inside)

    def apply(self, payload: bytes) -> bytes | None:
        """*payload* itself when nothing changes, the new payload, or None when the chunk is to be dropped.

        *payload* is valid JSON; a shape that is not a chat chunk's passes unchanged.
        """
        try:
            top = _members(payload)
            choices = _items(top["choices"])
            delta = _members(choices[0].get("delta", Raw(b"{}")))
        except (msgspec.ValidationError, KeyError, IndexError):
            return payload
        choice = choices[0]
        stated = _string(choice.get("finish_reason"))
        finish = FINISH_REASONS.get(stated, stated)
        changed = self._reasoning(delta, ends=bool(finish))
        if finish and self._repeats(finish, delta, top):
            return None
        if finish != stated:
            choice["finish_reason"] = Raw(_encode(finish))
            changed = True
        if self._strip and self._stripped(delta):
            changed = True
            if len(choices) == 1 and not finish and not _says_something(delta):
                return _hollow(top)
        if not changed:
            return payload
        if "delta" in choice or delta:
            choice["delta"] = Raw(_encode(delta))
        top["choices"] = Raw(_encode(choices))
        return _encode(top)

    def _repeats(self, finish: str, delta: Members, top: Members) -> bool:
        """A finish reason that was stated before, on a chunk that has nothing else to say."""
        before, self._finish = self._finish, finish
        if finish != before or populated(top.get("usage", Raw(b"null"))):
            return False
        return not any(populated(value) for name, value in delta.items() if name != "role")

    def _reasoning(self, delta: Members, *, ends: bool) -> bool:
        """Fill an empty ``reasoning_content``; drop an empty ``content`` beside it. True when *delta* changed."""
        changed = False
        content = _string(delta.get("content"))
        if not populated(delta.get("reasoning_content", Raw(b"null"))):
            found = _string(delta.get("reasoning"))
            if not found and "reasoning_details" in delta:
                found = detailed_reasoning(_value(delta["reasoning_details"]))
            if not found and (content or ends):
                found, rest = self.thinking.take(content)
                if ends and not rest:
                    found += self.thinking.flush()
                if rest != content:
                    delta["content"] = Raw(_encode(rest))
                    content, changed = rest, True
            if found:
                delta["reasoning_content"] = Raw(_encode(found))
                changed = True
        if bytes(delta.get("content", Raw())) == b'""' and populated(delta.get("reasoning_content", Raw(b"null"))):
            del delta["content"]
            changed = True
        return changed

    def _stripped(self, delta: Members) -> bool:
        """Take all reasoning out of *delta*. True when there was some."""
        found = [name for name in _REASONING if name in delta]
        if not any(populated(delta[name]) for name in found):
            return False
        for name in found:
            del delta[name]
        if bytes(delta.get("content", Raw())) in (b'""', b"null"):
            del delta["content"]
        if set(delta) == {"role"}:
            del delta["role"]
        return True


def _string(raw: Raw | None) -> str:
    """The text of a string member, empty for anything else."""
    if raw is None or not bytes(raw).startswith(b'"'):
        return ""
    return _text(raw)


def _says_something(delta: Members) -> bool:
    return "role" in delta or any(populated(value) for value in delta.values())


def _hollow(top: Members) -> bytes:
    """What a client sees instead of a chunk with nothing but reasoning; keeps the connection alive."""
    chunk: dict[str, object] = {
        "id": _string(top.get("id")) or "chatcmpl",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}}],
    }
    if populated(top.get("usage", Raw(b"null"))):
        chunk["usage"] = top["usage"]
    return _encode(chunk)
