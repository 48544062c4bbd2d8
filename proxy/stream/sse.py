"""Server-sent events: bytes in, complete events out. Pure.

Line ends (CRLF, CR, LF) are brought to LF, a byte-order mark and blanks before the first line are dropped, every event
ends in exactly one blank line, and the ``data:`` lines of one event are joined to one payload. An event in the usual
form (one line ``data: ...`` and a blank line) comes out byte for byte as it came in. How the bytes were cut makes no
difference.
"""

from enum import StrEnum

import msgspec

LINE_CAP = 32 * 1024 * 1024
"""Bytes of one line, and of one joined payload (failover-loop 2)."""
BLANK_CAP = 1000
"""Consecutive blank lines before the stream is given up (failover-loop 2)."""

_BOM = b"\xef\xbb\xbf"


class Fault(StrEnum):
    LINE = "line"  # a line or a payload over the cap
    BLANK = "blank"  # too many blank lines


class Event(msgspec.Struct, gc=False, eq=False):
    """*data* is the joined payload, None when the event has no ``data:`` line (comments, ``event:``, ``id:``).

    *raw* is the whole event with its closing blank line; *rest* its lines that are no data, each with its LF.
    """

    data: bytes | None
    raw: bytes
    rest: bytes = b""

    def carrying(self, payload: bytes) -> bytes:
        """The same event with another payload."""
        return b"%bdata: %b\n\n" % (self.rest, payload)

    def without_data(self) -> bytes:
        """What is left when the payload is dropped with its separator: the comments."""
        if not self.rest:
            return b""
        comments = b"".join(line for line in self.rest.splitlines(keepends=True) if line.startswith(b":"))
        return comments + b"\n" if comments else b""

    def __repr__(self) -> str:
        return f"Event(data={self.data!r}, rest={self.rest!r})"


