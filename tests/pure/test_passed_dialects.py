"""Rerank, images and audio: what is read of requests and answers that pass through."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.kinds.registry import KINDS
from proxy.body import BadBody
from proxy.dialects import audio, images, passed, rerank
from proxy.dialects.passed import USAGE_TAIL, Tail
from proxy.endpoints import ENDPOINTS
from proxy.usage import Usage
from tests.pure.test_multipart import field, form

TYPE = b"multipart/form-data; boundary=XX"
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
READERS = [rerank.read_answer, images.read_answer, audio.read_answer]


# -- requests


def test_where_a_reranker_is():
    """v1-api 93"""
    path = ENDPOINTS["/v1/rerank"].target
    for kind in (KINDS["cohere"], KINDS["custom"]):
        assert kind.url("https://api.cohere.ai/compatibility/v1", path) == "https://api.cohere.com/v2/rerank"
        other = "https://api.cohere.ai.evil.example"
        assert kind.url(f"{other}/compatibility/v1", path) == f"{other}/v2/rerank"
        assert kind.url("https://api.cohere.ai:8443/compatibility/v1", path) == "https://api.cohere.ai:8443/v2/rerank"
    assert KINDS["custom"].url("https://h/v1", path) == "https://h/v1/rerank"


@pytest.mark.parametrize("path", ["/v1/rerank", "/v1/images/generations", "/v1/audio/speech"])
def test_only_the_model_changes(path):
    endpoint = ENDPOINTS[path]
    raw = b'{"input":["\\u00e9",1],"model":"hotel/g","speed":1.0,"x":{"a":9007199254740993},"size":"1x1","n":null}'
    asked = endpoint.asked(raw, b"text/plain")
    out = endpoint.build_body(asked.members, raw, model_id="m", kind=KINDS["openai"], stream=False)
    assert out == raw.replace(b"hotel/g", b"m")


@pytest.mark.parametrize(
    ("path", "members", "stream"),
    [
        ("/v1/rerank", {"stream": True}, False),
        ("/v1/images/generations", {"stream": True, "stream_options": {"include_usage": True}}, True),
        ("/v1/images/generations", {}, False),
        ("/v1/audio/speech", {"stream": True}, True),
        ("/v1/audio/speech", {"stream_format": "sse"}, True),
        ("/v1/audio/speech", {"stream_format": "audio"}, False),
        ("/v1/audio/speech", {"stream_format": 5}, False),
    ],
)
def test_who_streams(path, members, stream):
    asked = ENDPOINTS[path].asked(json.dumps({"model": "m", **members}).encode(), b"")
    assert (asked.stream, asked.include_usage) == (stream, False)


FORMS = ["/v1/images/edits", "/v1/images/variations", "/v1/audio/transcriptions", "/v1/audio/translations"]


@pytest.mark.parametrize("path", FORMS)
def test_a_form_is_read(path):
    body = form(
        field("model", b" hotel/g\r\n"),
        field("file", b"\xff\x00", '; filename="secret.wav"'),
        field("prompt", "é".encode()),
        field("stream", b"True"),
        field("image[]", b"1", '; filename="a.png"'),
        field("image[]", b"2", '; filename="b.png"'),
        field("n", b"\xff"),
    )
    asked = ENDPOINTS[path].asked(body, TYPE)
    assert (asked.model, asked.stream, asked.include_usage) == ("hotel/g", True, False)
    assert asked.form is not None and len(asked.form.parts) == 7
    found = {name: msgspec.json.decode(raw) for name, raw in asked.members.items()}
    assert found == {
        "model": " hotel/g\r\n",
        "file": "secret.wav",
        "prompt": "é",
        "stream": "True",
        "image[]": ["a.png", "b.png"],
        "n": "\N{REPLACEMENT CHARACTER}",
    }


NO_TYPE = "Content-Type must be multipart/form-data with a boundary"


@pytest.mark.parametrize(
    ("body", "content_type", "message", "code", "param"),
    [
        (b"{}", b"application/json", NO_TYPE, "invalid_request_body", None),
        (b"{}", b"", NO_TYPE, "invalid_request_body", None),
        (b"--XX--", b"multipart/form-data", NO_TYPE, "invalid_request_body", None),
        (b"{}", TYPE, "invalid multipart form", "invalid_request_body", None),
        (form(field("model", b"\xff")), TYPE, "invalid multipart form", "invalid_request_body", None),
        (b"--XX--", TYPE, "model is required", "missing_required_parameter", "model"),
        (form(field("model", b" \r\n")), TYPE, "model is required", "missing_required_parameter", "model"),
        (
            form(field("model", b"m", '; filename="m"')),
            TYPE,
            "model is required",
            "missing_required_parameter",
            "model",
        ),
        (
            form(field("model", b"x" * 513)),
            TYPE,
            "model exceeds maximum length of 512 characters",
            "invalid_value",
            "model",
        ),
    ],
)
def test_a_form_that_is_refused(body, content_type, message, code, param):
    """part of v1-api 86"""
    with pytest.raises(BadBody) as refused:
        passed.parse_form(body, content_type)
    bad = refused.value
    assert (bad.status, bad.message, bad.code, bad.param) == (400, message, code, param)


def sent(kind: str, model_id: str, **members: object) -> dict[str, object]:
    body = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in members.items()}
    before = dict(body)
    out = json.loads(images.build_body(body, b"", model_id=model_id, kind=KINDS[kind], stream=False))
    assert body == before, "the next candidate starts from what came"
    assert out.pop("model") == model_id
    return out


def test_others_get_their_picture_as_it_was_asked_for():
    asked = {"prompt": "x", "size": "1792x1024", "aspect_ratio": "1:1"}
    for kind in set(KINDS) - {"xai"}:
        assert sent(kind, "imagine", **asked) == asked
        body = form(*(field(name, value.encode()) for name, value in asked.items()))
        assert images.form_changes(passed.multipart.parse(body, TYPE), KINDS[kind], "imagine") == {}


def test_the_shape_of_a_picture_changes_in_a_form_too():
    """part of v1-api 92"""
    body = form(field("size", b"1792x1024"), field("prompt", b"\xff"), field("size", b"x", '; filename="size"'))
    changes = images.form_changes(passed.multipart.parse(body, TYPE), KINDS["xai"], "grok-imagine")
    assert changes == {"size": None, "aspect_ratio": "16:9"}
    assert sent("xai", "grok-imagine", size="1792x1024", n=1) == {"aspect_ratio": "16:9", "n": 1}
    assert sent("xai", "grok-2-image", size="1792x1024", aspect_ratio="1:1") == {}


# -- answers


@pytest.mark.parametrize(
    ("payload", "verdict", "carries", "usage", "searches"),
    [
        ({"results": [{"index": 0}]}, "served", True, None, 0),
        ({"results": [{"index": 0}], "meta": {"billed_units": {"search_units": 2}}}, "served", True, None, 2),
        ({"results": [{}], "meta": {"billed_units": {"search_units": "x"}}}, "served", True, None, 0),
        ({"results": [{}], "meta": {"billed_units": None}, "usage": {"search_units": 1}}, "served", True, None, 1),
        ({"results": [{}], "meta": 5, "usage": 5}, "served", True, None, 0),
        ({"data": [{}], "usage": {"total_tokens": 9}}, "served", True, Usage(9, 0), 0),
        ([{"index": 0, "score": 1}], "served", True, None, 0),
        ({"results": []}, "served", False, None, 0),
        ([], "served", False, None, 0),
        ({"results": None}, "undecodable", False, None, 0),
        ({"error": "x"}, "undecodable", False, None, 0),
        ("x", "undecodable", False, None, 0),
    ],
    ids=str,
)
def test_scores(payload, verdict, carries, usage, searches):
    raw = json.dumps(payload).encode()
    found = rerank.read_answer(b"\xef\xbb\xbf" + raw)
    assert (found.verdict, found.carries, found.usage, found.searches) == (verdict, carries, usage, searches)
    assert found.body == (b"" if verdict == "undecodable" else b"\xef\xbb\xbf" + raw)


@pytest.mark.parametrize(
    ("data", "verdict"),
    [
        ([{"b64_json": "aGk="}], "served"),
        ([{"url": "https://h/x.png"}], "served"),
        ([{"b64_json": ""}, {"b64_json": None, "url": "https://h/x.png"}], "served"),
        ([{"b64_json": ""}], "no_results"),
        ([{"b64_json": None, "url": None, "revised_prompt": "x"}, {"url": ""}], "no_results"),
        ([{}, None, "x", 5, []], "no_results"),
        ([], "no_results"),
        (None, "undecodable"),
        ({}, "undecodable"),
    ],
    ids=str,
)
def test_pictures(data, verdict):
    """part of v1-api 90"""
    raw = json.dumps({"data": data, "usage": {"input_tokens": 3, "output_tokens": 4}}).encode()
    found = images.read_answer(raw)
    assert (found.verdict, found.carries) == (verdict, verdict == "served")
    if verdict != "undecodable":
        assert (found.usage, found.body) == (Usage(3, 4), raw)


@pytest.mark.parametrize(
    ("payload", "verdict", "usage"),
    [
        ({"text": ""}, "served", None),
        ({"text": "x", "usage": {"type": "tokens", "input_tokens": 3, "output_tokens": 4}}, "served", Usage(3, 4)),
        ({"text": "x", "usage": {"type": "duration", "seconds": 9}}, "served", None),
        ({"text": "x", "error": None}, "served", None),
        ([], "served", None),
        ({"error": {"message": "secret"}}, "undecodable", None),
        ({"error": "secret"}, "undecodable", None),
        ("secret", "undecodable", None),
    ],
    ids=str,
)
def test_sound(payload, verdict, usage):
    found = audio.read_answer(json.dumps(payload).encode())
    assert (found.verdict, found.usage) == (verdict, usage)
    assert "secret" not in found.problem


@pytest.mark.parametrize("read", READERS)
@settings(deadline=None)
@given(payload=st.binary(max_size=60), value=values)
def test_no_answer_breaks_a_reader(read, payload, value):
    for raw in (payload, json.dumps(value).encode(), json.dumps({"data": [value], "usage": value}).encode()):
        assert read(raw).verdict in ("served", "no_results", "undecodable")


@pytest.mark.parametrize("read", READERS)
def test_endless_nesting_is_no_answer(read):
    assert read(b'{"data":' + b"[" * 100_000).verdict == "undecodable"


# -- usage at the end of an event stream


def tail(*pieces: bytes) -> Usage | None:
    made = Tail()
    for piece in pieces:
        made.add(piece)
    return made.usage()


USAGE = b'"usage": {"input_tokens": 3, "output_tokens": 4, "details": {"a": [1]}}'


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: {" + USAGE + b"}\n\n"],
        [b'data: {"usage":{"input_tokens":99}}\n\ndata: {' + USAGE + b"}\n\ndata: [DONE]\n\n"],
        [b"data: {" + USAGE + b'}\n\ndata: {"usage": {"seconds": 3}}\n\ndata: {"usage": {"inp'],
        [b"data: {" + USAGE[:5], USAGE[5:20], USAGE[20:] + b"}\n\n"],
        # The picture comes first, and is longer than what is kept.
        [b'data: {"b64_json": "', *[b"A" * 1000] * 200, b'", ' + USAGE + b"}\n\n"],
        [b'data: {"b64_json": "' + b"A" * 200_000 + b'", ' + USAGE + b"}\n\n"],
        [b"\xff\xfe data: {" + USAGE + b"}"],
    ],
)
def test_the_last_usage_counts(pieces):
    assert tail(*pieces) == Usage(3, 4)


@pytest.mark.parametrize(
    "pieces",
    [
        [],
        [b"data: [DONE]\n\n"],
        [json.dumps({"text": "{" + USAGE.decode() + "}"}).encode()],
        [b"data: {" + USAGE + b"}\n\n", b": ping\n\n" * (USAGE_TAIL // 8)],
        [b'data: {"usage": {' + b'"a": {' * 3000],
    ],
    ids=["nothing", "an end mark", "in a text", "too long ago", "endless"],
)
def test_there_may_be_none(pieces):
    assert tail(*pieces) is None


@pytest.mark.parametrize(
    ("stream", "failed"),
    [
        (b'event: error\ndata: {"type":"error","error":{"message":"x"}}\n\n', True),
        (b'data:{"error":{"message":"x"}}\r\n\r\n', True),
        (b'data: {"type":"error"}\n\n: ping\n\n', True),
        (b'data: {"type":"image_generation.failed"}\n\n', True),
        (b'data: {"type":"error"}\n\ndata: {"type":"image_generation.completed"}\n\n', False),
        (b'data: {"type":"error"}\n\ndata: [DONE]\n\n', False),
        (b'data: {"type":"speech.audio.done","error":null}\n\n', False),
        (b'data: {"type":5,"error":{}}\n\n', False),
        (b"data: " + b"[" * 3000, False),
        (b"", False),
    ],
)
def test_a_stream_may_end_with_an_error(stream, failed):
    made = Tail()
    made.add(stream)
    assert made.failed() is failed


@settings(deadline=None)
@given(st.lists(st.binary(max_size=50), max_size=8))
def test_any_stream_has_a_tail(pieces):
    assert tail(*pieces) is None or isinstance(tail(*pieces), Usage)
