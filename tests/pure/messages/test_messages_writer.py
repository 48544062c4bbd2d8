"""A chat answer as a Messages answer, whole and streamed: v1-api 12.3, 12.4."""

import contextlib
import json
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects import thoughtsig
from proxy.dialects.base import Untranslatable
from proxy.dialects.messages import writer
from tests.pure.messages.shapes import ID, chat_frames, chunk, events_of, message_of, pieces, raw, values, written

COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-x",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
}


def whole(message=None, finish="stop", **more):
    choice = {"index": 0, "message": message or {"content": "Hello."}, "finish_reason": finish}
    body = raw({**COMPLETION, "choices": [choice], **more})
    return json.loads(writer.Writer({}, new_id=lambda: ID).whole(body, "gpt-x"))


def call(call_id="call_1", arguments='{"a":1}', name="f", **more):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def use(call_id="call_1", given_input=None, name="f"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"a": 1} if given_input is None else given_input}


def test_a_completion_becomes_a_message():
    assert whole() == {
        "id": f"msg_{ID}",
        "type": "message",
        "role": "assistant",
        "model": "gpt-x",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 3},
    }


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ({"content": ""}, []),
        ({"content": None}, []),
        ({}, []),
        ({"content": None, "reasoning_content": "thought"}, []),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]},
            [{"type": "text", "text": "ab"}],
        ),
        (
            {"content": "x", "tool_calls": [call(), call("call_2", "{}", "g")]},
            [{"type": "text", "text": "x"}, use(), use("call_2", {}, "g")],
        ),
        ({"content": None, "refusal": "I can not."}, [{"type": "text", "text": "I can not."}]),
        ({"content": "Well. ", "refusal": "No."}, [{"type": "text", "text": "Well. No."}]),
        ({"content": "a", "refusal": None}, [{"type": "text", "text": "a"}]),
        ({"tool_calls": [call(arguments="{")]}, [use(given_input={})]),
        ({"tool_calls": [call(arguments="")]}, [use(given_input={})]),
        ({"tool_calls": [call(arguments="[1]")]}, [use(given_input={})]),
        ({"tool_calls": [call(arguments={"a": 1})]}, [use()]),
        ({"tool_calls": [call(""), call(None)]}, [use(f"toolu_msg_{ID}_0"), use(f"toolu_msg_{ID}_1")]),
        ({"function_call": {"name": "f", "arguments": '{"a":1}'}}, [use(f"toolu_msg_{ID}_0")]),
    ],
)
def test_content(message, content):
    assert whole({"role": "assistant", **message})["content"] == content


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("tool_calls", "tool_use"),
        ("function_call", "tool_use"),
        ("content_filter", "end_turn"),
        (None, "end_turn"),
        ("odd", "end_turn"),
    ],
)
def test_stop_reasons(finish, reason):
    assert whole(finish=finish)["stop_reason"] == reason
    assert message_of(written(chat_frames(chunk({"content": "x"}), chunk(finish=finish))))["stop_reason"] == reason


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", "tool_use"),
        (None, "tool_use"),
        ("", "tool_use"),
        ("tool_calls", "tool_use"),
        ("length", "max_tokens"),
        ("content_filter", "end_turn"),
    ],
)
@pytest.mark.parametrize(
    "said", [{"tool_calls": [{**call(), "index": 0}]}, {"function_call": {"name": "f", "arguments": "{}"}}]
)
def test_a_tool_to_be_used_is_the_reason_where_the_provider_has_no_other(said, finish, reason):
    """OpenAI says ``stop`` of a forced tool, several local servers of every one; clients go by the reason."""
    found = whole({"content": "x", **said}, finish)
    assert ([block["type"] for block in found["content"]], found["stop_reason"]) == (["text", "tool_use"], reason)
    frames = chat_frames(chunk({"content": "x"}), chunk(said), chunk({}, finish=finish))
    assert message_of(written(frames))["stop_reason"] == reason
    assert message_of(written(chat_frames(chunk({"content": "x", **said}, finish=finish))))["stop_reason"] == reason


@pytest.mark.parametrize("odd", [{}, {"index": "x"}])
def test_a_streamed_refusal_is_text(odd):
    frames = chat_frames(chunk({"refusal": "I can"}), {**chunk({"refusal": " not."}), **odd}, chunk({}, "stop"))
    assert message_of(written(frames))["content"] == [{"type": "text", "text": "I can not."}]