def _event(block: bytes) -> Event:
    """*block*: the lines of one event, without leading and trailing LF."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return Event(block[6:], block + b"\n\n")
    pieces: list[bytes] = []
    rest: list[bytes] = []
    for line in block.split(b"\n"):
        if line.startswith(b"data:"):
            pieces.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif line == b"data":
            pieces.append(b"")
        else:
            rest.append(line + b"\n")
    others = b"".join(rest)
    if not pieces:
        return Event(None, others + b"\n", others)
    data = pieces[0] if len(pieces) == 1 else b"\n".join(pieces)
    # A line feed inside JSON can only stand between tokens, so one line says the same to clients that read by lines.
    return Event(data, b"%bdata: %b\n\n" % (others, data.replace(b"\n", b" ")), others)


class Framer:
    """One stream. After every call *fault* says whether it must be given up; events returned before stay good.

    *lines* counts finished lines of any kind, *pending* the bytes of the line still arriving (the stall watchdog
    reads both).
    """

    __slots__ = ("_blank", "_cap", "_cr", "_last_lf", "_parts", "_size", "_start", "fault", "lines", "pending")

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._cap = cap
        self._parts: list[bytes] = []  # the event still arriving, LF only
        self._size = 0
        self._last_lf = False
        self._cr = False  # the last byte seen was a CR: a LF that follows belongs to it
        self._start: bytes | None = b""  # before the first line: what may be the beginning of a BOM
        self._blank = 0
        self.fault: Fault | None = None
        self.lines = 0
        self.pending = 0

    def feed(self, data: bytes) -> list[Event]:
        """The events that *data* completes."""
        if self.fault is not None or not data:
            return []
        if self._cr or b"\r" in data:
            data = self._line_feeds(data)
        if self._start is not None:
            data = self._first_line(data)
        if not data:
            return []
        return self._take(data)

    @property
    def at_rest(self) -> bool:
        """The next byte begins an event, and there is nothing to remember of those before it."""
        return not (self._parts or self._cr or self.fault) and self._start is None

    def passed(self, events: int) -> None:
        """So many whole events of one line each were read by somebody else; only where the framer is at rest."""
        self.lines += 2 * events
        self._blank = 1

    def finish(self) -> list[Event]:
        """The end of the body: an event that no blank line closed counts too."""
        if self.fault is not None or not self._parts:
            return []
        block = b"".join(self._parts)
        self._parts, self._size, self.pending = [], 0, 0
        found: list[Event] = []
        self._append(found, block.strip(b"\n"))
        return found

    def _line_feeds(self, data: bytes) -> bytes:
        if self._cr and data.startswith(b"\n"):
            data = data[1:]
            if not data:
                self._cr = False
                return b""
        self._cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _first_line(self, data: bytes) -> bytes:
        assert self._start is not None
        data = self._start + data
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._start = data
            return b""
        stripped = data.removeprefix(_BOM).lstrip(b" \n")
        blanks = data[: len(data) - len(stripped)].count(b"\n")
        self._blank += blanks
        self.lines += blanks
        if self._blank > BLANK_CAP:
            self.fault = Fault.BLANK
            return b""
        # Only the very first bytes may be a BOM; blanks may go on.
        self._start = None if stripped else b" "
        if not stripped:
            return b""
        self._blank = 0
        return stripped

    def _take(self, data: bytes) -> list[Event]:
        if not self._parts and data.endswith(b"\n\n") and 0 < data.find(b"\n") == len(data) - 2 <= self._cap:
            self.lines += 2  # the usual case: one event of one line, whole
            self._blank = 1
            return [_event(data[:-2])]
        newlines = data.count(b"\n")
        self.lines += newlines
        if self._parts:
            if b"\n\n" not in data and not (self._last_lf and data[0] == 10):
                self._keep(data, newlines)
                return []
            data = b"".join([*self._parts, data])
            self._parts, self._size, self.pending = [], 0, 0
        return self._split(data)

    def _split(self, text: bytes) -> list[Event]:
        """*text* begins where an event begins: cut it into whole events, keep the rest."""
        start = text.lstrip(b"\n")
        self._blank += len(text) - len(start)
        if self._blank > BLANK_CAP:
            self.fault = Fault.BLANK
            return []
        if not start:
            return []
        flood = start.find(b"\n" * (BLANK_CAP + 2)) if b"\n\n\n" in start else -1
        end = start.rfind(b"\n\n") if flood < 0 else flood
        found: list[Event] = []
        if end >= 0:
            for block in start[:end].split(b"\n\n"):
                if not self._append(found, block.strip(b"\n")):
                    return found
        if flood >= 0:
            self.fault = Fault.BLANK
            return found
        tail = start[end + 2 :] if end >= 0 else start
        if tail:
            self._keep(tail, tail.count(b"\n"))
        else:
            self._blank = len(start) - len(start.rstrip(b"\n")) - 1
        return found

    def _append(self, found: list[Event], block: bytes) -> bool:
        """False when *block* is over a cap."""
        if not block:
            return True
        size = len(block)
        if size > self._cap and (size > 2 * self._cap or any(len(line) > self._cap for line in block.split(b"\n"))):
            self.fault = Fault.LINE
            return False
        event = _event(block)
        if event.data is not None and len(event.data) > self._cap:
            self.fault = Fault.LINE
            return False
        found.append(event)
        return True

    def _keep(self, data: bytes, newlines: int) -> None:
        """Bytes of an event that is still arriving. They are joined once, when it ends."""
        self._parts.append(data)
        self._size += len(data)
        self._last_lf = data.endswith(b"\n")
        self._blank = 0
        if not newlines:
            self.pending += len(data)
            longest = self.pending
        elif self.pending + len(data) <= self._cap:
            longest = 0
            self.pending = len(data) - data.rfind(b"\n") - 1
        else:
            first, *others = data.split(b"\n")
            longest = max(self.pending + len(first), *(len(line) for line in others))
            self.pending = len(others[-1])
        if longest > self._cap or self._size > 2 * self._cap + 1:
            self.fault = Fault.LINE
            self._parts = []
