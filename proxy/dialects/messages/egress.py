"""A chat request for a provider that is asked in the Messages dialect, and its whole answer (v1-api 14). Pure."""

import re
from typing import NamedTuple

import msgspec

from proxy.dialects import callids, jsonmode
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.messages import structured
from proxy.dialects.messages import thinking as thoughts
from proxy.dialects.messages.answer import to_chat as to_chat
from proxy.dialects.messages.content import blocks, text_block
from proxy.dialects.messages.raw import (
    ABSENT,
    ERRORS,
    Raw,
    absent,
    decode_members,
    encode,
    inside,
    is_object,
    is_text,
    items_of,
    joined_text,
    members_of,
    text_of,
)
from proxy.dialects.messages.thinking import DEFAULT_MAX_TOKENS, Way
from proxy.dialects.messages.thinking import lesson as lesson

_SAMPLING = ("temperature", "top_p", "top_k")
_BUDGETS = ("max_completion_tokens", "max_tokens")
_SYSTEM = (b'"system"', b'"developer"')
_ANY_OBJECT = Raw(b'{"type":"object","properties":{}}')
_CHOICES = {"auto": Raw(b'{"type":"auto"}'), "required": Raw(b'{"type":"any"}')}
_RESULT = b'{"type":"tool_result"'
_NOTHING_LEFT = "at least one user or assistant message with content is required"

_ID = re.compile(rb'"[A-Za-z0-9_-]*"')


class _Message(msgspec.Struct, gc=False):
    role: Raw = ABSENT
    content: Raw = ABSENT
    tool_calls: Raw = ABSENT
    tool_call_id: Raw = ABSENT


_decode_message = msgspec.json.Decoder(_Message).decode


class _Turn(NamedTuple):
    """What one side says at a stretch. *text*: of a message that was plain text, as the inside of a string."""

    role: bytes
    blocks: list[bytes]
    text: list[bytes]


def build(
    chat: Members,
    *,
    model: str,
    stream: bool,
    thinking: Way = "adaptive",
    rejected: frozenset[str] = frozenset(),
    json_mode: bool = False,
) -> bytes:
    """The body for *model*. Raises Untranslatable where no message is left.

    *thinking*: how this model is asked to think. *rejected*: what it does not take; of members that chat names alike
    nothing is left in *chat* by then. *json_mode*: a schema is asked for in words.
    """
    system, turns = _messages(chat.get("messages"))
    if not turns:
        raise Untranslatable(_NOTHING_LEFT)
    if json_mode and jsonmode.wants_schema(chat):
        system.append(encode(jsonmode.instruction(chat))[1:-1])
    given = _max_tokens(chat)
    limit = Raw(str(DEFAULT_MAX_TOKENS).encode()) if given is None else given
    body: dict[str, object] = {"model": model, "max_tokens": limit, "messages": [_turn(turn) for turn in turns]}
    if system:
        body["system"] = Raw(b'"%b"' % b"\\n\\n".join(system))
    if stream:
        body["stream"] = True
    _tools(chat, body)
    silent = "thinking" in rejected or (thinking == "budget" and _bars_thinking(turns[-1], body))
    effort = "" if silent else text_of(chat.get("reasoning_effort"))
    asked = thoughts.asked(effort, thinking, _whole(limit))
    config: dict[str, object] = {}
    if asked is not None:
        members, room = asked
        body.update(members)
        config = members.get("output_config", config)
        if room != _whole(limit):
            body["max_tokens"] = room
    else:
        _sampling(chat, body)
    form = None if json_mode else structured.asked(chat)
    if form is not None:
        body["output_config"] = config | {"format": form}
    _stop(chat.get("stop"), body)
    return encode(body)


def _bars_thinking(last: _Turn, body: dict[str, object]) -> bool:
    """Whether Anthropic refuses a budget of thinking here: in the middle of its own turn, which would have to begin
    with a signed thinking block that chat has no place for, and before a tool that it must call.
    """
    unfinished = last.role == b"assistant" or any(block.startswith(_RESULT) for block in last.blocks)
    return unfinished or body.get("tool_choice", _CHOICES["auto"]) is not _CHOICES["auto"]


def _sampling(chat: Members, body: dict[str, object]) -> None:
    """Of ``temperature`` and ``top_p`` Anthropic takes one."""
    for name in _SAMPLING:
        if not absent(chat.get(name)) and not (name == "top_p" and "temperature" in body):
            body[name] = chat[name]


def _max_tokens(chat: Members) -> Raw | None:
    for name in _BUDGETS:
        raw = chat.get(name, ABSENT)
        if bytes(raw)[:1] in b"123456789" and not absent(raw):
            return raw
    return None


