"""The request body: limits while reading, one parse, the checks routing needs."""

import asyncio
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import body
from proxy.body import BadBody, ClientGone

LIMIT = 100


def receiving(*messages):
    """A ``receive`` that hands out *messages* and counts what was taken."""
    left = list(messages)

    async def receive():
        receive.taken += 1
        message = left.pop(0)
        if isinstance(message, Exception):
            raise message
        return message

    receive.taken = 0
    return receive


async def read(receive, length, *, seconds=60.0):
    return await body.read(receive, length, LIMIT, until=time.monotonic() + seconds)


def piece(data, more=True):
    return {"type": "http.request", "body": data, "more_body": more}


async def test_the_pieces_of_a_body_are_joined():
    assert await read(receiving(piece(b"ab"), piece(b"cd"), piece(b"", False)), None) == b"abcd"
    assert await read(receiving(piece(b"abcd", False)), 4) == b"abcd"


async def test_a_body_announced_as_too_large_is_refused_unread():
    receive = receiving()
    with pytest.raises(BadBody) as refused:
        await read(receive, LIMIT + 1)
    assert (refused.value.status, refused.value.message, receive.taken) == (413, "request body too large", 0)


async def test_a_body_without_a_length_is_refused_at_the_first_byte_over_the_limit():
    receive = receiving(piece(b"x" * LIMIT), piece(b"x"), piece(b"x" * 50, False))
    with pytest.raises(BadBody, match="too large"):
        await read(receive, None)
    assert receive.taken == 2


async def test_a_body_of_exactly_the_limit_passes():
    assert len(await read(receiving(piece(b"x" * LIMIT, False)), LIMIT)) == LIMIT


async def test_a_body_that_breaks_off_is_unreadable():
    with pytest.raises(BadBody, match="failed to read request body"):
        await read(receiving(piece(b"x"), OSError("reset")), None)
    with pytest.raises(BadBody, match="failed to read request body"):
        await read(receiving(piece(b"x", False)), 2)


@pytest.mark.parametrize("seconds", [0.01, -1.0])
async def test_a_body_that_does_not_come_in_time_is_given_up(seconds):
    async def receive():
        await asyncio.Event().wait()

    with pytest.raises(BadBody) as late:
        await read(receive, 2, seconds=seconds)
    text = "request timed out while its body was being received"
    assert (late.value.status, late.value.message, late.value.code) == (504, text, "failover_timeout")
    assert late.value.kind == "failover_timeout"


def test_a_body_has_the_time_of_a_whole_stream():
    """v1-api 8.5: ten times request_timeout per attempt, twice that in all."""
    assert body.deadline(100.0, 60.0) == 1300.0


async def test_a_client_that_leaves_while_sending_is_gone():
    with pytest.raises(ClientGone):
        await read(receiving(piece(b"x"), {"type": "http.disconnect"}), 2)


@pytest.mark.parametrize(
    ("headers", "length"),
    [({}, None), ({b"content-length": b"12"}, 12), ({b"content-length": b"x"}, None), ({b"content-length": b""}, None)],
)
def test_the_announced_length_is_read(headers, length):
    assert body.announced(headers) == length


BROKEN = [
    b"",
    b"   ",
    b"{",
    b"[]",
    b"5",
    b"null",
    b'"x"',
    b"not json sk-secret",
    b'{"model":"a/b"} x',
    b'{"model":"a/b"}{}',
    b'{"model":"a/b"}\x00',
    b'\xef\xbb\xbf{"model":"a/b"}',
    b'{"model":"a/b","x":NaN}',
    b'{"model":"a/b","x":[Infinity]}',
    b'{"model":"a/b","x":01}',
    b'{"model":"a/b","x":1,}',
    b'{"model":"a/b","x":"\xff"}',
    b'{"model":"a/b","x":"\x01"}',
    b'{"model":"a/b","\xff":1}',
    b'{"model":"a/b","x":"\\ud800"}',
    b'{"model":"\xed\xa0\x80"}',
    b'{"model":"a/b","x":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"model":"a/b","x":' + b'{"a":' * 5000 + b"1" + b"}" * 5001,
    b"\x1f\x8b\x08\x00compressed",
    b"model=a%2Fb&stream=true",
]


