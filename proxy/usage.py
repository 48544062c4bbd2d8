"""How many tokens an answer cost: what the provider reported, and an estimate where it did not. Pure.

Reported counts come as integers, integral floats or decimal strings; one that can not be read costs only itself.
"""

from typing import Annotated

import msgspec

#: No answer costs more; what claims to is cut, so that one absurd figure does not drown a key's total. Tokens.
MAX_COUNT = 100_000_000
#: An estimate where a provider reported nothing (v1-api 10.8).
BYTES_PER_TOKEN = 4

Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_ANY = msgspec.json.Decoder()


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens. *reasoning* is part of *completion*, *cache_hit* and *cache_miss* are parts of *prompt*.

    *cached* is True when the provider said anything about a prompt cache.
    """

    prompt: int = 0
    completion: int = 0
    reasoning: int = 0
    cache_hit: int = 0
    cache_miss: int = 0
    cached: bool = False

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def __add__(self, other: "Usage") -> "Usage":
        """Of two answers together."""
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.reasoning + other.reasoning,
            self.cache_hit + other.cache_hit,
            self.cache_miss + other.cache_miss,
            self.cached or other.cached,
        )


def _count(value: object) -> int | None:
    """The count that *value* spells, cut to MAX_COUNT; None when it spells none."""
    if isinstance(value, str):
        text = value.strip()
        if not text.isascii() or len(text) > 40:
            return None
        try:
            value = int(text) if text.lstrip("+").isdigit() else float(text)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < float("inf") or value != int(value):
        return None
    return min(int(value), MAX_COUNT)


def first(usage: dict[object, object], *names: str) -> int | None:
    """The first count above 0 among the members *names*; 0 where only zeros are readable, None where nothing is."""
    counts = [count for name in names if (count := _count(usage.get(name))) is not None]
    return next(filter(None, counts), 0) if counts else None


def _decode(raw: msgspec.Raw | bytes) -> object:
    """The value; an object with an unreadable number in it loses only that member. None when it is no JSON."""
    try:
        return _ANY.decode(raw)
    except (ValueError, RecursionError):
        pass
    try:
        return {name: _decode(member) for name, member in _MEMBERS.decode(raw).items()}
    except (ValueError, RecursionError):
        return None


def read(usage: object) -> Usage | None:
    """What a ``usage`` member says: raw JSON or a decoded value. None when it holds no readable count."""
    if isinstance(usage, msgspec.Raw | bytes):
        usage = _decode(usage)
    if not isinstance(usage, dict):
        return None
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    completion_details = usage.get("completion_tokens_details")
    prompt_details = usage.get("prompt_tokens_details")
    reasoning = None
    if isinstance(completion_details, dict):
        reasoning = _count(completion_details.get("reasoning_tokens"))
    hits = [_count(usage.get("prompt_cache_hit_tokens")), _count(usage.get("cache_read_input_tokens"))]
    if isinstance(prompt_details, dict):
        hits.append(_count(prompt_details.get("cached_tokens")))
    cached = any(hit is not None for hit in hits)
    if prompt is None and completion is None and reasoning is None and not cached:
        return None
    hit = next((found for found in hits if found), 0)
    return Usage(
        prompt or 0, completion or 0, reasoning or 0, hit, max((prompt or 0) - hit, 0) if cached else 0, cached
    )


class PlainDetails(msgspec.Struct):
    """A breakdown spelled the usual way."""

    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None


class Plain(msgspec.Struct):
    """A ``usage`` member spelled the usual way, for typed decoding; any other spelling fails it."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_cache_hit_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    prompt_tokens_details: PlainDetails | None = None
    completion_tokens_details: PlainDetails | None = None


def of_plain(usage: Plain) -> Usage | None:
    """What ``read`` says of the same member."""
    inside, outside = usage.prompt_tokens_details, usage.completion_tokens_details
    reasoning = outside.reasoning_tokens if outside is not None else None
    nested = inside.cached_tokens if inside is not None else None
    cached = not (nested is None and usage.prompt_cache_hit_tokens is None and usage.cache_read_input_tokens is None)
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    if cached:
        hit = usage.prompt_cache_hit_tokens or usage.cache_read_input_tokens or nested or 0
        return Usage(prompt, completion, reasoning or 0, hit, max(prompt - hit, 0), True)
    if usage.prompt_tokens is None and usage.completion_tokens is None and reasoning is None:
        return None
    return Usage(prompt, completion, reasoning or 0)


def later(before: Usage | None, after: Usage | None) -> Usage | None:
    """What counts in a stream after a second chunk with usage: the later one, but cache figures are never erased."""
    if before is None or after is None:
        return after or before
    if after.cached or not before.cached:
        return after
    hit = before.cache_hit
    return Usage(after.prompt, after.completion, after.reasoning, hit, max(after.prompt - hit, 0), True)


def tokens(size: int) -> int:
    """The estimate for *size* bytes of text."""
    return -(-size // BYTES_PER_TOKEN)


def prompt_tokens(body: dict[str, msgspec.Raw]) -> int:
    """The estimate for the prompt of a chat request."""
    return tokens(prompt_bytes(body))


def prompt_bytes(body: dict[str, msgspec.Raw]) -> int:
    """UTF-8 bytes of all message text of a chat request, plus its ``tools`` as JSON; media count nothing."""
    size = len(bytes(body["tools"])) if "tools" in body and bytes(body["tools"]) != b"null" else 0
    for message in _items(body.get("messages")):
        content = _members(message).get("content")
        value = _decode(content) if content is not None else None
        if isinstance(value, str):
            size += len(value.encode())
        elif isinstance(value, list):
            size += sum(_part_bytes(part) for part in value)
    return size


def _part_bytes(part: object) -> int:
    text = part.get("text") if isinstance(part, dict) else part
    return len(text.encode()) if isinstance(text, str) else 0


def _items(raw: msgspec.Raw | None) -> list[msgspec.Raw]:
    try:
        return _ITEMS.decode(raw) if raw is not None else []
    except (ValueError, RecursionError):
        return []


def _members(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _MEMBERS.decode(raw)
    except (ValueError, RecursionError):
        return {}
