"""One answer as it grows: which item a delta belongs to, what is open, what closes (v1-api 13.5). Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from proxy.dialects import thoughtsig
from proxy.dialects.responses import raws
from proxy.dialects.responses.output import BROKEN_OFF, REFUSAL, TEXT, Call, Emit, Foreign, Message, Reasoning


class Turn:
    """Every method gives the frames that tell of the change. *names*: flat name -> (namespace, name).

    *new_id* gives the variable part of an id.
    """

    def __init__(self, emit: Emit, names: Mapping[str, tuple[str, str]], new_id: Callable[[], str]) -> None:
        self._emit = emit
        self._names = names
        self._new_id = new_id
        self._items: list[Reasoning | Message | Call | Foreign] = []  # by output index
        self._prose: Reasoning | Message | Foreign | None = None
        self._calls: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._closed = False

    @property
    def message(self) -> Message | None:
        """The message that text goes to without further ado."""
        prose = self._prose
        return prose if isinstance(prose, Message) and prose.writing else None

    def reasoning(self, text: str) -> bytes:
        prose, out = self._prose, b""
        if not isinstance(prose, Reasoning):
            out = self._close_prose()
            prose = self._prose = Reasoning(f"rs_{self._new_id()}", len(self._items))
            self._items.append(prose)
            out += prose.open(self._emit)
        return out + prose.add(self._emit, text)

    def text(self, text: str) -> bytes:
        return self._say(TEXT, text)

    def refusal(self, text: str) -> bytes:
        return self._say(REFUSAL, text)

    def _say(self, kind: str, text: str) -> bytes:
        prose, out = self._prose, b""
        if not isinstance(prose, Message):
            out = self._close_prose()
            prose = self._prose = Message(f"msg_{self._new_id()}", len(self._items))
            self._items.append(prose)
            out += prose.open(self._emit)
        return out + prose.add(self._emit, kind, text)

    def _close_prose(self) -> bytes:
        prose, self._prose = self._prose, None
        return b"" if prose is None else prose.close(self._emit)

    # -- what a provider's own stream told the client

    def began(self, item: dict[str, Any]) -> None:
        """An item was added."""
        identity = item.get("id")
        if item.get("type") == "message" and isinstance(identity, str):
            self._prose = Message(identity, len(self._items))
        else:
            self._prose = Foreign(len(self._items), item)
        self._items.append(self._prose)

    def told(self, text: str) -> None:
        """Text was added to the message that is open."""
        if isinstance(self._prose, Message):
            self._prose.begin_text()
            self._prose.append(text)

    def ended(self, item: dict[str, Any]) -> None:
        """The item that was added last is done."""
        if self._items:
            self._items[-1] = Foreign(len(self._items) - 1, item)
        self._prose = None

    # -- calls

    def fragment(self, fragment: object) -> bytes:
        """A decoded element of a delta's ``tool_calls``."""
        if not isinstance(fragment, dict):
            return b""
        function = fragment.get("function")
        function = function if isinstance(function, dict) else {}
        name, stated = _string(function.get("name")), _string(fragment.get("id"))
        call = self._call(fragment.get("index"), stated, name)
        call.introduce(stated, name, thoughtsig.of(fragment.get("extra_content")))
        piece = _piece(function.get("arguments"))
        out = self._close_prose()
        if piece:
            out += call.add(self._emit if call.opened else None, piece)
        if call.name and not call.opened:
            out += self._open(call)
        return out

    def _call(self, index: object, stated: str, name: str) -> Call:
        """The call that a fragment belongs to, by its index, else its id, else the last one; it may be a new one."""
        known: Call | None
        if isinstance(index, int):
            known = self._by_index.get(index)
        elif stated:
            known = next((call for call in self._calls if call.stated == stated), None)
        else:
            known = self._calls[-1] if self._calls else None
        if known is None or known.ended_by(stated, name):
            known = Call()
            self._calls.append(known)
            if isinstance(index, int):
                self._by_index[index] = known
        return known

    def _open(self, call: Call) -> bytes:
        call.index = len(self._items)
        call.id = f"fc_{self._new_id()}"
        call.call_id = thoughtsig.join(call.stated or f"call_{self._new_id()}", call.signature)
        self._items.append(call)
        return call.open(self._emit, self._names)

    # -- the end

    def close(self, *, cut: bool = False) -> bytes:
        """The turn ended: whatever is open is finished. *cut*: it ended before everything was said."""
        self._closed = True
        out = [self._close_prose()]
        for call in self._calls:
            if not call.opened and not call.empty:
                out.append(self._open(call))
        out += [call.close(self._emit, self._names, cut=cut) for call in self._calls if call.opened]
        return b"".join(out)

    def output(self) -> list[dict[str, Any]]:
        """The items so far; text that broke off says so, and a call that did is none: its arguments are not whole."""
        found: list[dict[str, Any]] = []
        for item in self._items:
            if isinstance(item, Call):
                if self._closed:
                    found.append(item.item(self._names))
            else:
                found.append(item.item(BROKEN_OFF) if item is self._prose else item.item())
        return found


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _piece(value: object) -> str:
    """Arguments: JSON text, or the object itself as some providers write it."""
    if isinstance(value, dict):
        return raws.encode(value).decode()
    return _string(value)
