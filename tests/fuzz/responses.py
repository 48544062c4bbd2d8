"""The translators of the Responses dialect, fed with any bytes: an exception that leaves one of these is a fault.

:data:`TARGETS` holds every function with inputs that are worth being changed.
"""

import contextlib
import json
from collections.abc import Callable

import msgspec

from proxy.body import BadBody
from proxy.dialects import callids
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.chat import read_answer
from proxy.dialects.responses import egress, ingress, native, reader, reroute
from proxy.dialects.responses.native import Native
from proxy.dialects.responses.reader import Reader
from proxy.dialects.responses.writer import Writer
from proxy.stream import probe
from proxy.stream.sse import Framer
from tests.fuzz import readers

_members = msgspec.json.Decoder(Members).decode


def request(data: bytes) -> None:
    """A client's body becomes a chat request that can be built on, or is refused."""
    try:
        asked = ingress.parse(data)
    except BadBody as bad:
        assert bad.status == 400 and bad.message
        return
    assert asked.own is not None
    fitted = callids.for_chat(asked.members, None, limit=40, signatures=False)
    assert isinstance(json.loads(msgspec.json.encode(fitted))["messages"], list)
    assert json.loads(native.build(asked.own, model="m"))["model"] == "m"
    Writer(asked.own).end()
    with contextlib.suppress(Untranslatable):
        egress.build(asked.members, model="m", stream=asked.stream)


def chat_request(data: bytes) -> None:
    """A chat body becomes a Responses body, or is refused."""
    try:
        data.decode()
        chat = _members(data)
    except (ValueError, RecursionError):
        return
    reroute.qualifies(chat)
    with contextlib.suppress(Untranslatable):
        assert json.loads(egress.build(chat, model="m", stream=True))["store"] is False


def whole(data: bytes) -> None:
    """A provider's answer becomes a chat completion that can be judged and told again, or is none."""
    native.read_answer(data)
    with contextlib.suppress(Untranslatable):
        chat = egress.to_chat(data, model="m")
        assert read_answer(chat).verdict != "undecodable"
        assert json.loads(Writer({}).whole(chat, "m"))["object"] == "response"


def chat_answer(data: bytes) -> None:
    """A chat completion that is served becomes a Response object."""
    judged = read_answer(data)
    if judged.verdict in ("served", "bare_finish"):
        assert json.loads(Writer({}).whole(judged.body, "m"))["object"] == "response"
    else:
        with contextlib.suppress(Untranslatable):
            Writer({}).whole(data, "m")


def stream(data: bytes) -> None:
    """A body in two pieces is the same as in one; an error is the last event; the chat stream takes every event."""
    readers.read(lambda: Reader("m", new_id=lambda: "id", now=lambda: 0.0), data)


def _written(*pieces: bytes) -> bytes:
    writer = Writer({}, new_id=lambda: "id", now=lambda: 0.0)
    writer.begin("m")
    return b"".join([writer.feed(piece) for piece in pieces]) + writer.end()


def chat_stream(data: bytes) -> None:
    """A chat stream in two pieces is the same as in one; its events are numbered without a gap and end in one end."""
    cut = data[0] * len(data) // 256 if data else 0
    out = _written(data)
    assert _written(data[:cut], data[cut:]) == out
    events = [json.loads(event.data) for event in Framer().feed(out) if event.data is not None]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    ends = [event["type"] in ("response.completed", "response.incomplete", "response.failed") for event in events]
    assert ends.index(True) == len(ends) - 1


def native_stream(data: bytes) -> None:
    """A stream that is only watched can be ended, or taken over, at any time."""
    framer, watched, writer = Framer(), Native(), Writer({})
    for event in (*framer.feed(data), *framer.finish()):
        watched.take(event)
        writer.follow(event)
    writer.begin("m")
    writer.feed(_sse(CHUNKS[1], CHUNKS[4]))
    writer.end()
    end = watched.error_frame(Native.TRUNCATED, "provider_error")
    assert json.loads(end.split(b"\ndata: ", 1)[1])["response"]["status"] == "failed"


def event(data: bytes) -> None:
    """One payload has a meaning, and an error in OpenAI's form if it is taken for one."""
    reader.classify(data)
    told = reader.error_payload(data)
    probe.carried_status(told)
    error = json.loads(told)["error"]
    assert isinstance(error["message"], str)
    assert error["code"] is None or isinstance(error["code"], str)


