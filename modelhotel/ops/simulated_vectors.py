"""What the simulated providers of the demo answer to a request for embeddings. Pure."""

import base64
import json
import math
import random
import struct
from dataclasses import dataclass
from typing import Any

EMBEDDER = "demo-embedding"
#: Numbers of a vector where the request does not say, and at most.
DIMENSIONS, DIMENSIONS_MAX = 16, 4096
#: Bytes of text per token, as of the gateway's own estimates.
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """An embeddings request as far as it matters here: each input as text. *wrong* is set when there is no answer."""

    inputs: tuple[str, ...] = ()
    dimensions: int = DIMENSIONS
    packed: bool = False
    wrong: str = ""
    status: int = 400


def wanted(body: bytes) -> Wanted:
    try:
        given = json.loads(body)
    except ValueError:
        return Wanted(wrong="the body is not JSON")
    if not isinstance(given, dict) or not given.get("input") or not isinstance(given["input"], str | list):
        return Wanted(wrong="input is required")
    if given.get("model") != EMBEDDER:
        return Wanted(wrong=f"the model {given.get('model')!r} does not exist", status=404)
    dimensions = given.get("dimensions") or DIMENSIONS
    if not isinstance(dimensions, int) or not 1 <= dimensions <= DIMENSIONS_MAX:
        return Wanted(wrong=f"dimensions must be between 1 and {DIMENSIONS_MAX}")
    found = given["input"]
    many = isinstance(found, list) and not isinstance(found[0], int)
    inputs = tuple(item if isinstance(item, str) else json.dumps(item) for item in (found if many else [found]))
    return Wanted(inputs, dimensions, given.get("encoding_format") == "base64")


def vector(text: str, dimensions: int) -> list[float]:
    """Of length 1, and always the same for the same text."""
    source = random.Random(text)
    raw = [source.uniform(-1.0, 1.0) for _ in range(dimensions)]
    length = math.sqrt(sum(number * number for number in raw))
    return [number / length for number in raw]


def embeddings(request: Wanted, size: int) -> dict[str, Any]:
    """The answer to *request*, whose body has *size* bytes."""
    made: list[Any] = [vector(text, request.dimensions) for text in request.inputs]
    if request.packed:
        made = [base64.b64encode(struct.pack(f"<{len(one)}f", *one)).decode() for one in made]
    tokens = max(1, size // BYTES_PER_TOKEN)
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(made)],
        "model": EMBEDDER,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }
