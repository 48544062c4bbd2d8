"""OpenAI embeddings: whether an answer holds any, and what it cost. Pure."""

import msgspec

from proxy.dialects import passed
from proxy.dialects.base import Judged

#: Embeddings are never streamed.
parse = passed.whole


class _Embeddings(msgspec.Struct):
    data: list[msgspec.Raw]
    usage: object = None


_decode = msgspec.json.Decoder(_Embeddings).decode


def read_answer(payload: bytes) -> Judged:
    """Judge the body of a 2xx: it goes on as it came, and is decoded no further than to its vectors."""
    try:
        found = _decode(payload.removeprefix(passed.BOM))
    except (ValueError, RecursionError) as problem:
        return passed.undecodable(problem)
    return passed.judged(payload, passed.read_usage(found.usage), results=bool(found.data))
