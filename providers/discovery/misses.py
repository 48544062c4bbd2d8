"""Three proofs before a model is switched off because its provider no longer lists it. Pure.

A listing that lacks a model is asked for twice more (*confirmation*); if too much is gone at once it is not believed
(*guard*); and what is believed must be seen in two sweeps in a row (*streak*).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

#: Seconds before each further listing; each plus up to JITTER seconds by chance.
CONFIRM_AFTER = (15.0, 45.0)
JITTER = 5.0
#: So many models may vanish at once, or up to this share of them, before the listing is not believed.
FLOOR, SHARE = 5, 0.5
#: Confirmed misses in a row that switch a model off.
STREAK = 2
#: Every so many suspect scans in a row the operator is told that the removal may be real.
TELL_EVERY = 3


@dataclass(frozen=True, slots=True)
class Stored:
    """What a verdict needs of a stored row. *pinned*: the operator switched it on although it was not listed."""

    model_id: str
    pinned: bool = False
    streak: int = 0


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Ids that at least one of the listings of a scan named. *listed*: those of the first one, what was stored.

    *failed*: a further listing could not be had, so nothing is known of what it would have named.
    """

    listed: frozenset[str]
    found: frozenset[str]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a scan says of the enabled models of a provider.

    *streaks*: model id -> its new ``missing_scans``, of the rows whose number changes; *gone* are to be switched off.
    *suspect*: the guard does not believe the listing; *missing* of *enabled* is what it judged by. *trusted*: the
    misses are recorded, nothing stood against it.
    """

    streaks: dict[str, int] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    trusted: bool = False
    suspect: bool = False
    missing: int = 0
    enabled: int = 0


def absent(enabled: Iterable[str], listed: Collection[str]) -> frozenset[str]:
    """The ids of *enabled* that *listed* lacks."""
    return frozenset(model_id for model_id in enabled if model_id not in listed)


def waits(chance: Callable[[], float]) -> list[float]:
    """Seconds before each confirmation; *chance* gives 0 to 1."""
    return [seconds + JITTER * chance() for seconds in CONFIRM_AFTER]


def judge(stored: Iterable[Stored], confirmed: Confirmed) -> Verdict:
    """*stored* are the enabled rows that the scan could have seen. A failed confirmation judges nothing."""
    rows = list(stored)
    if confirmed.failed:
        return Verdict()
    free = [row for row in rows if not row.pinned]
    missing = [row for row in rows if row.model_id not in confirmed.found]
    vanished = sum(not row.pinned for row in missing)
    if not confirmed.found and rows:
        return Verdict(suspect=True, missing=len(missing), enabled=len(rows))
    if vanished > FLOOR and vanished > SHARE * len(free):
        return Verdict(suspect=True, missing=vanished, enabled=len(free))
    seen = {row.model_id: 0 for row in rows if row.streak and row.model_id in confirmed.found}
    if not confirmed.listed:  # an empty listing records no misses, whatever a later one names
        return Verdict(streaks=seen)
    gone = tuple(row.model_id for row in missing if not row.pinned and row.streak + 1 >= STREAK)
    counted = {row.model_id: 0 if row.model_id in gone else row.streak + 1 for row in missing}
    return Verdict({**seen, **counted}, gone, trusted=True, missing=vanished, enabled=len(free))


def tells(consecutive: int) -> bool:
    """Whether this many suspect scans in a row are told as a suspected removal."""
    return consecutive > 0 and consecutive % TELL_EVERY == 0
