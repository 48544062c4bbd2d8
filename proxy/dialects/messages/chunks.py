"""Chunks of a chat stream, as far as the Messages dialect has a place for what they say. Pure."""

import msgspec

from proxy.dialects.base import Members
from proxy.dialects.messages.raw import (
    ABSENT,
    ERRORS,
    Raw,
    absent,
    check_utf8,
    decode_members,
    is_object,
    items_of,
    joined_text,
    members_of,
    text_of,
)


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class Google(msgspec.Struct, gc=False):
    thought_signature: str = ""


class Extra(msgspec.Struct, gc=False):
    google: Google | None = None


class Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: Extra | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None


class Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] = []
    usage: Raw = ABSENT
    error: Raw = ABSENT


_chunk = msgspec.json.Decoder(Chunk).decode


def read(payload: bytes) -> Chunk:
    """What of a chunk can be read; nothing of what is no chunk."""
    try:
        return _chunk(payload)
    except ERRORS:
        return _lenient(payload)


def signature(call: Members) -> str:
    """The thought signature of a tool call."""
    google = members_of(members_of(call.get("extra_content")).get("google"))
    return text_of(google.get("thought_signature"))


def _lenient(payload: bytes) -> Chunk:
    """What of an unusual chunk can be read."""
    try:
        check_utf8(payload)
        top = decode_members(payload)
    except ERRORS:
        return Chunk()
    choices = []
    for item in items_of(top.get("choices")):
        choice = members_of(item)
        delta = members_of(choice.get("delta"))
        calls = [_lenient_call(members_of(call)) for call in items_of(delta.get("tool_calls")) if is_object(call)]
        text = text_of(Raw(b'"%b"' % joined_text(delta.get("content"))))
        read = Delta(text, text_of(delta.get("refusal")), calls)
        if is_object(delta.get("function_call")):
            read.function_call = _lenient_function(members_of(delta["function_call"]))
        index = choice.get("index")
        choices.append(Choice(_whole_number(index) or 0, read, text_of(choice.get("finish_reason"))))
    return Chunk(choices, top.get("usage", ABSENT), top.get("error", ABSENT))


def _lenient_call(call: Members) -> Call:
    extra = Extra(Google(signature(call)))
    function = _lenient_function(members_of(call.get("function")))
    return Call(_whole_number(call.get("index")), text_of(call.get("id")), function, extra)


def _lenient_function(function: Members) -> Function:
    arguments = function.get("arguments")
    said = bytes(arguments).decode() if arguments is not None and is_object(arguments) else text_of(arguments)
    return Function(text_of(function.get("name")), said)


def _whole_number(raw: Raw | None) -> int | None:
    if raw is None or absent(raw) or not bytes(raw).isdigit():
        return None
    return int(bytes(raw)[:9])
