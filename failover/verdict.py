"""What one finished attempt says about a circuit. Pure; the table is ``circuit-breaker`` section 3.

A :class:`Judgement` carries the verdict, the fixed cause phrase, the upstream status behind it (0 = none) and the word
of the attempts trail. Text of a provider never enters a cause.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    CHARGE = "charge"
    EXHAUSTED = "exhausted"  # opens the circuit on this one answer
    SATURATED = "saturated"  # busy: only remembered
    SUCCESS = "success"
    ALIVE = "alive"  # a health signal, not a serve
    NOOP = "noop"


@dataclass(frozen=True, slots=True)
class Judgement:
    """*trail* is the ``breaker`` member of the trail element; empty = the element has none."""

    verdict: Verdict
    cause: str = ""
    status: int = 0
    trail: str = ""


NONE = Judgement(Verdict.NOOP)
"""No verdict and no word on the trail: client left, internal fault, hedge lost."""

TRANSPORT = Judgement(Verdict.CHARGE, "upstream request failed", 0, "charge")


def success(status: int = 0) -> Judgement:
    return Judgement(Verdict.SUCCESS, "success", 0, "success")


def probe_failed(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "TTFT probe failed", status, "charge")


def stalled(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "stream stalled", status, "charge")


def broken(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "response failed after headers", status, "charge")


def empty(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "response completed without delivering content", status, "charge")


def undecodable(status: int) -> Judgement:
    return Judgement(Verdict.CHARGE, "upstream body could not be translated", status, "charge")


def of_status(status: int, *, moves_on: bool, open_on_exhaustion: bool) -> Judgement:
    """The verdict of a non-2xx answer. *moves_on*: the status (not a phrase, not a prompt too long) fails over."""
    if status in (404, 499) and moves_on:
        return Judgement(Verdict.NOOP, f"upstream status {status}", status, "noop")
    if not moves_on:
        return Judgement(Verdict.ALIVE, f"upstream status {status} (alive)", status, "alive")
    if status == 402:
        if open_on_exhaustion:
            return Judgement(Verdict.EXHAUSTED, "upstream status 402 (exhausted)", 402, "charge")
        return Judgement(Verdict.CHARGE, "upstream status 402 (payment required, not opened by setting)", 402, "charge")
    if status >= 500 or status in (401, 403, 429):
        return Judgement(Verdict.CHARGE, f"upstream status {status}", status, "charge")
    return Judgement(Verdict.ALIVE, f"upstream status {status} (alive)", status, "alive")
