"""What the endpoints have in common whose requests and answers pass through as they are (v1-api 17). Pure."""

import msgspec

from providers.kinds.base import Kind
from proxy import usage as usages
from proxy.dialects.base import Members
from proxy.repairs import Repair
from proxy.usage import Usage

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_ERRORS = (ValueError, RecursionError)

#: Members of a request whose text is what a provider bills (v1-api 17.3).
_BILLED = ("input", "prompt", "query", "documents")


def build_body(
    body: Members, raw: bytes, *, model_id: str, kind: Kind, stream: bool, repair: Repair | None = None
) -> bytes:
    """The body for one candidate: only the model's name changes."""
    return _encode({**body, "model": model_id})


def read_usage(usage: object) -> Usage | None:
    """What a ``usage`` member says in any of its spellings; None when it holds no readable count."""
    if not isinstance(usage, dict):
        return None
    prompt = usages.first(usage, "prompt_tokens", "input_tokens", "total_tokens")
    completion = usages.first(usage, "completion_tokens", "output_tokens")
    if prompt is None and completion is None:
        return None
    return Usage(prompt or 0, completion or 0)


def prompt_tokens(body: Members) -> int:
    """An estimate of what the request costs, at least 1; a token that came as a number is one token."""
    size = tokens = 0
    for name in _BILLED:
        text, numbers = _measure(body[name]) if name in body else (0, 0)
        size += text
        tokens += numbers
    return max(usages.tokens(size) + tokens, 1)


def no_completion(delivered: int) -> int:
    """Vectors, scores and pictures are not billed by their size."""
    return 0


def _measure(raw: msgspec.Raw) -> tuple[int, int]:
    """(UTF-8 bytes of text, integers) in a member; of objects only what they call ``text`` counts."""
    try:
        stack = [_decode(raw)]
    except _ERRORS:
        return 0, 0
    size = numbers = 0
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            size += len(item.encode())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.append(item.get("text"))
        elif isinstance(item, int) and not isinstance(item, bool):
            numbers += 1
    return size, numbers