@pytest.mark.parametrize(
    ("reported", "said"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 8}}, {"input_tokens": 4, "cache_read_input_tokens": 8}),
        ({"prompt_cache_hit_tokens": 12}, {"input_tokens": 0, "cache_read_input_tokens": 12}),
        ({"prompt_cache_hit_tokens": 13}, {"input_tokens": 0, "cache_read_input_tokens": 13}),
        ({"prompt_tokens_details": {"cached_tokens": 0}}, {"input_tokens": 12}),
        (
            {"completion_tokens_details": {"reasoning_tokens": 2}},
            {"input_tokens": 12, "output_tokens_details": {"thinking_tokens": 2}},
        ),
    ],
)
def test_what_the_cache_gave_stands_beside_the_input(reported, said):
    usage = {"prompt_tokens": 12, "completion_tokens": 3, **reported}
    expected = {"output_tokens": 3, **said}
    assert whole(usage=usage)["usage"] == expected
    frames = chat_frames(chunk({"content": "x"}), chunk({}, "stop", usage=usage))
    assert message_of(written(frames))["usage"] == expected


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": "x"}, []])
def test_unreported_usage_is_nothing(usage):
    assert whole(usage=usage)["usage"] == {"input_tokens": 0, "output_tokens": 0}


def test_numbers_keep_their_digits():
    message = (
        '{"tool_calls":[{"id":"t","function":{"name":"f","arguments":"{\\"n\\":9007199254740993,\\"x\\":1.10}"}}]}'
    )
    out = writer.Writer({}).whole(b'{"choices":[{"message":%b}]}' % message.encode(), "m")
    assert b'"input":{"n":9007199254740993,"x":1.10}' in out


SIGNED = {"google": {"thought_signature": "CvQB+/sig=="}}


def test_a_signature_rides_on_the_id():
    """Part of v1-api 78."""
    signed = thoughtsig.join("call_1", "CvQB+/sig==")
    assert whole({"tool_calls": [call(extra_content=SIGNED), call("call_2")]})["content"] == [
        use(signed),
        use("call_2"),
    ]
    delta = {"tool_calls": [{"index": 0, **call(extra_content=SIGNED)}]}
    assert message_of(written(chat_frames(chunk(delta))))["content"] == [use(signed)]


@pytest.mark.parametrize("payload", [b"", b"<html>", b"[]", b"\xff"])
def test_what_is_no_completion_is_untranslatable(payload):
    with pytest.raises(Untranslatable):
        writer.Writer({}).whole(payload, "m")


def test_bytes_that_are_no_utf8_cost_only_themselves():
    function = b'{"name":"f","arguments":"{\\"a\\":\\"\xff\\"}"}'
    body = b'{"choices":[{"message":{"tool_calls":[{"id":"t","function":%b}]}}]}' % function
    assert json.loads(writer.Writer({}).whole(body, "m"))["content"] == [use("t", {"a": "\ufffd"})]


# -- streamed


def fragment(index, call_id=None, name=None, arguments=None, **more):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"tool_calls": [{"index": index, **({"id": call_id} if call_id else {}), "function": function, **more}]}


def test_text_and_two_calls_are_three_blocks():
    """v1-api 72"""
    events = written(
        chat_frames(
            chunk({"role": "assistant", "content": ""}),
            chunk({"content": "Let me "}),
            chunk({"content": "look."}),
            chunk(fragment(0, "call_1", "f", "")),
            chunk(fragment(0, arguments='{"a":')),
            chunk(fragment(0, arguments="1}")),
            chunk(fragment(1, "call_2", "g", "")),
            chunk(fragment(1, arguments="{}")),
            chunk({}, "tool_calls"),
            chunk(choices=[], usage={"prompt_tokens": 12, "completion_tokens": 3}),
        )
    )

    def block(index, opening, *deltas):
        yield {"type": "content_block_start", "index": index, "content_block": opening}
        for kind, name, text in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: text}}
        yield {"type": "content_block_stop", "index": index}

    assert events == [
        {
            "type": "message_start",
            "message": {
                "id": f"msg_{ID}",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "stop_reason": None,
                "stop_sequence": None,
                "usage": {"input_tokens": 0, "output_tokens": 0},
            },
        },
        {"type": "ping"},
        *block(0, {"type": "text", "text": ""}, ("text_delta", "text", "Let me "), ("text_delta", "text", "look.")),
        *block(
            1,
            {"type": "tool_use", "id": "call_1", "name": "f", "input": {}},
            ("input_json_delta", "partial_json", '{"a":'),
            ("input_json_delta", "partial_json", "1}"),
        ),
        *block(
            2,
            {"type": "tool_use", "id": "call_2", "name": "g", "input": {}},
            ("input_json_delta", "partial_json", "{}"),
        ),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"input_tokens": 12, "output_tokens": 3},
        },
        {"type": "message_stop"},
    ]


