"""Parts of a whole as percentages that add up. Pure."""

from collections.abc import Sequence

_UNITS = 1000  # tenths of a percent


def percent(values: Sequence[int]) -> list[float]:
    """Shares in percent with one decimal; together exactly 100.0 (largest remainder, the first of equal ones first)."""
    total = sum(values)
    if not total:
        return [0.0 for _ in values]
    whole = [value * _UNITS // total for value in values]
    by_rest = sorted(range(len(values)), key=lambda at: -(values[at] * _UNITS % total))
    for at in by_rest[: _UNITS - sum(whole)]:
        whole[at] += 1
    return [units / 10 for units in whole]
