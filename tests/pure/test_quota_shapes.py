"""The shape of a quota answer, what is kept of it, and when it has changed (circuit-breaker 12)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.quota import shapes
from providers.quota.fields import amount, flag, keep, scalar, text
from providers.quota.shapes import Change

ZAI = {"code": 200, "data": {"limits": [{"type": "a"}, {"type": "b", "unit": 3}], "level": None}}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (ZAI, "code data data.level data.limits data.limits[] data.limits[].type data.limits[].unit"),
        ({"b": [], "a": {}}, "a b"),
        ({"a": [[1, 2], [{"c": 1}]]}, "a a[] a[][] a[][].c"),
        ({}, ""),
        ([{"a": 1}], ""),
        ("text", ""),
        (None, ""),
        ({"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}, "a a.b a.b.c a.b.c.d a.b.c.d.e a.b.c.d.e.f"),
        ({"l": [{"m": [{"n": {"o": 1}}]}]}, "l l[] l[].m l[].m[] l[].m[].n l[].m[].n.o"),
    ],
)
def test_the_paths_of_an_answer(answer, found):
    assert shapes.paths(answer) == tuple(found.split())


def test_values_have_no_shape():
    other = {"code": "x", "data": {"limits": [{"type": 3, "unit": None}], "level": 0.5}}
    assert shapes.paths(ZAI) == shapes.paths(other)


def test_a_huge_answer_is_cut_at_the_same_place_whatever_its_order():
    names = [f"n{number:03}" for number in range(500)]
    there, back = (shapes.paths({name: {"x": 1} for name in each}) for each in (names, reversed(names)))
    assert there == back and len(there) == 200
    assert there[:3] == ("n000", "n000.x", "n001")
    [long] = shapes.paths({"x" * 5000: 1})
    assert len(long) == 100
    assert shapes.paths({"a\nb": 1, "c\ud800": 2}) == ("a b", "c?")


JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(JSON)
def test_every_answer_has_a_shape_of_limited_size(value):
    found = shapes.paths(value)
    assert list(found) == sorted(set(found)) and len(found) <= shapes.PATHS
    assert all(path.count("[]") <= shapes.DEPTH for path in found)


def test_two_answers_of_one_reading_are_one_shape_without_what_comes_and_goes():
    assert shapes.together([("a", "c"), ("b", "c")], frozenset({"c"})) == ("a", "b")


# --- changes ------------------------------------------------------------------------------------------------------

A, AB, C = ("a",), ("a", "b"), ("c",)


def fetched(*each):
    """What the fetches of these shapes, one after the other, tell."""
    note, told = None, []
    for seen in each:
        new, change = shapes.compare(note, seen)
        note = note if new is None else new
        told.append(change)
    return told


@pytest.mark.parametrize(
    ("each", "told"),
    [
        ([A], [None]),
        ([A, A, A], [None] * 3),
        ([A, AB], [None] * 2),
        ([A, AB, AB], [None, None, Change(["b"], [])]),
        ([A, AB, AB, AB, AB], [None, None, Change(["b"], []), None, None]),
        ([AB, A, A], [None, None, Change([], ["b"])]),
        ([A, AB, A, AB], [None] * 4),
        ([A, AB, C, AB], [None] * 4),
        ([A, AB, C, C], [None, None, None, Change(["c"], ["a"])]),
        ([A, AB, AB, A, A], [None, None, Change(["b"], []), None, Change([], ["b"])]),
    ],
)
def test_a_change_counts_when_the_next_fetch_shows_it_as_well(each, told):
    """part of circuit-breaker 72"""
    assert fetched(*each) == told


def test_an_event_names_ten_paths_of_each_sort():
    before, after = (tuple(f"{word}{number:02}" for number in range(30)) for word in ("a", "b"))
    [*_, change] = fetched(before, after, after)
    assert change == Change([f"b{n:02}" for n in range(10)], [f"a{n:02}" for n in range(10)])


@pytest.mark.parametrize("note", ["", "{", "[]", "3", '{"shape": 3}', '{"shape": [1]}', '{"other": []}'])
def test_a_note_nobody_can_read_is_adopted_anew_without_a_word(note):
    assert shapes.compare(note, AB) == (json.dumps({"shape": ["a", "b"]}), None)


def test_the_same_shape_writes_nothing():
    note, _ = shapes.compare(None, A)
    assert shapes.compare(note, A) == (None, None)


# --- the fields that are kept ---------------------------------------------------------------------------------------

SHAPE = {"on": flag, "n": amount, "t": text, "any": scalar, "in": {"n": amount}, "list": [{"n": amount}], "raw": [text]}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"n": 1, "other": 2}, {"n": 1}),
        ({"n": "12.50", "t": "x", "on": True}, {"n": "12.50", "t": "x", "on": True}),
        ({"n": None, "in": None}, {"n": None, "in": None}),
        ({"n": True, "t": 3, "on": 1, "in": [], "list": {}, "raw": "x"}, {}),
        ({"n": "many", "t": ["x"]}, {}),
        ({"n": float("nan")}, {}),
        ({"n": float("inf")}, {}),
        ({"n": "nan"}, {}),
        ({"n": 10**400}, {}),
        ({"n": 2**63}, {}),
        ({"n": -3}, {"n": -3}),
        ({"list": [{"n": 1, "m": 2}, 3, None, {"n": "x"}]}, {"list": [{"n": 1}, None, {}]}),
        ({"list": [{}] * 500}, {"list": [{}] * 100}),
        ({"any": False}, {"any": False}),
        ({"any": 5}, {"any": 5}),
        ({"any": "x"}, {"any": "x"}),
        ({"any": []}, {}),
        ({"t": "a\0b"}, {"t": "ab"}),
        ({"t": "a\ud800b"}, {"t": "a?b"}),
        ([], {}),
        (None, {}),
        ("text", {}),
    ],
)
def test_only_known_fields_of_the_right_type_are_kept(value, kept):
    assert keep(SHAPE, value) == kept


def test_a_long_text_is_cut():
    assert len(keep(SHAPE, {"t": "x" * 5000})["t"]) == 300


@given(JSON)
def test_what_is_kept_can_be_stored_whatever_came(value):
    kept = keep(SHAPE, value)
    assert isinstance(kept, dict) and set(kept) <= set(SHAPE)
    json.dumps(kept).encode()
