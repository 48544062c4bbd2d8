"""The head of a request that comes again. Pure.

A client that keeps its connection says the same before every body, but for the digits of ``Content-Length``. Once a
head was parsed, one whose other bytes are all the same means the same, and is compared instead of parsed.
"""

import re
from collections.abc import Sequence

Header = tuple[bytes, bytes]
LONGEST = 4096
"""Bytes of a head that is remembered."""
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,10})\r\n", re.IGNORECASE)
_DIGITS = 10
#: They change what a body is, or the conversation.
_SPECIAL = frozenset((b"transfer-encoding", b"expect", b"upgrade"))


class Repeat:
    """A head as it came, around the digits of its length. *headers* are those it was parsed to, with the length at
    *place*.
    """

    __slots__ = ("_after", "_before", "_headers", "_place", "_rest", "_start")

    def __init__(self, before: bytes, after: bytes, headers: list[Header], place: int) -> None:
        self._before, self._start = before, len(before)
        self._after, self._rest = after, len(after)
        self._headers, self._place = headers, place

    def read(self, data: bytes) -> tuple[list[Header], int, bytes] | None:
        """Headers, length of the body and what came of it, where *data* is this head again and nothing behind its body;
        else None, and a parser must tell.
        """
        start = self._start
        if not data.startswith(self._before):
            return None
        end = data.find(b"\r", start, start + _DIGITS + 1)
        digits = data[start:end]
        if not digits.isdigit() or end < 0 or not data.startswith(self._after, end):
            return None
        body, length = data[end + self._rest :], int(digits)
        if len(body) > length:
            return None
        headers = self._headers.copy()
        headers[self._place] = (b"content-length", digits)
        return headers, length, body


def learn(data: bytes, headers: Sequence[Header]) -> Repeat | None:
    """What *data*, which begins with a head that a parser took for *headers*, teaches. None: nothing to go by."""
    end = data.find(b"\r\n\r\n", 0, LONGEST) + 4
    places = [place for place, header in enumerate(headers) if header[0] == b"content-length"]
    if end < 4 or len(places) != 1 or any(name in _SPECIAL for name, _ in headers):
        return None
    head = data[:end]
    # One line for each header: a parser may take a bare LF for the end of one, and what follows for a body.
    if not head.count(b"\n") == head.count(b"\r\n") == len(headers) + 2:
        return None
    lengths = list(_LENGTH.finditer(head))
    if len(lengths) != 1 or lengths[0][1] != headers[places[0]][1]:
        return None
    start, stop = lengths[0].span(1)
    return Repeat(head[:start], head[stop:], list(headers), places[0])
