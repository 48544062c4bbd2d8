"""OpenAI chat completions, the pipeline shape: the body for a candidate, and the judgement of its answer. Pure.

Only what must change is touched: members are kept as the bytes that came, so numbers survive exactly and a large body
is never taken apart.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from providers.kinds.base import Kind
from proxy import usage as usages
from proxy.dialects import jsonmode
from proxy.dialects.base import Judged, Members
from proxy.repairs import Repair

Raw = msgspec.Raw

_decode_members = msgspec.json.Decoder(Members).decode
_decode_items = msgspec.json.Decoder(list[Raw]).decode
_decode = msgspec.json.decode
_encode = msgspec.json.Encoder().encode
_ERRORS = (ValueError, RecursionError)

_INCLUDE_USAGE = Raw(b'{"include_usage":true}')
_TOOL_CALLS = b'"tool_calls"'
_GLM = "glm"  # models that want a schema in words too
_NULL = b"null"
_BOM = b"\xef\xbb\xbf"

#: Vendors' words in OpenAI's vocabulary (v1-api 10.5).
FINISH_REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("end_turn", "stop_sequence", "STOP", "COMPLETE", "eos_token", "eos", "FINISH_REASON_UNSPECIFIED"), "stop"
    ),
    **dict.fromkeys(("max_tokens", "MAX_TOKENS", "insufficient_system_resource"), "length"),
    "tool_use": "tool_calls",
    **dict.fromkeys(
        ("refusal", "SAFETY", "RECITATION", "BLOCKED", "ERROR_TOXIC", "guardrail_intervened"), "content_filter"
    ),
}
#: Finish reasons that are an answer by themselves (failover-loop 9.2).
TELLING_REASONS = frozenset(("content_filter", "length"))
#: Members of a message that count as content when populated, besides ``content``.
CARRIERS = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "tool_calls",
    "refusal",
    "audio",
    "function_call",
    "annotations",
    "images",
    "citations",
    "thinking_blocks",
)

# -- the request


@lru_cache(maxsize=4096)
def _quoted(text: str) -> Raw:
    return Raw(_encode(text))


def build_body(
    body: Members, raw: bytes, *, model_id: str, kind: Kind, stream: bool, repair: Repair | None = None
) -> bytes:
    """The body for one candidate, rewritten in the order of v1-api 10.2. *raw* is what *body* was decoded from.

    *repair*: what the candidate is known to refuse.
    """
    members = dict(body)
    members["model"] = _quoted(model_id)
    if stream and kind.sends_stream_options:
        members["stream_options"] = _INCLUDE_USAGE
    kind.inject(members, model_id)
    if repair is not None:
        repair.rename(members)
    for name in kind.strip:
        members.pop(name, None)
    if repair is not None:
        repair.strip(members)
    if jsonmode.FORMAT in members:
        json_mode = not kind.takes_json_schema or (repair is not None and repair.json_mode)
        if json_mode or _GLM in model_id.lower():
            jsonmode.fold(members, json_mode=json_mode)
    if _TOOL_CALLS in raw and "messages" in members:
        members["messages"] = without_empty_tool_calls(members["messages"])
    return _encode(members)


def to_translate(body: Members, *, model_id: str, repair: Repair | None = None) -> Members:
    """The members that another dialect is built from: what the type injects and strips is of chat bodies only."""
    members = dict(body)
    members["model"] = _quoted(model_id)
    members.pop("stream_options", None)
    if repair is not None:
        repair.rename(members)
        repair.strip(members)
    return members


def without_empty_tool_calls(messages: Raw) -> Raw:
    """*messages* where no message has an empty ``tool_calls``; the same object when there was none."""
    try:
        items = _decode_items(messages)
    except _ERRORS:
        return messages
    changed = False
    for at, item in enumerate(items):
        if _TOOL_CALLS not in bytes(item):
            continue
        try:
            message = _decode_members(item)
        except _ERRORS:
            continue
        if "tool_calls" in message and not bytes(message["tool_calls"]).strip(b"[] \t\r\n"):
            del message["tool_calls"]
            items[at] = Raw(_encode(message))
            changed = True
    return Raw(_encode(items)) if changed else messages


# -- thinking, wherever a provider put it

_TAGGED = re.compile(r"<(thinking|thought|start_thought|think)>(.*?)(?:</\1>|\Z)", re.DOTALL)
_FENCED = re.compile(r"\A\s*<<\n(.*?)(?:\n>>(?:\n|\Z)|\Z)", re.DOTALL)


def split_thinking(content: str) -> tuple[str, str] | None:
    """(*thinking*, what is left of *content*) when *content* holds thinking tags or the leading fence, else None."""
    if "<" not in content:
        return None
    pattern = _FENCED if _FENCED.match(content) else _TAGGED
    thoughts = [match[match.lastindex or 1] for match in pattern.finditer(content)]
    if not thoughts:
        return None
    return "".join(thoughts), pattern.sub("", content)


def detailed_reasoning(details: object) -> str:
    """The joined text of the ``reasoning.text`` entries of a decoded ``reasoning_details``."""
    if not isinstance(details, list):
        return ""
    texts = (d.get("text") for d in details if isinstance(d, dict) and d.get("type") == "reasoning.text")
    return "".join(text for text in texts if isinstance(text, str))


# -- the answer


_ABSENT = Raw()


class _Message(msgspec.Struct):
    content: str | None = None
    tool_calls: Raw = _ABSENT
    reasoning_content: str | None = None
    reasoning: None = None
    reasoning_details: None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: usages.Plain | None = None


_decode_plain = msgspec.json.Decoder(_Completion).decode


def read_answer(payload: bytes) -> Judged:
    """Judge and normalise the body of a 2xx (v1-api 10.6, failover-loop 9.1 and 9.2).

    A usual answer is decoded only as far as the judgement needs and goes on as the bytes that came.
    """
    payload = payload.removeprefix(_BOM)
    try:
        plain = _decode_plain(payload)
    except _ERRORS:
        return _read_any(payload)
    for choice in plain.choices:
        content = choice.message.content
        if not content or choice.finish_reason in FINISH_REASONS or ("<" in content and split_thinking(content)):
            return _read_any(payload)
    if not plain.choices:
        return _read_any(payload)
    usage = None if plain.usage is None else usages.of_plain(plain.usage)
    delivered = 0
    if usage is None or not usage.prompt or not usage.completion:
        delivered = sum(_size(c.message) for c in plain.choices)
    return Judged("served", payload, usage, True, delivered)


def _size(message: _Message) -> int:
    texts = (message.content or "", message.reasoning_content or "")
    return sum(len(text.encode()) for text in texts) + _raw_size(message.tool_calls)


def _raw_size(raw: Raw | None) -> int:
    """Bytes of what a member delivers; null and empty ones deliver nothing."""
    if raw is None or not populated(raw):
        return 0
    text = _string(raw)
    return len(text.encode()) if text else len(bytes(raw))


def populated(raw: Raw) -> bool:
    """Not null, empty string, empty object, empty list, false or zero."""
    data = bytes(raw).strip()
    if data[:1] == b'"':
        return data != b'""'
    if data[:1] in (b"{", b"["):
        return bool(data.strip(b"{}[] \t\r\n")) or data.count(b"[") + data.count(b"{") > 1
    return data not in (b"", _NULL, b"false") and data.strip(b"-0.eE+") != b""


def _read_any(payload: bytes) -> Judged:
    """The same for an answer that is unusual in some way: members one by one."""
    try:
        top = _decode_members(payload)
        usage = usages.read(top["usage"]) if "usage" in top else None
        if not populated(top.get("choices", _ABSENT)):
            return Judged("no_choices", b"", usage, False)
        choices = [_Read(_decode_members(item)) for item in _decode_items(top["choices"])]
    except _ERRORS as problem:
        return Judged("undecodable", b"", None, False, problem=str(problem))
    if any(choice.changed for choice in choices):
        top["choices"] = Raw(_encode([choice.members for choice in choices]))
        payload = _encode(top)
    carries = any(choice.carries for choice in choices) or bool(usage and usage.completion)
    delivered = sum(choice.delivered for choice in choices)
    if carries:
        return Judged("served", payload, usage, True, delivered)
    if any(choice.finish_reason for choice in choices):
        return Judged("bare_finish", payload, usage, False, delivered)
    return Judged("no_content", b"", usage, False)


class _Read:
    """One choice, normalised. Raises ValueError when its message is malformed JSON."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.changed = False
        self.finish_reason = self._finish_reason()
        message = _object(members.get("message"))
        self.delivered = 0
        self.carries = self.finish_reason in TELLING_REASONS
        if message is not None:
            self._message(message)

    def _finish_reason(self) -> str:
        stated = _string(self.members.get("finish_reason"))
        usual = FINISH_REASONS.get(stated, stated)
        if usual != stated:
            self.members["finish_reason"] = _quoted(usual)
            self.changed = True
        return usual

    def _message(self, message: Members) -> None:
        if "content" in message and populated(message["content"]):
            self.carries = True
        if any(name in message and populated(message[name]) for name in CARRIERS):
            self.carries = True
        if self._normalise(message):
            self.members["message"] = Raw(_encode(message))
            self.changed = True
        for name in ("content", "reasoning_content", "tool_calls"):
            self.delivered += _raw_size(message.get(name))

    def _normalise(self, message: Members) -> bool:
        """Fill an empty ``reasoning_content`` (v1-api 10.5 rule 2). True when something changed."""
        if "reasoning_content" in message and populated(message["reasoning_content"]):
            return False
        found = _string(message.get("reasoning"))
        if not found and "reasoning_details" in message:
            found = detailed_reasoning(_decode(message["reasoning_details"]))
        if not found:
            split = split_thinking(_string(message.get("content")))
            if split is None:
                return False
            found, rest = split
            message["content"] = Raw(_encode(rest))
            if not found:
                return True
        message["reasoning_content"] = Raw(_encode(found))
        return True


def _object(raw: Raw | None) -> Members | None:
    if raw is None or not bytes(raw).lstrip().startswith(b"{"):
        return None
    return _decode_members(raw)


def _string(raw: Raw | None) -> str:
    """The text of a string member; empty for anything else. Raises ValueError for a malformed one."""
    if raw is None or not bytes(raw).lstrip().startswith(b'"'):
        return ""
    return _decode(raw, type=str)
