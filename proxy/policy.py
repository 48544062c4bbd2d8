"""The settings one request goes by, read together: when an answer moves on (routing B4), what is waited for. Pure."""

from dataclasses import dataclass

from modelhotel.core import catalogue, options
from modelhotel.core.options import Options

DEFAULT_STATUSES = ("5xx", "429", "401", "402", "403", "404", "499")
DEFAULT_PHRASES = (
    "model not found",
    "model does not exist",
    "model unsupported",
    "model unavailable",
    "model not available",
    "model deprecated",
    "model retired",
    "model disabled",
    "upstream failed",
    "upstream error",
    "upstream unavailable",
    "upstream timed out",
    "upstream timeout",
    "404 unsupported",
    "404 unavailable",
    "404 not available",
    "404 deprecated",
    "404 retired",
    "404 disabled",
)
HEDGE_FLOOR = 0.1
"""Shortest delay between two launches of a race. Seconds."""
ALL = 1_000_000
"""Further candidates where nothing limits them."""
HEADER_TIMEOUT = 120.0
"""Seconds to the response headers at least, where no first-token probe shortens it (failover-loop 2)."""


class Statuses:
    """A set of status codes and classes. ``5xx`` holds every status from 500 up."""

    __slots__ = ("_classes", "_codes")

    def __init__(self, words: tuple[str, ...]) -> None:
        self._codes = frozenset(int(word) for word in words if word.isdigit())
        self._classes = frozenset(int(word[0]) for word in words if not word.isdigit())

    def __contains__(self, status: int) -> bool:
        return status in self._codes or min(status // 100, 5) in self._classes

    def __bool__(self) -> bool:
        return bool(self._codes or self._classes)


@dataclass(frozen=True, slots=True)
class Phrase:
    """All *words* stand in the error's code or message; *statuses*, where there are any, hold its status."""

    words: tuple[str, ...]
    statuses: Statuses

    def matches(self, status: int, text: str) -> bool:
        """*text* is lower-cased."""
        return (not self.statuses or status in self.statuses) and all(word in text for word in self.words)


def _is_status(word: str) -> bool:
    return len(word) == 3 and word[0].isdigit() and (word.isdigit() or word[1:] == "xx")


def _phrase(text: str) -> Phrase:
    words = text.lower().split()
    return Phrase(
        tuple(word for word in words if not _is_status(word)), Statuses(tuple(w for w in words if _is_status(w)))
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """*further*: how many candidates may be contacted after the first. *breaking*: circuits are read and written.

    *headers* and *stream_headers*: seconds from the request being written to the response headers. *ttft*, *stall* and
    *slow_call* are seconds, 0 = no limit; *hedge* those between two launches, 0 = no race.
    *retry_5xx*: the last candidate's one repetition (failover-loop 6.2).

    For a 429: *classify* reads what it says; *saturation_max_wait* is the line between busy and spent and the longest
    wait for a busy provider; *recent_success*: an unreadable one counts as busy so long after an answer, 0 = never;
    *wait_in_place*: the longest stated wait that is waited out on the spot, 0 = none. Seconds. *busy_429*: where all
    are busy the client gets a 429, else a 502. *learning*: in-flight limits are learned and kept (failover-loop 8.1).

    *request_timeout*: seconds of one attempt that is no stream. *answer_headers*: answers say who served and how long
    the gateway took.

    *recovers*: whether a group that does not say has its broken streams finished by the next candidate, *recoveries*:
    how often for one request.
    """

    further: int
    on_rate_limit: bool
    statuses: Statuses
    phrases: tuple[Phrase, ...]
    breaking: bool
    open_on_exhaustion: bool
    retry_5xx: bool
    retry_5xx_in_place: bool
    classify: bool
    saturation_max_wait: float
    recent_success: float
    wait_in_place: float
    busy_429: bool
    headers: float
    stream_headers: float
    ttft: float
    stall: float
    expose_usage: bool
    hedge: float
    slow_call: float
    recovers: bool
    recoveries: int
    learning: bool
    request_timeout: float
    answer_headers: bool

    def by_status(self, status: int) -> bool:
        """Whether an answer of this effective status moves on for its status."""
        return status in self.statuses and (status != 429 or self.on_rate_limit)

    def by_phrase(self, status: int, text: str) -> bool:
        """Whether it moves on for its *text* (error code and message)."""
        if status == 429 and not self.on_rate_limit:
            return False
        lowered = text.lower()
        return any(phrase.matches(status, lowered) for phrase in self.phrases)


def _read(opts: Options) -> Policy:
    further = opts[catalogue.FAILOVER_MAX_ATTEMPTS] or ALL
    request_timeout, ttft = opts[catalogue.REQUEST_TIMEOUT], opts[catalogue.TTFT_TIMEOUT]
    return Policy(
        further if opts[catalogue.FAILOVER_ENABLED] else 0,
        opts[catalogue.FAILOVER_ON_RATE_LIMIT],
        Statuses(tuple(w.lower() for w in opts[catalogue.FAILOVER_RETRY_ON_STATUSES]) or DEFAULT_STATUSES),
        tuple(_phrase(text) for text in opts[catalogue.FAILOVER_RETRY_ON_ERRORS] or DEFAULT_PHRASES),
        breaking=opts[catalogue.CIRCUIT_BREAKER_ENABLED],
        open_on_exhaustion=opts[catalogue.CIRCUIT_BREAKER_OPEN_ON_EXHAUSTION],
        retry_5xx=opts[catalogue.SERVER_ERROR_RETRY_ENABLED],
        retry_5xx_in_place=opts[catalogue.SERVER_ERROR_RETRY_IN_PLACE],
        classify=opts[catalogue.RATE_LIMIT_CLASSIFY_ENABLED],
        saturation_max_wait=opts[catalogue.RATE_LIMIT_SATURATION_MAX_WAIT],
        recent_success=opts[catalogue.RATE_LIMIT_RECENT_SUCCESS_WINDOW],
        wait_in_place=opts[catalogue.RATE_LIMIT_WAIT_IN_PLACE],
        busy_429=opts[catalogue.FAILOVER_EXHAUSTION_STATUS_429],
        headers=max(HEADER_TIMEOUT, request_timeout),
        stream_headers=max(ttft if ttft > 0 else HEADER_TIMEOUT, request_timeout),
        ttft=ttft,
        stall=opts[catalogue.STREAM_STALL_TIMEOUT],
        expose_usage=opts[catalogue.EXPOSE_USAGE_CHUNK],
        hedge=max(opts[catalogue.HEDGE_DELAY], HEDGE_FLOOR) if opts[catalogue.HEDGING_ENABLED] else 0.0,
        slow_call=opts[catalogue.CIRCUIT_BREAKER_SLOW_CALL_THRESHOLD],
        recovers=opts[catalogue.MIDSTREAM_RECOVERY_DEFAULT] == "continue",
        recoveries=opts[catalogue.MIDSTREAM_RECOVERY_MAX],
        learning=opts[catalogue.INFLIGHT_LIMITER_ENABLED],
        request_timeout=request_timeout,
        answer_headers=opts[catalogue.ANSWER_HEADERS],
    )


#: The policy that options state; read anew only when they were swapped.
of = options.derived(_read)
