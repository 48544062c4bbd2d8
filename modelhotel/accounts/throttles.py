"""The counts of failed sign-ins of this process, independent of every rate-limit switch.

Bearer tokens have a tally of their own: a script that goes on with yesterday's token must not lock its owner, who
comes from the same address, out of the sign-in page.
"""

from collections.abc import Callable
from typing import TypeVar

from modelhotel.core.faults import Refusal
from modelhotel.core.throttle import Throttle

T = TypeVar("T")
SIGN_IN = Throttle()
BEARER = Throttle()
LOCKED = "too many failed attempts, try again later"


def by_address(address: str) -> str:
    return f"ip:{address}"


def by_name(username: str) -> str:
    return f"user:{username.strip().casefold()[:150]}"


def attempt(check: Callable[[], T | None], *tally: str) -> T | None:
    """What *check* finds, None = a wrong guess, which counts. Raises Refusal(429) while locked."""
    if seconds := SIGN_IN.wait(*tally):
        raise locked(seconds)
    found = check()
    (SIGN_IN.failed if found is None else SIGN_IN.succeeded)(*tally)
    return found


def locked(seconds: int) -> Refusal:
    return Refusal(429, LOCKED, headers={"Retry-After": str(seconds)})
