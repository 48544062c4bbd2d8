"""What a provider's 400 teaches about a request, and what was learned of each candidate (failover-loop 6.3). Pure.

Learned is per provider and upstream model, never per provider type: many unrelated endpoints share a type. It lives in
memory, is only ever extended and goes with the process.
"""

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from proxy.dialects.base import Members

SCHEMA = "response_format.json_schema"
"""The name under which "takes no JSON schema" is learned; it is no member that could be left out."""
THIS_SCHEMA = f"{SCHEMA}.schema"
"""The same of one request's schema alone: never learned."""
_FORMATS = frozenset({SCHEMA, THIS_SCHEMA})

_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "top_a",
    "frequency_penalty",
    "presence_penalty",
    "logprobs",
    "top_logprobs",
    "max_tokens",
    "stream_options",
    "reasoning_effort",
    "reasoning",
    "stop",
    "n",
    "seed",
    "thinking",
)
_QUOTED = re.compile(rf"([`\"'])({'|'.join(_NAMES)}|top_[a-z])\1")
_OLD_BUDGET, _NEW_BUDGET = "max_tokens", "max_completion_tokens"
_RENAMING = (_OLD_BUDGET, _NEW_BUDGET, "instead")
#: The opposite advice, in the same three words.
_KEEPS_OLD_BUDGET = re.compile(r"\bmax_tokens\W{0,3}\s+instead")
_EITHER = "cannot both be specified"
_TEMPLATE = "chat_template_args"
_UNSUPPORTED = ("unavailable", "not available", "not supported", "unsupported", "does not support", "not implemented")
#: Complaints about one caller's schema, or a condition that another request may not meet.
_ONE_REQUEST = ("invalid schema", "json_schema.schema", "schema.properties", " when ", " with tools")
#: Complaints about the value of a member that is taken: the client's own mistake, and its 400.
_VALUE = re.compile(
    r"\binvalid (?:value|type)\b|\binvalid [`\"']|\btoo (?:long|large|small|big|high|low|many|few|short)\b"
    r"|\b(?:above|below) m(?:ax|in)imum\b|\b(?:must|should) (?:be|have|match)\b|\bexpected\b|\bout of range\b"
    r"|\b(?:greater|less|more|fewer) than\b|\bat (?:most|least)\b|\bnot (?:of type|one of)\b"
)
#: What holds beside certain other members or for other values only. It repairs this request.
_CONDITION = re.compile(r"\bwhen\b|\bonly allowed\b|\bwith tools\b|\bsupported values are\b")

Thinking = Literal["", "adaptive", "budget"]

_NULL = b"null"
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Repair:
    """Members to leave out of a body, and members that go under another name: (old, new).

    Among *rejected* may be :data:`SCHEMA` and :data:`THIS_SCHEMA`, which are no members. *thinking*: how thinking is
    asked for in the Messages dialect (v1-api 14.4), ``""`` while nobody said.
    """

    rejected: frozenset[str] = frozenset()
    renames: frozenset[tuple[str, str]] = frozenset()
    thinking: Thinking = ""

    def __bool__(self) -> bool:
        return bool(self.rejected or self.renames or self.thinking)

    def __or__(self, other: "Repair") -> "Repair":
        return Repair(self.rejected | other.rejected, self.renames | other.renames, other.thinking or self.thinking)

    def __sub__(self, other: "Repair") -> "Repair":
        """What *other* does not repair."""
        thinking = self.thinking if self.thinking != other.thinking else ""
        return Repair(self.rejected - other.rejected, self.renames - other.renames, thinking)

    def __and__(self, other: "Repair") -> "Repair":
        """What both repair."""
        thinking = self.thinking if self.thinking == other.thinking else ""
        return Repair(self.rejected & other.rejected, self.renames & other.renames, thinking)

    @property
    def json_mode(self) -> bool:
        """The provider takes no JSON schema, or not that of this request."""
        return not _FORMATS.isdisjoint(self.rejected)

    def rename(self, body: Members) -> None:
        """In place, before anything is left out, so that the value survives; one the client gave the new name stays."""
        for old, new in self.renames:
            if old in body:
                value = body.pop(old)
                if bytes(body.get(new, msgspec.Raw(_NULL))) == _NULL:
                    body[new] = value

    def strip(self, body: Members) -> None:
        """In place."""
        for name in self.rejected - _FORMATS:
            body.pop(name, None)


NOTHING = Repair()


class Taught(NamedTuple):
    """*now* repairs the request that was refused; *later*, a part of it, may be remembered for those of everybody."""

    now: Repair
    later: Repair


def said(body: bytes) -> str:
    """The ``error.message`` of a 400's *body*, of each object where it is an array; empty where there is none."""
    try:
        value = _decode(body)
    except (ValueError, RecursionError):
        return ""
    return "\n".join(_messages(value if isinstance(value, list) else (value,)))


def _messages(values: Iterable[object]) -> Iterable[str]:
    for value in values:
        error = value.get("error") if isinstance(value, dict) else None
        message = error.get("message") if isinstance(error, dict) else None
        if isinstance(message, str):
            yield message


def lesson(message: str, sent: Container[str], *, sent_schema: bool) -> Repair:
    """What an error *message* teaches of a body with the members *sent*: one that was not there was not refused.

    *sent_schema*: the request asked for an answer by a JSON schema.
    """
    lowered = message.lower()
    rejected: set[str] = set()
    renames: frozenset[tuple[str, str]] = frozenset()
    if not _VALUE.search(lowered):
        rejected = {name for _, name in _QUOTED.findall(message)}
        if _TEMPLATE in message:
            rejected.add(_TEMPLATE)
        if all(word in lowered for word in _RENAMING):
            if _KEEPS_OLD_BUDGET.search(lowered):
                rejected.discard(_OLD_BUDGET)
            elif _OLD_BUDGET in sent:
                renames = frozenset({(_OLD_BUDGET, _NEW_BUDGET)})
    if _EITHER in lowered:  # temperature and top_p: one of them may stay
        rejected = rejected - {"temperature"} | {"top_p"}
    rejected = {name for name in rejected if name in sent}
    if sent_schema and _refuses_schema(lowered):
        rejected.add(SCHEMA)
    return Repair(frozenset(rejected), renames)


def conditional(message: str) -> bool:
    """Whether the members that *message* refuses may be taken of another request."""
    return _CONDITION.search(message.lower()) is not None


def _refuses_schema(lowered: str) -> bool:
    return (
        ("response_format" in lowered or "json_schema" in lowered)
        and any(phrase in lowered for phrase in _UNSUPPORTED)
        and not any(phrase in lowered for phrase in _ONE_REQUEST)
    )


class Learned:
    """What each candidate refused so far."""

    def __init__(self) -> None:
        self._repairs: dict[tuple[str, str], Repair] = {}

    def of(self, provider_id: str, model_id: str) -> Repair | None:
        """What to build with; None while nothing was learned."""
        return self._repairs.get((provider_id, model_id)) if self._repairs else None

    def learn(self, provider_id: str, model_id: str, taught: Repair) -> bool:
        """Add *taught* to what others learned; False when all of it was known."""
        known = self._repairs.get((provider_id, model_id), NOTHING)
        if not taught - known:
            return False
        self._repairs[provider_id, model_id] = known | taught
        return True
