"""Every target by name, with inputs that are worth being changed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.fuzz import bodies, gemini, messages, quotas, responses, streams


class Target(NamedTuple):
    """*run* takes any bytes and raises what is a fault."""

    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def _sse(*payloads: bytes, names: bool = False) -> bytes:
    if not names:
        return b"".join(b"data: %b\n\n" % payload for payload in payloads)
    return b"".join(b"event: %b\ndata: %b\n\n" % (payload.split(b'"')[3], payload) for payload in payloads)


KEY = bodies.KEY.encode()
CHAT_CHUNKS = (
    *responses.CHUNKS,
    b'{"choices":[{"index":0,"delta":{"role":"assistant","content":"<think>h"}}]}',
    b'{"choices":[{"index":0,"delta":{"content":"</think>a"}}]}',
    b'{"id":"c","choices":[{"index":0,"delta":{"reasoning_details":[{"type":"reasoning.text","text":"d"}]}}]}',
    b'{"choices":[{"index":0,"delta":{"content":"' + KEY[:9] + b'"}}]}',
    b'{"choices":[{"index":0,"delta":{"content":"' + KEY[9:] + b'"},"finish_reason":"end_turn"}]}',
    b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":"4","prompt_tokens_details":{"cached_tokens":1}}}',
    b"[DONE]",
)
CHAT_STREAMS = (
    _sse(*responses.CHUNKS),
    _sse(*CHAT_CHUNKS[7:]),
    b": c\r\n\r\n" + _sse(*responses.CHUNKS[:3], *[responses.CHUNKS[1]] * 3, responses.ERROR_CHUNK),
    _sse(*responses.CHUNKS[1:3]) + b'data: {"choices":[]\ndata: }\n\n: x\nid: 5\n' + _sse(*responses.CHUNKS[4:]),
)
MESSAGES_EVENTS = (
    b'{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],'
    b'"usage":{"input_tokens":3,"cache_read_input_tokens":1,"output_tokens":1}}}',
    b'{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}',
    b'{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}',
    b'{"type":"content_block_stop","index":0}',
    b'{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
    b'{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}',
    b'{"type":"content_block_stop","index":1}',
    b'{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}',
    b'{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":1}"}}',
    b'{"type":"content_block_stop","index":2}',
    b'{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":4}}',
    b'{"type":"message_stop"}',
)
MESSAGES_ERROR = b'{"type":"error","error":{"type":"overloaded_error","message":"m"}}'
MESSAGES_STREAMS = (
    _sse(*MESSAGES_EVENTS, names=True),
    _sse(*MESSAGES_EVENTS[:1], *MESSAGES_EVENTS[5:8], *MESSAGES_EVENTS[11:], names=True),
    b": c\n\n" + _sse(*MESSAGES_EVENTS[:7], b'{"type":"ping"}', MESSAGES_ERROR, names=True),
)
MESSAGES_REQUEST = (
    b'{"model":"m","max_tokens":50,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":'
    b'[{"role":"user","content":[{"type":"text","text":"t"},{"type":"image","source":{"type":"base64","media_type":'
    b'"image/png","data":"QUJD"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"d"}}]},'
    b'{"role":"assistant","content":[{"type":"thinking","thinking":"h","signature":"c2ln"},{"type":"tool_use","id":'
    b'"toolu_1_thoughtsig_c2ln","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result",'
    b'"tool_use_id":"toolu_1_thoughtsig_c2ln","content":[{"type":"text","text":"o"}]}]}],"tools":[{"name":"f",'
    b'"description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"},"temperature":0.5,'
    b'"stop_sequences":["x"],"thinking":{"type":"enabled","budget_tokens":1024},"stream":true,"metadata":{"user_id":"u"}}'
)
MESSAGES_ANSWER = (
    b'{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"h",'
    b'"signature":"c2ln"},{"type":"text","text":"a"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1}}],'
    b'"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"cache_read_input_tokens":1,'
    b'"output_tokens":4}}'
)
MESSAGES: dict[str, tuple[bytes, ...]] = {
    "request": (MESSAGES_REQUEST,),
    "chat_request": (gemini.CHAT,),
    "native_request": (MESSAGES_REQUEST,),
    "answer": (MESSAGES_ANSWER, MESSAGES_ERROR),
    "chat_answer": (responses.ANSWER,),
    "stream": MESSAGES_STREAMS,
    "chat_stream": CHAT_STREAMS,
    "error": (MESSAGES_ERROR, b"toolu_1_thoughtsig_c2ln", b"'thinking.type.enabled' is not supported: use adaptive"),
}
CHAT_REQUEST = (
    b'{"model":"a/b","stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"top_p":1.0,"messages":'
    b'[{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":"t"},{"role":"assistant",'
    b'"content":"x","tool_calls":[]}],"tools":[{"type":"function","function":{"name":"f"}}],"response_format":'
    b'{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},"input":["a",1,{"text":"b"}]}'
)
CHAT_ANSWER = (
    b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"<think>h</think>a","reasoning_details":'
    b'[{"type":"reasoning.text","text":"d"}],"refusal":null},"finish_reason":"end_turn"}],"usage":{"prompt_tokens":3,'
    b'"completion_tokens":"4","total_tokens":7.0,"prompt_tokens_details":{"cached_tokens":1}}}'
)
USAGE = (
    b'{"prompt_tokens":3,"completion_tokens":4,"completion_tokens_details":{"reasoning_tokens":1},'
    b'"prompt_tokens_details":{"cached_tokens":1},"prompt_cache_hit_tokens":"2","cache_read_input_tokens":1.0}'
)
FORM = (
    b'b\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\na/b\r\n--b\r\nContent-Disposition: form-data; '
    b'name="file"; filename="a.wav"; filename*=UTF-8\'\'%e2%82%ac.wav\r\nContent-Type: audio/wav\r\n\r\nRIFF\x00\r\n'
    b'--b\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n--b--\r\n'
)
ERRORS = (
    b'{"error":{"message":"Model `model-1` does not exist","type":"invalid_request_error","code":"model_not_found"}}',
    b'{"error":{"message":"\'top_p\' and \'temperature\' cannot both be specified; use max_completion_tokens instead '
    b"of max_tokens. key " + KEY + b'","code":400}}',
    b'[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]',
    b'{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}',
    b"upstream: maximum context length, response_format json_schema is not supported",
)
RATE_LIMITS = (
    b'retry-after: 12\nx-ratelimit-reset-requests: 1m30s\nx-ratelimit-remaining: 0\n\n{"error":{"message":"Rate limit '
    b'exceeded, please try again in 20ms","details":[{"retryDelay":"34.5s"}]}}',
    b"retry-after: Mon, 30 Nov 2026 10:00:00 GMT\nx-ratelimit-reset: 1800000000000\n\n"
    b"insufficient_quota: try again in 2 hours",
    b'retry-after: 1e9\n\n{"base_resp":{"status_code":1039}}',
)
HTTP = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many\r\nContent-Length: 2\r\nRetry-After: 1\r\n\r\n{}",
    b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nto the end",
    b"HTTP/1.1 204 No Content\r\n\r\n",
)

TARGETS: dict[str, Target] = {
    "sse.frames": Target(
        streams.frames, (*CHAT_STREAMS, MESSAGES_STREAMS[0][:400], b"\xef\xbb\xbf \n\rdata:a\r\ndata\r\n\r\n")
    ),
    "sse.capped": Target(streams.capped, (b"data: a\ndata: b\n\n" * 4, b"data: " + b"x" * 60 + b"\n\n", b"a\n" * 70)),
    "probe": Target(streams.payload, (*CHAT_CHUNKS, responses.ERROR_CHUNK)),
    "chat.request": Target(bodies.request, (CHAT_REQUEST, gemini.CHAT)),
    "chat.answer": Target(bodies.answer, (CHAT_ANSWER, responses.ANSWER)),
    "chat.stream": Target(streams.chat, CHAT_STREAMS),
    "chat.kept": Target(streams.kept, CHAT_STREAMS),
    "chat.recovered": Target(streams.recovered, CHAT_STREAMS),
    "chat.splice": Target(streams.splice, (b"one two three  \0 three four", b"one two three\0one two three four")),
    "jsonmode": Target(bodies.schema, (CHAT_REQUEST, gemini.CHAT)),
    "usage": Target(bodies.usage, (USAGE,)),
    "passed.answers": Target(
        bodies.other_answers,
        (
            b'{"data":[{"embedding":[0.1],"index":0,"b64_json":"QUJD"}],"usage":{"prompt_tokens":3,"total_tokens":3}}',
            b'{"results":[{"index":0,"relevance_score":0.5}],"meta":{"billed_units":{"search_units":1}}}',
            b'data: {"type":"x.completed","usage":{"input_tokens":3,"output_tokens":4}}\r\n\r\n',
        ),
    ),
    "multipart": Target(bodies.form, (FORM,)),
    "http": Target(bodies.http, HTTP),
    "errors": Target(bodies.error, ERRORS),
    "ratelimit": Target(bodies.rate_limit, RATE_LIMITS),
    "quotas": Target(quotas.run, quotas.SEEDS),
    "thoughtsig": Target(bodies.signature, (b"toolu_1_thoughtsig_c2ln", b"call_thoughtsig_YQ_thoughtsig_YQ")),
    "secrecy": Target(bodies.guard, (b"a " + KEY + b" b " + KEY[:9] + KEY, KEY[:6] + KEY[:12] + b"sk-ups")),
    **{f"messages.{run.__name__}": Target(run, MESSAGES[run.__name__]) for run in messages.ALL},
    **{f"gemini.{run.__name__}": Target(run, seeds) for run, seeds in gemini.TARGETS.items()},
    **{f"responses.{run.__name__}": Target(run, seeds) for run, seeds in responses.TARGETS.items()},
}
_STREAMS: dict[str, Sequence[bytes]] = {
    "chat": CHAT_STREAMS,
    "messages": MESSAGES_STREAMS,
    "gemini": gemini.TARGETS[gemini.stream],
    "responses": responses.STREAMS,
}
for _reader in streams.READERS:
    for _writer in streams.WRITERS:
        if (_reader, _writer) != ("chat", "chat"):
            TARGETS[f"{_reader}.to.{_writer}"] = Target(streams.translated(_reader, _writer), tuple(_STREAMS[_reader]))
for _dialect in streams.WATCHERS:
    TARGETS[f"{_dialect}.native"] = Target(streams.native(_dialect), tuple(_STREAMS[_dialect]))
