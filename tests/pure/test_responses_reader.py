"""A provider's Responses stream as a chat stream: every event, the same answer as the whole one, failures."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.responses import egress
from proxy.dialects.responses.reader import Reader, classify, error_payload
from proxy.reasons import read as read_error
from proxy.reasons import refuses_content, too_long
from proxy.secrecy import Secrets
from proxy.stream import probe
from proxy.stream.chat import ChatStream
from proxy.stream.probe import Meaning
from proxy.stream.sse import Event, Framer
from proxy.usage import Usage

USAGE = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 12},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 123,
}
CHAT_USAGE = {
    "prompt_tokens": 36,
    "completion_tokens": 87,
    "total_tokens": 123,
    "prompt_tokens_details": {"cached_tokens": 12},
    "completion_tokens_details": {"reasoning_tokens": 64},
}
HEAD = {"id": "resp_abc", "object": "response", "created_at": 1741476542, "status": "in_progress", "output": []}


def event(kind: str, **members: object) -> dict:
    return {"type": kind, **members}


CREATED = event("response.created", response=HEAD)
COMPLETED = event("response.completed", response={**HEAD, "status": "completed", "usage": USAGE})


def sse(*events: dict) -> bytes:
    return b"".join(b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in events)


def reader() -> Reader:
    return Reader("o3-pro", new_id=lambda: "new", now=lambda: 7.9)


def taken(*pieces: bytes, of: Reader | None = None) -> list[Event]:
    one, framer = of or reader(), Framer()
    found = [out for piece in pieces for got in framer.feed(piece) for out in one.take(got)]
    found += [out for got in framer.finish() for out in one.take(got)]
    for out in found:
        assert out.raw == (out.rest + b"\n" if out.data is None else b"data: %b\n\n" % out.data)
    return found + one.finish()


def chunks(*events: dict, of: Reader | None = None) -> list[Any]:
    payloads = [out.data for out in taken(sse(*events), of=of) if out.data is not None]
    return [payload.decode() if payload == b"[DONE]" else json.loads(payload) for payload in payloads]


def deltas(found: list[Any]) -> list[dict]:
    return [chunk["choices"][0]["delta"] for chunk in found if chunk != "[DONE]" and chunk.get("choices")]


def text(words: str) -> dict:
    return event("response.output_text.delta", item_id="msg_1", output_index=0, content_index=0, delta=words)


def added(index: int, call_id: str, name: str, arguments: str = "") -> dict:
    item = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": name, "arguments": arguments}
    return event("response.output_item.added", output_index=index, item=item)


def piece(index: int, words: str) -> dict:
    return event("response.function_call_arguments.delta", output_index=index, item_id=f"fc_{index}", delta=words)


# -- events


def test_a_stream_of_text():
    found = chunks(
        CREATED,
        event("response.in_progress", response=HEAD),
        event("response.output_item.added", output_index=0, item={"type": "message", "id": "msg_1", "content": []}),
        event("response.content_part.added", part={"type": "output_text", "text": ""}),
        text("In a "),
        text(""),
        text('"forest"\n'),
        event("response.output_text.done", text='In a "forest"\n'),
        event("response.content_part.done", part={}),
        event("response.output_item.done", output_index=0, item={"type": "message"}),
        COMPLETED,
        text("late"),
    )
    head = {"id": "chatcmpl-abc", "object": "chat.completion.chunk", "created": 1741476542, "model": "o3-pro"}
    assert found == [
        *(
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            for delta, finish in (
                ({"role": "assistant", "content": ""}, None),
                ({"content": "In a "}, None),
                ({"content": '"forest"\n'}, None),
                ({}, "stop"),
            )
        ),
        {**head, "choices": [], "usage": CHAT_USAGE},
        "[DONE]",
    ]


def test_reasoning_has_a_blank_line_between_its_parts():
    part = event("response.reasoning_summary_part.added", part={"type": "summary_text", "text": ""})
    found = chunks(
        CREATED,
        part,
        event("response.reasoning_summary_text.delta", delta="a"),
        event("response.reasoning_summary_text.delta", delta="b"),
        event("response.reasoning_summary_text.done", text="ab"),
        part,
        part,
        event("response.reasoning_summary_text.delta", delta="c"),
        part,
        text("x"),
        COMPLETED,
    )
    said = [delta["reasoning_content"] for delta in deltas(found) if "reasoning_content" in delta]
    assert said == ["a", "b", "\n\nc"]


def test_interleaved_calls():
    found = chunks(
        CREATED,
        event("response.output_item.added", output_index=0, item={"type": "reasoning", "id": "rs_1"}),
        added(1, "call_a", "f"),
        added(2, "call_b", "g"),
        piece(1, '{"x"'),
        piece(2, "{}"),
        piece(1, ":1}"),
        event("response.output_item.done", output_index=1, item={**added(1, "call_a", "f")["item"], "arguments": "no"}),
        event("response.incomplete", response={"status": "incomplete", "usage": None}),
    )
    assert deltas(found)[1:] == [
        {"tool_calls": [{"index": at, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}]}
        for at, (call_id, name) in enumerate((("call_a", "f"), ("call_b", "g")))
    ] + [
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {},
    ]
    assert found[-2]["choices"][0]["finish_reason"] == "tool_calls" and found[-1] == "[DONE]"


def test_a_call_that_came_in_one_piece_or_without_arguments():
    whole = added(1, "call_b", "g", '{"y":2}')["item"]
    late = {**added(2, "call_c", "h")["item"], "arguments": '{"z":3}'}
    found = chunks(
        added(0, "call_a", "f"),
        event("response.output_item.done", output_index=1, item=whole),
        added(2, "call_c", "h"),
        event("response.output_item.done", output_index=2, item=late),
        COMPLETED,
    )
    words: dict[int, str] = {}
    for delta in deltas(found):
        for call in delta.get("tool_calls", ()):
            words[call["index"]] = words.get(call["index"], "") + call["function"]["arguments"]
    assert words == {0: "{}", 1: '{"y":2}', 2: '{"z":3}'}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"status": "completed"}, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "stop"),
        (None, "stop"),
    ],
)
@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete"])
def test_how_it_ended(kind, response, expected):
    found = chunks(CREATED, text("a"), event(kind, response=response))
    assert found[-2]["choices"][0]["finish_reason"] == expected and found[-1] == "[DONE]"


def test_a_stream_that_names_itself_late_has_an_id_of_ours():
    found = chunks(text("a"), CREATED, COMPLETED)
    assert {chunk["id"] for chunk in found[:-1]} == {"chatcmpl-new"} and found[0]["created"] == 7


def test_refusals_unknown_events_and_comments():
    one = reader()
    out = taken(
        sse(CREATED, event("response.refusal.delta", delta="no"), event("response.refusal.delta", delta="")),
        b": ping\n\n",
        b"data: garbage\n\ndata: [1]\n\ndata: [DONE]\n\nid: 4\n\n",
        sse(event("response.web_search_call.searching"), event("keepalive"), event("")),
        of=one,
    )
    assert [got.raw for got in out[2:]] == [b": ping\n\n"]
    assert json.loads(out[1].data or b"")["choices"][0]["delta"] == {"refusal": "no"}


def test_an_event_in_several_lines_or_not_closed_still_counts():
    raw = sse(CREATED) + b'data: {"type":"response.output_text.delta",\ndata: "delta":"a"}\n\n' + sse(COMPLETED)[:-2]
    found = [got.data for got in taken(raw)]
    assert b'"content":"a"' in (found[1] or b"") and found[-1] == b"[DONE]"


def test_a_truncated_stream_ends_without_an_end():
    """Part of v1-api 53"""
    one = reader()
    assert "[DONE]" not in chunks(CREATED, text("a"), of=one)
    assert one.finish() == [] and one.take(Framer().feed(sse(COMPLETED))[0]) == []


# -- failures


def failed(**error: object) -> dict:
    return event("response.failed", sequence_number=3, response={**HEAD, "status": "failed", "error": error})


@pytest.mark.parametrize(
    ("one", "status", "shown"),
    [
        (
            failed(code="rate_limit_exceeded", message="slow down"),
            429,
            {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"},
        ),
        (
            failed(code="server_error", message="m"),
            None,
            {"message": "m", "type": "server_error", "param": None, "code": "server_error"},
        ),
        (
            event("error", code="insufficient_quota", message="m", param=None),
            429,
            {"message": "m", "type": "rate_limit_error", "param": None, "code": "insufficient_quota"},
        ),
        (
            event("error", error={"type": "invalid_request_error", "code": "x", "message": "m", "param": "input"}),
            400,
            {"message": "m", "type": "invalid_request_error", "param": "input", "code": "x"},
        ),
        (
            event("error", error={"message": "m", "type": "server_error", "code": 503}),
            503,
            {"message": "m", "type": "server_error", "param": None, "code": None},
        ),
        (
            event("error", status=529, message="m"),
            529,
            {"message": "m", "type": "server_error", "param": None, "code": None},
        ),
        (
            failed(code="server_is_overloaded", message="m"),
            503,
            {"message": "m", "type": "server_error", "param": None, "code": "server_is_overloaded"},
        ),
        (
            event("error"),
            None,
            {"message": "the provider reported an error", "type": "server_error", "param": None, "code": None},
        ),
    ],
)
def test_a_failure_is_the_last_event_and_carries_its_status(one, status, shown):
    found = [got.data or b"" for got in taken(sse(CREATED, one, text("late"), COMPLETED))]
    assert len(found) == 2 and json.loads(found[1])["error"] == shown
    assert probe.classify(found[1]) is Meaning.ERROR
    assert probe.carried_status(found[1]) == status
    assert error_payload(json.dumps(one).encode()) == found[1]


def test_a_failed_response_tells_what_it_cost_and_shows_none_of_it():
    one = reader()
    end = {**HEAD, "status": "failed", "error": {"code": "server_error", "message": "m"}, "usage": USAGE}
    found = chunks(CREATED, text("a"), event("response.failed", response=end), of=one)
    assert "usage" not in str(found) and one.usage == Usage(36, 87, 64, 12, 24, True)
    for unknown in (failed(code="server_error", message="m"), event("error", code="x", message="m")):
        one = reader()
        chunks(CREATED, text("a"), unknown, of=one)
        assert one.usage is None


def test_the_readers_of_errors_know_what_was_refused():
    long = error_payload(json.dumps(failed(code="context_length_exceeded", message="m")).encode())
    assert too_long(probe.carried_status(long) or 0, read_error(long))
    content = error_payload(json.dumps(event("error", code="content_policy_violation", message="m")).encode())
    assert refuses_content(read_error(content))


def test_an_error_without_a_type_and_arguments_without_a_call():
    assert b'"overloaded"' in (taken(b'data: {"error":"overloaded"}\n\n')[0].data or b"")
    found = chunks(CREATED, added(0, "a", "f"), piece(5, "{}"), COMPLETED)
    assert found[-1]["error"]["code"] == "provider_error" and "[DONE]" not in found
    assert "[DONE]" in chunks(CREATED, piece(5, ""), COMPLETED)


@pytest.mark.parametrize("payload", [b"", b"null", b"[]", b'"x"', b"{}", b'{"response":5}', b'{"error":{"code":{}}}'])
def test_any_error_payload(payload):
    assert json.loads(error_payload(payload))["error"]["message"]


# -- the first token


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"  ", Meaning.NOTHING),
        (b"[DONE]", Meaning.END),
        (b"not json", Meaning.OUTPUT),
        (b"[1]", Meaning.OUTPUT),
        (COMPLETED, Meaning.END),
        (event("response.incomplete"), Meaning.END),
        (event("response.failed"), Meaning.ERROR),
        (event("error", message="m"), Meaning.ERROR),
        ({"error": {"message": "m"}}, Meaning.ERROR),
        (CREATED, Meaning.NOTHING),
        (event("response.queued"), Meaning.NOTHING),
        (event("response.in_progress"), Meaning.NOTHING),
        (event("response.content_part.added", part={"text": "x"}), Meaning.NOTHING),
        (event("response.reasoning_summary_part.added"), Meaning.NOTHING),
        (event("response.output_item.added", item={"type": "reasoning", "id": "rs"}), Meaning.NOTHING),
        (event("response.output_item.added", item=None), Meaning.NOTHING),
        (added(0, "c", "f"), Meaning.OUTPUT),
        (added(0, "c", ""), Meaning.NOTHING),
        (event("response.output_text.done", text="x"), Meaning.NOTHING),
        (event("response.output_item.done", item={"name": "f"}), Meaning.NOTHING),
        (event("keepalive"), Meaning.NOTHING),
        (text(""), Meaning.NOTHING),
        (text("\n"), Meaning.OUTPUT),
        (event("response.reasoning_summary_text.delta", delta="a"), Meaning.OUTPUT),
        (event("response.function_call_arguments.delta", delta="{"), Meaning.OUTPUT),
        (event("response.something_new"), Meaning.OUTPUT),
        ({"choices": []}, Meaning.OUTPUT),
    ],
)
def test_what_an_event_means_before_the_first_token(payload, expected):
    assert classify(payload if isinstance(payload, bytes) else json.dumps(payload).encode()) is expected


# -- the same answer, whole and streamed

WORDS = st.text(st.sampled_from('ab"{\n\\é😀'), max_size=5)
ARGUMENTS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), max_size=2).map(json.dumps)
ENDS = st.sampled_from(
    (
        {"status": "completed"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    )
)


def cut(draw: st.DrawFn, words: str) -> list[str]:
    at = sorted(draw(st.sets(st.integers(0, len(words)), max_size=2)))
    return [words[a:b] for a, b in itertools.pairwise([0, *at, len(words)])]


@st.composite
def answers(draw: st.DrawFn) -> tuple[dict, list[dict]]:
    """A Response object and the events OpenAI would tell it with; calls interleaved."""
    output: list[dict] = []
    events: list[dict] = [CREATED]
    for _ in range(draw(st.integers(0, 2))):
        parts = draw(st.lists(WORDS, max_size=2))
        output.append(
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": t} for t in parts]}
        )
        for words in parts:
            events.append(event("response.reasoning_summary_part.added"))
            events += [event("response.reasoning_summary_text.delta", delta=part) for part in cut(draw, words)]
    for kind, name, delta in (("output_text", "text", "output_text"), ("refusal", "refusal", "refusal")):
        words = draw(WORDS)
        output.append({"type": "message", "id": "msg", "content": [{"type": kind, name: words}]})
        events += [event(f"response.{delta}.delta", delta=part) for part in cut(draw, words)]
    queues = []
    for _ in range(draw(st.integers(0, 3))):
        index, words = len(output), draw(ARGUMENTS)
        opener = added(index, f"call_{index}", "f")
        output.append({**opener["item"], "arguments": words})
        events.append(opener)
        queues.append([piece(index, part) for part in cut(draw, words)])
    while any(queues):
        events.append(draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    response = {**HEAD, **draw(ENDS), "output": output, "usage": draw(st.sampled_from((USAGE, None)))}
    return response, [*events, event(f"response.{response['status']}", response=response)]


def joined(found: list[Any]) -> dict:
    """The completion that a client makes of the chunks."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[int, dict] = {}
    for delta in deltas(found):
        for name in ("content", "reasoning_content", "refusal"):
            if delta.get(name):
                message[name] = (message.get(name) or "") + delta[name]
        for part in delta.get("tool_calls", ()):
            known = calls.setdefault(part["index"], {"function": {"arguments": ""}})
            known["function"]["arguments"] += part["function"].pop("arguments")
            known["function"] |= part.pop("function")
            known |= {name: value for name, value in part.items() if name != "index"}
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    finish = [chunk["choices"][0]["finish_reason"] for chunk in found[:-1] if chunk["choices"]][-1]
    usage = [chunk["usage"] for chunk in found[:-1] if not chunk["choices"]]
    return {
        **{name: found[0][name] for name in ("id", "created", "model")},
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        **({"usage": usage[0]} if usage else {}),
    }


