"""Where the answer of another candidate joins the text that a client already has (beyond 1). Pure.

Texts are compared character by character and never normalised, so white space at the seam stays exactly what it was.
However the text was cut into pieces makes no difference.
"""

from itertools import takewhile
from typing import Protocol

REPEAT_MIN = 8
"""Characters: of a shorter text it is not assumed that a candidate repeats it, because it may be how it goes on
("1" and "1" for 11)."""


class Seam(Protocol):
    """*diverged*: the candidate says something else than what was delivered, so its answer can not be joined."""

    @property
    def diverged(self) -> bool: ...

    def take(self, text: str) -> str:
        """What the client gets of the candidate's next piece of text."""
        ...

    def end(self) -> str:
        """The candidate's text is over: what the client still gets of it. Idempotent."""
        ...


class Repetition:
    """The answer of a candidate that was asked afresh: swallowed as long as it repeats *delivered*."""

    __slots__ = ("_at", "_delivered", "diverged")

    def __init__(self, delivered: str) -> None:
        self._delivered = delivered
        self._at = 0  # so much of it was repeated
        self.diverged = False

    def take(self, text: str) -> str:
        left = len(self._delivered) - self._at
        if not left:
            return text
        head = text[:left]
        if self.diverged or not self._delivered.startswith(head, self._at):
            self.diverged = True
            return ""
        self._at += len(head)
        return text[left:]

    def end(self) -> str:
        self.diverged = self._at < len(self._delivered)
        return ""


class Continuation:
    """The answer of a candidate that was asked to go on from :attr:`asked`.

    That is the delivered text without the white space at its end, which many providers cut off or refuse: a candidate
    that goes on begins with it again, and so much of it as was delivered is swallowed. A candidate that says the whole
    text once more instead of going on is noticed (*repeated*) and only what lies beyond is new; anything less than all
    of it is taken for how the text goes on.
    """

    __slots__ = ("_at", "_deciding", "_white", "asked", "diverged", "repeated")

    def __init__(self, delivered: str) -> None:
        self.asked = delivered.rstrip()
        self._white = delivered[len(self.asked) :]
        self._at = 0  # so much of the asked text was said again; kept back meanwhile
        self._deciding = len(self.asked) >= REPEAT_MIN
        self.repeated = False
        self.diverged = False

    def take(self, text: str) -> str:
        if self._deciding:
            left = len(self.asked) - self._at
            head = text[:left]
            if self.asked.startswith(head, self._at):
                self._at += len(head)
                if self._at < len(self.asked):
                    return ""
                self.repeated = True
                text = text[left:]
            else:
                text = self.asked[: self._at] + text
            self._deciding = False
        return self._behind_the_white_space(text)

    def end(self) -> str:
        if not self._deciding:
            return ""
        self._deciding = False
        return self._behind_the_white_space(self.asked[: self._at])

    def _behind_the_white_space(self, text: str) -> str:
        if not self._white or not text:
            return text
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self._white, text, strict=False)))
        self._white = self._white[same:] if same == len(text) else ""
        return text[same:]
