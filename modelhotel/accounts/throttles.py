"""The counts of failed sign-ins of this process, independent of every rate-limit switch.

Bearer tokens have a tally of their own: a script that goes on with yesterday's token must not lock its owner, who
comes from the same address, out of the sign-in page.
"""

from modelhotel.core.faults import Refusal
from modelhotel.core.throttle import Throttle

SIGN_IN = Throttle()
BEARER = Throttle()
LOCKED = "too many failed attempts, try again later"


def by_address(address: str) -> str:
    return f"ip:{address}"


def by_name(username: str) -> str:
    return f"user:{username.strip().casefold()[:150]}"


def locked(seconds: int) -> Refusal:
    return Refusal(429, LOCKED, headers={"Retry-After": str(seconds)})
