"""A form as it was uploaded, and the same form for another model. Pure.

RFC 7578 over RFC 2046, with CRLF line ends. What stands in a part is never decoded: files go out bit for bit, in
their order, under the names they came with; only the boundary and the text part ``model`` differ (v1-api 8.2).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote_to_bytes

MODEL = "model"
BOUNDARY_LIMIT = 70
"""Characters of a boundary (RFC 2046)."""
PART_LIMIT = 1000
"""Parts of a form."""
HEAD_LIMIT = 16 * 1024
"""Bytes of the header lines of one part."""

#: A parameter behind ``;``: a token, or a quoted string in which a backslash protects the next character.
_PARAMETER = re.compile(
    r';[ \t]*([\w!#$%&\'*+.^`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]*))[ \t]*', re.DOTALL
)
#: Behind a boundary: what closes the form, or the end of the line.
_LINE_END = rb"(?:(--)|[ \t]*\r\n)"
_NO_MORE = re.compile(r"[ \t;]*\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
#: Browsers leave the backslashes of a path unprotected: only these two are escapes.
_ESCAPED = re.compile(r'\\(["\\])')
#: The encodings of a part that are none.
_PLAIN = ("", "7bit", "8bit", "binary")


class BadForm(ValueError):
    """Not a form that can be read; the text quotes nothing of it."""


class NoBoundary(BadForm):
    """The content type is no multipart type, or names no boundary."""


@dataclass(frozen=True, slots=True)
class Part:
    """One field. *filename* None = a text field. *content_type*: as it came; empty = not stated."""

    name: str
    filename: str | None
    content_type: str
    body: memoryview

    @property
    def text(self) -> str:
        """The value of a text field. Raises BadForm where that is no UTF-8."""
        try:
            return str(self.body, "utf-8")
        except UnicodeDecodeError:
            raise BadForm("a text field is no UTF-8") from None


class Form:
    """The parts of a form, in order."""

    __slots__ = ("_made", "_made_for", "parts")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self._made_for: tuple[str, Mapping[str, str | None]] | None = None
        self._made = ("", b"")

    def field(self, name: str) -> str | None:
        """The value of the text field *name*, of several the last. Raises BadForm."""
        found = [part for part in self.parts if part.name == name and part.filename is None]
        return found[-1].text if found else None

    def file(self, name: str) -> Part | None:
        """The first file called *name*."""
        return next((part for part in self.parts if part.name == name and part.filename is not None), None)

    def made_for(
        self, model: str, boundary: Callable[[], str], changes: Mapping[str, str | None] | None = None
    ) -> tuple[str, bytes]:
        """(content type, body) of the form for *model*; *changes*: further text fields and their values, None = left
        out. Kept, and given again as long as the same is asked for.
        """
        wanted = model, changes or {}
        if self._made_for != wanted:
            mark = boundary()
            parts = _changed(self.parts, {**wanted[1], MODEL: model})
            self._made_for = wanted
            self._made = f"multipart/form-data; boundary={mark}", encode(parts, mark)
        return self._made


def _changed(parts: list[Part], changes: Mapping[str, str | None]) -> Iterator[Part]:
    left = dict(changes)
    for part in parts:
        if part.filename is not None or part.name not in changes:
            yield part
            continue
        left.pop(part.name, None)
        value = changes[part.name]
        if value is not None:
            yield replace(part, body=memoryview(value.encode()))
    for name, value in left.items():
        if value is not None:
            yield Part(name, None, "", memoryview(value.encode()))


# -- reading


def boundary_of(content_type: bytes) -> bytes:
    """The boundary a ``Content-Type`` names. Raises NoBoundary."""
    kind, _, rest = content_type.decode("latin-1").partition(";")
    if not kind.strip().lower().startswith("multipart/"):
        raise NoBoundary("no multipart content type")
    try:
        found = _parameters(";" + rest).get("boundary", "").rstrip(" ")
    except BadForm:
        found = ""
    if not 1 <= len(found) <= BOUNDARY_LIMIT or not found.isprintable():
        raise NoBoundary("no boundary")
    return found.encode("latin-1")


def parse(body: bytes, content_type: bytes) -> Form:
    """The form in *body*. Raises BadForm, NoBoundary."""
    mark = b"--" + re.escape(boundary_of(content_type)) + _LINE_END
    delimiter = re.compile(b"\r\n" + mark)
    parts: list[Part] = []
    view = memoryview(body)
    here = re.match(mark, body) or delimiter.search(body)
    while here is not None and here[1] is None:
        if len(parts) == PART_LIMIT:
            raise BadForm("too many parts")
        start = here.end()
        here = delimiter.search(body, start - 2)  # an empty part ends with the line break that began it
        if here is not None:
            parts.append(_part(body, view, start, here.start()))
    if here is None:
        raise BadForm("no closing boundary")
    return Form(parts)


def _part(body: bytes, view: memoryview, start: int, end: int) -> Part:
    stop = body.find(b"\r\n\r\n", start, min(end + 2, start + HEAD_LIMIT))
    if stop < 0:
        raise BadForm("a part without an end of its headers")
    fields = _headers(body[start:stop].decode("utf-8", "surrogateescape"))
    kind, _, rest = fields.get("content-disposition", "").partition(";")
    if kind.strip().lower() != "form-data":
        raise BadForm("a part that is no form-data")
    if fields.get("content-transfer-encoding", "").lower() not in _PLAIN:
        raise BadForm("a part with a transfer encoding")
    said = _parameters(";" + rest)
    if "name" not in said:
        raise BadForm("a part without a name")
    return Part(said["name"], _filename(said), fields.get("content-type", ""), view[min(stop + 4, end) : end])


def _headers(text: str) -> dict[str, str]:
    """By lower-case name; a line that begins with a blank goes on the one before."""
    found: dict[str, str] = {}
    for line in re.sub(r"\r\n[ \t]+", " ", text).split("\r\n"):
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or _CONTROL.search(line):
            raise BadForm("a part with a header line that is none")
        found.setdefault(name.lower(), value.strip(" \t"))
    return found


def _parameters(text: str) -> dict[str, str]:
    """``; name=value`` one behind the other. Raises BadForm where something else stands between them."""
    found: dict[str, str] = {}
    at = 0
    while _NO_MORE.match(text, at) is None:
        match = _PARAMETER.match(text, at)
        if match is None:
            raise BadForm("a header with a parameter that is none")
        name, quoted, token = match.groups()
        found.setdefault(name.lower(), token if quoted is None else _ESCAPED.sub(r"\1", quoted))
        at = match.end()
    return found


def _filename(said: dict[str, str]) -> str | None:
    """``filename*`` (RFC 5987) wins over ``filename``."""
    charset, _, rest = said.get("filename*", "").partition("'")
    _, _, encoded = rest.partition("'")
    if charset.lower() == "utf-8":
        return unquote_to_bytes(encoded.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")
    return said.get("filename")


# -- writing


def encode(parts: Iterable[Part], boundary: str) -> bytes:
    """The body of a form; *boundary* must stand nowhere in it."""
    pieces: list[bytes | memoryview] = []
    for part in parts:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_escaped(part.name)}"'
        if part.filename is not None:
            head += f'; filename="{_escaped(part.filename)}"'
        if part.content_type:
            head += f"\r\nContent-Type: {part.content_type}"
        pieces += ((head + "\r\n\r\n").encode("utf-8", "surrogateescape"), part.body, b"\r\n")
    pieces.append(f"--{boundary}--\r\n".encode())
    return b"".join(pieces)


def _escaped(name: str) -> str:
    """A name that came percent-encoded may hold what no header line can (RFC 9110, section 5.5)."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return _CONTROL.sub(lambda found: f"%{ord(found[0]):02X}", quoted)
