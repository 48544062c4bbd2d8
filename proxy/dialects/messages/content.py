"""Parts of a chat message as content blocks of the Messages dialect (v1-api 14.1, 14.2). Pure.

The base64 of a picture or a document is moved as the bytes that came.
"""

import base64
import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from proxy.dialects.base import Members
from proxy.dialects.messages.raw import (
    ABSENT,
    ERRORS,
    Raw,
    encode,
    inside,
    is_object,
    is_text,
    items_of,
    unescaped,
)

#: What an OpenAI-compatible endpoint takes as a picture.
PICTURES = frozenset((b"image/jpeg", b"image/png", b"image/gif", b"image/webp"))
_NOT_FROM_A_USER = frozenset((b'"system"', b'"developer"', b'"tool"', b'"assistant"'))
_TEXT, _FILE, _IMAGE = b'"text"', b'"file"', b'"image_url"'
_HEAD = 1024  # bytes of a data URI in which its media type has to end
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class _Part(msgspec.Struct, gc=False):
    type: Raw = ABSENT
    text: Raw = ABSENT
    image_url: Raw = ABSENT
    file: Raw = ABSENT


class _Image(msgspec.Struct, gc=False):
    url: Raw = ABSENT


class _File(msgspec.Struct, gc=False):
    file_data: Raw = ABSENT
    file_url: Raw = ABSENT


class _Message(msgspec.Struct, gc=False):
    role: Raw = ABSENT
    content: Raw = ABSENT


_decode_part = msgspec.json.Decoder(_Part).decode
_decode_image = msgspec.json.Decoder(_Image).decode
_decode_file = msgspec.json.Decoder(_File).decode
_decode_message = msgspec.json.Decoder(_Message).decode


#: What may stand in a JSON string as it is.
_MEDIA = re.compile(rb"[!#-\[\]-~]+")


class _Data(NamedTuple):
    """A data URI: its media type in lower case, and its base64 as the inside of a JSON string."""

    media: bytes
    base64: bytes


def has_document(chat: Members) -> bool:
    """Whether a request carries a document inline, which Anthropic takes in its own dialect only (v1-api 14.1)."""
    raw = bytes(chat.get("messages", ABSENT))
    if b'"file"' not in raw and b"data:" not in raw:
        return False
    for item in items_of(chat["messages"]):
        try:
            message = _decode_message(item)
        except ERRORS:
            continue
        if bytes(message.role) not in _NOT_FROM_A_USER and any(map(_is_document, items_of(message.content))):
            return True
    return False


def _is_document(item: Raw) -> bool:
    part = _part(item)
    kind = bytes(part.type)
    if kind == _FILE:
        return _of_file(part.file) != b""
    if kind != _IMAGE:
        return False
    data = _data(inside(_url(part.image_url)))
    return data is not None and data.media not in PICTURES and _of_data(data) != b""


def blocks(content: Raw | None) -> list[bytes]:
    """The blocks of a user's parts; nothing of those that no block stands for."""
    return [found for item in items_of(content) if (found := _block(_part(item)))]


def text_block(text: bytes) -> bytes:
    """*text*: the inside of a string."""
    return b'{"type":"text","text":"%b"}' % text


def _part(item: Raw) -> _Part:
    try:
        return _decode_part(item)
    except ERRORS:
        return _Part()


def _block(part: _Part) -> bytes:
    kind = bytes(part.type)
    if kind == _TEXT:
        text = inside(part.text)
        return text_block(text) if text else b""
    if kind == _FILE:
        return _of_file(part.file)
    return _of_image(_url(part.image_url)) if kind == _IMAGE else b""


def _url(image: Raw) -> Raw:
    """Of an ``image_url``, which some clients write as the address itself."""
    return _decode_image(image).url if is_object(image) else image


def _of_image(url: Raw) -> bytes:
    address = inside(url)
    data = _data(address)
    if data is not None:
        return _of_data(data)
    if address[:4].lower() != b"http":
        return b""
    return b'{"type":"image","source":{"type":"url","url":%b}}' % url


def _of_file(file: Raw) -> bytes:
    if not is_object(file):
        return b""
    found = _decode_file(file)
    data = _data(inside(found.file_data))
    if data is not None and (block := _of_data(data)):
        return block
    if not is_text(found.file_url) or not inside(found.file_url):
        return b""
    return b'{"type":"document","source":{"type":"url","url":%b}}' % found.file_url


def _of_data(data: _Data) -> bytes:
    if data.media == b"text/plain":
        try:
            text = _decoded(unescaped(data.base64)).decode()
        except ValueError:
            return b""
        source = b'"type":"text","media_type":"text/plain","data":%b' % encode(text)
        return b'{"type":"document","source":{%b}}' % source if text else b""
    kind, media = b"document", b"application/pdf"
    if data.media.startswith(b"image/"):
        kind, media = b"image", data.media
    return b'{"type":"%b","source":{"type":"base64","media_type":"%b","data":"%b"}}' % (kind, media, data.base64)


def _data(address: bytes) -> _Data | None:
    """The data URI that *address*, the inside of a string, is; None where it is none, or holds nothing."""
    if address[:5].lower() != b"data:":
        return None
    head, comma, _ = address[:_HEAD].partition(b",")
    payload = address[len(head) + 1 :]
    try:
        words = [word.strip().lower() for word in unescaped(head[5:]).split(b";")]
        if words[-1] != b"base64" or b"%" in payload:
            payload = _plain(unescaped(payload), encoded=words[-1] == b"base64")
    except ValueError:
        return None
    media = words[0] or b"text/plain"
    return _Data(media, payload) if comma and payload and _MEDIA.fullmatch(media) else None


def _plain(payload: bytes, *, encoded: bool) -> bytes:
    """The base64 of a percent-encoded *payload*, which may be base64 itself. Raises ValueError."""
    if _BROKEN_ESCAPE.search(payload):
        raise ValueError("broken percent escape")
    plain = unquote_to_bytes(payload)
    return base64.b64encode(_decoded(plain) if encoded else plain)


def _decoded(text: bytes) -> bytes:
    """Of base64, with line breaks and without padding as it may be. Raises ValueError."""
    text = b"".join(text.split())
    return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