REQUEST = (
    b'{"model":"m","instructions":"i","input":[{"role":"developer","content":[{"type":"input_text","text":"a"},'
    b'{"type":"input_text","text":"b"}]},{"type":"message","role":"user","content":[{"type":"input_image",'
    b'"image_url":"data:image/png;base64,QUJD","detail":"low"},{"type":"input_file","file_data":"data:,x"}]},'
    b'{"type":"reasoning","summary":[],"encrypted_content":"g"},{"type":"function_call","name":"log",'
    b'"namespace":"git","call_id":"c","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":'
    b'[{"type":"input_text","text":"o"}]}],"tools":[{"type":"function","name":"f","parameters":{},"strict":false},'
    b'{"type":"namespace","name":"git","tools":[{"type":"function","name":"log"}]},{"type":"web_search"}],'
    b'"tool_choice":{"type":"function","name":"log"},"parallel_tool_calls":true,"reasoning":{"effort":"low"},'
    b'"text":{"format":{"type":"json_schema","name":"n","schema":{}}},"max_output_tokens":5,"store":false,'
    b'"stream":true,"include":["reasoning.encrypted_content"]}'
)
CHAT = (
    b'{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"t"},'
    b'{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"file","file":{"file_data":'
    b'"data:,x"}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":'
    b'{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"o"}],"tools":[{"type":'
    b'"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto","max_tokens":5,'
    b'"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}},"reasoning_effort":"low"}'
)
RESPONSE = (
    b'{"id":"resp_1","object":"response","created_at":7,"status":"incomplete","incomplete_details":{"reason":'
    b'"max_output_tokens"},"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"h"},{"type":'
    b'"summary_text","text":"m"}]},{"type":"message","content":[{"type":"output_text","text":"a"},{"type":'
    b'"refusal","refusal":"n"}]},{"type":"function_call","id":"fc","call_id":"c","name":"f","arguments":"{}"}],'
    b'"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1},"output_tokens":4,'
    b'"output_tokens_details":{"reasoning_tokens":2},"total_tokens":7}}'
)
ANSWER = (
    b'{"choices":[{"message":{"content":"a","reasoning_content":"r","refusal":"n","tool_calls":[{"id":"c","function":'
    b'{"name":"f","arguments":"{}"}}]},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":"4"}}'
)
EVENTS = (
    b'{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","created_at":7}}',
    b'{"type":"response.reasoning_summary_part.added"}',
    b'{"type":"response.reasoning_summary_text.delta","delta":"h"}',
    b'{"type":"response.output_text.delta","sequence_number":4,"delta":"a"}',
    b'{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc","name":"f"}}',
    b'{"type":"response.function_call_arguments.delta","output_index":1,"item_id":"fc","delta":"{"}',
    b'{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","id":"g","arguments":"{}"}}',
    b'{"type":"response.incomplete","response":' + RESPONSE + b"}",
)
FAILURES = (
    b'{"type":"error","code":"rate_limit_exceeded","message":"m","param":null}',
    b'{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}',
    b'{"error":{"type":"invalid_request_error","code":400,"message":"m"}}',
)
CHUNKS = (
    b'{"choices":[{"index":0,"delta":{"reasoning_content":"r"}}]}',
    b'{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}',
    b'{"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}',
    b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}',
    b'{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":"stop"}]}',
    b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}',
    b"[DONE]",
)
ERROR_CHUNK = b'{"error":{"message":"m","code":"c"}}'


def _sse(*payloads: bytes) -> bytes:
    return b"".join(b"data: %b\n\n" % payload for payload in payloads)


STREAMS = (_sse(*EVENTS), b": c\r\n\r\n" + _sse(*EVENTS[:4], FAILURES[0], FAILURES[1]), _sse(*EVENTS[:6]))
TARGETS: dict[Callable[[bytes], None], tuple[bytes, ...]] = {
    request: (REQUEST,),
    chat_request: (CHAT,),
    whole: (RESPONSE,),
    chat_answer: (ANSWER,),
    stream: STREAMS,
    native_stream: STREAMS,
    chat_stream: (_sse(*CHUNKS), b": c\n\n" + _sse(*CHUNKS[:3], ERROR_CHUNK), _sse(CHUNKS[1], *CHUNKS[1:])),
    event: (*EVENTS, *FAILURES, b"[DONE]"),
}
