"""Bodies and answers of every endpoint of ``/v1`` in which each text of a person, a model or a file is a marker.

A marker is a stem that nothing else has and a number that says where it stood: of which endpoint, in which case, at
which place.
"""

import base64
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.upstream.behaviours import head
from tests.upstream.server import DONE, Behaviour, Wire, completion, delta, events, reply, sse

STEM = "qzsealed"
_DIGITS = 12
_FOUND = re.compile(rf"{STEM}([0-9a-f]{{1,{_DIGITS}}})", re.IGNORECASE)


def _packed() -> list[str]:
    """The stem in base64 at each of the three places it may begin at, without what its neighbours have a part in."""
    return [base64.b64encode(b" " * n + STEM.encode()).decode()[4 if n else 0 :][:8] for n in range(3)]


_PACKED = _packed()


class Marks:
    """Makes markers and finds them again; *where* says what is asked just now."""

    def __init__(self) -> None:
        self.where = ""
        self._made: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        number = secrets.token_hex(_DIGITS // 2)
        self._made[number] = f"{self.where}: {place}"
        return f"{STEM}{number}"

    def found(self, text: str) -> set[str]:
        """Where each marker in *text* stood."""
        seen = {self._said(number.lower()) for number in _FOUND.findall(text)}
        return seen | {"something in base64" for packed in _PACKED if packed in text}

    def _said(self, digits: str) -> str:
        made = (what for number, what in self._made.items() if number.startswith(digits))
        return next(made, "a marker nobody made")


@dataclass(frozen=True)
class Sent:
    """What a client sends: *body* as JSON, or *fields* and *file* (name, bytes; in *part*) as multipart.

    *echoed*: the markers of its texts, as a provider repeats them in an error.
    """

    body: dict[str, Any] | None = None
    fields: dict[str, str] | None = None
    file: tuple[str, bytes] | None = None
    part: str = "file"

    @property
    def echoed(self) -> str:
        whole = json.dumps(self.body if self.body is not None else [self.fields, self.file and self.file[0]])
        return " ".join(re.findall(rf"{STEM}[0-9a-f]+", whole))

    def given(self) -> dict[str, Any]:
        """As httpx takes it."""
        if self.body is not None:
            return {"json": self.body}
        assert self.file
        return {"data": self.fields, "files": {self.part: self.file}}


def _bytes(mark: Marks) -> str:
    return base64.b64encode(f"{mark('a file')} bytes".encode()).decode()


def _file(mark: Marks, kind: str) -> str:
    return f"data:{kind};base64,{_bytes(mark)}"


def _document(mark: Marks) -> dict[str, str]:
    return {"filename": f"{mark('a file name')}.pdf", "file_data": _file(mark, "application/pdf")}


def _tool(mark: Marks) -> dict[str, Any]:
    members = {"type": "object", "properties": {"city": {"type": "string", "description": mark("a tool's member")}}}
    return {"name": f"look_up_{mark('a tool')}", "description": mark("what a tool does"), "parameters": members}


def _chat(mark: Marks) -> dict[str, Any]:
    arguments = json.dumps({"city": mark("a tool argument")})
    call = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": arguments}}
    parts = [
        {"type": "text", "text": f"Tell me of {mark('a prompt')}"},
        {"type": "image_url", "image_url": {"url": _file(mark, "image/png")}},
        {
            "type": "file",
            "file": {"filename": f"{mark('a file name')}.pdf", "file_data": _file(mark, "application/pdf")},
        },
        {
            "type": "input_audio",
            "input_audio": {"format": "wav", "data": base64.b64encode(mark("a sound").encode()).decode()},
        },
    ]
    return {
        "messages": [
            {"role": "system", "content": mark("a system text")},
            {"role": "user", "content": parts, "name": mark("a name")},
            {"role": "assistant", "content": mark("an earlier answer"), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": mark("a tool's answer")},
        ],
        "tools": [{"type": "function", "function": _tool(mark)}],
        "stop": [mark("a stop word")],
        "user": mark("a user"),
        "metadata": {"note": mark("a note")},
        "unknown_member": {mark("a key"): mark("a value")},
    }


def _messages(mark: Marks) -> dict[str, Any]:
    tool = _tool(mark)
    picture = {"type": "base64", "media_type": "image/png", "data": _bytes(mark)}
    asked = [{"type": "text", "text": mark("a prompt")}, {"type": "image", "source": picture}]
    used = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"city": mark("a tool argument")}}
    answered = {"type": "tool_result", "tool_use_id": "toolu_1", "content": mark("a tool's answer")}
    return {
        "max_tokens": 100,
        "system": mark("a system text"),
        "messages": [
            {"role": "user", "content": asked},
            {"role": "assistant", "content": [{"type": "text", "text": mark("an earlier answer")}, used]},
            {"role": "user", "content": [answered]},
        ],
        "tools": [{"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}],
        "metadata": {"user_id": mark("a user")},
        "stop_sequences": [mark("a stop word")],
    }


def _responses(mark: Marks) -> dict[str, Any]:
    document = {
        "type": "input_file",
        "filename": f"{mark('a file name')}.pdf",
        "file_data": _file(mark, "application/pdf"),
    }
    arguments = json.dumps({"city": mark("a tool argument")})
    return {
        "instructions": mark("a system text"),
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": mark("a prompt")}, document]},
            {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": arguments},
            {"type": "function_call_output", "call_id": "call_1", "output": mark("a tool's answer")},
        ],
        "tools": [{"type": "function", **_tool(mark)}],
        "metadata": {"note": mark("a note")},
        "user": mark("a user"),
    }


def _upload(part: str, ending: str, *texts: str) -> Callable[[Marks], Sent]:
    def sent(mark: Marks) -> Sent:
        file = (f"{mark('a file name')}.{ending}", f"RIFF {mark('a file')}".encode())
        return Sent(fields={text: mark(f"a {text}") for text in texts}, file=file, part=part)

    return sent


def _json(make: Callable[[Marks], dict[str, Any]]) -> Callable[[Marks], Sent]:
    return lambda mark: Sent(make(mark))


#: What a client says to each endpoint; ``model`` and ``stream`` are added by who asks.
ASKED: Mapping[str, Callable[[Marks], Sent]] = {
    "/v1/chat/completions": _json(_chat),
    "/v1/messages": _json(_messages),
    "/v1/messages/count_tokens": _json(_messages),
    "/v1/responses": _json(_responses),
    "/v1/embeddings": _json(lambda mark: {"input": [mark("a prompt"), mark("another prompt")], "user": mark("a user")}),
    "/v1/rerank": _json(
        lambda mark: {"query": mark("a prompt"), "documents": [mark("a document"), {"text": mark("one")}]}
    ),
    "/v1/images/generations": _json(lambda mark: {"prompt": mark("a prompt"), "user": mark("a user")}),
    "/v1/images/edits": _upload("image", "png", "prompt", "user"),
    "/v1/images/variations": _upload("image", "png", "user"),
    "/v1/audio/speech": _json(lambda mark: {"input": mark("a prompt"), "voice": "alloy", "x": mark("a text")}),
    "/v1/audio/transcriptions": _upload("file", "wav", "prompt"),
    "/v1/audio/translations": _upload("file", "wav", "prompt"),
}


# -- what a provider answers


def _call(mark: Marks) -> dict[str, Any]:
    arguments = json.dumps({"city": mark("an argument of the answer")})
    return {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": arguments}}


def chunks(mark: Marks) -> list[bytes]:
    """The content of a stream of a chat, without its end."""
    said = [
        {"role": "assistant", "content": f"{mark('the answer')} "},
        {"reasoning_content": mark("a thought")},
        {"content": f"{mark('more of the answer')} "},
        {"tool_calls": [_call(mark)]},
    ]
    return [sse(delta(**members)) for members in said]


def whole(mark: Marks) -> dict[str, Any]:
    """A whole answer of a chat."""
    more = {"reasoning_content": mark("a thought"), "refusal": mark("a refusal"), "tool_calls": [_call(mark)]}
    return completion(mark("the answer"), **more)


def _other(path: str, mark: Marks) -> Any:
    if path.endswith("/embeddings"):
        return {"object": "list", "data": [{"index": 0, "embedding": mark("a vector")}], "model": "m"}
    if path.endswith("/rerank"):
        return {"results": [{"index": 0, "relevance_score": 0.5, "document": {"text": mark("the answer")}}]}
    if "/images/" in path:
        packed = base64.b64encode(mark("a picture").encode()).decode()
        return {"created": 1, "data": [{"b64_json": packed, "revised_prompt": mark("the answer")}]}
    return {"text": mark("the answer")}


def answered(mark: Marks) -> Behaviour:
    """A good answer of whichever endpoint is asked, with headers that say too much."""
    note = {"X-Note": mark("a header of the answer"), "Set-Cookie": f"a={mark('a cookie of the answer')}"}

    async def behave(wire: Wire) -> None:
        path = wire.request.path
        if not path.endswith("/chat/completions"):
            if path.endswith("/audio/speech"):
                await reply(200, f"ID3 {mark('a sound')}", headers=note, content_type="audio/mpeg")(wire)
            else:
                await reply(200, _other(path, mark), headers=note)(wire)
        elif wire.request.streaming:
            await events(*chunks(mark), delta(finish="stop"), DONE)(wire)
        else:
            await reply(200, whole(mark), headers=note)(wire)

    return behave


def refused(code: int, sent: Sent, mark: Marks, *, form: str = "json") -> Behaviour:
    """An error that repeats the request, in its body, its reason and its headers."""
    words = f"can not serve {sent.echoed} for you"
    error = {"message": words, "type": words, "param": words, "code": words, "failed_generation": sent.echoed}
    body = {"json": json.dumps({"error": error}), "text": words, "html": f"<html><body>{words}</body></html>"}[form]
    kind = {"json": "application/json", "text": "text/plain", "html": "text/html"}[form]
    fields = [
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("WWW-Authenticate", words),
        ("X-Note", mark("a header of the answer")),
        ("X-RateLimit-Reset", words),
        ("Location", f"http://127.0.0.1:9/{sent.echoed.split()[0]}"),
    ]

    async def behave(wire: Wire) -> None:
        await wire.write(head(code, fields, reason=words) + body.encode())

    return behave
