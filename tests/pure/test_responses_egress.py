"""A chat request as /v1/responses is asked it, and its whole answer read back; and which requests go there."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects import chat
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.responses import egress, reroute
from proxy.usage import Usage


def members(**parts: object) -> Members:
    return {name: msgspec.Raw(json.dumps(part).encode()) for name, part in {"model": "hotel/x", **parts}.items()}


def built(stream: bool = False, **parts: object) -> dict:
    return json.loads(egress.build(members(**parts), model="o3-pro", stream=stream))


def items(*messages: dict) -> list:
    return built(messages=list(messages))["input"]


def said(role: str, *parts: dict) -> dict:
    return {"type": "message", "role": role, "content": list(parts)}


FUNCTION = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"a": 1}, "strict": True}}

# -- the request


def test_a_whole_request():
    """Part of v1-api 83: ``store: false``."""
    out = built(
        stream=True,
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
            {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {
                "role": "assistant",
                "content": "I look",
                "reasoning_content": "hm",
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
        ],
        tools=[FUNCTION, {"type": "custom", "custom": {"name": "c"}}],
        tool_choice={"type": "function", "function": {"name": "f"}},
        parallel_tool_calls=False,
        temperature=0.5,
        top_p=0.9,
        metadata={"k": "v"},
        max_completion_tokens=100,
        max_tokens=50,
        reasoning_effort="high",
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}},
        seed=1,
        n=1,
        user="u",
        stream_options={"include_usage": True},
    )
    assert out == {
        "model": "o3-pro",
        "instructions": "be brief\n\na\nb",
        "input": [
            said("user", {"type": "input_text", "text": "hi"}),
            said("assistant", {"type": "output_text", "text": "I look"}),
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "found"},
        ],
        "stream": True,
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"a": 1}, "strict": True}],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.9,
        "metadata": {"k": "v"},
        "max_output_tokens": 100,
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}, "strict": True}},
        "store": False,
    }


def test_the_least_request():
    assert built() == {"model": "o3-pro", "input": [], "reasoning": {"summary": "auto"}, "store": False}


def test_numbers_and_text_come_out_as_they_were_written():
    raw = {
        "messages": msgspec.Raw(rb'[{"role":"user","content":"\u00e9\/"}]'),
        "temperature": msgspec.Raw(b"0.10"),
        "max_tokens": msgspec.Raw(b"9007199254740993"),
    }
    out = egress.build(raw, model="m", stream=False)
    assert rb'"text":"\u00e9\/"' in out and b'"temperature":0.10,"max_output_tokens":9007199254740993' in out


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "text", "text": ""},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
                    {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "f.pdf"}},
                    {"type": "input_audio", "input_audio": {"data": "AA=="}},
                    {"type": "image_url", "image_url": 7},
                    {"type": "file", "file": {"filename": "f.pdf"}},
                ],
            },
            [
                said(
                    "user",
                    {"type": "input_text", "text": "a"},
                    {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
                    {
                        "type": "input_file",
                        "file_data": "data:application/pdf;base64,AA==",
                        "filename": "f.pdf",
                    },
                )
            ],
        ),
        ({"role": "user", "content": [{"type": "input_audio"}]}, []),
        ({"role": "user", "content": None}, []),
        ({"role": "function", "name": "f", "content": "x"}, [said("user", {"type": "input_text", "text": "x"})]),
        (
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "n"}]},
            [said("assistant", {"type": "output_text", "text": "a"})],
        ),
        ({"role": "assistant", "content": None}, []),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "function": {"name": "f", "arguments": ""}},
                    {"id": "b", "function": {"name": "g", "arguments": {"x": 1}}},
                    {"id": "c", "function": {"arguments": "{}"}},
                    7,
                ],
            },
            [
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "function_call", "call_id": "b", "name": "g", "arguments": '{"x": 1}'},
            ],
        ),
        (
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": t} for t in "xy"]},
            [{"type": "function_call_output", "call_id": "a", "output": "x\ny"}],
        ),
        (
            {"role": "tool", "tool_call_id": "a", "content": ""},
            [{"type": "function_call_output", "call_id": "a", "output": ""}],
        ),
        ({"role": "system", "content": ""}, []),
    ],
)
def test_messages(message, expected):
    assert items(message) == expected


def test_ids_of_calls_keep_within_the_limit():
    def ids(call_id: str) -> list[str]:
        call = {"id": call_id, "function": {"name": "f", "arguments": "{}"}}
        asked, result = (
            items({"role": "assistant", "content": None, "tool_calls": [call]}),
            items({"role": "tool", "tool_call_id": call_id, "content": "r"}),
        )
        return [asked[0]["call_id"], result[0]["call_id"]]

    assert ids("x" * 64) == ["x" * 64] * 2
    one, other = ids("x" * 65)
    assert one == other and len(one) == 64 and one.startswith("x" * 47 + "_")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "f"}}, {"type": "function", "name": "f"}),
        ("any", None),
        ({"type": "custom", "custom": {"name": "f"}}, None),
        (None, None),
    ],
)
def test_the_choice_of_a_tool(choice, expected):
    assert built(tools=[FUNCTION], tool_choice=choice).get("tool_choice") == expected


def test_a_tool_says_what_chat_leaves_unsaid():
    """Absent, ``strict`` means no in chat and yes in Responses."""
    assert built(tools=[{"type": "function", "function": {"name": "f"}}])["tools"] == [
        {"type": "function", "parameters": {"type": "object", "properties": {}}, "strict": False, "name": "f"}
    ]


def test_without_a_function_nothing_is_said_of_tools():
    out = built(tools=[{"type": "custom", "custom": {"name": "c"}}], tool_choice="auto", parallel_tool_calls=True)
    assert not out.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


@pytest.mark.parametrize(
    ("effort", "expected"),
    [
        (None, {"summary": "auto"}),
        ("none", {"effort": "none"}),
        ("xhigh", {"effort": "xhigh", "summary": "auto"}),
    ],
)
def test_the_effort(effort, expected):
    assert built(reasoning_effort=effort)["reasoning"] == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ({"type": "json_object"}, {"format": {"type": "json_object"}}),
        ({"type": "text"}, None),
        ({"type": "regex"}, None),
        (None, None),
    ],
)
def test_the_format_of_the_answer(shape, expected):
    assert built(response_format=shape).get("text") == expected


def test_the_budget():
    assert built(max_tokens=5)["max_output_tokens"] == 5
    assert built(max_tokens=5, max_completion_tokens=None)["max_output_tokens"] == 5


@pytest.mark.parametrize("parts", [{"messages": {}}, {"messages": "SECRET"}, {"messages": ["SECRET"]}, {"tools": 5}])
def test_what_can_not_be_asked(parts):
    with pytest.raises(Untranslatable) as caught:
        built(**parts)
    assert "SECRET" not in str(caught.value)


# -- the answer

RESPONSE = {
    "id": "resp_67ccd2bed1ec8190b14f964abc054267",
    "object": "response",
    "created_at": 1741476542,
    "status": "completed",
    "error": None,
    "incomplete_details": None,
    "model": "o3-pro-2025-06-10",
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "**Think**"}, {"type": "summary_text", "text": "more"}],
            "encrypted_content": "gAAA",
        },
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "In a ", "annotations": []},
                {"type": "output_text", "text": "forest", "annotations": []},
            ],
        },
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    ],
    "usage": {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 12},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 64},
        "total_tokens": 123,
    },
}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"x":1}',
    "status": "completed",
}


def read(**changes: object) -> dict:
    payload = json.dumps({**RESPONSE, **changes}).encode()
    return json.loads(egress.to_chat(payload, model="o3-pro", new_id=lambda: "new", now=lambda: 7.9))


def test_a_whole_answer():
    assert read() == {
        "id": "chatcmpl-67ccd2bed1ec8190b14f964abc054267",
        "object": "chat.completion",
        "created": 1741476542,
        "model": "o3-pro",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "In a forest",
                    "reasoning_content": "**Think**\n\nmore",
                },
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 36,
            "completion_tokens": 87,
            "total_tokens": 123,
            "prompt_tokens_details": {"cached_tokens": 12},
            "completion_tokens_details": {"reasoning_tokens": 64},
        },
    }


def test_the_chat_pipeline_reads_it():
    judged = chat.read_answer(egress.to_chat(json.dumps(RESPONSE).encode(), model="o3-pro"))
    assert judged.verdict == "served" and judged.carries
    assert judged.usage == Usage(36, 87, 64, 12, 24, True)


def test_calls():
    choice = read(output=[CALL, {**CALL, "call_id": None, "arguments": ""}, {**CALL, "arguments": "{broken"}])[
        "choices"
    ][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": "f", "arguments": words}}
            for call_id, words in (("call_1", '{"x":1}'), ("fc_1", "{}"), ("call_1", "{}"))
        ],
    }


def test_a_refusal_is_no_empty_answer():
    part = {"type": "refusal", "refusal": "I can't"}
    message = read(output=[{"type": "message", "content": [part]}])["choices"][0]["message"]
    assert message == {"role": "assistant", "content": None, "refusal": "I can't"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "stop"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "stop"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [CALL]},
            "tool_calls",
        ),
        ({"status": None}, "stop"),
    ],
)
def test_why_it_ended(changes, expected):
    assert read(**changes)["choices"][0]["finish_reason"] == expected


def test_an_answer_without_the_usual():
    found = read(id=None, created_at="x", usage=None, output=None)
    assert (found["id"], found["created"], "usage" in found) == ("chatcmpl-new", 7, False)
    assert read(id="other", created_at=1e300)["id"] == "chatcmpl-other"
    assert read(usage={"input_tokens": 2, "output_tokens": 3})["usage"]["total_tokens"] == 5


def test_an_unreadable_count_costs_only_itself():
    found = egress.to_chat(b'{"id":"r","usage":{"input_tokens":2,"output_tokens":1e999}}', model="m")
    assert json.loads(found)["usage"] == {"prompt_tokens": 2, "total_tokens": 2}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"object":"response","output":[]}',
        b'{"id":"r","status":"in_progress","output":[]}',
        b'{"id":"r","status":"cancelled"}',
        b'{"error":{"message":"SECRET"}}',
        b'{"id":"r","status":"failed","error":{"code":"server_error","message":"SECRET"}}',
        b'{"id":"r","error":{"code":"SECRET","message":"SECRET"}}',
    ],
)
def test_what_is_no_answer(payload):
    with pytest.raises(Untranslatable) as caught:
        egress.to_chat(payload, model="m")
    assert "SECRET" not in str(caught.value) and not caught.value.blocked


def test_a_prompt_refused_for_its_content():
    with pytest.raises(Untranslatable) as caught:
        egress.to_chat(b'{"id":"r","status":"failed","error":{"code":"invalid_prompt","message":"m"}}', model="m")
    assert caught.value.blocked


# -- which requests go there

TAUGHT = (
    "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. "
    "Please use /v1/responses instead."
)
NO_CHAT = (
    "This is not a chat model and thus not supported in the v1/chat/completions endpoint. "
    "Did you mean to use v1/completions?"
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (TAUGHT, "tools"),
        (TAUGHT.upper(), "tools"),
        (NO_CHAT, "always"),
        (f"{NO_CHAT} {TAUGHT}", "always"),
        ("reasoning with tools is not supported", None),
        ("This is not a chat model", None),
        ("", None),
    ],
)
def test_what_a_refusal_requires(message, expected):
    """Part of failover-loop 35"""
    assert reroute.requirement(message) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"tools": [FUNCTION]}, True),
        ({"tools": [FUNCTION], "reasoning_effort": None}, True),
        ({"tools": [FUNCTION], "reasoning_effort": "low"}, True),
        ({"tools": [FUNCTION], "reasoning_effort": "none"}, False),
        ({"tools": []}, False),
        ({"tools": None}, False),
        ({}, False),
    ],
)
def test_requests_with_tools_that_reason(parts, expected):
    assert reroute.qualifies(members(**parts)) is expected


@pytest.mark.parametrize(
    "model", ["o1-pro", "o3-pro", "gpt-5-pro", "gpt-5.2-pro", "o3-pro-2025-06-10", "gpt-5-pro-2025-10-06", "o1-pro-2"]
)
def test_models_of_responses_alone(model):
    """Part of v1-api 83"""
    assert reroute.preemptive(model)


@pytest.mark.parametrize(
    "model",
    [
        "o3-pro-mini",
        "o3-professional",
        "o3",
        "gpt-5",
        "gpt-5-mini",
        "gpt-5-pro-mini",
        "gpt-4-pro",
        "x/o3-pro",
        "o3-pro-",
    ],
)
def test_models_of_chat(model):
    """Part of v1-api 83"""
    assert not reroute.preemptive(model)


def test_requirements_are_only_ever_extended():
    """Part of failover-loop 35"""
    known = reroute.Requirements()
    tools, plain = members(tools=[FUNCTION]), members()
    assert known.of("openai", "m") is None and not known.apply("openai", "m", tools)
    assert known.learn("openai", "m", "tools") and not known.learn("openai", "m", "tools")
    assert known.apply("openai", "m", tools) and not known.apply("openai", "m", plain)
    assert not known.apply("openai", "n", tools) and not known.apply("other", "m", tools)
    assert known.learn("openai", "m", "always") and not known.learn("openai", "m", "tools")
    assert known.of("openai", "m") == "always" and known.apply("openai", "m", plain)


def test_who_has_no_such_route_is_not_sent_there_for_a_while():
    now = [100.0]
    known = reroute.Requirements(lambda: now[0])
    assert not known and not known.missing("p", "m")
    assert known.learn("p", "m", "always") and known.learn("q", "m", "always") and known
    known.forget("p", "m")
    assert known.of("p", "m") is None and known.missing("p", "m") and not known.learn("p", "m", "tools")
    assert known.of("q", "m") == "always" and not known.missing("q", "m") and not known.missing("p", "n")
    now[0] += reroute.MISSING_SECONDS - 1
    assert known.missing("p", "m")
    now[0] += 1
    assert not known.missing("p", "m") and known.learn("p", "m", "tools")


@pytest.mark.parametrize(
    ("parts", "expected"), [({"tools": [FUNCTION]}, "tools"), ({"tools": [FUNCTION], "reasoning_effort": "none"}, None)]
)
def test_what_a_refusal_wants_of_a_request(parts, expected):
    assert reroute.wanted("tools with reasoning: use /v1/responses", members(**parts)) == expected
    assert reroute.wanted(NO_CHAT, members(**parts)) == "always"


def test_a_refusal_in_the_other_dialect_teaches_parameters_alone():
    taught = reroute.lesson(
        "Unsupported parameter: 'temperature' with `reasoning`; response_format is not supported",
        {"temperature", "reasoning"},
    )
    assert taught.rejected == frozenset({"temperature"})


# -- anything

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(("", "a", "{}", "message", "function_call", "reasoning", "user", "tool", "text")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ("role", "content", "type", "text", "tool_calls", "function", "name", "arguments", "id", "output",
                 "status", "usage", "summary", "call_id", "image_url", "url", "created_at", "error", "input_tokens")
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip


MEMBERS = st.sampled_from(("messages", "tools", "tool_choice", "reasoning_effort", "response_format", "max_tokens"))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(MEMBERS, st.lists(JUNK, max_size=3) | JUNK), st.booleans())
def test_whatever_is_asked_is_a_request_or_untranslatable(parts, stream):
    try:
        out = built(stream=stream, **parts)
    except Untranslatable:
        return
    assert out["store"] is False and isinstance(out["input"], list)


@settings(max_examples=60, deadline=None)
@given(JUNK, st.lists(JUNK, max_size=3), st.binary(max_size=12))
def test_whatever_comes_back_is_a_completion_or_untranslatable(junk, output, raw):
    for body in (raw, json.dumps(junk).encode(), json.dumps({"id": "r", "output": output, "usage": junk}).encode()):
        try:
            found = egress.to_chat(body, model="m")
        except Untranslatable:
            continue
        assert json.loads(found)["object"] == "chat.completion"
        chat.read_answer(found)
