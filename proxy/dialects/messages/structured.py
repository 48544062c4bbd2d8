"""An answer by a JSON schema, as chat and as the Messages API ask for it. Pure.

``response_format`` of type ``json_schema`` is ``output_config.format`` there (Anthropic, "Structured outputs"); a plain
``json_object`` has no counterpart.
"""

from proxy.dialects.base import Members
from proxy.dialects.jsonmode import schema_of
from proxy.dialects.messages.raw import Raw, is_object, members_of, text_of
from proxy.repairs import NOTHING, SCHEMA, THIS_SCHEMA, Repair

NAME = b"response"
"""What a schema is called in chat, where it needs a name."""

_NAMED = ("output_config", "output_format", "output format", "structured output", "json_schema")
_LACKING = ("not support", "unsupported", "not available", "unavailable", "not permitted", "not implemented")
_SCHEMA = ("schema:", "schema.")
_EFFORT = "effort"


def asked(chat: Members) -> dict[str, object] | None:
    """``output_config.format`` for a chat request; None where it asks for no schema."""
    schema = schema_of(chat)
    return None if schema is None else {"type": "json_schema", "schema": schema}


def read(own: Members, chat: Members) -> None:
    """Fill in *chat*. What is no format, or one that nobody knows, is left out, as all of ``output_config`` is."""
    wanted = members_of(members_of(own.get("output_config")).get("format"))
    schema = wanted.get("schema")
    if text_of(wanted.get("type")) == "json_schema" and is_object(schema):
        form = b'{"type":"json_schema","json_schema":{"name":"%b","schema":%b}}'
        chat["response_format"] = Raw(form % (NAME, schema))


def lesson(message: str) -> Repair:
    """What the *message* of a 400 to a request by a schema teaches: that the model takes none, or not this one."""
    said = message.lower()
    if _EFFORT in said or not any(name in said for name in _NAMED):
        return NOTHING
    lacking = any(phrase in said for phrase in _LACKING) and not any(word in said for word in _SCHEMA)
    return Repair(frozenset({SCHEMA if lacking else THIS_SCHEMA}))
