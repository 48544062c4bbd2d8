"""Inputs made of known ones, by a generator with a seed: the same number gives the same inputs everywhere."""

import random
import re
from collections.abc import Sequence

TOKENS = (
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u0000", b"\\ud800", b"\\ud83d\\ude00"),
    *(b"null", b"true", b"false", b"0", b"-0", b"-1", b"1.5", b"1e999", b"9" * 25, b"[]", b"{}", b'""', b'"x"'),
    *(b"\xff", b"\xef\xbb\xbf", b"\xe2\x82", b"\0", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"),
    *(b"data:", b"data: ", b"event: ", b": ", b"[DONE]", b"data: [DONE]\n\n", b"<think>", b"</think>", b"--", b"="),
)
VALUES = (
    *(b"null", b"true", b"false", b"0", b"5", b"-1", b"1.5", b"1e999", b"9" * 25, b'""', b'"s"', b'" "', b'"\\n"'),
    *(b"[]", b"{}", b"[1]", b"[null]", b"[[]]", b'{"a":1}', b'["s"]', b'{"type":"text","text":"t"}', b'"\xff"'),
)
LONGEST = 8192
"""Bytes of an input."""
_VALUE = re.compile(rb'(?<=:)(?:"(?:[^"\\]|\\.)*"|-?[0-9.]+|\{\}|\[\]|true|false|null)')
_MEMBER = re.compile(rb'"[a-z_]+":(?:"(?:[^"\\]|\\.)*"|-?[0-9.]+|true|false|null),?')


class Mutator:
    """Inputs from *seeds*; those that are shown to be worth it (:meth:`keep`) are changed further."""

    KEPT = 64

    def __init__(self, seeds: Sequence[bytes], number: int = 0) -> None:
        self._random = random.Random(number)
        self._seeds = list(seeds)
        self._kept: list[bytes] = []
        self._ways = (self._cut, self._insert, self._byte, self._replace, self._value, self._value, self._member)
        self._ways += (self._cross, self._double, self._deep)

    def keep(self, data: bytes) -> None:
        if len(self._kept) < self.KEPT:
            self._kept.append(data)
        else:
            self._kept[self._random.randrange(self.KEPT)] = data

    def next(self) -> bytes:
        rnd = self._random
        source = self._kept if self._kept and rnd.random() < 0.5 else self._seeds
        data = rnd.choice(source)
        for _ in range(rnd.choice((1, 1, 1, 2, 2, 3, 5))):
            data = rnd.choice(self._ways)(data)
        return data[:LONGEST]

    def _span(self, data: bytes, longest: int) -> tuple[int, int]:
        at = self._random.randrange(len(data) + 1)
        return at, at + self._random.randint(1, longest)

    def _cut(self, data: bytes) -> bytes:
        at, end = self._span(data, self._random.choice((1, 12, 200)))
        return data[:at] + data[end:]

    def _insert(self, data: bytes) -> bytes:
        at, _ = self._span(data, 1)
        return data[:at] + self._random.choice(TOKENS) + data[at:]

    def _byte(self, data: bytes) -> bytes:
        at, end = self._span(data, 1)
        return data[:at] + bytes((self._random.randrange(256),)) + data[end:]

    def _replace(self, data: bytes) -> bytes:
        at, end = self._span(data, 12)
        return data[:at] + self._random.choice(TOKENS) + data[end:]

    def _found(self, pattern: re.Pattern[bytes], data: bytes) -> re.Match[bytes] | None:
        """One of the first behind a random place."""
        return pattern.search(data, self._random.randrange(len(data) + 1)) or pattern.search(data)

    def _value(self, data: bytes) -> bytes:
        found = self._found(_VALUE, data)
        return data if found is None else data[: found.start()] + self._random.choice(VALUES) + data[found.end() :]

    def _member(self, data: bytes) -> bytes:
        """Left out, or said twice."""
        found = self._found(_MEMBER, data)
        if found is None:
            return data
        again = found[0] * 2 if self._random.random() < 0.3 else b""
        return data[: found.start()] + again + data[found.end() :]

    def _cross(self, data: bytes) -> bytes:
        other = self._random.choice(self._seeds)
        start, stop = self._span(other, self._random.choice((20, 60, 400)))
        at, end = self._span(data, 20)
        return data[:at] + other[start:stop] + data[end:]

    def _double(self, data: bytes) -> bytes:
        """Lines or events again, or in another order."""
        rnd = self._random
        mark = b"\n\n" if b"\n\n" in data else b"," if rnd.random() < 0.5 else b"\n"
        pieces = data.split(mark)
        at, other = rnd.randrange(len(pieces)), rnd.randrange(len(pieces))
        pieces.insert(other, pieces[at])
        if rnd.random() < 0.5:
            del pieces[at + (other <= at)]
        return mark.join(pieces)

    def _deep(self, data: bytes) -> bytes:
        """Rarely, because it is slow: a nesting that one of decoder, reader and encoder may have no stack for."""
        if self._random.random() > 0.05:
            return self._value(data)
        depth = self._random.choice((10, 100, 300, 450, 700, 900, 2000))
        opened, closed = self._random.choice(((b"[", b"]"), (b'{"a":', b"}")))
        found = self._found(_VALUE, data)
        at, end = (0, len(data)) if found is None else found.span()
        return data[:at] + opened * depth + b"1" + closed * depth + data[end:]
