"""Two broken halves of one answer as their client sees them: one stream (part of beyond 1)."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.secrecy import Secrets
from proxy.stream.kept import FOLD, Delivered, KeptStream
from proxy.stream.recovered import COMMENT, RecoveredStream
from proxy.stream.splice import REPEAT_MIN, Continuation, Repetition, Seam
from proxy.stream.sse import Framer
from proxy.usage import Usage
from tests.pure.test_splice import TEXTS

KEY = "sk-0123456789abcdef"
DONE = b"data: [DONE]\n\n"
BILLED = Usage(7, 5, 2)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **top: Any) -> bytes:
    choices = top.pop("choices", [{"index": 0, "delta": delta or {}, "finish_reason": finish}])
    whole = {"id": "b", "object": "chat.completion.chunk", "model": "mb", **top, "choices": choices}
    return b"data: " + json.dumps(whole, ensure_ascii=False).encode() + b"\n\n"


def said(*texts: str, **top: Any) -> list[bytes]:
    return [chunk({"content": text}, **top) for text in texts]


ROLE = chunk({"role": "assistant", "content": ""})
STOP = chunk({}, "stop")
USAGE = chunk(usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, choices=[])


def fed(stream: KeptStream, *events: bytes) -> bytes:
    """What the client gets of *events*, which arrive together."""
    return stream.take_all(Framer().feed(b"".join(events)))


def begun(*events: bytes, key: str = "") -> Delivered:
    """What a client has of a first answer with id ``a``."""
    kept = Delivered()
    fed(KeptStream(Secrets(key), kept), *(event.replace(b'"id": "b"', b'"id": "a"') for event in events))
    return kept


def after(text: str, seam: type[Continuation] | type[Repetition] = Repetition, **more: Any) -> RecoveredStream:
    kept = begun(ROLE, *said(text))
    return RecoveredStream(Secrets(""), kept, seam(kept.text), BILLED, **more)


def frames(out: bytes) -> list[Any]:
    return [json.loads(e.data) for e in Framer().feed(out) if e.data not in (None, b"[DONE]")]


def text_of(out: bytes) -> str:
    return "".join(f["choices"][0]["delta"].get("content") or "" for f in frames(out) if f["choices"])


@given(TEXTS, st.data())
def test_the_client_gets_exactly_the_whole_text_once(whole: str, data: st.DataObject):
    """part of beyond 1: whatever the text, where it was cut, how both answers were cut into chunks and chunks into
    writes, and whether the second goes on or begins again: the client's text is the whole, under one id and one role"""

    def pieces(text: str) -> list[str]:
        places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)) | {0, len(text)})
        return [text[start:end] for start, end in pairwise(places)]

    at = data.draw(st.integers(0, len(whole)))
    kept = begun(ROLE, *said(*pieces(whole[:at])))
    seam: Seam
    if not kept.text.strip() or data.draw(st.booleans()):
        seam, second = Repetition(kept.text), whole
    else:
        seam = going_on = Continuation(kept.text)
        second = whole[len(going_on.asked) :]
        if len(going_on.asked) >= REPEAT_MIN and (second.startswith(going_on.asked) or data.draw(st.booleans())):
            second = whole
    stream = RecoveredStream(Secrets(""), kept, seam, BILLED)
    events = [ROLE, *said(*pieces(second)), STOP, DONE]
    out = b"".join(fed(stream, event) for event in events) if data.draw(st.booleans()) else fed(stream, *events)
    assert whole[:at] + text_of(out) == whole == kept.text
    assert {frame["id"] for frame in frames(out)} == {"a"} and {frame["model"] for frame in frames(out)} == {"mb"}
    assert not any("role" in frame["choices"][0]["delta"] for frame in frames(out))
    assert [f["choices"][0]["finish_reason"] for f in frames(out)].count("stop") == 1
    assert out.endswith(COMMENT + DONE) and out.count(DONE) == 1


