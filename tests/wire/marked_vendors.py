"""What Anthropic, Google, OpenAI's Responses and a relay of chat completions answer and refuse, made of markers.

Each fault is one of a vendor's own: its errors quote the request, its own words (types, codes, reasons, statuses) are
markers where a vendor has an enumeration, and half of an answer stands in front of what breaks in a stream.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.upstream import vendors_api
from tests.upstream.server import DONE, Behaviour, Wire, delta, events, raw, reply
from tests.upstream.vendors_api import called, generated, message, reasoned, response, said, text, thinking, tool_use
from tests.wire.marked import Marks, Sent, chunks, refused, whole

Fault = Callable[[Sent, Marks], Behaviour]
STATUSES = (400, 401, 403, 404, 413, 429, 500, 529)
PIECE = 40  # of a delta: it holds a marker as a whole


def _words(sent: Sent) -> str:
    return f"can not serve {sent.echoed} for you"


def _either(answer: Behaviour, streamed: Behaviour) -> Behaviour:
    async def behave(wire: Wire) -> None:
        stream = wire.request.streaming or wire.request.path.endswith(":streamGenerateContent")
        await (streamed if stream else answer)(wire)

    return behave


def _statuses(make: Callable[[int, Sent, Marks], Any]) -> dict[str, Fault]:
    """An error of the vendor for each status, with headers that say too much."""

    def fault(code: int) -> Fault:
        def behave(sent: Sent, mark: Marks) -> Behaviour:
            headers = {"X-Note": mark("a header"), "Retry-After": mark("a wait"), "request-id": mark("an id")}
            return reply(code, make(code, sent, mark), headers=headers)

        return behave

    return {f"status {code}": fault(code) for code in STATUSES}


def _garbled(mark: Marks, *before: Any) -> Behaviour:
    """A frame that is no JSON, behind good ones."""
    return events(*before, f"event: {mark('a name')}\ndata: {{{mark('a frame')}\n\n".encode(), end=False)


def _stuck(mark: Marks) -> dict[str, str]:
    """An error that quotes what was answered so far."""
    return {"type": mark("a type"), "code": mark("a code"), "message": f"no call in {mark('the answer')}"}


# -- Anthropic


def _blocks(mark: Marks) -> list[dict[str, Any]]:
    used = tool_use("look_up", {"city": mark("an argument of the answer")})
    return [thinking(mark("a thought"), mark("a signature")), text(f"{mark('the answer')} "), used]


def _claude_error(kind: str, sent: Sent) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": _words(sent), "details": {"quoted": sent.echoed}}}


CLAUDE: dict[str, Fault] = {
    "a good answer": lambda sent, mark: message(*_blocks(mark)),
    **_statuses(lambda code, sent, mark: {**_claude_error(mark("a type"), sent), "request_id": mark("an id")}),
    "an error under a 200": lambda sent, mark: reply(200, _claude_error(mark("a type").replace("0", "a"), sent)),
    "an error of no marked type": lambda sent, mark: reply(200, _claude_error("overloaded_error", sent)),
    "an error in the stream": lambda sent, mark: message(*_blocks(mark), then=_claude_error(mark("a type"), sent)),
    "an overload in the stream": lambda sent, mark: message(*_blocks(mark), then=_claude_error("api_error", sent)),
    "an error of the answer": lambda sent, mark: message(*_blocks(mark), then={"type": "error", "error": _stuck(mark)}),
    "an error first": lambda sent, mark: events(_claude_error(mark("a type"), sent)),
    "a stream that is cut": lambda sent, mark: message(*_blocks(mark), then="cut"),
    "a stream that ends too soon": lambda sent, mark: message(*_blocks(mark), then="ends"),
    "a stop nobody knows": lambda sent, mark: message(*_blocks(mark), stop=mark("a stop")),
    "a refusal": lambda sent, mark: message(text(mark("a refusal")), stop="refusal"),
    "no content": lambda sent, mark: reply(200, {"type": "message", "content": [], "stop_reason": None}),
    "blocks of another shape": lambda sent, mark: message({"type": mark("a block"), "text": mark("the answer")}),
    "usage that is none": lambda sent, mark: reply(
        200, {"type": "message", "content": [text(mark("the answer"))], "usage": {"input_tokens": mark("a count")}}
    ),
    "a frame that is no JSON": lambda sent, mark: _garbled(mark),
    "half of an answer": lambda sent, mark: raw(
        b'HTTP/1.1 200 X\r\nContent-Type: %b\r\n\r\n{"type":"message","content":[{"type":"text","text":"%b'
        % (mark("a type").encode(), mark("the answer").encode())
    ),
}

# -- Google


def _parts(mark: Marks) -> list[dict[str, Any]]:
    call = {"functionCall": {"name": "look_up", "args": {"city": mark("an argument of the answer")}}}
    return [{"text": mark("a thought"), "thought": True}, {"text": f"{mark('the answer')} "}, call]


def _candidate(mark: Marks, **members: Any) -> dict[str, Any]:
    """An answer of one candidate, its parts as *parts*."""
    found: dict[str, Any] = {"content": {"parts": members.pop("parts", _parts(mark)), "role": "model"}, "index": 0}
    return {"candidates": [{**found, **members}], "usageMetadata": vendors_api.GEMINI_USAGE}


def _google_error(code: int, sent: Sent, mark: Marks) -> dict[str, Any]:
    detail = {"@type": mark("a type"), "reason": mark("a reason"), "fieldViolations": [{"description": sent.echoed}]}
    return {"error": {"code": code, "message": _words(sent), "status": mark("a status"), "details": [detail]}}


def _blocked(reason: str, mark: Marks) -> Behaviour:
    feedback = {"blockReason": reason, "blockReasonMessage": mark("a reason"), "safetyRatings": []}
    answer = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9}}
    return _either(reply(200, answer), events(answer))


def _ended(mark: Marks, **members: Any) -> Behaviour:
    answer = _candidate(mark, finishMessage=mark("a message"), **members)
    return _either(reply(200, answer), events(answer))


GOOGLE: dict[str, Fault] = {
    "a good answer": lambda sent, mark: generated(*_parts(mark)),
    **_statuses(lambda code, sent, mark: [_google_error(code, sent, mark)]),
    "an error under a 200": lambda sent, mark: reply(200, _google_error(500, sent, mark)),
    "an error in the stream": lambda sent, mark: events(_candidate(mark), _google_error(500, sent, mark)),
    "an error of the answer": lambda sent, mark: events(_candidate(mark), {"error": _stuck(mark)}),
    "an error first": lambda sent, mark: events(_google_error(503, sent, mark)),
    "a blocked prompt": lambda sent, mark: _blocked("PROHIBITED_CONTENT", mark),
    "a blocked prompt in other words": lambda sent, mark: _blocked(mark("a reason"), mark),
    "a blocked answer": lambda sent, mark: _ended(mark, finishReason="SAFETY"),
    "an end nobody knows": lambda sent, mark: _ended(mark, finishReason=mark("a reason")),
    "a malformed call": lambda sent, mark: _ended(mark, finishReason="MALFORMED_FUNCTION_CALL", parts=[]),
    "no candidate": lambda sent, mark: reply(200, {"candidates": [], "modelVersion": mark("a version")}),
    "parts of another shape": lambda sent, mark: _ended(mark, parts=[mark("a part"), {mark("a part"): mark("a")}]),
    "a file of another type": lambda sent, mark: _ended(
        mark, parts=[{"inlineData": {"mimeType": mark("a type"), "data": mark("a file")}}]
    ),
    "a stream that is cut": lambda sent, mark: generated(*_parts(mark), then="cut"),
    "a stream that ends too soon": lambda sent, mark: generated(*_parts(mark), then="ends"),
    "a frame that is no JSON": lambda sent, mark: _garbled(mark, _candidate(mark)),
}

# -- OpenAI's Responses


def _output(mark: Marks) -> list[dict[str, Any]]:
    arguments = json.dumps({"city": mark("an argument of the answer")})
    return [reasoned(mark("a thought"), encrypted=mark("a thought")), said(mark("the answer")), called("f", arguments)]


def _error(sent: Sent, mark: Marks) -> dict[str, Any]:
    return {"code": mark("a code"), "message": _words(sent), "type": mark("a type"), "param": mark("a param")}


def _failed(sent: Sent, mark: Marks, code: str = "") -> Behaviour:
    error = {**_error(sent, mark), **({"code": code} if code else {})}
    return response(*_output(mark), status="failed", error=error)


RESPONSES: dict[str, Fault] = {
    "a good answer": lambda sent, mark: response(*_output(mark)),
    **_statuses(lambda code, sent, mark: {"error": _error(sent, mark)}),
    "a failed response": _failed,
    "a response refused for its content": lambda sent, mark: _failed(sent, mark, "content_policy_violation"),
    "an incomplete response": lambda sent, mark: response(
        *_output(mark), status="incomplete", incomplete_details={"reason": mark("a reason")}
    ),
    "a status nobody knows": lambda sent, mark: response(*_output(mark), status=mark("a status")),
    "no output": lambda sent, mark: reply(200, {"id": mark("an id"), "status": "completed", "output": mark("none")}),
    "an error first": lambda sent, mark: events({"type": "error", **_error(sent, mark)}),
    "an error in the stream": lambda sent, mark: events(
        {"type": "response.created", "response": {"id": mark("an id"), "instructions": sent.echoed}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": mark("the answer")},
        {"type": "error", "error": _error(sent, mark)},
    ),
    "an error of the answer": lambda sent, mark: events(
        {"type": "response.created", "response": {"id": mark("an id")}},
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "delta": mark("the answer")},
        {"type": "response.failed", "response": {"id": mark("an id"), "status": "failed", "error": _stuck(mark)}},
    ),
    "events nobody knows": lambda sent, mark: events(
        {"type": mark("an event"), "delta": mark("the answer")}, {"type": "response.failed", "response": mark("it")}
    ),
    "a stream that is cut": lambda sent, mark: response(*_output(mark), then="cut"),
    "a stream that ends too soon": lambda sent, mark: response(*_output(mark), then="ends"),
    "a frame that is no JSON": lambda sent, mark: _garbled(mark),
}

# -- relays of chat completions


def _azure(sent: Sent, mark: Marks) -> Behaviour:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"text": sent.echoed}}}
    return reply(
        400, {"error": {"message": _words(sent), "code": "content_filter", "status": 400, "innererror": inner}}
    )


def _groq(sent: Sent, mark: Marks) -> Behaviour:
    told = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed"}
    return reply(400, {"error": {**told, "failed_generation": f"<function={mark('the answer')}>"}})


CHAT: dict[str, Fault] = {
    "a good answer": lambda sent, mark: _either(
        reply(200, whole(mark)), events(*chunks(mark), delta(finish="stop"), DONE)
    ),
    **{f"status {code}": lambda sent, mark, code=code: refused(code, sent, mark) for code in STATUSES},  # type: ignore[misc]
    "a refusal of Azure's": _azure,
    "a refusal of Groq's": _groq,
    "an error of another shape": lambda sent, mark: reply(
        422, {"detail": [{"msg": sent.echoed, "input": sent.echoed}]}
    ),
    "a finish nobody knows": lambda sent, mark: events(
        *chunks(mark), delta(finish=mark("a finish"), native_finish_reason=mark("a reason")), DONE
    ),
    "an error in the stream": lambda sent, mark: events(*chunks(mark), {"error": _error(sent, mark)}),
    "an error of the answer": lambda sent, mark: events(*chunks(mark), {"error": _stuck(mark)}),
    "a stream that is cut": lambda sent, mark: events(*chunks(mark), end=False),
    "no choices": lambda sent, mark: _either(reply(200, {**whole(mark), "choices": []}), events(DONE)),
    "a frame that is no JSON": lambda sent, mark: _garbled(mark, *chunks(mark)),
}

FAULTS: Mapping[str, Mapping[str, Fault]] = {
    "claude": CLAUDE,
    "gateway": CLAUDE,
    "vertex": GOOGLE,
    "google": GOOGLE,
    "openai": RESPONSES,
    "a": CHAT,
}


def endless(vendor: str, mark: Marks) -> Behaviour:
    """A stream that a client has to leave."""
    made = {
        "claude": lambda: message(*_blocks(mark), then="endless"),
        "vertex": lambda: generated(*_parts(mark), then="endless"),
        "openai": lambda: response(*_output(mark), then="endless"),
        "a": lambda: events(*chunks(mark) * 40, delay=0.02),
    }
    kin = {"gateway": "claude", "google": "vertex"}
    return made[kin.get(vendor, vendor)]()
