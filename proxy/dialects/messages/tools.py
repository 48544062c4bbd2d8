"""The tools of a Messages request as the functions of a chat request (v1-api 12.2). Pure."""

import msgspec

from proxy.dialects.base import Members
from proxy.dialects.messages.raw import ABSENT, ERRORS, Raw, absent, encode, is_text
from proxy.dialects.messages.refused import items, wrong


class _Tool(msgspec.Struct, gc=False):
    type: Raw = ABSENT
    name: Raw = ABSENT
    description: Raw = ABSENT
    input_schema: Raw = ABSENT


_decode_tool = msgspec.json.Decoder(_Tool).decode


def read(own: Members, chat: Members) -> None:
    """Fill in *chat*. What only Anthropic can run has no schema, and nobody else could call it: it is left out."""
    tools: list[bytes] = []
    names: set[bytes] = set()
    given = [] if absent(own.get("tools")) else items(own["tools"], "tools")
    for at, item in enumerate(given):
        try:
            tool = _decode_tool(item)
        except ERRORS:
            raise wrong(f"tools[{at}]", "an object") from None
        described = not absent(tool.input_schema) or absent(tool.type) or bytes(tool.type) == b'"custom"'
        if described and is_text(tool.name):
            names.add(bytes(tool.name))
            tools.append(_function(tool))
    if tools:
        chat["tools"] = Raw(b"[%b]" % b",".join(tools))
    if absent(own.get("tool_choice")) or (given and not tools):
        return
    try:
        choice = _decode_tool(own["tool_choice"])
    except ERRORS:
        raise wrong("tool_choice", "an object") from None
    if not given or not is_text(choice.name) or bytes(choice.name) in names:
        _choice(choice, chat)


def _function(tool: _Tool) -> bytes:
    function: Members = {"name": tool.name}
    if not absent(tool.description):
        function["description"] = tool.description
    if not absent(tool.input_schema):
        function["parameters"] = tool.input_schema
    return b'{"type":"function","function":%b}' % encode(function)


def _choice(choice: _Tool, chat: Members) -> None:
    kind = bytes(choice.type)
    if kind in (b'"auto"', b'"none"'):
        chat["tool_choice"] = choice.type
    elif kind == b'"tool"' and is_text(choice.name):
        chat["tool_choice"] = Raw(b'{"type":"function","function":{"name":%b}}' % choice.name)
    elif kind in (b'"any"', b'"tool"'):
        chat["tool_choice"] = Raw(b'"required"')
