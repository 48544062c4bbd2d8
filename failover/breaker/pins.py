"""How long a spent quota keeps an open circuit waiting, and who says so (``circuit-breaker`` 9.1, 10.1 to 10.3).

Pure: durations in seconds, chance handed in as drawn numbers in [0, 1).
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from failover.breaker.rules import BreakerSettings

#: At most this share of its length is added to a pin by chance, so that no two end at the same instant.
SPREAD = 0.05


class Source(StrEnum):
    ADVISOR = "advisor"  # a reading of the quota says that a window is spent
    RESERVE = "reserve"  # a reading crossed the share that the operator keeps
    ACCOUNT = "account"  # a 429 refused the account itself
    RESPONSE = "response"  # an answer's own claim about one model


#: Read from the quota: believed to its end, and never replaced by a claim.
MEASURED = frozenset({Source.ADVISOR, Source.RESERVE})
#: Whoever is pinned by one of these is dark for every model.
FOR_THE_ACCOUNT = MEASURED | {Source.ACCOUNT}


class Pin(NamedTuple):
    """*seconds* from the opening of the circuit; *seed* in [0, 1) spreads the probes of a claimed pin."""

    seconds: float
    source: Source
    seed: float = 0.0


class Advice(NamedTuple):
    """A provider's quota is spent (or past its reserve) until the wall time *deadline*."""

    deadline: datetime
    source: Source


class Evidence(NamedTuple):
    """What is known when a verdict lands. *rate_limited*: it was a 429 that counts for the escalation; *hint*: seconds
    it claims to stay spent, 0 = no claim; *account*: it refused the account; *spread* and *seed* are drawn.
    """

    rate_limited: bool = False
    hint: float = 0.0
    account: bool = False
    advice: Advice | None = None
    spread: float = 0.0
    seed: float = 0.0


NO_EVIDENCE = Evidence()


def speaks_for_account(pin: Pin | None, rules: BreakerSettings) -> bool:
    """Whether a pin in force makes the whole provider dark."""
    return pin is not None and rules.pin_max > 0 and pin.source in FOR_THE_ACCOUNT


def waits_on_claim(pin: Pin | None, rules: BreakerSettings) -> bool:
    """Whether a pin in force rests on an answer's own words: to be told the same again is no failed probe."""
    return pin is not None and rules.pin_max > 0 and pin.source not in MEASURED


def wait(pin: Pin | None, rules: BreakerSettings) -> float:
    """How long *pin* makes the circuit wait; 0 without one. A claim is tried again once per probe interval."""
    if pin is None or rules.pin_max <= 0:
        return 0.0
    if pin.source in MEASURED or rules.pin_probe <= 0:
        return pin.seconds
    return min(pin.seconds, rules.pin_probe * (1.0 + SPREAD * pin.seed))


def remaining(advice: Advice | None, now: datetime) -> float:
    """Seconds until the deadline; 0 for none and for one that has passed."""
    return max((advice.deadline - now).total_seconds(), 0.0) if advice is not None else 0.0


def longer(seconds: float, source: Source, floor: float, rules: BreakerSettings, chance: Evidence) -> Pin | None:
    """A pin of *seconds*, clamped to the ceiling and spread; None when that is not more than *floor*."""
    clamped = min(seconds, rules.pin_max)
    if clamped <= floor:
        return None
    return Pin(clamped * (1.0 + SPREAD * chance.spread), source, 0.0 if source in MEASURED else chance.seed)


def claimed(evidence: Evidence) -> Source:
    return Source.ACCOUNT if evidence.account else Source.RESPONSE


def at_open(evidence: Evidence, now: datetime, unpinned: float, rules: BreakerSettings) -> Pin | None:
    """The pin of a circuit that opens now. A reading beats any claim, even a longer one."""
    measured = remaining(evidence.advice, now)
    if evidence.advice is not None and measured > 0:
        return longer(measured, evidence.advice.source, unpinned, rules, evidence)
    if evidence.hint > 0:
        return longer(evidence.hint, claimed(evidence), unpinned, rules, evidence)
    return None
