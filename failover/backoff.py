"""Every wait of the failover machinery. Pure: chance is handed in as a callable that yields [0, 1). Seconds."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ldexp

Chance = Callable[[], float]

#: Enough doublings to pass any ceiling a setting can hold, few enough never to overflow a float.
_MOST_DOUBLINGS = 64


def probe(base: float, failed_probes: int, ceiling: float) -> float:
    """The cooldown that *failed_probes* in a row earn: base doubled by each, at most *ceiling*; 0 = none earned."""
    if failed_probes <= 0:
        return 0.0
    return min(ldexp(base, min(failed_probes, _MOST_DOUBLINGS)), ceiling)


@dataclass(frozen=True, slots=True)
class Doubling:
    """*base*, doubled each time up to *cap*, plus a uniform extra in [0, *jitter*)."""

    base: float
    cap: float
    jitter: float

    def wait(self, nth: int, chance: Chance) -> float:
        """The wait before the *nth* repetition, counted from 1."""
        doubled = ldexp(self.base, min(max(nth, 1) - 1, _MOST_DOUBLINGS))
        return min(doubled, self.cap) + chance() * self.jitter


#: Before the k-th further contact of one request (k = candidates contacted so far).
BETWEEN_CANDIDATES = Doubling(base=0.1, cap=2.0, jitter=0.1)

#: Before the t-th transport retry against the same provider.
TRANSPORT_RETRY = Doubling(base=0.1, cap=0.5, jitter=0.1)

#: Transport retries of one attempt; three tries in all.
TRANSPORT_RETRIES = 2

#: The last candidate's one repetition after a transient 5xx: wait, spread, and the overall budget it needs.
SERVER_ERROR_WAIT = 0.5
SERVER_ERROR_JITTER = 0.5
SERVER_ERROR_ROOM = 1.1


#: The quick repetition of a 5xx on the same candidate: wait and spread.
IN_PLACE_WAIT = 0.1
IN_PLACE_JITTER = 0.1


def in_place(chance: Chance) -> float:
    """The wait before a 5xx is repeated in place."""
    return IN_PLACE_WAIT + chance() * IN_PLACE_JITTER


def server_error_fits(room: float) -> bool:
    """Whether *room* seconds of overall budget allow the repetition; judged before the answer in hand is drained."""
    return room >= SERVER_ERROR_ROOM


def server_error(room: float, chance: Chance) -> float:
    """The wait before the repetition, shortened to the *room* left."""
    return min(SERVER_ERROR_WAIT + chance() * SERVER_ERROR_JITTER, max(room, 0.0))
