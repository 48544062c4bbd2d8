"""One token bucket (v1-api 4.2, 4.3). Pure: the clock is an argument, in seconds of one that never goes back.

Tokens may be taken in advance, which leaves a debt that refills like anything else. A change of the limits counts from
now on: what was spent stays spent.
"""

import math

#: Longest wait that is told (seconds): a rate can be as small as one likes.
LONGEST_WAIT = 10 * 365 * 86_400.0


class Bucket:
    """*rate* tokens per second, above 0, up to *capacity*; starts full."""

    __slots__ = ("at", "capacity", "rate", "tokens")

    def __init__(self, rate: float, capacity: float, now: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self.tokens = float(capacity)
        self.at = now

    def __repr__(self) -> str:
        return f"Bucket({self.tokens:.6g} of {self.capacity:g}, {self.rate:g}/s)"

    def settle(self, now: float) -> None:
        """Add what has come in since the last look."""
        passed = now - self.at
        if passed > 0:
            self.at = now
            self.tokens = min(self.tokens + passed * self.rate, max(self.capacity, self.tokens))

    def take(self, now: float) -> float:
        """Take one token, in advance where there is none: the seconds until it is there, 0 for at once."""
        self.settle(now)
        self.tokens -= 1.0
        return wait_of(self.tokens, self.rate)

    def spend(self, now: float, amount: float) -> None:
        """Take *amount* whether or not it is there."""
        self.settle(now)
        self.tokens -= amount

    def give_back(self, now: float, amount: float = 1.0) -> None:
        """What was taken and not used; never beyond the capacity."""
        self.settle(now)
        self.tokens = max(min(self.tokens + amount, self.capacity), self.tokens)

    def change(self, rate: float, capacity: float, now: float) -> None:
        """Other limits from now on. A smaller capacity cuts, a larger one adds nothing."""
        self.settle(now)
        self.rate, self.capacity = rate, capacity
        self.tokens = min(self.tokens, float(capacity))

    def full(self, now: float) -> bool:
        """Whether forgetting this bucket would change nothing."""
        self.settle(now)
        return self.tokens >= self.capacity


def wait_of(tokens: float, rate: float) -> float:
    """Seconds until a balance of *tokens* is none below zero."""
    return min(-tokens / rate, LONGEST_WAIT) if tokens < 0 else 0.0


def retry_after_of_rate(wait: float) -> int:
    """``Retry-After`` of a request rate: rounded down, plus 1."""
    return math.floor(wait) + 1


def retry_after_of_tokens(wait: float) -> int:
    """``Retry-After`` of tokens per minute: rounded up, at least 1."""
    return max(math.ceil(wait), 1)
