"""Requests, answers and errors that are read in one piece, fed with any bytes."""

import asyncio
import contextlib
import math
from typing import cast

import msgspec

from failover import ratelimit
from modelhotel.core import redact
from providers.kinds import registry
from providers.upstream.interface import UpstreamError
from providers.upstream.pool import Lane, Pool
from providers.upstream.wire import Connection
from proxy import body, multipart, reasons, repairs, secrecy
from proxy import usage as usages
from proxy.body import BadBody
from proxy.dialects import audio, callids, chat, continuing, embeddings, images, jsonmode, passed, rerank, thoughtsig
from proxy.dialects.base import Judged, Members
from proxy.secrecy import Secrets

KEY = "sk-upstream-0123456789"
VERDICTS = ("served", "no_choices", "no_content", "no_results", "undecodable", "bare_finish")
_KINDS = (registry.KINDS["openai"], registry.KINDS["deepseek"], registry.KINDS["minimax"])
_members = msgspec.json.Decoder(Members).decode


def _asked(data: bytes) -> Members:
    try:
        data.decode()
        return _members(data)
    except (ValueError, RecursionError):
        return {"messages": msgspec.Raw(msgspec.json.encode(data.decode("utf-8", "replace")))}


def request(data: bytes) -> None:
    """A body is refused with a status and a text, or becomes a body for every candidate and none loses its model."""
    try:
        asked = body.parse(data)
    except BadBody as bad:
        assert bad.status == 400 and bad.message and len(bad.model) <= 65
        return
    said, sent = "'top_p' and 'max_tokens': use max_completion_tokens instead", ("top_p", "max_tokens")
    taught = repairs.lesson(said, sent, sent_schema=True)
    for kind in _KINDS:
        for repair in (None, taught, repairs.Repair(frozenset((repairs.SCHEMA,)))):
            made = chat.build_body(asked.members, data, model_id="glm-m", kind=kind, stream=asked.stream, repair=repair)
            assert _members(made)["model"] == msgspec.Raw(b'"glm-m"')
            assert len(made) <= 2 * len(data) + 2 * jsonmode.SCHEMA_LIMIT
    fitted = callids.for_chat(asked.members, data, limit=40, signatures=False)
    assert len(msgspec.json.encode(fitted)) <= 2 * len(data) + 64
    assert usages.prompt_tokens(asked.members) <= len(data)
    assert 1 <= passed.prompt_tokens(asked.members) <= len(data)
    if continuing.allowed(asked.members):
        more = continuing.continued(asked.members, "text")
        assert more is None or isinstance(msgspec.json.decode(more["messages"], type=list[msgspec.Raw]), list)


def schema(data: bytes) -> None:
    """A JSON schema in words: valid JSON again, and idempotent where it is no longer asked for by the schema."""
    members = _asked(data)
    for json_mode in (True, False):
        folded = dict(members)
        jsonmode.fold(folded, json_mode=json_mode)
        assert set(folded) <= {*members, "messages"}
        if json_mode:
            assert not jsonmode.wants_schema(folded)
            once = dict(folded)
            jsonmode.fold(once, json_mode=True)
            assert once == folded
        _members(msgspec.json.encode(folded))


def _judged(judged: Judged) -> None:
    assert judged.verdict in VERDICTS
    assert (judged.body != b"") == (judged.verdict in ("served", "bare_finish")) or judged.verdict == "no_results"
    assert judged.delivered >= 0 and 0 <= judged.searches <= usages.MAX_COUNT


def answer(data: bytes) -> None:
    """A chat completion that is served is one that is served the same again."""
    judged = chat.read_answer(data)
    _judged(judged)
    if judged.verdict in ("served", "bare_finish"):
        again = chat.read_answer(judged.body)
        assert again.verdict == judged.verdict
        assert len(judged.body) <= 2 * len(data) + 64


