"""How thinking is asked for in the Messages dialect: in one of two ways; a 400 tells which (v1-api 14.4). Pure."""

from typing import Literal

Way = Literal["adaptive", "budget"]

DEFAULT_MAX_TOKENS = 4096
_EFFORTS = {"minimal": "low", **{effort: effort for effort in ("low", "medium", "high", "xhigh", "max")}}
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 4096, "high": 8192}  # tokens


def asked(effort: str, way: Way, max_tokens: int) -> tuple[dict[str, dict[str, object]], int] | None:
    """(*members that ask for it*, the ``max_tokens`` that leaves room for an answer); None: no thinking."""
    effort = effort.strip().lower()
    if way == "adaptive":
        if effort not in _EFFORTS:
            return None
        members: dict[str, dict[str, object]] = {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": _EFFORTS[effort]},
        }
        return members, max(max_tokens, DEFAULT_MAX_TOKENS)
    if effort not in _BUDGETS:
        return None
    budget = _BUDGETS[effort]
    room = max_tokens if max_tokens > budget else budget + DEFAULT_MAX_TOKENS
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}, room


def lesson(message: str) -> Way | None:
    """The way that a 400 with *message* says the model takes; None where it says nothing about that."""
    said = message.lower()
    if "thinking" not in said or "not supported" not in said:
        return None
    if "thinking.type.enabled" in said:
        return "adaptive"
    return "budget" if "adaptive" in said else None