@settings(max_examples=60, deadline=None)
@given(answers(), st.data())
def test_a_stream_says_what_the_whole_answer_says(answer, data):
    response, events = answer
    raw = sse(*events)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=3)))
    out = taken(*(raw[a:b] for a, b in itertools.pairwise([0, *cuts, len(raw)])))
    found = [json.loads(got.data) if got.data != b"[DONE]" else "[DONE]" for got in out if got.data]
    whole = json.loads(egress.to_chat(json.dumps(response).encode(), model="o3-pro"))
    assert found[-1] == "[DONE]"
    assert joined(found) == {name: value for name, value in whole.items() if name != "object"}
    stream = ChatStream(Secrets(""))
    stream.take_all(out)
    assert stream.complete and not stream.unmodelled


KINDS = st.sampled_from(
    ("response.created", "response.output_text.delta", "response.output_item.added", "response.output_item.done",
     "response.function_call_arguments.delta", "response.completed", "response.failed", "error",
     "response.reasoning_summary_text.delta", "response.reasoning_summary_part.added")
)  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(("", "a", "function_call", "resp_")),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(("type", "id", "call_id", "name", "arguments", "usage", "status", "error", "code",
                             "message", "created_at", "incomplete_details", "reason", "input_tokens")),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)  # fmt: skip
EVENT = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    KINDS,
    st.dictionaries(st.sampled_from(("delta", "item", "item_id", "output_index", "response", "error")), JUNK),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENT.map(lambda one: sse(one)) | st.binary(max_size=10), max_size=5))
def test_whatever_comes_is_a_chat_stream(pieces):
    out = taken(*pieces)
    for at, got in enumerate(out):
        if got.data == b"[DONE]":
            assert at == len(out) - 1
        elif got.data is not None:
            chunk = json.loads(got.data)
            assert ("error" in chunk and at == len(out) - 1) or chunk["object"] == "chat.completion.chunk"
    for raw in pieces:
        for got in Framer().feed(raw):
            if got.data is not None:
                classify(got.data)
                json.loads(error_payload(got.data))
