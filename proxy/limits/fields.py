"""Limits as somebody asks for them: what is refused, and with which words (v1-api 5.4). Pure."""

from collections.abc import Mapping
from typing import Any

from modelhotel.core.faults import Refusal
from modelhotel.core.limitbounds import MAX_BUDGET, MAX_BURST, MAX_RPS, MAX_TPM, PERIODS
from modelhotel.core.text import clip, one_line

RATES = ("rate_limit_rps", "rate_limit_burst", "rate_limit_tpm")
BUDGET = ("budget_usd", "budget_period")
FIELDS = (*RATES, *BUDGET)

#: Field -> (lowest, what a lower one is told, highest).
_BOUNDS: dict[str, tuple[float, str, int]] = {
    "rate_limit_rps": (0, "must be >= 0", MAX_RPS),
    "rate_limit_burst": (1, "must be >= 1 (use null to fall back to global settings)", MAX_BURST),
    "rate_limit_tpm": (1, "must be >= 1 (use null for no cap / global default)", MAX_TPM),
}
_TOGETHER = "budget_usd and budget_period go together: set both or neither"


def merged(given: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """All of :data:`FIELDS` once *given* is applied to *now*. Raises Refusal.

    Half of a budget that is null takes the other half with it, unless that one is given too.
    """
    found = {name: given.get(name, now.get(name)) for name in FIELDS}
    for one, other in (BUDGET, BUDGET[::-1]):
        if one in given and given[one] is None and other not in given:
            found[other] = None
    _check(found)
    return found


def _check(values: Mapping[str, Any]) -> None:
    for name, (low, too_low, high) in _BOUNDS.items():
        value = values[name]
        if value is None:
            continue
        if not value >= low:
            raise Refusal(400, f"{name} {too_low}", field=name)
        if value > high:
            raise Refusal(400, f"{name} must be <= {high}", field=name)
    dollars, period = values["budget_usd"], values["budget_period"]
    if dollars is not None and not dollars > 0:
        raise Refusal(400, "budget_usd must be > 0 (use null for no budget)", field="budget_usd")
    if dollars is not None and dollars > MAX_BUDGET:
        raise Refusal(400, f"budget_usd must be <= {MAX_BUDGET}", field="budget_usd")
    if period is not None and period not in PERIODS:
        shown = clip(one_line(str(period)), 60)
        raise Refusal(400, f'budget_period must be one of day, week, month; got "{shown}"', field="budget_period")
    if (dollars is None) != (period is None):
        raise Refusal(400, _TOGETHER, field="budget_period" if period is None else "budget_usd")