def test_usage_is_the_sum_of_what_was_billed():
    stream = after("one ", send_usage=True)
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 40,
        "total_tokens": 70,
        "completion_tokens_details": {"reasoning_tokens": 1, "other": 9},
    }
    out = fed(stream, *said("one two"), STOP, chunk(usage=usage, choices=[]), DONE)
    assert frames(out)[-1]["usage"] == {
        "prompt_tokens": 37,
        "completion_tokens": 45,
        "total_tokens": 82,
        "completion_tokens_details": {"reasoning_tokens": 3, "other": 9},
    }
    assert stream.usage == Usage(30, 40, 1), "billed is what this one reported"


def test_usage_in_another_spelling_is_summed_too():
    usage = {"prompt_tokens": "30", "completion_tokens": 40.0}
    out = fed(after("one ", send_usage=True), *said("one two"), STOP, chunk(usage=usage, choices=[]))
    assert frames(out)[-1]["usage"] == {"prompt_tokens": 37, "completion_tokens": 45, "total_tokens": 82}


def test_usage_in_the_last_chunk_of_text_is_summed_too():
    out = fed(after("one "), chunk({"content": "one two"}, "stop", usage={"prompt_tokens": 1, "completion_tokens": 2}))
    assert frames(out)[0]["usage"] == {"prompt_tokens": 8, "completion_tokens": 7, "total_tokens": 15}


def test_an_answer_that_breaks_while_it_repeats_is_broken_and_no_other_one():
    stream = after("one two")
    assert fed(stream, *said("one")) == b""
    assert not stream.complete and not stream.diverged()


@pytest.mark.parametrize("events", [said("two"), [*said("one"), STOP], [*said("one"), DONE], [STOP]])
def test_an_answer_that_differs_or_ends_too_early_brings_nothing(events: list[bytes]):
    """part of beyond 1"""
    stream = after("one two")
    assert fed(stream, *events) == b""
    assert stream.over and stream.diverged()


def test_a_tool_call_before_the_text_was_repeated_is_another_answer():
    stream = after("one two")
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    assert fed(stream, *said("one "), chunk(call)) == b""
    assert stream.diverged()


def test_a_tool_call_behind_the_text_goes_on_and_ends_what_can_be_recovered():
    stream = after("one two")
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    out = fed(stream, *said("one two"), chunk(call))
    assert frames(out)[0]["choices"][0]["delta"] == call
    assert not stream.kept.unfinished


def test_thinking_of_the_second_candidate_stays_behind():
    """Thinking can not follow text; comments keep the connection alive meanwhile."""
    out = fed(after("one "), chunk({"reasoning_content": "hm"}), b": ping\n\n", *said("one two"))
    assert out.startswith(b": ping\n\n")
    assert [f["choices"][0]["delta"] for f in frames(out)] == [{"content": "two"}]


def test_text_kept_back_for_the_seam_comes_before_the_end():
    for end in ([STOP], [DONE], [USAGE]):
        stream = after("one two three", Continuation)
        out = fed(stream, *said("one "), *end)
        if end == [USAGE]:
            assert not stream.diverged()
            out = stream.end_mark()
        assert text_of(out) == "one "
        assert out.count(COMMENT) == (STOP not in end)


def test_content_in_parts_is_another_answer_before_the_seam_and_passes_behind_it():
    parts = {"content": [{"type": "text", "text": "three"}]}
    assert fed(stream := after("one two"), chunk(parts)) == b"" and stream.diverged()
    out = fed(stream := after("one two"), *said("one two"), chunk(parts), STOP)
    assert frames(out)[0]["choices"][0]["delta"] == parts
    assert not stream.kept.unfinished


def test_content_in_parts_comes_behind_the_text_kept_back_for_the_seam():
    parts = {"content": [{"type": "text", "text": "three"}]}
    out = fed(after("one two three", Continuation), *said("one two "), chunk(parts))
    assert frames(out)[0]["choices"][0]["delta"] == {
        "content": [{"type": "text", "text": "one two "}, *parts["content"]]
    }


