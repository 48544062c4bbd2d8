"""Slowing down whoever guesses: five failures are free, then 1 s, 2 s, 4 s ... up to five minutes.

Pure: the clock is passed in, nothing is stored outside the object. Never a permanent lock; a success forgets.
"""

import math
import threading
from dataclasses import dataclass

from modelhotel.core.clock import SYSTEM, Clock

FREE = 5
#: Seconds.
MAX_WAIT = 300.0
#: Above this many keys those that no longer matter are swept.
SWEEP_ABOVE = 4096
#: Whoever uses more addresses than this loses the oldest ones, so that memory stays bounded.
HARD_LIMIT = 4 * SWEEP_ABOVE
_SWEEP_EVERY = 1.0


@dataclass(slots=True)
class _Tally:
    failures: int
    locked_until: float


class Throttle:
    """Failures per key (``ip:203.0.113.7``, ``user:anna``). Safe to use from several threads."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._tallies: dict[str, _Tally] = {}
        self._swept_at = -math.inf
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._tallies)

    def wait(self, *keys: str) -> int:
        """Whole seconds, rounded up, until the longest lock among *keys* ends; 0 = go ahead."""
        now = self._clock.monotonic()
        with self._lock:
            until = max((self._tallies[key].locked_until for key in keys if key in self._tallies), default=now)
        return max(math.ceil(until - now), 0)

    def failed(self, *keys: str) -> None:
        """Count one failure for each of *keys*."""
        now = self._clock.monotonic()
        with self._lock:
            for key in keys:
                tally = self._tallies.pop(key, None) or _Tally(0, now)
                tally.failures += 1
                over = tally.failures - FREE
                if over > 0:
                    # The exponent is capped before the power is taken: a script may fail for years.
                    tally.locked_until = now + min(2.0 ** min(over - 1, 9), MAX_WAIT)
                self._tallies[key] = tally  # re-inserted: the dict stays sorted by last failure
            self._sweep(now)

    def succeeded(self, *keys: str) -> None:
        """Forget everything about *keys*."""
        with self._lock:
            for key in keys:
                self._tallies.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._tallies.clear()

    def _sweep(self, now: float) -> None:
        if len(self._tallies) <= SWEEP_ABOVE:
            return
        if now - self._swept_at >= _SWEEP_EVERY:
            self._swept_at = now
            self._tallies = {key: tally for key, tally in self._tallies.items() if tally.locked_until > now}
        while len(self._tallies) > HARD_LIMIT:
            del self._tallies[next(iter(self._tallies))]
