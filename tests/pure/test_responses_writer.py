"""A chat answer as a Response object and as its events: order, numbers, items, ends."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects import thoughtsig
from proxy.dialects.base import Untranslatable
from proxy.dialects.responses.writer import Writer
from proxy.stream.sse import Event

MODEL = "upstream-model"


def writer(**own: object) -> Writer:
    """Ids count from 1, and it is one second past 1000."""
    members = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in {"model": "hotel/x", **own}.items()}
    ids = itertools.count(1)
    made = Writer(members, new_id=lambda: str(next(ids)), now=lambda: 1001.9)
    made.begin(MODEL)
    return made


def frame(chunk: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(chunk).encode()


def chunk(delta: dict | None = None, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return frame(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}
    )


def fragment(index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None) -> dict:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    known = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {**known, "function": function}


def calls(*fragments: dict) -> bytes:
    return chunk({"tool_calls": list(fragments)})


DONE = b"data: [DONE]\n\n"
USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 6},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
SPENT = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 6},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 15,
}


def events(out: bytes) -> list[dict]:
    """The events, each checked for its form; comments are left out."""
    found = []
    for block in out.split(b"\n\n")[:-1]:
        if block.startswith(b":"):
            continue
        head, data = block.split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert head == b"event: " + event["type"].encode()
        assert list(event)[:2] == ["type", "sequence_number"]
        found.append(event)
    assert out == b"" or out.endswith(b"\n\n")
    return found


def stream(*frames: bytes, of: Writer | None = None, end: bool = True) -> list[dict]:
    one = of or writer()
    out = b"".join(one.feed(part) for part in frames)
    found = events(out + (one.end() if end else b""))
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def kinds(found: list[dict]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in found]


def of_kind(found: list[dict], kind: str) -> list[dict]:
    return [event for event in found if event["type"] == f"response.{kind}"]


# -- whole answers


def completion(message: dict, finish: str | None = "stop", **more: object) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], **more}).encode()


def whole(chat: bytes, **own: object) -> dict:
    return json.loads(writer(**own).whole(chat, MODEL))


def test_a_whole_answer_of_every_kind():
    message = {
        "reasoning_content": "hm",
        "content": "hello",
        "refusal": "not that",
        "tool_calls": [
            {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
            {"id": "call_b", "type": "function", "function": {"name": "g", "arguments": ""}},
            {"id": "call_c", "type": "function", "function": {"name": "h", "arguments": "{broken"}},
        ],
    }
    assert whole(completion(message, "tool_calls", usage=USAGE)) == {
        "id": "resp_1",
        "object": "response",
        "created_at": 1001,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": MODEL,
        "output": [
            {
                "type": "reasoning",
                "id": "rs_2",
                "summary": [{"type": "summary_text", "text": "hm"}],
                "status": "completed",
            },
            {
                "type": "message",
                "id": "msg_3",
                "role": "assistant",
                "status": "completed",
                "content": [
                    {"type": "output_text", "text": "hello", "annotations": [], "logprobs": []},
                    {"type": "refusal", "refusal": "not that"},
                ],
            },
            {
                "type": "function_call",
                "id": "fc_4",
                "call_id": "call_a",
                "name": "f",
                "arguments": '{"x":1}',
                "status": "completed",
            },
            {
                "type": "function_call",
                "id": "fc_5",
                "call_id": "call_b",
                "name": "g",
                "arguments": "{}",
                "status": "completed",
            },
            {
                "type": "function_call",
                "id": "fc_6",
                "call_id": "call_c",
                "name": "h",
                "arguments": "{}",
                "status": "completed",
            },
        ],
        "parallel_tool_calls": True,
        "temperature": None,
        "top_p": None,
        "tool_choice": "auto",
        "tools": [],
        "store": False,
        "text": {"format": {"type": "text"}},
        "reasoning": None,
        "usage": SPENT,
    }


def test_what_the_request_said_is_echoed():
    own = {
        "instructions": [{"role": "developer", "content": "x"}],
        "metadata": {"k": "v"},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "reasoning": {"effort": "low"},
    }
    found = whole(completion({"content": "a"}), **own)
    for name in own.keys() - {"text"}:
        assert found[name] == own[name]
    assert found["text"] == {"format": {"type": "json_object"}}
    assert "usage" not in found


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        (None, "completed", None),
        ("something", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_how_an_answer_ends(finish, status, reason):
    found = whole(completion({"content": "a"}, finish))
    details = None if reason is None else {"reason": reason}
    assert (found["status"], found["incomplete_details"]) == (status, details)
    end = stream(chunk({"content": "a"}), chunk(finish=finish), DONE)[-1]
    assert end["type"] == f"response.{status}"
    assert (end["response"]["status"], end["response"]["incomplete_details"]) == (status, details)


def test_a_call_to_a_tool_of_a_namespace_comes_back_under_its_own_name():
    """v1-api 80"""
    own = {"tools": [{"type": "namespace", "name": "git", "tools": [{"type": "function", "name": "log"}]}]}
    call = {"id": "c", "type": "function", "function": {"name": "git__log", "arguments": "{}"}}
    item = whole(completion({"tool_calls": [call]}, "tool_calls"), **own)["output"][0]
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "log", "git")
    found = stream(calls({**call, "index": 0}), chunk(finish="tool_calls"), DONE, of=writer(**own))
    for event in (*of_kind(found, "output_item.added"), *of_kind(found, "output_item.done")):
        assert (event["item"]["name"], event["item"]["namespace"]) == ("log", "git")


def test_calls_of_a_whole_answer_are_one_each_whatever_they_say():
    """Without ids, indexes, even without a name; only an empty one is none."""
    message = {
        "tool_calls": [
            {"function": {"name": "f", "arguments": {"a": 1}}},
            {"function": {"name": "f", "arguments": "{}"}},
            {"index": 0, "id": "same", "function": {"name": "f"}},
            {"index": 0, "id": "same", "function": {"name": "f"}},
            {},
            "junk",
        ]
    }
    items = whole(completion(message))["output"]
    assert [(item["name"], item["arguments"]) for item in items] == [("f", '{"a":1}'), *[("f", "{}")] * 3]
    assert [item["call_id"] for item in items] == ["call_3", "call_5", "same", "same"]


@pytest.mark.parametrize("given", [{"id": "call_1"}, {}])
def test_a_signature_goes_into_the_id_of_its_call(given):
    """The other call has none, and odd ones are none."""
    extra = {"google": {"thought_signature": "CvQB+/sig=="}}
    fragments = [
        {**fragment(0, name="f", arguments="{}"), **given, "extra_content": extra},
        {**fragment(1, "call_2", "g", "{}"), "extra_content": {"google": {"thought_signature": 7}}},
        {**fragment(2, "call_3", "h", "{}"), "extra_content": [extra]},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": fragments}
    whole = json.loads(writer().whole(json.dumps({"choices": [{"message": message}]}).encode(), MODEL))["output"]
    streamed = stream(*(calls(one) for one in fragments), chunk(finish="tool_calls"))
    for output in (whole, streamed[-1]["response"]["output"]):
        ids = [item["call_id"] for item in output]
        call_id, signature = thoughtsig.split(ids[0])
        assert signature == "CvQB+/sig==" and (call_id == "call_1" or not given)
        assert ids[1:] == ["call_2", "call_3"]
    opened = [event["item"]["call_id"] for event in streamed if event["type"] == "response.output_item.added"]
    assert opened == [item["call_id"] for item in streamed[-1]["response"]["output"]]


@pytest.mark.parametrize(
    ("message", "text"),
    [({"content": [{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}]}, "ab")],
)
def test_text_in_parts_is_joined(message, text):
    assert whole(completion(message))["output"][0]["content"][0]["text"] == text


def test_a_legacy_function_call_is_a_call():
    found = whole(completion({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"))
    assert [item["name"] for item in found["output"]] == ["f"]


def test_an_answer_of_nothing_has_no_output():
    assert whole(completion({"content": None}))["output"] == []
    found = whole(b'{"choices":[{"finish_reason":"length"}]}')
    assert (found["status"], found["output"]) == ("incomplete", [])


@pytest.mark.parametrize("chat", [b"", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[1]}', b'{"choices":{}}'])
def test_what_is_no_chat_completion(chat):
    with pytest.raises(Untranslatable):
        writer().whole(chat, MODEL)


def test_a_number_that_can_not_be_read_costs_only_itself():
    call = b'{"id":"c","x":1e999,"function":{"name":"f","arguments":"{}"}}'
    said = b'"content":"a","tool_calls":[' + call + b"]"
    found = json.loads(
        writer().whole(b'{"choices":[{"message":{' + said + b'},"logprob":1e999}],"usage":{"prompt_tokens":2}}', MODEL)
    )
    assert [item["type"] for item in found["output"]] == ["message", "function_call"]
    assert found["usage"]["input_tokens"] == 2
    end = stream(b'data: {"x":1e999,"choices":[{"delta":{' + said + b"}}]}\n\n")[-1]
    assert [item["type"] for item in end["response"]["output"]] == ["message", "function_call"]


@pytest.mark.parametrize(
    ("usage", "total"),
    [({"prompt_tokens": 2, "completion_tokens": 3}, 5), ({"prompt_tokens": "2", "completion_tokens": 3.0}, 5)],
)
def test_a_total_that_is_not_reported_is_the_sum(usage, total):
    assert whole(completion({"content": "a"}, usage=usage))["usage"]["total_tokens"] == total


# -- streams


def test_a_stream_of_text():
    one = writer()
    found = stream(
        b": ping\n\n",
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "he"}),
        chunk({"content": "llo"}) + chunk({"content": ' "w"\n'}),
        chunk(finish="stop"),
        frame({"choices": [], "usage": USAGE}),
        DONE,
        of=one,
    )
    assert kinds(found) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        *["output_text.delta"] * 3,
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    for event in found[:2]:
        response = event["response"]
        assert (response["status"], response["output"], response["model"]) == ("in_progress", [], MODEL)
        assert "usage" not in response
    text = 'hello "w"\n'
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"type": "message", "id": "msg_2", "role": "assistant", "status": "completed", "content": [part]}
    assert [event["delta"] for event in of_kind(found, "output_text.delta")] == ["he", "llo", ' "w"\n']
    place = {"item_id": "msg_2", "output_index": 0, "content_index": 0}
    for event in found[3:9]:
        assert {name: event[name] for name in place} == place
    assert found[2]["item"] == {**item, "status": "in_progress", "content": []}
    assert found[3]["part"] == {**part, "text": ""}
    assert (found[7]["text"], found[7]["logprobs"]) == (text, [])
    assert found[8]["part"] == part
    assert found[9]["item"] == item
    end = found[10]["response"]
    assert (end["id"], end["output"], end["usage"]) == ("resp_1", [item], SPENT)


def test_reasoning_ends_where_text_begins():
    found = stream(
        chunk({"reasoning_content": "h"}),
        chunk({"reasoning_content": "m"}),
        chunk({"content": "a"}),
        chunk(finish="stop"),
    )
    assert kinds(found)[2:-1] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
    ]
    item = {
        "type": "reasoning",
        "id": "rs_2",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "status": "completed",
    }
    assert found[8]["item"] == item
    assert found[2]["item"] == {**item, "summary": [], "status": "in_progress"}
    assert {event["output_index"] for event in found[2:9]} == {0}
    assert {event["output_index"] for event in found[9:-1]} == {1}
    assert [one["type"] for one in found[-1]["response"]["output"]] == ["reasoning", "message"]


def test_text_and_refusal_are_parts_of_one_message():
    found = stream(chunk({"content": "a"}), chunk({"refusal": "n"}), chunk({"content": "b", "refusal": "o"}))
    assert kinds(found)[2:-1] == [
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "content_part.added",
        "refusal.delta",
        "output_text.delta",
        "refusal.delta",
        "output_text.done",
        "content_part.done",
        "refusal.done",
        "content_part.done",
        "output_item.done",
    ]
    assert [event["content_index"] for event in found[3:-2]] == [0, 0, 1, 1, 0, 1, 0, 0, 1, 1]
    assert of_kind(found, "refusal.done")[0]["refusal"] == "no"
    content = found[-1]["response"]["output"][0]["content"]
    assert content[0]["text"] == "ab" and content[1] == {"type": "refusal", "refusal": "no"}


def test_interleaved_fragments_of_two_calls():
    """v1-api 81"""
    found = stream(
        chunk({"content": "let me see"}),
        calls(fragment(0, "call_a", "f", "")),
        calls(fragment(1, "call_b", "g", '{"y"')),
        calls(fragment(0, arguments='{"x":'), fragment(1, arguments=":2}")),
        calls(fragment(0, arguments="1}")),
        chunk(finish="tool_calls"),
        DONE,
    )
    assert [(event["output_index"], event["item"]["type"]) for event in of_kind(found, "output_item.done")] == [
        (0, "message"),
        (1, "function_call"),
        (2, "function_call"),
    ]
    done = {event["item"]["call_id"]: event["item"] for event in of_kind(found, "output_item.done")[1:]}
    assert {key: (item["name"], item["arguments"]) for key, item in done.items()} == {
        "call_a": ("f", '{"x":1}'),
        "call_b": ("g", '{"y":2}'),
    }
    for event in of_kind(found, "function_call_arguments.done"):
        item = next(item for item in done.values() if item["id"] == event["item_id"])
        assert event["arguments"] == item["arguments"]
        deltas = [one for one in of_kind(found, "function_call_arguments.delta") if one["item_id"] == event["item_id"]]
        assert "".join(one["delta"] for one in deltas) == event["arguments"]
    order = kinds(found)
    assert order.index("output_item.done") < order.index("output_item.added", 3)  # the message closed first
    assert order.index("function_call_arguments.done") > max(
        at for at, kind in enumerate(order) if kind == "function_call_arguments.delta"
    )
    assert found[-1]["response"]["output"] == [event["item"] for event in of_kind(found, "output_item.done")]


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(
            [fragment(None, "a", "f", "{"), fragment(None, "b", "g", "{}"), fragment(None, "a", arguments="}")],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="without index by id",
        ),
        pytest.param(
            [fragment(id="a", name="f", arguments='{"x"'), fragment(arguments=":1}")],
            [("a", "f", '{"x":1}')],
            id="without either the last call goes on",
        ),
        pytest.param(
            [fragment(0, "a", "f", "{}"), fragment(0, "b", "g", "{}"), fragment(0, arguments=" ")],
            [("a", "f", "{}"), ("b", "g", "{} ")],
            id="an opener that reuses an index is a new call",
        ),
        pytest.param(
            [fragment(0, "a", "f", '{"x'), fragment(0, "a", "f", '":1}')],
            [("a", "f", '{"x":1}')],
            id="id and name on every fragment",
        ),
        pytest.param(
            [fragment(0, name="f", arguments='{"x'), fragment(0, name="f", arguments='":1}')],
            [("call_3", "f", '{"x":1}')],
            id="the name on every fragment",
        ),
        pytest.param(
            [fragment(0, name="f", arguments='{"x":1}'), fragment(0, name="f", arguments='{"x":2}')],
            [("call_3", "f", '{"x":1}'), ("call_5", "f", '{"x":2}')],
            id="two whole calls under one index without ids",
        ),
        pytest.param(
            [fragment(0, "a", "f", "{"), fragment(0, "other", arguments="}")],
            [("a", "f", "{}")],
            id="a new id without a name is no opener",
        ),
        pytest.param(
            [fragment(0, "a"), fragment(0, arguments="{}"), fragment(0, name="f")],
            [("a", "f", "{}")],
            id="the name comes last",
        ),
        pytest.param([fragment(0, "a"), fragment(0, arguments="{}")], [("a", "", "{}")], id="no name at all"),
        pytest.param([fragment(0), fragment(1, arguments="")], [], id="nothing at all"),
        pytest.param([fragment(0, "a", "f", {"x": 1})], [("a", "f", '{"x":1}')], id="an object"),
        pytest.param([fragment(0, "a", "f")], [("a", "f", "{}")], id="no arguments"),
        pytest.param([fragment(0, "a", "f", "{bro")], [("a", "f", "{}")], id="broken arguments"),
    ],
)  # fmt: skip
def test_fragments_find_their_call(fragments, expected):
    """Part of v1-api 81"""
    found = stream(*(calls(one) for one in fragments), chunk(finish="tool_calls"), DONE)
    items = found[-1]["response"]["output"]
    assert [(item["call_id"], item["name"], item["arguments"]) for item in items] == expected
    assert [event["item"] for event in of_kind(found, "output_item.done")] == items
    assert len(of_kind(found, "output_item.added")) == len(items)


def test_text_behind_a_call_is_a_new_message_and_the_call_stays_open():
    found = stream(calls(fragment(0, "a", "f", "{")), chunk({"content": "x"}), calls(fragment(0, arguments="}")), DONE)
    output = found[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["function_call", "message"]
    assert output[0]["arguments"] == "{}"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_call_that_was_cut_off_says_so_with_the_arguments_that_came(finish):
    """v1-api 13.5: full arguments, and none that nobody wrote."""
    opened = [fragment(0, "a", "f", '{"x":'), fragment(1, "b", "g", "{}"), fragment(2, "c", "h")]
    found = stream(calls(*opened), calls(fragment(0, arguments="1,")), chunk(finish=finish), DONE)
    wanted = [("f", '{"x":1,', "incomplete"), ("g", "{}", "completed"), ("h", "", "incomplete")]
    for items in (
        [event["item"] for event in of_kind(found, "output_item.done")],
        found[-1]["response"]["output"],
    ):
        assert [(item["name"], item["arguments"], item["status"]) for item in items] == wanted
    told = [event["arguments"] for event in of_kind(found, "function_call_arguments.done")]
    assert told == ['{"x":1,', "{}", ""]
    deltas = [(event["output_index"], event["delta"]) for event in of_kind(found, "function_call_arguments.delta")]
    assert deltas == [(0, '{"x":'), (1, "{}"), (0, "1,")]
    assert found[-1]["type"] == "response.incomplete"


@pytest.mark.parametrize("finish", ["stop", "tool_calls", None])
def test_a_call_that_its_provider_ended_has_arguments_of_some_kind(finish):
    found = stream(calls(fragment(0, "a", "f", '{"x":'), fragment(1, "b", "g")), chunk(finish=finish), DONE)
    items = found[-1]["response"]["output"]
    assert [(item["arguments"], item["status"]) for item in items] == [("{}", "completed")] * 2


def test_a_call_of_a_whole_answer_has_the_letter_of_13_4():
    """v1-api 13.4: ``{}`` where invalid, every item completed."""
    message = {"tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":'}}]}
    found = whole(completion(message, "length"))
    (item,) = found["output"]
    assert (found["status"], item["arguments"], item["status"]) == ("incomplete", "{}", "completed")


def test_what_follows_the_finish_reason_is_ignored_but_for_usage():
    one = writer()
    found = stream(
        chunk({"content": "a"}),
        chunk(finish="length"),
        chunk({"content": "more", "tool_calls": [fragment(0, "a", "f", "{}")]}),
        chunk(finish="stop", usage=USAGE),
        DONE,
        DONE,
        chunk({"content": "late"}),
        of=one,
    )
    end = found[-1]["response"]
    assert (end["status"], end["usage"]) == ("incomplete", SPENT)
    assert [item["content"][0]["text"] for item in end["output"]] == ["a"]
    assert one.end() == b"" and one.error("x", "provider_error") == b"" and one.feed(b": ping\n\n") == b""


def test_only_the_first_choice_counts():
    other = {"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}
    plain = {"index": 1, "delta": {"content": "b"}, "finish_reason": None}
    both = {"choices": [{"index": 0, "delta": {"content": "c"}}, plain]}
    found = stream(chunk({"content": "a"}), frame({"choices": [other]}), frame({"choices": [plain]}), frame(both))
    assert [item["content"][0]["text"] for item in found[-1]["response"]["output"]] == ["ac"]
    assert found[-1]["type"] == "response.completed"


def test_an_empty_answer_has_a_beginning_and_an_end():
    assert kinds(stream()) == ["created", "in_progress", "completed"]


@pytest.mark.parametrize(
    "junk", [b"data: {\n\n", b"data: 5\n\n", b"data:\n\n", b"event: x\n\n", b'data: {"choices":7}\n\n']
)
def test_frames_that_say_nothing(junk):
    assert kinds(stream(chunk({"content": "a"}), junk, chunk({"content": "b"})))[4:6] == ["output_text.delta"] * 2


def test_comments_pass_and_other_lines_do_not():
    one = writer()
    one.feed(chunk({"content": "a"}))
    assert one.feed(b": model-hotel recovered\n\n") == b": model-hotel recovered\n\n"
    assert one.feed(b"id: 7\nevent: x\n: hi\n" + chunk({"content": "b"})).startswith(b": hi\n\nevent: response.output")


def test_a_candidate_that_takes_over_goes_on_with_the_same_answer():
    one = writer()
    out = one.feed(chunk({"content": "a"}))
    one.begin("second")
    out += one.feed(chunk({"content": "b"})) + one.feed(chunk(finish="stop")) + one.feed(DONE)
    found = events(out)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert found[0]["response"]["id"] == found[-1]["response"]["id"]
    assert (found[0]["response"]["model"], found[-1]["response"]["model"]) == (MODEL, "second")
    assert found[-1]["response"]["output"][0]["content"][0]["text"] == "ab"


def native(kind: str, number: int, **more: object) -> Event:
    data = json.dumps({"type": f"response.{kind}", "sequence_number": number, **more}).encode()
    return Event(data, b"event: x\ndata: %b\n\n" % data, b"event: x\n")


def test_a_candidate_that_takes_over_from_a_native_stream_goes_on_with_it():
    """Id, numbers, items and text are those of the stream that broke."""
    one = writer()
    reasoning = {"type": "reasoning", "id": "rs_native", "encrypted_content": "g"}
    for event in (
        native("created", 0, response={"id": "resp_native"}),
        native("output_item.added", 2, output_index=0, item=reasoning),
        native("output_item.done", 3, output_index=0, item={**reasoning, "status": "completed"}),
        native("output_item.added", 4, output_index=1, item={"type": "message", "id": "msg_native"}),
        native("content_part.added", 5, output_index=1, part={"type": "output_text", "text": ""}),
        native("output_text.delta", 6, output_index=1, delta="a"),
        Event(b"garbage", b""),
        Event(None, b": ping\n\n", b": ping\n"),
    ):
        one.follow(event)
    one.begin("second")
    found = events(b"".join(one.feed(part) for part in (chunk({"content": "b"}), chunk(finish="stop"), DONE)))
    assert [event["sequence_number"] for event in found] == list(range(7, 7 + len(found)))
    assert kinds(found) == [
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    place = {"item_id": "msg_native", "output_index": 1, "content_index": 0}
    assert {name: found[0][name] for name in place} == place and found[1]["text"] == "ab"
    response = found[-1]["response"]
    assert (response["id"], response["model"]) == ("resp_native", "second")
    assert response["output"][0] == {**reasoning, "status": "completed"}
    assert response["output"][1]["content"][0]["text"] == "ab"


# -- failures


def test_a_stream_that_breaks_ends_with_a_failed_response():
    """Part of v1-api 53"""
    one = writer()
    out = one.feed(chunk({"reasoning_content": "r"}) + chunk({"content": "a"}) + chunk({"content": "b"}))
    out += one.error("stream stalled: no data for 30s", "provider_timeout")
    found = events(out)
    end = found[-1]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert end["type"] == "response.failed" and b"[DONE]" not in out
    response = end["response"]
    assert (response["status"], response["id"]) == ("failed", "resp_1")
    assert response["error"] == {"code": "provider_timeout", "message": "stream stalled: no data for 30s"}
    assert [(item["type"], item["status"]) for item in response["output"]] == [
        ("reasoning", "completed"),
        ("message", "incomplete"),
    ]
    assert one.error("again", "internal") == b"" and one.end() == b""


def test_a_call_that_broke_off_is_never_done():
    """Part of v1-api 53: a client would run it."""
    found = stream(calls(fragment(0, "a", "f", '{"x"')), frame({"error": {"message": "m"}}), end=False)
    assert found[-1]["response"]["output"] == []
    assert not of_kind(found, "output_item.done")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"message": "m", "type": "server_error", "code": "overloaded"}, ("overloaded", "m")),
        ({"message": "m", "type": "rate_limit_error", "code": None}, ("rate_limit_error", "m")),
        ({"message": "m", "code": 429}, ("server_error", "m")),
        ({"code": 5}, ("server_error", "the provider reported an error")),
        ("overloaded", ("server_error", "overloaded")),
        ([1], ("server_error", "the provider reported an error")),
    ],
)
def test_an_error_of_the_provider_is_the_end(error, expected):
    """Part of v1-api 53"""
    one = writer()
    found = stream(chunk({"content": "a"}), frame({"error": error}), DONE, chunk({"content": "b"}), of=one)
    assert kinds(found)[-1] == "failed"
    assert tuple(found[-1]["response"]["error"].values()) == expected


def test_a_failure_before_anything_else_is_begun_properly():
    assert kinds(events(writer().error("m", ""))) == ["created", "in_progress", "failed"]
    assert events(writer().error("m", ""))[-1]["response"]["error"]["code"] == "server_error"


# -- anything

WORDS = st.text(st.sampled_from('ab"{}\n\\é😀'), max_size=4)
ARGUMENTS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), max_size=2).map(json.dumps)
CALL = st.tuples(st.sampled_from(("f", "g", "ns__h")), ARGUMENTS)


@st.composite
def answers(draw: st.DrawFn) -> tuple[dict, list[bytes]]:
    """A message, and the chunks it comes in: reasoning, text and refusal in pieces, calls interleaved."""
    message: dict[str, Any] = {}
    chunks: list[bytes] = []
    for name in ("reasoning_content", "content", "refusal"):
        pieces = draw(st.lists(WORDS, max_size=3))
        if "".join(pieces):
            message[name] = "".join(pieces)
        chunks += [chunk({name: piece}) for piece in pieces]
    made = draw(st.lists(CALL, max_size=3))
    if made:
        message["tool_calls"] = [
            {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": words}}
            for at, (name, words) in enumerate(made)
        ]
        chunks += [calls(fragment(at, f"c{at}", name, "")) for at, (name, _) in enumerate(made)]
        letters = [[(at, letter) for letter in words] for at, (_, words) in enumerate(made)]
        while any(letters):
            queue = draw(st.sampled_from([queue for queue in letters if queue]))
            chunks.append(calls(fragment(queue[0][0], arguments=queue.pop(0)[1])))
    return message, chunks


OWN = {"tools": [{"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "h"}]}]}


def without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_ids(part) for name, part in value.items() if name != "id"}
    return [without_ids(part) for part in value] if isinstance(value, list) else value


@settings(max_examples=60, deadline=None)
@given(answers(), st.sampled_from(("stop", "length", "tool_calls")), st.booleans(), st.data())
def test_a_stream_says_what_the_whole_answer_says(answer, finish, spends, data):
    """Part of v1-api 81: however the bytes were cut."""
    message, chunks = answer
    usage = {"usage": USAGE} if spends else {}
    raw = b"".join([*chunks, chunk(finish=finish), *([frame({"choices": [], **usage})] if spends else []), DONE])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(raw)), max_size=3)))
    pieces = [raw[a:b] for a, b in itertools.pairwise([0, *cuts, len(raw)])]
    found = stream(*pieces, of=writer(**OWN))
    assert without_ids(found[-1]["response"]) == without_ids(whole(completion(message, finish, **usage), **OWN))
    done = [event["item"] for event in of_kind(found, "output_item.done")]
    assert sorted(done, key=lambda item: item["id"]) == sorted(
        found[-1]["response"]["output"], key=lambda item: item["id"]
    )
    added = of_kind(found, "output_item.added")
    assert [event["output_index"] for event in added] == list(range(len(added)))


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(("", "a", "{}")),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ("choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "index", "id",
                 "error", "usage", "finish_reason", "prompt_tokens", "refusal", "reasoning_content")
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)  # fmt: skip
CHUNK = st.builds(lambda delta, finish: {"choices": [{"delta": delta, "finish_reason": finish}]}, JUNK, JUNK) | JUNK


@settings(max_examples=60, deadline=None)
@given(st.lists(CHUNK.map(frame) | st.binary(max_size=10), max_size=5))
def test_whatever_comes_the_events_stay_in_form(frames):
    found = stream(*frames)
    assert kinds(found)[:2] == ["created", "in_progress"]
    assert kinds(found)[-1] in ("completed", "incomplete", "failed")


@settings(max_examples=60, deadline=None)
@given(JUNK, st.binary(max_size=10))
def test_whatever_whole_answer_comes(junk, raw):
    for body in (json.dumps(junk).encode(), json.dumps({"choices": [{"message": junk}]}).encode(), raw):
        try:
            assert json.loads(writer().whole(body, MODEL))["object"] == "response"
        except Untranslatable:
            continue
