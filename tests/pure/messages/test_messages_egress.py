"""A chat request in the Messages dialect, and its whole answer: every row of v1-api 14."""

import contextlib
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import repairs
from proxy.dialects import chat as chat_dialect
from proxy.dialects import jsonmode
from proxy.dialects.base import Untranslatable
from proxy.dialects.messages import egress, has_document, lesson, structured
from tests.pure.messages.shapes import ANSWER, ID, PDF, PNG, members, raw, values

HI = {"role": "user", "content": "hi"}


def build(messages=(HI,), stream=False, thinking="adaptive", rejected=frozenset(), json_mode=False, **body):
    chat = members(model="hotel/g", messages=list(messages), **body)
    return json.loads(
        egress.build(chat, model="claude", stream=stream, thinking=thinking, rejected=rejected, json_mode=json_mode)
    )


def turns(*messages):
    return build(messages)["messages"]


def blocks(*parts):
    """The blocks of a user's parts, behind a text that keeps the turn."""
    found = turns({"role": "user", "content": [{"type": "text", "text": "."}, *parts]})
    assert found[0]["content"][0] == {"type": "text", "text": "."}
    return found[0]["content"][1:]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {}),
        ({"temperature": 0.2, "top_k": 4}, {"temperature": 0.2, "top_k": 4}),
        ({"top_p": 0.9}, {"top_p": 0.9}),
        ({"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.2}),
        ({"temperature": None, "top_p": 0.9}, {"top_p": 0.9}),
        ({"max_completion_tokens": 7, "max_tokens": 9}, {"max_tokens": 7}),
        ({"max_completion_tokens": 0, "max_tokens": 9}, {"max_tokens": 9}),
        ({"max_tokens": 9}, {"max_tokens": 9}),
        ({"max_tokens": -1}, {}),
        ({"max_tokens": None}, {}),
        ({"max_tokens": "9"}, {}),
        ({"stop": "x"}, {"stop_sequences": ["x"]}),
        ({"stop": ["x", "y"]}, {"stop_sequences": ["x", "y"]}),
        ({"stop": ""}, {}),
        ({"stop": []}, {}),
        ({"stop": None}, {}),
        ({"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
        ({"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
        (
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            {"tool_choice": {"type": "tool", "name": "f"}},
        ),
        ({"tool_choice": None}, {}),
        (dict.fromkeys(("frequency_penalty", "presence_penalty", "n", "seed", "top_logprobs"), 1), {}),
        ({"response_format": {"type": "json_object"}, "logit_bias": {}, "stream_options": {}}, {}),
        ({"user": "u", "metadata": {}, "parallel_tool_calls": False, "logprobs": True, "anything": 1}, {}),
    ],
)
def test_members(body, expected):
    usual = {"model": "claude", "max_tokens": 4096, "messages": [HI]}
    assert build(**body) == {**usual, **expected}


def test_a_stream_is_asked_for():
    assert build(stream=True)["stream"] is True


def test_numbers_keep_their_digits():
    chat = members(messages=[HI])
    call = rb'{"function":{"name":"f","arguments":"{\"n\":9007199254740993,\"x\":1.10}"}}'
    chat["temperature"] = type(chat["messages"])(b"0.10")
    chat["messages"] = type(chat["messages"])(b'[{"role":"assistant","tool_calls":[%b]}]' % call)
    out = egress.build(chat, model="m", stream=False)
    assert b'"temperature":0.10' in out
    assert b'"input":{"n":9007199254740993,"x":1.10}' in out


def tool(**function):
    return {"type": "function", "function": function}


@pytest.mark.parametrize(
    ("given_tool", "expected"),
    [
        (
            tool(name="f", description="d", parameters={"type": "object", "x": 1}, strict=True),
            {"name": "f", "description": "d", "input_schema": {"type": "object", "x": 1}},
        ),
        (tool(name="f"), {"name": "f", "input_schema": {"type": "object", "properties": {}}}),
        (tool(name="f", parameters=None), {"name": "f", "input_schema": {"type": "object", "properties": {}}}),
        (tool(name="f", parameters=[]), {"name": "f", "input_schema": {"type": "object", "properties": {}}}),
        ({"type": "web_search"}, None),
        (tool(description="nameless"), None),
    ],
)
def test_tools(given_tool, expected):
    assert build(tools=[given_tool]).get("tools") == (None if expected is None else [expected])


def test_tools_that_must_not_be_used_are_left_out():
    """v1-api 73"""
    body = build(tools=[tool(name="f")], tool_choice="none")
    assert "tools" not in body and "tool_choice" not in body


def test_no_tool_is_chosen_where_none_is_left():
    assert "tool_choice" not in build(tools=[{"type": "web_search"}], tool_choice="auto")


# -- messages


def test_system_texts_are_joined_wherever_they_stand():
    body = build(
        [
            {"role": "system", "content": "a"},
            HI,
            {"role": "developer", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
            {"role": "system", "content": ""},
        ]
    )
    assert body["system"] == "a\n\nbc"
    assert body["messages"] == [HI]


def call(call_id, arguments='{"a":1}', name="f"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def use(call_id, given_input=None, name="f"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"a": 1} if given_input is None else given_input}


def result(call_id, content):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def test_a_conversation_with_parallel_tools():
    found = turns(
        HI,
        {"role": "assistant", "content": "Reading.", "tool_calls": [call("a"), call("b", "{}")]},
        {"role": "tool", "tool_call_id": "a", "content": "A"},
        {
            "role": "tool",
            "tool_call_id": "b",
            "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "2"}],
        },
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": "Done.", "reasoning_content": "thought"},
    )
    assert found == [
        HI,
        {"role": "assistant", "content": [{"type": "text", "text": "Reading."}, use("a"), use("b", {})]},
        {"role": "user", "content": [result("a", "A"), result("b", "B2"), {"type": "text", "text": "Go on."}]},
        {"role": "assistant", "content": "Done."},
    ]


def test_neighbours_of_one_role_are_one_turn():
    found = turns(HI, {"role": "critic", "content": "odd"}, {"role": "user", "content": ""})
    assert found == [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": "odd"}]}]
    found = turns(HI, {"role": "assistant", "content": "a"}, {"role": "assistant", "tool_calls": [call("t")]})
    assert found[1] == {"role": "assistant", "content": [{"type": "text", "text": "a"}, use("t")]}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": {"b": [1]}}', {"a": {"b": [1]}}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        ("{", {}),
        ("[1]", {}),
        ('"x"', {}),
        (None, {}),
        ([1], {}),
        ("null", {}),
    ],
)
def test_arguments(arguments, expected):
    assert turns({"role": "assistant", "tool_calls": [call("t", arguments)]})[0]["content"] == [use("t", expected)]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "system", "content": "a"}],
        [{"role": "user", "content": ""}, {"role": "assistant", "content": None}],
        [{"role": "user", "content": [{"type": "text", "text": ""}, {"type": "input_audio", "input_audio": {}}]}],
        [5, {"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}],
    ],
)
def test_a_request_of_which_nothing_is_left_is_untranslatable(messages):
    with pytest.raises(Untranslatable) as refused:
        build(messages)
    assert str(refused.value) == "at least one user or assistant message with content is required"
    assert not refused.value.blocked


def source(kind, **said):
    return {"type": kind, "source": said}


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def file(**said):
    return {"type": "file", "file": said}


PICTURE = source("image", type="base64", media_type="image/png", data=PNG)
DOCUMENT = source("document", type="base64", media_type="application/pdf", data=PDF)
WORDS = source("document", type="text", media_type="text/plain", data="a ä")
SVG = source("image", type="base64", media_type="image/svg+xml", data="PHN2Zy8+")

PARTS = [
    ({"type": "text", "text": "x"}, {"type": "text", "text": "x"}),
    ({"type": "text", "text": ""}, None),
    (image(f"data:image/png;base64,{PNG}"), PICTURE),
    (image(f"DATA:image/PNG;base64,{PNG}"), PICTURE),
    ({"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"}, PICTURE),
    (image("https://x.example/a.png"), source("image", type="url", url="https://x.example/a.png")),
    (image("ftp://x.example/a.png"), None),
    (image(""), None),
    (image("data:image/svg+xml,%3Csvg/%3E"), SVG),
    *((image(f"data:image/{odd};base64,{PNG}"), None) for odd in ("png\0", 'p"ng', "p\\ng", "p ng", "png\x7f")),
    (image(f"data:application/pdf;base64,{PDF}"), DOCUMENT),
    (file(file_data=f"data:application/pdf;base64,{PDF}", filename="a.pdf"), DOCUMENT),
    (file(file_data=f"data:application/pdf;name=a.pdf;base64,{PDF}"), DOCUMENT),
    (file(file_data=f"data:application/pdf;base64,{PDF.replace('=', '%3D')}"), DOCUMENT),
    (file(file_data=f"data:application/msword;base64,{PDF}"), DOCUMENT),
    (file(file_data=f"data:image/png;base64,{PNG}"), PICTURE),
    (file(file_data="data:text/plain;base64,YSDDpA=="), WORDS),
    (file(file_data="data:text/plain;base64,YSDD\npA"), WORDS),
    (file(file_data="data:text/plain;charset=utf-8,a%20%C3%A4"), WORDS),
    (file(file_data="data:,a ä"), WORDS),
    (file(file_data="data:text/plain,"), None),
    (file(file_data="data:text/plain;base64,/w=="), None),
    (file(file_data="data:text/plain;base64,!"), None),
    (file(file_data="data:application/pdf,%zz"), None),
    (file(file_data="data:application/pdf;base64,%41%"), None),
    (file(file_data="data:application/pdf;base64"), None),
    (file(file_data="data:application/pdf;base64,"), None),
    (file(file_data=PDF), None),
    (file(file_url="https://x.example/a.pdf"), source("document", type="url", url="https://x.example/a.pdf")),
    (file(file_data="x", file_url="https://x.example/a"), source("document", type="url", url="https://x.example/a")),
    (file(file_id="file_1"), None),
    (file(), None),
    ({"type": "file"}, None),
    ({"type": "input_audio", "input_audio": {"data": "x"}}, None),
    ({"type": "video_url", "video_url": {"url": "https://x.example/v"}}, None),
]


@pytest.mark.parametrize(("part", "block"), PARTS)
def test_parts_of_a_user(part, block):
    assert blocks(part) == ([] if block is None else [block])


def test_escaped_slashes_mean_slashes():
    chat = members(messages=[])
    part = rb'{"type":"image_url","image_url":{"url":"data:image\/png;base64,iVBO\/Rw="}}'
    chat["messages"] = type(chat["messages"])(b'[{"role":"user","content":[%b]}]' % part)
    found = json.loads(egress.build(chat, model="m", stream=False))["messages"][0]["content"][0]
    assert found == source("image", type="base64", media_type="image/png", data="iVBO/Rw=")


# -- documents


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (file(file_data=f"data:application/pdf;base64,{PDF}"), True),
        (file(file_data=f"data:image/png;base64,{PNG}"), True),
        (file(file_url="https://x.example/a.pdf"), True),
        (file(file_id="file_1"), False),
        (file(file_data=PDF), False),
        (image(f"data:application/pdf;base64,{PDF}"), True),
        (image(f"data:image/tiff;base64,{PNG}"), True),
        *((image(f"data:image/{name};base64,{PNG}"), False) for name in ("jpeg", "png", "gif", "webp", "PNG")),
        (image("https://x.example/a.pdf"), False),
        (image("data:application/pdf,%zz"), False),
        ({"type": "text", "text": 'data: "file"'}, False),
    ],
)
def test_what_counts_as_an_inline_document(part, expected):
    """Part of v1-api 76."""
    for role in ("user", "function"):
        assert has_document(members(messages=[{"role": role, "content": [part]}])) is expected
    for role in ("system", "developer", "tool", "assistant"):
        assert not has_document(members(messages=[{"role": role, "content": [part]}]))


@settings(max_examples=40)
@given(values)
def test_whatever_stands_there_is_a_document_or_not(value):
    assert has_document(members(messages=value)) in (True, False)
    assert has_document({}) is False


# -- thinking


ADAPTIVE = {"thinking": {"type": "adaptive"}}


def budget(tokens):
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


@pytest.mark.parametrize(
    ("effort", "limit", "adaptive", "budgeted"),
    [
        ("minimal", 5000, ("low", 5000), (1024, 5000)),
        ("low", 100, ("low", 4096), (1024, 5120)),
        ("medium", 4096, ("medium", 4096), (4096, 8192)),
        ("medium", 4097, ("medium", 4097), (4096, 4097)),
        (" High\n", 100, ("high", 4096), (8192, 12288)),
        ("xhigh", 5000, ("xhigh", 5000), None),
        ("MAX", 5000, ("max", 5000), None),
        ("none", 100, None, None),
        ("", 100, None, None),
        ("enormous", 100, None, None),
        (None, 100, None, None),
        (5, 100, None, None),
    ],
)
def test_thinking_in_both_ways(effort, limit, adaptive, budgeted):
    sampling = {"temperature": 0.2, "top_k": 4}
    asked = {"max_tokens": limit, "reasoning_effort": effort, **sampling}
    plain = {"model": "claude", "messages": [HI], "max_tokens": limit}
    expected = {**plain, **sampling}
    if adaptive:
        expected = {**plain, **ADAPTIVE, "output_config": {"effort": adaptive[0]}, "max_tokens": adaptive[1]}
    assert build(**asked) == expected
    expected = {**plain, **sampling}
    if budgeted:
        expected = {**plain, **budget(budgeted[0]), "max_tokens": budgeted[1]}
    assert build(thinking="budget", **asked) == expected
    assert build(rejected=frozenset({"thinking"}), **asked) == {**plain, **sampling}


CALLS = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "1"}
TOOL = {"type": "function", "function": {"name": "f"}}
NAMED = {"type": "function", "function": {"name": "f"}}


