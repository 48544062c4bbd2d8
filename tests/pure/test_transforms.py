"""What a chat chunk looks like after the transforms, and what one stream adds up to."""

import json
import time
from typing import Any

import pytest

from proxy.secrecy import Secrets
from proxy.stream.chat import ChatStream
from proxy.stream.sse import Framer
from proxy.stream.transforms import ChunkTransforms, Thinking
from tests.pace import slower


def chunk(delta: Any = None, finish: str | None = None, **top: Any) -> dict[str, Any]:
    choice: dict[str, Any] = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice], **top}


def run(*chunks: Any, strip: bool = False) -> list[Any]:
    """The deltas (or whole chunks without choices) that come out; None for a dropped one."""
    transforms = ChunkTransforms(strip_reasoning=strip)
    out: list[Any] = []
    for item in chunks:
        changed = transforms.apply(json.dumps(item).encode())
        out.append(None if changed is None else json.loads(changed))
    return out


def deltas(*chunks: Any, strip: bool = False) -> list[Any]:
    return [None if out is None else out["choices"][0]["delta"] for out in run(*chunks, strip=strip)]


def test_an_ordinary_chunk_is_the_same_object():
    payload = b'{"choices": [{"delta": {"content":  "a"}}]}'
    assert ChunkTransforms(strip_reasoning=True).apply(payload) is payload


@pytest.mark.parametrize(
    "payload", [b"5", b"[]", b"{}", b'{"choices":[]}', b'{"choices":[5]}', b'{"choices":[{"delta":5}]}']
)
def test_a_shape_that_is_no_chat_chunk_passes(payload: bytes):
    assert ChunkTransforms(strip_reasoning=True).apply(payload) is payload


def test_reasoning_fills_reasoning_content_and_stays_beside_it():
    assert deltas(chunk({"reasoning": "hm"})) == [{"reasoning": "hm", "reasoning_content": "hm"}]


def test_reasoning_details_fill_reasoning_content():
    details = [
        {"type": "reasoning.text", "text": "a"},
        {"type": "other", "text": "x"},
        {"type": "reasoning.text", "text": "b"},
    ]
    assert deltas(chunk({"reasoning_details": details}))[0]["reasoning_content"] == "ab"


def test_a_filled_reasoning_content_is_left_alone():
    assert deltas(chunk({"reasoning": "x", "reasoning_content": "y"})) == [{"reasoning": "x", "reasoning_content": "y"}]


def test_thinking_tags_move_into_reasoning_content():
    """v1-api 61"""
    assert deltas(chunk({"content": "<think>a</think>b"})) == [{"content": "b", "reasoning_content": "a"}]


@pytest.mark.parametrize("tag", ["thinking", "thought", "start_thought", "think"])
def test_every_thinking_tag_is_known_closed_or_open(tag: str):
    assert deltas(chunk({"content": f"<{tag}>a</{tag}>b"})) == [{"content": "b", "reasoning_content": "a"}]
    assert deltas(chunk({"content": f"<{tag}>a"})) == [{"reasoning_content": "a"}]


def test_the_leading_fence_is_thinking():
    assert deltas(chunk({"content": "<<\na\n>>b"})) == [{"content": "b", "reasoning_content": "a"}]


def test_thinking_goes_on_over_chunks_until_its_tag_closes():
    out = deltas(*(chunk({"content": text}) for text in ("<think>", "a", "b</th", "ink>c", "d")))
    assert [(d.get("reasoning_content"), d.get("content")) for d in out] == [
        (None, ""),
        ("a", None),
        ("b", None),
        (None, "c"),
        (None, "d"),
    ]


def test_what_only_looked_like_a_closing_tag_is_not_lost():
    out = deltas(*(chunk({"content": text}) for text in ("<think>a</th", "e end</think>c")))
    assert [d.get("reasoning_content") for d in out] == ["a", "</the end"]
    out = deltas(chunk({"content": "<think>a</th"}), chunk({}, "stop"))
    assert [d.get("reasoning_content") for d in out] == ["a", "</th"]


def test_a_tag_in_the_middle_of_an_answer_counts_for_its_chunk_only():
    out = deltas(*(chunk({"content": text}) for text in ("Use ", "the <think>tag", " like this")))
    assert [d.get("content") for d in out] == ["Use ", "the ", " like this"]
    assert out[1]["reasoning_content"] == "tag"


def test_text_with_angle_brackets_is_untouched():
    assert Thinking().take("a < b and <b>bold</b>") == ("", "a < b and <b>bold</b>")


def test_an_empty_content_beside_reasoning_is_dropped():
    assert deltas(chunk({"content": "", "reasoning_content": "a"})) == [{"reasoning_content": "a"}]


