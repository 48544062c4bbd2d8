"""Answers of generateContent that come whole: every row of the answer map (v1-api 15.3), and what they cost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.dialects import chat
from proxy.dialects.base import Untranslatable
from proxy.dialects.gemini import egress
from proxy.usage import Usage

ID = "chatcmpl-" + "0" * 32


def read(body):
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    return json.loads(egress.to_chat(payload, model="gemini-2.5-flash", new_id=lambda: ID, now=lambda: 1700000000.9))


def answered(*parts, finish="STOP", **more):
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-2.5-flash", "responseId": "r", **more}


def message(*parts, **more):
    return read(answered(*parts, **more))["choices"][0]["message"]


def finish(*parts, **more):
    return read(answered(*parts, **more))["choices"][0]["finish_reason"]


def test_an_answer_becomes_a_chat_completion():
    body = answered(
        {"text": "Let me think", "thought": True},
        {"text": "Hello"},
        {"text": ", world", "thoughtSignature": "c2ln"},
        usageMetadata={
            "promptTokenCount": 12,
            "candidatesTokenCount": 5,
            "totalTokenCount": 117,
            "thoughtsTokenCount": 100,
            "cachedContentTokenCount": 8,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 12}],
        },
    )
    assert read(body) == {
        "id": ID,
        "object": "chat.completion",
        "created": 1700000000,
        "model": "gemini-2.5-flash",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello, world"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 12,
            "completion_tokens": 105,
            "total_tokens": 117,
            "completion_tokens_details": {"reasoning_tokens": 100},
            "prompt_tokens_details": {"cached_tokens": 8},
        },
    }


def test_parallel_calls_carry_the_signature_of_the_one_that_has_it():
    """part of v1-api 78"""
    body = answered(
        {"functionCall": {"name": "look", "args": {"a": 1}, "id": "x"}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "find"}, "thoughtSignature": 5},
        {"functionCall": {"name": "other", "args": {}}, "thought_signature": "b3RoZXI="},
    )
    choice = read(body)["choices"][0]
    assert choice == {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": f"call_{ID}_0",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"a":1}'},
                    "extra_content": {"google": {"thought_signature": "c2ln"}},
                },
                {"id": f"call_{ID}_1", "type": "function", "function": {"name": "find", "arguments": "{}"}},
                {
                    "id": f"call_{ID}_2",
                    "type": "function",
                    "function": {"name": "other", "arguments": "{}"},
                    "extra_content": {"google": {"thought_signature": "b3RoZXI="}},
                },
            ],
        },
        "finish_reason": "tool_calls",
    }


def test_what_is_said_of_a_call_comes_back_with_it():
    """part of v1-api 78"""
    body = answered({"functionCall": {"name": "f", "args": {"x": [1, "ä"]}}, "thoughtSignature": "c2ln"})
    turn = read(body)["choices"][0]["message"]
    members = {"messages": [turn, {"role": "tool", "tool_call_id": f"call_{ID}_0", "content": "ok"}]}
    raw = {name: chat.Raw(json.dumps(value).encode()) for name, value in members.items()}
    contents = json.loads(egress.build(raw, model="m", stream=False))["contents"]
    assert contents == [
        {"role": "model", "parts": [body["candidates"][0]["content"]["parts"][0]]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": "ok"}}}]},
    ]


def test_arguments_are_compact_and_digit_by_digit():
    body = json.dumps(answered({"functionCall": {"name": "f", "args": "ARGS"}})).encode()
    body = body.replace(b'"ARGS"', b'{ "a" : 1.10 ,\n "b": 12345678901234567890123, "c": "x  y" }')
    call = read(body)["choices"][0]["message"]["tool_calls"][0]
    assert call["function"]["arguments"] == '{"a":1.10,"b":12345678901234567890123,"c":"x  y"}'


@pytest.mark.parametrize("broken", [{}, {"name": 5}, {"name": ""}, "f", None, [1]])
def test_a_call_without_a_name_is_no_call(broken):
    assert message({"functionCall": broken}, {"text": "x"}) == {"role": "assistant", "content": "x"}


@pytest.mark.parametrize("args", [None, [1], "x", 5])
def test_arguments_that_are_no_object_are_an_empty_one(args):
    call = message({"functionCall": {"name": "f", "args": args}})["tool_calls"][0]
    assert call["function"]["arguments"] == "{}"


def test_pictures_are_delivered_and_other_blobs_are_not():
    said = message(
        {"inlineData": {"mimeType": "image/png", "data": "ZHJhZnQ="}, "thought": True},
        {"text": "here"},
        {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"inlineData": {"mimeType": "image/webp", "data": ""}},
        {"inlineData": {"mimeType": "audio/L16", "data": "AAAA"}},
        {"inlineData": {"data": "AAAA"}},
        {"inlineData": {"mimeType": "image/png", "data": 5}},
        {"inlineData": "x"},
    )
    assert said == {
        "role": "assistant",
        "content": "here",
        "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}],
    }


REASONS = [
    ("STOP", "stop"),
    ("MAX_TOKENS", "length"),
    ("SAFETY", "content_filter"),
    ("RECITATION", "content_filter"),
    ("BLOCKLIST", "content_filter"),
    ("PROHIBITED_CONTENT", "content_filter"),
    ("SPII", "content_filter"),
    ("IMAGE_SAFETY", "content_filter"),
    ("LANGUAGE", "stop"),
    ("OTHER", "stop"),
    ("FINISH_REASON_UNSPECIFIED", "stop"),
    ("SOMETHING_NEW", "stop"),
]


@pytest.mark.parametrize(("stated", "expected"), REASONS)
def test_finish_reasons(stated, expected):
    assert finish({"text": "x"}, finish=stated) == expected
    assert finish({"functionCall": {"name": "f"}}, finish=stated) == "tool_calls"


def test_an_unstated_reason_ends_what_was_delivered_and_nothing_else():
    assert finish({"text": "x"}, finish=None) == "stop"
    nothing = json.dumps(answered(finish=None)).encode()
    assert chat.read_answer(egress.to_chat(nothing, model="m")).verdict == "no_content"
    unread = json.dumps(answered(finish=5)).encode()
    assert chat.read_answer(egress.to_chat(unread, model="m")).verdict == "no_content"
    bare = json.dumps({"candidates": [{"finishReason": "STOP"}]}).encode()
    assert chat.read_answer(egress.to_chat(bare, model="m")).verdict == "bare_finish"
    unsafe = json.dumps({"candidates": [{"finishReason": "SAFETY", "safetyRatings": []}]}).encode()
    judged = chat.read_answer(egress.to_chat(unsafe, model="m"))
    assert (judged.verdict, judged.carries) == ("served", True)


def test_thoughts_alone_are_no_content():
    judged = chat.read_answer(egress.to_chat(json.dumps(answered({"text": "hm", "thought": True})).encode(), model="m"))
    assert judged.verdict == "bare_finish"


NO_ANSWERS = [
    (b"", "gemini: the body is no generateContent answer"),
    (b"SECRET", "gemini: the body is no generateContent answer"),
    (b"[]", "gemini: the body is no generateContent answer"),
    (b"{}", "gemini: the answer has no candidate"),
    (b'{"candidates":null}', "gemini: the answer has no candidate"),
    (b'{"candidates":[]}', "gemini: the answer has no candidate"),
    (b'{"candidates":"SECRET"}', "gemini: the body is no generateContent answer"),
    (b'{"candidates":[{"content":{"parts":["SECRET"]}}]}', "gemini: the body is no generateContent answer"),
    (b'{"error":{"code":500,"message":"SECRET"}}', "gemini: the answer has no candidate"),
    (b'[{"error":{"code":500,"message":"SECRET"}}]', "gemini: the body is no generateContent answer"),
    (b'{"candidates":[],"promptFeedback":"SECRET"}', "gemini: the answer has no candidate"),
    (b'{"candidates":[],"promptFeedback":{"blockReason":""}}', "gemini: the answer has no candidate"),
    (b'{"candidates":[],"promptFeedback":{"blockReason":5}}', "gemini: the answer has no candidate"),
    (b'{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}', "the model ended in a malformed function call"),
    (
        b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"\xff"}}}]}}]}',
        "gemini: the answer holds a call that can not be read",
    ),
    (b"[" * 100_000, "gemini: the body is no generateContent answer"),
]


@pytest.mark.parametrize(("payload", "text"), NO_ANSWERS)
def test_what_is_no_answer_is_told_without_a_word_of_it(payload, text):
    with pytest.raises(Untranslatable) as refused:
        egress.to_chat(payload, model="m")
    assert str(refused.value) == text
    assert not refused.value.blocked


BLOCKS = [
    ("SAFETY", "SAFETY"),
    ("PROHIBITED_CONTENT", "PROHIBITED_CONTENT"),
    ("something the user said", "BLOCKED_REASON_UNSPECIFIED"),
    ("secret", "BLOCKED_REASON_UNSPECIFIED"),
    ("Secret_2", "BLOCKED_REASON_UNSPECIFIED"),
    ("_SAFETY", "BLOCKED_REASON_UNSPECIFIED"),
    ("A" * 65, "BLOCKED_REASON_UNSPECIFIED"),
    ("SÜSS", "BLOCKED_REASON_UNSPECIFIED"),
]


@pytest.mark.parametrize(("stated", "told"), BLOCKS)
def test_a_blocked_prompt_is_not_the_providers_fault(stated, told):
    body = {"promptFeedback": {"blockReason": stated, "safetyRatings": []}, "usageMetadata": {"promptTokenCount": 9}}
    with pytest.raises(Untranslatable, match=f"^prompt blocked: {told}$") as refused:
        read(body)
    assert refused.value.blocked
    assert refused.value.usage == Usage(prompt=9)


def test_a_candidate_outweighs_a_block():
    assert message({"text": "x"}, promptFeedback={"blockReason": "SAFETY"})["content"] == "x"


def test_a_byte_order_mark_is_no_obstacle():
    assert (
        read(b"\xef\xbb\xbf" + json.dumps(answered({"text": "x"})).encode())["choices"][0]["message"]["content"] == "x"
    )


METADATA = [
    pytest.param("{}", None, id="nothing"),
    pytest.param("null", None, id="null"),
    pytest.param("[1]", None, id="no object"),
    pytest.param('{"promptTokenCount":"x"}', None, id="nothing readable"),
    pytest.param(
        '{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":9}',
        {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9},
        id="the usual",
    ),
    pytest.param(
        '{"promptTokenCount":"3","candidatesTokenCount":4.0}',
        {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        id="other spellings, no total",
    ),
    pytest.param(
        '{"promptTokenCount":3,"thoughtsTokenCount":40,"totalTokenCount":43}',
        {
            "prompt_tokens": 3,
            "completion_tokens": 40,
            "total_tokens": 43,
            "completion_tokens_details": {"reasoning_tokens": 40},
        },
        id="thoughts alone",
    ),
    pytest.param(
        '{"promptTokenCount":3,"candidatesTokenCount":null,"totalTokenCount":3}',
        {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3},
        id="what is left out is zero",
    ),
    pytest.param(
        '{"promptTokenCount":-1,"candidatesTokenCount":4,"totalTokenCount":9}',
        {"completion_tokens": 4, "total_tokens": 9},
        id="an unreadable prompt costs only itself",
    ),
    pytest.param(
        '{"promptTokenCount":3,"candidatesTokenCount":true,"thoughtsTokenCount":2,"totalTokenCount":9}',
        {"prompt_tokens": 3, "total_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 2}},
        id="one unreadable addend leaves completion unreported",
    ),
    pytest.param(
        '{"promptTokenCount":3,"candidatesTokenCount":4,"thoughtsTokenCount":1e999}',
        {"prompt_tokens": 3},
        id="the other addend, beyond all numbers",
    ),
    pytest.param(
        '{"promptTokenCount":3,"candidatesTokenCount":4,"cachedContentTokenCount":0}',
        {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 0}},
        id="a cache that was not hit",
    ),
    pytest.param(
        '{"promptTokenCount":3,"candidatesTokenCount":4,"cachedContentTokenCount":{},"totalTokenCount":null}',
        {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        id="an unreadable cache figure",
    ),
]


@pytest.mark.parametrize(("metadata", "usage"), METADATA)
def test_usage(metadata, usage):
    body = json.dumps(answered({"text": "x"}, usageMetadata="META")).replace('"META"', metadata).encode()
    assert read(body).get("usage") == usage


UNSERVED = [
    b'{"candidates":[],"usageMetadata":{"promptTokenCount":9}}',
    b'{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}],"usageMetadata":{"promptTokenCount":9}}',
    b'{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":"\xff"}}}]}}],'
    b'"usageMetadata":{"promptTokenCount":9}}',
]


@pytest.mark.parametrize("payload", UNSERVED)
def test_what_does_not_serve_says_what_it_cost(payload):
    with pytest.raises(Untranslatable) as refused:
        egress.to_chat(payload, model="m")
    assert refused.value.usage == Usage(prompt=9)


def test_ids_are_new_every_time():
    payload = json.dumps(answered({"text": "x"})).encode()
    found = {json.loads(egress.to_chat(payload, model="m"))["id"] for _ in range(3)}
    assert len(found) == 3
    assert all(len(each) == len(ID) and each.startswith("chatcmpl-") for each in found)


@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda tail: b'{"candidates":[{"content":' + tail))
def test_garbage_is_untranslatable(payload):
    with pytest.raises(Untranslatable) as refused:
        egress.to_chat(payload, model="m")
    assert refused.value.usage is None
