"""A chat request as ``/v1/responses`` is asked it, and its whole answer (v1-api 16, failover-loop 6.3.6). Pure."""

import time
from collections.abc import Callable
from typing import Any

from proxy.dialects import callids
from proxy.dialects.base import Members, Untranslatable
from proxy.dialects.responses import raws
from proxy.dialects.responses.answers import chat_usage, failed, finish_reason, read_usage
from proxy.dialects.responses.raws import Raw

_SAME = ("temperature", "top_p", "metadata")
_CHOICES = frozenset(("auto", "none", "required"))
_INSTRUCTING = frozenset(("system", "developer"))
_BLANK_LINE = rb"\n\n"
_NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')
_EMPTY = Raw(b'"{}"')
_LATEST = 2**53  # a time beyond it is none
#: A status of a Response that is no answer yet, or never will be one.
_UNFINISHED = frozenset(("queued", "in_progress", "cancelled"))

# -- the request


def build(chat: Members, *, model: str, stream: bool) -> bytes:
    """The body for ``/v1/responses``. *chat* is the rewritten chat request. Raises Untranslatable."""
    conversation = _Conversation()
    for at, message in enumerate(_listed(chat, "messages")):
        conversation.add(f"messages[{at}]", message)
    body: dict[str, Any] = {"model": model}
    if conversation.instructions:
        body["instructions"] = raws.joined(conversation.instructions, _BLANK_LINE)
    body["input"] = conversation.input
    if stream:
        body["stream"] = True
    tools = [tool for item in _listed(chat, "tools") if (tool := _tool(item)) is not None]
    if tools:
        body["tools"] = tools
        choice = _choice(chat.get("tool_choice"))
        if choice is not None:
            body["tool_choice"] = choice
        body |= raws.picked(chat, "parallel_tool_calls")
    body |= raws.picked(chat, *_SAME)
    for name in ("max_completion_tokens", "max_tokens"):
        if not raws.absent(chat.get(name)):
            body["max_output_tokens"] = chat[name]
            break
    body["reasoning"] = _reasoning(chat.get("reasoning_effort"))
    shape = _format(chat.get("response_format"))
    if shape is not None:
        body["text"] = {"format": shape}
    body["store"] = False
    return raws.encode(body)


def _listed(chat: Members, name: str) -> list[Raw]:
    raw = chat.get(name)
    if raws.absent(raw):
        return []
    found = raws.items(raw)
    if found is None:
        raise Untranslatable(f"{name} is not a list")
    return found


class _Conversation:
    def __init__(self) -> None:
        self.instructions: list[Raw] = []
        self.input: list[dict[str, Any]] = []

    def add(self, field: str, raw: Raw) -> None:
        message = raws.members(raw)
        if message is None:
            raise Untranslatable(f"{field} is not an object")
        role = raws.text(message.get("role"))
        parts = _parts(message.get("content"))
        if role in _INSTRUCTING:
            texts = [part["text"] for part in parts if _is_text(part)]
            if texts:
                self.instructions.append(raws.joined(texts))
        elif role == "assistant":
            self._assistant(message, parts)
        elif role == "tool":
            texts = [part["text"] for part in parts if _is_text(part)]
            output = raws.joined(texts) if texts else raws.json("")
            call = _call_id(message.get("tool_call_id"))
            self.input.append({"type": "function_call_output", "call_id": call, "output": output})
        else:
            self._say("user", [found for part in parts if (found := _user_part(part)) is not None])

    def _say(self, role: str, content: list[dict[str, Any]]) -> None:
        if content:
            self.input.append({"type": "message", "role": role, "content": content})

    def _assistant(self, message: Members, parts: list[Members]) -> None:
        self._say("assistant", [{"type": "output_text", "text": part["text"]} for part in parts if _is_text(part)])
        for raw in raws.items(message.get("tool_calls")) or ():
            call = raws.members(raw) or {}
            function = raws.members(call.get("function"))
            if function is None or not raws.text(function.get("name")):
                continue
            item = {"type": "function_call", "call_id": _call_id(call.get("id")), "name": function["name"]}
            self.input.append({**item, "arguments": _arguments(function.get("arguments"))})


def _call_id(raw: Raw | None) -> Raw:
    if raw is None:
        return raws.json("")
    if len(memoryview(raw)) <= callids.RESPONSES_LIMIT + 2:
        return raw
    return raws.json(callids.shortened(raws.text(raw), callids.RESPONSES_LIMIT))


def _parts(content: Raw | None) -> list[Members]:
    """The parts of a message; a string is one."""
    if content is not None and raws.starts(content, b'"'):
        return [{"type": raws.json("text"), "text": content}]
    return [part for item in raws.items(content) or () if (part := raws.members(item)) is not None]


def _is_text(part: Members) -> bool:
    text = part.get("text")
    return raws.text(part.get("type")) == "text" and raws.starts(text, b'"') and len(memoryview(part["text"])) > 2


def _user_part(part: Members) -> dict[str, Any] | None:
    if _is_text(part):
        return {"type": "input_text", "text": part["text"]}
    kind = raws.text(part.get("type"))
    inside = raws.members(part.get(kind)) if kind in ("image_url", "file") else None
    if not inside:
        return None
    if kind == "image_url":
        if not raws.starts(inside.get("url"), b'"'):
            return None
        return {"type": "input_image", "image_url": inside["url"], **raws.picked(inside, "detail")}
    file = raws.picked(inside, "file_data", "file_id", "filename")
    return {"type": "input_file", **file} if file.keys() - {"filename"} else None


