"""Responses as they came: the body sent on, the answer judged, the stream watched, and the end put to a broken one."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects import callids, thoughtsig
from proxy.dialects.responses import native
from proxy.dialects.responses.native import Native
from proxy.stream.sse import Event, Framer
from proxy.usage import Usage

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1741476542,
    "status": "completed",
    "model": "gpt-5",
    "instructions": "be brief",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
        {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "héllo"}]},
    ],
    "usage": {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 12},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 64},
        "total_tokens": 123,
    },
}
SPENT = Usage(36, 87, 64, 12, 24, True)


def test_only_the_model_of_the_body_changes():
    raw = b'{"model": "hotel/x","store":false,"temperature":0.10,"tools":[{"type": "web_search" }],"new":[1,2 ]}'
    own = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    assert native.build(own, model="gpt-5") == (
        b'{"model":"gpt-5","store":false,"temperature":0.10,"tools":[{"type": "web_search" }],"new":[1,2 ]}'
    )
    assert bytes(own["model"]) == b'"hotel/x"'


HEX = "0123456789abcdef" * 2
OURS = b'{"type":"reasoning","id":"rs_%b","summary":[],"status":"completed"%b}'


def sent(*items: bytes) -> bytes:
    """The ``input`` that goes out."""
    own = {"model": msgspec.Raw(b'"x"'), "input": msgspec.Raw(b"[%b]" % b", ".join(items))}
    return native.build(own, model="m").removeprefix(b'{"model":"m","input":').removesuffix(b"}")


@pytest.mark.parametrize(
    ("item", "kept"),
    [
        (OURS % (HEX.encode(), b""), False),
        (OURS % (HEX.encode(), b',"encrypted_content":null'), False),
        (OURS % (HEX.encode(), b',"encrypted_content":""'), False),
        (OURS % (HEX.encode(), b',"encrypted_content":"gAAA"'), True),
        (OURS % (HEX.encode() + b"0123456789abcdef", b""), True),
        (OURS % (HEX[:-1].encode(), b""), True),
        (OURS % (HEX.upper().encode(), b""), True),
        (b'{"type":"message","id":"rs_%b"}' % HEX.encode(), True),
        (b'{"type":"message","id":"msg_%b"}' % HEX.encode(), True),
    ],
)
def test_reasoning_of_ours_is_not_sent_on(item, kept):
    other = b'{"role":"user",  "content":"rs_%b", "n":1.10}' % HEX.encode()
    assert sent(other, item) == (b"[%b, %b]" % (other, item) if kept else b"[%b]" % other)


def test_an_input_that_is_openais_own_is_not_touched():
    real = b'{ "type":"reasoning","id":"rs_%b0123456789abcdef","summary":[] }' % HEX.encode()
    call = b'{"type":"function_call","call_id" : "call_%b", "name":"f","arguments":"{}"}' % HEX.encode()
    assert sent(real, call) == b"[%b, %b]" % (real, call)


@pytest.mark.parametrize("kind", ["function_call", "function_call_output"])
def test_call_ids_go_without_the_signature_and_within_the_limit(kind):
    def item(call_id: str) -> dict[str, object]:
        return {"type": kind, "call_id": call_id, "output": call_id}

    marked, long = thoughtsig.join("call_1", "sig"), "x" * 65
    given = [item(marked), item(long), item("call_2"), {**item(marked), "type": "custom_tool_call"}]
    out = json.loads(sent(*(json.dumps(one).encode() for one in given)))
    assert out[0] == {**given[0], "call_id": "call_1"}
    assert out[1] == {**given[1], "call_id": callids.shortened(long, 64)} and len(out[1]["call_id"]) == 64
    assert out[2:] == given[2:]


@pytest.mark.parametrize(
    "odd", [b'"text"', b"7", b'[7,"x_thoughtsig_YQ",{"type":"function_call","call_id":[]}]', b"{}"]
)
def test_whatever_the_input_is_it_passes(odd):
    own = {"input": msgspec.Raw(odd), "x": msgspec.Raw(b"1")}
    assert json.loads(native.build(own, model="m")) == {"input": json.loads(odd), "x": 1, "model": "m"}


# -- whole answers


def judged(**changes: object) -> native.Judged:
    return native.read_answer(json.dumps({**RESPONSE, **changes}).encode())


def test_an_answer_goes_on_as_it_came():
    payload = json.dumps(RESPONSE, indent=2).encode()
    found = native.read_answer(payload)
    assert found.body is payload
    assert (found.verdict, found.usage, found.carries) == ("served", SPENT, True)


NOTHING = {"output": [], "usage": None}


@pytest.mark.parametrize(
    ("changes", "verdict", "carries"),
    [
        (NOTHING, "bare_finish", False),
        ({**NOTHING, "status": "incomplete"}, "bare_finish", False),
        ({**NOTHING, "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "served", True),
        ({**NOTHING, "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "served", True),
        ({"output": []}, "served", True),  # tokens were spent
        ({**NOTHING, "output": [{"type": "message", "content": []}]}, "bare_finish", False),
        ({**NOTHING, "output": [{"type": "message", "content": [{"refusal": "no"}]}]}, "served", True),
        ({**NOTHING, "output": [{"type": "reasoning", "summary": [{"text": "hm"}]}]}, "served", True),
        ({**NOTHING, "output": [{"type": "function_call", "name": "f", "arguments": ""}]}, "served", True),
        ({**NOTHING, "output": [{"type": "web_search_call", "id": "ws"}]}, "served", True),
        ({**NOTHING, "status": None}, "no_content", False),
        ({**NOTHING, "status": "in_progress"}, "no_content", False),
        ({"status": "failed", "error": {"code": "server_error"}}, "no_content", False),
        ({"id": None, "status": None}, "undecodable", False),
    ],
)
def test_what_counts_as_an_answer(changes, verdict, carries):
    found = judged(**changes)
    assert (found.verdict, found.carries) == (verdict, carries)
    assert bool(found.body) == (verdict in ("served", "bare_finish"))


@pytest.mark.parametrize("payload", [b"", b"<html>", b"[]", b'"x"', b"\xff", b"{}"])
def test_what_is_no_answer(payload):
    found = native.read_answer(payload)
    assert (found.verdict, found.body) == ("undecodable", b"") and found.problem


def test_what_was_delivered_is_counted():
    output = [*RESPONSE["output"], {"type": "function_call", "name": "fn", "arguments": "{}"}]
    assert judged(usage=None, output=output).delivered == len("héllo".encode()) + 4


# -- streams


def event(kind: str, number: int, **members: object) -> Event:
    data = json.dumps({"type": kind, "sequence_number": number, **members}).encode()
    return Framer().feed(b"event: %b\ndata: %b\n\n" % (kind.encode(), data))[0]


HEAD = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
CREATED = event("response.created", 0, response=HEAD)
DELTA = event("response.output_text.delta", 4, item_id="msg_1", delta="hé")


def watched(*events: Event) -> Native:
    one = Native(new_id=lambda: "new", now=lambda: 7.9)
    for got in events:
        one.take(got)
    return one


def state(one: Native) -> tuple[bool, bool, bool, bool]:
    return one.delivered, one.complete, one.over, one.error is not None


def test_a_stream_from_its_beginning_to_its_end():
    one = watched(CREATED, Event(None, b": ping\n\n", b": ping\n"))
    assert state(one) == (False, False, False, False) and one.chunks == 1
    one.take(event("response.output_item.added", 1, item={"type": "message"}))
    one.take(event("response.output_text.delta", 2, delta=""))
    assert state(one) == (False, False, False, False)
    one.take(DELTA)
    assert state(one) == (True, False, False, False) and (one.size, one.finish) == (3, "")
    one.take(event("response.completed", 9, response=RESPONSE))
    assert state(one) == (True, True, True, False) and one.carries
    assert (one.usage, one.finish, one.chunks) == (SPENT, "stop", 5)
    one.take(DELTA)
    assert (one.chunks, one.size) == (5, 3)


def test_a_call_is_output_by_its_name():
    one = watched(event("response.output_item.added", 1, item={"type": "function_call", "name": "fn"}))
    one.take(event("response.function_call_arguments.delta", 2, delta="{}"))
    assert one.delivered and one.size == 4


@pytest.mark.parametrize(
    ("reason", "finish", "carries"),
    [("max_output_tokens", "length", True), ("content_filter", "content_filter", True), ("other", "stop", False)],
)
def test_an_incomplete_response_is_complete_as_a_stream(reason, finish, carries):
    response = {**HEAD, "status": "incomplete", "incomplete_details": {"reason": reason}}
    one = watched(CREATED, event("response.incomplete", 1, response=response))
    assert state(one) == (False, True, True, False)
    assert (one.finish, one.carries) == (finish, carries)


def test_a_terminal_event_alone_is_no_output_unless_it_reports_tokens():
    assert not watched(event("response.completed", 0, response={**RESPONSE, "usage": None})).delivered
    assert watched(event("response.completed", 0, response=RESPONSE)).delivered


def test_a_failed_response_is_the_provider_s_error():
    last = event("response.failed", 5, response={**HEAD, "error": {"code": "server_error"}, "usage": RESPONSE["usage"]})
    one = watched(CREATED, DELTA, last)
    assert state(one) == (True, True, True, True)
    assert (one.error, one.usage, one.finish) == (last.data, SPENT, "")


def test_an_error_event_may_be_followed_by_the_failed_response():
    first = event("error", 5, code="server_error", message="m")
    one = watched(CREATED, DELTA, first)
    assert state(one) == (True, False, False, True) and one.error == first.data
    last = event("response.failed", 6, response=HEAD)
    one.take(last)
    assert state(one) == (True, True, True, True) and one.error == last.data


def test_an_error_without_a_type():
    assert watched(Event(b'{"error":{"message":"m"}}', b"")).error is not None


def test_the_end_of_a_broken_stream_continues_the_provider_s_response():
    """Part of v1-api 53"""
    one = watched(CREATED, event("response.in_progress", 1, response=HEAD), DELTA)
    frame = one.error_frame(Native.TRUNCATED, "provider_error")
    head, data = frame.removesuffix(b"\n\n").split(b"\n")
    found = json.loads(data.removeprefix(b"data: "))
    error = {"code": "provider_error", "message": "stream truncated: upstream closed before a terminal event"}
    assert head == b"event: response.failed"
    assert found == {
        "type": "response.failed",
        "sequence_number": 5,
        "response": {**HEAD, "status": "failed", "error": error},
    }


def test_the_end_of_a_stream_that_never_named_its_response():
    frame = watched(Event(b"junk", b"")).error_frame("m", "internal")
    found = json.loads(frame.split(b"data: ")[1])
    assert (found["sequence_number"], found["response"]["id"]) == (0, "resp_new")
    assert (found["response"]["status"], found["response"]["error"]["code"]) == ("failed", "internal")


@pytest.mark.parametrize("odd", ['"7"', "null", "1.5", "{}"])
def test_an_odd_number_costs_only_itself(odd):
    data = b'{"type":"response.completed","sequence_number":%b,"response":{"usage":{"output_tokens":3}}}' % odd.encode()
    one = watched(Event(data, b""))
    assert one.complete and one.usage == Usage(0, 3)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(("", "a", "failed", "completed")),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("id", "status", "output", "usage", "error", "type", "content", "name", "input_tokens")),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(
    ("response.created", "response.output_text.delta", "response.output_item.added", "response.completed", "error")
)
NAMES = st.sampled_from(("delta", "item", "response", "error", "sequence_number"))
EVENTS = st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS, st.dictionaries(NAMES, JUNK)) | JUNK


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS.map(lambda one: json.dumps(one).encode()) | st.binary(max_size=8), max_size=4))
def test_whatever_comes_the_end_is_in_form(payloads):
    one = watched(*(Event(payload, b"") for payload in payloads))
    found = json.loads(one.error_frame("m", "provider_error").split(b"data: ", 1)[1])
    assert found["response"]["status"] == "failed" and found["sequence_number"] >= 0
    for payload in payloads:
        native.read_answer(payload)
