"""Chat completions as generateContent: the request, and the answer that comes whole (v1-api 15). Pure."""

import msgspec

from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.gemini import answer, contents
from proxy.dialects.gemini.answer import NewId, Now, Said

Raw = msgspec.Raw

_ERRORS = (ValueError, RecursionError)
_encode = msgspec.json.Encoder().encode
_value = msgspec.json.Decoder().decode

#: Members that only change their name.
_RENAMED = (
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
    ("seed", "seed"),
)
_LIMITS = ("max_completion_tokens", "max_tokens")
#: Tokens of thinking.
_BUDGETS = {"none": 0, "minimal": 0, "low": 1024, "medium": 8192, "high": 24576}
_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_JSON = "application/json"
_FILE_DATA = b'"file_data"'


class _Declaration(msgspec.Struct):
    name: object = None
    description: object = None
    parameters: Raw = answer.ABSENT


class _Tool(msgspec.Struct):
    function: _Declaration | None = None


class _Schema(msgspec.Struct):
    schema: Raw = answer.ABSENT


class _Format(msgspec.Struct):
    type: str = ""
    json_schema: _Schema | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _Choice(msgspec.Struct):
    function: _Named | None = None


_tools = msgspec.json.Decoder(list[_Tool]).decode
_format = msgspec.json.Decoder(_Format).decode
_choice = msgspec.json.Decoder(_Choice | str).decode
_words = msgspec.json.Decoder(list[str]).decode


# -- the request


def build(chat: Members, *, model: str, stream: bool) -> bytes:
    """The body for ``:generateContent`` or ``:streamGenerateContent``; *model* and *stream* stand in the URL only.

    Raises Untranslatable where no content is left or a member is not of chat's shape.
    """
    instructions, turns = contents.translate(chat)
    if not turns:
        raise Untranslatable("at least one user or assistant message with content is required")
    body: dict[str, object] = {"contents": turns}
    if instructions:
        body["systemInstruction"] = {"parts": instructions}
    if declared := _declarations(chat):
        body["tools"] = [{"functionDeclarations": declared}]
    if (choice := _calling(chat)) is not None:
        body["toolConfig"] = {"functionCallingConfig": choice}
    if config := _generation(chat):
        body["generationConfig"] = config
    return _encode(body)


def _stated(chat: Members, name: str) -> Raw | None:
    raw = chat.get(name)
    return None if raw is None or answer.begins(raw) == b"n" else raw


def _declarations(chat: Members) -> list[dict[str, object]]:
    raw = _stated(chat, "tools")
    if raw is None:
        return []
    try:
        functions = [tool.function for tool in _tools(raw) if tool.function is not None]
    except _ERRORS:
        raise Untranslatable("tools must be a list of objects") from None
    return [_declared(function) for function in functions if isinstance(function.name, str)]


def _declared(function: _Declaration) -> dict[str, object]:
    said: dict[str, object] = {"name": function.name}
    if isinstance(function.description, str):
        said["description"] = function.description
    if answer.begins(function.parameters) == b"{":
        said["parametersJsonSchema"] = function.parameters
    return said


def _calling(chat: Members) -> dict[str, object] | None:
    """None for what the dialect does not know."""
    raw = _stated(chat, "tool_choice")
    if raw is None:
        return None
    try:
        choice = _choice(raw)
    except _ERRORS:
        return None
    if isinstance(choice, str):
        return {"mode": _MODES[choice]} if choice in _MODES else None
    if choice.function is None or not choice.function.name:
        return None
    return {"mode": "ANY", "allowedFunctionNames": [choice.function.name]}


def _generation(chat: Members) -> dict[str, object]:
    config: dict[str, object] = {}
    limits = (limit for name in _LIMITS if (limit := _stated(chat, name)) is not None)
    if (limit := next(limits, None)) is not None:
        config["maxOutputTokens"] = limit
    for name, known_as in _RENAMED:
        if (value := _stated(chat, name)) is not None:
            config[known_as] = value
    if (stop := _stated(chat, "stop")) is not None:
        config["stopSequences"] = [stop] if answer.begins(stop) == b'"' else stop
    config.update(_response_format(chat))
    budget = _BUDGETS.get(_word(chat, "reasoning_effort"))
    if budget is not None:
        config["thinkingConfig"] = {"thinkingBudget": budget}
    if "image" in (modalities := _modalities(chat)):
        config["responseModalities"] = ["TEXT", "IMAGE"] if "text" in modalities else ["IMAGE"]
    return config


def _response_format(chat: Members) -> dict[str, object]:
    raw = _stated(chat, "response_format")
    if raw is None:
        return {}
    try:
        wanted = _format(raw)
    except _ERRORS:
        return {}
    if wanted.type == "json_object":
        return {"responseMimeType": _JSON}
    if wanted.type != "json_schema":
        return {}
    if wanted.json_schema is None or wanted.json_schema.schema is answer.ABSENT:
        return {"responseMimeType": _JSON}
    return {"responseMimeType": _JSON, "responseJsonSchema": wanted.json_schema.schema}


def _word(chat: Members, name: str) -> str:
    raw = chat.get(name)
    try:
        value = _value(raw) if raw is not None else None
    except _ERRORS:
        return ""
    return value.strip().lower() if isinstance(value, str) else ""


def _modalities(chat: Members) -> list[str]:
    raw = chat.get("modalities")
    try:
        return _words(raw) if raw is not None else []
    except _ERRORS:
        return []


def wants_native(chat: Members, output_modalities: tuple[str, ...]) -> bool:
    """Whether a chat request to Google AI Studio leaves its OpenAI-compatible route (v1-api 15.1).

    *output_modalities*: what discovery says of the model, empty where it says nothing.
    """
    if "image" in output_modalities:
        return True
    if "modalities" in chat and "image" in _modalities(chat):
        return not output_modalities
    messages = chat.get("messages")
    return messages is not None and _FILE_DATA in bytes(messages) and contents.holds_document(messages)


# -- the answer


def to_chat(payload: bytes, *, model: str, new_id: NewId = answer.new_id, now: Now = answer.now) -> bytes:
    """A chat completion. Raises Untranslatable, *blocked* where the prompt was refused for its content."""
    found = answer.read(payload)
    candidate = answer.first(found)
    if candidate.finish == answer.MALFORMED_CALL:
        raise Untranslatable(answer.MALFORMED_TEXT, usage=answer.usage(found))
    try:
        said = answer.say(candidate.parts)
    except _ERRORS:
        text = "gemini: the answer holds a call that can not be read"
        raise Untranslatable(text, usage=answer.usage(found)) from None
    chat_id = new_id()
    reason = answer.finish_reason(candidate.finish, calls=bool(said.calls), delivered=said.anything)
    completion: dict[str, object] = {
        "id": chat_id,
        "object": "chat.completion",
        "created": int(now()),
        "model": model,
        "choices": [{"index": 0, "message": _message(said, chat_id), "finish_reason": reason}],
    }
    if (usage := answer.chat_usage(found.usage_metadata)) is not None:
        completion["usage"] = usage
    return _encode(completion)


def _message(said: Said, chat_id: str) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": said.text or None}
    if said.calls:
        message["tool_calls"] = [answer.tool_call(call, chat_id, index) for index, call in enumerate(said.calls)]
    if said.images:
        message["images"] = [answer.picture(url) for url in said.images]
    return message
