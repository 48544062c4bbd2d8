"""Embeddings: the request that only changes its model, the judgement of the answer, what is billed."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.kinds.base import EMBEDDINGS_PATH
from providers.kinds.registry import KINDS
from proxy.body import BadBody
from proxy.dialects import embeddings, passed
from proxy.usage import MAX_COUNT, Usage

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def members(**given_members):
    return {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in given_members.items()}


# -- the request


def test_only_the_model_changes():
    raw = b'{"input":["\\u00e9", 1],"model":"hotel/g","dimensions":1.0,"x":{"a":9007199254740993},"stream":null}'
    asked = embeddings.parse(raw)
    out = passed.build_body(asked.members, raw, model_id="m", kind=KINDS["deepseek"], stream=False)
    assert out == raw.replace(b"hotel/g", b"m")
    assert bytes(asked.members["model"]) == b'"hotel/g"'  # the next candidate starts from what came


def test_no_provider_type_adds_or_removes_anything():
    body = members(model="x", input="hi", top_k=1, reasoning_effort="low", stream_options={}, messages=[])
    for kind in KINDS.values():
        out = json.loads(passed.build_body(body, b"", model_id="deepseek-reasoner", kind=kind, stream=False))
        assert out == {n: msgspec.json.decode(v) for n, v in body.items()} | {"model": "deepseek-reasoner"}


@pytest.mark.parametrize("stream", [True, False, None])
def test_embeddings_are_never_streamed(stream):
    asked = embeddings.parse(json.dumps({"model": "m", "stream": stream}).encode())
    assert (asked.stream, asked.include_usage) == (False, False)


@pytest.mark.parametrize("stream", ["true", 1, [], {}])
def test_a_stream_that_is_no_boolean_is_refused(stream):
    with pytest.raises(BadBody) as refused:
        embeddings.parse(json.dumps({"model": "m", "stream": stream}).encode())
    assert (refused.value.message, refused.value.param) == ("invalid request body", "stream")


@pytest.mark.parametrize("name", KINDS)
def test_every_provider_type_has_a_place_for_embeddings(name):
    before = "https://h/openai/v1" if name == "azure" else "https://h/v1"  # Azure keeps no path but its own
    assert KINDS[name].url("https://h/v1/", EMBEDDINGS_PATH) == before + "/embeddings"


# -- the answer


@pytest.mark.parametrize(
    ("payload", "verdict"),
    [
        (b'{"data":[{"embedding":[1.5]}]}', "served"),
        (b'\xef\xbb\xbf {"data":[0]} ', "served"),
        (b'{"data":[null]}', "served"),
        (b'{"data":[]}', "no_results"),
        (b'{"data":null}', "undecodable"),
        (b'{"data":{}}', "undecodable"),
        (b'{"data":"x"}', "undecodable"),
        (b"{}", "undecodable"),
        (b"[]", "undecodable"),
        (b'{"data":[1]', "undecodable"),
        (b'{"data":[1]} x', "undecodable"),
        (b"", "undecodable"),
        (b"<html>", "undecodable"),
    ],
)
def test_an_answer_is_judged_by_its_vectors_and_goes_on_as_it_came(payload, verdict):
    found = embeddings.read_answer(payload)
    assert found.verdict == verdict
    assert found.body == (payload if verdict in ("served", "no_results") else b"")
    assert found.carries == (verdict == "served")
    assert bool(found.problem) == (verdict == "undecodable")


def test_the_problem_quotes_nothing():
    assert "secret" not in embeddings.read_answer(b'{"data": secret}').problem
    assert "secret" not in embeddings.read_answer(b'{"data": "secret"}').problem


@given(values)
def test_no_answer_breaks_the_reader(value):
    assert embeddings.read_answer(json.dumps({"data": [1], "usage": value}).encode()).verdict == "served"
    found = embeddings.read_answer(json.dumps({"data": value}).encode())
    assert found.verdict == ("undecodable" if not isinstance(value, list) else "served" if value else "no_results")


@given(st.binary(max_size=100))
def test_no_bytes_break_the_reader(payload):
    assert embeddings.read_answer(payload).verdict in ("undecodable", "no_results", "served")


def test_endless_nesting_is_no_answer():
    assert embeddings.read_answer(b'{"data":' + b"[" * 100_000).verdict == "undecodable"


# -- what it cost


@pytest.mark.parametrize(
    ("usage", "found"),
    [
        ({"prompt_tokens": 3, "total_tokens": 9}, Usage(3, 0)),
        ({"prompt_tokens": 0, "input_tokens": 4}, Usage(4, 0)),
        ({"prompt_tokens": "x", "total_tokens": 9.0}, Usage(9, 0)),
        ({"output_tokens": 2}, Usage(0, 2)),
        ({"prompt_tokens": 10**30}, Usage(MAX_COUNT, 0)),
        ({"prompt_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": None}, None),
        ({"prompt_tokens": True, "total_tokens": [1]}, None),
        ({}, None),
        ([], None),
        (None, None),
        ("3", None),
    ],
    ids=str,
)
def test_usage_in_every_spelling(usage, found):
    assert passed.read_usage(usage) == found


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"input": "12345"}, 2),
        ({"input": ["1234", "56"]}, 2),
        ({"input": [1, 2, 3]}, 3),
        ({"input": [[1, 2], [3]]}, 3),
        ({"input": [1, "12345678", True, None, 2.5, []]}, 3),
        ({"input": [{"text": "1234"}, {"image": "x" * 999}]}, 1),
        ({"prompt": "1234"}, 1),
        ({"query": "1234", "documents": ["1234", {"text": "1234"}]}, 3),
        ({"input": ""}, 1),
        ({"input": {}}, 1),
        ({}, 1),
        ({"user": "x" * 999, "model": "y" * 999}, 1),
    ],
    ids=str,
)
def test_an_estimate_counts_text_at_four_bytes_and_numbers_as_tokens(body, tokens):
    """v1-api 85"""
    assert passed.prompt_tokens(members(**body)) == tokens


@given(values)
def test_no_input_breaks_the_estimate(value):
    assert passed.prompt_tokens(members(input=value)) >= 1


def test_vectors_are_no_completion():
    assert passed.no_completion(1_000_000) == 0
