"""The output items of a Response object, grown from chat deltas, and the events that tell of them (v1-api 13.5). Pure.

One reasoning or message item is open at a time. Function calls stay open until the turn ends, so that their fragments
may come interleaved, and close once with their full arguments.
"""

from collections.abc import Callable, Mapping
from typing import Any

from proxy.dialects.responses import raws

Emit = Callable[..., bytes]
"""(event type, **members) -> one SSE frame."""

COMPLETED, IN_PROGRESS, BROKEN_OFF = "completed", "in_progress", "incomplete"
TEXT, REFUSAL = "output_text", "refusal"


class Reasoning:
    """An open reasoning item."""

    def __init__(self, identity: str, index: int) -> None:
        self.place = {"item_id": identity, "output_index": index, "summary_index": 0}
        self.index = index
        self._id = identity
        self._texts: list[str] = []

    def item(self, status: str = COMPLETED) -> dict[str, Any]:
        summary = [self._part()] if self._texts else []
        return {"type": "reasoning", "id": self._id, "summary": summary, "status": status}

    def _part(self) -> dict[str, str]:
        return {"type": "summary_text", "text": "".join(self._texts)}

    def open(self, emit: Emit) -> bytes:
        added = emit("response.output_item.added", output_index=self.index, item=self.item(IN_PROGRESS))
        return added + emit("response.reasoning_summary_part.added", **self.place, part=self._part())

    def add(self, emit: Emit, text: str) -> bytes:
        self._texts.append(text)
        return emit("response.reasoning_summary_text.delta", **self.place, delta=text)

    def close(self, emit: Emit) -> bytes:
        part = self._part()
        return b"".join(
            (
                emit("response.reasoning_summary_text.done", **self.place, text=part["text"]),
                emit("response.reasoning_summary_part.done", **self.place, part=part),
                emit("response.output_item.done", output_index=self.index, item=self.item()),
            )
        )


class Message:
    """An open message item: at most one part of text and one of refusal, numbered in the order they began."""

    def __init__(self, identity: str, index: int) -> None:
        self.index = index
        self.id = identity
        self._parts: dict[str, list[str]] = {}

    def item(self, status: str = COMPLETED) -> dict[str, Any]:
        parts = [part_of(kind, "".join(texts)) for kind, texts in self._parts.items()]
        return {"type": "message", "id": self.id, "role": "assistant", "status": status, "content": parts}

    def place(self, kind: str) -> dict[str, Any]:
        return {"item_id": self.id, "output_index": self.index, "content_index": list(self._parts).index(kind)}

    def open(self, emit: Emit) -> bytes:
        return emit("response.output_item.added", output_index=self.index, item=self.item(IN_PROGRESS))

    def add(self, emit: Emit, kind: str, text: str) -> bytes:
        opened = b""
        if kind not in self._parts:
            self._parts[kind] = []
            opened = emit("response.content_part.added", **self.place(kind), part=part_of(kind, ""))
        self._parts[kind].append(text)
        return opened + self._told(emit, kind, "delta", delta=text)

    def append(self, text: str) -> None:
        """Text whose event somebody else writes; a text part is open."""
        self._parts[TEXT].append(text)

    def begin_text(self) -> None:
        """A text part was opened by somebody else."""
        self._parts.setdefault(TEXT, [])

    @property
    def writing(self) -> bool:
        """A text part is open."""
        return TEXT in self._parts

    def _told(self, emit: Emit, kind: str, step: str, **members: object) -> bytes:
        logprobs: dict[str, object] = {"logprobs": []} if kind == TEXT else {}
        return emit(f"response.{kind}.{step}", **self.place(kind), **members, **logprobs)

    def close(self, emit: Emit) -> bytes:
        out: list[bytes] = []
        for kind, texts in self._parts.items():
            words = "".join(texts)
            said = {"text": words} if kind == TEXT else {"refusal": words}
            out.append(self._told(emit, kind, "done", **said))
            out.append(emit("response.content_part.done", **self.place(kind), part=part_of(kind, words)))
        out.append(emit("response.output_item.done", output_index=self.index, item=self.item()))
        return b"".join(out)


