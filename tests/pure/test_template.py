"""Chunks that repeat one another: known without decoding, judged as if each had been decoded."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.secrecy import Secrets
from proxy.stream.chat import TEMPLATE_TRIES, ChatStream
from proxy.stream.sse import Framer
from proxy.stream.template import Template

KEY = "sk-upstream-0123456789"


def chunk(content: object = None, **more: object) -> bytes:
    delta = {} if content is None else {"content": content}
    made = {"id": "c1", "created": 1, "choices": [{"index": 0, "delta": delta, "finish_reason": None} | more]}
    return b"data: " + json.dumps(made, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def passed_on(pieces: list[bytes], *, template: bool) -> tuple[bytes, dict[str, object]]:
    """What a client gets of *pieces* and what the stream knows afterwards."""
    framer, stream = Framer(), ChatStream(Secrets(KEY))
    out = b""
    for piece in pieces:
        size = stream.repeated(piece) if template and framer.at_rest else 0
        before = framer.lines
        out += piece[:size]
        if size:
            framer.passed(piece[:size].count(b"\n\n"))
            assert framer.lines - before == piece[:size].count(b"\n")
        out += stream.take_all(framer.feed(piece[size:]))
    out += stream.take_all(framer.finish())
    names = ("chunks", "delivered", "done", "finish", "size", "unmodelled", "usage", "usage_frame", "error")
    return out, {name: getattr(stream, name) for name in names} | {"lines": framer.lines}


CONTENT = st.one_of(
    st.text(min_size=0, max_size=8),
    st.sampled_from(["tok ", "<think>", "</think>", KEY, KEY[:9], KEY[9:], 'a"b', "a\\b", "\n", "ü", "\U0001f600", ""]),
)
CHUNK = st.one_of(
    CONTENT.map(chunk),
    CONTENT.map(chunk),
    CONTENT.map(chunk),
    st.sampled_from(
        [
            chunk("end", finish_reason="stop"),
            chunk(None, finish_reason="stop"),
            b"data: [DONE]\n\n",
            b": ping\n\n",
            b'data: {"error":{"message":"x"}}\n\n',
            b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
            b'data: {"id":"c1","choices":[{"index":0,"delta":{"content":"brok\n\n',
            b"data: nonsense\n\n",
            chunk("x").replace(b"\n\n", b"\r\n\r\n"),
            chunk("x").replace(b"\n\n", b"\n"),
            chunk("a") + b"\n\n",
            chunk("\xff").replace("\xff".encode(), b"\xff"),
            chunk("hm").replace(b'"content"', b'"reasoning"'),
        ]
    ),
)


@settings(deadline=None)
@given(st.lists(CHUNK, max_size=14), st.lists(st.integers(0, 400), max_size=6))
def test_a_template_changes_nothing_but_the_effort(chunks: list[bytes], cuts: list[int]):
    data = chunk("first ") + b"".join(chunks)
    at = sorted({len(chunk("first "))} | {cut % (len(data) + 1) for cut in cuts})
    pieces = [data[a:b] for a, b in zip([0, *at], [*at, len(data)], strict=True) if data[a:b]]
    assert passed_on(pieces, template=True) == passed_on(pieces, template=False)


def test_a_block_of_equal_chunks_passes_at_once():
    template = Template.of(chunk("one "), "one ")
    assert template is not None
    block = chunk("two ") + chunk("three ") + chunk("vier")
    assert template.match(block) == (len(block), 3, "two three vier")


@pytest.mark.parametrize(
    "other",
    [
        chunk(None, finish_reason="stop"),
        chunk(""),
        b"data: [DONE]\n\n",
        b": ping\n\n",
        chunk("half")[:-9],
        chunk("x").replace(b"null", b"true"),
    ],
)
def test_what_follows_the_equal_ones_is_left_to_the_closer_look(other):
    template = Template.of(chunk("one "), "one ")
    assert template is not None
    block = chunk("two ") + chunk("three ")
    assert template.match(block + other) == (len(block), 2, "two three ")
    assert template.match(other) == (0, 0, "")


@pytest.mark.parametrize("text", ['a\\"b', "a\\\\", "<", "a\tb", "a\nb", "\x00"])
def test_text_that_is_not_plain_is_looked_at(text):
    template = Template.of(chunk("one "), "one ")
    assert template is not None
    assert template.match(chunk("ok").replace(b"ok", text.encode())) == (0, 0, "")


def test_bytes_that_are_no_text_are_looked_at_even_where_two_halves_make_a_character():
    template = Template.of(chunk("one "), "one ")
    assert template is not None
    half, other = (chunk("ok").replace(b"ok", part) for part in (b"\xc3", b"\xbc"))
    assert template.match(half + other) == (0, 0, "")
    assert template.match(chunk("ü") + chunk("ü"))[1:] == (2, "üü")


def test_where_the_text_stands_twice_there_is_no_template():
    twice = b'data: {"content":"a","choices":[{"delta":{"content":"a"}}]}\n\n'
    assert Template.of(twice, "a") is None
    assert Template.of(b'data: {"choices":[{"delta":{"content" : "a"}}]}\n\n', "a") is None
    assert Template.of(b'event: x\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n', "a") is None
    spaced = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
    assert Template.of(spaced, "a") is not None


def test_a_stream_without_two_chunks_alike_stops_being_asked(monkeypatch: pytest.MonkeyPatch):
    made = []
    real = Template.of
    monkeypatch.setattr(Template, "of", staticmethod(lambda raw, text: made.append(text) or real(raw, text)))
    stream, framer = ChatStream(Secrets("")), Framer()
    for n in range(50):
        data = chunk("tok ").replace(b'"created":1', b'"created":%d' % n)
        assert stream.repeated(data) == 0
        stream.take_all(framer.feed(data))
    assert len(made) == TEMPLATE_TRIES


def test_the_providers_key_beside_the_text_is_masked_in_every_chunk():
    pieces = [chunk(f"w{i}", matched_stop=f"by {KEY}") for i in range(10)]
    out, known = passed_on(pieces, template=True)
    assert (out.count(b"\n\n"), known["chunks"]) == (10, 10)
    assert KEY.encode() not in out