@pytest.mark.parametrize(
    ("messages", "choice", "thinks"),
    [
        ([HI], None, True),
        ([HI], "auto", True),
        ([HI], "none", True),
        ([HI], "required", False),
        ([HI], NAMED, False),
        ([HI, CALLS, RESULT], None, False),
        ([HI, CALLS, RESULT, HI], None, False),
        ([HI, CALLS, RESULT, CALLS, RESULT], "auto", False),
        ([HI, {"role": "assistant", "content": "Well"}], None, False),
        ([HI, CALLS, RESULT, {"role": "assistant", "content": "done"}, HI], None, True),
    ],
)
def test_a_budget_of_thinking_is_left_out_where_it_is_refused(messages, choice, thinks):
    asked = {"reasoning_effort": "low", "temperature": 0.2, "max_tokens": 9, "tools": [TOOL], "tool_choice": choice}
    found = build(messages, thinking="budget", **asked)
    assert ("thinking" in found, "temperature" in found, found["max_tokens"]) == (
        (True, False, 5120) if thinks else (False, True, 9)
    )
    assert build(messages, **asked)["thinking"] == {"type": "adaptive"}


def test_a_model_that_wants_the_other_way_gets_it():
    """Part of v1-api 74."""
    asked = {"reasoning_effort": "high", "temperature": 0.2, "max_tokens": 100}
    first = build(**asked)
    assert first["thinking"] == {"type": "adaptive"} and first["output_config"] == {"effort": "high"}
    assert first["max_tokens"] == 4096 and "temperature" not in first
    way = lesson("adaptive thinking is not supported on this model")
    second = build(thinking=way, **asked)
    assert second["thinking"] == {"type": "enabled", "budget_tokens": 8192} and second["max_tokens"] == 12288
    assert "output_config" not in second and "temperature" not in second