class Foreign:
    """An item that a provider's own stream began: it is told as it was told last."""

    def __init__(self, index: int, item: dict[str, Any]) -> None:
        self.index = index
        self.last = item

    def item(self, status: str = "") -> dict[str, Any]:
        """*status*: the one to be told, where the provider did not get to its own."""
        return {**self.last, "status": status} if status else self.last

    def close(self, emit: Emit) -> bytes:
        self.last = self.item(BROKEN_OFF)
        return emit("response.output_item.done", output_index=self.index, item=self.last)


def part_of(kind: str, words: str) -> dict[str, Any]:
    """A content part of a message."""
    if kind == REFUSAL:
        return {"type": REFUSAL, "refusal": words}
    return {"type": TEXT, "text": words, "annotations": [], "logprobs": []}


class Call:
    """A function call, open once its name is known: nothing can be said of it before."""

    def __init__(self) -> None:
        self.stated = ""  # the call id as the provider gave it, once it did
        self.signature = ""  # of Gemini's thought
        self.call_id = ""
        self.name = ""
        self.index = -1
        self.id = ""
        self.status = COMPLETED
        self._pieces: list[str] = []

    @property
    def opened(self) -> bool:
        return self.index >= 0

    @property
    def empty(self) -> bool:
        return not (self.stated or self.name or self._pieces)

    def ended_by(self, stated: str, name: str) -> bool:
        """Whether a fragment with this id and name begins another call, though it came under the same index."""
        if not name:
            return False
        if stated and self.stated:
            return stated != self.stated
        return bool(self.name) and (name != self.name or self._whole())

    def _whole(self) -> bool:
        words = "".join(self._pieces)
        return words.rstrip().endswith("}") and raws.arguments(words) == words

    def introduce(self, stated: str, name: str, signature: str) -> None:
        """What a fragment says of the call itself; the first word counts."""
        self.signature = self.signature or signature
        self.stated = self.stated or stated
        self.name = self.name or name

    def add(self, emit: Emit | None, piece: str) -> bytes:
        """*emit* is None while the call is not open."""
        self._pieces.append(piece)
        return b"" if emit is None else self._delta(emit, piece)

    def open(self, emit: Emit, names: Mapping[str, tuple[str, str]]) -> bytes:
        """With :attr:`index`, :attr:`id` and :attr:`call_id` set; what came of the arguments follows at once."""
        item = call_item(self.id, self.call_id, self.name, "", IN_PROGRESS, names)
        out = emit("response.output_item.added", output_index=self.index, item=item)
        words = "".join(self._pieces)
        return out + self._delta(emit, words) if words else out

    def _delta(self, emit: Emit, piece: str) -> bytes:
        return emit("response.function_call_arguments.delta", item_id=self.id, output_index=self.index, delta=piece)

    def item(self, names: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
        return call_item(self.id, self.call_id, self.name, "".join(self._pieces), self.status, names)

    def close(self, emit: Emit, names: Mapping[str, tuple[str, str]], *, cut: bool = False) -> bytes:
        """*cut*: the answer was. A call that is not whole then says so and keeps what came of its arguments: nobody
        shall run it with others.
        """
        if cut and not raws.is_json("".join(self._pieces)):
            self.status = BROKEN_OFF
        item = self.item(names)
        words = item["arguments"]
        out = self._delta(emit, words) if words and not self._pieces else b""
        out += emit(
            "response.function_call_arguments.done",
            item_id=self.id,
            output_index=self.index,
            name=item["name"],
            arguments=words,
        )
        return out + emit("response.output_item.done", output_index=self.index, item=item)


def call_item(
    identity: str, call_id: str, name: str, words: str, status: str, names: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    """A function call item; a tool of a namespace under the name the client knows it by. *words*: its arguments."""
    namespace, own = names.get(name, ("", name))
    item = {"type": "function_call", "id": identity, "call_id": call_id, "name": own}
    if namespace:
        item["namespace"] = namespace
    given = raws.arguments(words) if status == COMPLETED else words
    return {**item, "arguments": given, "status": status}