@pytest.mark.parametrize(
    ("stated", "becomes"),
    [
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("eos", "stop"),
        ("MAX_TOKENS", "length"),
        ("insufficient_system_resource", "length"),
        ("tool_use", "tool_calls"),
        ("SAFETY", "content_filter"),
        ("refusal", "content_filter"),
        ("stop", "stop"),
        ("vendor_word", "vendor_word"),
    ],
)
def test_finish_reasons_speak_openai(stated: str, becomes: str):
    (out,) = run(chunk({}, stated))
    assert out["choices"][0]["finish_reason"] == becomes


def test_a_repeated_finish_reason_is_dropped():
    """v1-api 62"""
    out = run(chunk({}, "end_turn"), chunk({}, "end_turn"))
    assert out[0]["choices"][0]["finish_reason"] == "stop" and out[1] is None


def test_a_repeated_finish_reason_with_content_or_usage_stays():
    out = run(chunk({}, "stop"), chunk({"content": "x"}, "stop"), chunk({}, "stop", usage={"prompt_tokens": 1}))
    assert None not in out


def test_another_finish_reason_stays():
    assert None not in run(chunk({}, "tool_calls"), chunk({}, "stop"))


HOLLOW = {"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}}]}


def test_stripping_leaves_a_hollow_chunk():
    """v1-api 60"""
    assert run(chunk({"reasoning_content": "a"}), strip=True) == [HOLLOW]
    assert run(chunk({"role": "assistant", "content": "", "reasoning": "a"}), strip=True) == [HOLLOW]


def test_stripping_keeps_what_is_not_reasoning():
    assert deltas(chunk({"content": "x", "reasoning": "a"}), strip=True) == [{"content": "x"}]
    assert deltas(chunk({"reasoning_content": "a"}, "stop"), strip=True) == [{}]
    assert deltas(chunk({"tool_calls": [{"index": 0}], "reasoning": "a"}), strip=True) == [
        {"tool_calls": [{"index": 0}]}
    ]


def test_stripping_takes_thinking_tags_too():
    assert deltas(chunk({"content": "<think>a</think>b"}), strip=True) == [{"content": "b"}]


def test_a_stream_without_id_gets_a_hollow_chunk_all_the_same():
    payload = b'{"choices":[{"index":0,"delta":{"reasoning":"a"}}]}'
    out = ChunkTransforms(strip_reasoning=True).apply(payload)
    assert json.loads(out or b"")["id"] == "chatcmpl"


def test_numbers_of_a_rewritten_chunk_come_out_as_they_went_in():
    payload = b'{"x":9007199254740993,"y":0.10,"choices":[{"delta":{"reasoning":"a"},"logprobs":{"p":-1.50}}]}'
    out = ChunkTransforms(strip_reasoning=False).apply(payload) or b""
    assert b"9007199254740993" in out and b"0.10" in out and b"-1.50" in out


# -- the stream as a whole


def flow(*events: Any, stream: ChatStream | None = None, **options: Any) -> tuple[ChatStream, bytes]:
    stream = stream or ChatStream(Secrets(""), **options)
    framer = Framer()
    raw = b"".join(e if isinstance(e, bytes) else b"data: " + json.dumps(e).encode() + b"\n\n" for e in events)
    return stream, stream.take_all(framer.feed(raw) + framer.finish())


DONE = b"data: [DONE]\n\n"
USAGE = {"id": "c1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}}


def test_content_passes_byte_for_byte():
    raw = b'data: {"choices":[{"index":0, "delta":{"content":"hi"},  "finish_reason":null}], "usage":null}\n\n'
    stream, out = flow(raw)
    assert out == raw
    assert (stream.delivered, stream.complete, stream.size, stream.chunks) == (True, False, 2, 1)


def test_a_finish_reason_completes_a_stream():
    stream, _ = flow(chunk({"content": "a"}), chunk({}, "stop"))
    assert stream.complete


def test_a_usage_frame_completes_a_stream_and_is_dropped_unless_asked_for():
    """v1-api 55"""
    stream, out = flow(chunk({"content": "a"}), USAGE)
    assert stream.complete and stream.usage is not None and stream.usage.total == 8
    assert b"usage" not in out and out.count(b"\n\n") == 1
    _, out = flow(chunk({"content": "a"}), USAGE, send_usage=True)
    assert b"usage" in out


def test_usage_inside_a_content_chunk_is_read_and_stays_and_completes_nothing():
    stream, out = flow(chunk({"content": "a"}, usage={"prompt_tokens": 3, "completion_tokens": 1}))
    assert b"usage" in out and not stream.complete
    assert stream.usage is not None and stream.usage.prompt == 3


def test_the_last_usage_wins_and_cache_figures_survive():
    first = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
    stream, _ = flow(chunk({"content": "a"}, usage=first), USAGE)
    assert stream.usage is not None
    assert (stream.usage.prompt, stream.usage.completion, stream.usage.cache_hit) == (3, 5, 4)


def test_done_behind_output_completes_a_stream_and_passes():
    stream, out = flow(chunk({"content": "a"}), DONE)
    assert stream.complete and out.endswith(DONE)


def test_done_alone_neither_completes_nor_passes():
    stream, out = flow(chunk({"role": "assistant"}), DONE)
    assert not stream.complete and DONE not in out


def test_nothing_follows_done():
    _, out = flow(chunk({"content": "a"}), DONE, chunk({"content": "b"}))
    assert out.endswith(DONE)


def test_an_error_frame_is_forwarded_masked_and_is_the_last():
    """v1-api 52, failover-loop 77"""
    key = "sk-own-abcdefgh12345678"
    stream, out = flow(
        chunk({"content": "a"}), {"model": "m", "error": f"bad {key}"}, DONE, stream=ChatStream(Secrets(key))
    )
    assert stream.error is not None and stream.over
    assert out.endswith(b'data: {"model": "m", "error": "bad [redacted]"}\n\n')


def test_malformed_json_is_dropped_with_its_blank_line():
    """v1-api 59"""
    stream, out = flow(chunk({"content": "a"}), b"data: {broken\n\n", chunk({"content": "b"}))
    assert out.count(b"\n\n") == 2 and b"broken" not in out
    assert stream.unmodelled


@pytest.mark.parametrize(
    "payload", [b"5", b"[1]", b'"x"', b'{"type":"ping"}', b'{"choices":{"a":1}}', b'{"choices":[5]}']
)
def test_valid_json_of_an_unknown_shape_is_forwarded(payload: bytes):
    stream, out = flow(b"data: " + payload + b"\n\n")
    assert out == b"data: " + payload + b"\n\n"
    assert stream.unmodelled and not stream.delivered


def test_bookkeeping_is_neither_delivered_nor_unmodelled():
    stream, out = flow(
        {"id": "x", "object": "y"}, chunk({"role": "assistant", "content": ""}), b"data: \n\n", b": ping\n\n"
    )
    assert not stream.delivered and not stream.unmodelled
    assert stream.chunks == 2 and out.endswith(b": ping\n\n")


@pytest.mark.parametrize(
    ("delta", "size"),
    [
        ({"content": "äb"}, 3),
        ({"reasoning_content": "abc"}, 3),
        ({"reasoning": "abc", "reasoning_details": [{"type": "reasoning.text", "text": "abc"}]}, 3),
        (
            {
                "tool_calls": [
                    {"index": 0, "id": "call", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ]
            },
            3,
        ),
        ({"content": [{"type": "text", "text": "ab"}]}, 2),
        ({"refusal": "no"}, 2),
        ({"content": "a<b"}, 3),
    ],
)
def test_every_kind_of_output_is_delivered_and_measured(delta: Any, size: int):
    stream, _ = flow(chunk(delta))
    assert stream.delivered and stream.size == size


def test_legacy_text_and_later_choices_are_output():
    stream, _ = flow({"choices": [{"index": 0, "text": "ab"}]})
    assert stream.delivered and stream.size == 2
    stream, _ = flow(
        {"choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": {"content": "b"}, "finish_reason": "stop"}]}
    )
    assert stream.delivered and stream.complete


def test_a_bare_end_carries_nothing_unless_its_reason_is_an_answer():
    """circuit-breaker 6"""
    assert not flow(chunk({}, "stop"))[0].carries
    assert flow(chunk({}, "content_filter"))[0].carries
    assert flow(chunk({}, "MAX_TOKENS"))[0].carries
    assert flow(chunk({}, "stop"), USAGE)[0].carries


def test_the_candidates_key_is_masked_in_content_whole_or_spread():
    key = "sk-own-abcdefgh12345678"
    _, out = flow(chunk({"content": f"a {key}"}), stream=ChatStream(Secrets(key)))
    assert b"a [redacted]" in out
    _, out = flow(
        *(chunk({"content": t}) for t in ("a sk-own-", "abcdefgh", "12345678", " b")), stream=ChatStream(Secrets(key))
    )
    texts = [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in out.split(b"\n\n") if line]
    assert texts == ["a ", "", "[redacted]", " b"]


def test_the_key_in_a_tool_call_is_masked_too():
    key = "sk-own-abcdefgh12345678"
    call = [{"index": 0, "function": {"arguments": key}}]
    _, out = flow(chunk({"tool_calls": call}), stream=ChatStream(Secrets(key)))
    assert key.encode() not in out


@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("name", [b"content", b"reasoning_content", b"strange"])
def test_a_delta_with_a_deep_nesting_passes_and_its_text_counts(name: bytes, opened: bytes, closed: bytes):
    raw = b'data: {"choices":[{"delta":{"%b":%b"abc"%b}}]}\n\n' % (name, opened * 600, closed * 600)
    stream = ChatStream(Secrets(""))
    assert stream.take_all(Framer().feed(b":\n\n" + raw)) == b":\n\n" + raw
    assert (stream.size, stream.unmodelled) == ((0, True) if name == b"strange" else (3, False))


def test_many_tags_in_one_content_cost_by_their_length():
    content = "<think>a</think>b" * 120_000
    started = time.perf_counter()
    assert Thinking().take(content) == ("a" * 120_000, "b" * 120_000)
    assert time.perf_counter() - started < slower()