def other_answers(data: bytes) -> None:
    for read in (embeddings.read_answer, rerank.read_answer, images.read_answer, audio.read_answer):
        _judged(read(data))
    for parse in (passed.whole, passed.streamed, audio.parse_speech):
        with contextlib.suppress(BadBody):
            parse(data)
    tail = passed.Tail()
    tail.add(data[: len(data) // 2])
    tail.add(data[len(data) // 2 :])
    tail.failed()
    tail.usage()
    assert (data + tail.gap).endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))


def usage(data: bytes) -> None:
    found = usages.read(data)
    with contextlib.suppress(ValueError, RecursionError):
        data.decode()
        plain = msgspec.json.decode(data, type=usages.Plain)
        assert usages.of_plain(plain) == found
    if found is not None:
        assert 0 <= found.total <= 2 * usages.MAX_COUNT and usages.later(found, found) == found


def form(data: bytes) -> None:
    """The boundary is what stands before the first LF. A form that is read is written and read again the same."""
    boundary, _, raw = data.partition(b"\n")
    content_type = b"multipart/form-data; boundary=" + boundary
    try:
        found = multipart.parse(raw, content_type)
    except multipart.BadForm:
        found = None
    with contextlib.suppress(BadBody):
        asked = passed.parse_form(raw, content_type)
        assert found is not None and asked.model
        images.form_changes(found, _KINDS[0], "m")
    if found is None:
        return
    assert len(found.parts) <= multipart.PART_LIMIT
    mark = "0" * 40
    if mark.encode() in raw:
        return
    made = multipart.encode(found.parts, mark)
    assert len(made) <= 8 * len(raw) + 1024
    again = multipart.parse(made, b"multipart/form-data; boundary=" + mark.encode())
    assert [bytes(part.body) for part in again.parts] == [bytes(part.body) for part in found.parts]
    assert [part.filename is None for part in again.parts] == [part.filename is None for part in found.parts]


def error(data: bytes) -> None:
    """What an error body says, what it teaches, and what may be kept of it."""
    found = reasons.read(data)
    for status in (400, 402, 404, 429, 500):
        kind, reason = reasons.classify(status, found, "vendor/model-1")
        assert kind and reason
        reasons.too_long(status, found)
    reasons.refuses_content(found)
    lesson = repairs.lesson(repairs.said(data), ("seed", "top_p", "max_tokens", "stop"), sent_schema=True)
    assert not lesson - lesson
    secrets = Secrets(KEY)
    cleaned = secrets.clean(found.text)
    assert KEY not in cleaned and len(cleaned) <= secrecy.TEXT_CAP
    assert KEY.encode() not in secrets.mask_json(data)
    assert len(secrecy.detail(cleaned)) <= secrecy.DETAIL_CAP
    secrecy.fenced(cleaned, _asked(data))
    for one in registry.KINDS.values():
        hidden = one.disguised(data)
        assert hidden is None or hidden.status >= 400


def rate_limit(data: bytes) -> None:
    """Lines ``name: value`` and a body behind an empty one: waits are finite and within what is believed."""
    head, _, said = data.partition(b"\n\n")
    pairs = [line.partition(b":") for line in head.split(b"\n")]
    headers = [(name.strip().lower(), value.strip()) for name, _, value in pairs]
    for reading in (
        ratelimit.read(said, headers, now=1.7e9, ceiling=60.0),
        ratelimit.read(data, headers, now=0.0, ceiling=0.0),
        ratelimit.unread(headers, now=1.7e9),
    ):
        for wait in (reading.retry_after, reading.pin_hint, reading.stated):
            assert math.isfinite(wait) and 0 <= wait <= ratelimit.HEADER_WAIT_MAX
        assert reading.phrase == "" or reading.phrase in ratelimit.PHRASES
    ratelimit.remaining_zero(headers)


def signature(data: bytes) -> None:
    """An id is what its parts make, and a signature comes back as it went in."""
    text = data.decode("utf-8", "replace")
    call_id, found = thoughtsig.split(text)
    assert thoughtsig.join(call_id, found) == text
    assert thoughtsig.split(thoughtsig.join("call", text)) == ("call", text)


def guard(data: bytes) -> None:
    """The key never goes out in one piece, whatever the text around it and however it is cut; the rest does."""
    text = data.decode("utf-8", "replace")
    for size in (1, 3, len(text) or 1) if len(text) <= 8192 else (1000, len(text)):
        one = secrecy.KeyGuard(KEY)
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        out = "".join([one.pass_on(piece) if one.wary(piece) else piece for piece in pieces]) + one.flush()
        assert KEY not in out
        assert out.count(redact.MASK) == text.count(KEY) + text.count(redact.MASK)
        assert out == text or KEY in text


# -- the HTTP client of the data plane


class _Socket:
    """What a connection asks of its transport."""

    def __init__(self) -> None:
        self.closed = False

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        pass

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed


class _Loop:
    """Time stands still."""

    def time(self) -> float:
        return 0.0

    def call_at(self, *_: object) -> "_Loop":
        return self

    def cancel(self) -> None:
        pass


def _received(pieces: tuple[bytes, ...], method: str) -> tuple[object, ...]:
    loop = cast(asyncio.AbstractEventLoop, _Loop())
    connection = Connection(loop, Pool(), Lane("http", "h", 80, None))
    socket = _Socket()
    connection.connection_made(cast(asyncio.Transport, socket))
    connection.begin(method)
    for piece in pieces:
        if piece and not socket.closed:
            connection.data_received(piece)
    if not socket.closed:
        connection.connection_lost(None)
    got = b"".join(connection.pieces)
    failed, ended, kept = connection.error is not None, connection.ended, connection.keep and not connection.dirty
    if connection.error is not None:
        assert isinstance(connection.error, UpstreamError)
        connection.error = None if ended else connection.error
    assert ended or failed
    status = connection.status if connection.head_done else 0
    headers = list(connection.headers) if connection.head_done else []
    connection.release()
    return status, headers, got if ended else b"", ended, kept and ended


def http(data: bytes) -> None:
    """An answer in two pieces is the same as in one, for both methods that read it differently."""
    for method in ("GET", "HEAD"):
        at = data[-1] * len(data) // 256 if data else 0
        whole = _received((data,), method)
        halves = _received((data[:at], data[at:]), method)
        if whole[3] and halves[3]:
            assert whole[:3] == halves[:3]
        assert whole[0] == 0 or 200 <= cast(int, whole[0]) <= 999
        assert len(cast(bytes, whole[2])) <= len(data)
