"""Chat completions: rewriting the request for a candidate, judging and normalising the answer."""

import json
from typing import ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.kinds.base import Kind
from proxy.dialects import chat
from proxy.usage import Usage


class Plain(Kind):
    type = "plain"
    label = "Plain"


class Picky(Kind):
    type = "picky"
    label = "Picky"
    sends_stream_options = False
    strip: ClassVar[frozenset[str]] = frozenset({"min_p", "thinking"})

    def inject(self, body, model_id):
        body.setdefault("thinking", msgspec.Raw(b'{"type":"enabled"}'))
        body.setdefault("chat_template_args", msgspec.Raw(b"{}"))


def members_of(raw):
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])


def built(raw, kind=None, stream=False, model_id="up/stream-model"):
    return chat.build_body(members_of(raw), raw, model_id=model_id, kind=kind or Plain(), stream=stream)


# -- the request


def test_numbers_come_out_digit_by_digit():
    """v1-api 54"""
    out = built(
        b'{"model":"a","seed":9007199254740993,"temperature":0.10,"n":1E2,"big":123456789012345678901234567890}'
    )
    assert out == (
        b'{"model":"up/stream-model","seed":9007199254740993,"temperature":0.10,"n":1E2,'
        b'"big":123456789012345678901234567890}'
    )


def test_a_stream_always_asks_for_usage_where_the_type_takes_it():
    """v1-api 55"""
    raw = b'{"model":"a","stream":true,"stream_options":{"include_usage":false,"x":1}}'
    assert json.loads(built(raw, stream=True))["stream_options"] == {"include_usage": True}
    assert json.loads(built(b'{"model":"a","stream":true}', stream=True))["stream_options"] == {"include_usage": True}
    assert "stream_options" not in json.loads(built(b'{"model":"a"}'))


def test_a_type_that_takes_no_stream_options_keeps_what_the_client_sent():
    """v1-api 56"""
    raw = b'{"model":"a","stream":true,"stream_options":{"include_usage":false}}'
    assert json.loads(built(raw, Picky(), stream=True))["stream_options"] == {"include_usage": False}
    assert "stream_options" not in json.loads(built(b'{"model":"a","stream":true}', Picky(), stream=True))


def test_what_is_injected_is_stripped_again_where_it_is_on_the_list():
    out = json.loads(built(b'{"model":"a","min_p":0.1,"top_p":0.2}', Picky()))
    assert out == {"model": "up/stream-model", "top_p": 0.2, "chat_template_args": {}}


def test_the_body_of_the_client_is_left_for_the_next_candidate():
    raw = b'{"model":"a","min_p":0.1,"messages":[{"role":"assistant","tool_calls":[]}]}'
    members = members_of(raw)
    before = {name: bytes(value) for name, value in members.items()}
    chat.build_body(members, raw, model_id="b", kind=Picky(), stream=True)
    assert {name: bytes(value) for name, value in members.items()} == before


@pytest.mark.parametrize("empty", [b"[]", b"[ ]", b"[\n\t]"])
def test_an_empty_list_of_tool_calls_is_left_out(empty):
    """v1-api 63"""
    raw = (
        b'{"model":"a","messages":[{"role":"user","content":"see \\"tool_calls\\""},'
        b'{"role":"assistant","content":"x","tool_calls":%s,"n":0.10}]}' % empty
    )
    assert b'[{"role":"user","content":"see \\"tool_calls\\""},{"role":"assistant","content":"x","n":0.10}]' in built(
        raw
    )


@pytest.mark.parametrize(
    "messages",
    [
        b'[{"role":"assistant","tool_calls":[{"id":"x","n":1.50}]}]',
        b'[{"role":"assistant","tool_calls":null}]',
        b'[{"role":"assistant","content":"\\"tool_calls\\":[]"}]',
        b'"tool_calls"',
        b'["tool_calls"]',
        b'{"tool_calls":[]}',
        b"5",
        b"null",
    ],
)
def test_other_messages_are_untouched(messages):
    out = built(b'{"model":"a","messages":%s}' % messages)
    assert out == b'{"model":"up/stream-model","messages":%s}' % messages


names = st.text(max_size=8) | st.sampled_from(["model", "stream", "stream_options", "min_p", "tools", "tool_calls"])
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3), max_leaves=8
)


@given(st.dictionaries(names, values, max_size=6), st.booleans(), st.booleans(), st.sampled_from([None, 1]))
def test_every_member_but_those_touched_survives_byte_for_byte(members, stream, picky, indent):
    raw = json.dumps({**members, "model": "a/b"}, indent=indent).encode()
    kind = Picky() if picky else Plain()
    before, after = members_of(raw), members_of(built(raw, kind, stream))
    touched = {"model", "messages"} | kind.strip
    if picky:
        touched |= {"chat_template_args"}
    elif stream:
        touched |= {"stream_options"}
    assert bytes(after["model"]) == b'"up/stream-model"'
    assert {n: bytes(v) for n, v in before.items() if n not in touched} == {
        n: bytes(v) for n, v in after.items() if n not in touched
    }


