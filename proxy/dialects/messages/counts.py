"""Token counts of the Messages dialect (v1-api 12.6, 14.3). Pure."""

import msgspec

from proxy import usage as usages
from proxy.dialects.messages.raw import Raw, members_of
from proxy.usage import Usage

_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_OUTPUT = "output_tokens"
_DETAILS, _THINKING = "output_tokens_details", "thinking_tokens"
_decode = msgspec.json.Decoder().decode


class Counts:
    """What one answer said of its usage so far. The three counts of the prompt are disjoint, *thinking* is part of
    *completion*.
    """

    __slots__ = ("completion", "prompt", "thinking")

    def __init__(self) -> None:
        self.prompt: dict[str, int] = {}
        self.completion: int | None = None
        self.thinking = 0

    def __bool__(self) -> bool:
        return bool(self.prompt) or self.completion is not None

    def take_start(self, usage: Raw | None) -> None:
        """Of ``message_start``: its output count is only where the counting begins."""
        said = _said(usage)
        for name in _INPUT:
            if (count := usages.first(said, name)) is not None:
                self.prompt[name] = count

    def take(self, usage: Raw | None) -> None:
        """Of a whole answer, or of ``message_delta``: cumulative, so the last one counts; a zero there says nothing
        against what the start said.
        """
        said = _said(usage)
        for name in _INPUT:
            count = usages.first(said, name)
            if count or (count == 0 and name not in self.prompt):
                self.prompt[name] = count
        if (count := usages.first(said, _OUTPUT)) is not None:
            self.completion = count
        details = said.get(_DETAILS)
        if isinstance(details, dict):
            self.thinking = usages.first(details, _THINKING) or self.thinking

    @property
    def total_prompt(self) -> int:
        return min(sum(self.prompt.values()), usages.MAX_COUNT)

    def usage(self) -> Usage | None:
        """For the meter; the cache is reported only where something was read from it."""
        if not self:
            return None
        hit = self.prompt.get("cache_read_input_tokens", 0)
        prompt = self.total_prompt
        return Usage(prompt, self.completion or 0, self.thinking, hit, max(prompt - hit, 0) if hit else 0, hit > 0)

    def chat(self) -> dict[str, object] | None:
        """The ``usage`` member of a chat completion."""
        if not self:
            return None
        prompt, completion = self.total_prompt, self.completion or 0
        said: dict[str, object] = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        if (read := self.prompt.get("cache_read_input_tokens")) is not None:
            said["prompt_tokens_details"] = {"cached_tokens": read}
        if self.thinking:
            said["completion_tokens_details"] = {"reasoning_tokens": self.thinking}
        return {**said, **{name: self.prompt[name] for name in _INPUT[1:] if name in self.prompt}}


def of_chat(usage: Usage | None) -> dict[str, object]:
    """The ``usage`` member for what an answer cost: what was read from a cache is no part of ``input_tokens`` here."""
    usage = usage or Usage()
    said: dict[str, object] = {"input_tokens": max(usage.prompt - usage.cache_hit, 0), _OUTPUT: usage.completion}
    if usage.cache_hit:
        said["cache_read_input_tokens"] = usage.cache_hit
    if usage.reasoning:
        said[_DETAILS] = {_THINKING: usage.reasoning}
    return said


def _said(usage: Raw | None) -> dict[object, object]:
    """The members, each as far as it can be read."""
    found: dict[object, object] = {}
    for name, raw in members_of(usage).items():
        try:
            found[name] = _decode(raw)
        except (ValueError, RecursionError):
            continue
    return found
