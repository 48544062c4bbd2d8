"""A Responses request as a chat request: every row of the table, every refusal, and what a Codex CLI sends."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.body import Asked, BadBody
from proxy.dialects import thoughtsig
from proxy.dialects.responses import ingress
from proxy.dialects.responses.tools import origins

CODEX = {
    "model": "hotel/coding",
    "instructions": "You are a coding agent.",
    "input": [
        {
            "type": "message",
            "role": "developer",
            "content": [
                {"type": "input_text", "text": "<permissions instructions>"},
                {"type": "input_text", "text": "<collaboration mode>"},
            ],
        },
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "what changed?"}]},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAAABo=="},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
            "phase": "commentary",
        },
        {"type": "function_call", "name": "log", "namespace": "git", "arguments": '{"n":3}', "call_id": "call_1"},
        {"type": "function_call", "name": "exec_command", "arguments": "", "call_id": "call_2"},
        {"type": "function_call_output", "call_id": "call_1", "output": "three commits"},
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [
                {"type": "input_text", "text": "one"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
                {"type": "input_text", "text": "two"},
            ],
        },
    ],
    "tools": [
        {"type": "function", "name": "exec_command", "description": "run", "strict": False, "parameters": {"a": 1.50}},
        {
            "type": "namespace",
            "name": "git",
            "description": "git tools",
            "tools": [{"type": "function", "name": "log", "strict": False, "parameters": {"type": "object"}}],
        },
        {"type": "web_search", "external_web_access": False},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "medium", "summary": "auto"},
    "store": False,
    "stream": True,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199",
    "text": {"verbosity": "low"},
    "client_metadata": {"x": "y"},
}


def asked(**members: object) -> Asked:
    return ingress.parse(json.dumps({"model": "hotel/x", **members}).encode())


def chat(**members: object) -> dict:
    found = asked(**members)
    assert found.refusal is None
    return {name: json.loads(bytes(raw)) for name, raw in found.members.items()}


def refusal(**members: object) -> BadBody:
    """What is raised, or what only a native candidate may be asked."""
    try:
        found = asked(**members).refusal
    except BadBody as bad:
        return bad
    assert found is not None
    return found


def messages(*items: object) -> list:
    return chat(input=list(items))["messages"]


# -- what a Codex CLI sends


def test_a_turn_of_codex_becomes_a_chat_request():
    """Part of v1-api 79: ``store: false`` and an absent ``store`` are served."""
    found = ingress.parse(json.dumps(CODEX).encode())
    assert (found.model, found.stream, found.include_usage, found.refusal) == ("hotel/coding", True, True, None)
    assert {name: json.loads(bytes(raw)) for name, raw in found.members.items()} == {
        "model": "hotel/coding",
        "messages": [
            {"role": "system", "content": "You are a coding agent."},
            {"role": "system", "content": "<permissions instructions>\n<collaboration mode>"},
            {"role": "user", "content": [{"type": "text", "text": "<environment_context>"}]},
            {"role": "user", "content": [{"type": "text", "text": "what changed?"}]},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "git__log", "arguments": '{"n":3}'}},
                    {"id": "call_2", "type": "function", "function": {"name": "exec_command", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "three commits"},
            {"role": "tool", "tool_call_id": "call_2", "content": "one\ntwo"},
        ],
        "stream": True,
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "exec_command",
                    "description": "run",
                    "parameters": {"a": 1.5},
                    "strict": False,
                },
            },
            {
                "type": "function",
                "function": {"name": "git__log", "parameters": {"type": "object"}, "strict": False},
            },
        ],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "reasoning_effort": "medium",
    }
    assert b'"a": 1.5}' in bytes(found.members["tools"])
    assert found.own is not None
    assert json.loads(bytes(found.own["include"])) == ["reasoning.encrypted_content"]
    assert origins(found.own) == {"git__log": ("git", "log")}


# -- the table, row by row


def test_members_of_the_same_name_and_those_renamed():
    raw = (
        b'{"model":"a","temperature":0.10,"top_p":9e-1,"parallel_tool_calls":false,"metadata":{"k":"v"},'
        b'"max_output_tokens":9007199254740993,"reasoning":{"effort":"high"},'
        b'"tools":[{"type":"function","name":"f","parameters":{"x":1.0}}]}'
    )
    found = {name: bytes(value) for name, value in ingress.parse(raw).members.items()}
    assert found == {
        "model": b'"a"',
        "messages": b"[]",
        "tools": b'[{"type":"function","function":{"name":"f","parameters":{"x":1.0}}}]',
        "parallel_tool_calls": b"false",
        "temperature": b"0.10",
        "top_p": b"9e-1",
        "metadata": b'{"k":"v"}',
        "max_tokens": b"9007199254740993",
        "reasoning_effort": b'"high"',
    }


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "json_schema", "name": "n", "description": "d", "schema": {"a": 1}, "strict": True},
            {
                "type": "json_schema",
                "json_schema": {"name": "n", "description": "d", "schema": {"a": 1}, "strict": True},
            },
        ),
        ({"type": "text"}, None),
        ({"type": "grammar"}, None),
        (None, None),
    ],
)
def test_the_format_of_the_text(shape, expected):
    assert chat(text={"format": shape}).get("response_format") == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("be brief", ["be brief"]),
        ([{"role": "developer", "content": "a"}, {"content": [{"type": "input_text", "text": "b"}]}], ["a\nb"]),
        ("", []),
        ([], []),
        (None, []),
    ],
)
def test_instructions_lead_as_a_system_message(given, expected):
    found = chat(instructions=given, input="hi")["messages"]
    assert found == [*({"role": "system", "content": text} for text in expected), {"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"role": "user", "content": "plain"}, [{"role": "user", "content": "plain"}]),
        ({"role": "user", "content": []}, []),
        (
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "a"},
                    {"type": "text", "text": "b"},
                    {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AA==", "file_id": None},
                    {"type": "input_file", "file_data": "data:application/pdf;base64,AA==", "filename": "f.pdf"},
                ],
            },
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "a"},
                        {"type": "text", "text": "b"},
                        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                        {
                            "type": "file",
                            "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "f.pdf"},
                        },
                    ],
                }
            ],
        ),
        (
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "a", "annotations": []},
                    {"type": "refusal", "refusal": "no"},
                    {"type": "output_text", "text": "b"},
                ],
            },
            [{"role": "assistant", "content": "a\nb"}],
        ),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, []),
        ({"role": "system", "content": "s"}, [{"role": "system", "content": "s"}]),
        ({"role": "developer", "content": [{"type": "input_text", "text": "d"}]}, [{"role": "system", "content": "d"}]),
        ({"role": "developer", "content": ""}, []),
        ({"role": "system", "content": [{"type": "input_text", "text": ""}]}, []),
        ({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "x"}]}, []),
        ({"type": "web_search_call", "id": "ws_1", "status": "completed"}, []),
        (
            {"type": "function_call_output", "call_id": "c", "output": "o"},
            [{"role": "tool", "tool_call_id": "c", "content": "o"}],
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": []},
            [{"role": "tool", "tool_call_id": "c", "content": ""}],
        ),
    ],
)
def test_items_of_the_input(item, expected):
    assert messages(item) == expected


def test_input_of_one_string():
    assert chat(input="hi")["messages"] == [{"role": "user", "content": "hi"}]


def call(name: str, call_id: str, arguments: object = "{}") -> dict:
    return {"type": "function_call", "name": name, "call_id": call_id, "arguments": arguments}


def called(name: str, call_id: str, arguments: str = "{}") -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_calls_in_a_row_share_a_message_and_join_the_one_before():
    output = {"type": "function_call_output", "call_id": "1", "output": "o"}
    assert messages(call("a", "1"), call("b", "2"), output, {"role": "assistant", "content": "t"}, call("c", "3")) == [
        {"role": "assistant", "content": None, "tool_calls": [called("a", "1"), called("b", "2")]},
        {"role": "tool", "tool_call_id": "1", "content": "o"},
        {"role": "assistant", "content": "t", "tool_calls": [called("c", "3")]},
    ]


def test_text_between_a_call_and_its_output_stands_before_the_call():
    """Chat takes nothing between them."""
    said = {"role": "assistant", "content": "t"}
    output = {"type": "function_call_output", "call_id": "1", "output": "o"}
    assert messages(call("a", "1"), said, said, output) == [
        {"role": "assistant", "content": "t\nt", "tool_calls": [called("a", "1")]},
        {"role": "tool", "tool_call_id": "1", "content": "o"},
    ]


def test_a_signature_in_the_id_of_a_call_is_restored():
    call, output = {"type": "function_call", "name": "f", "arguments": "{}"}, {"type": "function_call_output"}
    marked = thoughtsig.join("call_1", "CvQB+/sig==")
    odd = "call_2_thoughtsig_!"
    asking, result, other = messages(
        {**call, "call_id": marked},
        {**call, "call_id": odd},
        {**output, "call_id": marked, "output": "o"},
        {**output, "call_id": odd, "output": "o"},
    )
    function = {"name": "f", "arguments": "{}"}
    extra = {"google": {"thought_signature": "CvQB+/sig=="}}
    assert asking["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": function, "extra_content": extra},
        {"id": odd, "type": "function", "function": function},
    ]
    assert [result["tool_call_id"], other["tool_call_id"]] == ["call_1", odd]


@pytest.mark.parametrize(
    ("given", "expected"), [('{"a":1}', '{"a":1}'), ("", "{}"), (None, "{}"), ({"a": 1}, '{"a": 1}')]
)
def test_arguments_of_a_call(given, expected):
    assert messages(call("f", "1", given))[0]["tool_calls"] == [called("f", "1", expected)]


def test_text_is_joined_as_it_was_written():
    raw = (
        rb'{"model":"a","input":[{"role":"developer","content":[{"type":"input_text","text":"x\u00e9"},'
        rb'{"type":"input_text","text":"\"\/"}]}]}'
    )
    assert bytes(ingress.parse(raw).members["messages"]) == rb'[{"role":"system","content":"x\u00e9\n\"\/"}]'


NAMESPACES = [
    {"type": "function", "name": "run"},
    {"type": "namespace", "name": "git", "tools": [{"type": "function", "name": name} for name in ("log", "x")]},
    {"type": "namespace", "name": "hg", "tools": [{"type": "function", "name": "x"}]},
]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", "required"),
        ({"type": "function", "name": "run"}, "run"),
        ({"type": "function", "name": "log"}, "git__log"),
        ({"type": "function", "name": "git__x"}, "git__x"),
        ({"type": "function", "name": "x", "namespace": "hg"}, "hg__x"),
        (None, None),
    ],
)
def test_the_choice_of_a_tool(choice, expected):
    if isinstance(choice, dict):
        expected = {"type": "function", "function": {"name": expected}}
    assert chat(tools=NAMESPACES, tool_choice=choice).get("tool_choice") == expected


def test_without_a_tool_left_nothing_is_said_of_tools():
    tools = [{"type": "web_search"}, {"type": "web_search_preview_2025_03_11"}]
    found = chat(tools=tools, tool_choice="auto", parallel_tool_calls=True)
    assert set(found) == {"model", "messages"}


DROPPED = {
    "include": ["x"],
    "truncation": "auto",
    "prompt_cache_key": "k",
    "service_tier": "flex",
    "text": {"verbosity": "low"},
    "user": "u",
    "top_logprobs": 3,
    "reasoning": {"summary": "auto"},
    "safety_identifier": "s",
    "store": None,
    "background": False,
    "previous_response_id": None,
    "conversation": "",
    "temperature": None,
    "metadata": None,
    "prompt": None,
}


def test_members_that_are_dropped():
    assert chat(**DROPPED) == {"model": "hotel/x", "messages": []}


# -- refusals

STATE = "this gateway keeps no conversation state"
RESEND = f"not supported: {STATE}, re-send the transcript in input"
ONLY = "is served by OpenAI's /v1/responses only; other routes take"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        pytest.param({"store": True}, f"store: must be false: {STATE}", id="part of v1-api 79 stored"),
        pytest.param(
            {"previous_response_id": "r"}, f"previous_response_id: {RESEND}", id="part of v1-api 79 continued"
        ),
        ({"conversation": {"id": "conv_1"}}, f"conversation: {RESEND}"),
        ({"conversation": "conv_1"}, f"conversation: {RESEND}"),
        ({"background": True}, "background: not supported: responses are served inline"),
        (
            {"input": ["", {"type": "item_reference", "id": "msg_1"}][1:]},
            "input[0]: refers to server-side state this gateway does not keep",
        ),
        ({"input": [{"id": "msg_1"}]}, "input[0]: refers to server-side state this gateway does not keep"),
        (
            {"input": [{"role": "user", "content": "a"}, {"type": "compaction", "encrypted_content": "x"}]},
            "input[1]: refers to server-side state this gateway does not keep",
        ),
        (
            {"input": [{"type": "context_compaction"}]},
            "input[0]: refers to server-side state this gateway does not keep",
        ),
        (
            {"input": [{"role": "tool", "content": "a"}]},
            "input[0]: not a message role: use user, assistant, system or developer",
        ),
        (
            {"input": [{"type": "message", "content": "a"}]},
            "input[0]: not a message role: use user, assistant, system or developer",
        ),
        (
            {"tools": [{"type": "function", "name": "a"}, {"type": "function", "name": "a"}]},
            "tools[1]: tool name collides with tools[0]: every tool needs a distinct name, namespaces included",
        ),
        (
            {"tools": [*NAMESPACES, {"type": "function", "name": "git__log"}]},
            "tools[3]: tool name collides with tools[1]: every tool needs a distinct name, namespaces included",
        ),
        (
            {"tools": NAMESPACES, "tool_choice": {"type": "function", "name": "nobody"}},
            "tool_choice: names a tool the request does not define",
        ),
        (
            {"tools": NAMESPACES, "tool_choice": {"type": "function", "name": "log", "namespace": "hg"}},
            "tool_choice: names a tool the request does not define",
        ),
        (
            {"tools": NAMESPACES, "tool_choice": {"type": "function", "name": "x"}},
            "tool_choice: names a tool that several namespaces define; the request cannot say which",
        ),
    ],
)
def test_refused_in_both_modes(members, message):
    with pytest.raises(BadBody) as caught:
        asked(**members)
    bad = caught.value
    assert (bad.status, bad.message, bad.code) == (400, message, "invalid_value")
    assert bad.param == message.split(":")[0]


HOSTED = (
    "file_search", "code_interpreter", "image_generation", "computer", "computer_use_preview", "mcp", "shell",
    "local_shell", "apply_patch", "custom", "anything",
)  # fmt: skip


@pytest.mark.parametrize("kind", HOSTED)
def test_hosted_and_custom_tools_are_for_native_candidates(kind):
    """Part of v1-api 82"""
    bad = refusal(tools=[{"type": kind, "name": "n"}], tool_choice="auto")
    assert bad.message == f"tools[0]: this tool type {ONLY} function tools"
    assert (bad.status, bad.param, bad.code) == (400, "tools[0]", "invalid_value")


@pytest.mark.parametrize(
    ("members", "field", "what"),
    [
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "c"}]}]},
            "tools[0]",
            "function tools",
        ),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}}, "tool_choice", "auto, none"),
        ({"tool_choice": {"type": "web_search_preview"}}, "tool_choice", "auto, none"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]},
            "input[0].content[0]",
            "file_data",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": "https://x/y.pdf"}]}]},
            "input[0].content[0]",
            "file_data",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]},
            "input[0].content[0]",
            "text, images",
        ),
        (
            {"input": [{"role": "developer", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0]",
            "text, images",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "video"}]}]},
            "input[0].output[0]",
            "text, images",
        ),
        ({"input": [{"type": "custom_tool_call", "name": "p", "input": "x", "call_id": "c"}]}, "input[0]", "messages"),
        ({"input": [{"type": "local_shell_call"}]}, "input[0]", "messages"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt", "instructions"),
    ],
)
def test_other_members_for_native_candidates_only(members, field, what):
    """Part of v1-api 82"""
    bad = refusal(**members)
    assert bad.message.startswith(f"{field}: ") and what in bad.message.partition(ONLY)[2]
    assert (bad.status, bad.param, bad.code) == (400, field, "invalid_value")


def test_the_first_native_member_is_named():
    bad = refusal(
        tools=[{"type": "function", "name": "f"}, {"type": "mcp"}, {"type": "shell"}],
        tool_choice={"type": "mcp"},
        input=[{"type": "mcp_call"}],
    )
    assert bad.param == "tools[1]"


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"model": None}, "model: is required"),
        ({"model": ""}, "model: is required"),
        ({"tools": [{"type": "function", "function": {"name": "nested"}}]}, "tools[0].name: is required"),
        ({"tools": [{"type": "namespace", "tools": []}]}, "tools[0].name: is required"),
        (
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "function"}]}]},
            "tools[0].tools[0].name: is required",
        ),
        ({"tool_choice": {"type": "function"}}, "tool_choice.name: is required"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id: is required"),
        ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name: is required"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id: is required"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].image_url: is required",
        ),
    ],
)
def test_what_is_missing(members, message):
    bad = refusal(**members)
    assert (bad.status, bad.message, bad.code) == (400, message, "missing_required_parameter")
    assert bad.param == message.split(":")[0]


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b'{"model":"a","input":', "it is not valid JSON"),
        (b'["SECRET"]', "it is not a JSON object"),
        (b'{"model":"\xff"}', "it is not UTF-8"),
        (b'{"model":5}', "model must be a string"),
        (b'{"model":"a","stream":"SECRET"}', "stream must be true or false"),
        (b'{"model":"a","store":"SECRET"}', "store must be true or false"),
        (b'{"model":"a","input":{"SECRET":1}}', "input must be a string or a list"),
        (b'{"model":"a","input":["SECRET"]}', "input[0] must be an object"),
        (b'{"model":"a","instructions":7}', "instructions must be a string"),
        (b'{"model":"a","input":[{"role":"user","content":7}]}', "input[0].content must be a string or a list"),
        (b'{"model":"a","input":[{"role":"user","content":[{"type":"text"}]}]}', "input[0].content[0].text must be"),
        (b'{"model":"a","tools":{"SECRET":1}}', "tools must be a list"),
        (b'{"model":"a","tools":["SECRET"]}', "tools[0] must be an object"),
        (b'{"model":"a","tool_choice":7}', "tool_choice must be a string or an object"),
        (b'{"model":"a","reasoning":"SECRET"}', "reasoning must be an object"),
        (b'{"model":"a","text":"SECRET"}', "text must be an object"),
    ],
)
def test_an_undecodable_body_is_described_without_quoting_it(raw, what):
    with pytest.raises(BadBody) as caught:
        ingress.parse(raw)
    bad = caught.value
    assert (bad.status, bad.code) == (400, "invalid_request_body")
    assert bad.message.startswith(f"openairesponses: invalid request body: {what}")
    assert "SECRET" not in bad.message


def test_an_overlong_model_is_not_quoted():
    with pytest.raises(BadBody) as caught:
        asked(model="m" * 513)
    assert caught.value.message == "model exceeds maximum length of 512 characters"
    assert caught.value.model == "m" * 64 + "…"


# -- anything

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab{", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("type", "role", "content", "text", "name", "tools", "call_id", "output", "id", "image_url")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(("message", "function_call", "function_call_output", "reasoning", "namespace", "function"))
NAMES = st.sampled_from(("role", "content", "name", "tools", "call_id", "output", "arguments"))
THING = st.builds(lambda kind, rest: {**rest, "type": kind}, KINDS, st.dictionaries(NAMES, JSON)) | JSON


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries({"model": st.just("m")}, optional={
    "input": st.lists(THING, max_size=3) | JSON, "tools": st.lists(THING, max_size=3) | JSON, "tool_choice": JSON,
    "instructions": JSON, "text": JSON, "reasoning": JSON, "store": JSON, "stream": JSON, "metadata": JSON,
}))  # fmt: skip
def test_whatever_comes_is_a_chat_request_or_a_refusal(body):
    try:
        found = ingress.parse(json.dumps(body).encode())
    except BadBody as bad:
        assert bad.status == 400 and bad.message
        return
    for message in json.loads(bytes(found.members["messages"])):
        assert message["role"] in ("system", "user", "assistant", "tool")
        assert "content" in message
    for tool in json.loads(bytes(found.members.get("tools", b"[]"))):
        assert tool["function"]["name"]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
def test_whatever_bytes_come_are_refused_or_read(raw):
    for body in (raw, b'{"model":"a","input":' + raw + b"}", b'{"model":"a","tools":' + raw + b"}"):
        try:
            ingress.parse(body)
        except BadBody as bad:
            assert bad.status == 400
