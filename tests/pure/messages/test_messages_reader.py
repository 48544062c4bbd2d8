"""A Messages stream as a chat stream (v1-api 14.3), and what its events say before the first token."""

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.messages import egress, reader
from proxy.secrecy import Secrets
from proxy.stream import probe
from proxy.stream.chat import ChatStream
from proxy.stream.probe import Meaning
from proxy.stream.sse import Event, Framer
from tests.pure.messages.shapes import (
    ANSWER,
    ID,
    PING,
    STOP,
    closed,
    delta,
    frames_of,
    joined,
    opened,
    raw,
    read,
    sse,
    start,
    stopping,
    values,
)


def chunk(said, finish=None, **more):
    return {
        "id": f"chatcmpl-{ID}",
        "object": "chat.completion.chunk",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "delta": said, "finish_reason": finish}],
        **more,
    }


ROLE = chunk({"role": "assistant"})
USAGE = {"prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40}
START = start()


def last(finish="stop"):
    return [chunk({}, finish, usage=USAGE), "[DONE]"]


def call(index, **more):
    return chunk({"tool_calls": [{"index": index, **more}]})


def test_every_event_of_a_conversation():
    found = read(
        sse(
            START,
            PING,
            opened(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="Hm."),
            delta(0, "signature_delta", signature="EqQB"),
            closed(0),
            opened(1, type="text", text=""),
            delta(1, "text_delta", text="It is "),
            delta(1, "citations_delta", citation={"cited_text": "x"}),
            delta(1, "text_delta", text="ä\u2028"),
            closed(1),
            opened(2, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
            delta(2, "input_json_delta", partial_json='{"query":"x"}'),
            closed(2),
            opened(3, type="web_search_tool_result", tool_use_id="srvtoolu_1", content=[{"title": "x"}]),
            closed(3),
            opened(4, type="tool_use", id="toolu_1", name="f", input={}),
            delta(4, "input_json_delta", partial_json=""),
            delta(4, "input_json_delta", partial_json='{"a"'),
            delta(4, "input_json_delta", partial_json=":1}"),
            closed(4),
            opened(5, type="tool_use", id="toolu_2", name="g", input={}),
            closed(5),
            {"type": "brand_new", "index": 5},
            stopping("tool_use"),
            STOP,
        )
    )
    assert found == [
        ROLE,
        ": ping",
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "It is "}),
        chunk({"content": "ä\u2028"}),
        call(0, id="toolu_1", type="function", function={"name": "f", "arguments": ""}),
        call(0, function={"arguments": '{"a"'}),
        call(0, function={"arguments": ":1}"}),
        call(1, id="toolu_2", type="function", function={"name": "g", "arguments": ""}),
        call(1, function={"arguments": "{}"}),
        *last("tool_calls"),
    ]


@pytest.mark.parametrize(
    ("reason", "finish"),
    [("end_turn", "stop"), ("max_tokens", "length"), ("tool_use", "tool_calls"), ("refusal", "content_filter")],
)
def test_the_finish_reason_and_the_usage_come_together(reason, finish):
    assert read(sse(START, stopping(reason), STOP)) == [ROLE, *last(finish)]


def test_a_stop_reason_without_a_stop_is_complete():
    assert read(sse(START, stopping("end_turn"))) == [ROLE, *last()]


def test_a_call_that_is_still_open_at_the_end_has_its_input():
    found = read(sse(START, opened(0, type="tool_use", id="t", name="f", input={"a": [1, 2]}), stopping("tool_use")))
    assert joined(found)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"a":[1,2]}'


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([START, opened(0, type="text", text=""), delta(0, "text_delta", text="x")], {"prompt_tokens": 25}),
        (
            [start(cache_read_input_tokens=5, cache_creation_input_tokens=2), delta(0, "text_delta", text="x")],
            {
                "prompt_tokens": 32,
                "prompt_tokens_details": {"cached_tokens": 5},
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 2,
            },
        ),
        ([START, stopping(None), delta(0, "text_delta", text="x")], {"prompt_tokens": 25, "completion_tokens": 15}),
    ],
)
def test_a_cut_off_answer_has_its_usage_and_no_finish(events, usage):
    """Part of v1-api 75."""
    usage = {"completion_tokens": 0, **usage}
    total = usage["prompt_tokens"] + usage["completion_tokens"]
    found = read(sse(*events))
    assert found == [
        ROLE,
        chunk({"content": "x"}),
        {**chunk({}), "choices": [], "usage": {**usage, "total_tokens": total}},
    ]


