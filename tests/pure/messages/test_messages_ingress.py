"""A Messages request as a chat request: every row of v1-api 12.2, and the refusals of 12.1."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.body import BadBody
from proxy.dialects import thoughtsig
from proxy.dialects.messages import has_document, ingress
from tests.pace import slower
from tests.pure.messages.shapes import AGENT, PDF, PNG, plain, raw, values


def chat(**body):
    return plain(ingress.parse(raw({"model": "m", "messages": [], **body})).members)


def messages(*given):
    return chat(messages=list(given))["messages"]


def user(*blocks):
    return messages({"role": "user", "content": list(blocks)})


def assistant(*blocks):
    return messages({"role": "assistant", "content": list(blocks)})


def test_an_agents_request_becomes_a_chat_request():
    """Part of v1-api 70."""
    asked = ingress.parse(raw(AGENT))
    assert (asked.model, asked.stream, asked.include_usage) == ("hotel/g", True, True)
    assert plain(asked.own) == AGENT
    assert plain(asked.members) == {
        "model": "hotel/g",
        "stream": True,
        "max_tokens": 32000,
        "messages": [
            {"role": "system", "content": "You are an agent. Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is in a and b?"}]},
            {
                "role": "assistant",
                "content": "Reading both.",
                "tool_calls": [
                    {
                        "id": "toolu_01A",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path": "a", "at": 1.5}'},
                    },
                    {"id": "toolu_01B", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_01A", "content": "alpha"},
            {"role": "tool", "tool_call_id": "toolu_01B", "content": "beta"},
            {"role": "user", "content": [{"type": "text", "text": "Go on."}]},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read_file",
                    "description": "Reads a file",
                    "parameters": AGENT["tools"][0]["input_schema"],
                },
            },
            {"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}},
        ],
    }


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"stream": True}, {"stream": True}),
        ({"stream": False}, {"stream": False}),
        ({"stream": None}, {}),
        ({"temperature": 0.5, "top_p": 1, "top_k": 40}, {"temperature": 0.5, "top_p": 1, "top_k": 40}),
        ({"temperature": None}, {}),
        ({"max_tokens": 5}, {"max_tokens": 5}),
        ({"max_tokens": 0}, {}),
        ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
        ({"stop_sequences": []}, {}),
        ({"metadata": {"user_id": "u"}, "service_tier": "auto", "container": "c"}, {}),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, {}),
        (
            {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "response", "schema": {"type": "object"}},
                }
            },
        ),
        ({"output_config": {"format": {"type": "json_schema", "schema": "x"}}}, {}),
        ({"output_config": {"format": {"type": "json_schema"}}}, {}),
        ({"output_config": {"format": {"type": "xml", "schema": {}}}}, {}),
        ({"output_config": {"format": "json_schema"}}, {}),
        ({"output_config": "json_schema"}, {}),
        ({"output_config": None}, {}),
        ({"mcp_servers": [{"type": "url"}], "cache_control": {"type": "ephemeral"}}, {}),
        ({"tool_choice": {"type": "auto"}}, {"tool_choice": "auto"}),
        ({"tool_choice": {"type": "none"}}, {"tool_choice": "none"}),
        ({"tool_choice": {"type": "any", "disable_parallel_tool_use": True}}, {"tool_choice": "required"}),
        (
            {"tool_choice": {"type": "tool", "name": "f"}},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        ({"tool_choice": {"type": "tool"}}, {"tool_choice": "required"}),
        ({"tool_choice": {"type": "odd"}}, {}),
        ({"tools": [{"name": "f"}]}, {"tools": [{"type": "function", "function": {"name": "f"}}]}),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}], "tool_choice": {"type": "any"}}, {}),
        (
            {
                "tools": [{"name": "f"}, {"type": "bash_20250124", "name": "b"}],
                "tool_choice": {"type": "tool", "name": "b"},
            },
            {"tools": [{"type": "function", "function": {"name": "f"}}]},
        ),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]}, {}),
    ],
)
def test_members(own, expected):
    assert chat(**own) == {"model": "m", "messages": [], **expected}


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Be brief.", [{"role": "system", "content": "Be brief."}]),
        ([{"type": "text", "text": "a\n"}, {"type": "text", "text": "b"}], [{"role": "system", "content": "a\nb"}]),
        ("", []),
        ([], []),
        ([{"type": "text", "text": ""}], []),
        (None, []),
    ],
)
def test_the_system_prompt_leads(system, expected):
    assert chat(system=system)["messages"] == expected


TEXT = {"type": "text", "text": "hi"}
HI = {"role": "user", "content": [{"type": "text", "text": "hi"}]}


def source(kind, **members):
    return {"type": kind, "source": members}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (TEXT, {"type": "text", "text": "hi"}),
        ({**TEXT, "cache_control": {"type": "ephemeral"}, "citations": None}, {"type": "text", "text": "hi"}),
        (
            source("image", type="base64", media_type="image/png", data=PNG),
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ),
        (
            source("image", type="url", url="https://x.example/a.png"),
            {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        ),
        (
            {**source("document", type="base64", media_type="application/pdf", data=PDF), "title": "T"},
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}},
        ),
        (
            source("document", type="text", media_type="text/plain", data="words\n"),
            {"type": "text", "text": "words\n"},
        ),
        (source("document", type="url", url="https://x.example/a.pdf"), None),
        (source("document", type="file", file_id="file_1"), None),
        (source("document", type="text", data=""), None),
        (source("image", type="base64", media_type="image/png", data=""), None),
        (source("image", type="base64", data=PNG), None),
        (source("image", type="url", url=""), None),
        ({"type": "image"}, None),
        ({"type": "thinking", "thinking": "t", "signature": "s"}, None),
        ({"type": "container_upload", "file_id": "f"}, None),
    ],
)
def test_blocks_of_a_user(block, part):
    assert user(block) == ([{"role": "user", "content": [part]}] if part else [])


def test_a_string_stays_a_string():
    given_messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}]
    assert messages(*given_messages) == given_messages


def result(call_id, content=None):
    block = {"type": "tool_result", "tool_use_id": call_id}
    return block if content is None else {**block, "content": content}


def test_results_and_words_keep_their_order():
    """v1-api 71"""
    tools = [{"role": "tool", "tool_call_id": name, "content": name.upper()} for name in "ab"]
    assert user(result("a", "A"), result("b", "B"), TEXT) == [*tools, HI]
    assert user(TEXT, result("a", "A"), result("b", "B")) == [HI, *tools]
    assert user(TEXT, result("a", "A"), TEXT, TEXT, result("b", "B")) == [
        HI,
        tools[0],
        {"role": "user", "content": HI["content"] * 2},
        tools[1],
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ""),
        ("x", "x"),
        ([], ""),
        ([{"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"type": "text", "text": "b"}], "ab"),
    ],
)
def test_a_result_is_text(content, expected):
    assert user(result("a", content)) == [{"role": "tool", "tool_call_id": "a", "content": expected}]


def use(**members):
    return {"type": "tool_use", "id": "t", "name": "f", **members}


@pytest.mark.parametrize(
    ("members", "arguments"),
    [
        ({"input": {"a": [1, {"b": "ä"}]}}, '{"a": [1, {"b": "ä"}]}'),
        ({"input": {}}, "{}"),
        ({"input": None}, "{}"),
        ({"input": ""}, "{}"),
        ({}, "{}"),
    ],
)
def test_a_call_of_the_assistant(members, arguments):
    call = {"id": "t", "type": "function", "function": {"name": "f", "arguments": arguments}}
    assert assistant(use(**members)) == [{"role": "assistant", "tool_calls": [call]}]


def test_an_assistant_turn_without_words_or_calls_is_dropped():
    assert assistant({"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "text", "text": ""}) == []
    assert assistant(TEXT, TEXT) == [{"role": "assistant", "content": "hihi"}]


def test_numbers_keep_their_digits():
    asked = ingress.parse(
        b'{"model":"m","temperature":0.10,"max_tokens":100,"messages":[{"role":"assistant","content":'
        b'[{"type":"tool_use","id":"t","name":"f","input":{"n":9007199254740993, "x":1.10}}]}],'
        b'"tools":[{"name":"f","input_schema":{"maximum":1e400}}]}'
    )
    assert bytes(asked.members["temperature"]) == b"0.10"
    assert rb"{\"n\":9007199254740993, \"x\":1.10}" in bytes(asked.members["messages"])
    assert b'"maximum":1e400' in bytes(asked.members["tools"])


def test_a_signature_in_an_id_is_restored():
    """Part of v1-api 78."""
    marked = thoughtsig.join("call_1", "CvQB+/sig==")
    found = messages(
        {"role": "assistant", "content": [use(id=marked, input={})]},
        {"role": "user", "content": [result(marked, "r")]},
    )
    assert found == [
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}"},
                    "extra_content": {"google": {"thought_signature": "CvQB+/sig=="}},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "r"},
    ]


@pytest.mark.parametrize(
    ("call_id", "split"),
    [
        ("a_thoughtsig_YWJj", ("a", "abc")),
        ("a_thoughtsig_YWJj_thoughtsig_ZGVm", ("a_thoughtsig_YWJj", "def")),
        ("a_thoughtsig_YWJj_thoughtsig_", ("a_thoughtsig_YWJj_thoughtsig_", "")),
        ("a_thoughtsig_YWJj=", ("a_thoughtsig_YWJj=", "")),
        ("a_thoughtsig_Y", ("a_thoughtsig_Y", "")),
        ("a_thoughtsig__w", ("a_thoughtsig__w", "")),  # no UTF-8
        ("a_thoughtsig_YWK", ("a_thoughtsig_YWK", "")),  # bits that stand for nothing
        ("a_thoughtsig_", ("a_thoughtsig_", "")),
        ("toolu_01A", ("toolu_01A", "")),
    ],
)
def test_splitting_an_id(call_id, split):
    assert thoughtsig.split(call_id) == split


def test_splitting_a_long_id_costs_by_its_length():
    call_id = "_thoughtsig_YQ" * 40_000 + "."
    started = time.perf_counter()
    assert thoughtsig.split(call_id) == (call_id, "")
    assert thoughtsig.split(thoughtsig.join(call_id, "sig")) == (call_id, "sig")
    assert time.perf_counter() - started < slower()


@settings(max_examples=40)
@given(st.text(max_size=20), st.text(min_size=1, max_size=40))
def test_every_signature_comes_back(call_id, signature):
    assert thoughtsig.split(thoughtsig.join(call_id, signature)) == (call_id, signature)
    assert thoughtsig.join(call_id, "") == call_id


@pytest.mark.parametrize(
    ("body", "text", "param"),
    [
        (b"{", "not JSON", None),
        (b'{"model":"a/b"} x', "not JSON", None),
        (b'{"model":"\xff"}', "not JSON", None),
        (b"[]", "not a JSON object", None),
        (b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", "nested too deeply", None),
        (b'{"model":5}', "model must be a string", "model"),
        (b'{"model":"m","stream":"true"}', "stream must be a boolean", "stream"),
        (b'{"model":"m","top_k":"4"}', "top_k must be a number", "top_k"),
        (b'{"model":"m","max_tokens":[]}', "max_tokens must be a number", "max_tokens"),
        (b'{"model":"m","stop_sequences":"x"}', "stop_sequences must be a list", "stop_sequences"),
        (b'{"model":"m","system":5}', "system must be a string or a list of text blocks", "system"),
        (b'{"model":"m","system":["x"]}', "system must be a string or a list of text blocks", "system"),
        (b'{"model":"m","messages":{}}', "messages must be a list", "messages"),
        (b'{"model":"m","messages":["x"]}', "messages[0] must be an object", "messages"),
        (b'{"model":"m","messages":[{"content":"x"}]}', "messages[0].role must be a string", "messages"),
        (b'{"model":"m","tools":{}}', "tools must be a list", "tools"),
        (b'{"model":"m","tools":[5]}', "tools[0] must be an object", "tools"),
        (b'{"model":"m","tool_choice":"auto"}', "tool_choice must be an object", "tool_choice"),
    ],
    ids=str,
)
def test_refusals(body, text, param):
    """Part of v1-api 23, part of v1-api 24."""
    with pytest.raises(BadBody) as refused:
        ingress.parse(body)
    found = refused.value
    assert (found.status, found.message) == (400, f"anthropic: invalid request body: {text}")
    assert (found.code, found.param) == ("invalid_request_body", param)


@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"model":""}'])
def test_a_model_is_required(body):
    with pytest.raises(BadBody) as refused:
        ingress.parse(body)
    found = refused.value
    assert (found.status, found.message) == (400, "anthropic: model is required")
    assert (found.code, found.param) == ("missing_required_parameter", "model")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "messages[0].content must be a string or a list of blocks"),
        (5, "messages[0].content must be a string or a list of blocks"),
        ({}, "messages[0].content must be a string or a list of blocks"),
        (["x"], "messages[0].content[0] must be an object"),
        ([{"text": "secret"}], "messages[0].content[0].type must be a string"),
        ([TEXT, {"type": "text", "text": 5}], "messages[0].content[1].text must be a string"),
        ([result("a", 5)], "messages[0].content[0].content must be a string or a list of blocks"),
        ([result("a", [{"type": "text"}])], "messages[0].content[0].content[0].text must be a string"),
    ],
)
def test_content_of_another_shape_is_refused(content, text):
    with pytest.raises(BadBody) as refused:
        user_content = {"role": "user"} if content is None else {"role": "user", "content": content}
        ingress.parse(raw({"model": "m", "messages": [user_content]}))
    found = refused.value
    assert found.message == f"anthropic: invalid message content: {text}"
    assert (found.status, found.code, found.param) == (400, "invalid_value", "messages")


def test_a_long_model_name_is_refused_as_everywhere():
    """Part of v1-api 22."""
    with pytest.raises(BadBody) as refused:
        ingress.parse(raw({"model": "é" * 513}))
    assert refused.value.message == "model exceeds maximum length of 512 characters"
    assert refused.value.model == "é" * 64 + "…"
    assert ingress.parse(raw({"model": "é" * 512})).model == "é" * 512


def test_a_translated_pdf_is_a_document_again():
    pdf = source("document", type="base64", media_type="application/pdf", data=PDF)
    asked = ingress.parse(raw({"model": "m", "messages": [{"role": "user", "content": [pdf]}]}))
    assert has_document(asked.members)


blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(("text", "image", "document", "tool_use", "tool_result", "thinking")) | values},
    optional=dict.fromkeys(("text", "source", "id", "name", "input", "tool_use_id", "content"), values),
)
turns = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant")) | values, "content": st.lists(blocks, max_size=3) | values}
)
_OTHERS = ("system", "stream", "temperature", "max_tokens", "stop_sequences", "tools", "tool_choice")
bodies = st.fixed_dictionaries(
    {"model": st.just("m"), "messages": st.lists(turns, max_size=3) | values},
    optional=dict.fromkeys(_OTHERS, values),
)


@settings(max_examples=40)
@given(bodies.map(raw) | values.map(raw) | st.binary(max_size=60))
def test_nothing_but_a_refusal_comes_of_garbage(body):
    try:
        asked = ingress.parse(body)
    except BadBody as refused:
        assert refused.status == 400
    else:
        assert isinstance(json.loads(bytes(asked.members["messages"])), list)
        plain(asked.members)
