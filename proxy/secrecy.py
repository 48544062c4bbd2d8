"""What a provider's text must not carry to a client, a row, the trail or a log line (failover-loop 15). Pure.

Credentials: every provider key in memory and everything key-shaped is masked in error texts; in model output only the
exact key of the candidate in use. Request content: an error text that shares a run of :data:`SHARED_RUN` characters
with the request is dropped whole.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from modelhotel.core import redact, text

TEXT_CAP = 10_000
"""Characters of an error text that are kept (15.2)."""
DETAIL_CAP = 160
"""Characters of a trail ``detail`` (16)."""
EXCEPTION_CAP = 500
"""Characters of an exception text (15.2)."""
SHARED_RUN = 16
"""Characters an error text may not share with the request (15.3)."""
WITHHELD = "provider error text withheld"
CONTENT_KEY_MIN = redact.KEY_MIN
"""A shorter key is no secret and may be an ordinary word ("ollama"): it is not looked for in model output."""

_LEAD = 6  # characters of a key that may pass before the rest is kept back
_BLOCK = 8  # bytes; any shared run of 16 characters covers one aligned block of the request
_CANDIDATES = 64  # block matches that are looked at closely; more of them count as a shared run
_BLOB = 4096  # characters of ASCII without a blank: a file, not text
_MASK = redact.MASK.encode()

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_value = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Secrets:
    """The keys to mask for one attempt: *own* is the candidate's, *known* gives every key in memory."""

    __slots__ = ("_known", "_of", "_sorted", "own")

    def __init__(self, own: str, known: Callable[[], Iterable[str]] = tuple) -> None:
        self.own = own
        self._known = known
        self._of: Iterable[str] | None = None  # what is known, as it was when it was put in order
        self._sorted: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Secrets(...)"

    @property
    def _keys(self) -> tuple[str, ...]:
        # Put in order at the first error text: a good answer needs none of it.
        known = self._known()
        if known is not self._of:
            self._of, self._sorted = known, redact.known_keys((self.own, *known))
        return self._sorted

    def mask(self, words: str) -> str:
        """*words*, an error text, without credentials."""
        return redact.error_text(words, self._keys)

    def mask_json(self, body: bytes) -> bytes:
        """The same for JSON that goes out as it is: still valid JSON, the same object when nothing was found."""
        words = body.decode("utf-8", "surrogateescape")
        masked = words
        for key in self._keys:
            escaped = _encode(key)[1:-1].decode()
            if escaped != key:
                masked = masked.replace(escaped, redact.MASK)
        masked = redact.error_text(masked, self._keys)
        return body if masked == words else masked.encode("utf-8", "surrogateescape")

    def mask_content(self, body: bytes) -> bytes:
        """Model output without the candidate's exact key."""
        key = self.own.encode()
        if len(self.own) < CONTENT_KEY_MIN or key not in body:
            return body
        return body.replace(key, _MASK)

    def clean(self, words: str) -> str:
        """An upstream text as it may be kept: masked, without UUIDs and control characters, cut."""
        return text.clip(_printable(text.without_uuids(self.mask(words))), TEXT_CAP)

    def exception(self, problem: BaseException) -> str:
        """The text of an exception for a log line."""
        return text.clip(text.one_line(self.mask(str(problem) or type(problem).__name__)), EXCEPTION_CAP)


def _printable(words: str) -> str:
    if words.isprintable():
        return words
    return "".join(ch if ch.isprintable() or ch in "\n\t" else " " for ch in words).strip()


def detail(cleaned: str) -> str:
    """A kept text as the ``detail`` of a trail element: one line, short."""
    return text.clip(text.one_line(cleaned), DETAIL_CAP)


# -- the fence between a request's content and what is kept of errors


def fenced(words: str, request: dict[str, msgspec.Raw]) -> bool:
    """Whether *words*, an upstream text, repeats request content. *request*: the members of the request body."""
    if len(words) < SHARED_RUN:
        return False
    grams = _grams(words.encode("utf-8", "surrogatepass"))
    return any(len(content) >= SHARED_RUN and _shares(content, words, grams) for content in _texts(request))


def _grams(data: bytes) -> frozenset[int]:
    """Every run of eight bytes in *data*, as integers."""
    found: set[int] = set()
    for shift in range(_BLOCK):
        usable = (len(data) - shift) // _BLOCK * _BLOCK
        found.update(memoryview(data)[shift : shift + usable].cast("Q"))
    return frozenset(found)


