"""A request of Anthropic's Messages API as a chat request (v1-api 12.1, 12.2). Pure.

Texts, images and schemas are moved as the bytes that came; only what the map names is looked at.
"""

import msgspec

from proxy.answers import INVALID_VALUE, MISSING_PARAMETER
from proxy.body import MODEL_KEPT, MODEL_LIMIT, Asked, BadBody
from proxy.dialects import thoughtsig
from proxy.dialects.base import Members
from proxy.dialects.messages import structured, tools
from proxy.dialects.messages.raw import (
    ABSENT,
    ERRORS,
    Raw,
    absent,
    check_utf8,
    decode_items,
    decode_members,
    decode_text,
    encode,
    inside,
    is_object,
    is_text,
)
from proxy.dialects.messages.refused import bad, items, wrong, wrong_content

_NUMBERS = ("temperature", "top_p", "top_k")
_ASSISTANT = b'"assistant"'
_EMPTY = b'""'


class _Message(msgspec.Struct, gc=False):
    role: Raw = ABSENT
    content: Raw = ABSENT


class _Block(msgspec.Struct, gc=False):
    type: Raw = ABSENT
    text: Raw = ABSENT
    source: Raw = ABSENT
    id: Raw = ABSENT
    name: Raw = ABSENT
    input: Raw = ABSENT
    tool_use_id: Raw = ABSENT
    content: Raw = ABSENT


class _Source(msgspec.Struct, gc=False):
    type: Raw = ABSENT
    media_type: Raw = ABSENT
    data: Raw = ABSENT
    url: Raw = ABSENT


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_block = msgspec.json.Decoder(_Block).decode
_decode_source = msgspec.json.Decoder(_Source).decode


def parse(raw: bytes) -> Asked:
    """Raises BadBody, whose text never quotes the body."""
    own = _own(raw)
    model = _model(own)
    stream = _flag(own)
    chat: Members = {"model": own["model"], "messages": _messages(own)}
    if "stream" in own and not absent(own["stream"]):
        chat["stream"] = own["stream"]
    for name in _NUMBERS:
        if not absent(own.get(name)):
            chat[name] = _number(own, name)
    if not absent(own.get("max_tokens")) and bytes(_number(own, "max_tokens")) != b"0":
        chat["max_tokens"] = own["max_tokens"]
    if not absent(own.get("stop_sequences")) and items(own["stop_sequences"], "stop_sequences"):
        chat["stop"] = own["stop_sequences"]
    tools.read(own, chat)
    structured.read(own, chat)
    return Asked(chat, model, stream, stream, own)


def _own(raw: bytes) -> Members:
    try:
        check_utf8(raw)
        return decode_members(raw)
    except msgspec.ValidationError:
        raise bad("invalid request body: not a JSON object") from None
    except RecursionError:
        raise bad("invalid request body: nested too deeply") from None
    except ValueError:
        raise bad("invalid request body: not JSON") from None


def _model(own: Members) -> str:
    raw = own.get("model")
    if raw is None or absent(raw) or bytes(raw) == _EMPTY:
        raise bad("model is required", MISSING_PARAMETER, "model")
    if not is_text(raw):
        raise wrong("model", "a string")
    model = decode_text(raw)
    if len(model) > MODEL_LIMIT:
        text = f"model exceeds maximum length of {MODEL_LIMIT} characters"
        raise BadBody(400, text, INVALID_VALUE, "model", model=model[:MODEL_KEPT] + "…")
    return model


def _flag(own: Members) -> bool:
    word = bytes(own.get("stream", ABSENT))
    if word not in (b"", b"null", b"true", b"false"):
        raise wrong("stream", "a boolean")
    return word == b"true"


def _number(own: Members, name: str) -> Raw:
    if bytes(own[name])[:1] not in b"-0123456789":
        raise wrong(name, "a number")
    return own[name]


# -- messages


def _messages(own: Members) -> Raw:
    out: list[bytes] = []
    system = _system(own.get("system"))
    if system:
        out.append(b'{"role":"system","content":"%b"}' % system)
    if not absent(own.get("messages")):
        for at, item in enumerate(items(own["messages"], "messages")):
            out += _message(item, f"messages[{at}]")
    return Raw(b"[%b]" % b",".join(out))


def _system(raw: Raw | None) -> bytes:
    """The inside of the system prompt's text."""
    if raw is None or absent(raw):
        return b""
    if is_text(raw):
        return inside(raw)
    try:
        blocks = [_decode_block(item) for item in decode_items(raw)]
    except ERRORS:
        raise wrong("system", "a string or a list of text blocks") from None
    return b"".join(inside(block.text) for block in blocks)


