"""The Response object of a translated answer (v1-api 13.4). Pure."""

from collections.abc import Sequence
from typing import Any

from proxy import usage as usages
from proxy.answers import code_of
from proxy.dialects.base import Members
from proxy.dialects.responses import raws
from proxy.dialects.responses.raws import Raw
from proxy.usage import Usage

#: finish_reason -> reason of an incomplete response; any other finish is a completed one.
INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_PLAIN_TEXT = Raw(b'{"type":"text"}')
_AUTO = Raw(b'"auto"')
SERVER_ERROR = "server_error"


class Envelope:
    """What every Response object of one answer has in common: its id, its time and what the request said."""

    def __init__(self, own: Members, identity: str, created: int) -> None:
        self._own = own
        self.id = identity
        self._created = created

    def response(
        self,
        model: str,
        status: str,
        output: Sequence[object] = (),
        *,
        reason: str | None = None,
        error: dict[str, str] | None = None,
        usage: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """*reason*: why it is incomplete; *output*: finished items; *usage* as :meth:`Spent.usage` gives it."""
        shape = (raws.members(self._own.get("text")) or {}).get("format")
        found: dict[str, Any] = {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": error,
            "incomplete_details": None if reason is None else {"reason": reason},
            "instructions": self._echo("instructions", raws.NULL),
            "metadata": self._echo("metadata", raws.NO_OBJECT),
            "model": model,
            "output": output,
            "parallel_tool_calls": self._echo("parallel_tool_calls", raws.TRUE),
            "temperature": self._echo("temperature", raws.NULL),
            "top_p": self._echo("top_p", raws.NULL),
            "tool_choice": self._echo("tool_choice", _AUTO),
            "tools": [],
            "store": False,
            "text": {"format": _PLAIN_TEXT if shape is None or raws.absent(shape) else shape},
            "reasoning": self._echo("reasoning", raws.NULL),
        }
        if usage is not None:
            found["usage"] = usage
        return found

    def _echo(self, name: str, default: Raw) -> Raw:
        raw = self._own.get(name)
        return default if raw is None or raws.absent(raw) else raw


class Spent:
    """The usage of one answer, which may come in several chunks."""

    def __init__(self) -> None:
        self._usage: Usage | None = None
        self._total = 0

    def take(self, usage: object) -> None:
        """A decoded ``usage`` member of a chat answer."""
        self._usage = usages.later(self._usage, usages.read(usage))
        if isinstance(usage, dict):
            self._total = usages.first(usage, "total_tokens") or self._total

    def usage(self) -> dict[str, Any] | None:
        """The ``usage`` of a Response object; None where the provider reported none."""
        spent = self._usage
        if spent is None:
            return None
        return {
            "input_tokens": spent.prompt,
            "input_tokens_details": {"cached_tokens": spent.cache_hit},
            "output_tokens": spent.completion,
            "output_tokens_details": {"reasoning_tokens": spent.reasoning},
            "total_tokens": self._total or spent.total,
        }


def failure(message: str, kind: str) -> dict[str, str]:
    """The ``error`` of a failed response, from an error kind of ours (v1-api 9.7)."""
    return {"code": code_of(kind, 0) or SERVER_ERROR, "message": message}


def failure_of(error: object) -> dict[str, str]:
    """The same from the decoded ``error`` member of a chat frame, whatever its form."""
    if isinstance(error, dict):
        code, message = error.get("code") or error.get("type"), error.get("message")
    else:
        code, message = None, error
    return {
        "code": code if isinstance(code, str) else SERVER_ERROR,
        "message": message if isinstance(message, str) else "the provider reported an error",
    }
