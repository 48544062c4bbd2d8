"""The content blocks of one streamed message: one is open at a time, and every block is whole (v1-api 12.4). Pure.

Providers may mix the fragments of several tool calls. What comes for a block whose turn has not come is held until the
open one has ended: text ends where anything else begins, a tool call where its arguments are a whole JSON object.
"""

import re
from collections import deque

from proxy.dialects import thoughtsig
from proxy.dialects.messages.raw import encode

_MARKS = re.compile(r'[{}\[\]"\\]')


class _Block:
    """A block of text, or of a tool call where *call* is true; *foreign*: of something else that a provider began."""

    __slots__ = ("call", "foreign", "held", "id", "index", "name", "nesting", "over", "signature", "unread")

    def __init__(self, *, call: bool) -> None:
        self.call = call
        self.foreign = False
        self.index = -1  # its place among the blocks, once it is open
        self.over = False
        self.held: list[str] = []
        self.id = self.name = self.signature = ""
        self.nesting = _Nesting()
        self.unread: list[str] = []  # arguments that *nesting* has not seen

    def take(self, fragment: str) -> None:
        self.held.append(fragment)
        if self.call:
            self.unread.append(fragment)

    def whole(self) -> bool:
        """Nothing more belongs to it, when another block has begun."""
        if not self.call:
            return True
        self.nesting.read("".join(self.unread))
        self.unread.clear()
        return self.nesting.closed


class _Nesting:
    """How deep a JSON text that comes in pieces is nested just now."""

    __slots__ = ("closed", "depth", "skip", "string")

    def __init__(self) -> None:
        self.depth = 0
        self.closed = self.string = self.skip = False

    def read(self, text: str) -> None:
        at = 0
        while text and not self.closed:
            if self.skip:  # the character behind a backslash
                self.skip, at = False, at + 1
            found = _MARKS.search(text, at)
            if found is None:
                return
            mark, at = found[0], found.end()
            if self.string:
                self.string, self.skip = mark != '"', mark == "\\"
                if self.skip and at == len(text):
                    return
            elif mark == '"':
                self.string = True
            elif mark in "{[":
                self.depth += 1
            elif mark in "}]":
                self.depth -= 1
                self.closed = self.depth <= 0


class Blocks:
    """What every method returns are frames for the client."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._waiting: deque[_Block] = deque()  # the first one is open, or is to open next
        self._calls: dict[int, _Block] = {}
        self._opened = 0

    @property
    def calls(self) -> bool:
        """Whether there is a tool call among them."""
        return bool(self._calls)

    def text(self, text: str) -> bytes:
        waiting = self._waiting
        if not waiting or waiting[-1].call or waiting[-1].foreign:
            waiting.append(_Block(call=False))
        block = waiting[-1]
        if block.index >= 0:
            return _text_delta(block.index, text)
        block.take(text)
        return self._advance()

    def began(self, index: int, *, text: bool) -> None:
        """A provider's own stream began this block; the client has it."""
        block = _Block(call=False)
        block.index, block.foreign = index, not text
        self._opened = index + 1
        self._waiting = deque((block,))

    def ended(self) -> None:
        """It ended the block."""
        self._waiting.clear()

    def call(self, at: int, call_id: str, name: str, arguments: str, signature: str = "") -> bytes:
        """A fragment of the call that the chat stream numbers *at*."""
        block = self._calls.get(at)
        if block is None or (name and call_id and block.id not in ("", call_id)):
            block = self._calls[at] = _Block(call=True)
            self._waiting.append(block)
        if block.index < 0:
            block.id = block.id or call_id or f"toolu_{self._message_id}_{at}"
            block.name, block.signature = block.name or name, block.signature or signature
        if block.over:
            return b""  # blanks behind the arguments
        if arguments:
            block.take(arguments)
        return self._advance()

    def close(self) -> bytes:
        """Everything that waits, and the end of the last block."""
        return self._advance(to_the_end=True)

    def _advance(self, *, to_the_end: bool = False) -> bytes:
        out: list[bytes] = []
        while self._waiting:
            block = self._waiting[0]
            if block.index < 0:
                if block.call and not block.name and not to_the_end:
                    break  # it can not be announced yet
                block.index, self._opened = self._opened, self._opened + 1
                out.append(_start(block))
            out += [(_input_delta if block.call else _text_delta)(block.index, piece) for piece in block.held]
            block.held.clear()
            if not to_the_end and (len(self._waiting) == 1 or not block.whole()):
                break
            out.append(_frame(b"content_block_stop", block.index, b""))
            block.over = True
            self._waiting.popleft()
        return b"".join(out)


def _frame(kind: bytes, index: int, more: bytes) -> bytes:
    return b'event: %b\ndata: {"type":"%b","index":%d%b}\n\n' % (kind, kind, index, more)


def _start(block: _Block) -> bytes:
    if not block.call:
        return _frame(b"content_block_start", block.index, b',"content_block":{"type":"text","text":""}')
    opening = encode(
        {"type": "tool_use", "id": thoughtsig.join(block.id, block.signature), "name": block.name, "input": {}}
    )
    return _frame(b"content_block_start", block.index, b',"content_block":%b' % opening)


def _text_delta(index: int, text: str) -> bytes:
    return (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
        b'"delta":{"type":"text_delta","text":%b}}\n\n' % (index, encode(text))
    )


def _input_delta(index: int, text: str) -> bytes:
    return _frame(
        b"content_block_delta", index, b',"delta":{"type":"input_json_delta","partial_json":%b}' % encode(text)
    )
