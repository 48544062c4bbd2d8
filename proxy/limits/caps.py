"""What is allowed: the fields of a key or an account, the settings, and what both come to. Pure."""

from dataclasses import dataclass, field

from modelhotel.core import catalogue, options
from modelhotel.core.options import Options
from proxy.answers import Header

#: What an unlimited bucket reports as its limit and size (v1-api 4.5).
UNLIMITED = 1_000_000
SCOPE: Header = (b"x-ratelimit-scope", b"ip")
_ALL_LEFT: Header = (b"x-ratelimit-remaining", b"%d" % UNLIMITED)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a key or an account as they are stored; *rps* 0 = unlimited, None = nothing of its own."""

    rps: float | None = None
    burst: int | None = None
    tpm: int | None = None
    budget_usd: float | None = None
    budget_period: str | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Cap:
    """One limit in force: *rate* tokens per second, at most *capacity* at once."""

    rate: float
    capacity: int
    #: ``X-RateLimit-Limit`` and ``-Burst``.
    headers: tuple[Header, Header] = field(init=False, compare=False)
    unlimited: bool = field(init=False, compare=False)
    #: With what is left where everything always is.
    full: tuple[Header, Header, Header] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        rate, size = (plain(self.rate), b"%d" % self.capacity) if self.rate else (b"%d" % UNLIMITED,) * 2
        limit, burst = (b"x-ratelimit-limit", rate), (b"x-ratelimit-burst", size)
        object.__setattr__(self, "headers", (limit, burst))
        object.__setattr__(self, "full", (limit, _ALL_LEFT, burst))
        object.__setattr__(self, "unlimited", self.rate == 0)

    def share(self, count: int) -> "Cap":
        """The part of one of *count* processes that can not ask each other."""
        if count < 2 or self.unlimited:
            return self
        return Cap(self.rate / count, max(self.capacity // count, 1))


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings come to. *address*: None where addresses are not limited; *keys*: whether keys are."""

    address: Cap | None
    keys: bool
    rps: float
    burst: int
    tpm: int
    #: Seconds a request may be held.
    longest_hold: float

    def of_key(self, own: Limits) -> Cap:
        """The request rate of a key."""
        return Cap(self.rps if own.rps is None else own.rps, self.burst if own.burst is None else own.burst)

    def of_owner(self, own: Limits | None) -> Cap | None:
        """The request rate of an account; None where it has none of its own: accounts do not fall back."""
        if own is None or not own.rps:
            return None
        return Cap(own.rps, self.burst if own.burst is None else own.burst)

    def tokens_of_key(self, own: Limits) -> Cap | None:
        return per_minute(self.tpm if own.tpm is None else own.tpm)

    @staticmethod
    def tokens_of_owner(own: Limits | None) -> Cap | None:
        return per_minute(own.tpm) if own is not None else None


def per_minute(tpm: int | None) -> Cap | None:
    """Tokens per minute as a cap; None and 0 are none."""
    return Cap(tpm / 60.0, tpm) if tpm else None


def _read(values: Options) -> Rules:
    address = Cap(values[catalogue.RATE_LIMIT_IP_RPS], values[catalogue.RATE_LIMIT_IP_BURST])
    return Rules(
        address=address if values[catalogue.RATE_LIMIT_IP_ENABLED] else None,
        keys=values[catalogue.RATE_LIMIT_ENABLED],
        rps=values[catalogue.RATE_LIMIT_RPS],
        burst=values[catalogue.RATE_LIMIT_BURST],
        tpm=values[catalogue.RATE_LIMIT_TPM],
        longest_hold=values[catalogue.RATE_LIMIT_MAX_WAIT_MS] / 1000.0,
    )


rules = options.derived(_read)


def plain(number: float) -> bytes:
    """A rate without trailing zeros or exponent: ``10``, ``2.5``."""
    text = f"{number:.6f}".rstrip("0").rstrip(".")
    return text.encode() if text != "0" or number == 0 else f"{number:.20f}".rstrip("0").encode()


def shown(cap: Cap, tokens: float) -> tuple[Header, Header, Header]:
    """The three numbers of a bucket with *tokens* left."""
    if cap.unlimited:
        return cap.full
    limit, burst = cap.headers
    return limit, (b"x-ratelimit-remaining", b"%d" % (tokens if tokens > 0 else 0)), burst