# -- an answer by a schema

SCHEMA = {"type": "object", "properties": {"n": {"type": "number", "minimum": 1.50}}, "required": ["n"]}
FORM = {"type": "json_schema", "json_schema": {"name": "numbers", "strict": True, "schema": SCHEMA}}
IN_WORDS = f"{jsonmode.INSTRUCTION}{jsonmode.CONFORM}{json.dumps(SCHEMA, separators=(',', ':'))}"


def test_a_schema_is_the_format_of_the_output():
    assert build(response_format=FORM)["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    thinks = build(response_format=FORM, reasoning_effort="low")
    assert thinks["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}


@pytest.mark.parametrize(
    "form",
    [
        {"type": "json_object"},
        {"type": "text"},
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": {"name": "x"}},
        {"type": "json_schema", "json_schema": {"schema": [SCHEMA]}},
        {"type": "json_schema", "json_schema": "x"},
        "json_schema",
        [],
        None,
    ],
)
def test_without_a_schema_there_is_no_format(form):
    assert "output_config" not in build(response_format=form)


@pytest.mark.parametrize(
    ("messages", "system"),
    [
        ([HI], IN_WORDS),
        ([{"role": "system", "content": 'Be "brief".'}, HI], f'Be "brief".\n\n{IN_WORDS}'),
    ],
)
def test_a_model_that_takes_no_schema_is_asked_in_words(messages, system):
    found = build(messages, json_mode=True, response_format=FORM, reasoning_effort="low")
    assert found["system"] == system
    assert found["output_config"] == {"effort": "low"}
    assert "system" not in build(json_mode=True) and "system" not in build(
        json_mode=True, response_format={"type": "json_object"}
    )


def test_a_schema_of_more_than_8_kib_is_not_written_out():
    wide = {**FORM, "json_schema": {"schema": {"description": "x" * jsonmode.SCHEMA_LIMIT}}}
    assert build(json_mode=True, response_format=wide)["system"] == jsonmode.INSTRUCTION


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("'claude-3-haiku' does not support output format.", repairs.SCHEMA),
        ("This model does not support structured outputs.", repairs.SCHEMA),
        ("output_config.format: Extra inputs are not permitted", repairs.SCHEMA),
        ("output_config: Extra inputs are not permitted", repairs.SCHEMA),
        ("output_format: structured outputs are unavailable on this platform", repairs.SCHEMA),
        (
            "output_config.format.schema: For 'integer' type, properties maximum, minimum are not supported",
            repairs.THIS_SCHEMA,
        ),
        ("output_config.format.schema: For 'object' type, 'additionalProperties' must be false", repairs.THIS_SCHEMA),
        ("Invalid JSON schema: recursion is not supported in output_config", repairs.THIS_SCHEMA),
        ("Assistant prefill can not be combined with output_config.format", repairs.THIS_SCHEMA),
        ("output_config.effort: not supported", None),
        ("max_tokens: 5 > 4", None),
        ("", None),
    ],
)
def test_what_is_learned_about_schemas(message, name):
    assert structured.lesson(message) == repairs.Repair(frozenset({name} if name else ()))


