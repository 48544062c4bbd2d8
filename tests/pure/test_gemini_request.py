"""Chat requests as generateContent: every row of the request map (v1-api 15.2), and when AI Studio is asked so."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.base import Untranslatable
from proxy.dialects.gemini import egress

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
ASK = [{"role": "user", "content": "hi"}]


def members_of(chat):
    raw = chat if isinstance(chat, bytes) else json.dumps(chat).encode()
    return msgspec.json.decode(raw, type=dict[str, msgspec.Raw])


def built(messages=ASK, **members):
    body = members_of({"model": "hotel/x", "messages": messages, **members})
    return json.loads(egress.build(body, model="gemini-2.5-flash", stream=False))


def parts_of(content, role="user"):
    contents = built([{"role": role, "content": content}, *ASK])["contents"]
    assert contents.pop() == {"role": "user", "parts": [{"text": "hi"}]}
    return contents[0]["parts"] if contents else None


def call(name, arguments="{}", identity="c1", **more):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def asked(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(identity, content):
    return {"role": "tool", "tool_call_id": identity, "content": content}


def test_a_plain_request_is_its_turns_and_nothing_else():
    assert built() == {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}


def test_roles_become_user_model_and_system_instruction():
    body = built(
        [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "a"},
            {"role": "developer", "content": [{"type": "text", "text": "and kind"}, {"type": "text", "text": ""}]},
            {"role": "assistant", "content": "b"},
            {"role": "critic", "content": "c"},
        ]
    )
    assert body["systemInstruction"] == {"parts": [{"text": "be brief"}, {"text": "and kind"}]}
    assert body["contents"] == [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}]},
        {"role": "user", "parts": [{"text": "c"}]},
    ]


@pytest.mark.parametrize("role", [None, 5, [], {}, {"role": "system"}])
def test_a_role_of_an_odd_type_is_the_user_s(role):
    content = [{"type": "text", "text": "a"}]
    assert built([{"role": role, "content": content}])["contents"] == [{"role": "user", "parts": [{"text": "a"}]}]
    assert egress.wants_native(members_of({"messages": [{"role": role, "content": content}]}), ()) is False


def test_a_system_message_takes_no_pictures_along():
    body = built([{"role": "system", "content": [{"type": "image_url", "image_url": {"url": PNG}}]}, *ASK])
    assert "systemInstruction" not in body


PARTS = [
    pytest.param("hi", [{"text": "hi"}], id="a string"),
    pytest.param("", None, id="an empty string"),
    pytest.param(None, None, id="null"),
    pytest.param(7, None, id="a number"),
    pytest.param(["plain"], [{"text": "plain"}], id="a bare string among the parts"),
    pytest.param([{"type": "text", "text": "a"}, {"type": "text", "text": ""}], [{"text": "a"}], id="empty text"),
    pytest.param([{"type": "text", "text": 5}], None, id="text that is none"),
    pytest.param(
        [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}],
        [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
        id="a picture inline",
    ),
    pytest.param(
        [{"type": "image_url", "image_url": PNG}],
        [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}],
        id="a picture whose URL is no object",
    ),
    pytest.param(
        [{"type": "image_url", "image_url": {"url": "https://h.example/a.png"}}],
        [{"fileData": {"fileUri": "https://h.example/a.png"}}],
        id="a picture elsewhere",
    ),
    pytest.param([{"type": "image_url", "image_url": {"url": ""}}], None, id="a picture nowhere"),
    pytest.param([{"type": "image_url"}], None, id="no picture at all"),
    pytest.param([{"type": "image_url", "image_url": {"url": 5}}], None, id="a picture whose URL is a number"),
    pytest.param([{"type": "video_url", "image_url": {"url": PNG}}], None, id="a picture by another name"),
    pytest.param([{"type": "image_url", "image_url": {"url": "data:image/png"}}], None, id="half a data URI"),
    pytest.param([{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}], None, id="an empty data URI"),
    pytest.param(
        [{"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}],
        [{"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}],
        id="a file inline",
    ),
    pytest.param(
        [{"type": "file", "file": {"file_data": "DATA:Text/Plain;charset=utf-8,a%20%C3%A4"}}],
        [{"inlineData": {"mimeType": "text/plain", "data": "YSDDpA=="}}],
        id="a percent-encoded file",
    ),
    pytest.param(
        [{"type": "file", "file": {"file_data": "data:;base64,JVBE%2B%3D%3D"}}],
        [{"inlineData": {"mimeType": "text/plain", "data": "JVBE+=="}}],
        id="base64 with escapes and without a type",
    ),
    pytest.param(
        [{"type": "file", "file": {"file_data": "data:text/csv,a"}}],
        [{"inlineData": {"mimeType": "text/csv", "data": "YQ=="}}],
        id="a file without parameters",
    ),
    pytest.param([{"type": "file", "file": {"file_id": "file-1"}}], None, id="a file by id"),
    pytest.param([{"type": "file", "file": "a"}], None, id="a file that is no object"),
    pytest.param(
        [{"type": "file", "file": {"file_data": "JVBERi0;base64,QUJD"}}], None, id="half a data URI as a file"
    ),
    pytest.param([{"type": "file", "file": {"file_url": "https://h.example/a"}}], None, id="a file by URL"),
    pytest.param([{"type": "file", "file": {"file_data": "JVBERi0="}}], None, id="file data that says not what it is"),
    pytest.param(
        [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}], None, id="any other part"
    ),
]


@pytest.mark.parametrize(("content", "expected"), PARTS)
def test_content_becomes_parts(content, expected):
    assert parts_of(content) == expected


def test_a_data_uri_of_megabytes_passes_as_it_is():
    data = "QUJD" * 300_000
    assert parts_of([{"type": "file", "file": {"file_data": f"data:application/pdf;base64,{data}"}}]) == [
        {"inlineData": {"mimeType": "application/pdf", "data": data}}
    ]


ARGUMENTS = [
    ('{"a": 1.10, "b": 12345678901234567890123}', b'{"a": 1.10, "b": 12345678901234567890123}'),
    ("", b"{}"),
    ("[1]", b"{}"),
    ('{"a":', b"{}"),
    ("null", b"{}"),
    (None, b"{}"),
    ([1], b"{}"),
    ({"a": [True]}, b'{"a": [true]}'),
]


@pytest.mark.parametrize(("arguments", "args"), ARGUMENTS)
def test_arguments_are_an_object_digit_by_digit(arguments, args):
    body = members_of({"messages": [*ASK, asked(call("f", arguments))]})
    out = egress.build(body, model="m", stream=False)
    assert b'{"functionCall":{"name":"f","args":' + args + b"}}" in out


def test_calls_follow_the_text_of_their_turn_and_take_their_signature_along():
    """part of v1-api 78"""
    signed = call("f", '{"x":1}', extra_content={"google": {"thought_signature": "c2ln"}})
    body = built([*ASK, asked(signed, call("g", identity="c2"), content="so")])
    assert body["contents"][1] == {
        "role": "model",
        "parts": [
            {"text": "so"},
            {"functionCall": {"name": "f", "args": {"x": 1}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "g", "args": {}}},
        ],
    }


@pytest.mark.parametrize(
    "extra", [None, "x", {}, {"google": None}, {"google": {"thought_signature": 5}}, {"google": {}}]
)
def test_what_is_no_signature_is_left_out(extra):
    body = built([*ASK, asked(call("f", extra_content=extra))])
    assert body["contents"][1]["parts"] == [{"functionCall": {"name": "f", "args": {}}}]


@pytest.mark.parametrize("broken", [{"id": "c1"}, {"function": None}, {"function": {"arguments": "{}"}}])
def test_a_call_without_a_function_is_dropped(broken):
    assert built([*ASK, asked(broken)])["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_parallel_results_are_one_turn():
    """v1-api 77"""
    body = built(
        [
            *ASK,
            asked(call("look", identity="c1"), call("find", identity="c2")),
            result("c1", '{"n": 1}'),
            {"role": "system", "content": "in between"},
            result("c2", "found"),
            {"role": "user", "content": "go on"},
            result("c3", "late"),
        ]
    )
    assert body["contents"][2:] == [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "look", "response": {"n": 1}}},
                {"functionResponse": {"name": "find", "response": {"result": "found"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "go on"}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "c3", "response": {"result": "late"}}}]},
    ]


RESULTS = [
    ('{"a":1}', {"a": 1}),
    ({"a": 1}, {"a": 1}),
    ("[1]", {"result": "[1]"}),
    ('{"a":', {"result": '{"a":'}),
    ("", {"result": ""}),
    (None, {"result": ""}),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], {"result": "ab"}),
    ([{"type": "text", "text": '{"a"'}, {"type": "text", "text": ":1}"}], {"a": 1}),
    ([{"type": "image_url", "image_url": {"url": PNG}}], {"result": ""}),
]


@pytest.mark.parametrize(("content", "response"), RESULTS)
def test_a_result_is_an_object_or_text(content, response):
    body = built([*ASK, asked(call("f")), result("c1", content)])
    assert body["contents"][2]["parts"] == [{"functionResponse": {"name": "f", "response": response}}]


def test_the_nearest_call_of_an_id_gives_the_name():
    body = built([*ASK, asked(call("f")), result("c1", "1"), asked(call("g")), result("c1", "2")])
    assert [turn["parts"][0]["functionResponse"]["name"] for turn in body["contents"][2::2]] == ["f", "g"]


def test_tools_are_one_entry_and_schemas_pass_digit_by_digit():
    raw = (
        b'{"messages":[{"role":"user","content":"hi"}],"tools":['
        b'{"type":"function","function":{"name":"f","description":"d","strict":true,'
        b'"parameters":{"type":"object","x":1.0,"y":{"minimum":12345678901234567890}}}},'
        b'{"type":"function","function":{"name":"g","parameters":null}},'
        b'{"type":"custom","custom":{"name":"h"}},{"type":"function","function":{}}]}'
    )
    out = egress.build(members_of(raw), model="m", stream=True)
    assert out.endswith(
        b'"tools":[{"functionDeclarations":[{"name":"f","description":"d",'
        b'"parametersJsonSchema":{"type":"object","x":1.0,"y":{"minimum":12345678901234567890}}},{"name":"g"}]}]}'
    )
    assert "tools" not in built(tools=[{"type": "custom"}])
    assert "tools" not in built(tools=None)


CHOICES = [
    ("auto", {"mode": "AUTO"}),
    ("none", {"mode": "NONE"}),
    ("required", {"mode": "ANY"}),
    ({"type": "function", "function": {"name": "f"}}, {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ("sometimes", None),
    ({"type": "allowed_tools"}, None),
    ({"type": "function", "function": {}}, None),
    (5, None),
    (None, None),
]


@pytest.mark.parametrize(("choice", "expected"), CHOICES)
def test_tool_choice_becomes_a_mode(choice, expected):
    assert built(tool_choice=choice).get("toolConfig") == (expected and {"functionCallingConfig": expected})


CONFIG = [
    ({"max_tokens": 5}, {"maxOutputTokens": 5}),
    ({"max_completion_tokens": 6, "max_tokens": 5}, {"maxOutputTokens": 6}),
    ({"max_completion_tokens": None, "max_tokens": 5}, {"maxOutputTokens": 5}),
    ({"temperature": 0}, {"temperature": 0}),
    ({"top_p": 0.5}, {"topP": 0.5}),
    ({"frequency_penalty": 0.1}, {"frequencyPenalty": 0.1}),
    ({"presence_penalty": -0.1}, {"presencePenalty": -0.1}),
    ({"seed": 7}, {"seed": 7}),
    ({"stop": "end"}, {"stopSequences": ["end"]}),
    ({"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}),
    ({"stop": None, "seed": None}, None),
    ({"response_format": {"type": "text"}}, None),
    ({"response_format": "json"}, None),
    ({"response_format": {"type": "json_object"}}, {"responseMimeType": "application/json"}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {"a": 1}}}},
        {"responseMimeType": "application/json", "responseJsonSchema": {"a": 1}},
    ),
    ({"response_format": {"type": "json_schema"}}, {"responseMimeType": "application/json"}),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
        {"responseMimeType": "application/json"},
    ),
    ({"reasoning_effort": "none"}, {"thinkingConfig": {"thinkingBudget": 0}}),
    ({"reasoning_effort": "minimal"}, {"thinkingConfig": {"thinkingBudget": 0}}),
    ({"reasoning_effort": " Low "}, {"thinkingConfig": {"thinkingBudget": 1024}}),
    ({"reasoning_effort": "medium"}, {"thinkingConfig": {"thinkingBudget": 8192}}),
    ({"reasoning_effort": "high"}, {"thinkingConfig": {"thinkingBudget": 24576}}),
    ({"reasoning_effort": "xhigh"}, None),
    ({"reasoning_effort": 3}, None),
    ({"modalities": ["text", "image"]}, {"responseModalities": ["TEXT", "IMAGE"]}),
    ({"modalities": ["image", "text"]}, {"responseModalities": ["TEXT", "IMAGE"]}),
    ({"modalities": ["image"]}, {"responseModalities": ["IMAGE"]}),
    ({"modalities": ["text", "audio"]}, None),
    ({"modalities": "image"}, None),
    (
        {
            "n": 2,
            "logprobs": True,
            "top_k": 3,
            "user": "u",
            "metadata": {},
            "parallel_tool_calls": False,
            "stream": True,
        },
        None,
    ),
]


@pytest.mark.parametrize(("members", "config"), CONFIG)
def test_settings_become_generation_config(members, config):
    expected = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    assert built(**members) == (expected if config is None else {**expected, "generationConfig": config})


def test_numbers_of_the_settings_come_out_digit_by_digit():
    raw = b'{"messages":["x"],"temperature":0.10,"seed":9007199254740993,"top_p":1E0}'
    raw = raw.replace(b'["x"]', b'[{"role":"user","content":"hi"}]')
    out = egress.build(members_of(raw), model="m", stream=False)
    assert out.endswith(b'"generationConfig":{"temperature":0.10,"topP":1E0,"seed":9007199254740993}}')


REFUSED = [
    ({"messages": []}, "at least one user or assistant message with content is required"),
    ({"messages": [{"role": "system", "content": "x"}]}, "at least one user or assistant message with content"),
    ({"messages": [{"role": "user", "content": ""}]}, "at least one user or assistant message with content"),
    ({}, "messages is required"),
    ({"messages": "SECRET"}, "messages must be a list of objects"),
    ({"messages": ["SECRET"]}, "messages must be a list of objects"),
    ({"messages": [{"role": "user", "content": [7]}]}, "content must be a string or a list of objects"),
    ({"messages": [{"role": "assistant", "tool_calls": "SECRET"}]}, "tool_calls must be a list of objects"),
    ({"messages": ASK, "tools": {"SECRET": 1}}, "tools must be a list of objects"),
]


@pytest.mark.parametrize(("chat", "text"), REFUSED)
def test_what_can_not_be_asked_is_refused_without_a_word_of_it(chat, text):
    with pytest.raises(Untranslatable) as refused:
        egress.build(members_of(chat), model="m", stream=False)
    assert str(refused.value).startswith(text)
    assert "SECRET" not in str(refused.value)
    assert not refused.value.blocked


# -- when AI Studio is asked natively (15.1)

FILE = [{"role": "user", "content": [{"type": "file", "file": {"file_data": PDF}}]}]
TEXT_ONLY, PAINTS, UNKNOWN = ("text",), ("text", "image"), ()
ROUTES = [
    pytest.param({}, TEXT_ONLY, False, id="a plain request to a text model"),
    pytest.param({}, UNKNOWN, False, id="a plain request to an unknown model"),
    pytest.param({}, PAINTS, True, id="a plain request to a model that paints"),
    pytest.param({"modalities": ["text", "image"]}, UNKNOWN, True, id="a picture of an unknown model"),
    pytest.param({"modalities": ["image"]}, TEXT_ONLY, False, id="a picture of a text model"),
    pytest.param({"modalities": ["text"]}, UNKNOWN, False, id="text of an unknown model"),
    pytest.param({"messages": FILE}, TEXT_ONLY, True, id="a file to a text model"),
    pytest.param({"messages": FILE}, UNKNOWN, True, id="a file to an unknown model"),
    pytest.param({"messages": FILE, "modalities": ["text"]}, TEXT_ONLY, True, id="a file and text"),
    pytest.param({"messages": FILE, "modalities": ["image"]}, TEXT_ONLY, False, id="a file and a picture, text model"),
    pytest.param({"messages": FILE, "modalities": ["image"]}, UNKNOWN, True, id="a file and a picture, unknown model"),
]
NO_DOCUMENT = [
    [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}],
    [{"role": "user", "content": [{"type": "file", "file": {"file_url": "https://h.example/a"}}]}],
    [{"role": "user", "content": [{"type": "file", "file": {"file_data": "JVBERi0="}}]}],
    [{"role": "user", "content": [{"type": "file", "file": {"file_data": ""}}]}],
    [{"role": "user", "content": [{"type": "text", "text": '"file_data"'}]}],
    [{"role": "user", "content": '{"file_data": 1}'}],
    [{"role": "system", "content": [{"type": "file", "file": {"file_data": PDF}}]}],
    [{"role": "tool", "content": [{"type": "file", "file": {"file_data": PDF}}]}],
    [{"role": "user", "content": [{"file_data": 5}, 7]}],
    ["file_data"],
]


@pytest.mark.parametrize(("members", "modalities", "native"), ROUTES)
def test_pictures_and_documents_go_native(members, modalities, native):
    assert egress.wants_native(members_of({"messages": ASK, **members}), modalities) is native


@pytest.mark.parametrize("messages", NO_DOCUMENT)
def test_a_document_counts_where_it_would_be_sent(messages):
    assert egress.wants_native(members_of({"messages": messages}), TEXT_ONLY) is False


def test_a_request_without_messages_is_no_request_for_the_native_route():
    assert egress.wants_native({}, TEXT_ONLY) is False


# -- nothing but Untranslatable

NAMES = """role content type text image_url url file file_data tool_calls tool_call_id id function name arguments
extra_content google thought_signature parameters description json_schema schema"""
MEMBER_NAMES = """messages tools tool_choice stop response_format modalities reasoning_effort max_tokens temperature"""
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0.5, "", "x", "text", "file", "{}", PNG, "json_schema"])
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=4),
    max_leaves=12,
)
MEMBERS = st.dictionaries(st.sampled_from(MEMBER_NAMES.split()), JSON)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system"])},
    optional={"content": JSON, "tool_calls": JSON, "tool_call_id": JSON},
)


@settings(max_examples=60)
@given(MEMBERS, st.none() | st.lists(MESSAGE, max_size=4))
def test_any_request_is_translated_or_refused(chat, messages):
    members = members_of(chat if messages is None else {**chat, "messages": messages})
    egress.wants_native(members, TEXT_ONLY)
    try:
        out = egress.build(members, model="m", stream=False)
    except Untranslatable:
        return
    assert json.loads(out)["contents"]
