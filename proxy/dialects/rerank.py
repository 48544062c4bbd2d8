"""Rerankers: whether an answer holds scores, and what it cost in tokens or in searches. Pure.

Cohere and Jina call their list ``results``, Voyage ``data``; a plain list is what Text Embeddings Inference gives.
"""

import msgspec

from proxy import usage as usages
from proxy.dialects import passed
from proxy.dialects.base import Judged

#: Scores are never streamed.
parse = passed.whole


class _Units(msgspec.Struct):
    search_units: object = None


class _Meta(msgspec.Struct):
    billed_units: _Units | None = None


class _Scores(msgspec.Struct):
    results: list[msgspec.Raw] | None = None
    data: list[msgspec.Raw] | None = None
    usage: object = None
    meta: msgspec.Raw = msgspec.Raw(b"null")


_decode = msgspec.json.Decoder(_Scores | list[msgspec.Raw]).decode
_decode_meta = msgspec.json.Decoder(_Meta | None).decode


def read_answer(payload: bytes) -> Judged:
    """Judge the body of a 2xx: it goes on as it came. One without a score is forwarded, and charged to its circuit."""
    try:
        found = _decode(payload.removeprefix(passed.BOM))
    except (ValueError, RecursionError) as problem:
        return passed.undecodable(problem)
    if isinstance(found, list):
        return _scores(payload, found, _Scores())
    scores = found.results if found.results is not None else found.data
    if scores is None:
        return passed.undecodable("no list of results")
    return _scores(payload, scores, found)


def _scores(payload: bytes, scores: list[msgspec.Raw], answer: _Scores) -> Judged:
    usage = passed.read_usage(answer.usage)
    made = passed.judged(payload, usage, results=True, searches=_searches(answer))
    return made if scores else msgspec.structs.replace(made, carries=False)


def _searches(answer: _Scores) -> int:
    """The search units that were billed."""
    said = answer.usage.get("search_units") if isinstance(answer.usage, dict) else None
    try:
        meta = _decode_meta(answer.meta)
    except (ValueError, RecursionError):
        meta = None
    if meta is not None and meta.billed_units is not None and meta.billed_units.search_units is not None:
        said = meta.billed_units.search_units
    return usages.first({"units": said}, "units") or 0