# -- thinking


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("<think>a</think>b", ("a", "b")),
        ("<thinking>a</thinking>b", ("a", "b")),
        ("<thought>a</thought>b", ("a", "b")),
        ("<start_thought>a</start_thought>b", ("a", "b")),
        ("x<think>still open", ("still open", "x")),
        ("<think>a\n</think>b<think>c</think>", ("a\nc", "b")),
        ("<<\na\n>>\nb", ("a", "b")),
        ("<<\nstill open", ("still open", "")),
        ("<think></think>b", ("", "b")),
        ("a < b and <thin> air", None),
        ("b <<\nc\n>>", None),
        ("", None),
    ],
)
def test_thinking_tags_are_taken_out_of_the_content(content, found):
    """v1-api 61"""
    assert chat.split_thinking(content) == found


def test_reasoning_details_give_their_text_entries():
    details = [
        {"type": "reasoning.text", "text": "a"},
        {"type": "reasoning.encrypted", "data": "x"},
        {"type": "reasoning.text", "text": "b"},
        {"type": "reasoning.text", "text": 5},
        7,
    ]
    assert chat.detailed_reasoning(details) == "ab"
    assert chat.detailed_reasoning({"type": "reasoning.text", "text": "a"}) == ""


# -- the answer


def answer(choices, **more):
    return json.dumps({"id": "x", "object": "chat.completion", "choices": choices, **more}).encode()


def choice(finish="stop", **message):
    return {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}


def read(choices, **more):
    return chat.read_answer(answer(choices, **more))


def test_a_usual_answer_goes_on_as_the_bytes_that_came():
    payload = answer([choice(content="hello")], usage={"prompt_tokens": 3, "completion_tokens": 2}, extra=0.10)
    found = chat.read_answer(payload)
    assert found.body is payload
    assert (found.verdict, found.carries, found.usage, found.delivered) == ("served", True, Usage(3, 2), 0)


@pytest.mark.parametrize("choices", [[], None])
def test_empty_choices_are_no_answer_whatever_the_usage_says(choices):
    """v1-api 69a"""
    found = read(choices, usage={"prompt_tokens": 3, "completion_tokens": 9})
    assert (found.verdict, found.body, found.carries, found.usage) == ("no_choices", b"", False, Usage(3, 9))
    assert chat.read_answer(b'{"usage":{"prompt_tokens":3}}').verdict == "no_choices"
    assert chat.read_answer(b'{"error":{"message":"x"}}').verdict == "no_choices"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"[]",
        b'"x"',
        b'{"choices":"x"}',
        b'{"choices":{"0":{}}}',
        b'{"choices":["x"]}',
        b'{"choices":[null]}',
        b'{"choices":[{"message":{"content":"x"}',
        b'{"choices":[{"message":{"content":"\xff"}}]}',
        b'{"choices":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"data: {}\n\n",
    ],
    ids=lambda p: repr(p[:30]),
)
def test_what_is_no_completion_is_undecodable(payload):
    """v1-api 69"""
    found = chat.read_answer(payload)
    assert (found.verdict, found.body, found.carries) == ("undecodable", b"", False)
    assert found.problem
    assert b"gateway" not in found.problem.encode()


@pytest.mark.parametrize("finish", [None, "", 5])
def test_choices_that_carry_nothing_and_state_nothing_are_no_content(finish):
    found = read([choice(finish, content="")], usage={"prompt_tokens": 3})
    assert (found.verdict, found.body, found.usage) == ("no_content", b"", Usage(3))
    assert read([{}]).verdict == "no_content"
    assert read([{"message": None}]).verdict == "no_content"
    assert read([{"message": "text"}]).verdict == "no_content"