def test_an_answer_cut_off_before_any_usage_ends_in_silence():
    """Part of v1-api 75."""
    assert read(sse(delta(0, "text_delta", text="x"))) == [ROLE, chunk({"content": "x"})]
    assert read(b"") == []


@pytest.mark.parametrize(
    "last",
    [
        sse({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}),
        b"data: {bad\n\n",
        sse(delta(7, "input_json_delta", partial_json="{}")),
    ],
)
def test_what_was_reported_outlasts_an_end_that_shows_none_of_it(last):
    one = reader.Reader("m")
    assert one.usage is None
    for event in Framer().feed(sse(START, stopping(None), delta(0, "text_delta", text="x"))):
        one.take(event)
    (error,) = [found for event in Framer().feed(last) for found in one.take(event)]
    assert b'"error"' in error.data and b"usage" not in error.data
    assert one.finish() == [] and (one.usage.prompt, one.usage.completion) == (25, 15)


def test_nothing_comes_behind_the_end():
    assert read(sse(START, stopping("end_turn"), STOP, delta(0, "text_delta", text="x"), STOP)) == [ROLE, *last()]
    one = reader.Reader("m")
    for event in Framer().feed(sse(START, stopping("end_turn"), STOP)):
        one.take(event)
    assert one.finish() == []


def test_an_end_marker_of_another_dialect_says_nothing():
    assert read(sse(START, stopping("end_turn")) + b"data: [DONE]\n\n") == [ROLE, *last()]
    assert read(sse(START) + b"data:  \n\n" + sse(delta(0, "text_delta", text="x")) + b"data: [DONE]\n\n")[:2] == [
        ROLE,
        chunk({"content": "x"}),
    ]


def error(message, kind, code=None):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("event", "frame", "status"),
    [
        (
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "req_1"},
            error("Overloaded", "overloaded_error"),
            529,
        ),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}, error("m", "rate_limit_error"), 429),
        ({"type": "error", "error": {"type": "api_error", "message": "m"}}, error("m", "api_error"), None),
        ({"type": "error", "error": {"code": 503, "message": "m"}}, error("m", "server_error", "503"), 503),
        ({"type": "error", "error": {"status": 404, "code": True}}, error("", "server_error", "404"), 404),
        ({"type": "error", "error": "boom"}, error("boom", "server_error"), None),
        ({"type": "error"}, error("", "server_error"), None),
        ({"type": "odd", "error": {"message": "m", "code": "x"}}, error("m", "server_error", "x"), None),
    ],
)
def test_an_error_is_the_last_event(event, frame, status):
    frame["error"]["message"] = frame["error"]["message"] or "the provider failed to serve this request"
    found = read(sse(START, delta(0, "text_delta", text="x"), event, delta(0, "text_delta", text="y"), STOP))
    assert found == [ROLE, chunk({"content": "x"}), frame]
    payload = reader.error_payload(raw(event))
    assert json.loads(payload) == frame
    assert probe.carried_status(payload) == status
    assert reader.classify(raw(event)) is Meaning.ERROR
    assert probe.classify(payload) is Meaning.ERROR


@pytest.mark.parametrize(
    "events",
    [
        [delta(0, "input_json_delta", partial_json="{}")],
        [
            opened(0, type="tool_use", id="t", name="f", input={}),
            closed(0),
            delta(0, "input_json_delta", partial_json="x"),
        ],
        [opened(0, type="tool_use", id="t", name="f", input={}), delta(1, "input_json_delta", partial_json="x")],
    ],
)
def test_input_for_a_block_that_is_not_open_fails_the_stream(events):
    found = read(sse(START, *events, stopping("tool_use"), STOP))
    assert found[-1] == error(reader.NOT_OPEN, "server_error", "provider_error")
    assert found.count("[DONE]") == 0


