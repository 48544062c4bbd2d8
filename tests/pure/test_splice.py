"""The seam between a broken answer and the one that finishes it: nothing doubled, nothing lost (part of beyond 1)."""

from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from proxy.stream.splice import REPEAT_MIN, Continuation, Repetition, Seam

#: White space, code, CJK, an emoji of several code points, a combining mark, and few letters, so that texts repeat.
ALPHABET = [
    "a",
    "b",
    " ",
    "\n",
    "\t",
    "é",
    "e\u0301",
    "漢",
    "字",
    "👩\u200d💻",
    "{",
    "}",
    '"',
    "\\",
    "\u00a0",
    "\u2028",
]
TEXTS = st.lists(st.sampled_from(ALPHABET), max_size=60).map("".join)
CODE = "def f(x):\n    if x:\n        return [\n            x,\n        ]\n\n\n    return None\n"


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, str]:
    """(delivered, the rest): one text cut anywhere."""
    whole = draw(TEXTS)
    at = draw(st.integers(0, len(whole)))
    return whole[:at], whole[at:]


def cuts(draw: st.DrawFn, text: str) -> list[str]:
    places = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)) | {0, len(text)})
    return [text[start:end] for start, end in pairwise(places)]


def said(seam: Seam, pieces: list[str]) -> str:
    return "".join([*(seam.take(piece) for piece in pieces), seam.end()])


@given(cut_texts(), st.data())
@example(("ha ", "ha ha "), None)
def test_an_answer_from_the_start_is_joined_exactly_wherever_it_was_cut(cut: tuple[str, str], data):
    """part of beyond 1: repeated text is swallowed, and forwarded from the first character beyond it"""
    delivered, rest = cut
    whole = delivered + rest
    seam = Repetition(delivered)
    assert said(seam, [whole] if data is None else cuts(data.draw, whole)) == rest
    assert not seam.diverged


@given(cut_texts(), TEXTS, st.data())
def test_an_answer_that_differs_brings_nothing(cut: tuple[str, str], other: str, data: st.DataObject):
    """part of beyond 1: divergence is a failed recovery, at whatever character and also by ending too early"""
    delivered, _ = cut
    assume(not other.startswith(delivered))
    seam = Repetition(delivered)
    assert said(seam, cuts(data.draw, other)) == ""
    assert seam.diverged


@given(cut_texts(), st.data())
@example((CODE[:12], CODE[12:]), None)
@example((CODE[:10], CODE[10:]), None)
@example(("one two ", "three"), None)
@example(("one\n\n", "\ntwo"), None)
def test_a_continuation_is_joined_exactly_wherever_the_text_was_cut(cut: tuple[str, str], data):
    """part of beyond 1: white space at the seam is neither doubled nor lost"""
    delivered, rest = cut
    seam = Continuation(delivered)
    said_next = (delivered + rest)[len(seam.asked) :]
    assume(len(seam.asked) < REPEAT_MIN or not said_next.startswith(seam.asked))
    assert said(seam, [said_next] if data is None else cuts(data.draw, said_next)) == rest
    assert not seam.repeated and not seam.diverged


@given(cut_texts(), st.data())
def test_a_candidate_that_says_the_whole_text_again_instead_of_going_on_is_noticed(cut: tuple[str, str], data):
    delivered, rest = "once more" + cut[0], cut[1]
    seam = Continuation(delivered)
    assert said(seam, cuts(data.draw, delivered + rest)) == rest
    assert seam.repeated


@pytest.mark.parametrize(
    ("delivered", "piece", "new"),
    [
        ("one two ", "three", "three"),  # the white space is not said again
        ("one two\n", "    three", "    three"),  # other white space is not the same one
        ("one two\n", "\n    three", "    three"),
        ("one two \n", " three", "three"),  # only its beginning is
        ("one two thr", "ee", "ee"),
        ("The c", "The cat", "The cat"),  # too short a text to be taken for a repetition
        ("one two three", "one two four", "one two four"),  # not all of it
        ("one two three", "one two", "one two"),
    ],
)
def test_what_is_new_in_a_continuation(delivered: str, piece: str, new: str):
    assert said(Continuation(delivered), [piece]) == new
    assert said(Continuation(delivered), list(piece)) == new


def test_a_seam_that_ended_has_nothing_more_to_say():
    seam = Continuation("one two three")
    assert seam.take("one t") == ""
    assert (seam.end(), seam.end(), seam.take("!")) == ("one t", "", "!")
