"""The ``input`` of a Responses request as chat messages (v1-api 13.3). Pure."""

from collections.abc import Callable
from typing import Any

from proxy.body import BadBody
from proxy.dialects import thoughtsig
from proxy.dialects.base import Members
from proxy.dialects.responses import raws
from proxy.dialects.responses.raws import Raw
from proxy.dialects.responses.refusals import (
    FILE_REFERENCE,
    ITEM_TYPE,
    PART_TYPE,
    SERVER_STATE,
    missing,
    mistyped,
    refused,
)
from proxy.dialects.responses.tools import flat

_TEXTS = frozenset(("input_text", "output_text", "text"))
_MEDIA = frozenset(("input_image", "input_file"))
_STORED = frozenset(("item_reference", "compaction", "context_compaction"))
#: Items of earlier turns that other models have no use for. A web search is one, as the tool itself is (13.3).
_DROPPED = frozenset(("reasoning", "web_search_call"))
_ROLES = frozenset(("user", "assistant", "system", "developer"))
_NO_ROLE = "not a message role: use user, assistant, system or developer"


class Transcript:
    """*messages* in chat form, values being Raw or lists of them; *foreign* what only a native candidate can be asked.

    :meth:`add` raises BadBody for an item that nobody could be asked with.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.foreign: list[BadBody] = []

    def instruct(self, raw: Raw | None) -> None:
        """``instructions``: a string, or items whose texts are joined."""
        if raw is None or raws.absent(raw):
            return
        listed = raws.items(raw)
        if listed is None:
            self._system([self._string("instructions", raw)])
            return
        texts: list[Raw] = []
        for at, item in enumerate(listed):
            field = f"instructions[{at}]"
            texts += self._texts(field, self._object(field, item), frozenset())
        self._system(texts)

    def take(self, raw: Raw | None) -> None:
        """``input``: a string or a list of items."""
        if raw is None or raws.absent(raw):
            return
        listed = raws.items(raw)
        if listed is None:
            if not raws.starts(raw, b'"'):
                raise mistyped("input", "a string or a list")
            self.messages.append({"role": "user", "content": raw})
            return
        for at, item in enumerate(listed):
            self.add(f"input[{at}]", item)

    def add(self, field: str, raw: Raw) -> None:
        item = self._object(field, raw)
        kind = raws.text(item.get("type"))
        if not kind:
            kind = "message" if "role" in item else "item_reference" if "id" in item else ""
        if kind in _STORED:
            raise refused(field, SERVER_STATE)
        if kind in _DROPPED:
            return
        handler = _HANDLERS.get(kind)
        if handler is None:
            self.foreign.append(refused(field, ITEM_TYPE))
        else:
            handler(self, field, item)

    # -- items

    def _message(self, field: str, item: Members) -> None:
        role = raws.text(item.get("role"))
        if role not in _ROLES:
            raise refused(field, _NO_ROLE)
        if role == "user":
            self._user(field, item)
        elif role == "assistant":
            self._assistant(self._texts(field, item, frozenset(("refusal",))))
        else:
            self._system(self._texts(field, item, frozenset()))

    def _user(self, field: str, item: Members) -> None:
        content = item.get("content")
        if raws.starts(content, b'"'):
            self.messages.append({"role": "user", "content": content})
            return
        parts: list[Any] = []
        for place, part in self._parts(field, content):
            kind = raws.text(part.get("type"))
            if kind in _TEXTS:
                parts.append({"type": "text", "text": self._string(f"{place}.text", part.get("text"))})
            elif kind in _MEDIA:
                parts += self._medium(place, kind, part)
            else:
                self.foreign.append(refused(place, PART_TYPE))
        if parts:
            self.messages.append({"role": "user", "content": parts})

    def _medium(self, place: str, kind: str, part: Members) -> list[dict[str, Any]]:
        """The chat part of an image or a file; none where it is not in the request."""
        source = "image_url" if kind == "input_image" else "file_data"
        if not raws.absent(part.get(source)):
            self._string(f"{place}.{source}", part[source])
            if kind == "input_image":
                return [{"type": "image_url", "image_url": {"url": part[source], **raws.picked(part, "detail")}}]
            return [{"type": "file", "file": raws.picked(part, "file_data", "filename")}]
        if raws.filled(part.get("file_id")) or raws.filled(part.get("file_url")):
            self.foreign.append(refused(place, FILE_REFERENCE))
            return []
        raise missing(f"{place}.{source}")

    def _assistant(self, texts: list[Raw]) -> None:
        if not texts:
            return
        last = self.messages[-1] if self.messages else {}
        if last.get("role") == "assistant" and "tool_calls" in last:
            # Between a call and its output chat takes no other message.
            said = last["content"]
            last["content"] = raws.joined(texts if said is None else [said, *texts])
        else:
            self.messages.append({"role": "assistant", "content": raws.joined(texts)})

    def _system(self, texts: list[Raw]) -> None:
        if any(len(memoryview(text)) > 2 for text in texts):
            self.messages.append({"role": "system", "content": raws.joined(texts)})

    def _call(self, field: str, item: Members) -> None:
        name = raws.text(item.get("name"))
        if not name:
            raise missing(f"{field}.name")
        given = item.get("arguments")
        if given is None or raws.absent(given) or len(memoryview(given)) <= 2:
            words = raws.json("{}")
        else:
            words = given if raws.starts(given, b'"') else raws.json(bytes(given).decode())
        function = {"name": flat(raws.text(item.get("namespace")), name), "arguments": words}
        call_id, signature = self._call_id(field, item)
        call: dict[str, Any] = {"id": call_id, "type": "function", "function": function}
        if signature:
            call["extra_content"] = thoughtsig.extra(signature)
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": None}
            self.messages.append(last)
        last.setdefault("tool_calls", []).append(call)

    def _output(self, field: str, item: Members) -> None:
        call_id, _ = self._call_id(field, item)
        output = item.get("output")
        if raws.starts(output, b'"'):
            content = output
        else:
            texts = self._texts(field, item, _MEDIA, "output")
            content = raws.joined(texts) if texts else raws.json("")
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    # -- what items are made of

    @staticmethod
    def _object(field: str, raw: Raw) -> Members:
        found = raws.members(raw)
        if found is None:
            raise mistyped(field, "an object")
        return found

    @staticmethod
    def _string(field: str, raw: Raw | None) -> Raw:
        if raw is None or not raws.starts(raw, b'"'):
            raise mistyped(field, "a string")
        return raw

    @staticmethod
    def _call_id(field: str, item: Members) -> tuple[Raw, str]:
        """(*the id*, *the signature that it carried*)."""
        found = item.get("call_id")
        if found is None or not raws.text(found):
            raise missing(f"{field}.call_id")
        if thoughtsig.MARK not in bytes(found):
            return found, ""
        call_id, signature = thoughtsig.split(raws.text(found))
        return raws.json(call_id), signature

    def _parts(self, field: str, content: Raw | None, name: str = "content") -> list[tuple[str, Members]]:
        if raws.absent(content):
            return []
        listed = raws.items(content)
        if listed is None:
            raise mistyped(f"{field}.{name}", "a string or a list")
        places = [(f"{field}.{name}[{at}]", item) for at, item in enumerate(listed)]
        return [(place, self._object(place, item)) for place, item in places]

    def _texts(self, field: str, item: Members, dropped: frozenset[str], name: str = "content") -> list[Raw]:
        """The texts of an item that is text in chat; parts of the kinds *dropped* say nothing there."""
        content = item.get(name)
        if content is not None and raws.starts(content, b'"'):
            return [content]
        texts: list[Raw] = []
        for place, part in self._parts(field, content, name):
            kind = raws.text(part.get("type"))
            if kind in _TEXTS:
                texts.append(self._string(f"{place}.text", part.get("text")))
            elif kind not in dropped:
                self.foreign.append(refused(place, PART_TYPE))
        return texts


_HANDLERS: dict[str, Callable[[Transcript, str, Members], None]] = {
    "message": Transcript._message,
    "function_call": Transcript._call,
    "function_call_output": Transcript._output,
}