@pytest.mark.parametrize(
    ("message", "way"),
    [
        ('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".', "adaptive"),
        ("Adaptive thinking is Not Supported by this model", "budget"),
        ("thinking: type adaptive not supported", "budget"),
        ("thinking.type.enabled: budget_tokens must be at least 1024", None),
        ("adaptive is not supported", None),
        ("thinking is not supported", None),
        ("", None),
    ],
)
def test_what_a_refusal_teaches_about_thinking(message, way):
    assert lesson(message) == egress.lesson(message) == way


# -- the whole answer


def answered(**more):
    payload = raw({**ANSWER, **more})
    return json.loads(egress.to_chat(payload, model="claude", new_id=lambda: ID, now=lambda: 7.9))


def test_an_answer_becomes_a_completion():
    assert answered() == {
        "id": f"chatcmpl-{ID}",
        "object": "chat.completion",
        "created": 7,
        "model": "claude",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "It is sunny.",
                    "reasoning_content": "Let me look.",
                    "tool_calls": [
                        call("toolu_01A", '{"city":"Paris","days":3}', "weather"),
                        call("toolu_01B", "{}", "now"),
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 188207,
            "completion_tokens": 393,
            "total_tokens": 188600,
            "prompt_tokens_details": {"cached_tokens": 188086},
            "cache_read_input_tokens": 188086,
            "cache_creation_input_tokens": 100,
        },
    }


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        (None, "stop"),
    ],
)
def test_finish_reasons(reason, finish):
    assert answered(stop_reason=reason)["choices"][0]["finish_reason"] == finish