def test_a_last_chunk_without_a_delta_belongs_to_the_answer_too():
    """beyond 1: one id, usage summed, and no text behind the end"""
    stream = after("one two three", Continuation, send_usage=True)
    end = chunk(choices=[{"index": 0, "delta": None, "finish_reason": "stop"}])
    last = chunk(choices=None, usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7})
    out = frames(fed(stream, *said("one "), end, last, DONE))
    assert [frame["id"] for frame in out] == ["a", "a"]
    assert out[0]["choices"][0] == {"index": 0, "delta": {"content": "one "}, "finish_reason": "stop"}
    assert out[1]["usage"]["total_tokens"] == 7 + BILLED.total


def test_an_end_marker_behind_nothing_is_no_end():
    stream = after("one", Continuation)
    assert fed(stream, ROLE, DONE) == b""
    assert not stream.complete


def test_the_key_of_the_second_candidate_is_masked_and_counted_as_delivered():
    kept = begun(ROLE, *said("one "))
    stream = RecoveredStream(Secrets(KEY), kept, Continuation(kept.text), BILLED)
    out = fed(stream, *said(" two ", KEY[:9], KEY[9:], "!"), STOP)
    assert text_of(out) == "two [redacted]!"
    assert kept.text == "one two [redacted]!"


def test_what_was_delivered_is_what_was_sent_not_what_came():
    thinking = said("<think>", "hm", "</think>", "one ", KEY, " two")
    kept = begun(ROLE, *thinking, USAGE, key=KEY)
    assert (kept.text, kept.id, kept.role, kept.unfinished) == ("one [redacted] two", "a", True, True)


def test_an_error_event_is_held_back():
    kept = Delivered()
    stream = KeptStream(Secrets(KEY), kept)
    out = fed(stream, *said("one"), b'data: {"error": {"message": "no ' + KEY.encode() + b'"}}\n\n', *said("two"))
    assert text_of(out) == "one" and b"error" not in out
    assert stream.held == b'data: {"error": {"message": "no [redacted]"}}\n\n'


def test_chunks_that_pass_unread_are_kept_too():
    kept = Delivered()
    stream = KeptStream(Secrets(""), kept)
    fed(stream, *said("one "))
    more = b"".join(said("two ", "three"))
    assert stream.repeated(more) == len(more)
    assert kept.text == "one two three"


def test_a_long_answer_is_kept_as_its_text():
    kept = Delivered()
    stream = KeptStream(Secrets(""), kept)
    words = [f"word{n} " for n in range(2000)]
    for word in words:
        fed(stream, *said(word))
    assert kept._size <= FOLD
    assert kept.text == "".join(words)


@pytest.mark.parametrize(
    "event",
    [
        chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": ""}}]}),
        chunk({"function_call": {"name": "f"}}),
        chunk({"images": [{"image_url": {"url": "data:"}}]}),
        chunk({"audio": {"data": "AAAA"}}),
        chunk({"refusal": "no"}),
        chunk({"content": [{"type": "text", "text": "x"}]}),
        chunk(choices=[{"index": 1, "delta": {"content": "x"}}]),
        chunk(choices=[{"index": 0, "delta": {}}, {"index": 1, "delta": {"content": "x"}}]),
        chunk(choices=[{"index": 0, "text": "x"}]),
        chunk(choices=[{"index": 0, "delta": "x"}]),
        chunk(choices=["x"]),
        b'data: {"type": "unknown"}\n\n',
        b"data: 5\n\n",
        STOP,
    ],
)
def test_only_unfinished_text_of_one_choice_can_be_finished_by_another(event: bytes):
    """part of beyond 1: not once a tool call, an image, audio, a second choice or the finish reason was delivered"""
    assert begun(ROLE, *said("one"), chunk({"reasoning_content": "hm"})).unfinished
    assert not begun(ROLE, *said("one"), event).unfinished


def test_a_frame_that_is_no_chat_chunk_passes():
    stream = after("one", Continuation)
    assert fed(stream, b'data: {"choices": {"x": 1}}\n\n') == b'data: {"choices": {"x": 1}}\n\n'
    assert fed(stream, b"data: 5\n\n") == b"data: 5\n\n"
