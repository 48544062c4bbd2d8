"""The messages of a chat request as ``contents`` (v1-api 15.2). Pure."""

from base64 import b64encode
from urllib.parse import unquote, unquote_to_bytes

import msgspec

from proxy.dialects import thoughtsig
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.gemini.answer import ABSENT, begins

Raw = msgspec.Raw
Piece = dict[str, object]
"""One part, ready to be encoded."""

_EMPTY_OBJECT = Raw(b"{}")
_ERRORS = (ValueError, RecursionError)
_SYSTEM = ("system", "developer")  # compared with whatever a client wrote: nothing that hashes
_HEAD_LIMIT = 1024  # characters before the comma of a data URI
_PLAIN_TEXT = "text/plain"  # what a data URI is that does not say (RFC 2397)


class _Message(msgspec.Struct, gc=False):
    role: object = None
    content: Raw = ABSENT
    tool_calls: Raw = ABSENT
    tool_call_id: object = None


class _ContentPart(msgspec.Struct, gc=False):
    type: object = None
    text: object = None
    image_url: object = None
    file: object = None


class _Function(msgspec.Struct, gc=False):
    name: object = None
    arguments: Raw = ABSENT


class _ToolCall(msgspec.Struct, gc=False):
    id: object = None
    function: _Function | None = None
    extra_content: object = None


_messages = msgspec.json.Decoder(list[_Message]).decode
_parts = msgspec.json.Decoder(list[_ContentPart | str]).decode
_calls = msgspec.json.Decoder(list[_ToolCall] | None).decode
_members = msgspec.json.Decoder(Members).decode
_text = msgspec.json.Decoder(str).decode


def translate(chat: Members) -> tuple[list[Piece], list[Piece]]:
    """(parts of the system instruction, contents). Raises Untranslatable where ``messages`` is not of chat's shape."""
    try:
        messages = _messages(chat["messages"])
    except KeyError:
        raise Untranslatable("messages is required") from None
    except _ERRORS:
        raise Untranslatable("messages must be a list of objects") from None
    instructions: list[Piece] = []
    turns: list[Piece] = []
    results: list[Piece] | None = None  # the parts of the run of tool messages that is open
    names: dict[str, str] = {}
    for message in messages:
        role = message.role
        if role in _SYSTEM:
            instructions += [piece for piece in _content(message.content) if "text" in piece]
        elif role == "tool":
            if results is None:
                results = []
                turns.append({"role": "user", "parts": results})
            results.append(_result(message, names))
        else:
            pieces = _content(message.content)
            if role == "assistant":
                pieces += _asked(message.tool_calls, names)
            if pieces:
                results = None
                turns.append({"role": "model" if role == "assistant" else "user", "parts": pieces})
    return instructions, turns


def holds_document(messages: Raw) -> bool:
    """Whether a message carries a file inline, in a part that :func:`translate` keeps."""
    try:
        for message in _messages(messages):
            if message.role in _SYSTEM or message.role == "tool" or begins(message.content) != b"[":
                continue
            for part in _parts(message.content):
                if not isinstance(part, str) and part.type == "file" and _head(_file_data(part)) is not None:
                    return True
    except _ERRORS:
        pass
    return False


# -- what a message says


def _content(raw: Raw) -> list[Piece]:
    kind = begins(raw)
    if kind == b'"':
        text = _text(raw)
        return [{"text": text}] if text else []
    if kind != b"[":
        return []
    try:
        parts = _parts(raw)
    except _ERRORS:
        raise Untranslatable("content must be a string or a list of objects") from None
    pieces = (_piece(part) for part in parts)
    return [piece for piece in pieces if piece is not None]


def _piece(part: _ContentPart | str) -> Piece | None:
    """None for what is dropped."""
    if isinstance(part, str):
        return {"text": part} if part else None
    if part.type == "text":
        return {"text": part.text} if isinstance(part.text, str) and part.text else None
    if part.type == "file":
        return _inline(_file_data(part))
    if part.type != "image_url":
        return None
    url = part.image_url.get("url") if isinstance(part.image_url, dict) else part.image_url
    if not isinstance(url, str) or not url:
        return None
    return _inline(url) if _is_data(url) else {"fileData": {"fileUri": url}}


def _file_data(part: _ContentPart) -> str:
    data = part.file.get("file_data") if isinstance(part.file, dict) else None
    return data if isinstance(data, str) else ""


def _is_data(uri: str) -> bool:
    return uri[:5].lower() == "data:"


def _head(uri: str) -> tuple[str, bool, int] | None:
    """(media type, whether base64, where the data begins) of a data URI that carries something."""
    comma = uri.find(",", 5, _HEAD_LIMIT) if _is_data(uri) else -1
    if comma < 0 or comma + 1 == len(uri):
        return None
    media_type, *parameters = (word.strip() for word in uri[5:comma].split(";"))
    base64 = bool(parameters) and parameters[-1].lower() == "base64"
    return media_type.lower() or _PLAIN_TEXT, base64, comma + 1


def _inline(uri: str) -> Piece | None:
    head = _head(uri)
    if head is None:
        return None
    media_type, base64, start = head
    data = uri[start:]
    if not base64:
        data = b64encode(unquote_to_bytes(data)).decode()
    elif "%" in data:
        data = unquote(data)
    return {"inlineData": {"mimeType": media_type, "data": data}}


# -- calls and their results


def _asked(raw: Raw, names: dict[str, str]) -> list[Piece]:
    """The calls of an assistant message; *names* learns which id is whose."""
    if raw is ABSENT:
        return []
    try:
        calls = _calls(raw) or []
    except _ERRORS:
        raise Untranslatable("tool_calls must be a list of objects") from None
    pieces: list[Piece] = []
    for call in calls:
        if call.function is None or not isinstance(call.function.name, str):
            continue
        if isinstance(call.id, str):
            names[call.id] = call.function.name
        piece: Piece = {"functionCall": {"name": call.function.name, "args": _args(call.function.arguments)}}
        if signature := thoughtsig.of(call.extra_content):
            piece["thoughtSignature"] = signature
        pieces.append(piece)
    return pieces


def _args(raw: Raw) -> Raw:
    kind = begins(raw)
    if kind == b"{":
        return raw
    return (_object(_text(raw)) if kind == b'"' else None) or _EMPTY_OBJECT


def _object(text: str) -> Raw | None:
    """*text* where it is a JSON object."""
    data = text.encode()
    try:
        _members(data)
    except _ERRORS:
        return None
    return Raw(data)


def _result(message: _Message, names: dict[str, str]) -> Piece:
    """A tool message without a known call goes by its id."""
    identity = message.tool_call_id if isinstance(message.tool_call_id, str) else ""
    return {"functionResponse": {"name": names.get(identity, identity), "response": _response(message.content)}}


def _response(raw: Raw) -> object:
    if begins(raw) == b"{":
        return raw
    texts = [piece["text"] for piece in _content(raw) if "text" in piece]
    text = "".join(text for text in texts if isinstance(text, str))
    return _object(text) or {"result": text}