@pytest.mark.parametrize("rest", [b'data: {"type":"mess', b"data: {\n\n", b'data: {"type":"\xff"}\n\n'])
def test_an_event_that_is_not_json_fails_the_stream(rest):
    found = read(sse(START) + rest)
    assert found == [ROLE, error(reader.NOT_JSON, "server_error", "provider_error")]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ([1], []),
        (5, []),
        ({}, []),
        ({"type": 5}, []),
        ({"type": "content_block_delta"}, []),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": None}}, []),
        ({"type": "content_block_delta", "index": "0", "delta": {"type": "text_delta", "text": "x"}}, ["x"]),
        ({"type": "content_block_delta", "index": None, "delta": {"type": "text_delta", "text": "x"}}, ["x"]),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x", "thinking": 1}}, ["x"]),
        ({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "x"}}, ["x"]),
        ({"type": "content_block_start", "index": 0, "content_block": None}, []),
    ],
)
def test_events_of_an_unusual_shape(event, expected):
    found = read(b"data: " + raw(event) + b"\n\n")
    assert [one["choices"][0]["delta"]["content"] for one in found[1:]] == expected


def test_the_last_event_needs_no_blank_line_and_lines_may_end_anyhow():
    stream = sse(START, delta(0, "text_delta", text="x"), stopping("end_turn"), STOP)
    expected = [ROLE, chunk({"content": "x"}), *last()]
    assert read(stream.rstrip(b"\n")) == expected
    assert read(b"\xef\xbb\xbf" + stream.replace(b"\n", b"\r\n")) == expected
    assert (
        read(stream.replace(b"data: ", b"data:").replace(b"event:", b": comment\nid: 1\nretry: 5\nevent:")) == expected
    )
    assert read(stream.replace(b'{"type"', b'{\ndata: "type"')) == expected


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        ([start(input_tokens=0), stopping("end_turn", input_tokens=9)], {"prompt_tokens": 9, "completion_tokens": 15}),
        ([start(input_tokens=9), stopping("end_turn", input_tokens=0)], {"prompt_tokens": 9, "completion_tokens": 15}),
        (
            [START, stopping(None, output_tokens=3), stopping("end_turn")],
            {"prompt_tokens": 25, "completion_tokens": 15},
        ),
        ([START, stopping("end_turn", output_tokens="x")], {"prompt_tokens": 25, "completion_tokens": 0}),
        ([START, {**stopping("end_turn"), "usage": None}], {"prompt_tokens": 25, "completion_tokens": 0}),
    ],
)
def test_usage_adds_up_over_the_stream(said, usage):
    found = read(sse(*said, STOP))[-2]["usage"]
    assert found == {**usage, "total_tokens": sum(usage.values())}


def test_no_usage_is_made_up():
    assert "usage" not in read(sse({"type": "message_start"}, {"type": "message_stop"}))[-2]


# -- what can be said in both forms is said in both

texts = st.fixed_dictionaries({"type": st.just("text"), "text": st.text(min_size=1, max_size=12)})
thoughts = st.fixed_dictionaries(
    {"type": st.just("thinking"), "thinking": st.text(min_size=1, max_size=12), "signature": st.just("s")}
)
uses = st.fixed_dictionaries(
    {
        "type": st.just("tool_use"),
        "id": st.text(max_size=6),
        "name": st.text(max_size=6),
        "input": st.dictionaries(st.text(max_size=4), values, max_size=3),
    }
)
odd = st.just({"type": "redacted_thinking", "data": "x"})
counts = st.integers(0, 10**6)
answers = st.fixed_dictionaries(
    {
        "type": st.just("message"),
        "content": st.lists(texts | thoughts | uses | odd, max_size=5),
        "stop_reason": st.sampled_from(("end_turn", "max_tokens", "tool_use", "refusal")),
        "usage": st.fixed_dictionaries(
            {"input_tokens": counts, "output_tokens": counts},
            optional={
                "cache_read_input_tokens": counts,
                "output_tokens_details": st.fixed_dictionaries({"thinking_tokens": counts}),
            },
        ),
    }
)


@settings(max_examples=40)
@given(answers, st.lists(st.integers(0, 4000), max_size=8))
def test_a_stream_says_what_the_whole_answer_says(answer, cuts):
    """However its bytes are cut."""
    stream = sse(*frames_of(answer))
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    parts = [stream[one:other] for one, other in itertools.pairwise(edges)]
    whole = json.loads(egress.to_chat(raw(answer), model="m", new_id=lambda: ID, now=lambda: 7.0))
    assert by_meaning(joined(read(*parts))) == by_meaning(whole)


def by_meaning(completion):
    """Arguments as values: how they are spelled is the provider's affair."""
    for one in completion["choices"][0]["message"].get("tool_calls", ()):
        one["function"]["arguments"] = json.loads(one["function"]["arguments"])
    return completion


