"""Which chat requests go to ``/v1/responses`` of an OpenAI provider (failover-loop 6.3.6). Pure.

Learned per provider type and upstream model; it lives in memory and is only ever extended.
"""

import re
from collections.abc import Container
from typing import Literal

from proxy import repairs
from proxy.dialects.base import Members
from proxy.dialects.responses import raws
from proxy.repairs import Repair

Requirement = Literal["tools", "always"]

_TOOLS = ("responses", "reasoning", "tool")
_ALWAYS = ("not a chat model", "chat/completions")
_RESPONSES_ONLY = re.compile(r"(?:o1|o3|gpt-5[0-9.]*)-pro(?:-[0-9].*)?")
#: Members of chat alone: what a refusal in the Responses dialect says of them is no news.
_NOT_LEARNED = frozenset(("reasoning", repairs.SCHEMA))


def requirement(message: str) -> Requirement | None:
    """What a refusal's ``error.message`` requires: this for requests that :func:`qualifies`, or for every one."""
    lowered = message.lower()
    if all(words in lowered for words in _ALWAYS):
        return "always"
    return "tools" if all(word in lowered for word in _TOOLS) else None


def qualifies(chat: Members) -> bool:
    """Whether the request has tools and reasons; an absent ``reasoning_effort`` counts as reasoning."""
    return bool(raws.items(chat.get("tools"))) and raws.text(chat.get("reasoning_effort")) != "none"


def preemptive(model_id: str) -> bool:
    """Whether OpenAI itself serves this model at ``/v1/responses`` only."""
    return _RESPONSES_ONLY.fullmatch(model_id) is not None


def wanted(message: str, chat: Members) -> Requirement | None:
    """What a refusal of the request *chat* requires of it."""
    need = requirement(message)
    return need if need != "tools" or qualifies(chat) else None


def lesson(message: str, sent: Container[str]) -> Repair:
    """What a 400 of ``/v1/responses`` teaches of the parameters *sent* (6.3.3)."""
    taught = repairs.lesson(message, sent, sent_schema=False)
    return Repair(taught.rejected - _NOT_LEARNED, taught.renames)


class Requirements:
    """What was learned, by provider type and upstream model."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Requirement] = {}

    def of(self, kind: str, model_id: str) -> Requirement | None:
        return self._known.get((kind, model_id)) if self._known else None

    def apply(self, kind: str, model_id: str, chat: Members) -> bool:
        """Whether this request is one that was learned to go to ``/v1/responses``."""
        known = self.of(kind, model_id)
        return known == "always" or (known == "tools" and qualifies(chat))

    def learn(self, kind: str, model_id: str, taught: Requirement) -> bool:
        """False when it was known. ``always`` includes ``tools`` and is never taken back."""
        if self.of(kind, model_id) in ("always", taught):
            return False
        self._known[kind, model_id] = taught
        return True
