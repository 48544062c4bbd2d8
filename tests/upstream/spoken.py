"""What was said through the fake providers of this test run: prompts as they arrived, answers as they went out.

No product may have written any of it when it stops (``tests/wire/product.py``); an exchange is heard without a test
having to ask for it. Only texts of people, models and files count, by the members of a body that hold them: model
names, roles, ids, error messages and the like are told on purpose. They are kept as pieces of :data:`PIECE` characters,
the run of them that v1-api 18 takes for a quotation; what JSON, HTML or a log line would write in another way
separates pieces, and what is shorter than :data:`SHORTEST` or made of few characters says nothing and is let be.
"""

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

#: What the helpers of the suite ask where it does not matter: long enough to be looked for.
PROMPT = "Tell it to nobody, not even to your diary."
PIECE = 16
SHORTEST = 12
#: Characters of one exchange that are listened to, and pieces of one text: its beginning, and its end.
LIMIT = 64 * 1024
PIECES = 6
_FEW = 5  # different characters of a piece that says nothing

#: Members whose texts, at any depth, are what was said.
SAID = frozenset((
    "arguments", "args", "b64_json", "content", "data", "delta", "documents", "encrypted_content",
    "failed_generation", "file_data", "filename", "input", "instructions", "output", "partial_json", "prompt",
    "query", "reasoning", "reasoning_content", "refusal", "result", "revised_prompt", "stop_sequences", "summary",
    "system", "systemInstruction", "text", "thinking", "thought", "transcript", "user_id",
))  # fmt: skip
#: Members of those that are names.
NAMES = frozenset((
    "annotations", "call_id", "detail", "format", "id", "item_id", "mime_type", "mimeType", "media_type", "model",
    "name", "object", "phase", "role", "status", "tool_call_id", "tool_use_id", "type",
))  # fmt: skip
_RUN = re.compile(r"[ !#-%(-;=?-\[\]-~]" + f"{{{SHORTEST},}}")
_EVENT = re.compile(rb"^data: ?([\[{].*[\]}])\r?$", re.MULTILINE)
#: A part of a form: what the field is called, the file, the value.
_PART = re.compile(
    rb'name="(\w+)"(?:; filename="([^"]*)")?(?:\r\nContent-Type: [^\r]*)?\r\n\r\n(.*?)\r\n--', re.DOTALL | re.IGNORECASE
)
_FORM = frozenset((b"prompt", b"user", b"file", b"image", b"mask"))


def pieces(said: str) -> Iterator[str]:
    """What to look for of one text."""
    for run in _RUN.findall(said[:LIMIT]):
        cut = [run[at : at + PIECE] for at in range(0, len(run), PIECE)]
        for piece in [*cut[: PIECES - 1], run[-PIECE:]]:
            if len(piece) >= SHORTEST and len(set(piece)) > _FEW:
                yield piece


def texts(value: Any, said: bool = False) -> Iterator[str]:
    """Every text of *value*, a body, that somebody said."""
    if isinstance(value, str):
        if said:
            yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, said)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name not in NAMES:
                yield from texts(item, said or name in SAID)


def _read(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


class Heard:
    """The pieces of this process, each with the count of what was heard by then. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self.count = 0

    def request(self, body: bytes, content_type: str) -> None:
        if content_type.startswith("multipart/"):
            for name, file, value in _PART.findall(body[:LIMIT]):
                if name in _FORM:
                    self._keep([file.decode("latin-1"), value.decode("latin-1")])
        else:
            self._keep(list(texts(_read(body))))

    def answer(self, data: bytes) -> None:
        """*data* is all that went out: head and body, or the events of a stream."""
        self._keep(list(texts(_read(data.partition(b"\r\n\r\n")[2]))))
        found: list[str] = []
        for event in _EVENT.findall(data):
            found += texts(_read(event))
        self._keep([*found, "".join(found)])  # a text in deltas, as a whole

    def _keep(self, said: list[str]) -> None:
        with self._lock:
            self.count += 1
            for text in said:
                for piece in pieces(text):
                    self._last[piece] = self.count

    def since(self, count: int) -> list[str]:
        """What was heard after :attr:`count` had been *count*."""
        with self._lock:
            return [piece for piece, last in self._last.items() if last > count]


HEARD = Heard()
