"""Realistic bodies of every vendor through the whole product, field by field, for clients of three dialects.

Each vendor module says which documentation its bodies are shaped after. What is driven is the real path: the ASGI
application, the walk, the upstream client, and a loopback server that plays the vendor.
"""

from typing import Any

import pytest

from proxy import reasons
from tests.shapes import (
    anthropic,
    anthropic_chat,
    azure,
    deepseek,
    gemini,
    gemini_chat,
    joined,
    ollama,
    openai,
    openai_responses,
    openrouter,
)
from tests.shapes.asked import RICH
from tests.shapes.house import House
from tests.shapes.table import (
    DONE,
    Break,
    Fault,
    Row,
    Shape,
    Vendor,
    compact,
    message,
    normal,
    payloads,
    response,
    split,
)
from tests.upstream.server import Behaviour, events, reply

VENDORS: dict[str, Vendor] = {
    "openai": openai.VENDOR,
    "openai responses": openai_responses.VENDOR,
    "azure": azure.VENDOR,
    "anthropic": anthropic.VENDOR,
    "anthropic chat": anthropic_chat.VENDOR,
    "gemini": gemini.VENDOR,
    "gemini chat": gemini_chat.VENDOR,
    "deepseek": deepseek.VENDOR,
    "openrouter": openrouter.VENDOR,
    "ollama": ollama.VENDOR,
}
AUTHENTICATION = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "anthropic-version", "anthropic-beta")


def every(of: str, *only: str) -> list[Any]:
    """(vendor, one of its table *of*, a client's dialect), named; of *only* these dialects."""
    return [
        pytest.param(vendor, case, dialect, id=f"{name}, {key}, {dialect}")
        for name, vendor in VENDORS.items()
        for key, case in getattr(vendor, of).items()
        for dialect in only or vendor.dialects
    ]


every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))


def played(shape: Shape, *, stream: bool) -> Behaviour:
    return events(*shape.frames) if stream else reply(200, shape.lead + compact(shape.whole))


def answered(vendor: Vendor, shape: Shape, dialect: str) -> Any:
    """The whole answer that a client of *dialect* is to get."""
    if dialect == "chat":
        return normal(shape.chat or shape.whole)
    return message(vendor.model, shape) if dialect == "messages" else response(vendor.model, shape)


def passed(shape: Shape, *, usage: bool = True) -> list[bytes]:
    """The frames that a client of the vendor's own dialect gets."""
    places = [at for at in range(len(shape.frames)) if usage or at != shape.usage_at]
    kept = [shape.changed.get(at, shape.frames[at]) for at in places]
    return [frame for frame in kept if frame is not None]


def metered(vendor: Vendor, shape: Shape, dialect: str) -> Row:
    return (shape.native_row if dialect == vendor.native else None) or shape.row


@pytest.mark.parametrize(("vendor", "shape", "dialect"), every("shapes"))
async def test_a_whole_answer(house: House, vendor: Vendor, shape: Shape, dialect: str):
    house.upstream.script(played(shape, stream=False))
    got = await house.ask(dialect)
    assert (got.status, got.header("content-type")) == (200, "application/json")
    if dialect == vendor.native or (dialect == vendor.own and shape.chat is None):
        assert got.body == shape.lead + compact(shape.whole)
    else:
        assert normal(got.body) == answered(vendor, shape, dialect)
    assert house.row == metered(vendor, shape, dialect)
    assert house.stage.trail == [(0, "V", 200, None, "success")]
    assert [call.target for call in house.upstream.calls] == [vendor.path]


@pytest.mark.parametrize(("vendor", "shape", "dialect"), every("shapes"))
async def test_a_stream(house: House, vendor: Vendor, shape: Shape, dialect: str):
    """Joined, it is the whole answer."""
    house.upstream.script(played(shape, stream=True))
    more = {"stream_options": {"include_usage": True}} if dialect == "chat" else {}
    got = await house.ask(dialect, stream=True, **more)
    assert (got.status, got.header("content-type"), got.complete) == (200, "text/event-stream", True)
    if dialect in (vendor.native, vendor.own):
        assert split(got.body) == passed(shape)
    if dialect != vendor.native:
        whole = getattr(joined, dialect)(got.body)
        wanted = answered(vendor, shape, dialect)
        assert normal(whole) == (joined.core(wanted) if dialect == "chat" else wanted)
    assert (house.row, house.stage.row.state) == (metered(vendor, shape, dialect), "completed")
    assert house.stage.trail == [(0, "V", 200, None, "success")]
    assert [call.target for call in house.upstream.calls] == [vendor.stream_path or vendor.path]


