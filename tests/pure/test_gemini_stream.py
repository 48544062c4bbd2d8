"""The stream of generateContent as a chat stream (v1-api 15.3): the same answer as whole, its ends, its errors."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from failover import ratelimit
from proxy import reasons
from proxy.dialects.base import Untranslatable
from proxy.dialects.gemini import egress, reader
from proxy.dialects.gemini.reader import Reader
from proxy.secrecy import Secrets
from proxy.stream import probe
from proxy.stream.chat import ChatStream
from proxy.stream.probe import Meaning
from proxy.stream.sse import Event, Framer
from proxy.usage import Usage

ID = "chatcmpl-" + "0" * 32


def event(*parts, finish=None, usage=None, **more):
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    body = {"candidates": [candidate], **more}
    if usage is not None:
        body["usageMetadata"] = usage
    return json.dumps(body).encode()


def sse(*payloads):
    return b"".join(b"data: %b\r\n\r\n" % payload for payload in payloads)


def new_reader():
    return Reader("gemini-2.5-flash", new_id=lambda: ID, now=lambda: 1700000000.9)


def events(*pieces):
    """The chat events of a body that came in *pieces*."""
    framer, found, translated = Framer(), new_reader(), []
    for piece in pieces:
        translated += [out for each in framer.feed(piece) for out in found.take(each)]
    return translated + [out for each in framer.finish() for out in found.take(each)] + found.finish()


def payloads(*pieces):
    found = events(*pieces)
    for each in found:
        assert each.raw == b"data: " + each.data + b"\n\n"
        assert each.rest == b""
    return [each.data if each.data == b"[DONE]" else json.loads(each.data) for each in found]


def chunk(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    opening = {"id": ID, "object": "chat.completion.chunk", "created": 1700000000, "model": "gemini-2.5-flash"}
    return {**opening, "choices": [choice], **more}


def error_of(found):
    assert list(found) == ["error"]
    assert list(found["error"])[:4] == ["message", "type", "param", "code"]
    return found["error"]


def test_a_stream_is_a_chunk_per_event_with_output_then_reason_and_usage():
    body = sse(
        event({"text": "hm", "thought": True}, usage={"promptTokenCount": 3, "totalTokenCount": 3}),
        event({"text": "Hel"}, {"text": "secret", "thought": True}, {"text": "lo"}),
        b'{"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":1}}',
        event({"text": " you"}),
        event({"text": ""}, finish="STOP", usage={"promptTokenCount": 3, "candidatesTokenCount": 2}),
    )
    assert payloads(body) == [
        chunk({"role": "assistant", "content": "Hello"}),
        chunk({"content": " you"}),
        chunk({}, "stop", usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
        b"[DONE]",
    ]


def test_calls_and_pictures_come_whole_and_are_counted_over_the_stream():
    body = sse(
        event(
            {"text": "so"},
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "g"}},
        ),
        event({"functionCall": {"name": "h"}}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}),
        event(finish="STOP"),
    )

    def call(index, name, arguments="{}", **more):
        function = {"name": name, "arguments": arguments}
        return {"index": index, "id": f"call_{ID}_{index}", "type": "function", "function": function, **more}

    signed = call(0, "f", '{"a":1}', extra_content={"google": {"thought_signature": "c2ln"}})
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    assert payloads(body) == [
        chunk({"role": "assistant", "content": "so", "tool_calls": [signed, call(1, "g")]}),
        chunk({"tool_calls": [call(2, "h")], "images": [picture]}),
        chunk({}, "tool_calls"),
        b"[DONE]",
    ]


def test_the_last_reason_counts_where_every_event_states_one():
    body = sse(event({"text": "a"}, finish="STOP"), event({"text": "b"}, finish="MAX_TOKENS"))
    assert [found["choices"][0]["finish_reason"] for found in payloads(body)[:-1]] == [None, None, "length"]


def test_what_was_stated_outlives_events_that_state_nothing():
    body = sse(
        event({"text": "a"}, finish="MAX_TOKENS", usage={"promptTokenCount": 9}),
        event({"text": "b"}, usage=5),
        b'{"usageMetadata":null}',
        b"{}",
    )
    usage = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
    assert payloads(body)[-2:] == [chunk({}, "length", usage=usage), b"[DONE]"]


def test_a_figure_of_the_cache_outlives_events_without_one():
    body = sse(
        event({"text": "a"}, usage={"promptTokenCount": 9, "cachedContentTokenCount": 4}),
        event({"text": "b"}, finish="STOP", usage={"promptTokenCount": 9, "candidatesTokenCount": 2}),
    )
    assert payloads(body)[-2]["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 4},
    }


def test_a_blocked_prompt_ends_in_the_filter():
    body = sse(b'{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":7}}')
    usage = {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7}
    assert payloads(body) == [chunk({}, "content_filter", usage=usage), b"[DONE]"]


def test_a_block_behind_output_ends_in_the_filter_too():
    body = sse(event({"text": "a"}), b'{"promptFeedback":{"blockReason":"OTHER"}}')
    assert payloads(body)[1:] == [chunk({}, "content_filter"), b"[DONE]"]


def test_a_block_outlives_what_follows():
    assert payloads(sse(b'{"promptFeedback":{"blockReason":"OTHER"}}', b"{}"))[-2] == chunk({}, "content_filter")


@pytest.mark.parametrize("nothing", [None, {}, "", []])
def test_an_error_that_says_nothing_is_none(nothing):
    body = sse(event({"text": "a"}, error=nothing), event(finish="STOP"))
    assert payloads(body) == [chunk({"role": "assistant", "content": "a"}), chunk({}, "stop"), b"[DONE]"]


def test_a_body_that_ends_without_a_reason_is_truncated():
    opened = new_reader()
    opened.take(Event(event({"text": "a"}, usage={"promptTokenCount": 7}), b""))
    assert not opened.complete
    (last,) = opened.finish()
    assert json.loads(last.data)["choices"] == []
    assert json.loads(last.data)["usage"]["prompt_tokens"] == 7
    assert payloads(sse(event({"text": "a"}))) == [chunk({"role": "assistant", "content": "a"})]
    assert payloads(b"") == []
    assert payloads(sse(b'{"promptFeedback":{}}', b'{"candidates":[]}', b"{}", b'{"usageMetadata":5}')) == []


SAID = {"promptTokenCount": 10, "candidatesTokenCount": 2, "cachedContentTokenCount": 4}


@pytest.mark.parametrize(
    "last",
    [
        b'{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}',
        b'{"candidates":5}',
        b"{bad",
        event(finish="MALFORMED_FUNCTION_CALL"),
    ],
)
def test_what_was_reported_outlasts_an_end_that_shows_none_of_it(last):
    opened = new_reader()
    assert opened.usage is None
    opened.take(Event(event({"text": "a"}, usage=SAID), b""))
    (error,) = opened.take(Event(last, b""))
    assert b'"error"' in error.data and b"usage" not in error.data
    assert opened.finish() == [] and opened.usage == Usage(10, 2, 0, 4, 6, True)


@pytest.mark.parametrize("last", [b'{"error":{"code":503},"usageMetadata":%b}', b'{"candidates":5,"usageMetadata":%b}'])
def test_figures_may_come_with_the_end_itself(last):
    opened = new_reader()
    opened.take(Event(last % json.dumps(SAID).encode(), b""))
    assert opened.usage == Usage(10, 2, 0, 4, 6, True)


def test_a_malformed_call_is_an_error_and_never_a_stop():
    body = sse(event({"text": "a"}), event(finish="MALFORMED_FUNCTION_CALL"), event({"text": "b"}, finish="STOP"))
    _, error = payloads(body)
    assert error_of(error) == {
        "message": "the model ended in a malformed function call",
        "type": "server_error",
        "param": None,
        "code": "provider_error",
    }
    assert probe.carried_status(json.dumps(error).encode()) is None


ERRORS = [
    pytest.param(
        b'{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}',
        {"message": "overloaded", "type": "UNAVAILABLE", "param": None, "code": "503"},
        503,
        id="an object",
    ),
    pytest.param(
        b'\n[{\n "error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT", "details": []}}]',
        {"message": "bad", "type": "INVALID_ARGUMENT", "param": None, "code": "400"},
        400,
        id="an object in a list",
    ),
    pytest.param(
        b'[{"error":null},{},{"error":{"code":500,"message":"second"}}]',
        {"message": "second", "type": "server_error", "param": None, "code": "500"},
        500,
        id="the first that says something",
    ),
    pytest.param(
        b'{"type":"error","error":{"type":"CreditsError","message":"spent","code":"429"}}',
        {"message": "spent", "type": "CreditsError", "param": None, "code": "429"},
        429,
        id="as gateways write it",
    ),
    pytest.param(
        b'{"error":"broken"}',
        {"message": "broken", "type": "server_error", "param": None, "code": None},
        None,
        id="a text",
    ),
    pytest.param(
        b'{"error":{"status":500,"message":""}}',
        {
            "message": "the provider sent an error without a message",
            "type": "server_error",
            "param": None,
            "code": "500",
        },
        500,
        id="no message",
    ),
    pytest.param(
        b'{"error":{"code":true,"message":5,"status":""}}',
        {
            "message": "the provider sent an error without a message",
            "type": "server_error",
            "param": None,
            "code": None,
        },
        None,
        id="nothing readable",
    ),
    pytest.param(
        b'{"error":{"code":1000,"message":1e999,"status":"X","details":{}}}',
        {"message": "the provider sent an error without a message", "type": "X", "param": None, "code": None},
        None,
        id="numbers beyond all",
    ),
]


@pytest.mark.parametrize(("payload", "error", "status"), ERRORS)
def test_an_error_event_ends_the_stream(payload, error, status):
    _, found = payloads(sse(event({"text": "a"}), payload.replace(b"\n", b""), event({"text": "b"}, finish="STOP")))
    assert error_of(found) == error
    told = reader.error_payload(payload)
    assert json.loads(told) == found
    assert probe.carried_status(told) == status
    assert reasons.read(told).message == error["message"]
    assert reader.classify(payload) is Meaning.ERROR


def test_of_the_details_only_the_wait_is_told():
    payload = json.dumps(
        {
            "error": {
                "code": 429,
                "message": "You exceeded your current quota",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    "odd",
                    {
                        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                        "violations": [{"quotaDimensions": {"project": "SECRET"}}],
                    },
                    {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"},
                ],
            }
        }
    ).encode()
    told = reader.error_payload(payload)
    assert b"SECRET" not in told
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}
    assert json.loads(told)["error"]["details"] == [wait]
    reading = ratelimit.read(told, (), now=0.0, ceiling=60.0)
    assert reading == ratelimit.read(payload, (), now=0.0, ceiling=60.0)
    assert reading.retry_after == 34.0


NO_EVENTS = [b"garbage", b"[1]", b"5", b"null", b'"x"', b'{"candidates":5}', b'{"candidates":[{"content":[]}]}', b"{"]


@pytest.mark.parametrize("payload", NO_EVENTS)
def test_an_event_that_is_no_answer_fails_the_stream(payload):
    _, found = payloads(sse(event({"text": "a"}), payload, event({"text": "b"}, finish="STOP")))
    assert error_of(found)["message"] == reader.UNREADABLE
    assert reader.classify(payload) is Meaning.ERROR
    assert json.loads(reader.error_payload(payload)) == found


def test_an_event_that_no_blank_line_closed_still_counts():
    body = sse(event({"text": "a"}), event({"text": "b"}, finish="STOP"))
    assert payloads(body.rstrip()) == payloads(body)
    assert error_of(payloads(body.rstrip()[:-1])[-1])["message"] == reader.UNREADABLE


def test_lines_that_are_no_data_are_ignored_and_a_payload_may_take_several():
    payload = json.dumps(json.loads(event({"text": "a"}, finish="STOP")), indent=1).encode()
    lines = b"".join(b"data: " + line + b"\n" for line in payload.splitlines())
    body = b": ping\n\nevent: message\nid: 7\nretry: 5\n" + lines + b"\n:\n\n"
    assert payloads(body) == [chunk({"role": "assistant", "content": "a"}), chunk({}, "stop"), b"[DONE]"]


def test_a_gateways_own_end_marker_ends_what_is_complete_and_nothing_else():
    whole = sse(event({"text": "a"}, finish="STOP"))
    assert payloads(whole + sse(b"[DONE]", event({"text": "late"}))) == payloads(whole)
    cut = sse(event({"text": "a"}))
    assert payloads(cut + sse(b"[DONE]", event({"text": "late"}, finish="STOP"))) == payloads(cut)
    assert payloads(sse(b"", b"  ")) == []


MEANINGS = [
    (b"", Meaning.NOTHING),
    (b" \n", Meaning.NOTHING),
    (b"[DONE]", Meaning.END),
    (b"{}", Meaning.NOTHING),
    (b'{"usageMetadata":{"promptTokenCount":1}}', Meaning.NOTHING),
    (b'{"promptFeedback":{"blockReason":"SAFETY"}}', Meaning.NOTHING),
    (event(finish="STOP"), Meaning.NOTHING),
    (event({"text": ""}), Meaning.NOTHING),
    (event({"text": "hm", "thought": True}), Meaning.NOTHING),
    (event({"text": " "}), Meaning.OUTPUT),
    (event({"functionCall": {"name": "f"}}), Meaning.OUTPUT),
    (event({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}), Meaning.OUTPUT),
    (event(finish="MALFORMED_FUNCTION_CALL"), Meaning.ERROR),
]


@pytest.mark.parametrize(("payload", "meaning"), MEANINGS)
def test_what_an_event_means_before_the_first_token(payload, meaning):
    assert reader.classify(payload) is meaning


def test_an_error_payload_says_why_there_is_no_answer():
    told = json.loads(reader.error_payload(event(finish="MALFORMED_FUNCTION_CALL")))
    assert "malformed function call" in error_of(told)["message"]


def test_the_chat_stream_behind_it_meters_and_completes():
    stream = ChatStream(Secrets(""))
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "thoughtsTokenCount": 5, "cachedContentTokenCount": 1}
    stream.take_all(events(sse(event({"text": "hello"}), event(finish="STOP", usage=usage))))
    assert (stream.finish, stream.done, stream.delivered, stream.size) == ("stop", True, True, 5)
    assert stream.usage == Usage(3, 7, 5, 1, 2, True)


# -- the same answer, whole and streamed, however it is cut

TEXT = st.fixed_dictionaries(
    {"text": st.text(max_size=6)},
    optional={"thought": st.booleans(), "thoughtSignature": st.just("c2ln")},
)
ARGS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3) | st.none(), max_size=2)
CALL = st.fixed_dictionaries(
    {"functionCall": st.fixed_dictionaries({"name": st.sampled_from(["f", "g"])}, optional={"args": ARGS})},
    optional={"thoughtSignature": st.just("c2ln"), "thought_signature": st.just("b3RoZXI=")},
)
PICTURE = st.fixed_dictionaries(
    {
        "inlineData": st.fixed_dictionaries(
            {"mimeType": st.sampled_from(["image/png", "audio/wav"]), "data": st.sampled_from(["", "QUJD"])}
        )
    },
    optional={"thought": st.booleans()},
)
PARTS = st.lists(TEXT | CALL | PICTURE, max_size=3)
COUNTS = st.dictionaries(
    st.sampled_from(["promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "totalTokenCount"]),
    st.integers(-1, 9) | st.just("7") | st.just("x"),
)
ENDINGS = st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "OTHER", "MALFORMED_FUNCTION_CALL"])


def joined(found):
    """The message, the finish reason and the usage of a chat stream put together."""
    message = {"role": "assistant", "content": ""}
    assert found[-1] == b"[DONE]"
    for each in found[:-1]:
        (choice,) = each["choices"]
        delta = choice["delta"]
        message["content"] += delta.get("content", "")
        for name in ("tool_calls", "images"):
            if name in delta:
                message.setdefault(name, []).extend(delta[name])
    for index, call in enumerate(message.get("tool_calls", ())):
        assert call.pop("index") == index
    message["content"] = message["content"] or None
    return message, choice["finish_reason"], each.get("usage")


@settings(max_examples=80)
@given(st.lists(PARTS, max_size=4), ENDINGS, st.none() | COUNTS, st.data())
def test_a_stream_says_what_the_joined_answer_says(turns, ending, usage, data):
    more = {} if usage is None else {"usageMetadata": usage}
    whole = event(*(part for parts in turns for part in parts), finish=ending, **more)
    body = sse(*(event(*parts) for parts in turns), event(finish=ending, **more))
    cut = data.draw(st.integers(0, len(body)))
    streamed = payloads(body[:cut], body[cut:])
    assert streamed == payloads(body)
    try:
        completion = json.loads(egress.to_chat(whole, model="m", new_id=lambda: ID))
    except Untranslatable:
        assert "malformed function call" in error_of(streamed[-1])["message"]
        return
    (choice,) = completion["choices"]
    assert joined(streamed) == (choice["message"], choice["finish_reason"], completion.get("usage"))


def test_every_cut_of_a_body_gives_the_same_stream():
    body = b": hi\n\n" + sse(
        event({"text": "ä\u2028b"}), event({"functionCall": {"name": "f", "args": {"a": "ü"}}}), event(finish="STOP")
    )
    expected = payloads(body)
    for cut in range(len(body)):
        assert payloads(body[:cut], body[cut:]) == expected


@settings(max_examples=60)
@given(
    st.lists(
        st.binary(max_size=30) | st.sampled_from(NO_EVENTS) | PARTS.map(lambda parts: event(*parts, finish="STOP")),
        max_size=5,
    )
)
def test_garbage_never_raises_and_an_error_is_the_last_event(frames):
    found = events(b"".join(b"data: " + frame + b"\n\n" for frame in frames))
    decoded = [each.data if each.data == b"[DONE]" else msgspec.json.decode(each.data) for each in found]
    assert all("error" not in each for each in decoded[:-1])
    for frame in frames:
        reader.classify(frame)
        error_of(json.loads(reader.error_payload(frame)))