def _whole(number: Raw) -> int:
    """Its integer part, as far as it matters here."""
    return int(min(float(bytes(number)), 1e9))


def _stop(raw: Raw | None, body: dict[str, object]) -> None:
    if raw is not None and inside(raw):
        body["stop_sequences"] = [raw]
    elif items_of(raw):
        body["stop_sequences"] = raw


# -- messages


def _messages(raw: Raw | None) -> tuple[list[bytes], list[_Turn]]:
    """(the insides of the system texts, the turns)."""
    system: list[bytes] = []
    turns: list[_Turn] = []
    for item in items_of(raw):
        try:
            message = _decode_message(item)
        except ERRORS:
            continue
        role = bytes(message.role)
        if role in _SYSTEM:
            if text := joined_text(message.content):
                system.append(text)
        elif role == b'"tool"':
            _add(turns, b"user", [_result(message)])
        elif role == b'"assistant"':
            _assistant(turns, message)
        elif is_text(message.content):
            _add(turns, b"user", [], inside(message.content))
        else:
            _add(turns, b"user", blocks(message.content))
    return system, turns


def _add(turns: list[_Turn], role: bytes, found: list[bytes], text: bytes = b"") -> None:
    """Either blocks or the text of a message; neighbours of one role are one turn."""
    if not found and not text:
        return
    if turns and turns[-1].role == role:
        last = turns[-1]
        last.blocks.extend(found or [text_block(text)])
        last.text.clear()
        return
    turns.append(_Turn(role, found or [text_block(text)], [] if found else [text]))


def _turn(turn: _Turn) -> Raw:
    content = b'"%b"' % turn.text[0] if turn.text else b"[%b]" % b",".join(turn.blocks)
    return Raw(b'{"role":"%b","content":%b}' % (turn.role, content))


def _assistant(turns: list[_Turn], message: _Message) -> None:
    calls = [_call(members_of(item)) for item in items_of(message.tool_calls) if is_object(item)]
    if is_text(message.content) and not calls:
        _add(turns, b"assistant", [], inside(message.content))
        return
    text = joined_text(message.content)
    _add(turns, b"assistant", [*([text_block(text)] if text else []), *calls])


def _call(call: Members) -> bytes:
    function = members_of(call.get("function"))
    call_id, name = _call_id(call.get("id")), _string(function.get("name"))
    return b'{"type":"tool_use","id":%b,"name":%b,"input":%b}' % (call_id, name, _input(function.get("arguments")))


def _input(arguments: Raw | None) -> bytes:
    """The object that *arguments* spell, as text or, as some providers write them, as themselves."""
    raw = (
        text_of(arguments).strip().encode() if is_text(arguments) else bytes(ABSENT if arguments is None else arguments)
    )
    try:
        decode_members(raw)
    except ERRORS:
        return b"{}"
    return raw


def _result(message: _Message) -> bytes:
    return _RESULT + b',"tool_use_id":%b,"content":"%b"}' % (
        _call_id(message.tool_call_id),
        joined_text(message.content),
    )


def _call_id(raw: Raw | None) -> bytes:
    """A call's id: Anthropic takes letters, digits, ``_`` and ``-`` alone, and other vendors give others."""
    quoted = _string(raw)
    return quoted if _ID.fullmatch(quoted) else encode(callids.plain(text_of(raw)))


def _string(raw: Raw | None) -> bytes:
    return bytes(raw) if raw is not None and is_text(raw) else b'""'


# -- tools


def _tools(chat: Members, body: dict[str, object]) -> None:
    choice = chat.get("tool_choice")
    if text_of(choice) == "none":
        return
    given = items_of(chat.get("tools"))
    tools = [tool for item in given if (tool := _tool(members_of(item)))]
    if tools:
        body["tools"] = tools
    if given and not tools:
        return
    named = _string(members_of(members_of(choice).get("function")).get("name"))
    if text_of(choice) in _CHOICES:
        body["tool_choice"] = _CHOICES[text_of(choice)]
    elif named != b'""':
        body["tool_choice"] = Raw(b'{"type":"tool","name":%b}' % named)


def _tool(tool: Members) -> dict[str, Raw] | None:
    """A function; the tools of other vendors are nothing here."""
    function = members_of(tool.get("function"))
    if text_of(tool.get("type")) not in ("", "function") or not is_text(function.get("name")):
        return None
    found = {"name": function["name"]}
    if is_text(function.get("description")):
        found["description"] = function["description"]
    parameters = function.get("parameters", ABSENT)
    found["input_schema"] = parameters if is_object(parameters) else _ANY_OBJECT
    return found