def _arguments(raw: Raw | None) -> Raw:
    if raw is None or raws.absent(raw) or len(memoryview(raw)) <= 2:
        return _EMPTY
    return raw if raws.starts(raw, b'"') else raws.json(bytes(raw).decode())


def _tool(raw: Raw) -> dict[str, Any] | None:
    tool = raws.members(raw) or {}
    function = raws.members(tool.get("function"))
    if function is None or raws.text(tool.get("type")) not in ("function", ""):
        return None
    return {
        "type": "function",
        "parameters": _NO_PARAMETERS,
        # Unsaid means no in chat, but yes here.
        "strict": False,
        **raws.picked(function, "name", "description", "parameters", "strict"),
    }


def _choice(raw: Raw | None) -> Raw | None:
    if raw is not None and raws.starts(raw, b'"'):
        return raw if raws.text(raw) in _CHOICES else None
    choice = raws.members(raw) or {}
    name = raws.text((raws.members(choice.get("function")) or {}).get("name"))
    return raws.json({"type": "function", "name": name}) if name else None


def _reasoning(raw: Raw | None) -> dict[str, Any]:
    if raw is None or raws.absent(raw):
        return {"summary": "auto"}
    if raws.text(raw) == "none":
        return {"effort": "none"}
    return {"effort": raw, "summary": "auto"}


def _format(raw: Raw | None) -> dict[str, Any] | None:
    shape = raws.members(raw) or {}
    kind = raws.text(shape.get("type"))
    if kind == "json_object":
        return {"type": kind}
    if kind == "json_schema":
        inside = raws.members(shape.get(kind)) or {}
        return {"type": kind, **raws.picked(inside, "name", "description", "schema", "strict")}
    return None


# -- the answer


def chat_id(response_id: str, new_id: Callable[[], str] = raws.hex32) -> str:
    """``chatcmpl-`` and what follows ``resp_``."""
    return f"chatcmpl-{response_id.removeprefix('resp_') or new_id()}"


def to_chat(
    payload: bytes, *, model: str, new_id: Callable[[], str] = raws.hex32, now: Callable[[], float] = time.time
) -> bytes:
    """A Response object as a chat completion of *model*. Raises Untranslatable."""
    response = raws.members(payload) if raws.utf8(payload) else None
    if response is None or not (raws.filled(response.get("id")) or raws.filled(response.get("status"))):
        raise Untranslatable("the answer is not a Response object")
    status = raws.text(response.get("status"))
    error = raws.value(response.get("error"))
    if status == "failed" or (error and not status):
        raise failed(error, read_usage(response.get("usage")))
    if status in _UNFINISHED:
        raise Untranslatable("the response is not finished", usage=read_usage(response.get("usage")))
    gathered = _Gathered()
    for item in raws.items(response.get("output")) or ():
        gathered.take(raws.members(item) or {})
    created = raws.value(response.get("created_at"))
    reason = finish_reason(response, calls=bool(gathered.calls))
    completion = {
        "id": chat_id(raws.text(response.get("id")), new_id),
        "object": "chat.completion",
        "created": int(created) if isinstance(created, int | float) and 0 <= created < _LATEST else int(now()),
        "model": model,
        "choices": [{"index": 0, "message": gathered.message(), "finish_reason": reason}],
    }
    usage = chat_usage(response.get("usage"))
    return raws.encode(completion if usage is None else {**completion, "usage": usage})


class _Gathered:
    """What the items of ``output`` say."""

    def __init__(self) -> None:
        self._texts: list[Raw] = []
        self._refusals: list[Raw] = []
        self._summaries: list[Raw] = []
        self.calls: list[dict[str, Any]] = []

    def take(self, item: Members) -> None:
        kind = raws.text(item.get("type"))
        if kind == "message":
            for part in self._inside(item, "content"):
                name = "refusal" if raws.text(part.get("type")) == "refusal" else "text"
                self._keep(part, name, self._refusals if name == "refusal" else self._texts)
        elif kind == "reasoning":
            for part in self._inside(item, "summary"):
                self._keep(part, "text", self._summaries)
        elif kind == "function_call":
            words = raws.arguments(raws.text(item.get("arguments")))
            function = {"name": raws.text(item.get("name")), "arguments": words}
            call_id = raws.text(item.get("call_id")) or raws.text(item.get("id"))
            self.calls.append({"id": call_id, "type": "function", "function": function})

    @staticmethod
    def _inside(item: Members, name: str) -> list[Members]:
        return [found for part in raws.items(item.get(name)) or () if (found := raws.members(part)) is not None]

    @staticmethod
    def _keep(part: Members, name: str, texts: list[Raw]) -> None:
        text = part.get(name)
        if text is not None and raws.starts(text, b'"') and len(memoryview(text)) > 2:
            texts.append(text)

    def message(self) -> dict[str, Any]:
        content = raws.joined(self._texts, b"") if self._texts else None
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if self._summaries:
            message["reasoning_content"] = raws.joined(self._summaries, _BLANK_LINE)
        if self._refusals:
            message["refusal"] = raws.joined(self._refusals, b"")
        if self.calls:
            message["tool_calls"] = self.calls
        return message