def test_nothing_is_said_before_the_first_content():
    one = writer.Writer({}, new_id=lambda: ID)
    one.begin("m")
    quiet = chat_frames(
        chunk({"role": "assistant"}), chunk({"content": ""}), chunk({"reasoning_content": "hm"}), done=False
    )
    assert one.feed(b": ping\n\n" + quiet + b": keep-alive\n\nevent: x\n\n") == b""
    assert events_of(one.feed(chat_frames(chunk({"content": "x"}), done=False)))[0]["type"] == "message_start"
    assert one.feed(b": ping\n\n") == b""


def test_an_empty_completion_is_a_message_without_content():
    for parts in ([chat_frames()], [chat_frames(chunk({"role": "assistant"}), chunk({}, "stop"))], []):
        events = written(*parts)
        assert [event["type"] for event in events] == ["message_start", "ping", "message_delta", "message_stop"]
        assert message_of(events)["stop_reason"] == "end_turn"
        assert events[2]["usage"] == {"output_tokens": 0}


def test_mixed_calls_come_out_one_after_the_other():
    events = written(
        chat_frames(
            chunk(fragment(0, "call_1", "f", '{"a":[')),
            chunk(fragment(1, "call_2", "g", '{"b":"}')),
            chunk({"content": "meanwhile"}),
            chunk(fragment(0, arguments='"{\\')),
            chunk(fragment(1, arguments='"')),
            chunk(fragment(0, arguments='""]}')),
            chunk(fragment(1, arguments="}")),
            chunk(fragment(0, arguments=" ")),
            chunk({}, "tool_calls"),
        )
    )
    assert message_of(events)["content"] == [
        use("call_1", {"a": ['{"']}),
        use("call_2", {"b": "}"}, "g"),
        {"type": "text", "text": "meanwhile"},
    ]


def test_a_whole_call_does_not_wait_for_the_end():
    one = writer.Writer({})
    out = one.feed(
        chat_frames(chunk(fragment(0, "a", "f", '{"x":{"y":"}"}}')), chunk(fragment(1, "b", "g", "{")), done=False)
    )
    assert [e["type"] for e in events_of(out)][-3:] == [
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
    ]


@pytest.mark.parametrize(
    ("chunks", "content"),
    [
        ([fragment(0, None, "f", "{}")], [use(f"toolu_msg_{ID}_0", {})]),
        ([fragment(0, "a"), fragment(0, name="f"), fragment(0, arguments="{}")], [use("a", {})]),
        ([fragment(0, "a", "f", "{}"), fragment(0, "b", "g", "{}")], [use("a", {}), use("b", {}, "g")]),
        ([fragment(0, "a", "f", ""), fragment(0, "a", "f", "{}")], [use("a", {})]),
        ([fragment(0, "a", "f", ""), fragment(1, "b", "g", "")], [use("a", {}), use("b", {}, "g")]),
        ([fragment(0, "a", None, "{}")], [use("a", {}, "")]),
        ([{"tool_calls": [call("a"), call("b")]}], [use("a"), use("b")]),
        ([fragment(0, "a", "f", {"a": 1})], [use("a")]),
        ([{"function_call": {"name": "f", "arguments": '{"a":1}'}}], [use(f"toolu_msg_{ID}_0")]),
        ([{"content": [{"type": "text", "text": "x"}]}], [{"type": "text", "text": "x"}]),
    ],
)
def test_unusual_fragments(chunks, content):
    assert message_of(written(chat_frames(*map(chunk, chunks))))["content"] == content


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "boom", "type": "server_error", "code": 500}, {"type": "api_error", "message": "boom"}),
        ({"message": "busy", "type": "overloaded_error"}, {"type": "overloaded_error", "message": "busy"}),
        ("overloaded", {"type": "api_error", "message": "overloaded"}),
        ({"code": 5}, {"type": "api_error", "message": "the provider failed to serve this request"}),
    ],
)
def test_an_error_ends_the_stream_without_a_stop(error, expected):
    """Part of v1-api 53."""
    one = writer.Writer({})
    one.begin("m")
    started = one.feed(chat_frames(chunk({"content": "x"}), done=False))
    assert events_of(started)[-1]["type"] == "content_block_delta"
    out = one.feed(chat_frames({"error": error}, chunk({"content": "y"})))
    assert events_of(out) == [{"type": "error", "error": expected}]
    assert one.feed(chat_frames(chunk({"content": "z"}))) == one.end() == one.error("m", "internal") == b""


