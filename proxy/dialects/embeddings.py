"""OpenAI embeddings: whether an answer holds any, and what it cost. Pure."""

import msgspec

from proxy import body
from proxy.body import Asked
from proxy.dialects.base import Judged
from proxy.dialects.passed import read_usage

_BOM = b"\xef\xbb\xbf"


class _Embeddings(msgspec.Struct):
    data: list[msgspec.Raw]
    usage: object = None


_decode = msgspec.json.Decoder(_Embeddings).decode


def parse(raw: bytes) -> Asked:
    """As for every endpoint; embeddings are never streamed, whatever ``stream`` says. Raises BadBody."""
    asked = body.parse(raw)
    return Asked(asked.members, asked.model, False, False) if asked.stream else asked


def read_answer(payload: bytes) -> Judged:
    """Judge the body of a 2xx: it goes on as it came, and is decoded no further than to its vectors."""
    try:
        found = _decode(payload.removeprefix(_BOM))
    except (ValueError, RecursionError) as problem:
        return Judged("undecodable", b"", None, False, problem=str(problem))
    usage = read_usage(found.usage)
    delivered = 0 if usage is not None and usage.prompt else len(payload)
    if not found.data:
        return Judged("no_results", payload, usage, False, delivered)
    return Judged("served", payload, usage, True, delivered)