@pytest.mark.parametrize(
    ("content", "stopped", "verdict"),
    [
        ([{"type": "text", "text": "x"}], "end_turn", "served"),
        ([{"type": "tool_use", "id": "t", "name": "f", "input": None}], "tool_use", "served"),
        ([{"type": "thinking", "thinking": "x"}], "end_turn", "served"),
        ([], "end_turn", "bare_finish"),
        ([], "refusal", "served"),
        ([], None, "no_content"),
        ([{"type": "server_tool_use", "name": "web_search"}], None, "no_content"),
        (None, None, "no_content"),
    ],
)
def test_what_an_answer_is_worth(content, stopped, verdict):
    """Part of circuit-breaker 24: a refusal of the content is an answer."""
    payload = raw({"type": "message", "content": content, "stop_reason": stopped})
    assert chat_dialect.read_answer(egress.to_chat(payload, model="m")).verdict == verdict


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 2, "output_tokens": 3}, {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}),
        ({"input_tokens": "2", "output_tokens": 3.0}, {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}),
        ({"input_tokens": 2, "output_tokens": "x"}, {"prompt_tokens": 2, "completion_tokens": 0, "total_tokens": 2}),
        (
            {"input_tokens": 2, "cache_read_input_tokens": 0, "output_tokens": 1},
            {
                "prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3,
                "prompt_tokens_details": {"cached_tokens": 0}, "cache_read_input_tokens": 0,
            },
        ),
        (
            {"input_tokens": 2, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 7}},
            {
                "prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 11,
                "completion_tokens_details": {"reasoning_tokens": 7},
            },
        ),
        (
            {"input_tokens": 2, "output_tokens": 9, "output_tokens_details": 7},
            {"prompt_tokens": 2, "completion_tokens": 9, "total_tokens": 11},
        ),
        ({}, None),
        (None, None),
        ([1], None),
    ],
)  # fmt: skip
def test_usage(usage, expected):
    assert answered(usage=usage).get("usage") == expected


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"<html>", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b'{"a":"\xff"}', "not a JSON object"),
        (b"{}", "not a message"),
        (b'{"type":"completion"}', "not a message"),
        (
            b'{"type":"error","error":{"type":"overloaded_error","message":"secret"}}',
            "an error of type overloaded_error",
        ),
        (b'{"type":"error","error":{"type":"my_secret","message":"secret"}}', "an error"),
        (b'{"type":"error","error":"secret"}', "an error"),
    ],
)
def test_a_body_that_is_no_message_is_no_answer(payload, text):
    with pytest.raises(Untranslatable) as refused:
        egress.to_chat(payload, model="m")
    assert str(refused.value) == text


