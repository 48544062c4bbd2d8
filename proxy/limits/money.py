"""Money in 10^-10 dollars, whole numbers, so that sums are exact (as ``cost_usd`` is stored). Pure."""

from typing import Literal

#: Units of a dollar.
DOLLAR = 10_000_000_000
#: Who spends: a virtual key, or the account that owns some.
Subject = Literal["key", "user"]


def units(dollars: float) -> int:
    return round(dollars * DOLLAR)