def test_our_own_error_is_the_last_event():
    """Part of v1-api 53."""
    one = writer.Writer({})
    one.feed(chat_frames(chunk({"content": "x"}), done=False))
    out = one.error("stream stalled: no data for 30s", "provider_timeout")
    assert out == (
        b"event: error\n"
        b'data: {"type":"error","error":{"type":"api_error","message":"stream stalled: no data for 30s"}}\n\n'
    )
    assert one.end() == one.error("again", "internal") == b""


def test_an_empty_error_is_no_error():
    assert message_of(written(chat_frames(chunk({"content": "x"}, error={}), chunk({}, error=None))))["content"]


def test_the_end_is_said_once():
    one = writer.Writer({})
    assert one.feed(chat_frames(chunk({"content": "x"}))).endswith(b'data: {"type":"message_stop"}\n\n')
    assert one.end() == one.feed(chat_frames(chunk({"content": "y"}))) == one.error("m", "internal") == b""


def test_a_second_candidate_goes_on_with_the_same_message():
    one = writer.Writer({}, new_id=lambda: ID)
    one.begin("m")
    out = one.feed(chat_frames(chunk({"content": "Hel"}), done=False))
    one.begin("other")
    out += one.feed(chat_frames(chunk({"content": "lo"}), chunk({}, "stop")))
    message = message_of(events_of(out))
    assert (message["model"], message["content"]) == ("m", [{"type": "text", "text": "Hello"}])


def test_later_usage_wins_and_other_choices_do_not_count():
    events = written(
        chat_frames(
            {**chunk({"content": "x"}), "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
            {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]},
            chunk({}, "stop", usage={"prompt_tokens": 5, "completion_tokens": 2}),
        )
    )
    message = message_of(events)
    assert message["usage"] == {"input_tokens": 5, "output_tokens": 2}
    assert (message["content"], message["stop_reason"]) == ([{"type": "text", "text": "x"}], "end_turn")


calls = st.lists(st.tuples(st.text(max_size=5), st.dictionaries(st.text(max_size=4), values, max_size=3)), max_size=4)


@settings(max_examples=40)
@given(st.text(max_size=20), calls, st.integers(0, 2**32))
def test_a_stream_says_what_the_whole_answer_says(text, given_calls, seed):
    """However the fragments of the calls are mixed."""
    tool_calls = [call(f"c{at}", json.dumps(arguments), name) for at, (name, arguments) in enumerate(given_calls)]
    chunks = [chunk({"role": "assistant"}), *(chunk({"content": letter}) for letter in text)]
    rest, chance = [], random.Random(seed)
    for at, one in enumerate(tool_calls):
        chunks.append(chunk(fragment(at, one["id"], one["function"]["name"], "")))
        rest.append([chunk(fragment(at, arguments=letter)) for letter in pieces(one["function"]["arguments"], 2)])
    while any(rest):
        at = chance.choice([at for at, left in enumerate(rest) if left])
        chunks.append(rest[at].pop(0))
    message = message_of(written(chat_frames(*chunks, chunk({}, "tool_calls"))))
    complete = whole({"content": text, "tool_calls": tool_calls}, "tool_calls", usage=None)
    assert message == {**complete, "model": "m"}


odd_deltas = values | st.dictionaries(st.sampled_from(("content", "tool_calls", "function_call")), values)
odd_choices = st.dictionaries(st.sampled_from(("index", "delta", "finish_reason")), odd_deltas)
odd_frames = st.lists(values | st.fixed_dictionaries({"choices": st.lists(odd_choices, max_size=2)}), max_size=4)


@settings(max_examples=40)
@given(odd_frames, st.binary(max_size=40))
def test_garbage_in_a_stream_harms_nobody(frames, noise):
    one = writer.Writer({})
    one.begin("m")
    out = one.feed(chat_frames(*frames, done=False)) + one.feed(b"data: " + noise + b"\n\n") + one.end()
    assert events_of(out)[-1]["type"] in ("message_stop", "error")
    json.loads(writer.Writer({}).whole(raw({"choices": frames}), "m"))
    with contextlib.suppress(Untranslatable):
        writer.Writer({}).whole(noise, "m")


def test_many_calls_in_one_chunk_cost_by_their_number():
    def seconds(number: int) -> float:
        calls = [call(f"call_{at}", index=at) for at in range(number)]
        frames = b"data: %b\n\n" % raw({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})
        one = writer.Writer({}, new_id=lambda: ID)
        started = time.process_time()
        out = one.feed(frames) + one.end()
        assert out.count(b"event: content_block_stop") == number
        return time.process_time() - started

    few = max(seconds(1500) for _ in range(3))
    assert min(seconds(12_000) for _ in range(3)) < 24 * few  # eight times as many