def test_a_bom_is_no_fault():
    assert egress.to_chat(b"\xef\xbb\xbf" + raw(ANSWER), model="m")


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(("content", "stop_reason", "usage")), values), values)
def test_garbage_in_an_answer_harms_nobody(more, block):
    payload = raw({"type": "message", "content": [block, {"type": "tool_use", "input": block}], **more})
    chat_dialect.read_answer(egress.to_chat(payload, model="m"))
    with contextlib.suppress(Untranslatable):
        egress.to_chat(raw(block), model="m")


parts = st.fixed_dictionaries(
    {"type": st.sampled_from(("text", "image_url", "file")) | values},
    optional={
        "text": values,
        "image_url": values | st.text(max_size=12).map(lambda text: {"url": "data:" + text}),
        "file": values | st.text(max_size=12).map(lambda text: {"file_data": "data:" + text}),
    },
)
chats = st.fixed_dictionaries(
    {
        "messages": values
        | st.lists(
            st.fixed_dictionaries(
                {"role": st.sampled_from(("user", "assistant", "tool", "system")) | values},
                optional={
                    "content": values | st.lists(parts, max_size=3),
                    "tool_calls": values,
                    "tool_call_id": values,
                },
            ),
            max_size=4,
        )
    },
    optional=dict.fromkeys(("temperature", "max_tokens", "stop", "tools", "tool_choice", "reasoning_effort"), values),
)


@settings(max_examples=40)
@given(chats)
def test_nothing_but_untranslatable_comes_of_a_chat_request(body):
    try:
        built = egress.build(members(**body), model="m", stream=True)
    except Untranslatable:
        return
    found = json.loads(built)
    roles = [turn["role"] for turn in found["messages"]]
    assert all(one != other for one, other in itertools.pairwise(roles))
    assert all(turn["content"] for turn in found["messages"])
    assert found["max_tokens"] > 0


@pytest.mark.parametrize(
    ("given", "sent"), [("call_1", "call_1"), ("functions.f:0", "functions_f_0"), ("a é", "a__"), ("", "")]
)
def test_an_id_of_another_vendor_is_one_that_anthropic_takes(given: str, sent: str):
    """Call and result still belong together."""
    call = {"id": given, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": given, "content": "42"},
    ]
    _, asked, answered = turns(*said)
    assert asked["content"][0]["id"] == sent
    assert answered["content"][0]["tool_use_id"] == sent
