"""Which chat requests go to ``/v1/responses`` of an OpenAI provider (failover-loop 6.3.6). Pure.

Learned per upstream model for OpenAI's own host, and of every other host for its provider alone; it lives in memory.
"""

import re
import time
from collections.abc import Callable, Container
from typing import Literal

from proxy import repairs
from proxy.dialects.base import Members
from proxy.dialects.responses import raws
from proxy.repairs import Repair

Requirement = Literal["tools", "always"]

MISSING_SECONDS = 600.0
"""How long a provider without ``/v1/responses`` is believed to have none: what answered 404 there may come back."""

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
    """What was learned, by scope and upstream model. A *scope* has ``/v1/responses``, or has not."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[tuple[str, str], Requirement] = {}
        self._missing: dict[tuple[str, str], float] = {}  # until when

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, scope: str, model_id: str) -> Requirement | None:
        return self._known.get((scope, model_id)) if self._known else None

    def apply(self, scope: str, model_id: str, chat: Members) -> bool:
        """Whether this request is one that was learned to go to ``/v1/responses``."""
        known = self.of(scope, model_id)
        return known == "always" or (known == "tools" and qualifies(chat))

    def learn(self, scope: str, model_id: str, taught: Requirement) -> bool:
        """False when it was known, ``always`` including ``tools``, or when there is no ``/v1/responses``."""
        if self.missing(scope, model_id) or self.of(scope, model_id) in ("always", taught):
            return False
        self._known[scope, model_id] = taught
        return True

    def forget(self, scope: str, model_id: str) -> None:
        """``/v1/responses`` is not there: whoever asks for it again is not obeyed, or both would go in circles."""
        self._known.pop((scope, model_id), None)
        self._missing[scope, model_id] = self._now() + MISSING_SECONDS

    def missing(self, scope: str, model_id: str) -> bool:
        return bool(self._missing) and self._missing.get((scope, model_id), 0.0) > self._now()
