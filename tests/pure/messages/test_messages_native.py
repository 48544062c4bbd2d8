"""Bodies, answers and streams of the Messages dialect that pass as they are: v1-api 12.1, 12.6, 9.2, 12.7."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import answers
from proxy.dialects import thoughtsig
from proxy.dialects.messages import count, errors, ingress, native
from proxy.stream.sse import Event, Framer
from proxy.usage import MAX_COUNT, Usage
from tests.pure.messages.shapes import (
    AGENT,
    ANSWER,
    PDF,
    PING,
    PNG,
    STOP,
    closed,
    delta,
    frames_of,
    members,
    opened,
    raw,
    sse,
    start,
    stopping,
    values,
)

# -- the request


def test_a_native_body_differs_in_the_model_only():
    """Part of v1-api 70."""
    own = ingress.parse(raw(AGENT)).own
    assert json.loads(native.build(own, model="claude-x")) == {**AGENT, "model": "claude-x"}
    compact = b'{"model":"a/b","messages":[{"role":"user",  "content":"x"}],"n":9007199254740993,"x":1.10}'
    assert native.build(ingress.parse(compact).own, model="c") == compact.replace(b"a/b", b"c")


def test_ids_of_calls_go_without_the_signature():
    """Part of v1-api 78."""
    marked = thoughtsig.join("call_1", "sig")
    conversation = [
        {"role": "user", "content": f"what is {marked}?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": marked, "cache_control": {"type": "ephemeral"}},
                {"type": "tool_use", "id": marked, "name": "f", "input": {"id": marked}},
                {"type": "tool_use", "id": "a_thoughtsig_!", "name": "f", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": marked, "content": marked}]},
    ]
    built = json.loads(native.build(members(model="g", messages=conversation, max_tokens=1), model="claude"))
    expected = json.loads(json.dumps(conversation))
    expected[1]["content"][1]["id"] = expected[2]["content"][0]["tool_use_id"] = "call_1"
    expected[1]["content"][2]["id"] = "a_thoughtsig__"
    assert built == {"model": "claude", "messages": expected, "max_tokens": 1}


def test_ids_of_other_vendors_are_made_plain_and_nothing_else_is_touched():
    call = b'{"type":"tool_use","id":"%s","name":"f",  "input":{"tool_use_id":"a:b","n":1.10}}'
    result = b'{ "type":"tool_result","tool_use_id" : "%s","content":[{"type":"text","text":"functions.f:0"}]}'
    talk = (
        b'[{"role":"user","content":"functions.f:0",  "x":1E2},{"role":"assistant","content":[%b,{"type":"text", '
        b'"text":"t"}]},{"role":"user","content":[%b]}]'
    )
    own = b'{"model":"a","messages":%b,"max_tokens":1}'
    plain = own % (talk % (call % b"toolu_01-a", result % b"toolu_01-a"))
    assert native.build(ingress.parse(plain).own, model="a") == plain
    odd = own % (talk % (call % b"functions.f:0", result % b"functions.f:0"))
    built = json.loads(native.build(ingress.parse(odd).own, model="a"))
    assert built == json.loads(own % (talk % (call % b"functions_f_0", result % b"functions_f_0")))
    raw_out = native.build(ingress.parse(odd).own, model="a")
    assert b'{"role":"user","content":"functions.f:0",  "x":1E2}' in raw_out and b'"n":1.10}' in raw_out
    assert b'{"type":"text", "text":"t"}' in raw_out


@settings(max_examples=40)
@given(
    values,
    st.lists(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(("tool_use", "tool_result")),
                "id": values.filter(lambda value: not isinstance(value, str)),
            }
        ),
        max_size=3,
    ),
)
def test_whatever_the_messages_are_they_pass(value, blocks):
    marked = "x_thoughtsig_YWJj"
    for odd in (value, [marked, value], [{"content": [*blocks, marked, {"type": "tool_use", "id": [marked]}]}]):
        assert json.loads(native.build(members(messages=odd), model="m")) == {"messages": odd, "model": "m"}


# -- the whole answer


def test_an_answer_passes_as_it_came_and_is_metered():
    payload = b"\xef\xbb\xbf" + raw(ANSWER)
    judged = native.read_answer(payload)
    assert (judged.verdict, judged.body, judged.carries) == ("served", payload, True)
    assert judged.usage == Usage(188207, 393, 0, 188086, 121, True)
    assert judged.delivered == len("Let me look.It is sunny.") + len('{"city": "Paris", "days": 3}{}')


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ({"input_tokens": 3, "output_tokens": 2}, Usage(3, 2)),
        ({"input_tokens": 3, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 4}, Usage(7)),
        ({"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}, Usage(7, 1, 0, 4, 3, True)),
        ({"input_tokens": "12", "output_tokens": 3.0}, Usage(12, 3)),
        ({"input_tokens": 1, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}}, Usage(1, 9, 7)),
        ({"input_tokens": 1, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": "x"}}, Usage(1, 9)),
        ({"input_tokens": -1, "output_tokens": 10**30}, Usage(0, MAX_COUNT)),
        ({"input_tokens": MAX_COUNT, "cache_creation_input_tokens": MAX_COUNT}, Usage(MAX_COUNT)),
        ({"input_tokens": "x"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_usage(said, usage):
    assert native.read_answer(raw({**ANSWER, "usage": said})).usage == usage


@pytest.mark.parametrize(
    ("content", "more", "verdict", "carries"),
    [
        ([{"type": "text", "text": "x"}], {}, "served", True),
        ([{"type": "thinking", "thinking": "x"}], {}, "served", True),
        ([{"type": "tool_use", "id": "t", "name": "f", "input": {}}], {}, "served", True),
        ([{"type": "brand_new"}], {}, "served", True),
        ([{"type": "text", "text": ""}], {"stop_reason": "end_turn"}, "bare_finish", False),
        ([], {"stop_reason": "end_turn"}, "bare_finish", False),
        ([], {"stop_reason": "end_turn", "usage": {"output_tokens": 2}}, "served", True),
        ([], {"stop_reason": "max_tokens"}, "served", True),
        ([], {"stop_reason": "refusal"}, "served", True),
        ([], {"stop_reason": None}, "no_content", False),
        (None, {}, "no_content", False),
    ],
)
def test_what_an_answer_is_worth(content, more, verdict, carries):
    """Part of circuit-breaker 24: a refusal of the content is an answer."""
    judged = native.read_answer(raw({"type": "message", "content": content, **more}))
    assert (judged.verdict, judged.carries) == (verdict, carries)
    assert bool(judged.body) is (verdict in ("served", "bare_finish"))


@pytest.mark.parametrize("payload", [b"<html>", b"[]", b"{}", b'{"type":"error","error":{"type":"api_error"}}'])
def test_what_is_no_message_is_undecodable(payload):
    judged = native.read_answer(payload)
    assert (judged.verdict, judged.body) == ("undecodable", b"") and judged.problem


# -- the stream


def watched(*events):
    seen = native.Native()
    for event in Framer().feed(sse(*events)):
        seen.take(event)
    return seen


def test_a_stream_is_watched_to_its_end():
    events = frames_of(ANSWER)
    seen = watched(*events)
    assert (seen.chunks, seen.delivered, seen.complete, seen.over, seen.carries) == (
        len(events),
        True,
        True,
        True,
        True,
    )
    assert (seen.finish, seen.error, seen.usage) == ("tool_use", None, Usage(188207, 393, 0, 188086, 121, True))
    assert seen.size == len("Let me look.It is sunny.") + len('{"city":"Paris","days":3}')


def test_a_stop_reason_is_an_end_too():
    """Part of failover-loop 111."""
    seen = watched(start(), delta(0, "text_delta", text="x"), stopping("end_turn"))
    assert seen.complete and not seen.over
    cut_off = watched(start(), delta(0, "text_delta", text="é"), closed(0), stopping(None))
    assert not cut_off.complete and not cut_off.over and cut_off.size == 2
    assert native.Native.TRUNCATED == "stream truncated: upstream closed before message_stop"
    assert cut_off.error_frame(cut_off.TRUNCATED, "provider_error") == errors.frame(cut_off.TRUNCATED)


def test_an_error_event_is_kept_and_nothing_counts_behind_it():
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    seen = watched(start(), PING, event, delta(0, "text_delta", text="x"), STOP)
    assert (seen.error, seen.over, seen.complete, seen.delivered, seen.chunks) == (raw(event), True, False, False, 3)


@pytest.mark.parametrize(
    ("event", "delivered"),
    [
        (start(), False),
        (PING, False),
        (opened(0, type="text", text=""), False),
        (opened(0, type="tool_use", id="t", name="f", input={}), True),
        (delta(0, "text_delta", text=""), False),
        (delta(0, "text_delta", text="x"), True),
        (delta(0, "thinking_delta", thinking="x"), True),
        (stopping("end_turn", output_tokens=0), False),
        (stopping("end_turn"), True),
    ],
)
def test_what_counts_as_delivered(event, delivered):
    assert watched(event).delivered is delivered


@pytest.mark.parametrize(("reason", "carries"), [("max_tokens", True), ("refusal", True), ("end_turn", False)])
def test_reasons_that_are_an_answer(reason, carries):
    assert watched(start(), stopping(reason, output_tokens=0), STOP).carries is carries


@settings(max_examples=40)
@given(st.lists(values, max_size=4), st.binary(max_size=30))
def test_garbage_harms_nobody(payloads, noise):
    seen = native.Native()
    for payload in [*map(raw, payloads), noise, b""]:
        seen.take(Event(payload, b""))
    seen.take(Event(None, b": ping\n\n", b": ping\n"))
    native.read_answer(noise)
    assert seen.usage is None or seen.usage.total >= 0


# -- errors


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "invalid_request_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "api_error"),
        (529, "api_error"),
    ],
)
def test_every_refusal_of_ours_gets_anthropics_shape(status, kind):
    """Part of v1-api 51."""
    dressed = json.loads(errors.dress(status, answers.error(status, "rate limit exceeded", "x").body))
    assert dressed == {"type": "error", "error": {"type": kind, "message": "rate limit exceeded"}}


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (400, b'{"error":"overloaded"}', "overloaded"),
        (400, b'{"error":{"message":""}}', '{"error":{"message":""}}'),
        (400, b'{"detail":"x"}', '{"detail":"x"}'),
        (400, b" some text\n", "some text"),
        (400, b"\xff", "\ufffd"),
        (404, b"", "Not Found"),
        (599, b"", "Error"),
    ],
)
def test_a_body_of_another_shape_is_the_message(status, body, message):
    dressed = json.loads(errors.dress(status, body))
    assert dressed["type"] == "error"
    assert dressed["error"]["message"] == message


def test_an_error_of_anthropics_shape_stays_byte_for_byte():
    body = b'{ "type": "error", "error": {"type": "invalid_request_error", "message": "m"}, "request_id": "req_1"}'
    assert errors.dress(400, body) is body
    once = errors.dress(429, b"x")
    assert errors.dress(429, once) == once


@settings(max_examples=40)
@given(st.integers(100, 999), st.binary(max_size=40) | values.map(raw))
def test_every_body_can_be_dressed(status, body):
    dressed = json.loads(errors.dress(status, body))
    assert dressed["type"] == "error" and set(dressed["error"]) >= {"type", "message"}


# -- count_tokens


@pytest.mark.parametrize(
    ("own", "size"),
    [
        ({"system": "é", "messages": []}, 2),
        ({"system": [{"type": "text", "text": "ab"}, {"type": "text", "text": "c"}]}, 3),
        ({"messages": [{"role": "user", "content": "x" * 9}]}, 9),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "abc"}]}]}, 3),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "thinking", "thinking": "abcd", "signature": "s"}]}
                ]
            },
            4,
        ),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {"a": 1}}]}]}, 8),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "abc"}]}]}, 3),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"text": "ab"}]}]}]}, 2),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": PNG}}]}]},
            0,
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": PDF}}]}
                ]
            },
            len(PDF),
        ),
        ({"tools": [{"name": "f"}]}, len(b'[{"name":"f"}]')),
        ({"tools": None, "messages": None}, 0),
    ],
)
def test_tokens_are_a_quarter_of_the_bytes(own, size):
    assert count.input_tokens(members(**own)) == -(-size // 4)


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(("system", "messages", "tools")), values))
def test_every_body_can_be_counted(own):
    assert count.input_tokens(members(**own)) >= 0