def _message(item: Raw, path: str) -> list[bytes]:
    """The chat messages of one message."""
    try:
        message = _decode_message(item)
    except ERRORS:
        raise wrong(path, "an object") from None
    if not is_text(message.role):
        raise wrong(f"{path}.role", "a string")
    role = bytes(message.role)
    if is_text(message.content):
        return [b'{"role":%b,"content":%b}' % (role, message.content)]
    blocks = _blocks(message.content, f"{path}.content")
    return _assistant(blocks) if role == _ASSISTANT else _user(role, blocks, f"{path}.content")


def _blocks(raw: Raw, path: str) -> list[_Block]:
    try:
        items = decode_items(raw)
    except ERRORS:
        raise wrong_content(path, "a string or a list of blocks") from None
    blocks: list[_Block] = []
    for at, item in enumerate(items):
        try:
            block = _decode_block(item)
        except ERRORS:
            raise wrong_content(f"{path}[{at}]", "an object") from None
        if not is_text(block.type):
            raise wrong_content(f"{path}[{at}].type", "a string")
        if bytes(block.type) == b'"text"' and not is_text(block.text):
            raise wrong_content(f"{path}[{at}].text", "a string")
        blocks.append(block)
    return blocks


def _assistant(blocks: list[_Block]) -> list[bytes]:
    text = b"".join(inside(block.text) for block in blocks if bytes(block.type) == b'"text"')
    calls = [_call(block) for block in blocks if bytes(block.type) == b'"tool_use"']
    said = b',"content":"%b"' % text if text else b""
    if calls:
        said += b',"tool_calls":[%b]' % b",".join(calls)
    return [b'{"role":"assistant"%b}' % said] if said else []


def _call(block: _Block) -> bytes:
    call_id, signature = _id(block.id)
    arguments = "{}" if absent(block.input) or bytes(block.input) == _EMPTY else bytes(block.input).decode()
    extra = b""
    if signature:
        extra = b',"extra_content":{"google":{"thought_signature":%b}}' % encode(signature)
    name = bytes(block.name) if is_text(block.name) else _EMPTY
    function = b'{"name":%b,"arguments":%b}' % (name, encode(arguments))
    return b'{"id":%b,"type":"function","function":%b%b}' % (call_id, function, extra)


def _id(raw: Raw) -> tuple[bytes, str]:
    """(*the id as JSON*, *the signature that it carried*)."""
    if not is_text(raw):
        return _EMPTY, ""
    if thoughtsig.MARK not in bytes(raw):
        return bytes(raw), ""
    call_id, signature = thoughtsig.split(decode_text(raw))
    return encode(call_id), signature


def _user(role: bytes, blocks: list[_Block], path: str) -> list[bytes]:
    out: list[bytes] = []
    parts: list[bytes] = []
    for at, block in enumerate(blocks):
        if bytes(block.type) == b'"tool_result"':
            _flush(out, role, parts)
            content = _flattened(block.content, f"{path}[{at}].content")
            out.append(b'{"role":"tool","tool_call_id":%b,"content":"%b"}' % (_id(block.tool_use_id)[0], content))
        elif part := _part(block):
            parts.append(part)
    _flush(out, role, parts)
    return out


def _flush(out: list[bytes], role: bytes, parts: list[bytes]) -> None:
    if parts:
        out.append(b'{"role":%b,"content":[%b]}' % (role, b",".join(parts)))
        parts.clear()


def _flattened(raw: Raw, path: str) -> bytes:
    """The inside of the text of a tool's result."""
    if absent(raw):
        return b""
    if is_text(raw):
        return inside(raw)
    return b"".join(inside(block.text) for block in _blocks(raw, path) if bytes(block.type) == b'"text"')


def _part(block: _Block) -> bytes:
    """The content part of a block; empty where there is none for it."""
    kind = bytes(block.type)
    if kind == b'"text"':
        return _text(block.text)
    if kind not in (b'"image"', b'"document"') or not is_object(block.source):
        return b""
    source = _decode_source(block.source)
    form, data, media = bytes(source.type), inside(source.data), inside(source.media_type)
    if form == b'"base64"' and data and media:
        if kind == b'"image"':
            return b'{"type":"image_url","image_url":{"url":"data:%b;base64,%b"}}' % (media, data)
        return b'{"type":"file","file":{"file_data":"data:%b;base64,%b"}}' % (media, data)
    if form == b'"url"' and kind == b'"image"' and inside(source.url):
        return b'{"type":"image_url","image_url":{"url":%b}}' % source.url
    return _text(source.data) if form == b'"text"' and kind == b'"document"' and data else b""


def _text(text: Raw) -> bytes:
    return b'{"type":"text","text":%b}' % text
