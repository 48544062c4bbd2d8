"""A Responses request of a client: what is refused, and the chat request it stands for (v1-api 13.2 and 13.3). Pure."""

import msgspec

from proxy.answers import INVALID_VALUE
from proxy.body import MODEL_KEPT, MODEL_LIMIT, Asked, BadBody
from proxy.dialects.base import Members
from proxy.dialects.responses import raws
from proxy.dialects.responses.raws import Raw
from proxy.dialects.responses.refusals import NO_STATE, PROMPT, missing, mistyped, refused, undecodable
from proxy.dialects.responses.tools import Tools
from proxy.dialects.responses.transcript import Transcript

_STATE = ("previous_response_id", "conversation")
_RESEND = f"not supported: {NO_STATE}, re-send the transcript in input"
_SAME = ("temperature", "top_p", "metadata")

_decode = msgspec.json.Decoder(Members).decode


def parse(raw: bytes) -> Asked:
    """The request, its *members* a chat request, its *own* what the client sent.

    *refusal*: the first thing in it that only OpenAI's own ``/v1/responses`` serves (13.2). Raises BadBody, whose text
    never quotes the body.
    """
    own = _own(raw)
    model, stream = _model(own), _flag(own, "stream")
    _refuse_state(own)
    transcript, tools = Transcript(), Tools(own.get("tools"))
    choice = tools.choice(own.get("tool_choice"))
    transcript.instruct(own.get("instructions"))
    transcript.take(own.get("input"))
    chat: Members = {"model": own["model"], "messages": raws.json(transcript.messages)}
    if stream:
        chat["stream"] = raws.TRUE
    if tools.chat:
        # Chat takes neither of the other two without a tool.
        chat["tools"] = raws.json(tools.chat)
        if choice is not None:
            chat["tool_choice"] = choice
        chat.update(raws.picked(own, "parallel_tool_calls"))
    chat.update(raws.picked(own, *_SAME))
    chat.update(_renamed(own))
    foreign = [*tools.foreign, *transcript.foreign]
    if raws.filled(own.get("prompt")):
        foreign.append(refused("prompt", PROMPT))
    return Asked(chat, model, stream, stream, own, foreign[0] if foreign else None)


def _own(raw: bytes) -> Members:
    try:
        if not raw.isascii():
            raw.decode()
        return _decode(raw)
    except UnicodeDecodeError:
        raise undecodable("it is not UTF-8") from None
    except msgspec.ValidationError:
        raise undecodable("it is not a JSON object") from None
    except raws.ERRORS:
        raise undecodable("it is not valid JSON") from None


def _model(own: Members) -> str:
    raw = own.get("model")
    if raw is None or raws.absent(raw):
        raise missing("model")
    if not raws.starts(raw, b'"'):
        raise mistyped("model", "a string")
    model = raws.text(raw)
    if not model:
        raise missing("model")
    if len(model) > MODEL_LIMIT:
        text = f"model exceeds maximum length of {MODEL_LIMIT} characters"
        raise BadBody(400, text, INVALID_VALUE, "model", model=model[:MODEL_KEPT] + "…")
    return model


def _flag(own: Members, name: str) -> bool:
    raw = own.get(name, raws.FALSE)
    if raws.absent(raw) or bytes(raw) == b"false":
        return False
    if bytes(raw) != b"true":
        raise mistyped(name, "true or false")
    return True


def _refuse_state(own: Members) -> None:
    for name in _STATE:
        if raws.filled(own.get(name)):
            raise refused(name, _RESEND)
    if _flag(own, "store"):
        raise refused("store", f"must be false: {NO_STATE}")
    if _flag(own, "background"):
        raise refused("background", "not supported: responses are served inline")


def _renamed(own: Members) -> Members:
    """The members that chat has under another name or in another form."""
    found: Members = {}
    if not raws.absent(own.get("max_output_tokens")):
        found["max_tokens"] = own["max_output_tokens"]
    effort = _inside(own, "reasoning").get("effort")
    if effort is not None and not raws.absent(effort):
        found["reasoning_effort"] = effort
    shape = _format(_inside(own, "text").get("format"))
    if shape is not None:
        found["response_format"] = shape
    return found


def _inside(own: Members, name: str) -> Members:
    raw = own.get(name)
    if raws.absent(raw):
        return {}
    found = raws.members(raw)
    if found is None:
        raise mistyped(name, "an object")
    return found


def _format(raw: Raw | None) -> Raw | None:
    """``text.format`` as ``response_format``; None for plain text and for what chat does not know."""
    shape = raws.members(raw) or {}
    kind = raws.text(shape.get("type"))
    if kind == "json_object":
        return raws.json({"type": kind})
    if kind == "json_schema":
        return raws.json({"type": kind, kind: raws.picked(shape, "name", "description", "schema", "strict")})
    return None