@pytest.mark.parametrize("raw", BROKEN, ids=lambda raw: repr(raw[:40]))
def test_what_is_no_json_object_is_one_fixed_refusal(raw):
    """v1-api 23"""
    with pytest.raises(BadBody) as refused:
        body.parse(raw)
    assert (refused.value.status, refused.value.message) == (400, "invalid request body")
    assert refused.value.code == "invalid_request_body"


@pytest.mark.parametrize("value", ["5", "5.5", "true", "false", "[]", '["a/b"]', "{}", '{"id":"a/b"}'])
def test_a_model_that_is_no_text_is_refused(value):
    """v1-api 23"""
    with pytest.raises(BadBody) as refused:
        body.parse(b'{"model":%s}' % value.encode())
    assert (refused.value.message, refused.value.param) == ("invalid request body", "model")


@pytest.mark.parametrize("raw", [b"{}", b'{"model":null}', b'{"model":""}', b'{"Model":"a/b"}'])
def test_a_missing_model_is_named(raw):
    with pytest.raises(BadBody) as refused:
        body.parse(raw)
    problem = refused.value
    assert (problem.status, problem.message) == (400, "model is required")
    assert (problem.code, problem.param) == ("missing_required_parameter", "model")


def test_a_model_name_has_at_most_512_characters():
    """v1-api 22"""
    with pytest.raises(BadBody) as refused:
        body.parse(json.dumps({"model": "é" * 513}, ensure_ascii=False).encode())
    problem = refused.value
    assert (problem.status, problem.message) == (400, "model exceeds maximum length of 512 characters")
    assert (problem.code, problem.param) == ("invalid_value", "model")
    assert problem.model == "é" * 64 + "…"
    assert body.parse(json.dumps({"model": "é" * 512}, ensure_ascii=False).encode()).model == "é" * 512


@pytest.mark.parametrize("value", ['"true"', '"false"', "0", "1", "[]", "{}", '""'])
def test_stream_is_a_boolean(value):
    """part of v1-api 24"""
    with pytest.raises(BadBody) as refused:
        body.parse(b'{"model":"a/b","stream":%s}' % value.encode())
    assert (refused.value.message, refused.value.param) == ("invalid request body", "stream")


@pytest.mark.parametrize(("value", "stream"), [("true", True), ("false", False), ("null", False)])
def test_an_absent_or_null_stream_is_false(value, stream):
    assert body.parse(b'{"model":"a/b","stream": %s }' % value.encode()).stream is stream
    assert body.parse(b'{"model":"a/b"}').stream is False


@pytest.mark.parametrize(
    ("options", "wants"),
    [
        ('{"include_usage":true}', True),
        ('{"include_usage":false}', False),
        ('{"include_usage":"true"}', False),
        ("{}", False),
        ("null", False),
        ("5", False),
        ('{"include_usage":true,"x":1}', True),
    ],
)
def test_the_usage_chunk_is_asked_for_with_true_only(options, wants):
    members = '"model":"a/b","stream_options":' + options
    assert body.parse(b'{"stream":true,%s}' % members.encode()).include_usage is wants
    assert body.parse(b"{%s}" % members.encode()).include_usage is False


def test_of_a_repeated_member_the_last_one_counts():
    asked = body.parse(b'{"model":"a/b","stream":true,"model":"c/d"}')
    assert asked.model == "c/d"
    assert bytes(asked.members["model"]) == b'"c/d"'


@given(st.binary(max_size=200))
def test_no_bytes_break_the_parser(raw):
    try:
        body.parse(raw)
    except BadBody as refused:
        assert refused.status == 400


values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.dictionaries(st.text(), st.lists(values) | values, max_size=5))
def test_every_object_with_a_model_passes(members):
    raw = json.dumps({**members, "model": "a/b", "stream": False, "stream_options": None}).encode()
    assert body.parse(raw).model == "a/b"