@pytest.mark.parametrize(
    ("vendor", "shape", "dialect"),
    [case for case in every("shapes", "chat") if case.values[1].usage_at is not None],
)
async def test_who_did_not_ask_gets_no_frame_of_usage_alone(house: House, vendor: Vendor, shape: Shape, dialect: str):
    """v1-api 10.4"""
    house.upstream.script(played(shape, stream=True))
    got = await house.ask(dialect, stream=True)
    assert split(got.body) == passed(shape, usage=False)
    assert house.row == shape.row


#: What is told under a 200 is a whole answer.
REFUSALS = [
    pytest.param(*case.values, stream, id=f"{case.id}{', stream' * stream}")
    for case in every("faults")
    for stream in (False, True)
    if not (stream and case.values[1].status == 200)
]


def error_body(dialect: str, fault: Fault, said: str) -> dict[str, Any]:
    if dialect == "messages":
        return {"type": "error", "error": {"type": fault.anthropic, "message": said}}
    return {"error": {"message": said, "type": fault.type, "param": fault.param, "code": fault.code}}


def same_shape(vendor: Vendor, dialect: str) -> bool:
    """Whether the client's error objects are the vendor's: chat and responses share theirs."""
    return dialect in (vendor.own, vendor.native) or (dialect != "messages" and vendor.own in ("chat", "responses"))


@pytest.mark.parametrize(("vendor", "fault", "dialect", "stream"), REFUSALS)
async def test_a_refusal(house: House, vendor: Vendor, fault: Fault, dialect: str, stream: bool):
    house.upstream.script(reply(fault.status, fault.body, headers=fault.headers))
    got = await house.ask(dialect, stream=stream)
    assert (got.status, got.header("content-type")) == (fault.answered or fault.status, "application/json")
    if not fault.said and same_shape(vendor, dialect):
        assert got.json == fault.body
    else:
        assert got.json == error_body(dialect, fault, fault.said or fault.message)
    assert got.header("retry-after") == fault.retry_after
    theirs = {(name, value) for name, value in fault.headers.items() if name != "retry-after"}
    assert not theirs & set(got.headers)
    row = house.stage.row
    assert (row.status_code, row.error_kind, len(house.upstream.calls)) == (got.status, fault.kind, fault.asked)
    assert house.stage.trail == [(at, "V", fault.status, fault.kind, fault.verdict) for at in range(fault.asked)]
    assert house.stage.state("V") == ("open" if fault.opens else "closed")
    if not fault.opens:
        assert house.stage.fails("V", vendor.model) == (fault.asked if fault.verdict == "charge" else 0)
    assert (row.tokens_prompt, row.tokens_completion) == (fault.prompt, 0)


@pytest.mark.parametrize(("vendor", "broken", "dialect"), every("breaks"))
async def test_a_stream_that_ends_with_the_vendors_error(house: House, vendor: Vendor, broken: Break, dialect: str):
    house.upstream.script(events(*broken.frames, *([DONE] if vendor.own == "chat" else [])))
    got = await house.ask(dialect, stream=True)
    assert got.status == 200
    last = split(got.body)[-1]
    if dialect == vendor.native:
        assert last == broken.native
    elif dialect == "chat":
        assert last == broken.chat
    elif dialect == "messages":
        assert payloads(last) == [{"type": "error", "error": {"type": broken.type, "message": broken.message}}]
    else:
        (end,) = payloads(last)
        assert (end["type"], end["response"]["status"]) == ("response.failed", "failed")
        assert end["response"]["error"] == {"code": broken.code, "message": broken.message}
    row = house.stage.row
    assert (row.state, row.status_code, row.error_kind) == ("failed", 0, "provider_error")
    assert row.error_message is not None and row.error_message.startswith(f"{reasons.ENDED}{broken.kept}")
    assert broken.message not in row.error_message
    assert house.stage.trail == [(0, "V", 200, "provider_error", "charge")]
    assert house.stage.fails("V", vendor.model) == 1


@every_vendor
async def test_the_rich_request(house: House, vendor: Vendor):
    """Member by member, and nothing besides; numbers keep their digits."""
    house.upstream.script(played(vendor.shapes["text"], stream=True))
    got = await house.stage.say("/chat/completions", "V/" + vendor.model, **RICH)
    assert got.status == 200
    (call,) = house.upstream.calls
    assert (call.method, call.target) == ("POST", vendor.stream_path or vendor.path)
    assert call.json == vendor.sent
    secrets = {name: call.headers[name] for name in AUTHENTICATION if name in call.headers}
    assert (secrets, call.headers["content-type"]) == (vendor.sent_headers, "application/json")