def test_an_empty_choice_with_a_finish_reason_is_forwarded():
    found = read([choice("stop", content="")])
    assert (found.verdict, found.carries) == ("bare_finish", False)
    assert json.loads(found.body)["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("finish", ["content_filter", "length", "SAFETY", "max_tokens"])
def test_a_filtered_or_cut_answer_is_an_answer(finish):
    assert read([choice(finish, content="")]).verdict == "served"


def test_completion_tokens_are_an_answer():
    assert read([choice("stop", content="")], usage={"completion_tokens": 1}).verdict == "served"


@pytest.mark.parametrize(
    "message",
    [
        {"content": " "},
        {"content": [{"type": "text", "text": "x"}]},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
        {"tool_calls": [{"id": "x"}]},
        {"refusal": "no"},
        {"audio": {"id": "a"}},
        {"function_call": {"name": "f"}},
        {"annotations": [1]},
        {"images": [{}]},
        {"citations": ["u"]},
        {"thinking_blocks": [{"type": "thinking"}]},
    ],
    ids=lambda m: next(iter(m)),
)
def test_every_kind_of_content_is_an_answer(message):
    assert read([choice(None, **{"content": None, **message})]).verdict == "served"


@pytest.mark.parametrize("empty", [None, "", [], {}, False, 0, 0.0])
@pytest.mark.parametrize("member", ["content", "reasoning", "tool_calls", "refusal", "audio", "images"])
def test_empty_members_are_no_content(member, empty):
    assert read([choice(None, **{"content": None, member: empty})]).verdict == "no_content"


@pytest.mark.parametrize(("stated", "usual"), sorted(chat.FINISH_REASONS.items()))
def test_finish_reasons_are_brought_to_one_vocabulary(stated, usual):
    assert json.loads(read([choice(stated, content="x")]).body)["choices"][0]["finish_reason"] == usual


def test_an_unknown_finish_reason_stays():
    assert json.loads(read([choice("cosmic_ray", content="x")]).body)["choices"][0]["finish_reason"] == "cosmic_ray"


@pytest.mark.parametrize(
    ("message", "reasoning", "content"),
    [
        ({"content": "b", "reasoning": "a"}, "a", "b"),
        ({"content": "b", "reasoning": "", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]}, "a", "b"),
        ({"content": "<think>a</think>b"}, "a", "b"),
        ({"content": "<think>a</think>b", "reasoning_content": ""}, "a", "b"),
        ({"content": "b", "reasoning": "a", "reasoning_content": "mine"}, "mine", "b"),
        ({"content": "<think>a</think>b", "reasoning_content": "mine"}, "mine", "<think>a</think>b"),
    ],
)
def test_reasoning_is_found_wherever_the_provider_put_it(message, reasoning, content):
    """v1-api 61"""
    out = json.loads(read([choice(**message)]).body)["choices"][0]["message"]
    assert (out["reasoning_content"], out["content"]) == (reasoning, content)
    for name in ("reasoning", "reasoning_details"):
        assert out.get(name) == message.get(name)


def test_members_we_do_not_model_survive_normalisation_byte_for_byte():
    payload = (
        b'{"system_fingerprint":"f","choices":[{"index":0,"logprobs":{"content":[ -0.10 ]},"native_finish_reason":"X",'
        b'"message":{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"index":0,"id":"c","extra_content":'
        b'{"google":{"thought_signature":"s=="}},"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_use"}],'
        b'"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.000010},"service_tier":"x"}'
    )
    found = chat.read_answer(payload)
    assert found.body == payload.replace(b'"tool_use"', b'"tool_calls"')
    assert b'"delta"' not in found.body


def test_every_choice_is_normalised():
    out = json.loads(read([choice("eos", content="a"), choice("stop", content="<think>t</think>b")]).body)["choices"]
    assert [c["finish_reason"] for c in out] == ["stop", "stop"]
    assert out[1]["message"] == {"role": "assistant", "content": "b", "reasoning_content": "t"}


def test_a_byte_order_mark_before_the_answer_is_dropped():
    payload = answer([choice(content="x")])
    assert chat.read_answer(b"\xef\xbb\xbf" + payload).body == payload


def test_a_usage_that_can_not_be_read_costs_nothing_but_itself():
    """v1-api 67"""
    found = read([choice(content="x")], usage={"prompt_tokens": "12", "completion_tokens": 3.0})
    assert (found.verdict, found.usage) == ("served", Usage(12, 3))
    found = read([choice(content="é")], usage="lots")
    assert (found.verdict, found.usage, found.delivered) == ("served", None, 2)


def test_delivered_bytes_are_counted_where_the_usage_leaves_a_side_open():
    tools = [{"id": "c"}]
    found = read([choice(content="abé", reasoning_content="xy", tool_calls=tools)])
    assert found.delivered == 4 + 2 + len(json.dumps(tools))
    found = read([choice("tool_calls", content=None, tool_calls=tools)], usage={"prompt_tokens": 5})
    assert found.delivered == len(json.dumps(tools))


@given(values)
def test_no_answer_breaks_the_reader(value):
    payload = json.dumps({"choices": value}).encode()
    assert chat.read_answer(payload).verdict in ("no_choices", "no_content", "undecodable", "bare_finish")


@given(st.binary(max_size=100))
def test_no_bytes_break_the_reader(payload):
    assert chat.read_answer(payload).verdict in ("undecodable", "no_choices")


@given(st.dictionaries(st.sampled_from(["content", "reasoning", "tool_calls", "refusal", "audio"]), values, max_size=4))
def test_whatever_a_message_holds_is_kept(message):
    found = chat.read_answer(answer([choice("stop", **message)]))
    if found.body:
        out = json.loads(found.body)["choices"][0]["message"]
        assert {n: v for n, v in out.items() if n in message and n != "content"} == {
            n: v for n, v in message.items() if n != "content"
        }


@given(values)
def test_populated_is_what_python_calls_true(value):
    raw = msgspec.Raw(json.dumps(value).encode())
    assert chat.populated(raw) is bool(value)
