"""A JSON schema for providers that take none: it becomes an instruction (failover-loop 6.3.5, v1-api 11.6). Pure."""

import msgspec

from proxy.dialects.base import Members

Raw = msgspec.Raw

SCHEMA_LIMIT = 8 * 1024
"""Bytes of a schema that is written into the instruction."""
INSTRUCTION = "Respond with a single JSON object and nothing else."
CONFORM = " It must conform to this JSON Schema:\n"
FORMAT = "response_format"
_JSON_OBJECT = Raw(b'{"type":"json_object"}')
_LEADING = (b'"system"', b'"developer"')
_NULL = b"null"

_members = msgspec.json.Decoder(Members).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.Encoder().encode
_ERRORS = (ValueError, RecursionError)


def wants_schema(body: Members) -> bool:
    """Whether *body* asks for an answer by a JSON schema."""
    return FORMAT in body and _text(_object(body[FORMAT]).get("type")) == b'"json_schema"'


def fold(body: Members, *, json_mode: bool) -> None:
    """Where *body* asks for a JSON schema, in place: ask for it in words. *json_mode*: and no longer by the schema."""
    if not wants_schema(body):
        return
    if "messages" in body:
        body["messages"] = _with(body["messages"], instruction(body))
    if json_mode:
        body[FORMAT] = _JSON_OBJECT


def schema_of(body: Members) -> Raw | None:
    """The schema that *body* asks for an answer by; None where it asks for none, or what it names is no object."""
    if not wants_schema(body):
        return None
    schema = _object(_object(body[FORMAT]).get("json_schema")).get("schema")
    return schema if _text(schema).startswith(b"{") else None


def instruction(body: Members) -> str:
    """What *body*, which asks for a schema, says in words."""
    schema = _text(schema_of(body))
    if not schema or len(schema) > SCHEMA_LIMIT:
        return INSTRUCTION
    return INSTRUCTION + CONFORM + schema.decode("utf-8", "replace")


def _with(messages: Raw, words: str) -> Raw:
    """*messages* with *words* in the leading system message, or with one; what is no list stays as it is."""
    try:
        items = _items(messages)
    except _ERRORS:
        return messages
    joined = _joined(items[0], words) if items else None
    if joined is None:
        items.insert(0, Raw(_encode({"role": "system", "content": words})))
    else:
        items[0] = joined
    return Raw(_encode(items))


def _joined(message: Raw, words: str) -> Raw | None:
    """*message* with *words* at its end; None when it is not one that can take them."""
    members = _object(message)
    if _text(members.get("role")) not in _LEADING:
        return None
    content = _text(members.get("content"))
    if content in (b"", _NULL):
        members["content"] = Raw(_encode(words))
    elif content.startswith(b'"'):
        members["content"] = Raw(content[:-1] + _encode("\n\n" + words)[1:])
    elif content.startswith(b"["):
        try:
            parts = _items(content)
        except _ERRORS:
            return None
        members["content"] = Raw(_encode([*parts, {"type": "text", "text": words}]))
    else:
        return None
    return Raw(_encode(members))


def _object(raw: Raw | None) -> Members:
    """Its members; none of anything but an object."""
    try:
        return _members(raw) if raw is not None else {}
    except _ERRORS:
        return {}


def _text(raw: Raw | None) -> bytes:
    return b"" if raw is None else bytes(raw)