def _shares(content: str, words: str, grams: frozenset[int]) -> bool:
    """Whether a run of SHARED_RUN characters of *content* stands in *words*.

    Such a run covers at least one eight-byte block at a multiple of eight in *content*; only around blocks that occur
    in *words* the characters are compared.
    """
    data = content.encode("utf-8", "surrogatepass")
    blocks = memoryview(data)[: len(data) // _BLOCK * _BLOCK].cast("Q")
    if grams.isdisjoint(blocks):
        return False
    around = SHARED_RUN * 4  # bytes: no character takes more than four
    looked = 0
    for at, block in enumerate(blocks):
        if block not in grams:
            continue
        looked += 1
        if looked > _CANDIDATES:
            return True
        start = at * _BLOCK
        near = data[max(start - around, 0) : start + _BLOCK + around].decode("utf-8", "ignore")
        if any(near[i : i + SHARED_RUN] in words for i in range(len(near) - SHARED_RUN + 1)):
            return True
    return False


def _texts(request: dict[str, msgspec.Raw]) -> Iterator[str]:
    """Every string value of the request but the model's name. Member names are no content, files are no text."""
    for name, raw in request.items():
        if name == "model":
            continue
        try:
            yield from _strings(_value(raw))
        except (ValueError, RecursionError):
            continue


def _strings(value: object) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if not _is_file(item):
                yield item
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())


def _is_file(item: str) -> bool:
    if item.startswith("data:"):
        return True
    return len(item) > _BLOB and (head := item[:_BLOB]).isascii() and not any(ch.isspace() for ch in head)


# -- the candidate's key in streamed content


class KeyGuard:
    """Keeps one candidate's exact key out of streamed text, also when it is spread over several chunks.

    As long as the last characters are not the beginning of the key nothing is held back.
    """

    __slots__ = ("_held", "_key", "_lead", "_tail")

    def __init__(self, key: str) -> None:
        self._key = key
        self._lead = key[:_LEAD]
        self._tail = ""  # the last characters that went out, too few to hold the lead
        self._held = ""

    @staticmethod
    def of(key: str) -> "KeyGuard | None":
        """None for a key that is not looked for."""
        return KeyGuard(key) if len(key) >= CONTENT_KEY_MIN else None

    def wary(self, words: str) -> bool:
        """Whether *words*, the next text of the stream, must go through :meth:`pass_on`; cheap."""
        if self._held:
            return True
        seen = self._tail + words
        if self._lead in seen:
            return True
        self._tail = seen[1 - _LEAD :]
        return False

    def pass_on(self, words: str) -> str:
        """What of the held text and *words* may go out now."""
        at = len(self._tail)  # what stands before it went out already
        floor = 0  # what stands before it was masked
        seen = self._tail + self._held + words
        self._held = ""
        out: list[str] = []
        start = seen.find(self._lead)
        while start >= 0:
            rest = seen[start : start + len(self._key)]
            if rest == self._key:
                out += (seen[at:start], redact.MASK)
                at = floor = start + len(self._key)
            elif self._key.startswith(rest):
                end = max(start, at)
                out.append(seen[at:end])
                self._held = seen[end:]
                self._tail = seen[floor:end][1 - _LEAD :]
                return "".join(out)
            start = seen.find(self._lead, max(floor, start + 1))
        out.append(seen[at:])
        self._tail = seen[floor:][1 - _LEAD :]
        return "".join(out)

    def flush(self) -> str:
        """The held text, when the stream says no more: it was not the key."""
        held, self._held = self._held, ""
        return held

    def chunk(self, payload: bytes, frame: dict[str, object]) -> bytes:
        """A chat chunk with its first choice's text passed on; *frame* is *payload* decoded."""
        choices = frame.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(delta, dict):
            return payload
        name = "content" if isinstance(delta.get("content"), str) and delta["content"] else "reasoning_content"
        words = delta.get(name)
        if isinstance(words, str) and words:
            if not self.wary(words):
                return payload
            passed = self.pass_on(words)
        elif self._held and choice.get("finish_reason"):
            name, words, passed = "content", "", ""
        else:
            return payload
        if choice.get("finish_reason"):
            passed += self.flush()
        return payload if passed == words else _with_text(payload, name, passed)


def _with_text(payload: bytes, name: str, words: str) -> bytes:
    top = _members(payload)
    choices = _items(top["choices"])
    delta = _members(choices[0]["delta"])
    delta[name] = msgspec.Raw(_encode(words))
    choices[0]["delta"] = msgspec.Raw(_encode(delta))
    top["choices"] = msgspec.Raw(_encode(choices))
    return _encode(top)
