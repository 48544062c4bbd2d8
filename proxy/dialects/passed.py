"""What the endpoints have in common whose requests and answers pass through as they are (v1-api 17). Pure."""

import json
import re
from collections import deque

import msgspec

from providers.kinds.base import Kind
from proxy import body as bodies
from proxy import multipart
from proxy import usage as usages
from proxy.answers import INVALID_BODY
from proxy.body import Asked, BadBody
from proxy.dialects.base import Judged, Members
from proxy.multipart import BadForm, Form, NoBoundary
from proxy.repairs import Repair
from proxy.usage import Usage

USAGE_TAIL = 64 * 1024
"""Bytes at the end of an event stream in which its usage is looked for."""
BOM = b"\xef\xbb\xbf"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_ERRORS = (ValueError, RecursionError)

#: Members of a request whose text is what a provider bills (v1-api 17.3).
_BILLED = ("input", "prompt", "query", "documents")
_USAGE = re.compile(r'"usage"\s*:\s*(?=\{)')
_read_object = json.JSONDecoder().raw_decode


# -- the request


def build_body(
    body: Members, raw: bytes, *, model_id: str, kind: Kind, stream: bool, repair: Repair | None = None
) -> bytes:
    """The body for one candidate: only the model's name changes."""
    return _encode({**body, "model": model_id})


def whole(raw: bytes) -> Asked:
    """As for every endpoint; for answers that are never streamed, whatever ``stream`` says. Raises BadBody."""
    asked = bodies.parse(raw)
    return msgspec.structs.replace(asked, stream=False, include_usage=False) if asked.stream else asked


def streamed(raw: bytes) -> Asked:
    """As for every endpoint; there is no usage that a client could ask for. Raises BadBody."""
    asked = bodies.parse(raw)
    return msgspec.structs.replace(asked, include_usage=False) if asked.include_usage else asked


def parse_form(raw: bytes, content_type: bytes) -> Asked:
    """An uploaded form, as far as routing needs it. Raises BadBody."""
    try:
        form = multipart.parse(raw, content_type)
        model = (form.field(multipart.MODEL) or "").strip()
        stream = (form.field("stream") or "").strip().lower() == "true"
    except NoBoundary:
        raise BadBody(400, "Content-Type must be multipart/form-data with a boundary", INVALID_BODY) from None
    except BadForm:
        raise BadBody(400, "invalid multipart form", INVALID_BODY) from None
    return Asked(_members(form), bodies.checked(model), stream, False, form=form)


def _members(form: Form) -> Members:
    """Text fields and file names, as a JSON request would have them."""
    found: dict[str, list[str]] = {}
    for part in form.parts:
        value = str(part.body, "utf-8", "replace") if part.filename is None else part.filename
        found.setdefault(_readable(part.name), []).append(_readable(value))
    return {name: msgspec.Raw(_encode(values if len(values) > 1 else values[0])) for name, values in found.items()}


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def prompt_tokens(body: Members) -> int:
    """An estimate of what the request costs, at least 1; a token that came as a number is one token."""
    size = tokens = 0
    for name in _BILLED:
        text, numbers = _measure(body[name]) if name in body else (0, 0)
        size += text
        tokens += numbers
    return max(usages.tokens(size) + tokens, 1)


def no_completion(delivered: int) -> int:
    """Vectors, scores, pictures and sound are not billed by their size."""
    return 0


def _measure(raw: msgspec.Raw) -> tuple[int, int]:
    """(UTF-8 bytes of text, integers) in a member; of objects only what they call ``text`` counts."""
    try:
        stack = [_decode(raw)]
    except _ERRORS:
        return 0, 0
    size = numbers = 0
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            size += len(item.encode())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.append(item.get("text"))
        elif isinstance(item, int) and not isinstance(item, bool):
            numbers += 1
    return size, numbers


# -- the answer


def judged(payload: bytes, usage: Usage | None, *, results: bool, searches: int = 0) -> Judged:
    """An answer that could be decoded; *results*: there is something in it."""
    delivered = 0 if usage is not None and usage.prompt else len(payload)
    return Judged("served" if results else "no_results", payload, usage, results, delivered, searches=searches)


def undecodable(problem: object) -> Judged:
    """*problem* in words that hold nothing of the answer."""
    return Judged("undecodable", b"", None, False, problem=str(problem))


def read_usage(usage: object) -> Usage | None:
    """What a ``usage`` member says in any of its spellings; None when it holds no readable count."""
    if not isinstance(usage, dict):
        return None
    prompt = usages.first(usage, "prompt_tokens", "input_tokens", "total_tokens")
    completion = usages.first(usage, "completion_tokens", "output_tokens")
    if prompt is None and completion is None:
        return None
    return Usage(prompt or 0, completion or 0)


class _Event(msgspec.Struct):
    type: str = ""
    error: object = None


_decode_event = msgspec.json.Decoder(_Event).decode


class Tail:
    """The end of an event stream, kept for its usage and for how it ended."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        while self._size - len(self._pieces[0]) >= USAGE_TAIL:
            self._size -= len(self._pieces.popleft())

    def failed(self) -> bool:
        """Whether its last event is an error."""
        lines = [line for line in self._text.splitlines() if line.startswith("data:")]
        try:
            last = _decode_event(lines[-1].removeprefix("data:"))
        except (IndexError, *_ERRORS):
            return False
        return bool(last.error) or last.type == "error" or last.type.endswith(".failed")

    @property
    def gap(self) -> bytes:
        """What ends an event that is not whole."""
        end = b"".join(self._pieces)[-4:]
        return b"" if end.endswith((b"\n\n", b"\r\n\r\n", b"\r\r")) else b"\n\n"

    @property
    def _text(self) -> str:
        return b"".join(self._pieces)[-USAGE_TAIL:].decode("utf-8", "replace")

    def usage(self) -> Usage | None:
        """The last readable ``usage``. The event that holds it may have begun long before: a picture comes first."""
        text = self._text
        for match in reversed(list(_USAGE.finditer(text))):
            try:
                found, _ = _read_object(text, match.end())
            except _ERRORS:
                continue
            usage = read_usage(found)
            if usage is not None:
                return usage
        return None