def test_a_recorded_answer_cut_anywhere():
    stream = sse(*frames_of(ANSWER))
    whole = json.loads(egress.to_chat(raw(ANSWER), model="m", new_id=lambda: ID, now=lambda: 7.0))
    expected = read(stream)
    assert by_meaning(joined(expected)) == by_meaning(whole)
    for cut in range(0, len(stream), 11):
        assert read(stream[:cut], stream[cut:]) == expected


def test_the_chat_pipeline_takes_the_stream_as_complete():
    one, stream = reader.Reader("m"), ChatStream(Secrets(""))
    events = [found for event in Framer().feed(sse(*frames_of(ANSWER))) for found in one.take(event)]
    assert b"[DONE]" in stream.take_all(events)
    assert stream.complete and stream.done and stream.delivered and stream.finish == "tool_calls"
    assert (stream.usage.prompt, stream.usage.completion, stream.usage.cache_hit) == (188207, 393, 188086)


@settings(max_examples=40)
@given(
    st.lists(
        values
        | st.fixed_dictionaries(
            {
                "type": st.sampled_from(
                    (
                        "message_start",
                        "content_block_start",
                        "content_block_delta",
                        "content_block_stop",
                        "message_delta",
                    )
                )
            },
            optional={
                "index": values,
                "delta": values
                | st.fixed_dictionaries(
                    {"type": st.sampled_from(("text_delta", "thinking_delta", "input_json_delta"))},
                    optional=dict.fromkeys(("text", "thinking", "partial_json"), values),
                ),
                "content_block": values
                | st.fixed_dictionaries(
                    {"type": st.sampled_from(("text", "tool_use"))},
                    optional=dict.fromkeys(("id", "name", "input"), values),
                ),
                "message": values,
                "usage": values,
                "error": values,
            },
        ),
        max_size=6,
    ),
    st.binary(max_size=30),
)
def test_garbage_harms_nobody(events, noise):
    one = reader.Reader("m")
    payloads = [*map(raw, events), noise]
    out = [found for payload in payloads for found in one.take(Event(payload, b""))] + one.finish()
    for event in out:
        assert event.data in (None, b"[DONE]") or json.loads(event.data)
    for payload in payloads:
        reader.classify(payload)
        json.loads(reader.error_payload(payload))


# -- before the first token


@pytest.mark.parametrize(
    ("event", "meaning"),
    [
        (START, Meaning.NOTHING),
        (PING, Meaning.NOTHING),
        (stopping("end_turn"), Meaning.NOTHING),
        (closed(0), Meaning.NOTHING),
        (opened(0, type="text", text=""), Meaning.NOTHING),
        (opened(0, type="thinking", thinking="", signature=""), Meaning.NOTHING),
        (opened(0, type="text", text="x"), Meaning.OUTPUT),
        (opened(0, type="tool_use", id="t", name="f", input={}), Meaning.OUTPUT),
        (opened(0, type="tool_use", id="t", name="", input={}), Meaning.NOTHING),
        (opened(0, type="tool_use", id="t", name="", input={"a": "x"}), Meaning.OUTPUT),
        (opened(0, type="redacted_thinking", data="x"), Meaning.OUTPUT),
        (delta(0, "text_delta", text=" "), Meaning.OUTPUT),
        (delta(0, "text_delta", text=""), Meaning.NOTHING),
        (delta(0, "thinking_delta", thinking="x"), Meaning.OUTPUT),
        (delta(0, "signature_delta", signature="x"), Meaning.NOTHING),
        (delta(0, "input_json_delta", partial_json="{"), Meaning.OUTPUT),
        (delta(0, "input_json_delta", partial_json=""), Meaning.NOTHING),
        (STOP, Meaning.END),
        ({"type": "error", "error": {}}, Meaning.ERROR),
        ({"type": "brand_new"}, Meaning.OUTPUT),
        ({"type": ["x"]}, Meaning.OUTPUT),
        ({"type": "content_block_delta"}, Meaning.OUTPUT),
        ({}, Meaning.OUTPUT),
        ([], Meaning.OUTPUT),
    ],
)
def test_what_an_event_means_for_the_probe(event, meaning):
    """Part of failover-loop 78."""
    assert reader.classify(raw(event)) is meaning


@pytest.mark.parametrize(
    ("payload", "meaning"), [(b" ", Meaning.NOTHING), (b"[DONE]", Meaning.END), (b"<html>", Meaning.OUTPUT)]
)
def test_payloads_that_are_no_json(payload, meaning):
    assert reader.classify(payload) is meaning
