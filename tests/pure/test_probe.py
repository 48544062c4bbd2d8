"""What one payload of a chat stream says before anything was sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stream.probe import Meaning, carried_status, classify


def chunk(delta: object = None, **choice: object) -> bytes:
    members = {"index": 0, **({} if delta is None else {"delta": delta}), **choice}
    return json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [members]}).encode()


NOTHING = [
    b"",
    b"  ",
    chunk({"role": "assistant"}),
    chunk({"role": "assistant", "content": ""}),
    chunk({"role": "assistant", "content": None, "tool_calls": None}),
    chunk({}, finish_reason="stop"),
    chunk(None, finish_reason="stop"),
    chunk({"content": [{"type": "text", "text": ""}]}),
    chunk(
        {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "", "arguments": ""}}]}
    ),
    chunk({"reasoning_details": [{"type": "reasoning.text", "text": "", "index": 0}]}),
    chunk({"content": ""}, logprobs=None, finish_reason=None, native_finish_reason=None),
    chunk({"content": ""}, stop_reason=None, token_ids=None),
    b'{"choices":[]}',
    b'{"choices":[],"usage":{"prompt_tokens":3}}',
    b'{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}',
    b'{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"f","service_tier":"x"}',
    b'{"usage":{"prompt_tokens":3}}',
    b'{"error":null,"choices":[]}',
    b'{"error":{},"choices":[]}',
]
OUTPUT = [
    chunk({"content": "hi"}),
    chunk({"content": " "}),
    chunk({"content": "\n"}),
    chunk({"reasoning_content": "hm"}),
    chunk({"reasoning": "hm"}),
    chunk({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"name": "f"}}]}),
    chunk({"function_call": {"arguments": "{"}}),
    chunk({"images": [{"type": "image_url", "image_url": {"url": "data:x"}}]}),
    chunk({"audio": {"id": "a", "data": "x"}}),
    chunk({"refusal": "no"}),
    chunk({"content": [{"type": "text", "text": "a"}]}),
    chunk({"citations": ["https://example.test"]}),
    chunk(None, text="legacy"),
    chunk("not an object"),
    chunk({}, message={"content": "a"}),
    b'{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{"content":"b"}}]}',
    b'{"choices":{"a":1}}',
    b'{"choices":["x"]}',
    b'{"type":"ping"}',
    b"not json",
    b"[1]",
    b"5",
]
ERROR = [
    b'{"error":{"message":"boom"}}',
    b'{"error":"overloaded"}',
    b'{"error":["a"]}',
    b'{"error":7}',
    b'{"error":true,"choices":[{"delta":{"content":"x"}}]}',
]


@pytest.mark.parametrize("payload", NOTHING)
def test_openers_and_bookkeeping_are_nothing(payload: bytes):
    assert classify(payload) is Meaning.NOTHING


@pytest.mark.parametrize("payload", OUTPUT)
def test_model_output_and_the_unknown_are_output(payload: bytes):
    """failover-loop 79"""
    assert classify(payload) is Meaning.OUTPUT


@pytest.mark.parametrize("payload", ERROR)
def test_a_populated_error_member_is_an_error(payload: bytes):
    """part of failover-loop 75"""
    assert classify(payload) is Meaning.ERROR


NESTED = [("[", "]"), ('{"a":', "}")]


@pytest.mark.parametrize("depth", [1, 300, 600])
@pytest.mark.parametrize(("opened", "closed"), NESTED)
def test_a_deep_nesting_is_judged_like_any_other(depth: int, opened: str, closed: str):
    for inner, meaning in (('"x"', Meaning.OUTPUT), ('""', Meaning.NOTHING)):
        nested = f"{opened * depth}{inner}{closed * depth}"
        assert classify(f'{{"choices":[{{"delta":{{"content":{nested}}}}}]}}'.encode()) is meaning
        assert carried_status(f'{{"error":{{"code":429,"details":{nested}}}}}'.encode()) == 429


@pytest.mark.parametrize(("opened", "closed"), NESTED)
def test_what_is_nested_too_deep_to_be_read_is_output_and_states_nothing(opened: str, closed: str):
    nested = f'{opened * 100_000}"x"{closed * 100_000}'
    assert classify(f'{{"choices":[{{"delta":{{"content":{nested}}}}}]}}'.encode()) is Meaning.OUTPUT
    assert carried_status(f'{{"error":{{"code":429,"details":{nested}}}}}'.encode()) is None


def test_done_is_the_end():
    assert classify(b" [DONE] ") is Meaning.END


@pytest.mark.parametrize(
    ("frame", "status"),
    [
        ({"error": {"code": 429, "message": "x"}}, 429),
        ({"error": {"code": "503"}}, 503),
        ({"error": {"code": "boom", "status": 401}}, 401),
        ({"error": {"status_code": 418}}, 418),
        ({"error": {"code": 200, "status": 500}}, 500),
        ({"error": {"code": 429}, "status": 500}, 429),
        ({"error": "x", "status": 500, "code": 429}, 500),
        ({"error": "x", "code": 429}, 429),
        ({"error": "x", "status_code": "404"}, 404),
        ({"error": {"type": "rate_limit_error"}}, 429),
        ({"error": {"type": "overloaded_error"}}, 529),
        ({"error": {"type": "other"}}, None),
        ({"error": {"code": True}}, None),
        ({"error": {"code": 600}}, None),
        ({"error": {"code": 399}}, None),
        ({"error": {"code": " 429"}}, None),
        ({"error": "boom"}, None),
        ([1], None),
    ],
)
def test_the_carried_status_is_looked_up_in_order(frame: object, status: int | None):
    """part of failover-loop 75, failover-loop 76"""
    assert carried_status(json.dumps(frame).encode()) == status


def test_a_payload_that_is_no_json_carries_no_status():
    assert carried_status(b"boom") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_no_payload_of_any_shape_raises(value: object):
    for frame in (value, {"choices": value}, {"choices": [value]}, {"choices": [{"delta": value}]}, {"error": value}):
        payload = json.dumps(frame).encode()
        assert classify(payload) in Meaning
        assert carried_status(payload) is None or 400 <= (carried_status(payload) or 0) <= 599
