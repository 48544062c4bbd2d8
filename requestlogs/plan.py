"""Which sums cover a stretch of time: the longest spans that fit and are up to date, shorter ones around them. Pure.

Moments are whole seconds since 1970.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from requestlogs.measures import SPANS

#: (span, first start, start after the last one)
Range = tuple[int, int, int]


def floor(moment: int, span: int) -> int:
    return moment - moment % span


def ceil(moment: int, span: int) -> int:
    return floor(moment + span - 1, span)


def by_span(stale: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """(span, start) pairs as sorted starts per span."""
    found: dict[int, list[int]] = {span: [] for span in SPANS}
    for span, start in stale:
        found[span].append(start)
    return {span: sorted(starts) for span, starts in found.items()}


def cover(low: int, high: int, stale: Mapping[int, Sequence[int]], longest: int = SPANS[-1]) -> list[Range]:
    """Ranges of slices that make up ``low <= time < high``, both whole minutes; every minute is in exactly one.

    *stale*: starts not to be used, per span, in order. Minutes are always used.
    """
    merged: list[Range] = []
    for span, first, end in _cover(low, high, stale, SPANS.index(longest)):
        if merged and merged[-1][0] == span and merged[-1][2] == first:
            merged[-1] = (span, merged[-1][1], end)
        else:
            merged.append((span, first, end))
    return merged


def _cover(low: int, high: int, stale: Mapping[int, Sequence[int]], level: int) -> Iterator[Range]:
    if low >= high:
        return
    span = SPANS[level]
    if level == 0:
        yield span, low, high
        return
    first, last = ceil(low, span), floor(high, span)
    if first >= last:
        yield from _cover(low, high, stale, level - 1)
        return
    yield from _cover(low, first, stale, level - 1)
    starts, at = stale.get(span, ()), first
    for index in range(bisect_left(starts, first), bisect_left(starts, last)):
        if starts[index] > at:
            yield span, at, starts[index]
        at = starts[index] + span
        yield from _cover(starts[index], at, stale, level - 1)
    if at < last:
        yield span, at, last
    yield from _cover(last, high, stale, level - 1)


def runs(minutes: Iterable[int], length: int = 3600) -> list[tuple[int, int]]:
    """Neighbouring minutes as (first, end) stretches within one *length*, the newest first."""
    found: list[tuple[int, int]] = []
    for start in sorted(set(minutes)):
        if found and found[-1][1] == start and floor(found[-1][0], length) == floor(start, length):
            found[-1] = (found[-1][0], start + SPANS[0])
        else:
            found.append((start, start + SPANS[0]))
    return found[::-1]
